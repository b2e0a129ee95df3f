"""Tests that predictions for batches stay within bounds, and that wrong records and timelines are refused."""

import copy
import dataclasses
import functools
import json
import pathlib
import sys
import xml.etree.ElementTree

import commands
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.advise import batches, interjob, overlap
from isthmus.advise import timeline as timeline_
from isthmus.records import validate

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/reframe"))
import fake_bench  # noqa: E402

AXES = {"n": 1024, "jobs": 16, "allocation": "pool", "mode": "all", "host": "pinned", "depth": 3, "threads": 1}
AXES |= {"force": 1, "cap": 0, "room": "wait", "chunk": 0}
MILLISECOND = 1e-3
#: Duration of each phase in milliseconds.
EVEN = dict(
    zip(("allocate", "submit", "in", "kernel", "out", "finish", "release"), [1, 0.1, 4, 3, 1, 0, 1], strict=True)
)

spans = st.floats(0, 10, allow_subnormal=False)
phases = st.builds(
    lambda parts, gap, wake: overlap.Phases(*parts, job=sum(parts) + gap, wake=wake),
    st.lists(spans, min_size=7, max_size=7),
    spans,
    st.just(0.0),
)
any_batch = st.builds(
    overlap.Batch,
    st.integers(1, 40),
    st.sampled_from(["device", "pool", "vmm", "chunked", "managed"]),
    st.just("pinned"),
    st.integers(1, 4),
)


def record(values=EVEN, timeline=None, **changes):
    """Returns a record of interjob/*. `values` has milliseconds of phases, or of metrics keyed by their full names."""
    case = copy.deepcopy(fake_bench.record("microbench/saxpy", "pm", "tiny", "emulator"))
    like = case["metrics"][0] | {"unit": "s", "better": "lower", "timer": "clock"}
    job = sum(values[name] for name in EVEN)
    named = {f"serial_{name}": values[name] for name in EVEN} | {"serial_job": job, "serial_time": 16 * job}
    named |= {name: value for name, value in values.items() if name not in EVEN}
    case["metrics"] = [
        like | {"name": name, "median": value * MILLISECOND, "samples": [value * MILLISECOND], "bytes_moved": 4e6}
        for name, value in named.items()
    ]
    for name, value in (("job_bytes", 5e6), ("job_flops", 2e6)):
        case["metrics"].append(like | {"name": name, "unit": "1", "median": value, "samples": [value]})
    case |= {"workload": "interjob/gemv", "axes": AXES, "emulated": False, "mode": None, "placement": None}
    if timeline is not None:
        case["notes"] = {"overlap_all_timeline": timeline}
    return case | changes


def write(path, *cases):
    path.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return path


run = functools.partial(commands.run, "advise", "interjob")


@settings(max_examples=300, deadline=None)
@given(phases, any_batch, st.sampled_from(overlap.MODES), st.integers(1, 6))
def test_a_batch_takes_no_less_than_its_busiest_part_and_no_more_than_jobs_one_by_one(alone, batch, mode, depth):
    took = overlap.simulate(alone, batch, mode, depth).seconds
    parts = [alone.submit, alone.kernel, alone.copy_in, alone.copy_out]
    if mode == "overlap_alloc":
        parts = [alone.submit, alone.kernel + alone.copy_in + alone.copy_out]
    if mode != "recycled":
        parts += [alone.allocate / batch.threads, alone.finish + alone.release]
    slack = 1e-9
    assert took >= batch.jobs * max(parts) - slack
    assert took >= alone.job - slack, "one job takes what it takes"
    assert took <= overlap.simulate(alone, batch, "serial", 1).seconds + slack


@settings(max_examples=100, deadline=None)
@given(phases, any_batch, st.sampled_from(overlap.MODES), st.integers(1, 5))
def test_with_depth_one_nothing_overlaps_and_deeper_is_no_slower(alone, batch, mode, depth):
    batch = dataclasses.replace(batch, allocation="pool")  # whose releases do not wait for other jobs
    one = overlap.simulate(alone, batch, mode, 1).seconds
    if mode != "recycled":
        assert one == pytest.approx(batch.jobs * alone.job)
        assert overlap.simulate(alone, batch, mode, depth).seconds <= one + 1e-9


@settings(max_examples=100, deadline=None)
@given(phases, any_batch, st.sampled_from(["overlap_alloc", "overlap_all"]), st.integers(1, 5), st.floats(1, 4))
def test_calls_of_the_driver_are_made_one_after_the_other(alone, batch, mode, depth, contention):
    calls = alone.allocate + alone.submit + alone.release
    took = overlap.simulate(alone, batch, mode, depth).seconds
    assert took >= batch.jobs * calls - 1e-9
    slowed = dataclasses.replace(alone, contention=contention)
    assert overlap.simulate(slowed, batch, mode, depth).seconds >= batch.jobs * calls - 1e-9
    # Work that only the host does makes no calls of the driver.
    free = dataclasses.replace(alone, calls=0.0)
    assert overlap.simulate(free, batch, mode, depth).seconds >= batch.jobs * (alone.allocate + alone.release) - 1e-9


@settings(max_examples=50, deadline=None)
@given(st.floats(1, 5), st.integers(2, 4))
def test_contention_is_found_from_a_batch_of_calls(contention, depth):
    calls = overlap.Phases(0.1, 0.02, 0, 0, 0, 0, 0.08, 0.25, wake=0.001, start=0.01, contention=contention)
    batch = overlap.Batch(16, "vmm")
    scale = 1e3 * MILLISECOND
    took = overlap.simulate(calls, batch, "overlap_all", depth).seconds
    case = record(
        EVEN
        | {"calls_allocate": 0.1, "calls_submit": 0.02, "calls_release": 0.08, "calls_job": 0.25}
        | {"calls_time": took * scale, "thread_wake": 0.001, "thread_start": 0.01},
        axes=AXES | {"allocation": "vmm", "depth": depth},
    )
    found = batches.phases_of(case)
    assert found.contention == pytest.approx(contention, rel=0.01)
    assert found.calls == pytest.approx(0.02 * MILLISECOND)


def test_memory_that_is_used_again_costs_what_it_costs_then():
    alone = overlap.Phases(0, 0, 4, 3, 1, 0, 0, 8, reused=(1, 3, 1))
    batch = overlap.Batch(10, "managed")
    # The first three jobs use new memory and overlap nothing. The other seven alternate between copying in and
    # computing, which overlaps with copies out.
    assert overlap.simulate(alone, batch, "recycled", 3).seconds == pytest.approx(3 * 8 + 7 * 4, abs=2)
    assert overlap.simulate(alone, batch, "overlap_all", 3).seconds == pytest.approx(10 * 8)
    assert overlap.simulate(alone, overlap.Batch(10, "pool"), "overlap_all", 3).seconds == pytest.approx(10 * 4 + 4)
    case = record(EVEN | {"reused_in": 1.0, "reused_kernel": 2.0, "reused_out": 3.0})
    assert batches.phases_of(case).reused == pytest.approx((1e-3, 2e-3, 3e-3))
    assert batches.phases_of(record()).reused is None


def test_used_memory_is_never_slower_than_new():
    alone = overlap.Phases(0, 0, 4, 3, 1, 0, 0, 8, reused=(5, 2, 1))
    assert alone.on_device(3, reuses=True) == (4, 2, 1)
    assert alone.on_device(3, reuses=False) == (4, 3, 1)


def test_freeing_managed_memory_waits_without_the_lock_and_plain_memory_with_it():
    alone = overlap.Phases(1, 0.5, 4, 3, 1, 0, 1, 10.5, contention=2.0)
    plain, managed = (
        overlap.simulate(alone, overlap.Batch(32, kind), "overlap_alloc", 3).seconds for kind in ("device", "managed")
    )
    # Nothing runs during a release of device memory, but the next job can be queued during a release of managed memory.
    assert 32 * 8 < managed < plain - 20


def test_chunks_contend_with_other_calls_all_the_time():
    alone = overlap.Phases(2, 1, 1, 1, 1, 0, 1, 7, contention=2.0)
    pool, chunked = (
        overlap.simulate(alone, overlap.Batch(50, kind), "overlap_all", 3).seconds for kind in ("pool", "chunked")
    )
    assert chunked == pytest.approx(50 * 8, rel=0.05)
    assert pool < chunked


def test_jobs_of_a_mixed_batch_are_predicted_one_by_one():
    def spans(begin, copy_in, kernel):
        at, job = begin, []
        for seconds in (0, copy_in, kernel, 1, 0, 0):
            job += [at, at + seconds]
            at += seconds
        return [value * 1e3 for value in job]  # in microseconds

    timeline = json.dumps([spans(0, 4, 1), spans(6, 1, 9)])
    mixed = record() | {"workload": "interjob/mixed", "notes": {"serial_timeline": timeline}}
    for found, expected in zip(batches.phases_of(mixed).each, [(4e-3, 1e-3, 1e-3), (1e-3, 9e-3, 1e-3)], strict=True):
        assert found == pytest.approx(expected)
    assert batches.phases_of(record()).each == ()
    assert batches.phases_of(mixed | {"notes": {}}).each == ()
    # Every second job has a long kernel. It is the busiest phase, and copies cannot hide it. Averaged over all jobs,
    # the kernel would be about half as long.
    each = overlap.Phases(0, 0, 2.5, 5, 1, 0, 0, 8.5, each=((4, 1, 1), (1, 9, 1)))
    assert overlap.simulate(each, overlap.Batch(20, "pool"), "overlap_all", 2).seconds > 10 * 10 + 10


def test_of_equal_modes_the_one_that_calls_least_is_advised():
    advice = overlap.advise(overlap.Phases(0.1, 0, 4, 4, 0, 0, 0.1, 8.2), overlap.Batch(16, "pool"))
    assert (advice.best.mode, advice.best.depth) == ("recycled", 2)


def test_known_batches():
    # Each job takes 4 ms for copying in, 3 ms for its kernel and 1 ms for copying out. Copies in are busiest, and the
    # last job adds its kernel and copy out.
    alone = overlap.Phases(0, 0, 4, 3, 1, 0, 0, 8)
    batch = overlap.Batch(10, "pool")
    assert overlap.simulate(alone, batch, "overlap_all", 3).seconds == pytest.approx(10 * 4 + 4)
    assert overlap.simulate(alone, batch, "overlap_alloc", 3).seconds == pytest.approx(10 * 8)
    # With two jobs in flight, the next job is copied in and computed while the results of one are copied out.
    assert overlap.simulate(alone, batch, "overlap_all", 2).busiest == "in"
    # Allocating takes 5 ms: for every job, or only twice if the memory of two jobs in flight is used again.
    alone = overlap.Phases(5, 0, 1, 1, 1, 0, 0, 8)
    assert overlap.simulate(alone, batch, "overlap_alloc", 3).seconds == pytest.approx(10 * 5 + 3)
    assert overlap.simulate(alone, batch, "recycled", 2).seconds == pytest.approx(5 + 5 + 3 + 8 * 1.5, abs=2)
    with pytest.raises(ValueError, match="unknown mode"):
        overlap.simulate(alone, batch, "sideways", 2)


def test_advice_gives_mode_depth_and_reason():
    worth = overlap.advise(overlap.Phases(1, 0, 4, 3, 1, 0, 1, 10), overlap.Batch(16, "pool"))
    assert worth.worth
    assert worth.best.mode in ("overlap_all", "recycled")
    assert "copying in" in worth.reason
    alone = overlap.Phases(0, 0, 0, 9.9, 0, 0, 0, 10)
    useless = overlap.advise(alone, overlap.Batch(16, "pool"))
    assert not useless.worth
    assert "the kernel is 99% of a job" in useless.reason


def test_errors_stand_beside_what_was_measured(tmp_path):
    predicted = overlap.simulate(batches.phases_of(record()), overlap.Batch(16, "pool"), "overlap_all", 3).seconds
    near = record(EVEN | {"overlap_all_time": predicted * 1.1e3, "overlap_alloc_time": 1000.0})
    found = run(write(tmp_path / "r.jsonl", near))
    assert found.returncode == 0, found.stderr
    assert "gemv 1024² ×16 pool: " in found.stdout
    assert "within 15%: 2 of 3 (67%)" in found.stdout  # the modes `serial` and `overlap_all`
    assert "mode picked within 5% of the best: 1 of 1" in found.stdout
    assert not batches.errors(record(axes=AXES | {"cap": 130})), "jobs that wait for room"
    assert not batches.errors(record(axes=AXES | {"force": 0})), "nobody knows what was overlapped"


def test_declared_jobs_follow_the_records(tmp_path):
    path = write(tmp_path / "r.jsonl", record())
    found = run(path, "--job", "in=4e6", "out=4e6", "flops=2e6", "jobs=16")
    assert found.returncode == 0, found.stderr
    assert "16 such jobs in pool memory: " in found.stdout
    alone = batches.declared([record()], overlap.Batch(16, "pool"), 8e6, 4e6, 0)
    assert alone.copy_in == pytest.approx(8 * MILLISECOND), "twice the bytes of the one record"
    for words in (["in=-1"], ["in=x"], ["jobs=0"], ["colour=red"], ["in"], ["in=nan"]):
        wrong = run(path, "--job", *words)
        assert wrong.returncode == 2
        assert "is not understood" in wrong.stderr
        assert "Traceback" not in wrong.stderr
    assert "no record has vmm memory" in run(path, "--job", "in=1", "allocation=vmm").stderr


def test_the_picture_has_every_job_and_phase(tmp_path):
    jobs = [[10 * i + k for k in range(12)] for i in range(5)]
    path = write(tmp_path / "r.jsonl", record(timeline=json.dumps(jobs)))
    picture = tmp_path / "t.svg"
    found = run(path, "--timeline", picture)
    assert found.returncode == 0, found.stderr
    root = xml.etree.ElementTree.parse(picture).getroot()
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if list(bar)]
    assert len(bars) == 5 * 6
    width = float(root.get("width"))
    assert all(0 <= float(bar.get("x")) <= float(bar.get("x")) + float(bar.get("width")) <= width for bar in bars)
    assert run(path, "--timeline", picture, "--mode", "recycled").returncode == 2
    assert run(path, "--timeline", tmp_path / "nowhere" / "t.svg").returncode == 2


@settings(max_examples=200, deadline=None)
@given(
    st.text()
    | st.recursive(st.floats() | st.integers() | st.none() | st.text(), st.lists, max_leaves=30).map(json.dumps)
)
def test_a_timeline_that_is_none_is_refused(text):
    try:
        found = batches.spans_of(record(timeline=text), "overlap_all")
    except validate.RecordError as error:
        assert "overlap_all" in str(error)
    else:
        assert all(len(job) == 6 for job in found)
        timeline_.svg(record(timeline=text), ["overlap_all"])


def test_records_that_say_nothing_are_named(tmp_path):
    emulated = run(write(tmp_path / "e.jsonl", record(emulated=True)))
    assert emulated.returncode == 2
    assert "--emulated" in emulated.stderr
    short = record()
    short["metrics"] = [m for m in short["metrics"] if m["name"] != "serial_kernel"]
    missing = run(write(tmp_path / "m.jsonl", short))
    assert missing.returncode == 2
    assert "has no serial_kernel" in missing.stderr
    assert run(tmp_path / "none.jsonl").returncode == 2


def test_no_batch_is_simulated_twice():
    """Counts simulations. Advice, misses and losses need the same one; if each repeats it, a folder of a hundred
    records takes three seconds instead of one."""
    case = record()
    overlap.simulate.cache_clear()
    interjob.table_of([case])
    simulated = overlap.simulate.cache_info().misses
    interjob.table_of([case, copy.deepcopy(case)])
    assert simulated > 0 and overlap.simulate.cache_info().misses == simulated


def test_nodes_that_measured_unlike_phases_are_refused(tmp_path):
    other = {
        "run": record()["run"] | {"node": "n2", "id": "0" * 16},
        "host": record()["host"] | {"boot_id": "another boot"},
        "devices": [device | {"uuid": None} for device in record()["devices"]],
    }
    cases = [record(), record(EVEN | {"in": 2 * EVEN["in"]}, **other)]
    file = write(tmp_path / "two.jsonl", *cases)
    done = run(file)
    assert done.returncode == 2 and "interjob/gemv serial_in differs by a factor of 2 between node " in done.stderr
    assert run(file, "--where", "node=n2").returncode == 0


def test_committed_records_fit_80_columns():
    done = run(ROOT / "papers/data/h200/interjob.jsonl.gz")
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 80
    assert "gemm 4096² ×16 device: recycled, depth 2, 161 ms instead of 230 ms, 1.42× (the\n" in done.stdout
    declared = run(ROOT / "papers/data/h200/interjob.jsonl.gz", "--job", "in=64MiB", "out=16KiB", "flops=33.5e6")
    assert declared.returncode == 0 and max(map(len, declared.stdout.splitlines())) <= 80
    two = [ROOT / f"papers/data/{name}/interjob.jsonl.gz" for name in ("h100", "h200")]
    for words in ((), ("--job", "in=64MiB", "out=16KiB", "flops=33.5e6")):
        mixed = run(*two, *words)
        assert mixed.returncode == 2
        assert "but these records have 2 values of device (NVIDIA H100" in mixed.stderr
        assert run(*two, *words, "--where", "device=*H200").returncode == 0
