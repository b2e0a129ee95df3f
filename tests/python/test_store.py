"""Tests of the loader: one table of a folder's records, whatever else is in the folder, and equal compacted tables."""

import concurrent.futures
import copy
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Error, cli, exits
from isthmus.records import compact, compacted, copies, fields, load, measurements, reading, selection, store, validate
from isthmus.statistics import series

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402

GOOD = fake_bench.record("microbench/saxpy", "pm", "tiny", "cuda") | {"emulated": False}
LINE = json.dumps(GOOD)
COUNTS = """SELECT count(*) AS rows, count(*) FILTER (metric_index = 0) AS records, count(DISTINCT job) AS jobs,
    sum(n_samples) AS samples, round(sum(ln(median)) FILTER (median > 0), 6) AS medians FROM measurements"""


def write(path, *lines, end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def changed(**changes):
    record = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *outer, last = path.split("__")
        inner = record
        for name in outer:
            inner = inner[name]
        inner[last] = value
    return record


def other(n):
    """Returns the line of a record that differs from LINE and is identified by `n`."""
    return json.dumps(changed(run__id=f"another-{n}"))


ANOTHER = other(0)


def skipped(*paths, **options):
    with store.open_store(paths, **options) as opened:
        return opened.skipped


def counts(*paths, **options):
    with store.open_store(paths, **options) as opened:
        return opened.rows(COUNTS)[0]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*fields.INVALIDATING, "power_limited", "latch_timeout"]), st.sampled_from([None, [0], ...])
        ),
        max_size=3,
    ),
    st.booleans(),
)
def test_what_invalidates_a_record_is_the_same_in_sql_and_in_python(tmp_path_factory, warnings, ranks):
    told = [{"code": code, "message": "x", "samples": samples} for code, samples in warnings]
    case = changed(warnings=[{k: v for k, v in warning.items() if v is not ...} for warning in told])
    if ranks:
        each = [{"node": "n", "local_rank": rank, "device": None} for rank in range(2)]
        case["ranks"] = {"count": 2, "library": "MPI", "each": each}
    path = write(tmp_path_factory.mktemp("invalid") / "r.jsonl", json.dumps(case))
    assert validate.problem(case) is None
    with store.open_store([path]) as opened:
        assert opened.invalid == (len(fields.invalidating(case)) > 0)


@pytest.mark.parametrize("status", ["pass", "fail", "not_applicable", "not_run"])
@pytest.mark.parametrize("outcome", [{}, {"error": "device lost"}, {"skipped": "no peer access"}])
def test_what_failed_is_the_same_in_sql_and_in_python(tmp_path, status, outcome):
    record = changed(verify__status=status, **outcome)
    folder = write(tmp_path / "r.jsonl", json.dumps(record)).parent
    with store.open_store([folder]) as opened:
        [(failed, counted)] = opened.sql(
            f"SELECT DISTINCT {series.FAILED}, {series.COUNTS} FROM measurements"
        ).fetchall()
    why = fields.failure(record)
    assert failed == (why is not None) and counted == (not why and not record["skipped"])
    assert (why is None) == (not outcome.get("error") and status != "fail" and (status != "not_run" or bool(outcome)))


def test_committed_records_are_all_in_the_table():
    with store.open_store([ROOT / "papers/data"], profiled=True) as opened:
        assert not opened.skipped
        found = opened.rows("SELECT file, count(*) FILTER (metric_index = 0) AS n FROM measurements GROUP BY file")
        rows = opened.rows(
            "SELECT metric, median, n_samples FROM measurements WHERE file LIKE '%medium.jsonl' ORDER BY ALL"
        )
    expected = {str(path): len(load.read(path)) for path in (ROOT / "papers/data").rglob("*.jsonl*")}
    assert {row["file"]: row["n"] for row in found} == expected
    medium = [m for record in load.read(ROOT / "papers/data/h200/medium.jsonl") for m in record["metrics"]]
    assert sorted((row["metric"], row["median"], row["n_samples"]) for row in rows) == sorted(
        (m["name"], m["median"], len(m["samples"])) for m in medium
    )


def test_everything_that_is_read_is_in_the_schema():
    schema = json.loads(validate.schema_path().read_text())["properties"]
    for name, read in measurements._READ.items():
        if isinstance(read, list):
            assert set(read[0]) <= set(schema[name]["items"]["properties"]) | LOOSE.get(name, set())
        elif isinstance(read, dict):
            assert set(read) <= set(schema[name]["properties"])
        else:
            assert name in schema


LOOSE = {"devices": {"memory_bandwidth", "fp32_rate"}}  # fields that the schema allows in devices without naming them


@pytest.mark.parametrize(
    "text, why",
    [
        (LINE[:300], "line 1: cut short"),
        ("a,b\n1,2\n", "line 1: not JSON"),
        ('{"a": 1}\n[1, 2]\n3\n', "line 1: another schema"),
        ("\0" * 1000, "line 1: not JSON"),
        ('{"a":' + "[" * 50_000 + "]" * 50_000 + "}\n", "line 1: not JSON"),
        (json.dumps({**GOOD, "schema": "somebody/1"}), "line 1: another schema"),
        (json.dumps({**GOOD, "version": "one"}), "version: 'one' is not"),
        (json.dumps({**GOOD, "metrics": [5]}), "metrics/0: 5 is not"),
        (json.dumps({**GOOD, "metrics": GOOD["metrics"] + GOOD["metrics"][:1]}), "two metrics have the same name"),
        (json.dumps({**GOOD, "metrics": [{**GOOD["metrics"][0], "median": float("nan")}]}), "NaN is not JSON"),
        (json.dumps({**GOOD, "metrics": [{**GOOD["metrics"][0], "median": float("inf")}]}), "Infinity is not JSON"),
    ],
)
def test_what_is_no_record_file_is_named_and_counted(tmp_path, capsys, text, why):
    write(tmp_path / "good.jsonl", LINE)
    write(tmp_path / "bad.jsonl", text, end="")
    with store.open_store([tmp_path]) as opened:
        assert opened.rows(COUNTS)[0]["records"] == 1
        assert [each.path for each in opened.skipped] == [str(tmp_path / "bad.jsonl")]
        selection.say_left_out(opened)
    said = capsys.readouterr().err
    assert "1 of 2 files skipped" in said
    for take in (lambda paths: store.open_store(paths), reading.read_files):
        with pytest.raises(Error) as alone:
            take([tmp_path / "bad.jsonl"])
        assert str(alone.value).startswith(f"{tmp_path}/bad.jsonl: ") and why in str(alone.value)
        assert str(alone.value).count("bad.jsonl") == 1
        assert re.search("run it again with --resume|; name files that isthmus-bench wrote$", str(alone.value))
    write(tmp_path / "worse.jsonl", text, end="")
    with pytest.raises(Error, match=f"none of 2 files contains readable records.*{why}"):
        store.open_store([tmp_path / "bad.jsonl", tmp_path / "worse.jsonl"])


@pytest.mark.parametrize(
    "text, records, why",
    [
        (f"{LINE}\n{LINE[:300]}", 1, "line 2: cut short"),
        (f"{LINE}\n{LINE[:300]}\n{ANOTHER}\n", 2, "line 2: not JSON"),
        (f"{LINE}\n\xff\n{LINE[:9]}\n{ANOTHER}", 2, "line 2: not JSON"),
        (f"{LINE}\n{'x' * (9 << 20)}\n{ANOTHER}\n", 2, "line 2: longer than 8 MiB"),
    ],
    ids=["last line cut", "half a line between", "two bad lines", "a line that is too long"],
)
def test_a_bad_line_costs_that_line_alone(tmp_path, capsys, text, records, why):
    """Reads files with bad lines. Good lines are used, the bad lines are named, and no command passes."""
    write(tmp_path / "bad.jsonl", text, end="")
    for again in (False, True):
        with store.open_store([tmp_path]) as opened:
            assert opened.rows(COUNTS)[0]["records"] == records
            assert {row["file"] for row in opened.rows("SELECT DISTINCT file FROM measurements")} == {
                str(tmp_path / "bad.jsonl")
            }
            assert [(each.path, each.has_part) for each in opened.skipped] == [(str(tmp_path / "bad.jsonl"), True)]
            assert why in opened.skipped[0].why
            selection.say_left_out(opened)
        assert f"used in part {tmp_path}/bad.jsonl: {why}" in capsys.readouterr().err
        if not again:
            cli.main(["compact", str(tmp_path)])
            capsys.readouterr()
    cases, code = reading.read_files([tmp_path / "bad.jsonl"])
    assert (len(cases), code) == (records, exits.UNDECIDED)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_an_end_stops_its_file_and_no_other(tmp_path, monkeypatch, packed):
    """Reads an endless line, in a sparse file or a small packed one, which would otherwise be read for hours."""
    write(tmp_path / "good.jsonl", LINE)
    endless = tmp_path / f"endless.jsonl{'.gz' if packed else ''}"
    with gzip.open(endless, "wb", 1) if packed else endless.open("wb") as file:
        file.write(ANOTHER.encode() + b"\n" + b"x" * (80 << 20))
    if not packed:
        os.truncate(endless, 1 << 40)
    with store.open_store([tmp_path]) as opened:
        assert opened.rows(COUNTS)[0]["records"] == 2
        [skipped] = opened.skipped
        assert "64 MiB without an end, so it and what follows is not read" in skipped.why
    cases, code = reading.read_files([tmp_path])
    assert (len(cases), code) == (2, exits.UNDECIDED)
    with pytest.raises(Error, match="longer than 8 MiB"):
        load.read(endless)


@pytest.mark.parametrize("line, why", [("", "line 2: an empty line"), ("{}", "line 2: another schema")])
def test_of_very_many_bad_lines_no_more_are_read_than_are_worth_it(tmp_path, monkeypatch, line, why):
    monkeypatch.setattr(load, "_MOST_BAD", 100)
    few = write(tmp_path / "few.jsonl", LINE, *[line] * 99, ANOTHER)
    many = write(tmp_path / "many.jsonl", LINE, *[line] * 100, ANOTHER)
    for file, records in ((few, 2), (many, 1)):
        with store.open_store([file]) as opened:
            assert opened.rows(COUNTS)[0]["records"] == records
            said = opened.skipped[0].why
            assert why in said and ("the lines after these are not read" in said) is (file is many), said


def test_four_gibibytes_of_empty_lines_are_not_read(tmp_path):
    """Reads a packed file of 4 MB that unpacks to 4 GiB of empty lines, which must not cost time or memory."""
    block = gzip.compress(b"\n" * (1 << 20), mtime=0)
    path = tmp_path / "holes.jsonl.gz"
    path.write_bytes(gzip.compress(LINE.encode() + b"\n") + block * (1 << 12))
    cases, code = reading.read_files([path])
    assert (len(cases), code) == (1, exits.UNDECIDED)


def test_records_of_a_newer_version_are_refused_not_passed_over(tmp_path, capsys):
    write(tmp_path / "good.jsonl", LINE)
    write(tmp_path / "new.jsonl", json.dumps({**GOOD, "schema": "isthmus.record/4"}))
    assert cli.main(["nodes", str(tmp_path)]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "new.jsonl (isthmus.record/4); this Isthmus reads isthmus.record/3: use" in said
    assert said.count("\n") == 1
    assert cli.main(["compact", str(tmp_path)]) == 1
    assert "another schema ('isthmus.record/4')" in capsys.readouterr().err


def test_records_of_version_1_and_of_this_one_stand_in_one_table(tmp_path):
    line = (ROOT / "papers/data/h200/smoke.jsonl").read_text(encoding="utf-8").splitlines()[0]
    graph = changed(submission="graph", host_turns=3)
    write(tmp_path / "r.jsonl", line, json.dumps(graph))
    query = "SELECT DISTINCT submission, host_turns, tables FROM measurements ORDER BY ALL NULLS LAST"
    for _ in ("raw", "compacted"):
        with store.open_store([tmp_path]) as opened:
            assert opened.rows(COUNTS)[0]["records"] == 2
            assert opened.sql(query).fetchall() == [("graph", 3, []), (None, None, [])]
        assert not compact.compact(tmp_path, processes=1)["skipped"]


def with_table(folder, name):
    """Writes a record file with one table in the folder for tables next to it. Returns the record."""
    data = gzip.compress(b"time\n1\n")
    write(folder / f"{name}.tables/x.csv.gz").write_bytes(data)
    entry = {"name": "batches", "columns": ["time"], "file": f"{name}.tables/x.csv.gz", "rows": 1}
    record = changed(run__id=f"run-of-{name}", tables=[{**entry, "sha256": hashlib.sha256(data).hexdigest()}])
    write(folder / f"{name}.jsonl", json.dumps(record))
    return record


def test_tables_are_found_from_raw_and_from_compacted_records(tmp_path, monkeypatch):
    record = with_table(tmp_path / "results/a", "r")
    write(tmp_path / "results/none.jsonl", LINE)

    def found(path):
        """Checks the record's entry for its table in the measurements. Returns the table's path."""
        with store.open_store([path]) as opened:
            [row] = opened.rows("SELECT DISTINCT tables FROM measurements WHERE len(tables) > 0")
        [entry] = row["tables"]
        assert {**entry, "file": record["tables"][0]["file"]} == record["tables"][0]
        return entry["file"]

    assert found(tmp_path / "results") == str(tmp_path / "results/a/r.tables/x.csv.gz")
    assert not compact.compact(tmp_path / "results", processes=1)["skipped"]
    (tmp_path / "results").rename(tmp_path / "moved")
    assert found(tmp_path / "moved/compacted") == "a/r.tables/x.csv.gz"
    monkeypatch.chdir(tmp_path / "moved/a")
    assert found("r.jsonl") == "r.tables/x.csv.gz"


def test_compacting_names_a_table_that_is_missing_or_altered(tmp_path, capsys):
    for name in ("missing", "altered", "whole"):
        with_table(tmp_path, name)
    (tmp_path / "missing.tables/x.csv.gz").unlink()
    (tmp_path / "altered.tables/x.csv.gz").write_bytes(gzip.compress(b"time\n2\n"))
    for _ in range(2):  # the second run must report the same
        assert cli.main(["compact", str(tmp_path), "--processes", "1"]) == 1
        said = capsys.readouterr()
        assert said.err.count("\n") == 3
        assert "missing.tables/x.csv.gz: the table 'batches' of missing.jsonl is missing" in said.err
        assert "altered.tables/x.csv.gz: the table 'batches' of altered.jsonl has been altered" in said.err
    assert said.out.endswith("2 skipped\n")
    assert counts(tmp_path)["records"] == 3, "their figures are as they were"


# --- computed results that must be equal ---


def computed(inputs="n=1024", level="0123456789abcdef", **changes):
    """Returns a record with checksums of its inputs and results."""
    return json.dumps(changed(verify__inputs=inputs, verify__checksums={"level": level, "parent": "0" * 16}, **changes))


WRONG = "fedcba9876543210"
LATER = "2026-11-21T12:00:00Z"


@pytest.mark.parametrize(
    "other",
    [
        computed(placement="mapped", run__time=LATER),
        computed(inputs="n=2048", level=WRONG),
        computed(inputs=None, level=WRONG),
        computed(version=2, level=WRONG),
        computed(workload="microbench/gemv", level=WRONG),
        computed(verify__status="fail", level=WRONG),
        computed(error="the device fell off the bus", level=WRONG),
        LINE,
    ],
)
def test_results_of_other_cases_or_of_failed_ones_do_not_disagree(tmp_path, other):
    write(tmp_path / "r.jsonl", computed(), other)
    result = compact.compact(tmp_path, processes=1)
    assert result["records"] == 2 and not result["disagreements"]


def test_results_that_disagree_are_named_by_every_command_that_compares(tmp_path, capsys):
    write(tmp_path / "a/r.jsonl", computed(), computed(placement="managed", run__time=LATER))
    write(tmp_path / "b/r.jsonl", computed(placement="mapped", level=WRONG, run__time=LATER), LINE)
    sentence = (
        "a/r.jsonl (pinned, direct, 2026-11-21T00:00:00Z) and {}b/r.jsonl (mapped, direct, 2026-11-21T12:00:00Z) "
        "disagree: microbench/saxpy (version 1) computed a different level from the same inputs (n=1024); one of them "
        "is wrong, or the workload changed without a new version\n"
    )
    folder = str(tmp_path)
    regress = ["regress", folder, "--from", "driver=1", "--to", "driver=2"]
    for where in ("raw", "compacted"):
        prefix = f"{folder}/" if where == "raw" else ""
        said = prefix + sentence.format(prefix)
        assert cli.main(regress) == exits.BAD_INPUT
        assert said in capsys.readouterr().err, "it compares nothing"
        cli.main(["compare", folder, "--by", "driver"])
        assert said in capsys.readouterr().err
        for _ in range(2):  # at the second time, all records are already in the table
            assert cli.main(["compact", folder, "--processes", "1"]) == 1
            assert capsys.readouterr().err == sentence.format("")
    cli.main(["compare", f"{folder}/a", f"{folder}/b"])
    said = capsys.readouterr().err
    assert said.count(" disagree: ") == 1, "two folders that agree each within itself"
    assert cli.main([*regress, "--workload", "transfer/*"]) == exits.BAD_INPUT
    assert " disagree: " not in capsys.readouterr().err, "what is not compared stops nothing"


def test_a_record_that_was_measured_again_no_longer_disagrees(tmp_path):
    write(tmp_path / "a.jsonl", computed())
    write(tmp_path / "b.jsonl", computed(level=WRONG))
    assert len(compact.compact(tmp_path, processes=1)["disagreements"]) == 1
    write(tmp_path / "b.jsonl", computed(), LINE)
    assert not compact.compact(tmp_path, processes=1)["disagreements"]


def test_hostile_results_are_only_text(tmp_path, capsys):
    write(
        tmp_path / "a.jsonl",
        computed(inputs="\x1b[2J" + "x" * 200),
        computed(inputs="\x1b[2J" + "x" * 200, level=WRONG),
    )
    assert cli.main(["compact", str(tmp_path), "--processes", "1"]) == 1
    said = capsys.readouterr().err
    assert "\\x1b[2J" in said and "\x1b" not in said and said.count("\n") == 1


# --- files of any kind ---


@given(length=st.integers(1, len(ANOTHER) + len(LINE)))
@settings(max_examples=15, deadline=None)
def test_of_a_file_cut_anywhere_whole_lines_are_read(tmp_path_factory, length):
    folder = tmp_path_factory.mktemp("cut")
    write(folder / "a.jsonl", other(1))
    (folder / "b.jsonl").write_text(f"{ANOTHER}\n{LINE}\n"[:length])
    found = counts(folder)["records"]
    assert found == 1 + (length >= len(ANOTHER))


def test_of_broken_archives_what_can_be_unpacked_is_read(tmp_path):
    (tmp_path / "good.jsonl.gz").write_bytes(gzip.compress(f"{LINE}\n{ANOTHER}\n".encode()))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(f"{other(1)}\n{other(2)}\n".encode())[:-12])
    (tmp_path / "no.jsonl.gz").write_bytes(LINE.encode())
    with store.open_store([tmp_path]) as opened:
        assert opened.rows(COUNTS)[0]["records"] == 3  # includes the complete lines of the truncated file
        assert sorted(pathlib.Path(each.path).name for each in opened.skipped) == ["cut.jsonl.gz", "no.jsonl.gz"]


def test_emulated_and_profiled_records_are_left_out_unless_asked_for(tmp_path):
    write(tmp_path / "e.jsonl", json.dumps({**GOOD, "emulated": True}))
    with pytest.raises(Error, match="the only record is emulated; with --emulated they are included"):
        store.open_store([tmp_path])
    write(tmp_path / "p.jsonl", json.dumps({**GOOD, "profiler": "nsys"}), LINE)
    assert counts(tmp_path)["records"] == 1
    assert counts(tmp_path, profiled=True)["records"] == 2
    assert counts(tmp_path, profiled=True, emulated=True)["records"] == 3


def test_nothing_there_is_a_sentence(tmp_path):
    with pytest.raises(Error, match=r"no record in any \.jsonl or \.jsonl\.gz file"):
        store.open_store([tmp_path])
    with pytest.raises(Error, match="no such file or folder"):
        store.open_store([tmp_path / "none"])


def test_the_metric_that_is_asked_for_takes_no_record_out_of_the_count(tmp_path, capsys):
    """Selects one metric. Cases are counted by the first row of a record, which may be of another metric."""
    two = [*GOOD["metrics"], GOOD["metrics"][0] | {"name": "another"}]
    wrong = changed(metrics=two, verify__status="fail", run__job="1")
    invalid = changed(metrics=two, warnings=[{"code": "throttled", "message": "x", "samples": None}], run__job="2")
    write(tmp_path / "r.jsonl", json.dumps(changed(metrics=two)), json.dumps(wrong), json.dumps(invalid))
    query = (
        "SELECT count(*) FILTER (metric_index = 0) AS records, "
        "list(DISTINCT metric) FILTER (metric IS NOT NULL) AS metrics, "
        "count(*) FILTER (metric_index = 0 AND verify = 'fail') AS wrong, count(median) AS medians, "
        "sum(n_samples) AS samples FROM measurements"
    )
    own = {"wrong": 1, "records": 3, "metrics": ["another"], "medians": 3, "samples": 3 * len(two[1]["samples"])}
    for _ in ("raw", "compacted"):
        with store.open_store([tmp_path], metric="metric GLOB 'another'") as opened:
            assert opened.rows(query) == [own] and opened.invalid == 1
        assert cli.main(["report", str(tmp_path), "--metric", "another", "--format", "json"]) == 0
        said = capsys.readouterr()
        [row] = json.loads(said.out)
        assert (row["records"], row["failed"]) == (3, 1) and "1 record is invalid" in said.err
        cli.main(["compact", str(tmp_path), "--processes", "1"])
        capsys.readouterr()
    with pytest.raises(Error, match="none of 3 records is selected"):
        store.open_store([tmp_path], metric="metric = 'none'")


HOSTILE = ["'; DROP TABLE cases; --", "<script>alert(1)</script>", "$(touch x)", "../../etc/passwd", "\x1b[2J", "a\nb"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_are_only_strings(tmp_path, text):
    record = changed(run__node=text, run__system=text, run__job=text, host__kernel=text)
    write(tmp_path / "r.jsonl", json.dumps(record))
    for folder in (tmp_path, tmp_path / compacted.COMPACTED):
        with store.open_store([folder]) as opened:
            row = opened.rows("SELECT node, system, kernel, job FROM measurements LIMIT 1")[0]
        assert (row["node"], row["system"], row["kernel"], row["job"]) == (text, text, text, f"{text}#{text}")
        compact.compact(tmp_path, processes=1)
    assert {path.name for path in tmp_path.iterdir()} == {"r.jsonl", "compacted"}
    names = [path.name for path in (tmp_path / "compacted").iterdir()]
    assert sorted(names) == ["family=microbench", "manifests"]


def test_where_no_record_names_a_system_that_is_said(tmp_path):
    write(tmp_path / "r.jsonl", json.dumps(changed(run__system=None)))
    with pytest.raises(Error, match=r"no record has the system 'foo', nor any system$"):
        store.open_store([tmp_path], named=[("system", "foo")])


def test_file_names_are_no_patterns(tmp_path):
    for name in ("a[1].jsonl", "a1.jsonl", "it's *.jsonl", "{x}?.jsonl"):
        write(tmp_path / name, other(name))
    assert counts(tmp_path)["records"] == 4
    assert counts(tmp_path / "a[1].jsonl")["records"] == 1


def test_a_workload_that_is_a_path_is_refused_when_compacting(tmp_path):
    write(tmp_path / "r.jsonl", json.dumps({**GOOD, "workload": "../../../x/y"}))
    result = compact.compact(tmp_path, processes=1)
    assert "does not match" in result["skipped"][0].why and result["records"] == 0


def test_the_compacted_table_says_the_same_as_the_files(tmp_path):
    data = ROOT / "papers/data"
    for path in [*data.rglob("*.jsonl*"), *data.rglob("*.csv.gz")]:  # records and their tables
        target = tmp_path / path.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)
    of_tables = "[t.name || t.sha256 FOR t IN tables]"  # without the paths, which may differ
    query = f"SELECT * EXCLUDE (file) REPLACE ({of_tables} AS tables) FROM measurements ORDER BY ALL"
    with store.open_store([tmp_path], profiled=True) as opened:
        raw = opened.sql(query).fetchall()
    result = compact.compact(tmp_path)
    assert result["records"] == sum(row[raw_index()] == 0 for row in raw) and not result["skipped"]
    with store.open_store([tmp_path / "compacted"], profiled=True) as opened:
        assert opened.sql(query).fetchall() == raw


def raw_index():
    return [name for name in measurements.COLUMNS if name != "file"].index("metric_index")


COPIES = ["next to each other", "packed", "in a folder", "twice in a file", "in a part", "named twice"]


def two_records(folder, where):
    """Writes three records, one of which exists a second time as `where` says. Returns the paths to read."""
    first = write(folder / "a.jsonl", LINE, other(1))
    write(folder / "c.jsonl", other(2))
    if where == "next to each other":
        write(folder / "b.jsonl", LINE)
    elif where == "packed":
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(f"{LINE}\n".encode()))
    elif where == "in a folder":
        write(folder / "backup/a.jsonl", LINE)
    elif where == "twice in a file":
        write(first, LINE, other(1), LINE)
    elif where == "in a part":
        write(folder / "cut.jsonl", LINE, LINE[:100], end="")
    return [folder, folder / "../r/a.jsonl"] if where == "named twice" else [folder]


@pytest.mark.parametrize("compacts", [False, True], ids=["raw", "compacted"])
@pytest.mark.parametrize("where", COPIES)
def test_a_record_counts_once_wherever_it_stands(tmp_path, capsys, where, compacts):
    paths = two_records(tmp_path / "r", where)
    if compacts:
        compact.compact(tmp_path / "r", processes=1)
    found, _ = reading.read_files(paths)
    assert len(found) == 3
    said = r"[12] records? stands? (in two|in several files|twice in) .*a\.jsonl.* and counts? once\n"
    assert re.search(said, capsys.readouterr().err)
    with store.open_store(paths) as opened:
        assert opened.rows(COUNTS)[0]["records"] == 3 and opened.rows(COUNTS)[0]["rows"] == 3 * len(GOOD["metrics"])
        assert "_source" not in opened.rows("FROM measurements LIMIT 1")[0]
        opened.say_absent()
    was_dropped = compacts and where == "twice in a file"  # dropped and reported while compacting
    assert was_dropped or re.search(said, capsys.readouterr().err)


def test_tables_of_two_folders_count_a_record_once(tmp_path, capsys):
    for name in "ab":
        write(tmp_path / name / "r.jsonl", LINE, other(name))
        compact.compact(tmp_path / name, processes=1)
    with store.open_store([tmp_path / "a", tmp_path / "b"]) as opened:
        assert opened.rows(COUNTS)[0]["records"] == 3
        assert opened.in_two_files == {(f"{tmp_path}/a/r.jsonl", f"{tmp_path}/b/r.jsonl"): 1}
    assert counts(tmp_path / "b/compacted")["records"] == 2  # each table keeps the records of its folder
    with store.open_store([tmp_path / "a", tmp_path / "a/compacted"]) as opened:
        assert opened.rows(COUNTS)[0]["records"] == 2


def test_a_copy_in_a_compacted_folder_outlives_the_first(tmp_path):
    write(tmp_path / "a.jsonl", LINE)
    write(tmp_path / "backup/a.jsonl", LINE)
    compact.compact(tmp_path, processes=1)
    (tmp_path / "a.jsonl").unlink()
    compact.compact(tmp_path, processes=1)
    assert counts(tmp_path)["records"] == 1


def test_what_copies_are_is_the_same_in_sql_and_in_python():
    """Checks that SQL and Python identify the same copies: none among different real records."""
    records, _ = reading.read_files([ROOT / "examples/records"])
    assert (
        len({copies.identity(record) for record in records})
        == len(records)
        == counts(ROOT / "examples/records", emulated=True, profiled=True)["records"]
    )
    assert set(copies._IDENTITY) < set(measurements.COLUMNS)


@pytest.mark.parametrize(
    "change",
    [
        {"run__id": "another-1"},
        {"run__process": 2},
        {"run__time": "2026-01-02T03:04:05Z"},
        {"workload": "apps/other"},
        {"preset": "another"},
        {"placement": "another"},
        {"axes__bytes": 7},
        {"verify__inputs": "another"},
        {"verify__checksums": {"a": "0" * 16}},
        {
            "ranks": {
                "count": 2,
                "library": "MPI",
                "each": [{"node": "n", "local_rank": i, "device": None} for i in (0, 1)],
            }
        },
    ],
    ids=str,
)
def test_another_measurement_is_no_copy(tmp_path, change):
    one = changed(**change)
    assert validate.problem(one) is None
    assert copies.identity(one) != copies.identity(GOOD)
    write(tmp_path / "r.jsonl", LINE, json.dumps(one))
    assert counts(tmp_path)["records"] == 2


def test_compacting_again_takes_what_is_new_or_has_grown(tmp_path):
    write(tmp_path / "a/1.jsonl", LINE)
    write(tmp_path / "a/2.jsonl", other(1), LINE[:100], end="")
    assert compact.compact(tmp_path, processes=1)["records"] == 1
    again = compact.compact(tmp_path, processes=1)
    assert (again["records"], again["before"], len(again["skipped"])) == (0, 1, 1)
    write(tmp_path / "a/1.jsonl", LINE, other(2))
    write(tmp_path / "a/2.jsonl", other(1), other(3))
    write(tmp_path / "b/3.jsonl", other(4))
    assert counts(tmp_path)["records"] == 5  # includes the new records of a file that has grown
    assert compact.compact(tmp_path, processes=1)["records"] == 5
    assert counts(tmp_path) == counts(tmp_path / "compacted")
    assert counts(tmp_path / "compacted")["records"] == 5


def test_a_part_behind_a_link_that_leads_nowhere_is_not_called_gone(tmp_path, capsys):
    write(tmp_path / "r.jsonl", LINE)
    compact.compact(tmp_path, processes=1)
    part = next((tmp_path / "compacted").rglob("*.parquet"))
    part.unlink()
    part.symlink_to("/gone")
    assert cli.main(["table", str(tmp_path)]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert f"{part.name}: a link whose target is missing; restore this part" in said and "remove" not in said


def test_a_file_that_takes_the_place_of_another_is_named(tmp_path, capsys):
    file = tmp_path / "r.jsonl"
    write(file, LINE)
    compact.compact(tmp_path, processes=1)
    write(file, LINE, other(1))  # the file has grown
    assert not skipped(tmp_path) and compact.compact(tmp_path, processes=1)["replaced"] == []
    write(file, other(2), other(3), other(4))
    [named] = skipped(tmp_path)
    assert named.path == str(file) and "its records differ from the compacted ones" in named.why
    assert cli.main(["compact", str(tmp_path)]) == exits.FOUND
    assert f"replaced {file}: its records differ from the compacted ones" in " ".join(capsys.readouterr().err.split())
    assert not skipped(tmp_path) and cli.main(["compact", str(tmp_path)]) == exits.PASSED


def compacts_again(tmp_path, capsys):
    capsys.readouterr()
    return cli.main(["compact", str(tmp_path), "--processes", "1"]), capsys.readouterr().out


def test_files_that_were_packed_or_renamed_are_not_called_lost(tmp_path, capsys):
    for n in range(3):
        write(tmp_path / f"{n}.jsonl", other(n), other(n + 10))
    compact.compact(tmp_path, processes=1)
    for n in range(2):
        (tmp_path / f"{n}.jsonl.gz").write_bytes(gzip.compress((tmp_path / f"{n}.jsonl").read_bytes()))
        (tmp_path / f"{n}.jsonl").unlink()
    (tmp_path / "2.jsonl").rename(tmp_path / "old.jsonl")
    write(tmp_path / "later.jsonl", other(3))
    status, shown = compacts_again(tmp_path, capsys)
    assert status == exits.PASSED and "gone with their records" not in shown
    assert "3 files are renamed or compressed, since all records are in other files (of 0.jsonl in 0." in shown
    assert counts(tmp_path / "compacted")["records"] == 7 and not skipped(tmp_path)


@pytest.mark.parametrize("left", [(), (other(1),)], ids=["nothing", "half"])
def test_records_that_are_gone_are_told_once_and_do_not_pass(tmp_path, capsys, monkeypatch, left):
    write(tmp_path / "1.jsonl", other(1), other(2))
    write(tmp_path / "3.jsonl", other(3))
    compact.compact(tmp_path, processes=1)
    (tmp_path / "1.jsonl").unlink()
    write(tmp_path / "4.jsonl", other(4), *left)
    with monkeypatch.context() as patch:  # interrupts the command before it reports missing records
        patch.setattr(copies, "elsewhere", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compact.compact(tmp_path, processes=1)
    status, shown = compacts_again(tmp_path, capsys)
    assert status == exits.UNDECIDED and "; 1 file is gone with their records (1.jsonl); " in shown
    status, shown = compacts_again(tmp_path, capsys)
    assert status == exits.PASSED and "gone" not in shown


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_packed_file_that_takes_the_place_of_another_is_named(tmp_path):
    file = tmp_path / "r.jsonl.gz"
    file.write_bytes(gzip.compress(LINE.encode() + b"\n"))
    compact.compact(tmp_path, processes=1)
    file.write_bytes(file.read_bytes() + gzip.compress(other(1).encode() + b"\n"))
    assert not skipped(tmp_path)
    file.write_bytes(gzip.compress(other(2).encode() + b"\n"))
    assert "its records differ from the compacted ones" in skipped(tmp_path)[0].why


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "1970-01-01T00:00:05Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("compacts", [False, True])
def test_a_time_that_cannot_be_is_left_out_of_what_is_in_order(tmp_path, time, compacts):
    record = json.loads(other(1))
    record["run"]["time"] = time
    write(tmp_path / "r.jsonl", LINE, json.dumps(record))
    if compacts:
        compact.compact(tmp_path, processes=1)
    assert counts(tmp_path)["records"] == 2  # without `timely`, the impossible time does not matter
    [named] = skipped(tmp_path, timely=True)
    assert named.path.endswith("r.jsonl") and f"1 record with an impossible time, such as {time[:10]}" in named.why
    assert counts(tmp_path, timely=True)["records"] == 1


def test_a_part_without_a_manifest_does_not_count(tmp_path):
    write(tmp_path / "1.jsonl", LINE)
    compact.compact(tmp_path, processes=1)
    part = next((tmp_path / "compacted").rglob("*.parquet"))
    part.with_name("interrupted_0.parquet").write_bytes(part.read_bytes()[:100])
    assert counts(tmp_path)["records"] == 1
    [left_out] = skipped(tmp_path / "compacted")
    assert left_out.path.endswith("interrupted_0.parquet")
    assert "no manifest of this compacted table names" in left_out.why


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_table_that_lost_a_manifest_is_never_read_as_whole(tmp_path, capsys, lost):
    for number in (1, 2, 3):
        write(tmp_path / f"raw/{number}.jsonl", other(number))
        compact.compact(tmp_path / "raw", tmp_path / "table", processes=1)
    assert counts(tmp_path / "table")["records"] == 3
    (tmp_path / f"table/manifests/{lost:08d}.json").unlink()
    if lost == 3:  # no manifest follows the lost one, but its part exists
        assert "a part that no manifest" in skipped(tmp_path / "table")[0].why
        return
    with pytest.raises(Error, match=f"{lost:08d}.json: a manifest of this compacted table is gone"):
        store.open_store([tmp_path / "table"])


def test_a_compaction_that_fails_leaves_no_part(tmp_path, monkeypatch):
    write(tmp_path / "1.jsonl", LINE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compact, "_write_manifest", full)
    with pytest.raises(Error, match="cannot be written"):
        compact.compact(tmp_path, processes=1)
    assert not list((tmp_path / "compacted").rglob("*.parquet"))


@pytest.mark.parametrize("of_others", [[], ["pod.yaml"], ["1.json"], ["00000001.json.bak"]])
def test_a_folder_of_manifests_of_others_hides_no_record(tmp_path, of_others):
    write(tmp_path / "a/1.jsonl", LINE)
    write(tmp_path / "b/2.jsonl", other(2))
    (tmp_path / "b/manifests").mkdir()
    for name in of_others:
        write(tmp_path / "b/manifests" / name, '{"kind": "Pod"}')
    assert counts(tmp_path)["records"] == 2


def test_records_in_a_compacted_table_are_named(tmp_path, capsys):
    write(tmp_path / "r/1.jsonl", LINE)
    compact.compact(tmp_path / "r", processes=1)
    assert cli.main(["table", str(tmp_path / "r")]) == exits.PASSED
    table = tmp_path / "r/compacted"
    for name in ("2.jsonl", "family=microbench/3.jsonl.zst", "4.txt"):
        write(table / name, other(name))
    (table / "up").symlink_to("..")
    capsys.readouterr()
    for folder in (tmp_path / "r", table):
        assert cli.main(["report", str(folder)]) == exits.UNDECIDED
        said = capsys.readouterr().err
        assert said.count("skipped ") == 3
        (table / "up").unlink(missing_ok=True)
        for name in ("2.jsonl", "family=microbench/3.jsonl.zst", "4.txt"):
            assert f"{name}: not read, because only the parts of the compacted table {table} count" in said
    assert len(compact.compact(tmp_path / "r", processes=1)["skipped"]) == 3


def test_no_table_is_made_where_records_lie(tmp_path, capsys):
    write(tmp_path / "src/1.jsonl", LINE)
    write(tmp_path / "top/r26/2.jsonl", other(2))
    for words in (["src", "-o", "top/r26"], ["src", "-o", "top"], ["src", "-o", "src"], ["top/r26", "-o", "top"]):
        words = [word if word == "-o" else str(tmp_path / word) for word in words]
        assert cli.main(["compact", *words]) == exits.BAD_INPUT
        said = capsys.readouterr()
        assert "contains record files, such as " in said.err and said.err.count("\n") == 1 and not said.out
    assert not list(tmp_path.rglob("manifests")) and counts(tmp_path / "top")["records"] == 1
    write(tmp_path / "src/compacted/3.jsonl", other(3))
    assert cli.main(["compact", str(tmp_path / "src")]) == exits.BAD_INPUT
    (tmp_path / "src/compacted/3.jsonl").rename(tmp_path / "src/3.jsonl")
    write(tmp_path / "src/compacted/manifests/f00.tmp", json.dumps({"files": {}, "schema": validate.SCHEMA}, indent=1))
    assert cli.main(["compact", str(tmp_path / "src")]) == exits.PASSED  # continues an interrupted compaction


def test_a_table_of_a_folder_that_is_not_read_is_read_itself(tmp_path, capsys):
    write(tmp_path / "raw25/1.jsonl", LINE)
    write(tmp_path / "raw25/2.jsonl", other(2))
    write(tmp_path / "arch/3.jsonl", other(3))
    archived = tmp_path / "arch/2025"
    compact.compact(tmp_path / "raw25", archived, processes=1)

    def ask(*names):
        with store.open_store([tmp_path / name for name in names]) as opened:
            return opened.rows(COUNTS)[0]["records"], [each.path for each in opened.skipped]

    for names in (["arch"], ["arch", "raw25"], ["raw25", "arch"], ["."], ["arch", "arch/2025"]):
        assert ask(*names) == (3, []), names
    assert cli.main(["table", str(tmp_path / "arch")]) == exits.UNDECIDED
    assert f"{archived}: a compacted table of {tmp_path / 'raw25'}, which lacks the samples" in capsys.readouterr().err
    taken = compact.compact(tmp_path / "arch", processes=1)
    assert taken["records"] == 1 and [each.path for each in taken["skipped"]] == [str(archived)]
    shutil.rmtree(tmp_path / "raw25")
    assert ask("arch") == (3, [])
    assert ask(".") == (1, [str(archived)])  # a user who removed the files may not want their records
    (archived / "manifests/00000002.json").write_text('{"files": {')
    assert ask("arch") == (1, [str(archived)])


def test_a_table_that_has_more_than_the_files_that_are_read_is_named(tmp_path, capsys):
    for name in ("a/1", "a/2", "b/3"):
        write(tmp_path / f"{name}.jsonl", other(name))
    compact.compact(tmp_path / "a", processes=1)
    assert cli.main(["table", str(tmp_path)]) == exits.PASSED
    (tmp_path / "a/1.jsonl").unlink()
    capsys.readouterr()
    for command in ("table", "report"):
        assert cli.main([command, str(tmp_path)]) == exits.UNDECIDED
        said = capsys.readouterr().err
        assert f"a/compacted: a compacted table with 1 file of {tmp_path}/a that are gone or not" in said
        assert said.count("skipped ") == 1, said


def test_a_table_of_one_folder_takes_no_other(tmp_path, capsys):
    for name in "ab":
        write(tmp_path / name / "r.jsonl", json.dumps(changed(run__id=f"run-of-{name}")))
    table = tmp_path / "t"
    assert cli.main(["compact", str(tmp_path / "a"), "-o", str(table)]) == exits.PASSED
    assert cli.main(["compact", str(tmp_path / "b"), "-o", str(table)]) == exits.BAD_INPUT
    assert f"this table was made from {tmp_path / 'a'}, not from {tmp_path / 'b'}" in capsys.readouterr().err
    assert counts(table)["records"] == 1
    assert cli.main(["compact", str(tmp_path / "a"), "-o", str(table)]) == exits.PASSED
    [manifest] = (table / "manifests").iterdir()
    stated = json.loads(manifest.read_text()) | {"source": str(tmp_path / "b")}  # as if written at the same time
    write(table / "manifests/00000002.json", json.dumps(stated))
    with pytest.raises(Error, match="from two folders"):
        store.open_store([table])


def test_several_may_compact_at_once(tmp_path):
    for name in range(6):
        write(tmp_path / f"{name}.jsonl", other(name), other(-1 - name))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: compact.compact(tmp_path, processes=1), range(3)))
    assert counts(tmp_path / "compacted")["records"] == 12


OURS = {"files": {}, "columns": measurements.COLUMNS, "schema": validate.SCHEMA}


@pytest.mark.parametrize(
    "manifest, why",
    [
        ("{", "not a manifest of a compacted table"),
        (json.dumps(OURS | {"parts": {"../x.parquet": [0, 0, 0, ""]}}), "outside of it"),
        (json.dumps(OURS | {"parts": {"/etc/x.parquet": [0, 0, 0, ""]}}), "outside of it"),
        (json.dumps(OURS | {"parts": {"x.parquet": [0, 0, 0, ""]}}), "is gone"),
        (json.dumps(OURS | {"parts": {}, "columns": ["x"]}), "another version of Isthmus"),
        (json.dumps(OURS | {"parts": ["x.parquet"], "schema": "isthmus.record/2"}), "another version of Isthmus"),
    ],
)
def test_a_broken_manifest_is_a_sentence(tmp_path, manifest, why):
    write(tmp_path / "manifests/00000001.json", manifest)
    with pytest.raises(Error, match=why):
        store.open_store([tmp_path])


def test_the_command_compacts_and_says_how_much(tmp_path, capsys):
    write(tmp_path / "1.jsonl", LINE)
    assert cli.main(["compact", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 record of 1 file compacted in ")
    write(tmp_path / "2.jsonl", LINE[:50], end="")
    assert cli.main(["compact", str(tmp_path)]) == 1
    assert "cut short" in capsys.readouterr().err
    assert cli.main(["compact", str(tmp_path / "none")]) == exits.BAD_INPUT


def test_the_benchmark_gets_the_same_answer_from_raw_and_compacted(tmp_path):
    command = [sys.executable, ROOT / "analysis/benchmarks/million_records.py", "--records", "600", tmp_path / "m"]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "analysis")},
    )  # fmt: skip
    assert "compacted 600 in " in ran.stdout and "the answers differ" not in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.count(" rows ") == 4


def test_a_text_that_is_not_utf_8_is_asked_for_in_vain(tmp_path):
    """Selects by a text with a lone surrogate, which JSON allows, so that records may contain it."""
    write(tmp_path / "a.jsonl", LINE)
    for asked in ({"named": [("workload", "a\udcff")]}, {"where": "workload = 'a\udcff'"}):
        with pytest.raises(Error, match="not UTF-8"):
            store.open_store([tmp_path], **asked)
    with store.open_store([tmp_path]) as opened:
        for query, values in (("SELECT 'a\udcff'", ()), ("SELECT ?", ["a\udcff"])):
            with pytest.raises(Error, match="UTF-8"):
                opened.sql(query, values)
