"""Tests of one session with a fault in each of its jobs.

A fault must not be wrongly green, and complete records must not be lost or kept twice. The faults are in faults.py;
docs/slurm.md says what the session must report for each, and how many records are kept.
"""

import collections
import json
import re

import pytest

from conftest import HOST, Session, needs
from faults import FAULTS, rows
from isthmus.records import load

Ended = collections.namedtuple("Ended", "result reason kind lines")


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Returns, for each fault, how its check ended and the lines of its records that are in the results folder."""
    session = Session(tmp_path_factory.mktemp("faults"), checks="tests/slurm/faulty_checks.py", FAULTY_BENCH=HOST,
                      site={"scheduler": "slurm"}).finish()  # fmt: skip
    assert not session.results_left_aside
    lines = collections.defaultdict(list)
    for path in session.results.glob("*.jsonl"):
        lines[re.fullmatch(r"\w+-example-slurm_main-(.*?)-\w+-job\d+", path.stem)[1]] += path.read_text().splitlines()
    [run] = json.loads((session.folder / "report.json").read_text())["runs"]
    return {
        case["fault"]: Ended(
            case["result"], case.get("fail_reason"), (case.get("fail_info") or {}).get("exc_type"),
            lines[re.sub(r"\W+", "_", case["fault"])],
        )
        for case in run["testcases"]
    }  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=needs(HOST)) if f.real else n for n, f in FAULTS.items()])
def test_a_fault(ended, name):
    found = ended[name]
    [row] = [row for row in rows() if row.fault == name]
    print(found.reason)
    if row.says.startswith("green"):
        assert found.result == "pass"
    else:
        assert found.result == "fail" and found.kind in ("SanityError", "Interrupted")
        assert row.sentence.fullmatch(found.reason.removeprefix("sanity error: "))
    assert len(found.lines) == len(set(found.lines)) == int(row.kept)
    for line in found.lines:
        load.parse(line, where=name)
