"""Tests of a record's gates: whether it matches the request and is consistent with itself."""

import copy
import json

import pytest

import fake_bench
from conftest import ROOT
from isthmus.records import load
from isthmus_reframe.judge import record_gates

CASE = fake_bench.record("microbench/saxpy", "pm", "tiny", "emulator")
AXES = {"n"}


def edited(**fields):
    case = copy.deepcopy(CASE)
    case.update(fields)
    return case


def test_a_sound_record_passes(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(CASE) + "\n")
    for gate in (record_gates.interrupted, record_gates.misnamed_device, record_gates.loose_tolerance):
        assert gate(CASE) is None
    assert record_gates.unknown_axes(CASE, AXES) is record_gates.unknown_axes(CASE, None) is None
    assert record_gates.few_samples(CASE, 1) is record_gates.few_samples(CASE, None) is None


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"emulated": False}, "not emulated, but its device is the emulator"),
        ({"devices": []}, "emulated, but names no device"),
        ({"devices": [fake_bench.device("cuda")]}, "emulated, but names cuda"),
        ({"devices": [], "emulated": False}, None),
        ({"devices": [fake_bench.device("cuda")], "emulated": False}, None),
    ],
)
def test_what_is_emulated_and_the_device_agree(fields, why):
    told = record_gates.misnamed_device(edited(**fields))
    assert told is None if why is None else why in told


@pytest.mark.parametrize(
    "workload, tolerance, is_loose",
    [
        ("microbench/saxpy", 1.0, False),
        ("microbench/saxpy", 1.5, True),
        ("apps/heartwall", 2.0, False),
        ("apps/lud", 0.08, False),
        ("transfer/gpu0-gpu0/ce", 0.0, False),
        ("transfer/gpu0-gpu0/ce", 1e-9, True),
        ("driver/launch", None, False),
    ],
)
def test_a_tolerance_is_no_larger_than_its_workload_needs(workload, tolerance, is_loose):
    case = edited(workload=workload, verify={"tolerance": tolerance})
    assert bool(record_gates.loose_tolerance(case)) == is_loose


def test_tolerances_of_kept_records_are_no_larger():
    """Checks that the table of tolerances accepts the committed records."""
    for path in (*ROOT.glob("papers/data/cpu-only/*.gz"), ROOT / "papers/data/h100/programs.jsonl.gz"):
        for case in load.read(path):
            assert record_gates.loose_tolerance(case) is None, (path, case["workload"])


@pytest.mark.parametrize(
    "placement, axis, known", [("pinned", "chunks", False), ("streamed", "chunks", True), ("paged", "frames", True)]
)
def test_axes_are_the_workloads_or_the_placements(placement, axis, known):
    case = edited(placement=placement, axes={"n": 1, axis: 1})
    assert (record_gates.unknown_axes(case, AXES) is None) == known


def test_phases_are_those_of_the_placement():
    assert "host_alloc" in record_gates.phases("pinned") and "host_alloc" not in record_gates.phases("managed_in")
    assert "in" not in record_gates.phases("managed_demand") and "out" not in record_gates.phases("mapped")


@pytest.mark.parametrize(
    "name, stop, number, few",
    [("kernel", "samples", 7, False), ("kernel", "samples", 1, True), ("kernel", "samples", 8, True),
     ("host_alloc", "samples", 3, False), ("first_in", "single", 1, False), ("kernel", "budget", 2, False)],
)  # fmt: skip
def test_as_many_samples_as_were_asked_for(name, stop, number, few):
    metric = {**CASE["metrics"][0], "name": name, "stop": stop, "samples": [0.25] * number}
    assert bool(record_gates.few_samples(edited(metrics=[metric]), 7)) == few


def test_a_case_that_was_told_to_end_is_interrupted():
    metric = {**CASE["metrics"][0], "stop": "interrupted"}
    assert "asked to end" in record_gates.interrupted(edited(metrics=[metric]))
