"""Batches of GPU jobs: `isthmus advise interjob FILE…` says when overlapping them is worth it, and how.

From the phases of one job that ran alone (interjob/* records) a batch is predicted by letting its jobs pass through
what they share: the threads that allocate, the one that queues, the device's streams, the one that releases, and the
driver, whose calls wait for each other. Each takes jobs in their order, and no more jobs hold memory than the depth
allows. What the study measured stands beside it.

    isthmus advise interjob FILE…                         advice for each record, and the error of the prediction
    isthmus advise interjob FILE… --job in=64MiB out=16KiB flops=33.5e6 [jobs=16 allocation=pool host=pinned]
                                                          advice for a job declared by what it moves and computes
    isthmus advise interjob FILE… --timeline PICTURE.svg [--mode overlap_all]
                                                          the last batch of the first record as a picture
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import html
import itertools
import json
import math
import pathlib
import statistics
import sys
from typing import Any

from isthmus import Error, units
from isthmus.records import content, load, validate
from isthmus.tables import output

FAMILY = "interjob/"
MODES = ("overlap_alloc", "overlap_all", "recycled")
#: Predictions closer than this are no reason to overlap.
WORTH = 1.05
#: A prediction is near that is off by no more, and a mode well picked that is slower than the best by no more.
NEAR = 0.15
WELL_PICKED = 0.05
#: The depths that advice chooses from; a shallower one that is as good is better, since it holds less memory.
DEPTHS = (2, 3, 4, 6, 8)
#: Calls that wait for all that the device has been given (cudaFree and its like), by kind of memory.
SYNCHRONISING = {"device", "managed"}


@dataclasses.dataclass(frozen=True)
class Phases:
    """Seconds of one job's phases, run alone; `job` is all of it, waits between the phases included."""

    allocate: float
    submit: float
    copy_in: float
    kernel: float
    copy_out: float
    finish: float
    release: float
    job: float
    wake: float = 0.0
    #: To start a thread.
    start: float = 0.0
    #: Of `submit`, what the driver's calls take (None: all of it); the rest is the host's own work.
    calls: float | None = None
    #: How many times as long a call of the driver takes that had to wait for another thread's.
    contention: float = 1.0
    #: Copy in, kernel and copy out in memory that the job before used (None: as in new memory).
    reused: tuple[float, float, float] | None = None
    #: Copy in, kernel and copy out of each job, where they differ; then every batch repeats them in this order.
    each: tuple[tuple[float, float, float], ...] = ()

    @property
    def waits(self) -> float:
        """What no phase but `submit` accounts for: until the device begins, and until the host sees that it is done."""
        named = self.allocate + self.copy_in + self.kernel + self.copy_out + self.finish + self.release
        return max(self.job - named, 0.0)

    @property
    def lead(self) -> float:
        """From the first call that queues until the device begins; it works beside the calls that follow."""
        return min(self.waits, self.submit)

    @property
    def tail(self) -> float:
        """From the last copy's end until the host sees it."""
        return self.waits - self.lead

    def on_device(self, index: int, reuses: bool) -> tuple[float, float, float]:
        """Copy in, kernel and copy out of a job, in new memory or in memory that a job before it used."""
        if self.each:
            return self.each[index % len(self.each)]
        new = (self.copy_in, self.kernel, self.copy_out)
        # Used memory saves the faults of new memory; nothing in it takes longer.
        if not (reuses and self.reused):
            return new
        copy_in, kernel, copy_out = map(min, new, self.reused)
        return copy_in, kernel, copy_out


@dataclasses.dataclass(frozen=True)
class Batch:
    jobs: int
    allocation: str = "device"
    host: str = "pinned"
    threads: int = 1


@dataclasses.dataclass(frozen=True)
class Prediction:
    mode: str
    depth: int
    seconds: float
    busiest: str


@functools.lru_cache(maxsize=4096)  # records are told, judged and picked from by the same figures
def simulate(phases: Phases, batch: Batch, mode: str, depth: int) -> Prediction:
    """Seconds of a batch in a mode, and what was busy for the largest part of it. Raises ValueError for a mode that
    there is not."""
    if mode == "serial":
        return Prediction("serial", 1, batch.jobs * phases.job, "everything")
    if mode not in MODES:
        raise ValueError(f"there is no mode {mode!r}: choose serial, {', '.join(MODES)}")
    return _Overlapped(phases, batch, mode, depth).run()


class _Overlapped:
    """Jobs on their way through the threads that allocate, the one that queues, the device's streams and the one that
    releases. Calls of the driver take a lock, in the order in which they ask for it."""

    def __init__(self, phases: Phases, batch: Batch, mode: str, depth: int):
        self.phases, self.batch, self.mode, self.depth = phases, batch, mode, depth
        # Chunks stay with the batch, but each job maps and unmaps them.
        self.recycled = mode == "recycled" and batch.allocation != "chunked"
        self.together = mode == "overlap_alloc"
        self.waits_for_all = (batch.allocation in SYNCHRONISING or batch.host == "per-job") and not self.recycled
        self.managed = batch.allocation == "managed"
        # Memory of many chunks takes so many calls that some always meet those of another thread.
        self.always_contended = batch.allocation == "chunked"
        begin = phases.start * (batch.threads + 1)
        self.free = [begin] * batch.threads  # when each allocating thread has time
        self.submitting = self.releasing = begin
        self.lock = self.device = 0.0  # until when it is held; until when it has work
        self.lanes = {"in": 0.0, "kernel": 0.0, "out": 0.0}
        self.allocated: list[float] = []
        self.ended: list[float] = []
        self.released: list[float] = []
        self.busy = dict.fromkeys(("the driver", "submitting", "in", "kernel", "out", "releasing"), 0.0)

    def run(self) -> Prediction:
        phases, batch = self.phases, self.batch
        while len(self.released) < batch.jobs:
            asked, step = min(
                (asked() for asked in (self.next_allocation, self.next_submission, self.next_release)),
                key=lambda found: found[0],
            )
            step(asked)
        end = self.releasing
        if self.recycled:
            held = min(self.depth, batch.jobs) * phases.release
            end += held
            self.busy["the driver"] += held
        if self.together:
            self.busy["stream"] = sum(self.busy.pop(lane) for lane in self.lanes)
        return Prediction(self.mode, self.depth, end, max(self.busy, key=self.busy.__getitem__))

    # Each gives the moment at which the next job comes to a step, and the step.

    def next_allocation(self):
        index = len(self.allocated)
        if index >= self.batch.jobs or index >= len(self.released) + self.depth:
            return math.inf, None
        return max(min(self.free), self.released[index - self.depth] if index >= self.depth else 0.0), self.allocate

    def next_submission(self):
        index = len(self.ended)
        if index >= len(self.allocated):
            return math.inf, None
        host = self.phases.submit - self._calls()
        return max(self.submitting, self.allocated[index]) + self.phases.wake + host, self.submit

    def next_release(self):
        index = len(self.released)
        if index >= len(self.ended):
            return math.inf, None
        return max(self.releasing, self.ended[index] + self.phases.tail) + self.phases.finish, self.release

    def allocate(self, asked):
        index = len(self.allocated)
        thread = min(range(self.batch.threads), key=self.free.__getitem__)
        # The first jobs' memory is new; where it is recycled, the others get what a job before them gave back.
        took = 0.0 if self.recycled and index >= self.depth else self.phases.allocate
        self.free[thread] = self._call(asked, took) + self.phases.wake
        self.allocated.append(self.free[thread])

    def submit(self, asked):
        index, phases = len(self.ended), self.phases
        self.submitting = self._call(asked, self._calls())
        begin = max(asked, self.submitting - self._calls()) - (phases.submit - self._calls())
        at = begin + phases.lead
        reuses = self.recycled and index >= self.depth
        for lane, takes in zip(self.lanes, phases.on_device(index, reuses), strict=True):
            at = self.lanes[lane] = max(at, *(self.lanes[other] for other in self._waits_for(lane, reuses))) + takes
            self.busy[lane] += takes
        self.busy["submitting"] += phases.submit
        self.ended.append(at)
        self.device = max(self.device, at)

    def _waits_for(self, lane: str, reuses: bool):
        """The lanes that must be done before one begins: its own, and those beside which it does not work."""
        # New managed memory faults: the copy that fills it and kernels that fault are served one after the other.
        if self.together or (self.managed and not reuses):
            return self.lanes
        # Used managed memory is still not filled beside a kernel.
        return ("in", "kernel") if self.managed and lane != "out" else (lane,)

    def release(self, asked):
        took = 0.0 if self.recycled else self.phases.release
        rests = self.device if self.waits_for_all else 0.0
        if self.managed:  # it waits for the device first and calls then: others may call meanwhile
            self.releasing = self._call(max(asked, rests), took)
        else:  # a call that waits keeps the lock meanwhile
            self.releasing = self._call(asked, took, rests)
        self.busy["releasing"] += self.phases.finish + took
        self.released.append(self.releasing)

    def _calls(self) -> float:
        calls = self.phases.calls
        return self.phases.submit if calls is None else min(calls, self.phases.submit)

    def _call(self, asked: float, seconds: float, not_before: float = 0.0) -> float:
        """The end of a call of the driver."""
        if seconds == 0:
            return max(asked, not_before)
        if self.lock > asked or self.always_contended:
            seconds *= self.phases.contention
        begin = max(asked, self.lock)
        self.lock = max(begin, not_before) + seconds
        self.busy["the driver"] += seconds
        return self.lock


@dataclasses.dataclass(frozen=True)
class Advice:
    serial: Prediction
    best: Prediction
    worth: bool
    reason: str


def advise(phases: Phases, batch: Batch, modes=MODES, depths=DEPTHS) -> Advice:
    """The mode and the depth that are expected to be fastest, and whether they are worth it.

    Of equals the one that calls the driver least, at the least depth.
    """
    serial = simulate(phases, batch, "serial", 1)
    ways = itertools.product(sorted(modes, key=MODES.index, reverse=True), sorted(depths))
    best, *others = (simulate(phases, batch, mode, depth) for mode, depth in ways)
    for tried in others:
        if tried.seconds < 0.98 * best.seconds:
            best = tried
    gain = serial.seconds / best.seconds
    parts = {
        "allocating": phases.allocate,
        "queueing": phases.submit,
        "copying in": phases.copy_in,
        "the kernel": phases.kernel,
        "copying out": phases.copy_out,
        "looking at results": phases.finish,
        "releasing": phases.release,
        "waiting between the phases": phases.tail,
    }
    largest = max(parts, key=parts.__getitem__)
    share = parts[largest] / phases.job if phases.job else 0.0
    if gain < WORTH:
        reason = f"{largest} is {share:.0%} of a job, and the rest that it could hide is too little"
    else:
        reason = f"{best.busiest} stays busy, and {share:.0%} of a job alone is {largest}"
    return Advice(serial, best, gain >= WORTH, reason)


# --- records ------------------------------------------------------------------------------------------


_COUNTS = {"n": 1 << 20, "jobs": 1 << 20, "depth": 1 << 20, "threads": 1 << 10, "cap": 1 << 20}  # the most that is run


def _runs(case: dict) -> bool:
    """Whether a batch of these axes and times can have run."""
    axes = case["axes"]
    counts = all(isinstance(axes.get(name), int) and axes[name] <= most for name, most in _COUNTS.items())
    if not counts or min(axes[name] for name in ("n", "jobs", "depth", "threads")) < 1:
        return False
    texts = all(isinstance(axes.get(name), str) for name in ("allocation", "host"))
    times = {
        name: m["median"] for name, m in content.metrics(case).items() if m["unit"] == "s" and m["median"] is not None
    }
    return texts and all(0 <= t < 1e9 and (t or not name.endswith(("_time", "_job"))) for name, t in times.items())


def of_study(cases: list[dict]) -> list[dict]:
    """Records of the study that were measured; those of which no batch can have run are left out, aloud."""
    measured = [
        case
        for case in cases
        if case["workload"].startswith(FAMILY) and not case["skipped"] and not case["error"] and case["metrics"]
    ]
    good = [case for case in measured if _runs(case)]
    if len(good) < len(measured):
        print(f"{len(measured) - len(good)} records left out: no batch has such axes and times", file=sys.stderr)
    return good


def medians(case: dict) -> dict[str, float]:
    return {name: m["median"] for name, m in content.metrics(case).items() if m["median"] is not None}


def phases_of(case: dict) -> Phases:
    """The phases of a job as the record's serial batches had them. Raises RecordError where one is missing."""
    found = medians(case)
    names = ("allocate", "submit", "in", "kernel", "out", "finish", "release", "job")
    missing = [f"serial_{name}" for name in names if f"serial_{name}" not in found]
    if missing:
        raise validate.RecordError(f"{label(case)} has no {', '.join(missing)}: it says nothing of a job alone")
    allocate, submit, copy_in, kernel, copy_out, finish, release, job = (found[f"serial_{name}"] for name in names)
    alone = Phases(
        allocate,
        submit,
        copy_in,
        kernel,
        copy_out,
        finish,
        release,
        job,
        wake=found.get("thread_wake", 0.0),
        start=found.get("thread_start", 0.0),
        calls=found.get("calls_submit"),
    )
    again = [found[name] for name in ("reused_in", "reused_kernel", "reused_out") if name in found]
    return dataclasses.replace(
        alone,
        contention=_contention(case, found),
        reused=(again[0], again[1], again[2]) if len(again) == 3 else None,
        each=_each(case) if case["workload"] == FAMILY + "mixed" else (),
    )


def _each(case: dict) -> tuple[tuple[float, float, float], ...]:
    """Copy in, kernel and copy out of every job of the record's last serial batch; none where it has no timeline."""
    if "serial_timeline" not in case.get("notes", {}):
        return ()
    places = [_PHASES.index(name) for name in ("in", "kernel", "out")]
    lengths = [[job[i][1] - job[i][0] for i in places] for job in spans_of(case, "serial")]
    return tuple((copy_in, kernel, copy_out) for copy_in, kernel, copy_out in lengths)


def _contention(case: dict, found: dict[str, float]) -> float:
    """How many times as long a call of the driver takes when it had to wait: such that jobs which only call, and copy
    and compute nothing, take as long as their batch took. 1 where the record has no such batch."""
    names = ("allocate", "submit", "release", "job")
    if any(f"calls_{name}" not in found for name in (*names, "time")):
        return 1.0
    allocate, submit, release, job = (found[f"calls_{name}"] for name in names)
    alone = Phases(
        allocate, submit, 0, 0, 0, 0, release, job, found.get("thread_wake", 0), found.get("thread_start", 0)
    )
    axes = case["axes"]

    def seconds(contention):
        tried = dataclasses.replace(alone, contention=contention)
        return simulate(tried, batch_of(case), "overlap_all", axes["depth"]).seconds

    low, high = 1 / 8, 8.0
    for _ in range(20):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if seconds(middle) < found["calls_time"] else (low, middle)
    return low


def batch_of(case: dict) -> Batch:
    axes = case["axes"]
    return Batch(axes["jobs"], axes["allocation"], axes["host"], axes["threads"])


def label(case: dict) -> str:
    axes = case["axes"]
    text = f"{case['workload'].removeprefix(FAMILY)} {axes['n']}² ×{axes['jobs']} {axes['allocation']}"
    if axes["host"] != "pinned":
        text += f" {axes['host']}"
    if axes["threads"] != 1:
        text += f" {axes['threads']} threads"
    if axes["depth"] != 3:
        text += f" depth {axes['depth']}"
    return text


@dataclasses.dataclass(frozen=True)
class Miss:
    """Of a prediction: measured and predicted seconds of one mode of one record."""

    case: str
    mode: str
    measured: float
    predicted: float

    @property
    def relative(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def near(self) -> bool:
        return abs(self.relative) <= NEAR


def errors(case: dict) -> list[Miss]:
    """Of the serial time and of each mode that was overlapped by force, at the record's depth; none where a cap was
    set, since jobs then wait for room."""
    if case["axes"]["cap"] or not case["axes"]["force"]:
        return []
    found, phases, batch = medians(case), phases_of(case), batch_of(case)
    return [
        Miss(label(case), mode, found[f"{mode}_time"], simulate(phases, batch, mode, case["axes"]["depth"]).seconds)
        for mode in ("serial", *MODES)
        if f"{mode}_time" in found
    ]


def picked_loss(case: dict) -> float | None:
    """How much slower the mode that advice picks is than the best that was measured (0: it is the best); None where
    there is no choice."""
    found = medians(case)
    measured = {mode: found[f"{mode}_time"] for mode in ("serial", *MODES) if f"{mode}_time" in found}
    if len(measured) < 3 or not errors(case):
        return None
    overlapped = [mode for mode in measured if mode != "serial"]
    advice = advise(phases_of(case), batch_of(case), overlapped, [case["axes"]["depth"]])
    picked = advice.best.mode if advice.worth else "serial"
    return measured[picked] / min(measured.values()) - 1


def picked_losses(cases: list[dict]) -> list[float]:
    """Of the records that leave a choice."""
    return [loss for loss in map(picked_loss, cases) if loss is not None]


# --- a job that is only declared ----------------------------------------------------------------------


def _line(points: list[tuple[float, float]]):
    """Least squares through (bytes, seconds), in relative error so that small sizes count; never below zero."""
    if len({x for x, _ in points}) < 2:
        x, y = points[0]
        return lambda bytes_: y * bytes_ / x if x else y
    weights = [1 / max(y, 1e-9) ** 2 for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True)) / spread
    return lambda bytes_: max(mean_y + slope * (bytes_ - mean_x), 0.0)


def declared(cases: list[dict], batch: Batch, bytes_in: float, bytes_out: float, flops: float) -> Phases:
    """The phases of a job that moves so many bytes and computes so much, by what this machine's records say of jobs in
    the same memory: lines through the times of copies and calls, and the best rate of a kernel by arithmetic and by
    memory. Raises RecordError where no record is of that memory."""
    alike = [
        case
        for case in of_study(cases)
        if case["axes"]["allocation"] == batch.allocation and case["axes"]["host"] == batch.host
    ]
    if not alike:
        raise validate.RecordError(f"no record is of {batch.allocation} memory with {batch.host} host memory")
    samples = [(content.metrics(case), medians(case), phases_of(case)) for case in alike]
    held = bytes_in + bytes_out

    def by(size, seconds, at):
        return _line([(size(m, v), seconds(p)) for m, v, p in samples])(at)

    allocate = by(lambda m, v: v["job_bytes"], lambda p: p.allocate, held)
    release = by(lambda m, v: v["job_bytes"], lambda p: p.release, held)
    copy_in = by(lambda m, v: m["serial_in"]["bytes_moved"], lambda p: p.copy_in, bytes_in)
    copy_out = by(lambda m, v: m["serial_out"]["bytes_moved"], lambda p: p.copy_out, bytes_out)
    arithmetic = max(v["job_flops"] / p.kernel for _, v, p in samples if p.kernel > 0)
    traffic = max(v["job_bytes"] / p.kernel for _, v, p in samples if p.kernel > 0)
    shortest = min(p.kernel for _, _, p in samples)
    kernel = max(flops / arithmetic, held / traffic, shortest)
    submit = statistics.median(p.submit for _, _, p in samples)
    waits = statistics.median(p.waits for _, _, p in samples)
    finish = statistics.median(p.finish for _, _, p in samples)
    job = allocate + copy_in + kernel + copy_out + finish + release + waits
    wake = statistics.median(p.wake for _, _, p in samples)
    return Phases(allocate, submit, copy_in, kernel, copy_out, finish, release, job, wake)


# --- words --------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def sentence(name: str, advice: Advice) -> str:
    gain = advice.serial.seconds / advice.best.seconds
    if not advice.worth:
        return f"{name}: not worth it, {duration(advice.serial.seconds)} serially ({advice.reason})"
    return (
        f"{name}: {advice.best.mode}, depth {advice.best.depth}, {duration(advice.best.seconds)} instead of"
        f" {duration(advice.serial.seconds)}, {gain:.2f}× ({advice.reason})"
    )


def table_of_errors(rows: list[Miss]) -> list[str]:
    """Predicted beside measured."""
    if not rows:
        return []
    width = max(len(row.case) for row in rows)
    lines = [f"{'jobs':{width}}  {'mode':13}  {'measured':>9}  {'predicted':>9}   error"]
    lines += [
        f"{row.case:{width}}  {row.mode:13}  {duration(row.measured):>9}  {duration(row.predicted):>9}"
        f"  {row.relative:+6.0%}"
        for row in rows
    ]
    return lines


def summary_of_errors(rows: list[Miss], losses: list[float]) -> list[str]:
    """How many predictions are within 15%, and how well modes were picked."""
    if not rows:
        return ["no record of a forced batch without a cap: nothing to hold predictions against"]
    near = sum(row.near for row in rows)
    lines = [f"within {NEAR:.0%}: {near} of {len(rows)} ({near / len(rows):.0%})"]
    if losses:
        good = sum(loss <= WELL_PICKED for loss in losses)
        lines.append(
            f"mode picked within {WELL_PICKED:.0%} of the best: {good} of {len(losses)}, worst {max(losses):+.0%}"
        )
    return lines


_COLUMNS = {
    "says": "VARCHAR", "batch": "VARCHAR", "at_depth": "BIGINT", "predicted": "DOUBLE", "serial": "DOUBLE",
    "measured": "DOUBLE", "error": "DOUBLE", "worth": "BOOLEAN", "reason": "VARCHAR",
}  # fmt: skip


def _row(name: str, advice: Advice) -> dict[str, Any]:
    best = advice.best
    return {"says": "advice", "batch": name, "mode": best.mode, "at_depth": best.depth, "predicted": best.seconds,
            "serial": advice.serial.seconds, "worth": advice.worth, "reason": advice.reason, "axes": {}}  # fmt: skip


def table_of_job(name: str, advice: Advice) -> output.Table:
    """The advice for jobs that were only declared."""
    return output.of_cases([_row(name, advice)], _COLUMNS, sentence(name, advice))


def table_of(cases: list[dict]) -> output.Table:
    """Of each record the advice, unless a cap was on its memory, and each prediction beside what was measured."""
    rows, lines, misses = [], [], []
    for case in cases:
        of = {name: case.get(name) for name in output.CASE if name != "ranks"} | {"axes": case["axes"]}
        if not case["axes"]["cap"]:
            advice = advise(phases_of(case), batch_of(case))
            rows.append(_row(label(case), advice) | of | {"mode": advice.best.mode})
            lines.append(sentence(label(case), advice))
        found = errors(case)
        misses += found
        rows += [
            of | {"says": "check", "batch": miss.case, "mode": miss.mode, "at_depth": case["axes"]["depth"],
                  "predicted": miss.predicted, "measured": miss.measured, "error": miss.relative}
            for miss in found
        ]  # fmt: skip
    summary = summary_of_errors(misses, picked_losses(cases))
    return output.of_cases(rows, _COLUMNS, "\n".join([*lines, "", *table_of_errors(misses), *summary]), summary)


# --- a picture ----------------------------------------------------------------------------------------

_PHASES = ("allocate", "in", "kernel", "out", "finish", "release")
# Of one lightness step each, so that they stay apart in grey and for the colour-blind (Okabe and Ito).
_COLOURS = ("#E69F00", "#56B4E9", "#0072B2", "#009E73", "#999999", "#D55E00")


def spans_of(case: dict, mode: str) -> list[list[tuple[float, float]]]:
    """Per job its phases' (begin, end) in seconds. Raises RecordError for a record that has none of that mode."""
    text = case.get("notes", {}).get(f"{mode}_timeline")
    if text is None:
        raise validate.RecordError(f"{label(case)} has no timeline of {mode}")
    try:
        jobs = json.loads(text)
        if not jobs:
            raise ValueError("no job")
        spans = []
        for job in jobs:
            if len(job) != 2 * len(_PHASES) or not all(math.isfinite(value) for value in job):
                raise ValueError(f"a job of {len(job)} values")
            spans.append([(job[2 * i] / 1e6, job[2 * i + 1] / 1e6) for i in range(len(_PHASES))])
    except (ValueError, TypeError) as error:
        raise validate.RecordError(f"{label(case)}: its timeline of {mode} cannot be read ({error})") from None
    return spans


def _ticks(longest: float) -> list[float]:
    step = 10 ** math.floor(math.log10(longest))
    for part in (0.1, 0.2, 0.5, 1, 2):
        if longest / (part * step) <= 10:
            step *= part
            break
    return [i * step for i in range(math.floor(longest / step) + 1)]


def svg(case: dict, modes: list[str]) -> str:
    """Jobs × phases over time, one panel a mode, all on one scale, so that the lengths compare."""
    panels = [(mode, spans_of(case, mode)) for mode in modes]
    longest = max(end for _, jobs in panels for job in jobs for _, end in job) or 1e-9
    left, right, top, row, gap, wide = 70, 20, 64, 14, 46, 860
    heights = [len(jobs) * row for _, jobs in panels]
    height = top + sum(heights) + gap * len(panels)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + right}" height="{height}"'
        f' viewBox="0 0 {left + wide + right} {height}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="18" font-size="14">{html.escape(label(case))}</text>',
    ]
    at = left
    for phase, colour in zip(_PHASES, _COLOURS, strict=True):
        out.append(f'<rect x="{at}" y="28" width="12" height="10" fill="{colour}"/>')
        out.append(f'<text x="{at + 16}" y="37">{phase}</text>')
        at += 90
    y = top
    ticks = _ticks(longest)
    for (mode, jobs), panel in zip(panels, heights, strict=True):
        out.append(f'<text x="{left}" y="{y - 5}" font-weight="bold">{mode}</text>')
        for tick in ticks:
            x = left + wide * tick / longest
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + panel}" stroke="#dddddd"/>')
            out.append(
                f'<text x="{x:.1f}" y="{y + panel + 13}" text-anchor="middle">{duration(tick) if tick else 0}</text>'
            )
        for index, job in enumerate(jobs):
            line = y + index * row
            out.append(f'<text x="{left - 6}" y="{line + 10}" text-anchor="end">job {index}</text>')
            for phase, colour, (begin, end) in zip(_PHASES, _COLOURS, job, strict=True):
                length = max(wide * (end - begin) / longest, 0.4)
                out.append(
                    f'<rect x="{left + wide * begin / longest:.2f}" y="{line + 1.5}" width="{length:.2f}"'
                    f' height="{row - 3}" fill="{colour}"><title>job {index} {phase}:'
                    f" {duration(max(end - begin, 0))}</title></rect>"
                )
        y += panel + gap
    return "\n".join([*out, "</svg>", ""])


# --- the command --------------------------------------------------------------------------------------


def _declaration(words: list[str]) -> tuple[Batch, dict[str, float]]:
    """`in=64MiB out=0 flops=1e9 jobs=16 …` as a batch and what its jobs move. Raises ValueError."""
    given = {"in": 0.0, "out": 0.0, "flops": 0.0}
    numbers, words_of = {"jobs": 16, "threads": 1}, {"allocation": "pool", "host": "pinned"}
    for word in words:
        key, _, value = word.partition("=")
        try:
            if key in given:
                given[key] = units.amount(value)
            elif key in numbers:
                numbers[key] = int(value)
                if numbers[key] < 1:
                    raise ValueError
            elif key in words_of and value:
                words_of[key] = value
            else:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"--job {word!r} is not understood: in=64MiB out=16KiB flops=1e9 jobs=16 threads=1"
                " allocation=pool host=pinned"
            ) from None
    return Batch(numbers["jobs"], words_of["allocation"], words_of["host"], numbers["threads"]), given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("records", nargs="+", metavar="RECORDS", help="record files of interjob/*")
    parser.add_argument("--job", nargs="+", metavar="KEY=VALUE", help="a job declared by bytes in, bytes out and flops")
    parser.add_argument("--timeline", metavar="SVG", help="draw the jobs of the first record over time")
    parser.add_argument(
        "--mode", nargs="+", choices=("serial", *MODES), help="the modes to draw (default: all there are)"
    )
    parser.add_argument("--emulated", action="store_true", help="emulated records, too: their times mean nothing")
    output.add_arguments(parser)


def run(asked: argparse.Namespace) -> int:
    cases, status = load.read_files(asked.records, asked)
    cases = content.that_count(of_study(cases), emulated=asked.emulated)
    if not cases:
        raise Error("no measured interjob/* record of a real device in these files; --emulated takes the others")
    try:
        if asked.timeline:
            notes = cases[0].get("notes", {})
            modes = asked.mode or [mode for mode in ("serial", *MODES) if f"{mode}_timeline" in notes]
            if not modes:
                raise Error(f"{label(cases[0])} has no timeline")
            try:
                pathlib.Path(asked.timeline).write_text(svg(cases[0], modes), encoding="utf-8")
            except OSError as error:
                raise Error(f"{asked.timeline}: {error.strerror}") from None
        elif asked.job:
            batch, given = _declaration(asked.job)
            phases = declared(cases, batch, given["in"], given["out"], given["flops"])
            name = f"{batch.jobs} such jobs in {batch.allocation} memory"
            output.write(asked, table_of_job(name, advise(phases, batch)))
        else:
            output.write(asked, table_of(cases))
    except ValueError as error:
        raise Error(str(error)) from None
    return status
