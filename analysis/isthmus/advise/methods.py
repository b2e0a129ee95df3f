"""Cost of each method of getting data to the GPU, for a program that reads some pages of a large array.

A program is described by how many pages it touches, how much it reads of each page, how often it does so, and how much
of the array has room on the device. From this follow the amounts that each method handles: bytes over the link, blocks
that the driver moves, pages that arrive and are evicted. The cost of a unit of each amount is learnt from
paging/pattern records of one machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from isthmus.advise.costs import Sum, fit_sum

KIB, MIB = 2**10, 2**20
#: Bytes that a warp requests at once, that the driver moves at a page fault, and that the driver manages as one region.
LINE, BLOCK, REGION = 128, 64 * KIB, 2 * MIB
#: Number of warps that a multiprocessor can run at once if a kernel uses 64 registers per thread.
WARPS = 32


@dataclasses.dataclass(frozen=True)
class Program:
    """Program that reads an array in host memory."""

    bytes: float
    page: float  # size of a page in bytes
    touched: float  # number of pages that are read from
    use: float  # bytes that are read of each touched page
    passes: float = 1
    room: float = 1  # share of the touched pages that fit on the device; 1 if the whole array fits
    in_order: bool = False
    fetches: float | None = None  # number of pages that arrived, if counted

    @property
    def pages(self) -> float:
        return max(math.ceil(self.bytes / self.page), self.touched)

    @property
    def frames(self) -> float:
        return max(math.ceil(self.room * self.touched), 1)

    @property
    def visits(self) -> float:
        return self.passes * self.touched

    @property
    def fetched(self) -> float:
        """Number of pages that arrive: the counted number if known, else the minimum, which the best eviction needs."""
        fewest = self.touched + (self.passes - 1) * (self.touched - self.frames)
        return self.fetches if self.fetches is not None else fewest

    def granules(self, size: float) -> float:
        """Returns how many aligned blocks of `size` bytes are touched."""
        if self.page >= size:
            return self.touched * math.ceil(self.use / size)
        density, together = self.touched / self.pages, size / self.page
        share = min(density * together, 1) if self.in_order else 1 - (1 - density) ** together
        return math.ceil(self.bytes / size) * share

    def turns(self, warps: float) -> float:
        """Returns how many pages each warp visits one after the other, over all passes, if `warps` warps share them."""
        return self.passes * math.ceil(self.touched / max(min(warps, self.touched), 1))


WAYS = ("copy", "streamed", "mapped", "managed", "paged")


def impossible(program: Program) -> dict[str, str]:
    """Returns the methods that the program cannot use, with the reasons."""
    reasons = {}
    if program.room < 1:
        reasons = dict.fromkeys(("copy", "managed"), "there is no room for the whole array")
    if not (program.in_order and program.touched >= program.pages):
        reasons["streamed"] = "the array is not read whole and in order"
    return reasons


def ways_of(program: Program) -> list[str]:
    """Returns the methods that the program can use."""
    return [way for way in WAYS if way not in impossible(program)]


#: Alternative amounts of each method, of which only the one that takes longest counts: all bytes at the rate of the
#: link or memory, or one warp's bytes at the rate of one warp.
EITHER = {
    "copy": ("read", "read_by_a_warp"),
    "streamed": ("read", "read_by_a_warp"),
    "mapped": ("lines", "lines_of_a_warp"),
    "managed": (),
    "paged": ("fetched", "fetched_by_a_warp"),
}


def amounts(program: Program, way: str, multiprocessors: int) -> dict[str, float]:
    """Returns the amounts that a method handles, in bytes or as counts."""
    warps = WARPS * multiprocessors
    read = program.visits * program.use
    read_by_a_warp = program.turns(warps) * program.use
    if way == "copy":
        return {"kernels": program.passes, "copied": program.bytes, "visits": program.visits, "read": read,
                "read_by_a_warp": read_by_a_warp}  # fmt: skip
    if way == "streamed":
        stays = program.room >= 1
        # In the first pass, reading a chunk overlaps with the arrival of the next, so only later passes count.
        later = (program.passes - 1) / program.passes if stays else 0
        return {"kernels": program.passes, "streamed": program.bytes * (1 if stays else program.passes),
                "read": later * read, "read_by_a_warp": later * read_by_a_warp}  # fmt: skip
    if way == "mapped":
        lines = math.ceil(program.use / LINE) * LINE
        return {"kernels": program.passes, "visits": program.visits, "lines": program.visits * lines,
                "lines_of_a_warp": program.turns(warps) * lines}  # fmt: skip
    if way == "managed":
        blocks, regions = program.granules(BLOCK), program.granules(REGION)
        # The driver moves a whole region if more than half of it is needed.
        moved = regions * REGION if blocks * BLOCK > regions * REGION / 2 else blocks * BLOCK
        return {"kernels": program.passes, "migrated": moved, "blocks": blocks, "regions": regions, "read": read}
    evicting = program.frames < program.touched
    frames = program.frames / 2 if evicting else program.frames
    share = program.fetched / program.visits
    return {
        "kernels": program.passes, "visits": program.visits, "fetches": program.fetched,
        "evicted": max(program.fetched - program.frames, 0) * program.page, "read": read,
        "fetched": program.fetched * program.page,
        "fetched_by_a_warp": program.turns(min(frames, warps)) * share * program.page,
    }  # fmt: skip


#: Amounts that are counts rather than bytes.
COUNTS = {"kernels": "a kernel", "visits": "a visit to a page", "blocks": "a block of 64 KiB that faults",
          "regions": "a region of 2 MiB that faults", "fetches": "a page that arrives"}  # fmt: skip


class Map:
    """Costs of each method on a machine, learnt from (program, method, seconds)."""

    def __init__(self, measured: Sequence[tuple[Program, str, float]], multiprocessors: int) -> None:
        self.multiprocessors = multiprocessors
        self.costs: dict[str, Sum] = {}
        for way, either in EITHER.items():
            points = [
                (amounts(program, way, multiprocessors), seconds) for program, of, seconds in measured if of == way
            ]
            if points:
                self.costs[way] = fit_sum(points, either)

    def parts(self, program: Program, way: str) -> dict[str, float]:
        return self.costs[way].parts(amounts(program, way, self.multiprocessors))

    def seconds(self, program: Program, way: str) -> float:
        return self.costs[way](amounts(program, way, self.multiprocessors))

    def rank(self, program: Program) -> list[tuple[str, float]]:
        """Returns the methods that are possible and were measured, with their seconds, the fastest first."""
        found = [(way, self.seconds(program, way)) for way in ways_of(program) if way in self.costs]
        return sorted(found, key=lambda each: each[1])
