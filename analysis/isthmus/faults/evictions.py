"""Evictions from GPUs that ran out of memory: amount, order, pages that came back, pages that were not written back."""

from __future__ import annotations

import bisect
import collections
import dataclasses

import numpy

from isthmus.faults import tracefile
from isthmus.faults.tracefile import BLOCK, EVICTION, PAGE

_PAGES = 1 << (BLOCK - PAGE)


@dataclasses.dataclass
class Evictions:
    """Totals of evictions. Evicting a block counts once, even if it takes several moves."""

    blocks: int = 0
    bytes: int = 0
    # Mean share of the GPU's other blocks that had arrived earlier than the evicted block; 0 if the oldest block is
    # always evicted.
    age: float | None = None
    returned: int = 0  # number of blocks that arrived again
    returned_bytes: int = 0
    away: float | None = None  # median seconds until an evicted block arrived again
    dropped_bytes: int = 0  # bytes that arrived again without having left, so they were dropped, not written back


class _Gpu:
    """Contents of one GPU's memory, as far as moves show them."""

    def __init__(self) -> None:
        self.pages: dict[int, int] = {}  # bit mask of each block's pages that are on the GPU
        self.arrived: dict[int, int] = {}
        self.order: list[tuple[int, int]] = []  # (time of arrival, block), sorted
        self.evicted: dict[int, int] = {}  # time at which each block was evicted
        self.gone: dict[int, int] = {}  # bit mask of each block's evicted pages that have not come back

    def leave(self, block: int) -> tuple[int, int] | None:
        """Removes a block.

        Returns the block's former rank by arrival and the number of remaining blocks, or None if it was not on the GPU.
        """
        if block not in self.arrived:
            return None
        place = bisect.bisect_left(self.order, (self.arrived.pop(block), block))
        del self.order[place]
        return place, len(self.order)

    def arrive(self, block: int, when: int) -> None:
        self.leave(block)
        self.arrived[block] = when
        bisect.insort(self.order, (when, block))


def _parts(address: int, size: int):
    """Yields each block of a move, with a bit mask of its pages."""
    first, end = address >> PAGE, max((address + size - 1 >> PAGE) + 1, (address >> PAGE) + 1)
    while first < end:
        until = min(end, (first // _PAGES + 1) * _PAGES)
        yield first // _PAGES, ((1 << (until - first)) - 1) << (first % _PAGES)
        first = until


def evictions_of(events: tracefile.Events) -> Evictions:
    """Returns the totals of a trace's evictions.

    A host access to a block may invalidate its read-mostly copies on GPUs without a move, so pages that arrive after it
    count as new.
    """
    found = Evictions()
    moves = events.moves
    if not (moves["cause"] == EVICTION).any():
        return found
    gpus: dict[int, _Gpu] = collections.defaultdict(_Gpu)
    ages, away = [], []
    times = numpy.concatenate([moves["begin"], events.cpu_faults["time"]])
    for row in numpy.argsort(times, kind="stable").tolist():
        when = int(times[row])
        if row >= len(moves):
            block = int(events.cpu_faults["address"][row - len(moves)]) >> BLOCK
            for gpu in gpus.values():
                gpu.pages.pop(block, None)
            continue
        source, destination = int(moves["source"][row]), int(moves["destination"][row])
        evicts = int(moves["cause"][row]) == EVICTION
        found.bytes += int(moves["bytes"][row]) if evicts else 0
        for block, pages in _parts(int(moves["address"][row]), int(moves["bytes"][row])):
            if source > 0:
                gpu = gpus[source]
                gpu.pages[block] = gpu.pages.get(block, 0) & ~pages
                gpu.gone[block] = gpu.gone.get(block, 0) | (pages if evicts else 0)
                place = gpu.leave(block) if evicts or not gpu.pages[block] else None
                if evicts and place is not None:
                    found.blocks += 1
                    gpu.evicted[block] = when
                    ages += [place[0] / place[1]] if place[1] else []
            if destination > 0:
                gpu = gpus[destination]
                found.dropped_bytes += (gpu.pages.get(block, 0) & pages).bit_count() << PAGE
                gpu.pages[block] = gpu.pages.get(block, 0) | pages
                gpu.arrive(block, when)
                found.returned_bytes += (gpu.gone.get(block, 0) & pages).bit_count() << PAGE
                gpu.gone[block] = gpu.gone.get(block, 0) & ~pages
                if block in gpu.evicted:
                    away.append(when - gpu.evicted.pop(block))
    found.age = float(numpy.mean(ages)) if ages else None
    found.returned = len(away)
    found.away = float(numpy.median(away)) * 1e-9 if away else None
    return found
