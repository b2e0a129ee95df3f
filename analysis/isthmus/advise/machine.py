"""Model of one machine, learnt from records of its copies, allocations and kernels; predicts a program's time there."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import re

from isthmus import Error
from isthmus.advise.costs import Costs, Curve
from isthmus.advise.footprint import PREFIX, Footprint, footprint_of, of_program
from isthmus.advise.measured import counts, medians, refuse_several_kinds

#: Prefixes of the workloads that describe a machine.
USED = ("transfer/", "driver/alloc", "alloc/", "reference/device_copy", "reference/sgemm", PREFIX)
STAGINGS = ("none", "direct", "async", "bulk")
PHASES = ("host_alloc", "host_touch", "device_alloc", "in", "kernel", "out", "free")
#: Data paths of each placement: transfer to the device, transfer back, allocator of host memory, allocator of device
#: memory.
DATA_PATHS = {
    "pageable": ("pageable-gpu0/ce", "gpu0-pageable/ce", None, "device"),
    "pinned": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned", "device"),
    "pool": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned", "pool"),
    "streamed": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned", "device"),
    "managed_in": ("managed-gpu0/prefetch", "gpu0-managed/fault", None, "managed"),
    "managed": ("managed-gpu0/prefetch", "gpu0-managed/prefetch", None, "managed"),
    "managed_demand": ("managed-gpu0/fault", "gpu0-managed/fault", None, "managed"),
    "mapped": ("mapped-gpu0/sm-read", "gpu0-mapped/sm-write", "mapped", None),
}
#: Maps a placement to another with the same kind of host memory, whose phases replace those that were not measured.
SAME_HOST_MEMORY = {
    "pool": "pinned",
    "streamed": "pinned",
    "managed": "managed_in",
    "managed_demand": "managed_in",
    "mapped": "pinned",
}
#: Placements in which the kernel reads host data directly: nothing is copied, and data may exceed device memory.
REMOTE = {"mapped"}
CHUNKS = 16  # default number of chunks of placement `streamed`
#: Axes of transfers that resemble those of a program.
_PLAIN = {"cache": "flushed", "at_once": 1, "order": "contiguous", "width": 16, "touch": "whole", "threads": 1}
_MANY = 16  # minimum number of allocations that count as many, for which the driver uses blocks that are already mapped
_SECTOR = 32 / 4  # ratio of the bytes that memory moves for a random access to the bytes of a value


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Measured kernel in one staging; `slowdown` is its time divided by the minimum that memory and arithmetic need."""

    workload: str
    staging: str
    slowdown: float
    footprint: Footprint
    full: bool  # true if its blocks fill the device


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predicted seconds of each phase of a program, for one pass and one allocation."""

    placement: str
    staging: str
    phases: dict[str, float]
    footprint: Footprint

    @property
    def total(self) -> float:
        """Seconds of all passes and of allocation."""
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
        """Seconds of kernel, copies and device allocation, the total that the pipelining paper uses."""
        return sum(self.phases[name] for name in ("device_alloc", "in", "kernel", "out"))


class Machine:
    """Costs of copies, allocation and kernels on one machine, from its records.

    Raises Error if the records are of several machines, or too few.
    """

    def __init__(self, cases: list[dict], without: str | None = None):
        cases = [case for case in cases if counts(case)]
        refuse_several_kinds(cases)
        if not cases:
            raise Error(
                "these files have no valid record of a single GPU, so the machine is unknown; measure with "
                "isthmus-bench on its GPU"
            )
        self.name = cases[0]["devices"][0]["name"]
        device = cases[0]["devices"][0]
        self.memory = device.get("memory_bytes") or math.inf
        self.processors = device.get("multiprocessors") or 1
        self.costs = Costs()
        programs = []
        for case in cases:
            self._take(case)
            if case["workload"].startswith(PREFIX) and of_program(case) and case["workload"] != without:
                programs.append(case)
        for case in programs:
            self._take_program(case)
        memory, arithmetic = self.costs.curve("memory") or self.costs.curve("copy"), self.costs.best_rate("arithmetic")
        if not memory or not arithmetic:
            raise Error(
                "there is no record of transfer/gpu0-gpu0/ce and reference/sgemm, so a kernel's limits are unknown; "
                "measure them"
            )
        self._memory, self._arithmetic = memory, arithmetic  # seconds as a function of bytes; flops per second
        self.kernels = [self._kernel(case) for case in programs]

    def _take(self, case: dict) -> None:
        name, axes, found = case["workload"], case["axes"], medians(case)
        if name.startswith("transfer/") and "time" in found and len(case["devices"]) == 1:
            if all(axes.get(axis, value) == value for axis, value in _PLAIN.items()):
                self.costs.add(name.removeprefix("transfer/"), axes["bytes"], found["time"])
                if re.fullmatch(r"transfer/gpu(\d+)-gpu\1/ce", name):  # bytes are read once and written once
                    self.costs.add("copy", 2 * axes["bytes"], found["time"])
        elif name == "driver/alloc" and {"alloc", "free"} <= found.keys():
            for call in ("alloc", "free"):
                self.costs.add((call, axes["allocator"]), axes["bytes"], found[call])
        elif name.startswith("alloc/") and {"alloc", "free"} <= found.keys() and "touch" not in found:
            for call in ("alloc", "free"):
                self.costs.add((f"{call} of many", name.removeprefix("alloc/")), axes["bytes"], found[call])
        elif name == "reference/device_copy" and "rate" in found:  # in older records, which lack transfer/*
            self.costs.add("memory", 2 * axes["bytes"], 2 * axes["bytes"] / found["rate"])
        elif name == "reference/sgemm" and "kernel_flop_rate" in found:
            self.costs.add("arithmetic", found["kernel_flop_rate"], 1.0)  # flops in one second

    def _take_program(self, case: dict) -> None:
        found, footprint = medians(case), footprint_of(case)
        sizes = {"in": footprint.bytes_in, "out": footprint.bytes_out}
        for phase in PHASES:
            if phase != "kernel" and phase in found:
                self.costs.add((case["placement"], phase), sizes.get(phase, footprint.buffers), found[phase])

    def roofline(self, footprint: Footprint, staging: str) -> float:
        """Returns the minimum seconds of a kernel. Random accesses move whole sectors unless a tile gathers them."""
        touched = footprint.touched * (_SECTOR if footprint.random and staging == "none" else 1)
        return max(self._memory(touched), footprint.flops / self._arithmetic)

    def full(self, footprint: Footprint) -> bool:
        return footprint.blocks == 0 or footprint.blocks >= self.processors

    def _kernel(self, case: dict) -> Kernel:
        footprint = footprint_of(case)
        slowdown = medians(case)["kernel"] / self.roofline(footprint, case["staging"])
        return Kernel(case["workload"], case["staging"], slowdown, footprint, self.full(footprint))

    def slowdowns(self, footprint: Footprint, staging: str) -> list[tuple[float, float]]:
        """Returns (slowdown, weight) for each workload that was measured in a staging; similar kernels weigh more.

        A workload counts once, regardless of its number of records.
        """
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
        """Returns the expected seconds of a kernel; None if no kernel was measured in that staging."""
        found = self.slowdowns(footprint, staging)
        if not found:
            return None
        total = sum(weight for _, weight in found)
        return self.roofline(footprint, staging) * math.exp(sum(math.log(x) * weight for x, weight in found) / total)

    def stagings(self, footprint: Footprint) -> list[str]:
        return [staging for staging in STAGINGS if self.slowdowns(footprint, staging)]

    def placements(self) -> list[str]:
        """Returns the placements for which copies in both directions were measured."""
        return [
            name for name, paths in DATA_PATHS.items()
            if all(self._copy(name, phase, path) for phase, path in zip(("in", "out"), paths))
        ]  # fmt: skip

    def _copy(self, placement: str, phase: str, path: str | None) -> Curve | None:
        """Returns a copy's curve through the points of both programs in that placement and transfers on that path."""
        return self.costs.curve((placement, phase), path)

    def predict(
        self, footprint: Footprint, placement: str, staging: str, kernel: float | None = None
    ) -> Prediction | None:
        """Predicts a placement and staging; `kernel` is the kernel's seconds if known.

        Returns None if the records lack a kernel in this staging or the placement's copies.
        """
        path_in, path_out, host, device = DATA_PATHS[placement]
        seconds = self.kernel(footprint, staging) if kernel is None else kernel
        if seconds is None or placement not in self.placements():
            return None

        copy_in, copy_out = self._copy(placement, "in", path_in), self._copy(placement, "out", path_out)
        assert copy_in is not None and copy_out is not None  # guaranteed by placements()
        moved = {"in": copy_in(footprint.bytes_in), "out": copy_out(footprint.bytes_out)}
        if placement in REMOTE:
            seconds = max(seconds, moved["in"] + moved["out"])
            moved = dict.fromkeys(moved, 0.0)
        each = footprint.buffers / footprint.allocations

        def called(phase: str, kinds: tuple[str | None, ...], call: str) -> float:
            curve = self.costs.curve((placement, phase))
            if curve is None and (placement != "mapped" or phase != "device_alloc"):
                curve = self.costs.curve((SAME_HOST_MEMORY.get(placement), phase))
            if curve is not None and footprint.allocations == 1:
                return curve(footprint.buffers)
            named = f"{call} of many" if footprint.allocations >= _MANY else call
            calls = [self.costs.curve((named, kind)) or self.costs.curve((call, kind)) for kind in kinds if kind]
            one = sum(curve(each) for curve in calls if curve)
            # Programs' records have few calls, so their curve gives the cost of the bytes alone. The total is at least
            # the cost of the calls.
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
        """Predicts all measured placements and stagings in which the buffers fit, the fastest first.

        `kernels` contains the seconds of the kernel for each staging in which they are known.
        """
        found = []
        for placement, staging in itertools.product(self.placements(), self.stagings(footprint)):
            if footprint.buffers > self.memory and placement in ("pageable", "pinned", "pool"):
                continue
            each = self.predict(footprint, placement, staging, (kernels or {}).get(staging))
            if each is not None:
                found.append(each)
        return sorted(found, key=lambda each: each.total)


def _unlike(a: Footprint, b: Footprint) -> float:
    """Returns the distance between two kernels in octaves.

    It is the difference in flops per shared access, plus half the difference in flops per byte, plus a quarter of the
    difference in bytes.
    """

    def octaves(x, y):
        return abs(math.log2(x / y)) if x and y else 0.0

    return (
        octaves(a.flops_per_shared, b.flops_per_shared)
        + octaves(a.flops / a.touched if a.touched else 0, b.flops / b.touched if b.touched else 0) / 2
        + octaves(a.touched, b.touched) / 4
    )
