"""Tests that memory levels are found where the latency is flat, and named after the reported cache of that size."""

import copy
import functools
import json
import pathlib
import sys

import commands
import pytest

from isthmus.tables import levels

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402

KI, MI, GI = 2**10, 2**20, 2**30
CACHES = [("L1", 48 * KI), ("L2", MI), ("L3", 32 * MI)]


def curve(*levels_of, first=KI, last=4 * GI):
    """Returns latencies of a random chain at powers of two, if each entry is in the smallest level with room for it."""
    points, size = [], first
    while size <= last:
        seconds, held = 0.0, 0.0
        for capacity, latency in levels_of:
            reached = min(1.0, capacity / size) if capacity else 1.0
            seconds += max(reached - held, 0.0) * latency
            held = max(held, reached)
        points.append((size, seconds))
        size *= 2
    return points


MACHINE = ((48 * KI, 1.1e-9), (MI, 3.9e-9), (32 * MI, 13e-9), (None, 110e-9))


def test_finds_the_levels_that_made_the_curve():
    found = levels.find(curve(*MACHINE), CACHES)
    assert [level.name for level in found] == ["L1", "L2", "L3", "memory"]
    assert [level.reported for level in found] == [48 * KI, MI, 32 * MI, None]
    for level, (_, seconds) in zip(found, MACHINE, strict=True):
        assert level.seconds == pytest.approx(seconds, rel=0.15)
    for level, (capacity, _) in zip(found, MACHINE[:-1], strict=False):
        assert level.last <= capacity < level.beyond


def test_order_of_the_points_does_not_matter():
    points = curve(*MACHINE)
    assert levels.find(points[::-1], CACHES) == levels.find(points, CACHES)


def test_a_level_that_nobody_reports_has_no_name():
    unreported = ((48 * KI, 1e-9), (MI, 4e-9), (32 * MI, 13e-9), (256 * MI, 60e-9), (None, 240e-9))
    found = levels.find(curve(*unreported, last=16 * GI), CACHES)
    assert [level.name for level in found] == ["L1", "L2", "L3", "", "memory"]


def test_a_reported_cache_that_is_not_seen_is_not_claimed():
    found = levels.find(curve((48 * KI, 1e-9), (32 * MI, 13e-9), (None, 110e-9)), CACHES)
    assert "L2" not in [level.name for level in found]


def test_a_sweep_that_ends_in_a_cache_finds_no_memory():
    found = levels.find(curve(*MACHINE, last=8 * MI), CACHES)
    assert [level.name for level in found] == ["L1", "L2", "L3"]
    assert found[-1].beyond is None


def test_a_slow_slope_is_memory_and_a_steep_one_is_no_level():
    slope = [(size * GI, 100e-9 * 1.1**i) for i, size in enumerate((1, 2, 4, 8))]
    assert [level.name for level in levels.find(slope, CACHES)] == ["memory"]
    steep = [(size * GI, 100e-9 * 1.5**i) for i, size in enumerate((1, 2, 4, 8))]
    assert levels.find(steep, CACHES) == []


def test_a_disturbed_point_does_not_split_a_level():
    points = curve(*MACHINE)
    disturbed = [(size, seconds * (1.6 if size == 4 * KI else 1)) for size, seconds in points]
    assert [level.name for level in levels.find(disturbed, CACHES)] == ["L1", "L2", "L3", "memory"]


def test_no_points_and_one_point_have_no_levels():
    assert levels.find([]) == []
    assert levels.find([(KI, 1e-9)]) == []


def record(workload, size, seconds, **changes):
    case = copy.deepcopy(fake_bench.record("microbench/saxpy", "pm", "tiny", "emulator"))
    metric = next(m for m in case["metrics"] if m["unit"] == "s")
    case["metrics"] = [metric | {"name": "latency", "median": seconds, "samples": [seconds]}]
    case |= {"workload": workload, "axes": {"bytes": size, "stride": 64}, "emulated": False, "mode": None}
    case["host"]["caches"] = [
        {"level": n, "holds": "both", "bytes": size, "line_bytes": 64, "processors": 1, "count": 2}
        for n, (_, size) in enumerate(CACHES, 1)
    ] + [{"level": 1, "holds": "instructions", "bytes": 32 * KI, "line_bytes": 64, "processors": 1, "count": 2}]
    return case | changes


run = functools.partial(commands.run, "table", "--view", "levels")


def test_the_command_shows_found_beside_reported(tmp_path):
    cases = [record("latency/pageable-cpu/chase", size, seconds) for size, seconds in curve(*MACHINE)]
    path = tmp_path / "sweep.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    shown = run(path)
    assert shown.returncode == 0, shown.stderr
    assert "latency/pageable-cpu/chase on" in shown.stdout
    assert "L1 48KiB" in shown.stdout and "L2 1MiB" in shown.stdout and "L3 32MiB" in shown.stdout
    assert "memory" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_what_casts_doubt_on_a_level_stands_below_it():
    saving = {"code": "governor_powersave", "message": "x"}
    cases = [record("latency/device-gpu0/chase", size, seconds) for size, seconds in curve(*MACHINE)]
    clean = levels.view(cases)
    assert not any("doubts" in row for row in clean.rows)
    shown = levels.view([cases[0] | {"warnings": [saving]}, *cases[1:]])
    assert ["doubts" in row for row in shown.rows] == [True] + [False] * (len(shown.rows) - 1)
    assert "CPU saves power" in shown.rows[0]["doubts"] and "CPU saves power" in shown.text


def test_curves_that_differ_in_an_axis_are_kept_apart(tmp_path):
    cases = [
        record("latency/pageable-cpu/chase", size, seconds, axes={"bytes": size, "stride": 64, "pages": pages})
        for pages in ("small", "huge")
        for size, seconds in curve(*MACHINE)
    ]
    path = tmp_path / "sweep.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    shown = run(path).stdout
    assert "pages=small" in shown and "pages=huge" in shown and "stride" not in shown


def test_caches_of_a_gpu_are_those_of_the_one_that_reads():
    case = record("latency/gpu0-gpu1/chase", KI, 1e-7)
    case["devices"] = [{"index": 0, "l2_bytes": 4 * MI}, {"index": 1, "l2_bytes": 50 * MI}]
    assert levels.reported_caches(case) == [("L2", 50 * MI)]


def test_emulated_and_unrelated_records_are_left_out_with_a_sentence(tmp_path):
    path = tmp_path / "emulated.jsonl"
    cases = [record("latency/gpu0-gpu0/chase", size, 1e-9, emulated=True) for size in (KI, 2 * KI)]
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    refused = run(path)
    assert refused.returncode == 2 and "--size-sweep" in refused.stderr
    assert run("--emulated", path).returncode == 0
