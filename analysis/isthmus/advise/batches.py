"""Records of the study of batches (interjob/*): the phases of a job that runs alone, and the errors of predictions."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import sys
from typing import Any

from isthmus.advise.costs import Costs
from isthmus.advise.measured import medians
from isthmus.advise.overlap import MODES, Batch, Phases, advise, simulate
from isthmus.records import fields, validate
from isthmus.spelling import counted

FAMILY = "interjob/"
_OF_A_JOB = ("allocate", "submit", "in", "kernel", "out", "finish", "release", "job")
#: Metrics of a job that runs alone; everything is predicted from them.
LEARNT = {f"serial_{name}" for name in _OF_A_JOB}
#: Largest relative error of a near prediction, and largest excess of a well-picked mode's time over the best mode's.
NEAR = 0.15
WELL_PICKED = 0.05
_COUNTS = {"n": 1 << 20, "jobs": 1 << 20, "depth": 1 << 20, "threads": 1 << 10, "cap": 1 << 20}  # maximum of each axis


def _can_have_run(case: dict) -> bool:
    """Returns whether a real batch can have these axes and times."""
    axes = case["axes"]
    counts = all(isinstance(axes.get(name), int) and axes[name] <= most for name, most in _COUNTS.items())
    if not counts or min(axes[name] for name in ("n", "jobs", "depth", "threads")) < 1:
        return False
    texts = all(isinstance(axes.get(name), str) for name in ("allocation", "host"))
    times = [(m["name"], m["median"]) for m in case["metrics"] if m["unit"] == "s" and m["median"] is not None]
    return texts and all(0 <= t < 1e9 and (t or not name.endswith(("_time", "_job"))) for name, t in times)


def of_study(cases: list[dict]) -> list[dict]:
    """Returns the measured records of the study; leaves out impossible batches and prints their number on stderr."""
    measured = [
        case
        for case in cases
        if case["workload"].startswith(FAMILY) and not case["skipped"] and not case["error"] and case["metrics"]
    ]
    good = [case for case in measured if _can_have_run(case)]
    if len(good) < len(measured):
        print(
            f"{counted(len(measured) - len(good), 'record')} left out: no batch can have their axes and times",
            file=sys.stderr,
        )
    return good


def phases_of(case: dict) -> Phases:
    """Returns the phases of a job in the record's serial batches. Raises RecordError if one is missing."""
    found = medians(case)
    missing = [f"serial_{name}" for name in _OF_A_JOB if f"serial_{name}" not in found]
    if missing:
        raise validate.RecordError(f"{label(case)} has no {', '.join(missing)}: it does not describe a single job")
    fields = {"in": "copy_in", "out": "copy_out"}
    lengths: dict[str, Any] = {fields.get(name, name): found[f"serial_{name}"] for name in _OF_A_JOB}
    again = [found[name] for name in ("reused_in", "reused_kernel", "reused_out") if name in found]
    return Phases(
        **lengths, wake=found.get("thread_wake", 0.0), start=found.get("thread_start", 0.0),
        calls=found.get("calls_submit"), contention=_contention(case, found),
        reused=(again[0], again[1], again[2]) if len(again) == 3 else None,
        each=_each(case) if case["workload"] == FAMILY + "mixed" else (),
    )  # fmt: skip


def _each(case: dict) -> tuple[tuple[float, float, float], ...]:
    """Returns copy in, kernel and copy out of every job of the last serial batch; empty without a timeline."""
    if "serial_timeline" not in case.get("notes", {}):
        return ()
    places = [PHASES.index(name) for name in ("in", "kernel", "out")]
    lengths = [[job[i][1] - job[i][0] for i in places] for job in spans_of(case, "serial")]
    return tuple((copy_in, kernel, copy_out) for copy_in, kernel, copy_out in lengths)


def _contention(case: dict, found: dict[str, float]) -> float:
    """Returns the factor by which a driver call takes longer if it had to wait; 1 if no batch shows this.

    With this factor, the prediction for jobs that only make calls, without copying or computing, equals the measured
    time of their batch.
    """
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
    """Measured and predicted seconds of one mode of one record."""

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
    """Returns the errors of the serial time and of each forced mode at the record's depth.

    Returns none for records with a cap on memory, since their jobs wait for room.
    """
    if case["axes"]["cap"] or not case["axes"]["force"]:
        return []
    found, phases, batch = medians(case), phases_of(case), batch_of(case)
    return [
        Miss(label(case), mode, found[f"{mode}_time"], simulate(phases, batch, mode, case["axes"]["depth"]).seconds)
        for mode in ("serial", *MODES)
        if f"{mode}_time" in found
    ]


def picked_losses(cases: list[dict]) -> list[float]:
    """Returns how much slower the mode that advice picks is than the best measured one, for each record with a choice.

    A loss of 0 means that the picked mode is the best.
    """
    losses = []
    for case in cases:
        found = medians(case)
        measured = {mode: found[f"{mode}_time"] for mode in ("serial", *MODES) if f"{mode}_time" in found}
        if len(measured) < 3 or not errors(case):
            continue
        overlapped = [mode for mode in measured if mode != "serial"]
        advice = advise(phases_of(case), batch_of(case), overlapped, [case["axes"]["depth"]])
        picked = advice.best.mode if advice.worth else "serial"
        losses.append(measured[picked] / min(measured.values()) - 1)
    return losses


# --- declared jobs ---


def declared(cases: list[dict], batch: Batch, bytes_in: float, bytes_out: float, flops: float) -> Phases:
    """Predicts a job's phases from its bytes and flops, using records of jobs in the same kind of memory.

    Times of copies and calls are linear in bytes; the kernel runs at the best rates of arithmetic and memory. Raises
    RecordError if no record uses that kind of memory.
    """
    alike = [
        case
        for case in of_study(cases)
        if case["axes"]["allocation"] == batch.allocation and case["axes"]["host"] == batch.host
    ]
    if not alike:
        raise validate.RecordError(f"no record has {batch.allocation} memory with {batch.host} host memory")
    held, samples, costs = bytes_in + bytes_out, [phases_of(case) for case in alike], Costs()
    for case, phases in zip(alike, samples, strict=True):
        metrics, found = fields.metrics(case), medians(case)
        costs.add("allocate", found["job_bytes"], phases.allocate)
        costs.add("release", found["job_bytes"], phases.release)
        costs.add("in", metrics["serial_in"]["bytes_moved"], phases.copy_in)
        costs.add("out", metrics["serial_out"]["bytes_moved"], phases.copy_out)
        costs.add("arithmetic", found["job_flops"], phases.kernel)
        costs.add("memory", found["job_bytes"], phases.kernel)
    allocate, release = costs.line("allocate")(held), costs.line("release")(held)
    copy_in, copy_out = costs.line("in")(bytes_in), costs.line("out")(bytes_out)
    arithmetic, memory = costs.best_rate("arithmetic"), costs.best_rate("memory")
    if not (arithmetic and memory):
        raise validate.RecordError(
            f"no kernel of a job in {batch.allocation} memory took any time: its rate is unknown"
        )
    kernel = max(flops / arithmetic, held / memory, min(p.kernel for p in samples))
    submit = statistics.median(p.submit for p in samples)
    waits = statistics.median(p.waits for p in samples)
    finish = statistics.median(p.finish for p in samples)
    job = allocate + copy_in + kernel + copy_out + finish + release + waits
    wake = statistics.median(p.wake for p in samples)
    return Phases(allocate, submit, copy_in, kernel, copy_out, finish, release, job, wake)


# --- timelines ---

PHASES = ("allocate", "in", "kernel", "out", "finish", "release")


def spans_of(case: dict, mode: str) -> list[list[tuple[float, float]]]:
    """Returns (begin, end) in seconds of each job's phases. Raises RecordError for a record without this mode."""
    text = case.get("notes", {}).get(f"{mode}_timeline")
    if text is None:
        raise validate.RecordError(f"{label(case)} has no timeline of {mode}")
    try:
        jobs = json.loads(text)
        if not jobs:
            raise ValueError("no job")
        spans = []
        for job in jobs:
            if len(job) != 2 * len(PHASES) or not all(math.isfinite(value) for value in job):
                raise ValueError(f"a job of {len(job)} values")
            spans.append([(job[2 * i] / 1e6, job[2 * i + 1] / 1e6) for i in range(len(PHASES))])
    except (ValueError, TypeError) as error:
        raise validate.RecordError(f"{label(case)}: its timeline of {mode} cannot be read ({error})") from None
    return spans
