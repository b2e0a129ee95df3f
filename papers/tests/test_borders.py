"""Borders of the study: it uses the tool only through the modules listed here, without names that begin with an
underscore."""

import ast
import pathlib

import pytest
import test_tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = sorted([*ROOT.glob("papers/isthmus_papers/**/*.py"), *ROOT.glob("papers/notebooks/*.py")])

#: Modules of `isthmus` that others may build on.
PUBLIC = {
    "isthmus", "isthmus.cli", "isthmus.exits", "isthmus.grouping", "isthmus.inputs", "isthmus.plugins",
    "isthmus.spelling", "isthmus.units",
    "isthmus.records.fields", "isthmus.records.copies", "isthmus.records.hardware", "isthmus.records.jobs",
    "isthmus.records.load", "isthmus.records.measurements", "isthmus.records.reading", "isthmus.records.store",
    "isthmus.records.validate",
    "isthmus.statistics.rank_test", "isthmus.statistics.series", "isthmus.statistics.spread",
    "isthmus.tables.output", "isthmus.tables.readings",
    "isthmus.references.lookup", "isthmus.faults.tracefile", "isthmus.figures", "isthmus.figures.plots",
    "isthmus.advise.overlap", "isthmus.advise.batches", "isthmus.verdicts.noise", "isthmus.verdicts.comparison",
}  # fmt: skip


def trespasses(text: str) -> list[str]:
    """Returns the modules and names of the tool that a module imports although it should not."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.split(".")[0] == "isthmus"]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "isthmus":
            whole = [f"{node.module}.{each.name}" for each in node.names]
            inner = node.module not in PUBLIC
            found += [
                name for each, name in zip(node.names, whole)
                if each.name.startswith("_") or (inner and name not in PUBLIC)
                or (node.module == "isthmus" and each.name.islower() and name not in PUBLIC | {"isthmus.frame"})
            ]  # fmt: skip
    return [name for name in found if name not in PUBLIC]


def test_the_study_is_here():
    assert len(TEXTS) > 20


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_only_public_modules_are_read(path):
    assert trespasses(path.read_text("utf-8")) == []


def test_the_list_of_python_tools_names_what_each_of_them_asks_for():
    left_out = {"reframe-hpc: polars", "onnxruntime: flatbuffers"}
    assert test_tree.unlisted("scripts/requirements.txt", "papers/requirements.txt") == left_out  # the lists state why


def test_an_inner_module_is_seen():
    text = (
        "from isthmus.verdicts import missing\nfrom isthmus.units import _UNITS\nfrom isthmus import streams, units\n"
    )
    assert trespasses(text) == ["isthmus.verdicts.missing", "isthmus.units._UNITS", "isthmus.streams"]
