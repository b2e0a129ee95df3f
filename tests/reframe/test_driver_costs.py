"""Tests of checks that measure several points in one run: each point has performance variables and must be present."""

import pytest

from isthmus.records import load
from isthmus_reframe import catalogue

CHECKS = "driver_costs.py"
LAUNCH = "DriverCosts.*launch.*small"
GPU = {"features": ["gpu", "cuda"]}
WORKLOADS = [w for w in catalogue.load()["workloads"] if w["name"].startswith("driver/")]


def test_smoke_has_every_workload_once(session):
    lines = session("-l", "-t", "smoke", select="DriverCosts").output.splitlines()
    names = {line.split("%workload=")[1].split()[0] for line in lines if line.startswith("- DriverCosts")}
    assert names == {w["name"].removeprefix("driver/") for w in WORKLOADS}
    assert all("%size=tiny" in line for line in lines if line.startswith("- DriverCosts"))


def test_more_points_need_a_gpu(session):
    assert "small" not in session("-l", select="DriverCosts").output
    assert "%workload=launch %size=small" in session("-l", select="DriverCosts", site=GPU).output


def test_a_run_without_axes_has_the_metrics_by_their_names(session):
    outcome = session(select="DriverCosts.*event")
    assert outcome.green
    assert "P: record: 0.25 s" in outcome.output


def test_each_point_has_its_variables(session, tmp_path):
    outcome = session(select=LAUNCH, fake="gpu:cuda", site=GPU)
    assert outcome.green
    for bytes_ in (8, 256, 1024, 4096):
        for grid in ("one", "full"):
            for metric in ("submit", "to_end", "device"):
                assert f"P: {metric}/argument_bytes={bytes_}/grid={grid}: 0.25 s" in outcome.output
    [kept] = (tmp_path / "results").iterdir()
    assert len(load.read(kept)) == 8


def test_processes_are_counted_at_each_point(session):
    assert session("-r", "-S", "processes=3", select=LAUNCH, fake="gpu:cuda", site=GPU).green


@pytest.mark.parametrize(
    "fake, why",
    [
        ("missing_point", "7 records where 8"),
        ("extra_record", "16 records where 8"),
        ("other_point", "grid=none, which was not requested"),
        ("missing_metric:submit", "lacks the metric 'submit'"),
        ("error", "cudaMalloc: out of memory"),
        ("exit:1", "exit code 1"),
    ],
)
def test_red(session, fake, why):
    outcome = session(select=LAUNCH, fake=f"gpu:cuda,{fake}", site=GPU)
    assert not outcome.green
    assert why in outcome.output


def test_one_point_may_be_skipped(session):
    outcome = session(select=LAUNCH, fake="gpu:cuda,skip_point:unsupported", site=GPU)
    assert outcome.green
    assert "P: submit/argument_bytes=8/grid=one: 0.25 s" in outcome.output
    assert "submit/argument_bytes=4096/grid=full" not in outcome.output


def test_all_points_skipped_is_a_skip(session):
    outcome = session("-r", "-S", "may_skip_all=yes", select=LAUNCH, fake="gpu:cuda,skip:unsupported", site=GPU)
    assert outcome.green and "SKIP" in outcome.output


def test_a_reference_holds_at_its_point(session):
    axes = "{argument_bytes: 256, grid: full}"
    references = f"- {{workload: driver/launch, axes: {axes}, metrics: {{submit: [0.25, -0.1, 0.1, s]}}}}\n"
    assert session(select=LAUNCH, fake="gpu:cuda", site=GPU, references=references).green
    outcome = session(select=LAUNCH, fake="gpu:cuda,slow", site=GPU, references=references)
    assert not outcome.green
    assert "submit/argument_bytes=256/grid=full=0.5 s, expected 0.25" in outcome.output
