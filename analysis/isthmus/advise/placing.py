"""Where a program's buffers should live: `isthmus advise placement RECORDS…` ranks placements and stagings by time.

The machine is known by its records: copies, prefetches and page faults (transfer/*), allocation (driver/alloc and
alloc/*), the best rates of memory and arithmetic (reference/*), and the phases of the microbenchmarks. The program is
declared, or profiled by one record of it.

    isthmus advise placement DIR --program in=4GiB out=4GiB flops=2.1e9 [touched=8GiB flops_per_shared=1 reuse=1
                                 passes=10 allocations=3 buffers=4GiB blocks=0 order=random]
    isthmus advise placement DIR --program FILE.toml       the same keys in a file
    isthmus advise placement DIR --like RECORD.jsonl       the program that this record measured, first one of the file
    isthmus advise placement DIR --check                   the error: every microbenchmark predicted from the others

in, out          bytes to the GPU and back, each pass
touched          bytes that the kernel reads and writes (in + out)
flops            floating-point operations of one kernel
flops_per_shared flops per access to shared memory
reuse            kernels for each transfer
passes           transfers for each allocation
allocations      buffers that are allocated and freed; buffers: their bytes together (in + out)
blocks           thread blocks of the kernel; 0: as many as fill the device
order            of the kernel's accesses: sequential, or random within what a tile holds
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import itertools
import math
import pathlib
import re
import statistics
import sys
from typing import Any

from isthmus import Error, spelling, units
from isthmus.advise.interjob import duration
from isthmus.records import content, load, validate
from isthmus.tables import output

STAGINGS = ("none", "direct", "async", "bulk")
PHASES = ("host_alloc", "host_touch", "device_alloc", "in", "kernel", "out", "free")
#: What carries data in and out, and what the buffers are allocated by, for each placement: host memory, device memory.
WAYS = {
    "pageable": ("pageable-gpu0/ce", "gpu0-pageable/ce", None, "device"),
    "pinned": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned", "device"),
    "pool": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned", "pool"),
    "streamed": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned", "device"),
    "managed_in": ("managed-gpu0/prefetch", "gpu0-managed/fault", None, "managed"),
    "managed": ("managed-gpu0/prefetch", "gpu0-managed/prefetch", None, "managed"),
    "managed_demand": ("managed-gpu0/fault", "gpu0-managed/fault", None, "managed"),
    "mapped": ("mapped-gpu0/sm-read", "gpu0-mapped/sm-write", "mapped", None),
}
#: Where a placement's own phases were not measured, those of this one: the same kind of host memory.
ALIKE = {
    "pool": "pinned",
    "streamed": "pinned",
    "managed": "managed_in",
    "managed_demand": "managed_in",
    "mapped": "pinned",
}
#: Placements whose data the kernel itself fetches: there is no copy, and the device need not hold it.
REMOTE = {"mapped"}
CHUNKS = 16  # of `streamed`, as the program has by default
#: Flops per access to shared memory of the seven kernels when they stage tiles: accesses of one output are counted, the
#: store of the tile included; gemm's with its patch of 8 × 8 values a thread. Times `iterations` where a value stays in
#: a register.
FLOPS_PER_SHARED = {
    "vector_seq": 1.0, "vector_rand": 1.0, "saxpy": 0.5, "gemv": 2 / 3, "gemm": 8.0, "conv2d": 1.7, "conv3d": 1.9,
}  # fmt: skip
_IN_PLACE = {"vector_seq", "vector_rand", "saxpy"}  # results lie in an input
#: Axes of a transfer that is measured as a program would do it.
_PLAIN = {"cache": "flushed", "at_once": 1, "order": "contiguous", "width": 16, "touch": "whole", "threads": 1}
_PREFIX = "microbench/"
_LATENCY = 2**24  # bytes below which time no longer follows them
_MANY = 16  # allocations held together, which the driver cuts from blocks that it has mapped already
_SECTOR = 32 / 4  # bytes that memory moves for one access out of order, over the bytes of a value


@dataclasses.dataclass(frozen=True)
class Footprint:
    """What a program moves and computes; bytes and flops, see the module."""

    bytes_in: float
    bytes_out: float
    touched: float
    flops: float
    flops_per_shared: float | None = None
    reuse: float = 1
    passes: float = 1
    allocations: float = 1
    buffers: float = 0
    blocks: int = 0
    random: bool = False


@dataclasses.dataclass
class Curve:
    """Seconds by bytes, from scattered points: medians of half octaves, straight in logarithms between them."""

    points: list[tuple[float, float]]

    def __post_init__(self):
        cells = collections.defaultdict(list)
        for size, seconds in self.points:
            if size > 0 and seconds > 0:
                cells[round(2 * math.log2(size))].append((size, seconds))
        self.nodes = [
            (statistics.geometric_mean(s for s, _ in cell), statistics.median(t / s for s, t in cell))
            for _, cell in sorted(cells.items())
        ]  # (bytes, seconds a byte)

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def __call__(self, size: float) -> float:
        """Seconds; beyond the points the rate goes on, below the smallest at most down to _LATENCY, then its time."""
        if size <= 0:
            return 0.0
        if size >= self.nodes[-1][0]:
            return size * self.nodes[-1][1]
        if size <= self.nodes[0][0]:
            return max(size, min(self.nodes[0][0], _LATENCY)) * self.nodes[0][1]
        for (a, x), (b, y) in itertools.pairwise(self.nodes):
            if a <= size <= b:
                share = math.log(size / a) / math.log(b / a)
                return size * x ** (1 - share) * y**share
        raise AssertionError(size)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A measured kernel: how much longer than memory and arithmetic ask it took, in one staging."""

    workload: str
    staging: str
    slowdown: float
    footprint: Footprint
    full: bool  # whether its blocks fill the device


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Seconds of each phase, of one pass and of one allocation."""

    placement: str
    staging: str
    phases: dict[str, float]
    footprint: Footprint

    @property
    def total(self) -> float:
        """All passes and the allocation."""
        p, f = self.phases, self.footprint
        work = p["in"] + f.reuse * p["kernel"] + p["out"]
        if self.placement == "streamed":
            longest = max(p["in"], f.reuse * p["kernel"], p["out"])
            work = longest + (work - longest) / CHUNKS
        return self.allocation + f.passes * work

    @property
    def allocation(self) -> float:
        return sum(self.phases[name] for name in ("host_alloc", "host_touch", "device_alloc", "free"))

    @property
    def paper_total(self) -> float:
        """Kernel, copies and device allocation calls, as the pipelining paper counts."""
        return sum(self.phases[name] for name in ("device_alloc", "in", "kernel", "out"))


# --- what the records say -----------------------------------------------------------------------------


def medians(case: dict) -> dict[str, float]:
    """Of all metrics that have one."""
    return {name: m["median"] for name, m in content.metrics(case).items() if m["median"] is not None}


def counts(case: dict) -> bool:
    """Whether a record has figures of a GPU that were not found wrong."""
    return not case["skipped"] and not case["error"] and case["verify"]["status"] != "fail" and bool(case["devices"])


_NUMBERS = ("bytes", "n", "iterations", "blocks")
_NEEDED = {  # axes, by the beginning of a workload's name
    "transfer/": ("bytes",), "driver/alloc": ("bytes", "allocator"), "alloc/": ("bytes",),
    "reference/device_copy": ("bytes",), "reference/sgemm": ("n",),
}  # fmt: skip
_MOST = {"s": 1e9, "B/s": 1e21, "FLOP/s": 1e24}


def plausible(case: dict) -> bool:
    """Whether a machine can have given these axes and figures; what is reckoned from others is not finite."""
    axes, workload = case["axes"], case["workload"]
    sizes = [axes[name] for name in _NUMBERS if name in axes]
    if not all(isinstance(size, int) and 0 <= size < 1 << 60 for size in sizes):
        return False
    if any(workload.startswith(begin) and not axes.keys() >= {*needed} for begin, needed in _NEEDED.items()):
        return False
    for metric in case["metrics"]:
        value, above = metric["median"], metric["name"] in ("kernel", "kernel_rate", "rate", "kernel_flop_rate")
        if value is not None and metric["unit"] in _MOST and not 0 <= value < _MOST[metric["unit"]]:
            return False
        if (above and value == 0) or not (metric.get("bytes_needed") or 0) < _MOST["B/s"]:
            return False
    return True


def that_are_plausible(cases: list[dict]) -> list[dict]:
    """Without those that no machine can have measured, whose number is told."""
    kept = [case for case in cases if plausible(case)]
    if len(kept) < len(cases):
        print(f"{len(cases) - len(kept)} records left out: no machine has such axes and figures", file=sys.stderr)
    return kept


def of_program(case: dict) -> bool:
    """Whether a record has the phases of a program."""
    return counts(case) and {"in", "kernel", "out", "kernel_rate"} <= medians(case).keys()


def footprint_of(case: dict) -> Footprint:
    """What the program of a record moves and computes. Raises RecordError for one without phases."""
    if not of_program(case):
        raise validate.RecordError(f"{case['workload']} has no phases in, kernel and out: it is no program's footprint")
    found, metrics, name = medians(case), content.metrics(case), case["workload"].removeprefix(_PREFIX)
    moved_in, moved_out = (float(metrics[phase].get("bytes_needed") or 0) for phase in ("in", "out"))
    per_shared = FLOPS_PER_SHARED.get(name)
    if per_shared and case["axes"].get("reuse") == "register":
        per_shared *= case["axes"].get("iterations", 1)
    return Footprint(
        moved_in,
        moved_out,
        found["kernel_rate"] * found["kernel"],
        found.get("kernel_flop_rate", 0.0) * found["kernel"],
        per_shared,
        buffers=moved_in if name in _IN_PLACE else moved_in + moved_out,
        blocks=case["axes"].get("blocks", 0),
        random=name == "vector_rand",
    )


class Machine:
    """What one machine's records say of copies, allocation and kernels. Raises Error where they are of several
    machines, or too few."""

    def __init__(self, cases: list[dict], without: str | None = None):
        cases = [case for case in cases if counts(case)]
        kinds = {(case["devices"][0]["name"], case["host"]["cpu"]) for case in cases}
        if len(kinds) != 1:
            told = "; ".join(sorted(" with ".join(kind) for kind in kinds)) or "none with a GPU"
            raise Error(f"advice is for one kind of machine, these records are of {len(kinds)}: {told}")
        self.name = next(iter(kinds))[0]
        device = cases[0]["devices"][0]
        self.memory = device.get("memory_bytes") or math.inf
        self.processors = device.get("multiprocessors") or 1
        points: dict[Any, list[tuple[float, float]]] = collections.defaultdict(list)
        self._memory_curve: Any = None  # bytes → seconds, once there are points
        self._arithmetic: Any = None  # flops a second
        programs = []
        for case in cases:
            self._take(case, points)
            if case["workload"].startswith(_PREFIX) and of_program(case) and case["workload"] != without:
                programs.append(case)
        for case in programs:
            self._take_program(case, points)
        points.setdefault("memory", points["copy"])
        self.curves = {key: curve for key, found in points.items() if (curve := Curve(found))}
        self._memory_curve = self.curves.get("memory")
        rates = points["arithmetic"]
        self._arithmetic = max((rate for _, rate in rates), default=None)
        if not self._memory_curve or not self._arithmetic:
            raise Error("no record of transfer/gpu0-gpu0/ce and reference/sgemm: the limits of a kernel are not known")
        self.kernels = [self._kernel(case) for case in programs]

    def _take(self, case: dict, points) -> None:
        name, axes, found = case["workload"], case["axes"], medians(case)
        if name.startswith("transfer/") and "time" in found and len(case["devices"]) == 1:
            if all(axes.get(axis, value) == value for axis, value in _PLAIN.items()):
                points[name.removeprefix("transfer/")].append((axes["bytes"], found["time"]))
                if re.fullmatch(r"transfer/gpu(\d+)-gpu\1/ce", name):  # read once and written once
                    points["copy"].append((2 * axes["bytes"], found["time"]))
        elif name == "driver/alloc" and {"alloc", "free"} <= found.keys():
            points["alloc", axes["allocator"]].append((axes["bytes"], found["alloc"]))
            points["free", axes["allocator"]].append((axes["bytes"], found["free"]))
        elif name.startswith("alloc/") and {"alloc", "free"} <= found.keys() and "touch" not in found:
            for call in ("alloc", "free"):
                points[f"{call} of many", name.removeprefix("alloc/")].append((axes["bytes"], found[call]))
        elif name == "reference/device_copy" and "rate" in found:  # what older records have instead
            points["memory"].append((2 * axes["bytes"], 2 * axes["bytes"] / found["rate"]))
        elif name == "reference/sgemm" and "kernel_flop_rate" in found:
            points["arithmetic"].append((axes["n"], found["kernel_flop_rate"]))

    def _take_program(self, case: dict, points) -> None:
        found, footprint = medians(case), footprint_of(case)
        sizes = {"in": footprint.bytes_in, "out": footprint.bytes_out}
        for phase in PHASES:
            if phase != "kernel" and phase in found:
                points[case["placement"], phase].append((sizes.get(phase, footprint.buffers), found[phase]))

    def roofline(self, footprint: Footprint, staging: str) -> float:
        """Seconds that a kernel takes at least; random accesses that no tile gathers move whole sectors."""
        touched = footprint.touched * (_SECTOR if footprint.random and staging == "none" else 1)
        return max(self._memory_curve(touched), footprint.flops / self._arithmetic)

    def full(self, footprint: Footprint) -> bool:
        return footprint.blocks == 0 or footprint.blocks >= self.processors

    def _kernel(self, case: dict) -> Kernel:
        footprint = footprint_of(case)
        slowdown = medians(case)["kernel"] / self.roofline(footprint, case["staging"])
        return Kernel(case["workload"], case["staging"], slowdown, footprint, self.full(footprint))

    def slowdowns(self, footprint: Footprint, staging: str) -> list[tuple[float, float]]:
        """(slowdown, weight) of the kernels measured in a staging, those that are alike weighing more; a workload
        counts once however many records it has."""
        found = collections.defaultdict(list)
        for kernel in self.kernels:
            if kernel.staging == staging and kernel.full == self.full(footprint):
                found[kernel.workload].append((kernel.slowdown, math.exp(-_unlike(footprint, kernel.footprint))))
        result = []
        for pairs in found.values():
            total = sum(weight for _, weight in pairs)
            mean = math.exp(sum(math.log(value) * weight for value, weight in pairs) / total)
            result.append((mean, max(weight for _, weight in pairs)))
        return result

    def kernel(self, footprint: Footprint, staging: str) -> float | None:
        """Expected seconds of a kernel; None where no kernel was measured in that staging."""
        found = self.slowdowns(footprint, staging)
        if not found:
            return None
        total = sum(weight for _, weight in found)
        return self.roofline(footprint, staging) * math.exp(sum(math.log(x) * weight for x, weight in found) / total)

    def stagings(self, footprint: Footprint) -> list[str]:
        return [staging for staging in STAGINGS if self.slowdowns(footprint, staging)]

    def placements(self) -> list[str]:
        """Those of which the records know how data goes in and out."""
        return [
            name for name, ways in WAYS.items()
            if all(self._copy(name, phase, way) for phase, way in zip(("in", "out"), ways))
        ]  # fmt: skip

    def _copy(self, placement: str, phase: str, way: str | None) -> Curve | None:
        """Seconds of a copy: of programs in that placement and of transfers by that way, together."""
        points = [
            point for key in ((placement, phase), way) if key in self.curves for point in self.curves[key].points
        ]  # fmt: skip
        return Curve(points) if points else None

    def predict(
        self, footprint: Footprint, placement: str, staging: str, kernel: float | None = None
    ) -> Prediction | None:
        """Phases in a placement and staging; `kernel` where its seconds are known. None where nothing is known."""
        way_in, way_out, host, device = WAYS[placement]
        seconds = self.kernel(footprint, staging) if kernel is None else kernel
        if seconds is None or placement not in self.placements():
            return None

        copy_in, copy_out = self._copy(placement, "in", way_in), self._copy(placement, "out", way_out)
        assert copy_in is not None and copy_out is not None  # or it were none of placements()
        moved = {"in": copy_in(footprint.bytes_in), "out": copy_out(footprint.bytes_out)}
        if placement in REMOTE:
            seconds = max(seconds, moved["in"] + moved["out"])
            moved = dict.fromkeys(moved, 0.0)
        each = footprint.buffers / footprint.allocations

        def called(phase: str, kinds: tuple[str | None, ...], call: str) -> float:
            curve = self.curves.get((placement, phase))
            if curve is None and (placement != "mapped" or phase != "device_alloc"):
                curve = self.curves.get((ALIKE.get(placement), phase))
            if curve is not None and footprint.allocations == 1:
                return curve(footprint.buffers)
            named = f"{call} of many" if footprint.allocations >= _MANY else call
            calls = [self.curves.get((named, kind)) or self.curves.get((call, kind)) for kind in kinds if kind]
            one = sum(curve(each) for curve in calls if curve)
            # A record of a program is of few calls, so it says what the bytes cost; the calls cost at least this.
            return max(footprint.allocations * one, curve(footprint.buffers) if curve is not None else 0.0)

        phases = {
            "host_alloc": called("host_alloc", (host,), "alloc"),
            "host_touch": called("host_touch", (), "alloc"),
            "device_alloc": called("device_alloc", (device,), "alloc"),
            **moved,
            "kernel": seconds,
            "free": called("free", (host, device), "free"),
        }
        return Prediction(placement, staging, phases, footprint)

    def rank(self, footprint: Footprint, kernels: dict[str, float] | None = None) -> list[Prediction]:
        """All that can be predicted and fits, the fastest first. `kernels`: known seconds by staging."""
        found = []
        for placement, staging in itertools.product(self.placements(), self.stagings(footprint)):
            if footprint.buffers > self.memory and placement in ("pageable", "pinned", "pool"):
                continue
            each = self.predict(footprint, placement, staging, (kernels or {}).get(staging))
            if each is not None:
                found.append(each)
        return sorted(found, key=lambda each: each.total)


def _unlike(a: Footprint, b: Footprint) -> float:
    """How unlike two kernels are: octaves of flops per shared access and of flops per byte, and of size a quarter."""

    def octaves(x, y):
        return abs(math.log2(x / y)) if x and y else 0.0

    return (
        octaves(a.flops_per_shared, b.flops_per_shared)
        + octaves(a.flops / a.touched if a.touched else 0, b.flops / b.touched if b.touched else 0) / 2
        + octaves(a.touched, b.touched) / 4
    )


# --- how wrong it is ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Miss:
    """Measured and predicted seconds of one record."""

    workload: str
    size: str
    placement: str
    staging: str
    what: str
    measured: float
    predicted: float

    @property
    def relative(self) -> float:
        return self.predicted / self.measured - 1


@dataclasses.dataclass
class Check:
    """Errors of the predictions of all programs of the records; each was predicted from the others."""

    misses: list[Miss]
    losses: dict[str, list[tuple[str, float]]]  # by what was picked: case, how much slower it is than the best


def _measured(case: dict) -> dict[str, float]:
    found = medians(case)
    parts = {"paper_total": sum(found.get(name, 0.0) for name in ("device_alloc", "in", "kernel", "out"))}
    parts["wall"] = found.get("wall", parts["paper_total"])
    return parts | {name: found[name] for name in ("in", "kernel", "out") if name in found}


def _group(case: dict) -> tuple:
    """Records of one program at one size and geometry."""
    return (case["workload"], case["size"], case["preset"], tuple(sorted(case["axes"].items())))


def check(cases: list[dict]) -> Check:
    """Predicts every program of the records from the machine without that workload: declared (its kernel is not known)
    and profiled (its kernel is known in direct staging, or in the first there is)."""
    groups = collections.defaultdict(list)
    for case in cases:
        if case["workload"].startswith(_PREFIX) and of_program(case) and case["placement"] in WAYS:
            groups[_group(case)].append(case)
    machines = {workload: Machine(cases, without=workload) for workload in {key[0] for key in groups}}
    result = Check([], collections.defaultdict(list))
    for key, members in groups.items():
        machine, predicted = machines[key[0]], []
        known = next((c for c in members if c["staging"] == "direct"), members[0])
        for case in members:
            footprint = footprint_of(case)
            declared = machine.predict(footprint, case["placement"], case["staging"])
            own, other = (machine.kernel(footprint, staging) for staging in (case["staging"], known["staging"]))
            if declared is None or own is None or other is None:
                continue
            kernel = medians(known)["kernel"] * own / other
            profiled = machine.predict(footprint, case["placement"], case["staging"], kernel)
            assert profiled is not None  # since it is with an estimated kernel
            predicted.append((case, declared, profiled))
            measured, place = _measured(case), (case["placement"], case["staging"])
            for what, seconds in (
                ("in", declared.phases["in"]), ("out", declared.phases["out"]), ("kernel", declared.phases["kernel"]),
                ("declared", declared.paper_total), ("profiled", profiled.paper_total), ("wall", profiled.total),
            ):  # fmt: skip
                of = measured.get({"declared": "paper_total", "profiled": "paper_total"}.get(what, what))
                if of:
                    result.misses.append(Miss(key[0], str(key[1]), *place, what, of, seconds))
        _lose(result, key, predicted)
    return result


def _lose(result: Check, key: tuple, predicted: list) -> None:
    """What picking by prediction costs over the best that was measured, within one program's records."""
    name = f"{key[0].removeprefix(_PREFIX)} {key[2] or key[1] or ''}".strip()
    for what, measure, value in (
        ("placement", "paper_total", lambda p: p.paper_total),
        ("placement with allocation", "wall", lambda p: p.total),
    ):
        direct = [(case, each) for case, _, each in predicted if case["staging"] == "direct"]
        if len({case["placement"] for case, _ in direct}) > 1:
            picked = min(direct, key=lambda pair: value(pair[1]))[0]
            best = min(_measured(case)[measure] for case, _ in direct)
            result.losses[what].append((name, _measured(picked)[measure] / best - 1))
    pinned = [(case, each) for case, each, _ in predicted if case["placement"] == "pinned"]
    if len({case["staging"] for case, _ in pinned}) > 1:
        picked = min(pinned, key=lambda pair: pair[1].phases["kernel"])[0]
        best = min(_measured(case)["kernel"] for case, _ in pinned)
        result.losses["staging"].append((name, _measured(picked)["kernel"] / best - 1))


_WORDS = {
    "in": "copies in", "out": "copies out", "kernel": "kernel, declared", "declared": "total, declared",
    "profiled": "total, profiled", "wall": "wall, profiled",
}  # fmt: skip


def _within(off: list[float], limit: float) -> str:
    return f"{sum(x <= limit for x in off) / len(off):.0%}"


def _line_of_check(words: str, misses: list[Miss]) -> list[str]:
    off = sorted(abs(miss.relative) for miss in misses)
    worst = max(misses, key=lambda miss: abs(miss.relative))
    name = f"{worst.relative:+.0%} {worst.workload.removeprefix(_PREFIX)} {worst.size} {worst.placement}"
    return [words, str(len(off)), f"{statistics.median(off):.0%}", _within(off, 0.15), _within(off, 0.30), name]


def _checked(found: Check) -> list[str]:
    columns = [output.Column("predicted"), output.Column("records"), output.Column("median error"),
               output.Column("in 15%"), output.Column("in 30%"), output.Column("worst", right=False)]  # fmt: skip
    by_what = {what: [miss for miss in found.misses if miss.what == what] for what in _WORDS}
    lines = output.lay_out(columns, [_line_of_check(_WORDS[w], misses) for w, misses in by_what.items() if misses])
    for what, losses in found.losses.items():
        good = sum(loss <= 0.05 for _, loss in losses)
        name, worst = max(losses, key=lambda pair: pair[1])
        worst_text = f"; worst {worst:+.0%}, {name}" if worst > 0.05 else ""
        lines += output.fold(f"{what} picked within 5% of the best: {good} of {len(losses)}{worst_text}")
    return lines + output.fold(
        "Each program is predicted from the records of the others. total: kernel, copies and device allocation; "
        "wall: with page-locking, first touch and frees. median error: half of the records are off by less."
    )


def table_of_check(found: Check, everything: bool = False) -> output.Table:
    """How far predictions are off, and what picking by them costs; a row for each prediction."""
    if not found.misses:
        raise Error("no record of a microbenchmark: there is nothing to hold predictions against")
    lines = _checked(found)
    if everything:
        names = ("workload", "size", "placement", "staging", "what", "measured", "predicted", "off")
        rows = [
            [miss.workload.removeprefix(_PREFIX), miss.size, miss.placement, miss.staging, _WORDS[miss.what],
             duration(miss.measured), duration(miss.predicted), f"{miss.relative:+.0%}"] for miss in found.misses
        ]  # fmt: skip
        lines += ["", *output.lay_out([output.Column(name, right=i > 4) for i, name in enumerate(names)], rows)]
    plain = [
        {"workload": miss.workload, "metric": miss.what, "placement": miss.placement, "staging": miss.staging,
         "size": miss.size, "axes": {}, "unit": "s", "measured": miss.measured, "predicted": miss.predicted,
         "relative": miss.relative} for miss in found.misses
    ]  # fmt: skip
    more = {"unit": "VARCHAR", "measured": "DOUBLE", "predicted": "DOUBLE", "relative": "DOUBLE"}
    return output.of_cases(plain, more, "\n".join(lines))


# --- a declared program -------------------------------------------------------------------------------

_KEYS = {
    "in": "bytes_in", "out": "bytes_out", "touched": "touched", "flops": "flops",
    "flops_per_shared": "flops_per_shared", "reuse": "reuse", "passes": "passes", "allocations": "allocations",
    "buffers": "buffers", "blocks": "blocks",
}  # fmt: skip


def declared(words: list[str]) -> Footprint:
    """`in=4GiB out=0 flops=1e9 …`, or one TOML file of the same keys. Raises Error."""
    if len(words) == 1 and "=" not in words[0]:
        pairs = _from_file(pathlib.Path(words[0]))
    else:
        pairs = [word.partition("=")[::2] for word in words]
    given: dict[str, float] = {}
    random = False
    for key, value in pairs:
        if key == "order" and value in ("sequential", "random"):
            random = value == "random"
            continue
        try:
            if key not in _KEYS or key in given:
                raise ValueError
            amount = units.amount(str(value))
        except ValueError:
            shown = spelling.printable(spelling.shorten(f"{key}={value}", 60))
            raise Error(
                f"{shown!r} is not understood; a program is {' '.join(f'{k}=N' for k in _KEYS)} order=sequential|random"
            ) from None
        given[key] = amount
    low = [key for key in ("reuse", "passes", "allocations") if given.get(key, 1) < 1]
    if low:
        raise Error(f"{low[0]} is {given[low[0]]:g}; once is the least")
    if not given.get("in", 0) and not given.get("out", 0):
        raise Error("a program moves something; declare in=BYTES or out=BYTES")
    moved = given.get("in", 0) + given.get("out", 0)
    given = {"in": 0.0, "out": 0.0, "flops": 0.0, "touched": moved, "buffers": moved} | given
    if not given["touched"]:
        raise Error("touched=0: a kernel that reads and writes nothing needs no advice")
    fields: dict[str, Any] = {_KEYS[key]: value for key, value in given.items()}
    return Footprint(**fields, random=random)


def _from_file(path: pathlib.Path) -> list[tuple[str, object]]:
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return list(tomllib.loads(path.read_text(encoding="utf-8")).items())
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; a program is a TOML file, or KEY=VALUE …") from None
    except ValueError as error:
        raise Error(f"{path}: no TOML ({spelling.shorten(str(error), 80)})") from None


def reasons(machine: Machine, ranked: list[Prediction]) -> list[str]:
    """What decides, in words."""
    best = ranked[0]
    footprint = best.footprint
    parts = {
        "allocating, touching and freeing": best.allocation,
        "copies": footprint.passes * (best.phases["in"] + best.phases["out"]),
        "kernels": footprint.passes * footprint.reuse * best.phases["kernel"],
    }
    largest = max(parts, key=parts.__getitem__)
    lines = [f"{best.placement} with {best.staging} staging: {parts[largest] / sum(parts.values()):.0%} is {largest}"]
    kernels = [f"{p.staging} {duration(p.phases['kernel'])}" for p in ranked if p.placement == best.placement]
    lines.append(f"kernel by staging, {best.placement}: {', '.join(kernels)}")
    by: dict[str, Prediction] = {}
    for each in ranked:
        by.setdefault(each.placement, each)
    if {"pinned", "pageable"} <= by.keys():
        saved = sum(by["pageable"].phases[x] - by["pinned"].phases[x] for x in ("in", "out"))
        locking = by["pinned"].allocation - by["pageable"].allocation
        if saved > 0 and locking > 0:
            lines.append(
                f"page-locking costs {duration(locking)} more than plain memory and saves {duration(saved)} a pass: it "
                f"pays from {math.ceil(locking / saved)} passes on"
            )
    seconds = [machine.kernel(footprint, staging) for staging in ("async", "direct")]
    if {"async", "direct"} <= set(machine.stagings(footprint)) and seconds[0] and seconds[1]:
        ratio = seconds[0] / seconds[1]
        alike = [kernel for kernel in machine.kernels if kernel.full == machine.full(footprint)]
        a, b = ({k.workload: k.slowdown for k in alike if k.staging == staging} for staging in ("async", "direct"))
        seen = [a[w] / b[w] for w in a if w in b]
        lines.append(
            f"asynchronous staging: measured kernels took {min(seen):.2f} to {max(seen):.2f} of direct staging's time, "
            f"those like this one {ratio:.2f}"
        )
    if footprint.buffers > machine.memory:
        lines.append("the buffers do not fit the device: only placements that need not hold all of it are listed")
    return lines


_RANKED = {
    "placement": "VARCHAR", "staging": "VARCHAR", "total": "DOUBLE", "allocation": "DOUBLE", "in": "DOUBLE",
    "kernel": "DOUBLE", "out": "DOUBLE", "checked_records": "BIGINT", "median_error": "DOUBLE",
}  # fmt: skip


def _best(ranked: list[Prediction]) -> list[Prediction]:
    """The best staging of each placement."""
    best: dict[str, Prediction] = {}
    for each in ranked:
        best.setdefault(each.placement, each)
    return list(best.values())


def _ranked_row(each: Prediction, found: Check | None) -> dict:
    misses = [m for m in found.misses if m.what == "wall" and m.placement == each.placement] if found else []
    off = statistics.median(abs(miss.relative) for miss in misses) if misses else None
    return {"placement": each.placement, "staging": each.staging, "total": each.total, "allocation": each.allocation,
            "in": each.phases["in"], "kernel": each.phases["kernel"], "out": each.phases["out"],
            "checked_records": len(misses), "median_error": off}  # fmt: skip


def table_of(machine: Machine, ranked: list[Prediction], found: Check | None, head: str = "") -> output.Table:
    """The ranking, fastest first; seconds. Raises Error where nothing can be predicted."""
    if not ranked:
        raise Error("nothing can be predicted: the records know of no placement how its data moves, or nothing fits")
    shown = _best(ranked)
    rows = [_ranked_row(each, found) for each in shown]
    columns = [output.Column("placement"), output.Column("staging", right=False), output.Column("total"),
               output.Column("±"), *(output.Column(name) for name in ("allocate", "in", "kernel", "out")),
               output.Column("checked by")]  # fmt: skip
    cells = []
    for row in rows:
        off = "?" if row["median_error"] is None else f"{row['median_error']:.0%}"
        seconds = [duration(row[name]) if row[name] else "-" for name in ("allocation", "in", "kernel", "out")]
        known = f"{row['checked_records']} records" if row["checked_records"] else "none"
        cells.append([row["placement"], row["staging"], duration(row["total"]), off, *seconds, known])
    f = shown[0].footprint
    lines = [head] if head else []
    lines += output.fold(f"{machine.name}: expected seconds, fastest first")
    lines += output.lay_out(columns, cells)
    lines += output.fold(
        "±: the median error of predictions of that placement's records, each from the others; ?: no record of it, so "
        "transfers and calls alone."
    )
    lines += output.fold(f"total: {f.passes:g} passes of in, {f.reuse:g} kernels and out, and allocation once")
    lines += [line for reason in reasons(machine, ranked) for line in output.fold(reason)]
    return output.Table(_RANKED, rows, "\n".join(lines))


# --- the command --------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("records", nargs="+", metavar="DIR", help="folders or files of one kind of machine")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", nargs="+", metavar="KEY=VALUE", help="a declared program, or a TOML file of one")
    what.add_argument("--like", metavar="FILE", help="the program of the first record of this file that has phases")
    what.add_argument("--check", action="store_true", help="hold predictions against the measured programs")
    parser.add_argument("--all", action="store_true", help="with --check: every prediction")
    parser.add_argument("--passes", type=float, metavar="N", help="with --like: transfers for each allocation")
    parser.add_argument("--emulated", action="store_true", help="emulated records, too: their times mean nothing")
    output.add_arguments(parser)


def run(asked: argparse.Namespace) -> int:
    cases, status = load.read_files(asked.records, asked)
    cases = content.that_count(cases, emulated=asked.emulated)
    cases = [case for case in cases if not case["profiler"] and len(case["devices"]) == 1]
    cases = that_are_plausible(cases)
    machine = Machine(cases)
    found = check(cases)
    if asked.check:
        output.write(asked, table_of_check(found, asked.all))
        return status
    kernels, head = None, ""
    if asked.like:
        like = next((case for case in load.read(asked.like) if of_program(case)), None)
        if like is None:
            raise Error(f"{asked.like}: no record has the phases of a program")
        footprint, known = footprint_of(like), medians(like)["kernel"]
        if asked.passes:
            footprint = dataclasses.replace(footprint, passes=asked.passes)
        of = machine.kernel(footprint, like["staging"])
        estimates = {staging: machine.kernel(footprint, staging) for staging in machine.stagings(footprint)}
        kernels = {staging: known * each / of for staging, each in estimates.items() if each} if of else None
        head = f"like {spelling.printable(like['workload'])} {like['size'] or ''}: kernel {duration(known)}"
    else:
        footprint = declared(asked.program)
    output.write(asked, table_of(machine, machine.rank(footprint, kernels), found, head))
    return status
