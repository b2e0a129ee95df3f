"""Tests that commands with a verdict report the same as text, json, csv and parquet, with the same exit code."""

import csv
import datetime
import itertools
import json
import pathlib
import re

import duckdb
import numpy as np
import pytest
from histories import History, jobs_of, record, write

from isthmus import cli, exits
from isthmus.records import load
from isthmus.tables import output

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "papers/data/h200"
SIDES = ["--from", "driver=570", "--to", "driver=580"]


def fleet(folder):
    """Writes records of eight equal nodes with two workloads. One node is always slow, another crashes once."""
    chance = np.random.default_rng(1)
    cases = []
    for node in range(8):
        for job in range(3):
            for workload in ("microbench/saxpy", "microbench/gemm"):
                slow = 1.3 if node == 3 else 1.0
                value = 0.001 * slow * float(np.exp(0.005 * chance.standard_normal()))
                where = {"node": f"n{node}", "gpu": f"GPU-{node}", "job": f"{node}{job}", "workload": workload}
                cases.append(record(value, **where))
    cases[-1]["error"] = "segfault"
    return write(folder, cases)


def steps(folder):
    """Writes records of a metric that gets 20% slower after 20 of 40 jobs, and of one that does not."""
    history = History(between=0.005, step=0.2)
    cases = jobs_of(history, 1, 20) + jobs_of(History(between=0.005), 2, 20, workloads=("microbench/gemm",))
    return write(folder, cases)


def systems(folder):
    chance = np.random.default_rng(1)
    for name, factor in (("old", 1.0), ("new", 0.5)):
        cases = []
        for job in range(5):
            for workload in ("microbench/saxpy", "microbench/gemm") if name == "new" else ("microbench/saxpy",):
                value = 0.001 * factor * float(np.exp(0.005 * chance.standard_normal()))
                time = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=job)
                where = {"job": f"{name}{job}", "node": name, "host__boot_id": f"{name} {job}"}
                cases.append(record(value, workload=workload, time=time, **where))
        write(folder / name, cases)
    (folder / "weights.toml").write_text('[metrics]\n"microbench/* time" = 1\n')
    return [folder / "old", folder / "new"]


def regress(folder):
    return ["regress", steps(folder), *SIDES]


def nodes(folder):
    return ["nodes", fleet(folder)]


def noise(folder):
    return ["noise", steps(folder), "--from", "driver=570"]


def trial(folder):
    """Writes a trial in which all jobs except one ran as planned and nothing changed."""
    plan = [folder, "--nodes", "n0", "--from", "driver=570", "--to", "driver=580", "--jobs", "1", "--command", "true"]
    assert cli.main(["trial", "plan", *map(str, plan), "--boots", "8"]) == 0
    cases = jobs_of(History(between=0.005), 1, 8)[:-1]
    for number, case in enumerate(cases):
        case["host"]["boot_id"] = f"boot {number}"
    write(folder / "records/before", cases[:8])
    write(folder / "records/after", cases[8:])
    return ["trial", "read", folder]


def interjob(folder):
    cases = itertools.islice(load.iterate(EXAMPLES / "interjob.jsonl.gz"), 0, None, 40)
    return ["advise", "interjob", write(folder, cases)]


def job(folder):
    return [*interjob(folder), "--job", "in=64MiB", "out=16KiB", "flops=1e9"]


def drift(folder):
    return ["drift", steps(folder)]


def compare(folder):
    return ["compare", *systems(folder)]


def score(folder):
    return ["score", *systems(folder), "--weights", folder / "weights.toml", "--reference", "old", "--least", "0.4"]


def shown_by_regress(rows, text):
    for row in rows:
        assert (f"{row['verdict']:<12} {row['series']}" in text) == (row["verdict"] == "regressed")
    assert {row["verdict"] for row in rows} == {"regressed", "equivalent"} and "verdict: regressed" in text


def shown_by_nodes(rows, text):
    assert {(row["node"], row["kind"]) for row in rows} == {("n3", "slow"), ("n7", "failing")}
    assert all(row["reason"] in text and f"{row['node']}: {row['kind']}" in text for row in rows)
    [single] = [row for row in rows if row["workload"] == "microbench/saxpy"]
    assert single["metric"] == "time" and single["unit"] == "s" and single["worse"] == pytest.approx(0.23, abs=0.02)


def shown_by_noise(rows, text):
    assert "the noisiest node to find a step of 3% in one of 2 metrics in 90% of cases" in " ".join(text.split())
    assert {row["workload"] for row in rows} == {"microbench/saxpy", "microbench/gemm"}
    for row in rows:
        [line] = [line.removeprefix(row["series"]) for line in text.splitlines() if line.startswith(row["series"])]
        assert line.split()[0] == f"{row['between']:.2%}" and line.split()[4] == str(row["jobs"]) == "20"


def shown_by_trial(rows, text):
    [row] = rows
    assert row["comparison"] == "change" and f"verdict: {row['verdict']}" in text and row["compared"] == "boot"
    assert "missing" in text and "not complete" in text


def shown_by_interjob(rows, text):
    advice = [row for row in rows if row["says"] == "advice"]
    assert advice and all(f"{r['batch']}: {r['mode']}, depth {r['at_depth']}" in text for r in advice if r["worth"])
    assert all(f"{r['batch']}: not worth it" in text for r in advice if not r["worth"])
    near = [abs(row["predicted"] / row["measured"] - 1) <= 0.15 for row in rows if row["says"] == "check"]
    assert f"within 15%: {sum(near)} of {len(near)}" in text if near else len(rows) == 1
    assert {row["workload"].split("/")[0] for row in rows if row["workload"]} <= {"interjob"}


def shown_by_drift(rows, text):
    """Checks that the changed series is reported by itself, without a mean over it and the unchanged series."""
    [row] = rows
    assert (row["workload"], row["metric"], row["event"], row["together"]) == ("microbench/saxpy", "time", 1, 1)
    assert row["direction"] == "worse" and row["change"] == pytest.approx(0.2, abs=0.01)
    assert f"worse {row['change']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]: microbench/saxpy" in text
    assert text.startswith("1 worse, in 2 series of nodes with more than 5 jobs\n")
    assert f"between job {row['before']} and {row['after']}" in " ".join(text.split())


def shown_by_compare(rows, text):
    assert {(r["system"], r["workload"]) for r in rows} == {
        ("old", "microbench/saxpy"), ("new", "microbench/saxpy"), ("new", "microbench/gemm"),
    }  # fmt: skip
    [ratio] = [row for row in rows if row["ratio"]]
    assert ratio["low"] < ratio["ratio"] < ratio["high"] and ratio["reference"] == "old"
    assert ratio["verdict"] == "better" and (ratio["nodes"], ratio["boots"]) == (1, 5)
    ends = f"[{1 / ratio['high']:#.3g}, {1 / ratio['low']:#.3g}]"
    assert f"×{1 / ratio['ratio']:#.3g} faster {ends} 1 node" in text


def shown_by_score(rows, text):
    assert [(row["system"], row["best_rank"]) for row in rows] == [("new", 1), ("old", 2)]
    assert f"1    new    {rows[0]['score']:.3f} [{rows[0]['low']:.3f}, {rows[0]['high']:.3f}] of 1 node" in text
    assert f"{rows[0]['weight']:.0%} of the weight counts" in text


@pytest.mark.parametrize(
    "command, code, shown",
    [
        (regress, exits.FOUND, shown_by_regress),
        (nodes, exits.FOUND, shown_by_nodes),
        (drift, exits.FOUND, shown_by_drift),
        (compare, exits.PASSED, shown_by_compare),
        (noise, exits.PASSED, shown_by_noise),
        (trial, exits.UNDECIDED, shown_by_trial),
        (interjob, exits.PASSED, shown_by_interjob),
        (job, exits.PASSED, shown_by_interjob),
        (score, exits.UNDECIDED, shown_by_score),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_formats_say_what_the_text_says(tmp_path, capsys, command, code, shown):
    words = [str(word) for word in command(tmp_path / "r")]
    capsys.readouterr()
    assert cli.main(words) == code
    text = capsys.readouterr().out
    for kind in output.FORMATS:
        out = tmp_path / f"out.{kind}"
        asked = [*words, "--format", kind] if kind == "text" else words  # the file name implies the other formats
        assert cli.main([*asked, "-o", str(out)]) == code, kind
        assert capsys.readouterr().out == "", kind
    assert (tmp_path / "out.text").read_text() == text
    rows = json.loads((tmp_path / "out.json").read_text())
    shown(rows, text)
    same_in_csv_and_parquet(tmp_path, rows)
    assert cli.main([*words, "--format", "json"]) == code
    assert json.loads(capsys.readouterr().out) == rows


def same_in_csv_and_parquet(folder: pathlib.Path, rows):
    lines = list(csv.DictReader((folder / "out.csv").read_text().splitlines()))
    found = duckdb.sql(f"SELECT * FROM '{folder}/out.parquet'")
    assert list(rows[0]) == list(lines[0]) == found.columns
    assert len(rows) == len(lines) == len(found)
    for row, line, columns in zip(rows, lines, found.fetchall(), strict=True):
        for (name, value), column in zip(row.items(), columns, strict=True):
            assert output.plain(column) == value, name
            text = str(value).lower() if isinstance(value, bool) else json.dumps(value)
            assert line[name] == ("" if value is None else value if isinstance(value, str) else text), name


def test_what_no_row_says_is_on_stderr(tmp_path, capsys):
    words = [str(word) for word in score(tmp_path / "r")]
    assert cli.main([*words, "--format", "json"]) == exits.UNDECIDED
    assert "does not count: microbench/gemm" in capsys.readouterr().err
    assert cli.main([*words[:-1], "0.9", "--format", "json"]) == exits.UNDECIDED
    said = capsys.readouterr()
    assert json.loads(said.out) == [] and "50% of the weight counts, less than 90%: no score" in said.err
    assert cli.main(words) == exits.UNDECIDED and capsys.readouterr().err == ""


@pytest.mark.parametrize("content", ["text", "[]", "{}", '{"series": []}', '[{"between": 1}]', "[[1]]", "[1]"])
def test_a_noise_file_that_is_none_is_one_sentence(tmp_path, capsys, content):
    file = tmp_path / "noise"
    file.write_text(content)
    words = [str(word) for word in regress(tmp_path / "r")]
    assert cli.main([*words, "--noise", str(file)]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{file}: not written by `isthmus noise -o FILE.json`" in said


def test_the_list_for_a_scheduler_goes_to_a_file_and_is_only_text(tmp_path, capsys):
    words, out = [str(word) for word in nodes(tmp_path / "r")], tmp_path / "list"
    assert cli.main([*words, "--drain", "-o", str(out)]) == exits.FOUND
    assert re.fullmatch(r"n3\t.*\nn7\t.*\n", out.read_text()) and capsys.readouterr().out == ""
    assert cli.main([*words, "--drain", "-o", f"{out}.csv"]) == exits.BAD_INPUT
    assert "--drain is always text" in capsys.readouterr().err
