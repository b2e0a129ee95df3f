"""Model of the time that a batch of jobs takes in each mode; the jobs share threads, the driver and the device.

Each job uses, in turn, the threads that allocate, the thread that queues, the device's streams and the thread that
releases. All threads share the driver, whose calls wait for each other.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

MODES = ("overlap_alloc", "overlap_all", "recycled")
#: Smallest predicted speed-up that is a reason to overlap.
WORTH = 1.05
#: Depths among which advice chooses; of equally good depths it chooses the smallest, which needs the least memory.
DEPTHS = (2, 3, 4, 6, 8)
#: Displayed names of the parts of a batch that may be busy longest, if they differ from the internal names.
_BUSIEST = {"in": "copying in", "kernel": "the kernel", "out": "copying out", "submitting": "queueing",
            "stream": "the stream"}  # fmt: skip
#: Kinds of memory whose driver calls, such as cudaFree, wait for all work of the device.
SYNCHRONISING = {"device", "managed"}


@dataclasses.dataclass(frozen=True)
class Phases:
    """Seconds of each phase of a job that runs alone; `job` is the whole job, including waits between phases."""

    allocate: float
    submit: float
    copy_in: float
    kernel: float
    copy_out: float
    finish: float
    release: float
    job: float
    wake: float = 0.0
    #: Seconds to start a thread.
    start: float = 0.0
    #: Seconds of `submit` that are spent in driver calls; the rest is work of the host. None means all of `submit`.
    calls: float | None = None
    #: Factor by which a driver call takes longer if it had to wait for another thread's call.
    contention: float = 1.0
    #: Seconds of copy in, kernel and copy out in memory that an earlier job used; None if the same as in new memory.
    reused: tuple[float, float, float] | None = None
    #: Seconds of copy in, kernel and copy out of each job, if jobs differ; every batch repeats them in this order.
    each: tuple[tuple[float, float, float], ...] = ()

    @property
    def waits(self) -> float:
        """Seconds outside all phases except `submit`: until the device begins, and until the host sees its end."""
        named = self.allocate + self.copy_in + self.kernel + self.copy_out + self.finish + self.release
        return max(self.job - named, 0.0)

    @property
    def lead(self) -> float:
        """Seconds from the first queueing call until the device begins; later calls overlap with this time."""
        return min(self.waits, self.submit)

    @property
    def tail(self) -> float:
        """Seconds from the end of the last copy until the host sees it."""
        return self.waits - self.lead

    def on_device(self, index: int, reuses: bool) -> tuple[float, float, float]:
        """Returns the seconds of a job's copy in, kernel and copy out, in new memory or in that of an earlier job."""
        if self.each:
            return self.each[index % len(self.each)]
        new = (self.copy_in, self.kernel, self.copy_out)
        # Used memory causes no first page faults, so each phase takes at most as long as in new memory.
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


@functools.lru_cache(maxsize=4096)  # because printing, judging and picking simulate the same batches
def simulate(phases: Phases, batch: Batch, mode: str, depth: int) -> Prediction:
    """Returns a batch's seconds in a mode, and what was busy the longest. Raises ValueError for an unknown mode."""
    if mode == "serial":
        return Prediction("serial", 1, batch.jobs * phases.job, "everything")
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}: choose serial, {', '.join(MODES)}")
    return _Overlapped(phases, batch, mode, depth).run()


class _Overlapped:
    """Simulation of jobs passing through the allocating threads, the queueing thread, streams and the releasing thread.

    Driver calls take a lock, in the order in which they request it.
    """

    def __init__(self, phases: Phases, batch: Batch, mode: str, depth: int):
        self.phases, self.batch, self.mode, self.depth = phases, batch, mode, depth
        # With chunked allocation the batch keeps its chunks, but each job maps and unmaps them: nothing is recycled.
        self.recycled = mode == "recycled" and batch.allocation != "chunked"
        self.together = mode == "overlap_alloc"
        self.waits_for_all = (batch.allocation in SYNCHRONISING or batch.host == "per-job") and not self.recycled
        self.managed = batch.allocation == "managed"
        # Chunked memory needs so many calls that some always wait for those of another thread.
        self.always_contended = batch.allocation == "chunked"
        begin = phases.start * (batch.threads + 1)
        self.free = [begin] * batch.threads  # times at which each allocating thread becomes free
        self.submitting = self.releasing = begin
        self.lock = self.device = 0.0  # times at which the lock is released and the device runs out of work
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

    # Each of these methods returns the time at which the next job reaches a step, and the method for that step.

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
        # The first jobs' memory is new; if it is recycled, later jobs get the memory of earlier ones.
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
        """Returns the lanes that must finish before work in `lane` begins: itself, and those it cannot overlap with."""
        # New managed memory causes page faults: the copy that fills it and kernels that fault run one after the other.
        if self.together or (self.managed and not reuses):
            return self.lanes
        # Even managed memory that was used before cannot be filled while a kernel runs.
        return ("in", "kernel") if self.managed and lane != "out" else (lane,)

    def release(self, asked):
        took = 0.0 if self.recycled else self.phases.release
        rests = self.device if self.waits_for_all else 0.0
        if self.managed:  # the wait for the device comes before the call, so other threads can call during it
            self.releasing = self._call(max(asked, rests), took)
        else:  # the call keeps the lock while it waits for the device
            self.releasing = self._call(asked, took, rests)
        self.busy["releasing"] += self.phases.finish + took
        self.released.append(self.releasing)

    def _calls(self) -> float:
        calls = self.phases.calls
        return self.phases.submit if calls is None else min(calls, self.phases.submit)

    def _call(self, asked: float, seconds: float, not_before: float = 0.0) -> float:
        """Makes a driver call and returns the time at which it ends."""
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
    """Returns the mode and depth that are expected to be fastest, and whether overlapping is worth it.

    If several are equally fast (within 2%), chooses the mode with the fewest driver calls and the smallest depth.
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
        reason = f"{largest} is {share:.0%} of a job, so too little is left to overlap with it"
    else:
        busiest = _BUSIEST.get(best.busiest, best.busiest)
        reason = f"{busiest} is busiest, and {largest} is {share:.0%} of a job that runs alone"
    return Advice(serial, best, gain >= WORTH, reason)
