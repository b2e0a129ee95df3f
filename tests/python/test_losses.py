"""Tests that `isthmus nodes` names losses of one GPU or node and values at zero, whatever else is in the records."""

import datetime
import functools
import json

import numpy as np
import pytest
from histories import record, tell, write

from isthmus import cli
from isthmus.verdicts import nodes, zeros

THROTTLED = {"code": "throttled", "message": "the GPU was throttled", "samples": None}


def fleet(days=10, *, count=8, gpus=4, shared=False, workloads=("microbench/w0",), value=0.9, metric="share"):
    """Returns records of healthy nodes. Each day has a job on each GPU, or with `shared` one job on a node's GPUs."""
    chance, cases = np.random.default_rng(3), []
    for day in range(days):
        for node in range(count):
            for gpu in range(gpus):
                for workload in workloads:
                    case = record(
                        value * (1 + 0.002 * chance.standard_normal()), node=f"n{node}", gpu=f"G{node}-{gpu}",
                        job=f"{node}-{day}" if shared else f"{node}-{gpu}-{day}", workload=workload,
                        time=datetime.datetime(2026, 1, 1 + day), host__boot_id=f"n{node} {day}",
                    )  # fmt: skip
                    case["metrics"][0] |= {"name": metric, "unit": "1", "better": "higher"}
                    cases.append(case)
    return cases


def of(cases, gpu, workload=None):
    return [
        case for case in cases
        if case["devices"][0]["uuid"].startswith(gpu) and case["workload"] == (workload or case["workload"])
    ]  # fmt: skip


def at(value, cases, *, better=None):
    for case in cases:
        case["metrics"][0] |= {"median": value, "samples": [value] * 5} | ({"better": better} if better else {})


def said(folder, capsys, *arguments, command="nodes"):
    """Returns the exit code of a command, and its output as one line."""
    capsys.readouterr()
    code = cli.main([command, str(folder), *map(str, arguments)])
    return code, " ".join(capsys.readouterr().out.split())


# --- invalid samples ---


@pytest.mark.parametrize("gpus, shared", [(4, False), (16, True)], ids=["a job for each GPU", "one of 16 in a job"])
def test_a_gpu_of_which_every_figure_is_invalid_is_named(tmp_path, capsys, gpus, shared):
    cases = fleet(3, gpus=gpus, shared=shared)
    assert said(write(tmp_path / "healthy", cases), capsys)[0] == 0
    for case in of(cases, "G3-2"):
        case["warnings"] = [THROTTLED]
    code, text = said(write(tmp_path / "r", cases), capsys)
    assert code == 1 and "1 of 8 nodes are named: 1 invalid" in text
    assert "100% of the samples of 3 jobs are invalid (throttled), usual 0% on G3-2" in text
    assert said(tmp_path / "r", capsys, "--drain")[1].startswith("n3 invalid: 100%")


def test_a_gpu_whose_only_job_is_invalid_is_named_but_drains_no_node(tmp_path, capsys):
    cases = fleet(1)
    of(cases, "G3-2")[0]["warnings"] = [THROTTLED]
    code, text = said(write(tmp_path / "r", cases), capsys)
    assert code == 1 and "100% of the samples of 1 job are invalid" in text
    assert said(tmp_path / "r", capsys, "--drain") == (1, "")


def test_gpus_are_not_named_for_the_one_that_they_ran_with(tmp_path, capsys):
    cases = fleet(5)
    for case in [*cases]:
        if case["devices"][0]["uuid"].endswith("-1"):
            both = json.loads(json.dumps(case))
            both["devices"].append(json.loads(json.dumps(both["devices"][0])))
            both["devices"][1] |= {"uuid": case["devices"][0]["uuid"][:-1] + "2", "index": 1}
            both |= {"workload": "microbench/pair"}
            cases.append(both)
    for case in cases:
        if case["run"]["node"] == "n3" and any(device["uuid"] == "G3-2" for device in case["devices"]):
            case["warnings"] = [THROTTLED]
    code, text = said(write(tmp_path / "r", cases), capsys)
    assert code == 1 and "on G3-2" in text and "G3-1" not in text


@pytest.mark.parametrize("place", ["G3-2", "G3-"], ids=["a GPU", "a node"])
def test_a_case_that_is_invalid_on_one_place_alone_is_a_figure_that_it_lacks(tmp_path, capsys, place):
    """Makes one of thirty cases invalid on one GPU or node. The missing figure must be reported although less than a
    tenth of the samples of that GPU or node are invalid."""
    cases = fleet(4, gpus=2 if place == "G3-" else 3, workloads=[f"microbench/w{i}" for i in range(30)])
    for case in of(cases, place, "microbench/w7"):
        case["warnings"] = [THROTTLED]
    code, text = said(write(tmp_path / "r", cases), capsys)
    assert code == 1 and "no job has a figure of microbench/w7" in text and "1 lacking" in text
    assert "which its equals have; invalid in" in text and (" on G3-2" in text) == (place == "G3-2")


def test_what_one_gpu_fails_does_not_hide_what_another_lacks(tmp_path, capsys):
    cases = fleet(4, workloads=("microbench/w0", "microbench/w1"))
    for case in of(cases, "G3-0", "microbench/w0"):
        case["verify"] = case["verify"] | {"status": "fail"}
    gone = [id(case) for case in of(cases, "G3-2", "microbench/w0")]
    code, text = said(write(tmp_path / "r", [case for case in cases if id(case) not in gone]), capsys)
    assert code == 1 and "n3: failing" in text
    assert "no job has a figure of microbench/w0 pm tiny share, which its equals have on G3-2" in text


@pytest.mark.parametrize("gpus, jobs", [(4, 3), (4, 6), (1, 3)])
def test_records_that_are_invalid_now_and_then_name_no_place(tmp_path, capsys, record_property, gpus, jobs):
    """Makes a random tenth of the jobs invalid, on any node."""
    chance, found, trials = np.random.default_rng(7), [], 12
    every = fleet(jobs, gpus=gpus, workloads=("microbench/w0", "microbench/w1"))
    for trial in range(trials):
        names = sorted({case["run"]["job"] for case in every})
        bad = {name for name in names if chance.random() < 0.1}
        for case in every:
            case["warnings"] = [THROTTLED] if case["run"]["job"] in bad else []
        _, text = said(write(tmp_path / str(trial), every), capsys, "--drain")
        found.append(bool(text))
    tell(capsys, record_property, f"{gpus} GPUs, {jobs} jobs each, 10% invalid: {np.mean(found):.0%} drain a node.")
    assert np.mean(found) <= 0.25


# --- values at zero ---


def test_a_place_at_zero_where_its_equals_have_a_share_is_named(tmp_path, capsys):
    cases = fleet(5, gpus=1)
    at(0.0, of(cases, "G3-"))
    at(0.5, of(cases, "G5-"))
    code, text = said(write(tmp_path / "r", cases), capsys)
    assert code == 1 and "2 of 8 nodes are named: 2 slow; 1 series" in text
    assert "worse without bound (0, usual 0.899)" in text and "44.4% worse (0.5, usual 0.899)" in text
    assert "n3 slow: worse without bound" in said(tmp_path / "r", capsys, "--drain")[1]


@pytest.mark.parametrize(
    "days, usual, odd, named",
    [(3, 0.0, 5.0, True), (3, 5.0, 0.0, False), (3, 0.0, 0.0, False), (3, -0.1, 5.0, True), (1, 0.0, 5.0, False)],
    ids=["a cost", "no cost", "none", "below zero", "in one job"],
)
def test_a_cost_where_equals_have_none_is_named_and_none_is_no_fault(tmp_path, capsys, days, usual, odd, named):
    cases = fleet(days, gpus=1, metric="evictions")
    at(usual, cases, better="lower")
    at(odd, of(cases, "G3-"))
    code, text = said(write(tmp_path / "r", cases), capsys)
    assert code == named and "; 1 series" in text
    assert ("worse without bound (5, usual" in text) == named
    told = "not judged, because there are too few jobs: microbench/w0 pm tiny evictions on G3-0 of n3 is above zero"
    assert (told in text) == (days == 1)
    assert said(tmp_path / "r", capsys, "--drain")[1].count("n3") == 0  # it is unknown how bad a cost at zero is


_WORLDS = {
    "around zero": lambda chance, shape: (0.02 * chance.standard_normal(shape), False),
    "heavy tails around zero": lambda chance, shape: (0.02 * chance.standard_t(2, shape), False),
    "zero now and then": lambda chance, shape: (np.where(chance.random(shape) < 0.1, 0, 1.0), False),
    "a cost now and then": lambda chance, shape: (np.where(chance.random(shape) < 0.1, 5.0, 0), True),
}


@pytest.mark.parametrize("name", _WORLDS)
def test_healthy_places_around_zero_are_quiet(name, capsys, record_property):
    """Simulates ten series in each of 100 fleets, with eight healthy nodes and three jobs per node.

    At most 5% of the fleets may name a node, with the limit for fifty series.
    """
    chance, fleets, limit = np.random.default_rng(5), 100, functools.partial(nodes._student_limit, tests=400)
    found = 0
    for _ in range(fleets):
        named = False
        for _ in range(10):
            jobs, lower = _WORLDS[name](chance, (8, 3))
            better = np.quantile(jobs, 0.2 if lower else 0.8, axis=1)
            places = [
                zeros.At(f"n{i}", "", float(np.median(of_node)), 3, float(better[i]), int((of_node > 0).sum()))
                for i, of_node in enumerate(jobs)
            ]
            named |= bool(zeros.Zeros("w", "1", lower, {}, places).far(0.03, nodes._STEADY, limit, 10)[0])
        found += named
    tell(capsys, record_property, f"{name}: {found / fleets:.0%} of fleets name a node.")
    assert found / fleets <= 0.05


# --- losses in other commands ---


@pytest.fixture
def one_gpu_at_zero(tmp_path):
    """Writes records of two systems of four nodes. In the second system, one GPU of a shared job has values of zero."""
    old, new = fleet(6, count=4, shared=True), fleet(6, count=4, shared=True)
    for case in new:
        case["devices"][0]["driver"] = "580.1"
        case["run"]["job"] += "-new"
        case["run"]["time"] = case["run"]["time"].replace("2026-01", "2026-02")
        case["host"]["boot_id"] += " new"
    at(0.0, of(new, "G3-2"))
    return write(tmp_path / "old", old), write(tmp_path / "new", new), write(tmp_path / "both", [*old, *new])


@pytest.mark.filterwarnings("error")
def test_one_gpu_at_zero_in_a_shared_job_is_named_by_regress_and_drift(one_gpu_at_zero, capsys):
    code, text = said(one_gpu_at_zero[2], capsys, "--from", "driver=570", "--to", "driver=580", command="regress")
    assert code == 1 and "-0.899 lower on G3-2 of n3" in text
    code, text = said(one_gpu_at_zero[2], capsys, command="drift")
    assert code == 1 and "on n3, G3-2" in text


def test_one_gpu_at_zero_in_a_shared_job_has_no_ratio_and_is_named(one_gpu_at_zero, tmp_path, capsys):
    old, new, _ = one_gpu_at_zero
    code, text = said(old, capsys, new, command="compare")
    assert code == 0 and "at or below zero: microbench/w0 pm tiny share (lowest: old 0.89" in text and "new 0)" in text
    (tmp_path / "w.toml").write_text('[metrics]\n"microbench/w0 share" = 1\n')
    capsys.readouterr()
    assert cli.main(["score", str(old), str(new), "--weights", str(tmp_path / "w.toml"), "--reference", "old"]) == 2
    assert "has values that are not above zero" in capsys.readouterr().err
