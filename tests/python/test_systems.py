"""Tests of nodes among their equals, of comparisons of systems, and of scores, on data whose truth is known."""

import datetime
import itertools
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from histories import fitting, record, tell, write

from isthmus import cli, exits
from isthmus.records import measurements, store
from isthmus.statistics import rank_test, series
from isthmus.verdicts import clusters, compare, nodes, score

ROOT = pathlib.Path(__file__).resolve().parents[2]
METRICS = [f"microbench/w{i}" for i in range(20)]


def machine(
    chance, count, *, spread=0.02, bad=None, worse=0.0, jobs=3, workloads=METRICS, better="lower", nights=False, **where
):
    """Returns records of nodes that differ by `spread`. Node `bad` is worse by the share `worse`. With `nights`, each
    job has a different night and boot."""
    cases = []
    for workload in workloads:
        for node in range(count):
            own = float(np.exp(spread * chance.standard_normal())) * (1 + worse * (node == bad))
            for job in range(jobs):
                value = 0.001 * own * float(np.exp(0.005 * chance.standard_normal()))
                name = {"node": f"node{node:02}", "gpu": f"GPU-{node}", "job": f"{node}-{job}"}
                case = record(value, workload=workload, **name, **where)
                if nights:
                    case["host"]["boot_id"] = f"boot {job} of node{node:02}"
                    case["run"]["time"] = f"2026-01-{1 + job:02}T00:00:00Z"
                if better == "higher":
                    case["metrics"][0] |= {"name": "rate", "unit": "B/s", "better": "higher", "median": 1 / value}
                cases.append(case)
    return cases


# --- nodes ---


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_bad_node_is_found_with_its_reasons(tmp_path, capsys, better):
    cases = machine(np.random.default_rng(1), 12, spread=0.005, bad=7, worse=0.10, better=better)
    folder = write(tmp_path / "r", cases)
    assert cli.main(["nodes", str(folder)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 of 12 nodes are named: 1 slow; 20 series") and "\nnode07 is slow: " in said
    assert said.index("\n\n") < said.index("node07: slow\n") and said.split("\n\n")[0].count("\n") < 10
    assert 8 <= float(re.search(r"^  (.*)% worse than 11 equals over 20 series together$", said, re.M)[1]) <= 12
    assert int(re.search(r"… and (\d+) more series", said)[1]) >= 11
    assert "on GPU-7" in said
    assert cli.main(["nodes", str(folder), "--drain"]) == 1
    assert capsys.readouterr().out.startswith("node07\tslow: ")


def with_speed(case, *, stolen, **rates):
    """Returns the record with the given figures of its host's speed, and usual values for the others."""
    case["host"]["speed"] = {"integer_rate": 3e9, "touch_rate": 1.5e9, "copy_rate": 9e9} | rates
    case["run"]["stolen_share"] = stolen
    return case


def test_a_slow_node_says_in_what_its_host_is_slower_too(tmp_path, capsys):
    cases = machine(np.random.default_rng(1), 12, spread=0.005, bad=7, worse=0.10)
    for case in cases:
        if case["run"]["node"] == "node07":
            with_speed(case, copy_rate=6e9, stolen=0.12)
        else:
            with_speed(case, stolen=0.0)
    folder = write(tmp_path / "r", cases)
    assert cli.main(["nodes", str(folder)]) == 1
    said = capsys.readouterr().out.replace("\n    ", " ")  # joins the lines of a folded reason
    host = (
        "; its host is worse as well: copy_rate 6.00 GB/s, usual 9.00 GB/s; 12% of its processors' time is stolen, "
        "usual 0%"
    )
    assert re.search(rf"^  .*% worse than 11 equals over 20 series together{re.escape(host)}$", said, re.M)
    assert said.split("\n\n")[1].count("its host is worse as well") == 1 and "integer_rate" not in said
    assert cli.main(["nodes", str(folder), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["reason"].endswith(host)


def test_hosts_that_are_alike_or_unknown_are_not_named(tmp_path, capsys):
    cases = machine(np.random.default_rng(1), 12, spread=0.005, bad=7, worse=0.10)
    for case in cases:
        with_speed(case, stolen=0.005, copy_rate=8.7e9) if case["run"]["node"] == "node07" else with_speed(
            case, stolen=0
        )
    assert cli.main(["nodes", str(write(tmp_path / "alike", cases))]) == 1
    for case in cases:
        if case["run"]["node"] in ("node07", "node03"):
            with_speed(case, stolen=0.5)
        else:
            del case["host"]["speed"], case["run"]["stolen_share"]
    assert cli.main(["nodes", str(write(tmp_path / "unknown", cases))]) == 1
    assert "its host is worse as well" not in capsys.readouterr().out


def test_a_node_of_which_one_job_in_three_was_as_usual_is_not_slow(tmp_path):
    """Makes two of a node's three jobs slow, and then all three. Only with all three is it a slow node."""
    cases = machine(np.random.default_rng(1), 8, spread=0.005, jobs=3)
    for case in cases:
        if case["run"]["job"] in ("5-0", "5-1"):
            case["metrics"][0]["median"] *= 1.25
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 0
    for case in cases:
        if case["run"]["job"] == "5-2":
            case["metrics"][0]["median"] *= 1.25
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 1


def test_a_better_node_is_no_outlier(tmp_path):
    cases = machine(np.random.default_rng(1), 12, spread=0.005, bad=7, worse=-0.2)
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 0


def test_half_speed_shows_among_four(tmp_path):
    cases = machine(np.random.default_rng(1), 4, spread=0.01, bad=2, worse=1.0)
    with store.open_store([write(tmp_path / "r", cases)]) as opened:
        found = nodes.look(opened)
    assert {reason.node for reason in found.reasons} == {"node02"} and (found.nodes, found.compared) == (4, 20)


def test_small_differences_are_of_no_interest_however_sure(tmp_path):
    cases = machine(np.random.default_rng(1), 20, spread=0.0005, bad=3, worse=0.02)
    folder = str(write(tmp_path / "r", cases))
    assert cli.main(["nodes", folder]) == 0
    assert cli.main(["nodes", folder, "--floor", "0.01"]) == 1


def test_other_hardware_is_no_equal(tmp_path):
    chance = np.random.default_rng(1)
    slow = machine(chance, 5, spread=0.01, host__cpu="old")
    for case in slow:
        case["run"]["node"] = "old-" + case["run"]["node"]
        case["metrics"][0]["median"] *= 3
    folder = write(tmp_path / "r", machine(chance, 8, spread=0.01) + slow)
    assert cli.main(["nodes", str(folder)]) == 0


def test_too_few_equals_are_said(tmp_path, capsys):
    assert cli.main(["nodes", str(write(tmp_path / "r", machine(np.random.default_rng(1), 3)))]) == 3
    assert "0 series with 4 equals or more" in capsys.readouterr().out


def test_another_driver_is_no_equal(tmp_path, capsys):
    chance = np.random.default_rng(1)
    new = machine(chance, 3, spread=0.01, devices__0__driver="580")
    for case in new:
        case["run"]["node"] = "new-" + case["run"]["node"]
        case["metrics"][0]["median"] *= 1.3
    folder = write(tmp_path / "r", machine(chance, 8, spread=0.01) + new)
    assert cli.main(["nodes", str(folder)]) == 0
    assert "note: 3 nodes have fewer than 3 equals (same CPU, GPU, partition and driver)" in capsys.readouterr().out


def fleets(chance, trials, count, *, metrics=50, jobs=3, node_sd=0.01, job_sd=0.01, of_node=0.0, of_job=0.0, states=""):
    """Returns logarithms of the medians over jobs, as an array (trials, metrics, nodes).

    `of_node` and `of_job` are the shares of the variance of nodes and of jobs that all metrics have in common. With
    clock `states` "of jobs" or "of nodes", some jobs or nodes are 5% slower.
    """

    def mixed(common, shape, sd):
        alone = chance.standard_normal(shape)
        return sd * (
            math.sqrt(1 - common) * alone + math.sqrt(common) * chance.standard_normal((trials, 1, *shape[2:]))
        )

    values = mixed(of_job, (trials, metrics, count, jobs), job_sd)
    if states == "of jobs":
        values -= 0.05 * (chance.random((trials, 1, count, jobs)) < 0.5)
    if states == "of nodes":
        values -= 0.05 * (chance.random((trials, 1, count, 1)) < 0.5)
    return np.median(values, axis=-1) + mixed(of_node, (trials, metrics, count), node_sd)


def fleet_of(values, gpus=1):
    places = [(f"n{i // gpus}", f"G{i % gpus}" if gpus > 1 else "") for i in range(values.shape[1])]
    told = [("s", True)] * len(values)
    return nodes.Fleet(places, [f"w{i}" for i in range(len(values))], values, np.full(values.shape, 3), told)


def named(values, gpus=1):
    """Returns the indices of GPUs named, as a whole or in one series; for a named node, the index of its first GPU."""
    fleet = fleet_of(values, gpus)
    slow_nodes, slow_gpus = nodes.slow_as_a_whole(fleet)
    slow = {gpus * int(name[1:]) for name, _ in slow_nodes} | {place for place, _ in slow_gpus}
    return slow | {place for _, place, _ in nodes.slow_places(fleet)}


FLEET_TRIALS = int(os.environ.get("ISTHMUS_TRIALS", "80"))


@pytest.mark.parametrize(
    "case",
    [
        {"count": 8},
        {"count": 8, "of_node": 1.0},
        {"count": 8, "of_node": 0.5, "of_job": 0.5},
        {"count": 8, "node_sd": 0.05},
        {"count": 8, "node_sd": 0.05, "of_node": 1.0},
        {"count": 64, "node_sd": 0.03, "of_node": 0.5},
        {"count": 4, "node_sd": 0.05},
        {"count": 16, "states": "of jobs", "of_job": 0.5},
        {"count": 16, "states": "of nodes", "node_sd": 0.003, "job_sd": 0.003},
    ],
    ids=lambda case: ",".join(f"{name}={value}" for name, value in case.items()),
)
def test_healthy_fleets_are_quiet(case, capsys, record_property):
    chance = np.random.default_rng(21)
    share = np.mean([bool(named(values)) for values in fleets(chance, FLEET_TRIALS, **case)])
    error = math.sqrt(0.05 * 0.95 / FLEET_TRIALS)
    tell(capsys, record_property, f"healthy fleets with a node named, {case}: {share:.1%} ± {error:.1%}")
    assert share <= 0.05 + 3 * error


@pytest.mark.parametrize(
    "case, least",
    [
        ({"of_node": 0.0, "of_job": 0.0}, 0.99),
        ({"of_node": 0.0, "of_job": 1.0}, 0.95),
        ({"of_node": 0.5, "of_job": 0.5}, 0.80),
        ({"of_node": 1.0, "of_job": 1.0}, 0.50),  # metrics cannot be pooled, and eight values allow no better test
    ],
    ids=["independent", "jobs in common", "half in common", "all in common"],
)
def test_a_node_5_percent_slow_among_eight_is_named(case, least, capsys, record_property):
    """Makes a node 5% slow in all 50 metrics, where nodes and their 3 jobs each have a standard deviation of 1%."""
    chance, right, wrong = np.random.default_rng(22), 0, 0
    for values in fleets(chance, FLEET_TRIALS, 8, **case):
        values[:, 3] += math.log(0.95)
        found = named(values)
        right += 3 in found
        wrong += bool(found - {3})
    right, wrong = right / FLEET_TRIALS, wrong / FLEET_TRIALS
    told = f"5% slow among eight, {case}: named {right:.1%}, a healthy one {wrong:.1%}"
    tell(capsys, record_property, told)
    assert right >= least - 2 * math.sqrt(least * (1 - least) / FLEET_TRIALS)
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / FLEET_TRIALS)


@pytest.mark.parametrize("count, gpus", [(3, 4), (2, 4), (8, 4), (1, 8), (4, 2)])
@pytest.mark.parametrize("share", [1.0, 0.5], ids=["all metrics", "half of them"])
def test_a_gpu_is_named_however_many_metrics_are_slow(count, gpus, share):
    """Makes a GPU 11% slower in all or half of twenty metrics, where GPUs and jobs differ by 1%."""
    chance = np.random.default_rng(31)
    for values in fleets(chance, 10, count * gpus, metrics=20, node_sd=0.005):
        values[: round(share * 20), gpus - 1] -= 0.11
        assert named(values, gpus) == {gpus - 1}


@pytest.mark.parametrize("count, gpus, of_node", [(3, 4, 0.0), (3, 4, 1.0), (2, 4, 0.5), (8, 4, 0.5), (1, 8, 0.5)])
def test_healthy_gpus_are_quiet(count, gpus, of_node, capsys, record_property):
    """Simulates nodes and GPUs that each differ by 1%. The share `of_node` of this is common to all metrics."""
    chance = np.random.default_rng(32)
    every = fleets(chance, FLEET_TRIALS, count * gpus, metrics=20, of_node=of_node)
    every += np.repeat(fleets(chance, FLEET_TRIALS, count, metrics=20, job_sd=0.0, of_node=of_node), gpus, axis=-1)
    share = np.mean([bool(named(values, gpus)) for values in every])
    error = math.sqrt(0.05 * 0.95 / FLEET_TRIALS)
    told = f"healthy fleets of {count} nodes of {gpus} GPUs with one named, {of_node:.0%} in common: {share:.1%}"
    tell(capsys, record_property, f"{told} ± {error:.1%}")
    assert share <= 0.05 + 3 * error


def test_a_slow_gpu_is_named_before_its_series_and_its_node_is_not(tmp_path, capsys):
    """Makes one of 12 GPUs 16% slow in all series, while the other three GPUs of its node are healthy."""
    cases = []
    for gpu in range(4):
        every = machine(np.random.default_rng(gpu), 3, spread=0.005, bad=1 if gpu == 3 else None, worse=0.19)
        for case in every:
            case["devices"][0] |= {"uuid": f"GPU-{case['run']['node']}-{gpu}", "index": gpu}
            case["run"]["job"] += f"-{gpu}"
        cases += every
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("1 of 3 nodes are named: 1 slow;")
    assert re.search(r"node01 is slow: 1[56]\.\d% worse than the other GPUs of the node over 20 series together on "
                     "GPU-node01-3, and", said), said  # fmt: skip


def test_a_node_that_is_slow_in_one_metric_is_named_by_it():
    """Makes a node slow in one of 50 metrics, where nodes differ by 1%. The spread in the other metrics makes the
    finding certain."""
    values = fleets(np.random.default_rng(5), 1, 8)[0]
    values[7, 2] -= 0.08
    assert [place[:2] for place in nodes.slow_places(fleet_of(values))] == [(7, 2)]
    assert nodes.slow_as_a_whole(fleet_of(values)) == ([], [])


def test_two_dead_slow_nodes_of_eight_do_not_hide_each_other():
    values = fleets(np.random.default_rng(6), 1, 8)[0]
    values[:, [1, 4]] -= 0.7
    assert named(values) == {1, 4}


def test_the_spread_of_a_series_is_shrunk_as_far_as_series_are_alike():
    chance = np.random.default_rng(7)
    alike = 0.01**2 * chance.chisquare(6, 400) / 6
    common, worth = nodes._common(alike, 6)
    assert common == pytest.approx(0.01**2, rel=0.1) and worth > 60
    assert nodes._common(alike * np.exp(2 * chance.standard_normal(400)), 6)[1] < 2


# --- nodes: findings that are not from figures ---


def fleet_records(count=6, days=1, **changes):
    """Returns records of healthy nodes with one job per day. `changes` are fields of all records."""
    cases = []
    for day in range(days):
        for node in range(count):
            for number, workload in enumerate(METRICS[:3]):
                where = {"node": f"node{node:02}", "gpu": f"GPU-{node}", "job": f"{node}-{day}"}
                time = datetime.datetime(2026, 1, 1 + day)
                value = 0.001 * (1 + number) * (1 + 0.001 * math.sin(7 * node + 3 * day + number))
                cases.append(record(value, workload=workload, time=time, **where, **changes))
    return cases


def of_node(cases, name="node02"):
    return [case for case in cases if case["run"]["node"] == name]


def drained(folder, capsys, *arguments):
    capsys.readouterr()
    code = cli.main(["nodes", str(folder), "--drain", *arguments])
    return code, capsys.readouterr().out


def test_no_node_is_drained_whose_name_another_system_has_too(tmp_path, capsys):
    cases = []
    for system in ("a", "b"):
        for case in fleet_records(days=5):
            case["run"] |= {"system": system, "job": f"{system}-{case['run']['job']}"}
            case["devices"][0]["uuid"] = f"GPU-{system}-{case['devices'][0]['uuid']}"
            cases.append(case)
    for case in of_node(cases)[-15:]:  # cases of system b
        case["verify"] = case["verify"] | {"status": "fail"}
    folder = write(tmp_path / "r", cases)
    capsys.readouterr()
    assert cli.main(["nodes", str(folder), "--drain"]) == 1
    told = capsys.readouterr()
    assert told.out == "" and "'node02' is a node of several systems" in told.err and "with --system" in told.err
    assert drained(folder, capsys, "--system", "b")[1].startswith("node02\tfailing")
    assert drained(folder, capsys, "--system", "a") == (0, "")


def test_a_healthy_fleet_has_nothing_to_drain(tmp_path, capsys):
    folder = write(tmp_path / "r", fleet_records(days=5))
    assert drained(folder, capsys) == (0, "")
    assert drained(folder, capsys, "--expect", "node00,node09") == (
        1, "node09\tvanished: expected, but it has no record\n"
    )  # fmt: skip
    assert cli.main(["nodes", str(folder), "--expect", "a;b"]) == 2


@pytest.mark.parametrize("asked", [(), ("--metric", "time")])
@pytest.mark.parametrize("how", ["wrong", "crash"])
def test_a_node_that_computes_wrongly_or_crashes_comes_first(tmp_path, capsys, how, asked):
    cases = fleet_records()
    for case in cases:
        case["metrics"].insert(0, case["metrics"][0] | {"name": "another"})
    for case in of_node(cases)[:2]:
        if how == "wrong":
            case["verify"] = case["verify"] | {"status": "fail"}
        else:
            case |= {"error": 'illegal address\tat "0x7"; $(id)', "metrics": []}
    folder = write(tmp_path / "r", cases)
    code, said = drained(folder, capsys, *asked)
    assert code == 1 and said.count("\n") == 1 and said.count("\t") == 1
    node, why = said.rstrip("\n").split("\t")
    assert node == "node02" and why.startswith("failing: microbench/w0 and 1 more case: ")
    assert ("wrong results" in why) == (how == "wrong") and not set(why) & set("\"'`$")
    assert cli.main(["nodes", str(folder), *asked]) == 1
    assert "\nnode02 is failing: microbench/w0 and 1 more case: " in capsys.readouterr().out


def test_what_fails_on_most_nodes_is_told_but_drains_none(tmp_path, capsys):
    cases = fleet_records()
    for case in cases:
        if case["workload"] == METRICS[0] and case["run"]["node"] > "node01":
            case["verify"] = case["verify"] | {"status": "fail"}
    folder = write(tmp_path / "r", cases)
    assert drained(folder, capsys) == (1, "")
    assert cli.main(["nodes", str(folder)]) == 1
    assert "wrong results, as on most nodes that ran it" in capsys.readouterr().out


@pytest.mark.parametrize("how", ["record", "samples"])
def test_a_node_that_always_throttles_is_named(tmp_path, capsys, how):
    cases = fleet_records(days=3)
    for case in of_node(cases):
        if how == "record":
            case["warnings"] = [{"code": "throttled", "message": "x", "samples": None}]
        else:
            case["metrics"][0]["invalid"] = [0, 1, 2]
    code, said = drained(write(tmp_path / "r", cases), capsys)
    share = "100%" if how == "record" else "60%"
    assert code == 1 and said.startswith(f"node02\tinvalid: {share} of the samples of 3 jobs are invalid")
    every = fleet_records(days=3, warnings=[{"code": "throttled", "message": "x", "samples": [0, 1]}])
    assert drained(write(tmp_path / "all", every), capsys)[1] == ""


def test_a_node_that_vanished_is_named_and_one_that_runs_seldom_is_not(tmp_path, capsys):
    cases = fleet_records(days=14)
    gone = [case for case in cases if case["run"]["node"] != "node02" or case["run"]["time"] < "2026-01-08"]
    code, said = drained(write(tmp_path / "r", gone), capsys)
    assert (code, said) == (1, "node02\tvanished: no record since 2026-01-07, while its equals ran on 7 days\n")
    seldom = [case for case in cases if case["run"]["node"] != "node02" or case["run"]["time"][8:10] in ("03", "10")]
    assert drained(write(tmp_path / "s", seldom), capsys) == (0, "")
    short = [case for case in cases if case["run"]["node"] != "node02" or case["run"]["time"] < "2026-01-14"]
    assert drained(write(tmp_path / "t", short), capsys) == (0, "")


def test_a_crash_without_a_record_is_told(tmp_path, capsys):
    cases = fleet_records(days=2)
    kept = [case for case in cases if case["run"]["node"] != "node02" or case["workload"] != METRICS[1]]
    folder = write(tmp_path / "r", kept)
    assert drained(folder, capsys) == (1, "")
    assert cli.main(["nodes", str(folder)]) == 1
    assert "node02 is lacking figures: no job has a figure of microbench/w1" in capsys.readouterr().out


def several_gpus(count, *, days=8, together=False, there=lambda node, gpu, day: True):
    """Returns records of six nodes with `count` GPUs each. One job per day uses all GPUs of a node, in one case if
    `together`, or else in one case per GPU."""
    cases = []
    for node, day in itertools.product(range(6), range(days)):
        gpus = [gpu for gpu in range(count) if there(node, gpu, day)]
        for gpu in gpus[:1] if together else gpus:
            time = datetime.datetime(2026, 1, 1 + day, 0, node)
            case = record(0.001, node=f"node{node:02}", gpu=f"GPU-{node}{gpu}", job=f"{node}-{day}", time=time)
            if together:
                device = case["devices"][0]
                case["devices"] = [{**device, "uuid": f"GPU-{node}{each}"} for each in gpus]
            cases.append(case)
    return cases


def looked_at(folder, capsys, cases):
    capsys.readouterr()
    code = cli.main(["nodes", str(write(folder, cases))])
    return code, " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("together", [False, True])
def test_a_gpu_that_vanished_is_named_and_drains_its_node(tmp_path, capsys, together):
    cases = several_gpus(4, days=24, together=together, there=lambda node, gpu, day: (node, gpu) != (2, 3) or day < 12)
    code, said = looked_at(tmp_path / "r", capsys, cases)
    words = "no record in the last 12 days of the node, since 2026-01-12, on GPU-23"
    assert code == 1 and f"node02 is without a GPU: {words} node02: vanished" in said
    assert drained(tmp_path / "r", capsys) == (1, f"node02\tvanished: {words}\n")


def test_a_gpu_that_was_replaced_is_not_missing(tmp_path, capsys):
    def there(node, gpu, day):
        return node != 2 or gpu < 3 or (gpu == 3) == (day < 12)

    cases = several_gpus(5, days=24, there=lambda node, gpu, day: (gpu < 4 or node == 2) and there(node, gpu, day))
    code, said = looked_at(tmp_path / "r", capsys, cases)
    assert code == 0 and said.startswith("0 of 6 nodes are named")


def test_gpus_that_all_nodes_do_without_drain_none(tmp_path, capsys):
    cases = several_gpus(4, days=24, there=lambda node, gpu, day: gpu < 3 or day < 12)
    assert looked_at(tmp_path / "r", capsys, cases)[0] == 1
    assert drained(tmp_path / "r", capsys) == (1, "")


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("since", "words"), [(0, ""), (5, " since 2026-01-06")])
def test_a_node_with_fewer_gpus_than_its_equals_is_named(tmp_path, capsys, together, since, words):
    """Removes a GPU from a node's records, even from the first, so that only other nodes show that it is missing."""
    cases = several_gpus(4, together=together, there=lambda node, gpu, day: (node, gpu) != (2, 3) or day < since)
    code, said = looked_at(tmp_path / "r", capsys, cases)
    assert code == 1 and f"node02 is lacking figures: records of 3 GPUs{words}, but its equals have 4" in said
    last = several_gpus(4, together=together, there=lambda node, gpu, day: (node, gpu) != (2, 3) or day < 7)
    assert looked_at(tmp_path / "s", capsys, last)[0] == 0  # a single job may have been truncated


def test_a_gpu_that_no_job_happened_to_get_is_not_missing(tmp_path, capsys):
    """Runs jobs of one GPU on random GPUs."""
    chance = random.Random(1)
    wrong = 0
    for number in range(30):
        drawn = {(node, day): chance.randrange(4) for node in range(6) for day in range(12)}
        cases = several_gpus(4, days=12, there=lambda node, gpu, day, drawn=drawn: drawn[node, day] == gpu)
        wrong += looked_at(tmp_path / str(number), capsys, cases)[0]
    assert wrong <= 3


def two_gpus(cases):
    """Returns the cases and copies of them for a second GPU in each node, in separate jobs."""
    other = [json.loads(json.dumps(case)) for case in cases]
    for case in other:
        case["devices"][0]["uuid"] += "-second"
        case["run"]["job"] += "-second"
    return cases + other


def lacks(case, *, node="node02", workload=None, gpu="", days=()):
    """Returns whether a record matches all arguments and is to be removed."""
    return (
        case["run"]["node"] == node
        and case["workload"] == (workload or case["workload"])
        and case["devices"][0]["uuid"].endswith(gpu)
        and (not days or int(case["run"]["time"][8:10]) in days)
    )


@pytest.mark.parametrize(
    "of, said",
    [
        ({"workload": METRICS[1]}, "node02 is lacking figures: no job has a figure of microbench/w1 pm tiny time"),
        ({"workload": METRICS[1], "gpu": "-second"}, "w1 pm tiny time, which its equals have on GPU-2-second"),
        ({"workload": METRICS[1], "days": range(3, 9)}, "node02 is lacking figures: only 4 jobs have a figure of"),
        ({"workload": METRICS[1], "node": "none"}, None),
    ],
    ids=["a workload", "a workload on a GPU", "half of the jobs", "nothing"],
)  # fmt: skip
def test_what_a_node_or_gpu_lacks_is_named(tmp_path, capsys, of, said):
    cases = [case for case in two_gpus(fleet_records(days=8)) if not lacks(case, **of)]
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == bool(said)
    assert not said or said in " ".join(capsys.readouterr().out.split())


def test_a_metric_that_one_node_lacks_in_all_workloads_is_named(tmp_path, capsys):
    cases = fleet_records(days=2)
    for case in cases:
        rate = case["metrics"][0] | {"name": "rate", "unit": "B/s", "better": "higher"}
        case["metrics"] = [rate] if case["run"]["node"] == "node02" else [rate, case["metrics"][0]]
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "node02 is lacking figures: no job has a figure of microbench/w0 pm tiny time and 2 more series" in said


def test_what_only_some_nodes_ever_had_or_a_new_node_has_not_yet_is_no_lack(tmp_path):
    cases = [case for case in fleet_records(count=8, days=6) if case["workload"] != METRICS[2] or
             case["run"]["node"] < "node04"]  # fmt: skip
    cases = [case for case in cases if case["run"]["node"] != "node07" or case["run"]["time"] > "2026-01-05"]
    assert cli.main(["nodes", str(write(tmp_path / "r", cases))]) == 0


def test_a_node_that_is_named_for_one_workload_is_still_looked_at_in_the_others(tmp_path, capsys):
    cases = fleet_records(days=3)
    for case in of_node(cases):
        if case["workload"] == METRICS[0]:
            case["verify"] = case["verify"] | {"status": "fail"}
    kept = [case for case in cases if not lacks(case, workload=METRICS[1])]
    assert cli.main(["nodes", str(write(tmp_path / "r", kept))]) == 1
    said = capsys.readouterr().out
    assert "node02: failing" in said and "node02: lacking" in said and "a figure of microbench/w0" not in said


def test_a_hostile_name_reaches_no_command_line(tmp_path, capsys):
    cases = machine(np.random.default_rng(1), 8, spread=0.005, bad=7, worse=0.5)
    for case in cases:
        if case["run"]["node"] == "node07":
            case["run"]["node"] = "x; rm -rf \x1b[1m/"
    folder = str(write(tmp_path / "r", cases))
    assert cli.main(["nodes", folder, "--drain"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "not a name that a scheduler accepts" in said.err and "\x1b" not in said.err
    assert cli.main(["nodes", folder]) == 1
    assert "\x1b" not in capsys.readouterr().out


# --- comparing ---


@pytest.fixture
def systems(tmp_path):
    """Writes three systems: old; new, which is 1.5 times as fast; and odd, 0.8 times as fast and lacking a workload."""
    chance = np.random.default_rng(2)
    folders = []
    for name, speed, workloads in (("old", 1, METRICS), ("new", 1.5, METRICS), ("odd", 0.8, METRICS[1:])):
        cases = machine(chance, 1, spread=0, jobs=8, workloads=workloads, nights=True)
        for case in cases:
            case["metrics"][0]["median"] /= speed
            case["metrics"][0] |= {"share": 0.5 * speed, "limit": {"value": 1.0, "unit": "s", "source": "link"}}
            case["run"]["system"] = name
        folders.append(str(write(tmp_path / name, cases)))
    return folders


def asked_of(folders):
    """Returns the arguments of a command that reads these folders."""

    class Asked:
        paths, by, workload, metric, system, since, until, emulated, profiled = folders, *[None] * 6, False, False

    return Asked


def test_ratios_have_intervals_that_hold_the_truth(systems):
    loaded = compare.load(asked_of(systems))
    rows = [compare.cells(loaded, key) for key in loaded[2].series]
    held = [row[1].low <= 1 / 1.5 <= row[1].high for row in rows]
    assert np.mean(held) >= 0.8 and all(row[0].ratio is None for row in rows)
    assert [system.name for system in loaded] == ["old", "new", "odd"]


def test_the_answer_comes_first_then_what_matters(systems, capsys):
    assert cli.main(["compare", *systems]) == 0
    said = capsys.readouterr().out.splitlines()
    answer = said[: said.index("")]
    assert len(answer) <= 10
    told = " ".join(" ".join(answer).split())
    assert re.search(r"new against old: of 20 series 20 better by up to ×1\.5\d \(microbench/w\d+ pm tiny time\)", told)
    assert re.search(r"odd against old: of 19 series 19 worse by up to ×1\.2\d \(", told)
    assert "old: one node only, node00; new: one node only, node00" in told and "only in old: 1 series" not in told
    assert re.search(r"furthest from its limit: microbench/w\d+ pm tiny time of odd, 40\.0% of it", told)
    shown = said[len(answer) + 1 :]
    assert shown[0].split() == ["system", "value", "±", "of", "×", "95%"]
    assert re.fullmatch(r"microbench/w\d+ pm tiny time", shown[1])
    assert re.search(r"^  old +\d.* 50%$", shown[2]) and re.search(
        r" 75% ×1\.[45]\d faster \[1\.[45]\d, 1\.[45]\d\] 1 node$", shown[3]
    )
    assert re.search(r" 40% ×1\.2\d slower \[1\.2\d, 1\.2\d\] 1 node$", shown[4])
    assert "not shown: 9 worse; --all shows them, --format csv has them" in " ".join(said)


def test_all_lists_every_series(systems, capsys):
    assert cli.main(["compare", *systems, "--all"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{name} pm tiny time\n" in said for name in METRICS) and "not shown" not in said
    lacking = said.splitlines()[said.splitlines().index(f"{METRICS[0]} pm tiny time") :]
    assert lacking[3].split() == ["odd", "-"]


def test_a_time_and_a_rate_say_which_way_they_are_off(tmp_path, capsys):
    """Compares a time, a rate and a metric without a better direction, which is reported as more or less."""
    for name, factor in (("old", 1.0), ("new", 1.5)):
        cases = machine(np.random.default_rng(2), 1, jobs=4, workloads=METRICS[:1], nights=True)
        for case in cases:
            [time] = case["metrics"]
            time["median"] *= factor
            time |= {"name": "time", "unit": "s", "better": "lower"}
            rate = time | {
                "name": "rate",
                "unit": "B/s",
                "better": "higher",
                "samples": [1 / v for v in time["samples"]],
            }
            share = time | {"name": "hits", "unit": "1", "better": "higher"}
            peak = time | {"name": "memory_peak", "unit": "B", "better": None}
            case["metrics"] = [time, rate | {"median": 1 / time["median"]}, share, peak]
        write(tmp_path / name, cases)
    folders = [str(tmp_path / name) for name in ("old", "new")]
    assert cli.main(["compare", *folders]) == 0
    said = capsys.readouterr().out
    for metric, word in (("time", "slower"), ("rate", "slower"), ("hits", "better"), ("memory_peak", "more")):
        assert re.search(rf"tiny {metric}\n  old .*\n  new .* ×1\.50 {word} +\[1\.4\d, 1\.5\d\] 1 node", said), said
    assert cli.main(["compare", *folders, "--format", "json"]) == 0
    verdicts = {row["metric"]: row["verdict"] for row in json.loads(capsys.readouterr().out) if row["system"] == "new"}
    assert verdicts == {"time": "worse", "rate": "worse", "hits": "better", "memory_peak": "other"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Returns the printed lines of the comparison of the committed records of H100 and H200 hosts."""
    folders = [ROOT / "papers/data" / name for name in ("h100", "h200")]
    command = [sys.executable, "-m", "isthmus", "compare", *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_kept_systems_are_answered_in_ten_lines(kept):
    answer = kept[: kept.index("")]
    told = " ".join(" ".join(answer).split())
    assert len(answer) <= 10 and len(kept) < 120 and max(map(len, kept)) <= 80
    assert re.match(r"h200 against h100: of \d+ series ", told) and re.search(r"not sure: \d+ \(.*\d+ one boot", told)
    assert re.search(r"where: h100: \d\d nodes, vm#\w+, vm#\w+ …; h200: 2\d nodes, vm#", told)
    assert "furthest from its limit: " in told and "not alike: build" in told
    assert re.search(r"only in h100: \d+ series; only in h200: \d+ series", told)
    assert not any("left out of" in line.lower() for line in kept)


def test_every_comparison_fits_80_columns(systems, kept, capsys):
    assert cli.main(["compare", *systems, "--all"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    [place] = [i for i, line in enumerate(kept) if line == "machine stolen_share"]
    assert kept[place + 1].split()[:2] == ["h100", "0.00011"]  # not "110 µ", because a share has no unit


def test_every_value_that_is_compared_has_an_interval(systems, tmp_path, capsys):
    """Checks that every value has an interval: over jobs, or within the job if there is only one."""
    assert cli.main(["compare", *systems]) == 0
    said = capsys.readouterr().out.splitlines()
    place = next(i for i, line in enumerate(said) if line.startswith("microbench"))
    assert "±" in said[place + 1] and "±" in said[place + 2]
    assert any(line.startswith("±: half the interval") for line in said)
    for name, value in (("one", 1.0), ("two", 2.0)):
        case = record(value, chance=np.random.default_rng(4))
        case["metrics"][0] |= {"within_job": [0.9 * value, 1.2 * value], "mad": 0.01}
        write(tmp_path / name, [fitting(case)])
    assert cli.main(["compare", str(tmp_path / "one"), str(tmp_path / "two"), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["value_low"], row["value_high"], row["interval"]) for row in rows] == [
        (0.9, 1.2, "within"), (1.8, 2.4, "within"),
    ]  # fmt: skip


def test_hosts_stand_beside_the_figures_and_in_no_score(tmp_path, capsys):
    for name, speed in (("old", 1), ("new", 1.2)):
        cases = machine(np.random.default_rng(2), 1, spread=0, jobs=8, workloads=METRICS[:1], nights=True)
        cases = [with_speed(case, stolen=0.25 / speed, integer_rate=3e9 * speed) for case in cases]
        write(tmp_path / name, cases)
    folders = [str(tmp_path / name) for name in ("old", "new")]
    assert cli.main(["compare", *folders]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^machine integer_rate\n  old +3\.00 G/s.*\n  new +3\.60 G/s.* ×1\.20 faster", said, re.M), said
    assert re.search(r"^machine stolen_share\n  old +0\.25 ", said, re.M)
    assert said.index("\nmicrobench/w0") < said.index("\nmachine ")
    assert {each.workload for each in compare.load(asked_of(folders))[0].series.values()} == {METRICS[0]}


def test_hosts_alone_are_nothing_to_compare(tmp_path, capsys):
    for name, workload in (("old", "microbench/a"), ("new", "microbench/b")):
        write(tmp_path / name, [with_speed(record(1.0, workload=workload), stolen=0.0)])
    assert cli.main(["compare", str(tmp_path / "old"), str(tmp_path / "new")]) == 2
    assert "no series is in two systems" in capsys.readouterr().err


def test_figures_of_two_files_are_two_series(tmp_path, capsys):
    def measured(name, file):
        case = record(1.0)
        case["axes"]["input_file"] = file
        return str(write(tmp_path / name, [case]))

    old, new, same = measured("old", "a" * 12), measured("new", "b" * 12), measured("same", "a" * 12)
    assert cli.main(["compare", old, new]) == 2
    assert "no series is in two systems" in capsys.readouterr().err
    assert cli.main(["compare", old, same]) == 0


def test_by_a_field(systems, capsys):
    assert cli.main(["compare", *systems, "--by", "system"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("odd against new: of 19 series ") and "\nold against new: of 20 series " in said
    assert re.search(r" time\n  new .*\n  odd .*\n  old ", said) and "×: to new," in said


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["compare", "{0}"], "comparing needs two systems, but one folder was named"),
        (["compare", "{0}", "{0}"], "a folder is named twice"),
        (["compare", "{0}", "--by", "system"], "but system is old in all selected records"),
        (["compare", "{0}", "--by", "colour"], "--by colour is not a field; choose from device, "),
        (["compare", "{0}", "--by", "drivers"], "--by drivers is not a field; did you mean 'driver'?"),
        (["compare", "{0}", "/none"], "/none: no such file or folder"),
    ],
)
def test_what_cannot_be_compared(systems, capsys, arguments, why):
    assert cli.main([argument.format(*systems) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def verified(cases, status):
    """Changes the outcome of every second case to `status`. An error also removes the case's metrics."""
    for case in cases[::2]:
        if status == "error":
            case |= {"error": "device lost", "metrics": []}
        elif status == "invalid":
            case["warnings"] = [{"code": "throttled", "message": "x", "samples": None}]
        else:
            case["verify"] = case["verify"] | {"status": status}
    return cases


@pytest.mark.parametrize(
    "status, words",
    [("error", "failed"), ("fail", "wrong"), ("not_run", "not verified"), ("invalid", "invalid")],
)
def test_what_failed_or_is_wrong_is_told_by_system_and_ends_no_gate_green(tmp_path, capsys, status, words):
    chance = np.random.default_rng(2)
    folders = []
    for name, outcome in (("old", "pass"), ("new", status)):
        cases = verified(machine(chance, 1, spread=0, jobs=12, workloads=METRICS[:3], nights=True), outcome)
        folders.append(str(write(tmp_path / name, [case | {"run": case["run"] | {"system": name}} for case in cases])))
    score = ["--reference", "old", "--weights", weights(tmp_path, '[metrics]\n"microbench/* time" = 1\n')]
    both = str(tmp_path)
    for command in (
        ["compare", *folders], ["compare", *folders, "--metric", "time"], ["compare", both, "--by", "system"],
        ["score", *folders, *score],
    ):  # fmt: skip
        code = cli.main(command)
        said = capsys.readouterr()
        assert f"new: of 36 cases 18 {words}; none of these counts\n" in said.err and "old: of" not in said.err
        assert code == (exits.PASSED if status == "invalid" else exits.UNDECIDED) and said.out
        assert command[0] == "score" or f"new: of 36 cases 18 {words}" in said.out


def test_systems_of_which_all_is_wrong_are_not_said_to_differ_in_workloads(tmp_path, capsys):
    for name, status in (("old", "pass"), ("new", "fail")):
        cases = machine(np.random.default_rng(2), 1, jobs=3, workloads=METRICS[:1])
        write(tmp_path / name, [case | {"verify": case["verify"] | {"status": status}} for case in cases])
    assert cli.main(["compare", str(tmp_path / "old"), str(tmp_path / "new")]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert "no series that counts is in two systems (new: of 3 cases 3 wrong)" in said and "workloads" not in said


def test_systems_that_computed_something_else_end_no_gate_green(tmp_path, capsys):
    for name in ("old", "new"):
        cases = machine(np.random.default_rng(2), 1, jobs=8, workloads=METRICS[:1])
        for case in cases:
            case["verify"] |= {"inputs": "n=1024", "checksums": {"out": name.encode().hex().zfill(16)}}
            case["run"]["system"] = name
        write(tmp_path / name, cases)
    for command in ([str(tmp_path / "old"), str(tmp_path / "new")], [str(tmp_path), "--by", "system"]):
        assert cli.main(["compare", *command]) == exits.UNDECIDED
        assert capsys.readouterr().err.count(" disagree: ") == 1


def test_records_without_the_field_are_told(tmp_path, capsys):
    def compared(*libraries, asked=()):
        """Compares one record per library, by a field that is missing for None. Returns the exit code and stderr."""
        cases = [
            record(1.0 + i, job=str(i), gpu=f"GPU-{i}", chance=np.random.default_rng(i)) for i in range(len(libraries))
        ]
        for case, library in zip(cases, libraries):
            case["devices"][0]["name"] = library or ""
        folder = write(tmp_path / "r", cases)
        return cli.main(["compare", str(folder), "--by", "device", *asked]), capsys.readouterr().err

    assert compared("A", "B") == (exits.PASSED, "")
    assert compared("A", "B", None) == (exits.PASSED, "1 record without device left out\n")
    for libraries, why in (
        (("A", "A"), "device is A in all selected records"),
        (("A", "A", None), "device is A in 2 records, and 1 without it"),
        ((None, None), "no record has device"),
    ):
        code, said = compared(*libraries)
        assert code == exits.BAD_INPUT and f"comparing needs two systems, but {why}; name another folder" in said


def test_a_system_without_the_metric_that_is_asked_for_is_none(tmp_path, capsys):
    cases = [record(1.0 + i, job=str(i), run__system=name) for i, name in enumerate(("a", "b", "c"))]
    cases[2]["metrics"][0]["name"] = "another"
    asked = ["compare", str(write(tmp_path / "r", cases)), "--by", "system", "--metric"]
    assert cli.main([*asked, "time", "--format", "json"]) == exits.PASSED
    assert {row["system"] for row in json.loads(capsys.readouterr().out)} == {"a", "b"}
    assert cli.main([*asked, "another"]) == exits.BAD_INPUT
    assert "system is c in " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "score"])
@pytest.mark.parametrize("boots, nodes, why", [(1, 1, "one boot"), (2, 1, "to that node"), (1, 4, "one night")])
def test_equal_systems_are_not_told_apart(tmp_path, capsys, command, boots, nodes, why):
    """Runs eight jobs of a node in one or two boots that differ by 0.4%, or on four nodes in one night."""
    for name, shift in (("old", (0.0, 0.002)), ("new", (-0.005, -0.002))):
        cases = machine(np.random.default_rng(3), nodes, spread=0, jobs=8, workloads=METRICS[:2])
        for case in cases:
            job = int(case["run"]["job"].split("-")[1])
            boot = job * boots // 8
            case["host"]["boot_id"] = f"{name} {case['run']['node']} {boot}"
            case["run"]["time"] = f"2026-01-{1 + 2 * boot:02}T{job:02}:00:00Z"
            case["metrics"][0]["median"] = 0.001 * math.exp(shift[boot]) * (1 + 1e-4 * (job % 4))
        write(tmp_path / name, cases)
    folders = [str(tmp_path / name) for name in ("old", "new")]
    if command == "score":
        weighed = ["--reference", "old", "--weights", weights(tmp_path, '[metrics]\n"microbench/* time" = 1\n')]
        assert cli.main(["score", *folders, *weighed]) == (exits.PASSED if boots > 1 else exits.UNDECIDED)
        said = capsys.readouterr().out
        ranks = re.findall(r"^(\S+) +(?:old|new) ", said, re.M)
        assert ranks == (["1-2", "1-2"] if boots > 1 else ["?", "?"])
        assert re.search(r"^\S+ +new .*of 1 node", said, re.M) if boots > 1 else f"? {why}" in said
    else:
        assert cli.main(["compare", *folders]) == 0
        said = capsys.readouterr().out
        assert said.startswith("new against old: of 2 series none is surely better or worse\n")
        assert re.search(r"^  new .* unsure \[.*\] 1 node$", said, re.M) if boots > 1 else f" {why}\n" in said
        assert why in said


def compared(tmp_path, capsys, old, new, *more):
    """Compares two lists of records. Returns the exit code, stdout and stderr."""
    folders = [str(write(tmp_path / name, cases)) for name, cases in (("old", old), ("new", new))]
    code = cli.main(["compare", *folders, *more])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_what_cannot_be_compared_is_one_sentence(tmp_path, capsys):
    good = machine(np.random.default_rng(2), 1, jobs=2, workloads=METRICS[:1])
    emulated = [case | {"emulated": True} for case in good]
    later = [case | {"version": case["version"] + 1} for case in good]
    other = machine(np.random.default_rng(2), 1, jobs=2, workloads=METRICS[1:2])
    for new, more, why in (
        (emulated, (), "all 2 records are emulated; with --emulated they are included"),
        (later, (), "no series is in two systems: microbench/w0 is of version 1 in old and 2 in new; measure both"),
        (other, (), "no series is in two systems: they measured different workloads"),
        (good, ("--metric", "nothing"), "no record has the metric 'nothing'"),
        (good, ("--system", "nothing"), "no record has the system 'nothing'"),
        (good, ("--workload", "nothing"), "no record has the workload 'nothing'"),
    ):
        code, out, err = compared(tmp_path, capsys, good, new, *more)
        assert code == exits.BAD_INPUT and not out and why in err and err.count("\n") == 1, err


def test_other_builds_drivers_and_versions_are_named(tmp_path, capsys):
    def measured(git, driver, version):
        cases = machine(np.random.default_rng(2), 1, jobs=2, workloads=METRICS[:2], devices__0__driver=driver)
        for case in cases:
            case["run"]["git"] = git
            case["version"] = version if case["workload"] == METRICS[1] else case["version"]
        return cases

    code, out, _ = compared(tmp_path, capsys, measured("a" * 40, "570.1", 1), measured("b" * 40, "580.1", 2))
    told = " ".join(out.partition("\n\n")[0].split())
    assert (
        code == 0
        and "not alike: driver, build (driver 570.1 against 580.1; build aaaaaaaaaa against bbbbbbbbbb)" in told
    )
    assert "not compared: microbench/w1 is of version 1 in old and 2 in new" in told
    assert "only in old: 1 series; only in new: 1 series" in told


def test_what_a_system_skipped_is_said(tmp_path, capsys):
    whole = machine(np.random.default_rng(2), 1, jobs=2, workloads=METRICS[:2])
    part = [json.loads(json.dumps(case)) for case in whole]
    for case in part:
        if case["workload"] == METRICS[1]:
            case.update(metrics=[], skipped="needs 4 GiB of host memory")
    code, out, _ = compared(tmp_path, capsys, whole, part)
    told = " ".join(out.partition("\n\n")[0].split())
    assert "new skipped 2 of 4 cases, most because: needs 4 GiB of host memory" in told and code == 0, told
    assert "old skipped" not in told


def test_what_casts_doubt_stands_next_to_the_figure(tmp_path, capsys):
    good = machine(np.random.default_rng(2), 1, jobs=4, workloads=METRICS[:2], nights=True)
    doubted = [json.loads(json.dumps(case)) for case in good]
    for case in doubted[:4]:  # the cases of the first workload
        case["warnings"] = [{"code": "timer_coarse", "message": "time is of few ticks", "samples": None}]
    code, out, _ = compared(tmp_path, capsys, good, doubted, "--all")
    assert code == 0 and len(re.findall(r"^    ! new: .*timer", out, re.M)) == 1, out
    lines = out.splitlines()
    [place] = [i for i, line in enumerate(lines) if line.startswith("    ! new: ")]
    assert lines[place - 3].startswith("microbench/w0") and lines[place - 1].startswith("  new ")


def uneven(how):
    """Returns records of two workloads with two metrics on three nodes with two GPUs. Node 2, or one of its GPUs, lacks
    what `how` says."""
    cases = []
    for gpu in range(2):
        every = machine(np.random.default_rng(gpu), 3, spread=0.001, jobs=4, workloads=METRICS[:2], nights=True)
        for case in every:
            case["devices"][0]["uuid"] = f"GPU-{case['run']['node']}-{gpu}"
            case["run"]["job"] += f"-{gpu}"
            case["metrics"].append(case["metrics"][0] | {"name": "rate", "unit": "B/s", "better": "higher"})
        cases += every
    of = {
        "metric": lambda c: c["metrics"].pop(0) and False,
        "metric of a GPU": lambda c: c["devices"][0]["uuid"].endswith("-1") and c["metrics"].pop(0) and False,
        "skipped": lambda c: c.update(skipped="too large", metrics=[]),
        "case": lambda c: c["workload"] == METRICS[0],
        "gone": lambda c: True,
        "gpu gone": lambda c: c["devices"][0]["uuid"].endswith("-1"),
    }  # fmt: skip
    return [case for case in cases if how == "none" or case["run"]["node"] != "node02" or not of[how](case)]


@pytest.mark.parametrize(
    "how, said",
    [
        ("none", None),
        ("metric", r"new lacks microbench/w0 \S+ tiny time and 1 more series on node02"),
        ("metric of a GPU", r"new lacks microbench/w0 \S+ tiny time and 1 more series on GPU-node02-1 of node02"),
        ("skipped", r"new has no figure on node02, where cases ran"),
        ("case", r"new lacks microbench/w0 \S+ tiny (time|rate) and 1 more series on node02"),
        ("gone", r"new did not run on node02, but others here did"),
        ("gpu gone", r"new did not run on GPU-node02-1 of node02, but others here did"),
    ],
)
def test_a_part_of_a_system_does_not_vanish_without_a_word(tmp_path, capsys, how, said):
    """Checks that the answer names what a node or GPU lacks compared with its equals, and that no command passes."""
    code, out, _ = compared(tmp_path, capsys, uneven("none"), uneven(how))
    told = " ".join(out.partition("\n\n")[0].split())
    assert code == (exits.UNDECIDED if said else exits.PASSED)
    assert re.search(f"not like for like: {said}", told) if said else "not like for like" not in told, told
    folders = [str(tmp_path / name) for name in ("old", "new")]
    weighed = ["--reference", "old", "--weights", weights(tmp_path, '[metrics]\n"microbench/* time" = 1\n')]
    assert (cli.main(["score", *folders, *weighed]) == exits.PASSED) == (said is None)


def test_other_nodes_are_no_lack(tmp_path, capsys):
    """Compares with a machine that has fewer nodes, and other nodes that ran other workloads."""
    other = machine(np.random.default_rng(5), 2, spread=0.001, jobs=4, workloads=METRICS[:2], nights=True)
    hosts = machine(np.random.default_rng(6), 2, spread=0.001, jobs=4, workloads=METRICS[2:4], nights=True)
    for case in other:
        case["devices"][0]["uuid"] += "-of-another"
    for case in hosts:
        case["devices"] = []
        case["run"]["node"] += "-cpu"
    assert compared(tmp_path, capsys, uneven("none"), other + hosts)[0] == exits.PASSED


def test_a_score_does_not_gain_by_what_a_slow_node_leaves_out(tmp_path, capsys):
    write(tmp_path / "old", uneven("none"))
    write(tmp_path / "new", uneven("metric"))
    file = weights(tmp_path, '[metrics]\n"microbench/* time" = 1\n"microbench/* rate" = 9\n')
    arguments = ["score", str(tmp_path / "old"), str(tmp_path / "new"), "--weights", file, "--reference", "old"]
    assert cli.main(arguments) == exits.UNDECIDED
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("90% of the weight counts, in 2 series") and "missing on node02 of new" in told


def test_many_systems_are_answered_in_ten_lines(tmp_path, capsys):
    folders = []
    for i in range(9):
        cases = machine(np.random.default_rng(i), 1, jobs=4, workloads=METRICS[:3], nights=True)
        folders.append(str(write(tmp_path / f"system-{i}-{'x' * 30}", cases)))
    assert cli.main(["compare", *folders]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said.index("") <= 10 and max(map(len, said)) <= 80


# --- scores ---


def weights(tmp_path, text, name="w.toml"):
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_scores_are_weighted_geometric_means(systems, tmp_path, capsys):
    file = weights(tmp_path, '[metrics]\n"microbench/w1 time" = 3\n"microbench/w2 time mode=pm size=tiny" = 1\n')
    assert cli.main(["score", *systems, "--weights", file, "--reference", "old"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "100% of the weight counts, in 2 series"
    rows = {line.split()[1]: line.split() for line in lines[2:5]}
    assert [row[0] for row in rows.values()] == ["1", "2", "3"] and list(rows) == ["new", "old", "odd"]
    for name, truth in (("new", 1.5), ("odd", 0.8)):
        low, high = (float(word.strip("[],")) for word in rows[name][3:5])
        assert float(rows[name][2]) == pytest.approx(truth, rel=0.02) and low <= float(rows[name][2]) <= high
        assert rows[name][5:] == ["of", "1", "node", "1", "8", "8", "100%"]
    assert rows["old"][2] == "1.000"
    assert any(line.split()[0] == "75.0%" for line in lines)
    assert "note: new, old, odd: one node, so the intervals exclude differences between nodes" in " ".join(
        " ".join(lines).split()
    )


def test_a_wildcard_divides_its_weight_and_what_one_lacks_counts_for_none(systems, tmp_path, capsys):
    file = weights(tmp_path, json.dumps({"metrics": {"microbench/w* time": 1}}), "w.json")
    assert cli.main(["score", *systems, "--weights", file, "--reference", "old"]) == 3
    said = capsys.readouterr().out
    assert said.startswith("95% of the weight counts, in 19 series\n")
    assert "does not count: microbench/w0 pm tiny time: missing in odd" in said
    assert "over 19 series" in said and said.count(" 5.3% ") == 19


def test_too_little_of_the_weight_gives_no_score(systems, tmp_path, capsys):
    """Leaves out a workload with most of the weight, so that a machine cannot win by lacking what it is bad at."""
    file = weights(tmp_path, '[metrics]\n"microbench/w0 time" = 4\n"microbench/w1 time" = 2\n')
    arguments = ["score", *systems, "--weights", file, "--reference", "old"]
    assert cli.main(arguments) == 3
    said = capsys.readouterr().out
    assert said.startswith("33% of the weight counts, less than 80%: no score\n") and "rank" not in said
    assert "does not count: microbench/w0 pm tiny time: missing in odd" in said
    assert cli.main([*arguments, "--least", "0.3"]) == 3
    assert capsys.readouterr().out.startswith("33% of the weight counts, in 1 series\nrank")


def made(name, logs, *, places=None, first=0):
    """Returns a system made from logarithms (metrics, nodes, jobs). Higher is better, and a job measures all metrics on
    its node."""
    found = {}
    for number, of_metric in enumerate(logs):
        key = tuple(
            {"workload": f"w{number}", "metric": "rate", "unit": "B/s"}.get(column) for column in measurements.SERIES
        )
        jobs = [
            series.Job(
                f"{node}-{job}",
                {(f"{name}{node}", ""): float(np.exp(value))},
                frozenset({(f"{name}{node}", f"{name}{node} {job}")}),
                datetime.datetime(2026, 1, 1 + job, node),
            )
            for node, of_node in enumerate(of_metric, first)
            for job, value in enumerate(of_node)
        ]
        found[key] = series.Series(key, "higher", None, {"A": jobs})
    return compare.System(name, found, {})


def scored(*systems):
    counted, excluded = score.terms({"w* rate": 1}, list(systems))
    assert not excluded
    return score.scores(list(systems), counted, systems[0].name)


def drawn(chance, *, metrics, nodes, jobs, node_sd, shared_sd, own_sd=0.01):
    values = own_sd * chance.standard_normal((metrics, nodes, jobs))
    values += shared_sd * chance.standard_normal((1, nodes, jobs))
    return values + node_sd * chance.standard_normal((1, nodes, 1))


def test_series_that_do_not_count_for_one_reason_are_one_line():
    values = drawn(np.random.default_rng(2), metrics=5, nodes=2, jobs=2, node_sd=0.01, shared_sd=0.01)
    a, b = made("a", values), made("b", values)
    for key in list(b.series)[:3]:
        del b.series[key]
    counted, excluded = score.terms({"w* rate": 1}, [a, b])
    assert len(counted) == 2 and sum(term.weight for term in counted) == pytest.approx(0.4)
    assert excluded == ["w0 rate and 2 more of w* rate: missing in b"]


def test_a_copy_is_tied_with_its_original_and_one_job_has_no_rank():
    values = drawn(np.random.default_rng(2), metrics=5, nodes=4, jobs=4, node_sd=0.01, shared_sd=0.01)
    found = scored(made("a", values), made("b", values), made("c", values + 0.5))
    assert {each.name: each.ranks for each in found} == {"c": (1, 1), "a": (2, 3), "b": (2, 3)}
    said = score.text(found, score.terms({"w* rate": 1}, [made("a", values), made("b", values)])[0], [], "a")
    assert re.search(r"^2-3  a ", said, re.M) and "are tied: their jobs do not tell them apart" in said
    long = scored(made("a", values), made("NVIDIA H200 with a long name", values))
    said = score.text(long, [score.Term((), "a label that is long " * 5, 1.0, 1)], ["what is long " * 8], "a")
    assert max(map(len, said.splitlines())) <= 80
    few = scored(made("a", values), made("b", values[:, :1, :1] + 0.5))
    assert {each.name: (each.ranks, each.low) for each in few}["b"] == (None, None)
    assert any(line.startswith("note: b: not identifiable: jobs of one boot") for line in score._notes(few))
    few = scored(made("a", values), made("b", values[:, :1, :3] + 0.5))
    assert "note: b has 3 jobs of a series: no rank; run 1 more job of each" in score._notes(few)


def test_students_t_of_broken_degrees_of_freedom():
    assert clusters.quantile(0.025, 3) == pytest.approx(rank_test.student_quantile(0.025, 3))
    assert clusters.quantile(0.025, 1.5) == pytest.approx(6.0, rel=0.04)
    assert clusters.quantile(0.025, 3.5) == pytest.approx(2.94, rel=0.01)


def test_all_metrics_of_a_job_are_drawn_together():
    """Uses ten copies of a metric, which are only as certain as one, because shared noise does not average out."""
    one = drawn(np.random.default_rng(3), metrics=1, nodes=4, jobs=4, node_sd=0.0, shared_sd=0.01)
    ten = np.repeat(one, 10, axis=0)
    counted = score.terms({"w* rate": 1}, [made("a", ten)])[0]
    of_ten = score.estimate(made("a", ten), counted, np.full(10, 0.1))
    of_one = score.estimate(made("a", one), counted[:1], np.ones(1))
    assert of_ten.variance == pytest.approx(of_one.variance)


def test_a_job_on_all_nodes_is_one_job():
    """Runs four jobs on eight nodes each. The noise that is common to a job does not average out over its nodes."""
    chance, variances = np.random.default_rng(4), []
    for _ in range(50):
        common = 0.05 * chance.standard_normal(4)
        jobs = [
            series.Job(str(n), {(f"n{k}", ""): float(np.exp(common[n] + 0.001 * k)) for k in range(8)})
            for n in range(4)
        ]
        key = tuple({"workload": "w0", "metric": "rate", "unit": "B/s"}.get(column) for column in measurements.SERIES)
        system = compare.System("a", {key: series.Series(key, "higher", None, {"A": jobs})}, {})
        found = score.estimate(system, score.terms({"w* rate": 1}, [system])[0], np.ones(1))
        assert 2 <= found.freedom <= 3
        variances.append(found.variance)
    assert np.mean(variances) == pytest.approx(0.05**2 / 4, rel=0.4)


@pytest.mark.parametrize(
    "text, why",
    [
        ('[metrics]\n"microbench/w1 speed" = 1', "names no metric that any of the systems has measured"),
        ('[metrics]\n"nothing/at/all time" = 1', "names no metric that any"),
        ('[metrics]\n"microbench/w1" = 1', "names no metric; write"),
        ('[metrics]\n"microbench/w1 time" = 0', "the weight of 'microbench/w1 time' is 0; write a number above zero"),
        ('[metrics]\n"microbench/w1 time" = -1.5', "is -1.5; write a number above zero"),
        ('[metrics]\n"microbench/w1 time" = nan', "is nan; write a number above zero"),
        ('[metrics]\n"microbench/w1 time" = "x"', "is x; write a number above zero"),
        ('[metrics]\n"microbench/w1 time" = true', "is True; write a number above zero"),
        ('[metrics]\n"microbench/w1 time" = 1\n"microbench/* time" = 1', "is named by two patterns"),
        ("[metrics]\n", "not a file of weights (it has no table 'metrics', or nothing in it); write"),
        ("metrics = 1", "not a file of weights (it has no table 'metrics', or nothing in it); write"),
        ("[metric]\n", "not a file of weights ('metric' is not known here; did you mean 'metrics'?); write"),
        ("[[[", "not a file of weights"),
        ('[metrics]\n"microbench/w0 time" = 1', "nothing counts: microbench/w0 pm tiny time: missing in odd"),
    ],
)
def test_bad_weights_are_one_sentence(systems, tmp_path, capsys, text, why):
    file = weights(tmp_path, text)
    assert cli.main(["score", *systems, "--weights", file, "--reference", "old"]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_an_unknown_reference_is_named(systems, tmp_path, capsys):
    file = weights(tmp_path, '[metrics]\n"microbench/w1 time" = 1')
    assert cli.main(["score", *systems, "--weights", file, "--reference", "x"]) == 2
    assert "no system is called 'x'; there are old, new, odd" in capsys.readouterr().err
    assert cli.main(["score", *systems, "--weights", "/none", "--reference", "old"]) == 2


@pytest.mark.parametrize(
    "invalid", [{"warnings": [{"code": "foreign_processes", "message": "x", "samples": None}]}, {}]
)
def test_figures_beside_foreign_processes_are_in_no_ratio_and_no_score(tmp_path, capsys, invalid):
    chance = np.random.default_rng(3)
    a = write(tmp_path / "a", machine(chance, 2, jobs=8, workloads=METRICS[:2], nights=True))
    b = machine(chance, 2, jobs=8, workloads=METRICS[:1], nights=True)
    b += machine(chance, 2, jobs=8, workloads=METRICS[1:2], nights=True, **invalid)
    weights = tmp_path / "weights.toml"
    weights.write_text("".join(["[metrics]\n", *(f'"{name} time" = 1\n' for name in METRICS[:2])]))
    b = write(tmp_path / "b", b)
    cli.main(["compare", str(a), str(b)])
    compared = capsys.readouterr()
    cli.main(["score", str(a), str(b), "--reference", "a", "--weights", str(weights)])
    scored = capsys.readouterr().out
    assert ("only in a: 1 series" in compared.out) == bool(invalid)
    assert ("16 records are invalid" in compared.err) == bool(invalid)
    assert ("microbench/w1 pm tiny time: missing in b" in scored) == bool(invalid)


# --- exclusions by --without ---


@pytest.mark.parametrize("command", ["compare", "score", "trial read"])
@pytest.mark.parametrize(
    "without, why",
    [
        ("node=n77", "no record has the node 'n77'; there is node0"),
        ("node=node0*,size=huge", "no record has the size 'huge'"),
        ("node=node00,gpus=G1", "no record has all of node=node00,gpus=G1"),
        ("node=node05", ""),  # accepted, although only one of the folders has this node
    ],
)
def test_what_no_folder_has_cannot_be_left_out(tmp_path, capsys, command, without, why):
    def case(node, driver, number):
        where = {"job": f"{node}{driver}{number}", "time": datetime.datetime(2026, 1, 1 + number), "driver": driver}
        return record(0.001, node=f"node0{node}", gpu=f"G{node}", **where)

    plan = ["--nodes", "node00", "--jobs", "5", "--from", "driver=570", "--to", "driver=580", "--command", "true"]
    assert cli.main(["trial", "plan", str(tmp_path / "t"), *plan]) == 0
    folders = []
    for side, driver, ran_on in (("before", "570", (0, 5)), ("after", "580", (0, 1))):
        cases = [case(node, driver, job) for node in ran_on for job in range(5)]
        folders.append(str(write(tmp_path / "t/records" / side, cases)))
    (tmp_path / "w.json").write_text('{"metrics": {"microbench/saxpy time": 1}}')
    asked = {
        "compare": ["compare", *folders],
        "score": ["score", *folders, "--weights", str(tmp_path / "w.json"), "--reference", "before"],
        "trial read": ["trial", "read", str(tmp_path / "t")],
    }[command]
    capsys.readouterr()
    assert (cli.main([*asked, "--without", without]) == 2) == bool(why)
    assert why in capsys.readouterr().err
