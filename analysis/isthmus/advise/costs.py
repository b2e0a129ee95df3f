"""Cost model behind all advice: seconds by what was done and to how many bytes, learnt from records.

A topic adds what it knows of a machine (copies, prefetches, allocations and deallocations, kernels) as points, and asks
for the cost of another size: along a curve where many sizes were measured, along a line where few were, or at the best
rate. Costs that depend on several amounts at once (bytes, pages, kernels) are a sum over them.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from isthmus.groups import grouped

_LATENCY = 2**24  # bytes below which time no longer depends on them


@dataclasses.dataclass
class Curve:
    """Seconds by bytes, from scattered points: medians of half octaves, with log-linear interpolation between them."""

    points: list[tuple[float, float]]

    def __post_init__(self):
        there = [(size, seconds) for size, seconds in self.points if size > 0 and seconds / size > 0]
        cells = grouped((round(2 * math.log2(size)), (size, seconds)) for size, seconds in there)
        found = sorted(cells.values())
        self._sizes = [statistics.geometric_mean(size for size, _ in cell) for cell in found]
        self._logs = [math.log(statistics.median(seconds / size for size, seconds in cell)) for cell in found]

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def __call__(self, size: float) -> float:
        """Returns seconds; beyond the points the rate continues, below them down to _LATENCY at most.

        Smaller sizes have the time of the smallest that the rate reaches.
        """
        if size <= 0:
            return 0.0
        seconds_a_byte = math.exp(np.interp(math.log(size), np.log(self._sizes), self._logs))
        return max(size, min(self._sizes[0], _LATENCY)) * seconds_a_byte


class Costs:
    """Points (bytes, seconds) by what was done."""

    def __init__(self) -> None:
        self._points: dict[Hashable, list[tuple[float, float]]] = collections.defaultdict(list)
        self._curves: dict[tuple[Hashable, ...], Curve | None] = {}

    def add(self, what: Hashable, size: float, seconds: float) -> None:
        """Adds that something was done to `size` bytes, or flops, in `seconds`."""
        self._points[what].append((size, seconds))
        self._curves.clear()

    def curve(self, *what: Hashable) -> Curve | None:
        """Returns a curve through the measurements of any of these; None if there are none."""
        if what not in self._curves:
            found = Curve([point for each in what for point in self._points.get(each, ())])
            self._curves[what] = found if found else None
        return self._curves[what]

    def line(self, what: Hashable) -> Callable[[float], float]:
        """Returns a function from bytes to seconds, for a few sizes near each other; there must be a measurement.

        The fit is least squares in relative error, so that small sizes count, and never below zero.
        """
        points = self._points[what]
        if len({x for x, _ in points}) < 2:
            x, y = points[0]
            return lambda bytes_: y * bytes_ / x if x else y
        sizes, seconds = np.array(points).T
        slope, start = np.polyfit(sizes, seconds, 1, w=1 / np.maximum(seconds, 1e-9))
        return lambda bytes_: max(float(slope * bytes_ + start), 0.0)

    def best_rate(self, what: Hashable) -> float | None:
        """Returns the highest rate, in bytes or flops per second; None if nothing was measured."""
        return max((size / seconds for size, seconds in self._points.get(what, ()) if seconds > 0), default=None)


@dataclasses.dataclass(frozen=True)
class Sum:
    """Seconds as a sum over amounts, with a factor for each; of those in `either`, only the longest counts."""

    each: dict[str, float]
    either: tuple[str, ...] = ()

    def parts(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Returns seconds by amount."""
        found = {name: seconds * amounts[name] for name, seconds in self.each.items()}
        longest = max(self.either, key=found.__getitem__, default=None)
        return {name: seconds for name, seconds in found.items() if name not in self.either or name == longest}

    def __call__(self, amounts: Mapping[str, float]) -> float:
        return sum(self.parts(amounts).values())


def fit_sum(points: Sequence[tuple[Mapping[str, float], float]], either: tuple[str, ...] = ()) -> Sum:
    """Fits a sum to points (amounts, seconds > 0), at least one, by least squares in relative error.

    No factor is below zero.
    """
    names = list(points[0][0])
    seconds = np.array([taken for _, taken in points])
    shares = np.array([[amounts[name] for name in names] for amounts, _ in points]) / seconds[:, None]
    rivals = [names.index(name) for name in either]
    counted = np.ones_like(shares)  # amounts that each point consists of: first all, then only the longest rival
    found = _least_squares(shares)
    for _ in range(30):
        before = counted
        counted = np.ones_like(shares)
        if rivals:
            longest = np.argmax((shares * found)[:, rivals], axis=1)
            counted[:, rivals] = np.eye(len(rivals))[longest]
        if (counted == before).all():
            break
        found = _least_squares(shares * counted)
    return Sum(dict(zip(names, found.tolist())), either)


def _least_squares(shares: np.ndarray) -> np.ndarray:
    """Returns factors, none below zero, that bring the sum of each row near 1."""
    size = np.linalg.norm(shares, axis=0)
    kept = [column for column in range(shares.shape[1]) if size[column] > 0]
    found = np.zeros(shares.shape[1])
    while kept:
        factors = np.linalg.lstsq(shares[:, kept] / size[kept], np.ones(len(shares)), rcond=None)[0]
        if (factors >= 0).all():
            found[kept] = factors / size[kept]
            break
        kept.pop(int(np.argmin(factors)))
    return found
