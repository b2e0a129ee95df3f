"""Tests that each room of the analysis imports only from the rooms above it in the list of `isthmus.__doc__`."""

import ast
import pathlib
import re

import pytest

import isthmus

FOLDER = pathlib.Path(isthmus.__file__).parent
ROOMS = re.findall(r"^(\w+)  +\S", isthmus.__doc__, re.MULTILINE)
SHARED = {
    "exits",
    "grouping",
    "inputs",
    "options",
    "plugins",
    "spelling",
    "start",
    "streams",
    "tools",
    "units",
    "variables",
}


def imported(text: str, package: str = "isthmus") -> set[str]:
    """Returns the rooms and modules of the package that a module imports, at any place in its text."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            below = node.module.split(".")[1:]
            found |= {below[0]} if below else {each.name for each in node.names if each.name[0].islower()}
        if isinstance(node, ast.Import):
            found |= {each.name.split(".")[1] for each in node.names if each.name.startswith(f"{package}.")}
    return found


def trespasses(room: str, text: str) -> set[str]:
    """Returns the rooms that a module of a room imports but must not import."""
    return imported(text) - SHARED - {*ROOMS[: ROOMS.index(room) + 1]}


def test_every_folder_is_a_room_that_the_list_names():
    assert sorted(path.parent.name for path in FOLDER.glob("*/__init__.py")) == sorted(ROOMS)
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", "__main__", "cli"} | SHARED


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_from_those_above_it_only(room):
    wrong = {path.name: trespasses(room, path.read_text("utf-8")) for path in (FOLDER / room).glob("*.py")}
    assert not {name: found for name, found in wrong.items() if found}


def test_an_import_from_below_is_seen():
    assert trespasses("records", "from isthmus import Error, cli\nfrom isthmus.tables import output") == {
        "cli",
        "tables",
    }
    assert trespasses("site", "import isthmus.records.load\nfrom isthmus.site import check") == set()


def test_rooms_re_export_nothing():
    assert not [room for room in ROOMS if imported((FOLDER / room / "__init__.py").read_text("utf-8"))]
