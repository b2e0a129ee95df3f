"""Tests that a table is the same as text, json, csv and parquet, in a file and on stdout."""

import csv
import gzip
import io
import json
import os
import pathlib
import subprocess
import sys

import duckdb
import pytest

from isthmus import Error, cli, exits
from isthmus.tables import output

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "papers/data/h200/stream.jsonl.gz"
EVIL = 'a,"b"\n\x1b[2J{{7*7}}\u2028'


def run(*words):
    assert cli.main([str(word) for word in words]) == 0


def tables(tmp_path, *words):
    """Returns a command's output in json, csv and parquet, each read as a list of dictionaries."""
    for kind in ("json", "csv", "parquet"):
        run(*words, "--format", kind, "-o", tmp_path / f"t.{kind}")
    plain = json.loads((tmp_path / "t.json").read_text())
    lines = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    found = duckdb.sql(f"SELECT * FROM '{tmp_path}/t.parquet'")
    return plain, lines, [dict(zip(found.columns, row)) for row in found.fetchall()]


COMMANDS = [
    ["table", EXAMPLE],
    ["table", ROOT / "papers/data/h200/latency-fig2.jsonl.gz", "--view", "levels"],
    ["table", ROOT / "papers/data/h200/accounting.jsonl.gz", "--view", "accounting"],
]


@pytest.mark.parametrize(
    "words", COMMANDS, ids=lambda words: "-".join(str(w) for w in words if not isinstance(w, pathlib.Path))
)
def test_three_formats_say_the_same(tmp_path, words):
    plain, lines, rows = tables(tmp_path, *words)
    assert len(plain) == len(lines) == len(rows) > 5
    assert list(plain[0]) == list(lines[0]) == list(rows[0])
    assert [name for name in output.CASE if name in plain[0]] == list(output.CASE)
    for a, b, c in zip(plain, lines, rows, strict=True):
        for name, value in a.items():
            assert c[name] == value, name
            assert b[name] == ("" if value is None else str(value).lower() if isinstance(value, bool) else str(value))


def test_axes_are_columns_of_their_type(tmp_path):
    _, _, rows = tables(tmp_path, "table", EXAMPLE)
    triad = [r for r in rows if r["workload"] == "stream/gpu0/triad" and r["metric"] == "rate"]
    assert {r["memory"] for r in triad} >= {"device", "managed"} and {type(r["bytes"]) for r in triad} == {int}
    assert all(r["low"] <= r["value"] <= r["high"] for r in triad if r["interval"])
    assert any(r["interval"] for r in triad)


def test_an_axis_that_is_called_like_a_column_keeps_both():
    rows = [{"workload": "w", "metric": "m", "axes": {"mode": "read", "jobs": 3}, "mode": "pm", "jobs": 7}]
    found = output.of_cases(rows, {"jobs": "BIGINT"}, "")
    assert found.rows == [
        {"workload": "w", "metric": "m", "mode": "pm", "jobs": 7, "axis_mode": "read", "axis_jobs": 3}
    ]


def test_an_answer_is_not_added_to_what_it_is_of(tmp_path):
    records = tmp_path / "r.jsonl"
    records.write_bytes(gzip.decompress(EXAMPLE.read_bytes()))
    before = records.read_bytes()
    for named in (records, tmp_path):
        with records.open("ab") as file:
            command = [sys.executable, "-m", "isthmus", "table", str(named)]
            done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True)
        assert done.returncode == exits.BAD_INPUT and "also standard output" in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 and records.read_bytes() == before
    with (tmp_path / "t.txt").open("wb") as file:
        assert subprocess.run(command, stdout=file).returncode == 0


def table_to(where, *, stdout, **words):
    """Runs `isthmus table` with its output to `where`."""
    command = [sys.executable, "-m", "isthmus", "table", str(EXAMPLE), "--format", "csv", "-o", str(where)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, **words)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1", "link", "-"])
def test_a_name_of_standard_output_is_standard_output(tmp_path, name):
    (tmp_path / "link").symlink_to("/dev/stdout")
    where, log = name if name != "link" else tmp_path / name, tmp_path / "night.log"
    log.write_text("before\n")
    with log.open("ab") as file:
        assert table_to(where, stdout=file).returncode == exits.PASSED
    said = log.read_text()
    assert said.startswith("before\nworkload,") and said.count("\n") > 5
    done = table_to(where, stdout=subprocess.PIPE)
    assert done.returncode == exits.PASSED and f"before\n{done.stdout.decode()}" == said
    with open("/dev/full", "wb") as full:
        assert table_to(where, stdout=full).returncode == exits.LOST_OUTPUT
    assert {each.name for each in tmp_path.iterdir()} == {"link", "night.log"}


def test_a_name_of_another_descriptor_is_that_descriptor(tmp_path):
    log, expected = tmp_path / "log", table_to("-", stdout=subprocess.PIPE).stdout.decode()
    log.write_text("before\n")
    with log.open("ab") as file:
        where = f"/dev/fd/{file.fileno()}"
        assert table_to(where, stdout=subprocess.DEVNULL, pass_fds=[file.fileno()]).returncode == exits.PASSED
    assert log.read_text() == f"before\n{expected}"
    done = table_to("/dev/stderr", stdout=subprocess.DEVNULL)
    assert done.returncode == exits.PASSED and done.stderr.decode() == expected
    done = table_to("/dev/fd/77", stdout=subprocess.DEVNULL)
    assert done.returncode == exits.BAD_INPUT and done.stderr.count(b"\n") == 1


def test_an_open_file_of_another_process_is_not_replaced(tmp_path):
    """Writes to an open file of another process, such as /proc/1/fd/1 in a container."""
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("ab") as file:
        inode = os.fstat(file.fileno()).st_ino
        output.deliver("mine\n", f"/proc/{os.getpid()}/fd/{file.fileno()}")
        done = table_to(f"/proc/{os.getpid()}/fd/{file.fileno()}", stdout=subprocess.DEVNULL)
    assert done.returncode == exits.PASSED and log.stat().st_ino == inode
    assert log.read_text().startswith("before\nmine\nworkload,") and list(tmp_path.iterdir()) == [log]


def test_what_is_no_file_is_written_and_stays(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    output.deliver("text\n", str(tmp_path / "fifo"))
    assert os.read(reader, 99) == b"text\n" and (tmp_path / "fifo").is_fifo()
    os.close(reader)
    output.deliver("text\n", "/dev/null")
    with pytest.raises(Error, match="No space left"):
        output.deliver("text\n", "/dev/full")


@pytest.mark.parametrize(
    "values, kind",
    [([1, 2], "BIGINT"), ([1, 2.5], "DOUBLE"), ([True], "BOOLEAN"), ([1, "all"], "VARCHAR"), ([2**70], "DOUBLE")],
)
def test_types_of_axes(values, kind):
    assert output.axis_columns([{"x": value} for value in values], [])["x"] == ("x", kind)


def table_of(**row):
    return output.Table({"name": "VARCHAR", "value": "DOUBLE", "many": "DOUBLE[]"}, [row], "text")


def asked(kind, where="-"):
    import argparse

    return argparse.Namespace(format=kind, output=str(where))


def test_hostile_text_is_only_text(tmp_path, capsys):
    found = table_of(name=EVIL, value=float("nan"), many=[1.0, float("inf")])
    output.write(asked("json"), found)
    said = capsys.readouterr().out
    assert json.loads(said) == [{"name": EVIL, "value": None, "many": [1.0, None]}] and "\x1b" not in said
    output.write(asked("csv"), found)
    said = capsys.readouterr().out
    [row] = csv.DictReader(io.StringIO(said))
    assert "\x1b" not in said and row["value"] == "" and row["name"].startswith('a,"b"\\x0a')
    output.write(asked("parquet", tmp_path / "x.parquet"), found)
    assert duckdb.sql(f"SELECT name FROM '{tmp_path}/x.parquet'").fetchall() == [(EVIL,)]


@pytest.mark.parametrize("name", ["", "'", '"', "''", "a'b\"c", EVIL, "x AS y", "columns", "Value"])
def test_an_axis_may_have_any_name(tmp_path, name):
    found = output.of_cases([{"workload": "w", "axes": {name: 3}, "own": 1.5}], {"own": "DOUBLE"}, "")
    output.write(asked("parquet", tmp_path / "x.parquet"), found)
    rows = duckdb.sql(f"SELECT * FROM '{tmp_path}/x.parquet'")
    assert dict(zip(rows.columns, rows.fetchall()[0])) == dict.fromkeys(output.CASE) | {
        "workload": "w", name or "axis_": 3, "own": 1.5,
    }  # fmt: skip


def test_no_row_is_a_table_too(tmp_path, capsys):
    empty = output.Table({"name": "VARCHAR"}, [], "")
    output.write(asked("json"), empty)
    assert json.loads(capsys.readouterr().out) == []
    output.write(asked("parquet", tmp_path / "x.parquet"), empty)
    assert duckdb.sql(f"SELECT * FROM '{tmp_path}/x.parquet'").columns == ["name"]


def test_parquet_goes_to_a_pipe_and_not_to_a_terminal(capsysbinary, monkeypatch):
    output.write(asked("parquet"), table_of(name="x", value=1.0))
    assert capsysbinary.readouterr().out.startswith(b"PAR1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(Error, match="cannot be shown in a terminal"):
        output.write(asked("parquet"), table_of(name="x"))


def test_a_file_is_written_whole_or_left_alone(tmp_path, capsys):
    out = tmp_path / "t.csv"
    out.write_text("before")
    assert cli.main(["table", str(EXAMPLE), "--format", "csv", "-o", str(tmp_path / "none/t.csv")]) == exits.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
    assert cli.main(["table", str(tmp_path / "none.jsonl"), "-o", str(out)]) == exits.BAD_INPUT
    assert out.read_text() == "before" and list(tmp_path.iterdir()) == [out]
    run("table", EXAMPLE, "--format", "csv", "-o", out)
    assert out.read_text().startswith("workload,metric,placement,staging,mode,size,")


PLAN = ["trial", "plan", "t", "--from", "driver=1", "--to", "driver=2", "--nodes", "a,b", "--command", "true"]


@pytest.mark.parametrize(
    "words, option",
    [
        ([*PLAN, "--noise", "noise.json", "--sd", "20%"], "--sd"),
        (["advise", "interjob", EXAMPLE, "--mode", "serial"], "--mode"),
        (["advise", "interjob", EXAMPLE, "--job", "in=1MiB", "--timeline", "x.svg"], "--job"),
        (["table", EXAMPLE, "--emulated"], "--emulated"),
        (["report", EXAMPLE, "--title", "x"], "--title"),
        (["report", EXAMPLE, "--title", "x", "-o", "x.csv"], "--title"),
        (["faults", "report", EXAMPLE, "--title", "x"], "--title"),
    ],
    ids=lambda words: " ".join(map(str, words)) if isinstance(words, list) else words,
)
def test_an_option_without_effect_is_refused(words, option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main([str(word) for word in words]) == exits.BAD_INPUT
    assert f": {option} has an effect only with" in capsys.readouterr().err.replace("only on a page", "only with one")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing yet"])
def test_a_link_stays_and_the_file_that_it_names_is_written(tmp_path, there):
    link, target = tmp_path / "latest.csv", tmp_path / "shared" / "report.csv"
    target.parent.mkdir()
    target.write_text("before") if there else None
    link.symlink_to("shared/report.csv")
    run("table", EXAMPLE, "-o", link)
    assert link.is_symlink() and target.read_text().startswith("workload,metric,")
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    "words, known",
    [
        (["table", EXAMPLE, "-o", "x.xlsx"], ".txt, .json, .csv or .parquet, or give --format"),
        (["table", EXAMPLE, "-o", "x.csv.gz"], ".txt, .json, .csv or .parquet, or give --format"),
        (["report", EXAMPLE, "-o", "x.htm"], ".txt, .json, .csv, .parquet or .html, or give --format"),
        (["faults", "report", EXAMPLE, "-o", "x.pdf"], ".txt, .json, .csv, .parquet or .html, or give --format"),
        (["advise", "staging", EXAMPLE, "-o", "x.xls"], ".txt, .json, .csv or .parquet, or give --format"),
        (["advise", "interjob", EXAMPLE, "--timeline", "x.png"], ".svg"),
        (["table", "absent", "-o", "x.xlsx"], ".txt, .json, .csv or .parquet, or give --format"),  # before reading
    ],
    ids=lambda words: " ".join(map(str, words[-3:])) if isinstance(words, list) else "",
)
def test_an_ending_that_is_no_format_is_refused(words, known, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main([str(word) for word in words]) == exits.BAD_INPUT
    name = words[-1]
    ending = name.rpartition(".")[2]
    wanted = f"{name} ends in .{ending}, which is not a known format; name a file that ends in {known}\n"
    assert capsys.readouterr() == ("", f"isthmus {words[0]}: {wanted}") and not list(tmp_path.iterdir())


def test_endings_that_are_formats(tmp_path, capsys):
    run("table", EXAMPLE)
    text = capsys.readouterr().out
    for name, asked in (("x.txt", []), ("X.TXT", []), ("x", []), ("x.log", ["--format", "text"])):
        run("table", EXAMPLE, "-o", tmp_path / name, *asked)
        assert (tmp_path / name).read_text() == text, name
    run("table", EXAMPLE, "-o", tmp_path / "X.CSV")
    assert (tmp_path / "X.CSV").read_text().startswith("workload,metric,")
    run("report", EXAMPLE, "-o", tmp_path / "page")
    run("report", EXAMPLE, "-o", tmp_path / "summary.txt")
    assert (tmp_path / "page").read_text().startswith("<!doctype html>")
    summary = (tmp_path / "summary.txt").read_text()
    assert summary.startswith("Nothing failed, and nothing casts doubt on 220 figures.\n\nhardware  ")


# --- text ---


def columns(*drops):
    return [output.Column("name"), *(output.Column(f"c{i}", drop=drop) for i, drop in enumerate(drops))]


def test_what_fits_is_whole():
    lines = output.lay_out(columns(0, 1), [["a", "1", "2"], ["b", "10", "20"]])
    assert lines == ["name c0 c1", "a     1  2", "b    10 20"]


def test_what_does_not_fit_is_named():
    lines = output.lay_out(columns(2, 1, 0), [["a", "x" * 30, "y" * 30, "z" * 30]])
    assert max(map(len, lines)) <= 80 and lines[-1] == "Left out for lack of space: c0; --format csv has them."
    assert "x" * 30 not in lines[1] and "y" * 30 in lines[1]


def test_long_names_are_folded_and_none_is_cut():
    name = "a long name of many words " * 5
    lines = output.lay_out(columns(0), [[name, "1" * 40]])
    assert max(map(len, lines)) <= 80
    assert "".join("".join(lines[1:]).replace("1" * 40, "").split()) == "".join(name.split())


@pytest.mark.parametrize(
    "words, told",
    [
        (["noise"], "series"),
        (["drift"], "no change; 10 outliers, in 342 series of nodes with more than 5 jobs\n"),
        (["nodes"], "0 of 3 nodes are named; 0 series with 4 equals or more\nnote: 3 nodes have fewer "),
        (
            ["regress", "--from=2026-11-23T01..2026-11-23T08", "--to=2026-11-23T08..", "--all"],
            "verdict: inconclusive\n",
        ),
        (["compare", "--by=node"], "h200-40eb against h200-2e1d: of 114 series "),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_verdicts_fit_80_columns(words, told, capsys):
    cli.main([*words, str(ROOT / "papers/data/end_to_end/measured.jsonl.gz"), "--workload", "alloc/*"])
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80 and said.startswith(told)


def test_headings_stand_over_their_rows():
    rows = ["a heading", ["a", "1"], "another, of many words" * 6, ["b", "10"]]
    lines = output.lay_out(columns(0), rows)
    assert lines[:3] == ["  name c0", "a heading", "  a     1"] and lines[-1] == "  b    10"
    assert max(map(len, lines)) <= 80 and "".join(lines[3:-1]).replace("  ", " ") == "another, of many words" * 6


@pytest.mark.parametrize(
    "path", sorted((ROOT / "papers/data").glob("h200*/*.jsonl*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_committed_records_fit_80_columns(path, capsys):
    run("table", path)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
