"""Tests of `isthmus site budget`: which jobs it reads from scripts, how long they take, and which a budget allows."""

import gzip
import json
import math
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import Error, cli, exits
from isthmus.site import budget as site_budget
from isthmus.site.budget import Job

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests/reframe/fake_bench.py"

SLURM = """#!/bin/bash
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --time=1:10:5
srun bench run 'mpi/*/send' --size tiny --record record.jsonl
echo $? > exit_code
"""
PBS = """#!/bin/bash
#PBS -l walltime=0:20:0
#PBS -l select=3:mpiprocs=4:ncpus=4
mpiexec -n 12 bench run mpi/host-host/send --record record.jsonl
"""
FLUX = """#!/bin/bash
#flux: --nodes=2
#flux: --time-limit=600s
flux run --exclusive --nodes=2 --tasks-per-node=4 bench run mpi/host-host/send --record record.jsonl
"""


def job(name="A %size=tiny", seconds=60.0, cases=1, nodes=1, where="s:p+e"):
    return Job(name, where, "0", ("run", name), nodes=nodes, cases=cases, seconds=seconds, source="estimate")


# --- job scripts ---


@pytest.mark.parametrize(
    "script, nodes, limit",
    [(SLURM, 2, 4205), (PBS, 3, 1200), (FLUX, 2, 600), ("bench run x --record r", 1, None)],
)
def test_a_script_says_nodes_and_limit(script, nodes, limit):
    read = site_budget.job_of("A", "s:p+e", "0", script)
    assert (read.nodes, read.limit) == (nodes, limit)
    assert read.command[0] == "run" and "--record" not in read.command


def test_quotes_are_the_shells():
    assert site_budget.job_of("A", "s:p+e", "0", SLURM).command == ("run", "mpi/*/send", "--size", "tiny")


@pytest.mark.parametrize("script", ["", "bench list --json > listing.json", "cmake --build ."])
def test_what_measures_nothing_is_no_job(script):
    assert site_budget.job_of("A", "s:p+e", "0", script) is None


def test_what_does_not_change_the_time_is_left_out():
    words = ["run", "x", "--table", "--record", "r", "--quiet", "--samples", "5", "--record=y"]
    assert site_budget.measuring(words) == ("run", "x", "--samples", "5")


# --- durations ---


@pytest.mark.parametrize(
    "said, expected",
    [
        ("x: less than 1 s\n1 case, less than 1 s in all\n", (1, 1)),
        ("52 cases, about 5 s in all", (52, 5)),
        ("1159 cases, about 4 min in all", (1159, 240)),
        ("42 cases, about 1.5 h in all", (42, 5400)),
        ("3 cases, about 2 min without 1 case of unknown length in all", (3, 120)),
        ("3 cases", (3, None)),
        ("", (None, None)),
        ("no device", (None, None)),
    ],
)
def test_the_programs_estimate_is_understood(said, expected):
    assert site_budget.understood(said) == expected


def records_of(tmp_path, name, *, wall=10.0, whole=None, changes=None, **run):
    """Writes a file with two records of one process, made from a real record."""
    with gzip.open(ROOT / "papers/data/h200-x4/latency.jsonl.gz", "rt") as file:
        record = json.loads(file.readline())
    command = ["bench", "run", "transfer/*/chase", "--record", "r"]
    record["run"] |= {"system": "s", "partition": "p", "command": command, "wall": wall} | run
    record |= changes or {}
    record["run"]["id"] += name
    lines = []
    for after in (1, 2):
        record["run"].pop("process_wall", None)
        record["run"]["time"] = f"2026-01-01T00:00:0{after}Z"
        if whole is not None:
            record["run"]["process_wall"] = whole * after / 2
        lines.append(json.dumps(record))
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


KEY = ("s", "p", ("run", "transfer/*/chase"))


def test_records_say_how_long_a_job_took(tmp_path):
    files = [records_of(tmp_path, "a.jsonl"), records_of(tmp_path, "b.jsonl", whole=50.0)]
    found, left, status = site_budget.durations(files)
    assert not left
    assert status == exits.PASSED
    assert found == {KEY: [20.0, 50.0]}
    measured = Job("A", "s:p+e", "0", KEY[2])
    site_budget.time(measured, found, lambda job: (7, 1.0))
    assert (measured.seconds, measured.source, measured.cases) == (35.0, "measured, n=2", 7)
    elsewhere = Job("A", "s:q+e", "0", KEY[2])
    site_budget.time(elsewhere, found, lambda job: (7, 1.0))
    assert (elsewhere.seconds, elsewhere.source) == (1.0, "estimate")


def test_profiled_and_emulated_times_are_no_measure(tmp_path):
    files = [records_of(tmp_path, f"{n}.jsonl", changes=changes)
             for n, changes in enumerate([{"emulated": True}, {"profiler": "nsys"}])]  # fmt: skip
    found, left, _ = site_budget.durations(files)
    assert found == {}
    assert site_budget.left_out(found, left, {("s", "p")}) == [
        "left out: 1 run of s:p, emulated although the partition states a GPU",
        "left out: 1 run of s:p, profiled, which takes longer",
    ]
    measured = {KEY: [1.0, 2.0], ("s", "q", KEY[2]): [3.0]}
    said = "left out: 3 runs of s:p, s:q, where no job will run"
    assert site_budget.left_out(measured, {}, {("t", "p")}) == [said]
    assert site_budget.left_out(measured, {}, {("s", "p"), ("s", "q")}) == []


def test_emulated_times_are_those_of_a_partition_without_a_gpu(tmp_path):
    """Uses a job with an emulated case and a CPU-only case. Without the emulated one, the job would look too short."""
    file = records_of(tmp_path, "a.jsonl", changes={"emulated": True})
    first, second = map(json.loads, file.read_text().splitlines())
    second["emulated"] = False
    file.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    assert site_budget.durations([file])[0] == {}
    assert site_budget.durations([file], {("s", "p")})[0] == {KEY: [20.0]}
    partitions = [{"name": "p"}, {"name": "a", "features": ["hip"]}, {"name": "b", "features": ["gpu"]},
                  {"name": "c", "devices": [{"type": "gpu"}]}]  # fmt: skip
    assert site_budget.without_gpu({"systems": [{"name": "s", "partitions": partitions}]}) == {("s", "p")}


def test_records_of_other_things_are_counted(tmp_path):
    found, _, _ = site_budget.durations([records_of(tmp_path, "a.jsonl"), records_of(tmp_path, "b.jsonl")])
    with pytest.raises(Error, match=r"from there with --records \(2 runs from there measured other things\)"):
        site_budget.time(Job("A", "s:p+e", "0", ("run", "other")), found, lambda job: (None, None))


def test_a_file_that_cannot_be_taken_is_named(tmp_path, capsys):
    (tmp_path / "bad.jsonl").write_text("{")
    good = records_of(tmp_path, "good.jsonl")
    found, _, status = site_budget.durations([tmp_path])
    assert status == exits.UNDECIDED and found == site_budget.durations([good])[0] != {}
    assert "bad.jsonl: line 1: cut short" in capsys.readouterr().err


def test_the_limit_is_the_last_resort_and_nothing_is_an_error():
    limited = Job("A", "s:p+e", "0", ("run",), limit=600.0)
    site_budget.time(limited, {}, lambda job: (None, None))
    assert (limited.seconds, limited.source, limited.cases) == (600.0, "time limit", 1)
    with pytest.raises(
        Error, match="nothing says how long it takes on s:p; name a program with --bench, or records of"
    ):
        site_budget.time(Job("A", "s:p+e", "0", ("run",)), {}, lambda job: (None, None))


# --- choosing ---


def test_a_kind_that_nobody_has_measured_comes_before_more_of_another():
    small, large = job("A %size=tiny", 30), job("A %size=super", 60, cases=2)
    other = job("B %size=tiny", 120)
    chosen = site_budget.choose([large, other, small], 30, None)
    assert [j.name for j in chosen] == ["A %size=super", "B %size=tiny", "A %size=tiny"]


def test_a_partition_of_its_own_is_a_kind_of_its_own():
    here, there = job(where="s:p+e"), job(where="s:q+e", seconds=90)
    assert site_budget.choose([here, there, job("A %size=small")], 0, None)[1] is there


def test_of_equals_the_cheaper_and_the_first_name():
    assert [j.name for j in site_budget.choose([job("C"), job("B", 50), job("A")], 0, None)] == ["B", "A", "C"]


jobs_of_any_kind = st.lists(
    st.builds(
        job,
        name=st.sampled_from(["A %size=tiny", "A %size=small", "B %size=tiny", "C"]),
        seconds=st.floats(0, 1e5),
        cases=st.integers(1, 1000),
        nodes=st.integers(1, 64),
    ),
    max_size=12,
)


@given(jobs_of_any_kind, st.floats(0, 100), st.floats(0, 100))
def test_a_budget_is_kept_and_wasted_on_nothing(jobs, per_job, budget):
    chosen = site_budget.choose(jobs, per_job, budget)
    spent = math.fsum(j.node_hours(per_job) for j in chosen)
    assert spent <= budget + 1e-9
    left = [j for j in jobs if not any(j is c for c in chosen)]
    assert len(left) + len(chosen) == len(jobs)
    assert all(spent + j.node_hours(per_job) > budget - 1e-9 for j in left)


@given(jobs_of_any_kind)
def test_without_a_budget_all_are_chosen_in_one_order(jobs):
    for number, each in enumerate(jobs):
        each.hash = str(number)
    chosen = [j.hash for j in site_budget.choose(jobs, 30, None)]
    assert sorted(chosen) == sorted(j.hash for j in jobs)
    assert chosen == [j.hash for j in site_budget.choose(jobs[::-1], 30, None)]


def test_the_most_is_no_less_than_what_is_expected(capsys):
    """Sums the maximum cost of jobs: that of a job's time limit, but the expected cost if the job has no limit."""
    jobs = [Job("A", "s:p+e", "0", ("run",), limit=limit) for limit in (None, 60.0, 3600.0)]
    for each in jobs:
        each.seconds, each.source, each.cases = 60.0, "estimate", 1
    site_budget.show(jobs, jobs, 0, 120.0)
    assert "3 of 3 jobs, 0.15 of 0.15 node-hours; at most 1.10 by their time limits\n" in capsys.readouterr().out
    site_budget.show(jobs[:1], jobs[:1], 0, 120.0)
    assert "1 of 1 jobs, 0.05 of 0.05 node-hours\n" in capsys.readouterr().out


# --- the command, through ReFrame ---


def budget(capsys, monkeypatch, *arguments):
    monkeypatch.setenv("FAKE_CATALOGUE", str(ROOT / "reframe/checks/catalogue.json"))
    capsys.readouterr()
    status = cli.main(["site", "budget", *arguments])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_a_session_is_priced_and_cut_to_a_budget(capsys, monkeypatch, tmp_path):
    selection = ["example-slurm", "-n", "DriverCosts.*%workload=(event|stream)", "--bench", str(FAKE)]
    status, shown, _ = budget(capsys, monkeypatch, *selection)
    assert status == exits.PASSED
    assert "2 of 2 jobs, 0.12 of 0.12 node-hours; at most 0.33 by their time limits" in shown
    file = tmp_path / "chosen"
    status, shown, _ = budget(capsys, monkeypatch, *selection, "--budget", "0.06", "--select", str(file))
    assert "1 of 2 jobs, 0.06 of 0.12 node-hours" in shown
    [line] = file.read_text().splitlines()[1:]
    assert line.startswith("/") and "DriverCosts %workload=event %size=tiny" in line
    status, _, said = budget(capsys, monkeypatch, *selection, "--budget", "0.01")
    assert status == exits.BAD_INPUT
    assert "--budget 0.01 is less than the 0.058 node-hours of the cheapest job" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["example-slrum"], "did you mean 'example-slurm'?"),
        (["example-slurm", "-n", "no_such_check"], "nothing to run"),
        (["example-slurm", "--system", "nowhere"], "could not find a configuration entry"),
        (["example-slurm", "--bench", "/bin/false"], "name a built isthmus-bench"),
        (["example-slurm", "--budget", "-1"], "--budget -1.0 is not an amount of time"),
        (["example-slurm", "--budget", "nan"], "is not an amount of time"),
    ],
)
def test_bad_input_is_one_sentence(capsys, monkeypatch, arguments, why):
    monkeypatch.delenv("ISTHMUS_BENCH", raising=False)
    status, shown, said = budget(capsys, monkeypatch, *arguments)
    assert status == exits.BAD_INPUT and not shown
    assert why in said and said.count("\n") == 1


def test_an_estimate_that_the_program_does_not_give_has_a_reason(tmp_path, capsys):
    bench = tmp_path / "bench"
    bench.write_text("#!/bin/sh\necho no such workload >&2; exit 2\n")
    bench.chmod(0o755)
    assert site_budget.estimate(str(bench), ("run", "x"), 1) == (None, None)
    assert capsys.readouterr().err == "no estimate: bench run x --dry-run ends with exit code 2 (no such workload)\n"
