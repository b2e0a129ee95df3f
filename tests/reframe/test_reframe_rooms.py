"""Tests that imports between the rooms and other modules of isthmus_reframe have no cycle.

The rooms are gates, judge and families.
"""

import graphlib
import pathlib

import pytest
from test_rooms import imported

from conftest import ROOT

PACKAGE = ROOT / "reframe/isthmus_reframe"


def rooms(package: pathlib.Path) -> dict[str, set[str]]:
    """Returns the imports of each room, and of each module outside the rooms, from other rooms and modules."""
    found = {}
    for path in package.rglob("*.py"):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        found.setdefault(room, set()).update(imported(path.read_text("utf-8"), "isthmus_reframe") - {room})
    return found


def test_the_rooms_import_in_no_circle():
    found = rooms(PACKAGE)
    assert {"gates", "judge", "families", "check", "program"} <= set(found)
    graphlib.TopologicalSorter(found).prepare()


def test_a_circle_is_seen(tmp_path):
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates/session.py").write_text("def late():\n    from isthmus_reframe.check import IsthmusCheck\n")
    (tmp_path / "check.py").write_text("from isthmus_reframe.gates import session\n")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(rooms(tmp_path)).prepare()
