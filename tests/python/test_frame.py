"""Tests of reading records as a data frame of pandas or polars with one call."""

import builtins
import pathlib
import sys

import pytest
from histories import record, write

import isthmus
from isthmus.tables import output, readings

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "papers/data/h200/stream.jsonl.gz"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_one_line_makes_a_frame(library):
    pytest.importorskip(library)
    found = isthmus.frame(EXAMPLE, library=library)
    columns = list(found.columns)
    assert type(found).__module__.startswith(library) and columns[: len(output.CASE)] == list(output.CASE)
    triad = found[found["workload"] == "stream/gpu0/triad"] if library == "pandas" else found.filter(
        found["workload"] == "stream/gpu0/triad"
    )  # fmt: skip
    rates = triad[triad["metric"] == "rate"] if library == "pandas" else triad.filter(triad["metric"] == "rate")
    assert min(rates["value"]) > 1e10 and max(rates["value"]) < 1e13
    assert {int(size) for size in rates["bytes"]} >= {2**28, 2**29}
    assert all(low <= value <= high for low, value, high in zip(rates["low"], rates["value"], rates["high"]))


def test_rows_count_unless_everything_is_asked_for(tmp_path):
    cases = [record(0.001 * (n + 1), job=str(n), axes={"n": n}) for n in range(4)]
    cases[1]["error"] = "it broke"
    cases[2]["emulated"] = True
    cases[3]["warnings"] = [{"code": "throttled", "message": "hot", "samples": None}]
    folder = write(tmp_path, cases)
    kept = readings.rows_of([folder])
    assert [(row["n"], row["value"]) for row in kept.rows] == [(0, 0.001)]
    every = readings.rows_of([folder], emulated=True, everything=True)
    assert {row["n"] for row in every.rows} == {0, 1, 2, 3}
    assert {row.get("error") for row in every.rows} == {None, "it broke"}


def without(monkeypatch, *names):
    real = builtins.__import__

    def imported(name, *rest, **named):
        if name in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(builtins, "__import__", imported)


@pytest.mark.parametrize("library, said", [
    (None, "neither pandas nor polars is installed; run `pip install pandas`"),
    ("polars", "polars is not installed; run `pip install polars`"),
    ("numpy", "'numpy' is not a library of data frames; choose pandas or polars"),
])  # fmt: skip
def test_a_library_that_is_not_there_is_one_sentence(monkeypatch, library, said):
    without(monkeypatch, "pandas", "polars")
    with pytest.raises(isthmus.Error) as refused:
        isthmus.frame(EXAMPLE, library=library)
    assert str(refused.value) == said


def test_importing_isthmus_imports_no_library():
    import subprocess

    code = "import sys, isthmus; print(sorted({'pandas', 'polars', 'numpy', 'duckdb'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT / "analysis")})  # fmt: skip
    assert done.stdout.strip() == "[]"
