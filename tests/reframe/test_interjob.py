"""Tests of the inter-job check: smoke runs every kind of job once, and no speed-up of a memory and mode is missing."""

import pytest

from isthmus_reframe import catalogue

CHECKS = "interjob.py"
WORKLOADS = [w for w in catalogue.load()["workloads"] if w["name"].startswith("interjob/")]
GEMV = "InterJob.*gemv.*tiny"


def test_smoke_has_every_workload_once(session):
    lines = session("-l", "-t", "smoke", select="InterJob").output.splitlines()
    names = {line.split("%workload=")[1].split()[0] for line in lines if line.startswith("- InterJob")}
    assert names == {w["name"].removeprefix("interjob/") for w in WORKLOADS}
    assert all("%size=tiny" in line for line in lines if line.startswith("- InterJob"))
    assert "mega" in session("-l", select="InterJob", site={"features": ["gpu", "cuda"]}).output


def test_each_memory_and_mode_has_its_speedup(session):
    outcome = session(select=GEMV)
    assert outcome.green
    for allocation in ("device", "pool", "vmm", "chunked"):
        for mode in ("overlap_alloc", "overlap_all", "recycled"):
            assert f"P: {mode}_speedup/allocation={allocation}: 0.25 s" in outcome.output
    assert "_time/" not in outcome.output


@pytest.mark.parametrize(
    "fake, why",
    [
        ("missing_point", "3 records where 4"),
        ("missing_metric:recycled_speedup", "lacks the metric 'recycled_speedup'"),
        ("zero_metric:overlap_all_speedup", "overlap_all_speedup is 0.0"),
        ("wrong_result", "wrong result"),
        ("error", "cudaMalloc: out of memory"),
    ],
)
def test_red(session, fake, why):
    outcome = session(select=GEMV, fake=fake)
    assert not outcome.green
    assert why in outcome.output


def test_a_skipped_memory_may_not_deny_what_the_site_states(session):
    assert session(select=GEMV, fake="skip_point:unsupported").green
    outcome = session(select=GEMV, fake="skip_point:unsupported", site={"features": ["chunked"]})
    assert not outcome.green
    assert "states chunked" in outcome.output
