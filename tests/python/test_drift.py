"""Tests of `isthmus drift`: outliers, steps, creeps and absences, with their sizes, directions, nodes and GPUs."""

import datetime
import json
import math

import numpy as np
import pytest
from histories import record, tell, write

from isthmus import cli, exits
from isthmus.records import measurements
from isthmus.statistics import change_points, series
from isthmus.verdicts import missing

START = datetime.datetime(2026, 1, 1)


def history(values, *, node="n1", gpu="G0", better="lower", hour=0, **changes):
    """Returns records with the given values, of one job per day on one GPU."""
    cases = []
    for day, value in enumerate(values):
        where = {"node": node, "gpu": gpu, "job": f"{node}-{gpu}-{day:03}"}
        case = record(float(value), time=START + datetime.timedelta(days=day, hours=hour), **where, **changes)
        if better == "higher":
            case["metrics"][0] |= {"name": "rate", "unit": "B/s", "better": "higher"}
        cases.append(case)
    return cases


def steady(count=60, seed=1, sd=0.01):
    return np.exp(sd * np.random.default_rng(seed).standard_normal(count))


def asked(tmp_path, capsys, cases, *arguments):
    """Returns the exit code, the output with single spaces, the lines of its first paragraph, and the JSON rows."""
    folder = str(write(tmp_path / "r", cases))
    code = cli.main(["drift", folder, *arguments])
    said = capsys.readouterr().out
    assert cli.main(["drift", folder, *arguments, "--format", "json"]) == code
    answer = said.split("\n\n")[0].splitlines()
    assert len(answer) <= 10 and max(map(len, said.splitlines())) <= 80
    return code, " ".join(said.split()), answer, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("places", [(3, 30, 41, 58), (1, 2, 3, 59), (57, 58, 59)], ids=str)
def test_jobs_far_off_are_outliers_and_no_step(tmp_path, capsys, places):
    values = steady()
    values[list(places)] *= 0.8
    if places[0] == 57:
        values[20] *= 0.8  # so that the last three values are not further off than any earlier value
    code, said, answer, rows = asked(tmp_path, capsys, history(values, better="higher"))
    assert code == exits.PASSED and answer[0].startswith(f"no change; {len(rows)} outliers")
    assert {row["direction"] for row in rows} == {"outlier"} and {row["on_gpus"] for row in rows} == {"G0"}
    days = {int(row["after"].split()[0][-3:]) for row in rows}
    assert days == {*places} | ({20} if places[0] == 57 else set())
    assert all(-0.25 < row["change"] < -0.15 for row in rows)
    assert "worse: microbench/saxpy" in said and "on n1, G0, job n1-G0-0" in said
    assert ("the next jobs show" in said) == (max(places) == 59)


def test_many_jobs_far_off_are_a_state_and_no_outliers():
    values = np.where(np.random.default_rng(3).random(60) < 0.3, 1.05, 1.0) * steady(sd=0.001)
    assert not change_points.outliers(np.log(values), 0.01).any()


def test_a_creep_is_called_one_with_its_whole_size(tmp_path, capsys):
    """Finds a creep of 0.3% per week with 0.3% noise within 50 days."""
    values = steady(50, sd=0.003) * np.exp(0.003 / 7 * np.arange(50))
    code, said, _, (row,) = asked(tmp_path, capsys, history(values))
    assert code == exits.FOUND and row["creeps"] and row["direction"] == "worse"
    assert row["low"] < math.expm1(0.021) < row["high"] and row["before"].startswith("n1-G0-000 ")
    assert "worse +2." in said and "gradually since n1-G0-000" in said


def test_a_creep_that_begins_later_begins_there(tmp_path, capsys):
    values = steady(100, sd=0.003) * np.exp(0.003 / 7 * np.maximum(np.arange(100) - 50, 0))
    _, _, _, (row,) = asked(tmp_path, capsys, history(values))
    assert row["creeps"] and 40 <= int(row["before"].split()[0][-3:]) <= 62
    assert row["low"] < math.expm1(0.021) < row["high"]


@pytest.mark.parametrize(
    "better, factor, direction",
    [("lower", 1.04, "worse"), ("lower", 0.96, "better"), ("higher", 1.04, "better"), ("higher", 0.96, "worse")],
)
def test_a_step_says_its_direction_place_and_interval(tmp_path, capsys, better, factor, direction):
    values = steady() * np.where(np.arange(60) < 30, 1, factor)
    cases = history(steady(seed=2), gpu="G1", better=better) + history(values, better=better)
    code, said, answer, rows = asked(tmp_path, capsys, cases)
    assert code == exits.FOUND and answer[0].startswith(f"1 {direction}")
    row = next(row for row in rows if row["on_gpus"] == "G0")
    assert row["direction"] == direction and row["low"] < factor - 1 < row["high"] and not row["creeps"]
    assert f"{direction} {row['change']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]: microbench/saxpy" in said
    assert "on n1, G0, since n1-G0-0" in said


def test_the_answer_has_ten_lines_and_what_matters_most_first(tmp_path, capsys):
    cases = []
    for number in range(12):
        factor = 0.9 if number % 2 else 1.05 + 0.01 * number
        values = steady(seed=number) * np.where(np.arange(60) < 20 + 3 * number, 1, factor)
        cases += history(values, node=f"n{number}", workload=f"microbench/w{number}")
    code, _, answer, rows = asked(tmp_path, capsys, cases)
    assert code == exits.FOUND and answer[0].startswith("6 worse, 6 better")
    assert "worse +15" in answer[1] or "worse +16" in answer[1] or "worse +14" in answer[1]
    directions = [row["direction"] for row in rows]
    assert directions == sorted(directions, key=["gone", "worse", "changed", "better"].index)


# --- absence ---


def fleet(days=20):
    return [
        case for node in ("n1", "n2") for number, gpu in enumerate(("a", "b")) for workload in range(3)
        for case in history(
            steady(days, seed=workload), node=node, gpu=f"{node}{gpu}", hour=number, workload=f"microbench/w{workload}"
        )
    ]  # fmt: skip


def without(cases, since, *, node="n1", gpu="", workload="", every=1):
    """Returns the cases without those that match on day `since` and every `every` days after it."""
    kept = []
    for case in cases:
        day = int(case["run"]["job"][-3:])
        fits = (
            case["run"]["node"] == node and case["devices"][0]["uuid"].endswith(gpu)
            and case["workload"].endswith(workload) and day >= since and (day - since) % every == 0
        )  # fmt: skip
        kept += [] if fits else [case]
    return kept


@pytest.mark.parametrize(
    "of, said",
    [
        ({}, "gone for 10 days: all that it measured on n1, after n1-n1b-009"),
        ({"gpu": "b"}, "gone for 10 days: all that it measured on n1, n1b, after n1-n1b-009"),
        ({"workload": "w1"}, "gone for 10 days: microbench/w1 pm tiny time on n1, after"),
        ({"gpu": "b", "workload": "w1"}, "gone for 10 days: microbench/w1 pm tiny time on n1, n1b, after"),
    ],
)
def test_what_a_node_or_a_gpu_lost_is_named_once(tmp_path, capsys, of, said):
    code, text, answer, rows = asked(tmp_path, capsys, without(fleet(), 10, **of))
    assert code == exits.FOUND and said in text and answer[0].startswith("1 gone") and len(rows) == 1


def skipped(case):
    return case | {"metrics": [], "skipped": "cannot map host memory", "skip_kind": "unsupported"}


@pytest.mark.parametrize(
    "nodes, where", [(["n1", "n2"], "on all nodes"), (["n1"], "on n1, after")], ids=["all nodes", "one node"]
)
@pytest.mark.parametrize("left", [None, skipped], ids=["absent", "skipped"])
@pytest.mark.parametrize("days", [(8, 8), (7, 7), (12, 8)], ids=str)
def test_what_was_always_there_is_soon_missed(tmp_path, capsys, nodes, where, left, days):
    """Removes one series. Eight days with it and eight without are reported because all other series stayed; alone they
    would not be a certain loss."""
    cases = []
    for case in fleet(sum(days)):
        fits = case["run"]["node"] in nodes and case["workload"].endswith("w1")
        if not fits or int(case["run"]["job"][-3:]) < days[0]:
            cases.append(case)
        elif left:
            cases.append(left(case))
    code, text, answer, rows = asked(tmp_path, capsys, cases)
    assert code == exits.FOUND and answer[0].startswith("1 gone")
    assert sum(row["direction"] == "gone" for row in rows) == 1
    assert f"gone for {days[1]} days: microbench/w1 pm tiny time {where}" in text


def test_cases_that_begin_to_be_skipped_are_a_change(tmp_path, capsys):
    """Skips a third of the cases from day 30 on, but different cases in each job, so that no case is gone."""
    cases = [
        skipped(case) if day >= 30 and (day + workload) % 3 == 0 else case
        for workload in range(6) for day, case in enumerate(history(steady(), workload=f"microbench/w{workload}"))
    ]  # fmt: skip
    code, text, *_ = asked(tmp_path, capsys, cases)
    assert code == exits.FOUND and "machine skipped_cases on n1" in text


class Rows:
    """Stub of a store that answers every query with the same rows."""

    def __init__(self, rows):
        self.sql, self.fetchall = lambda query: self, lambda: rows


def by_chance(there):
    """Returns a store and its series. `there[workload, node, day]` is true if the workload ran."""
    start, every = datetime.datetime(2026, 1, 1), []
    jobs = {
        (node, day): series.Job(f"{node}-{day}", {(f"n{node}", ""): 1.0}, frozenset(),
                                start + datetime.timedelta(days=day, minutes=node))
        for node, day in np.argwhere(there.any(axis=0)).tolist()
    }  # fmt: skip
    for number, had in enumerate(there):
        key = tuple({"workload": f"w{number}", "version": 1}.get(name) for name in measurements.SERIES)
        of = [jobs[node, day] for node, day in np.argwhere(had).tolist()]
        every += [series.Series(key, "lower", None, {"A": of})] if of else []
    rows = sorted(jobs.items(), key=lambda each: each[0][1])
    return Rows([(f"n{node}", "", job.name, job.time) for (node, _), job in rows]), every


@pytest.mark.parametrize("kind", ["on each node", "on all nodes", "most are always there"])
def test_suites_that_come_by_chance_are_seldom_gone(kind, capsys, record_property):
    """Runs workloads on a random 50 to 90% of days, or most of them on all days, and checks for losses day by day."""
    false, trials = 0, 40
    for seed in range(trials):
        chance = np.random.default_rng(seed)
        shares = chance.choice([0.5, 0.6, 0.7, 0.9], (8, 1, 1))
        shares[chance.random(8) < (0.8 if kind == "most are always there" else 0)] = 1
        drawn = chance.random((8, 1 if kind == "on all nodes" else 3, 26)) < shares
        there = np.broadcast_to(drawn, (8, 3, 26))
        false += any(missing.gone(*by_chance(there[:, :, :now])) for now in range(12, 27, 2))
    tell(capsys, record_property, f"histories of suites by chance {kind} with one said to be gone: {false} of {trials}")
    assert false <= 0.05 * trials


def test_half_of_the_days_is_a_loss(tmp_path, capsys):
    """Removes a workload on every second day from day 30 of 60 on."""
    code, text, *_ = asked(tmp_path, capsys, without(fleet(60), 30, workload="w1", every=2))
    assert code == exits.FOUND and "gone except for 15 of 30 days: microbench/w1 pm tiny time on n1" in text


@pytest.mark.parametrize("cases", [
    lambda: without(fleet(), 0, workload="w1"),  # n1 never had w1
    lambda: [case for case in fleet() if case["run"]["node"] == "n2" or int(case["run"]["job"][-3:]) > 8],  # n1 is new
    lambda: without(fleet(), 17),  # n1 is missing for only three days
    lambda: without(fleet(40), 5, workload="w1", every=4),  # w1 is always missing on one of four days
], ids=["only some", "new", "days", "now and then"])  # fmt: skip
def test_what_is_no_loss(tmp_path, capsys, cases):
    assert asked(tmp_path, capsys, cases())[0] == exits.PASSED


def test_a_smaller_suite_can_be_said(tmp_path, capsys):
    cases = without(without(fleet(), 10, workload="w1"), 10, node="n2", workload="w1")
    assert asked(tmp_path, capsys, cases)[0] == exits.FOUND
    assert asked(tmp_path, capsys, cases, "--without", "workload=*/w1")[0] == exits.PASSED


def test_days_without_a_job_are_said(tmp_path, capsys):
    cases = [case for case in history(steady(45)) if not 20 <= int(case["run"]["job"][-3:]) < 40]
    code, _, answer, _ = asked(tmp_path, capsys, cases)
    said = " ".join(answer)
    assert code == exits.PASSED and said.startswith("no change")
    assert (
        "measured on 25 of 45 days from 2026-01-01 to 2026-02-14; on no node for 20 days after 2026-01-20"
        in " ".join(said.split())
    )
    code, _, answer, _ = asked(tmp_path, capsys, history(steady(45)))
    assert " ".join(answer).endswith("measured on 45 of 45 days from 2026-01-01 to 2026-02-14")
