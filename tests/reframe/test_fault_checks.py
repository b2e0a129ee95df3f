"""Tests of the check of the driver's page faults: its request, and which of the driver's counts turn it red."""

import pytest

from isthmus.records import load
from isthmus_reframe import catalogue

CHECKS = "faults.py"
OFF = "Faults.*regular.*tiny.*prefetch=off"
GPU = {"features": ["gpu", "cuda"]}
NAMES = [w["name"] for w in catalogue.load()["workloads"]]
WORKLOADS = [name.removeprefix("faults/") for name in NAMES if name.startswith("faults/") and name != "faults/peers"]


def listed(outcome):
    return [line for line in outcome.output.splitlines() if line.startswith("- Faults")]


def test_smoke_has_every_workload_with_the_prefetcher_and_without(session):
    lines = listed(session("-l", "-t", "smoke", select="Faults"))
    assert {line.split("%workload=")[1].split()[0] for line in lines} == set(WORKLOADS)
    assert all("%size=tiny" in line for line in lines)
    assert len(lines) == 2 * len(WORKLOADS)


def test_two_gpus_that_share_pages_are_measured_where_there_are_two(session):
    assert "%workload=peers" not in session("-l", select="Faults", site=GPU).output
    assert "%workload=peers" in session("-l", select="Faults", site={"features": ["gpu", "cuda", "peer"]}).output


def test_more_than_a_small_size_needs_a_gpu_of_nvidia(session):
    assert "%size=small" not in session("-l", select="Faults").output
    assert "%size=small" in session("-l", select="Faults", site=GPU).output
    assert not listed(session("-l", select="Faults", site={"features": ["gpu", "rocm"]}))


def test_off_is_for_small_sizes_only(session):
    lines = listed(session("-l", select="Faults", site=GPU))
    assert {line.split("%size=")[1].split()[0] for line in lines if "prefetch=off" in line} == {"tiny", "small"}
    assert any("%size=mega" in line for line in lines)


def test_the_drivers_counts_are_asked_for_and_kept(session, tmp_path):
    outcome = session(select=OFF)
    assert outcome.green
    assert "P: uvm_faults: 512.0 1" in outcome.output
    [kept] = (tmp_path / "results").iterdir()
    [case] = load.read(kept)
    assert (case["profiler"], case["axes"]["driver_prefetch"]) == ("uvm", "off")


def test_without_the_observer_times_are_held_to_references(session, tmp_path):
    assert session("-r", "-S", "observe=no", select=OFF).green
    [kept] = (tmp_path / "results").iterdir()
    assert load.read(kept)[0]["profiler"] is None


def test_programs_run_where_pages_fault(session, tmp_path):
    assert session(select="Faults.*stream.*tiny.*prefetch=default").green
    [kept] = (tmp_path / "results").iterdir()
    assert load.read(kept)[0]["placement"] == "managed_demand"


@pytest.mark.parametrize(
    "fake, why",
    [
        ("counts:uvm_prefetch_bytes", "the driver's prefetcher is off, but moved 12288 bytes in a sample"),
        ("counts:uvm_pages", "12288 pages faulted and 2097152 bytes moved for them, but all 2097152 bytes"),
        ("counts:uvm_fault_bytes", "512 pages faulted and 12288 bytes moved for them"),
        ("missing_metric:uvm_batches", "lacks the metric 'uvm_batches'"),
        ("missing_metric:driver_prefetch_setup", "lacks the metric 'driver_prefetch_setup'"),
        ("other_axis:driver_prefetch", "the record's driver_prefetch is 1, but 'off' was requested"),
        ("wrong_result", "wrong result"),
        ("error", "cudaMalloc: out of memory"),
    ],
)
def test_red(session, fake, why):
    outcome = session(select=OFF, fake=fake)
    assert not outcome.green
    assert why in outcome.output


def test_a_driver_that_prefetches_is_as_it_should_be_where_it_may(session):
    assert session(select="Faults.*regular.*tiny.*prefetch=default", fake="counts:uvm_prefetch_bytes").green


ALONE = {"features": ["gpu", "cuda", "oversubscription"]}
BEYOND = "OversubscribedFaults.*random.*1.25"


def test_nothing_is_oversubscribed_unless_a_site_states_it(session):
    def found(site):
        lines = session("-l", select="", site=site).output.splitlines()
        assert any("- Faults" in line for line in lines) or site == amd, "all checks are listed"
        return [line for line in lines if "- OversubscribedFaults" in line]

    amd = {"features": ["gpu", "hip", "oversubscription"]}
    assert not any(found(site) for site in ({}, GPU, amd))
    assert len(found(ALONE)) == 3 * 2


def test_what_is_oversubscribed_evicts(session, tmp_path):
    outcome = session(select=BEYOND, site=ALONE, fake="gpu:cuda")
    assert outcome.green, outcome.output
    assert "P: uvm_eviction_bytes: 4096.0 B" in outcome.output
    [kept] = (tmp_path / "results").iterdir()
    [case] = load.read(kept)
    assert case["notes"]["oversubscribe"] == "1.25 times what was free"


@pytest.mark.parametrize(
    "fake, why",
    [
        ("zero_metric:uvm_eviction_bytes", "is 1.25 times what was free, but a sample evicted nothing"),
        ("missing_metric:uvm_eviction_bytes", "lacks the metric 'uvm_eviction_bytes'"),
    ],
)
def test_what_evicts_nothing_is_red(session, fake, why):
    outcome = session(select=BEYOND, site=ALONE, fake=f"gpu:cuda,{fake}")
    assert not outcome.green
    assert why in outcome.output
