"""Tests of the tables of faults in docs/slurm.md, which must name existing tests that expect the same sentences."""

import ast
import collections
import functools
import re
import sys

import pytest

from conftest import ROOT

sys.path.append(str(ROOT / "tests/slurm"))
import faults

ROWS = faults.rows()


@functools.cache
def module(name):
    return ast.parse((ROOT / f"tests/{name}.py").read_text(encoding="utf-8"))


def texts(tree):
    """Returns the string constants in a syntax tree. In f-strings, … replaces the inserted values."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.append("".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values))
    return found


def function(row):
    file, _, name = row.test.partition("::")
    [found] = [n for n in module(file).body if isinstance(n, ast.FunctionDef) and n.name == name.partition("[")[0]]
    return found


def fits(row, text):
    """Returns whether a test's text fits the row's sentence, which must contain the text's fixed parts in order."""
    parts = [re.escape(part) for part in text.split("…")]
    sentence = row.says.replace("`", "")
    return bool(re.search(".*?".join(parts), sentence)) or bool(row.says.count("`") and row.sentence.fullmatch(text))


def test_there_are_sixty_kinds_and_no_more_than_one_row_of_each():
    kinds = collections.Counter(row.fault for row in ROWS)
    assert len(kinds) >= 60 and set(kinds.values()) == {1}


def test_the_changelog_says_how_many_kinds_there_are():
    said = re.findall(r"(\d+) kinds of fault", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert [int(number) for number in said] == [len(ROWS)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.fault)
def test_a_row_names_its_test(row):
    if row.test.startswith("harness/"):
        file, _, name = row.test.partition("::")
        assert f", {name}) {{" in (ROOT / f"tests/{file}.cpp").read_text(encoding="utf-8")
        return
    tree = function(row)
    case = row.test.partition("[")[2].removesuffix("]")
    if row.fault in faults.FAULTS:
        assert row.test == "slurm/test_many_faults::test_a_fault"  # this test compares the full sentence
        return
    assert tree.name != "test_a_fault"
    given = texts(tree) + texts(
        ast.Module([n for n in module(row.test.split("::")[0]).body if isinstance(n, ast.Assign)], [])
    )
    assert not case or case in given
    if "`" in row.says:
        assert any(len(text) > 5 and fits(row, text) for text in given), [t for t in given if len(t) > 5]


def test_each_fault_of_the_session_with_many_has_its_row():
    assert {row.fault for row in ROWS if row.test == "slurm/test_many_faults::test_a_fault"} == set(faults.FAULTS)


def test_a_row_that_is_wrong_is_found():
    row = next(row for row in ROWS if row.test.endswith("test_killed_job_script"))
    test_a_row_names_its_test(row)
    for wrong in (row._replace(test="slurm/test_faults::test_none"), row._replace(says="`the job ended`")):
        with pytest.raises((ValueError, AssertionError)):
            test_a_row_names_its_test(wrong)
