"""The one model of costs behind all advice: seconds by what was done and to how many bytes, as the records have them.

A topic adds what it knows of a machine (copies, prefetches, calls that allocate and free, kernels) as points, and asks
for the cost of another size: along a curve where many sizes were measured, along a line where few were, or at the best
rate. What goes with several amounts at once (bytes, pages, kernels) is a sum of them.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from isthmus.groups import grouped

_LATENCY = 2**24  # bytes below which time no longer follows them


@dataclasses.dataclass
class Curve:
    """Seconds by bytes, from scattered points: medians of half octaves, straight in logarithms between them."""

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
        """Seconds; beyond the points the rate goes on, below the smallest at most down to _LATENCY, then its time."""
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
        """Something was done to so many bytes, or flops, in so many seconds."""
        self._points[what].append((size, seconds))
        self._curves.clear()

    def curve(self, *what: Hashable) -> Curve | None:
        """Through what was measured of any of these; None where nothing was."""
        if what not in self._curves:
            found = Curve([point for each in what for point in self._points.get(each, ())])
            self._curves[what] = found if found else None
        return self._curves[what]

    def line(self, what: Hashable) -> Callable[[float], float]:
        """Seconds of bytes, for a few sizes near each other; something must have been measured.

        Least squares in relative error, so that small sizes count; never below zero.
        """
        points = self._points[what]
        if len({x for x, _ in points}) < 2:
            x, y = points[0]
            return lambda bytes_: y * bytes_ / x if x else y
        sizes, seconds = np.array(points).T
        slope, start = np.polyfit(sizes, seconds, 1, w=1 / np.maximum(seconds, 1e-9))
        return lambda bytes_: max(float(slope * bytes_ + start), 0.0)

    def best_rate(self, what: Hashable) -> float | None:
        """The most that was done in a second."""
        return max((size / seconds for size, seconds in self._points.get(what, ()) if seconds > 0), default=None)


@dataclasses.dataclass(frozen=True)
class Sum:
    """Seconds that go with several amounts at once, so many for each; of those in `either`, only what takes longest."""

    each: dict[str, float]
    either: tuple[str, ...] = ()

    def parts(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Seconds by amount."""
        found = {name: seconds * amounts[name] for name, seconds in self.each.items()}
        longest = max(self.either, key=found.__getitem__, default=None)
        return {name: seconds for name, seconds in found.items() if name not in self.either or name == longest}

    def __call__(self, amounts: Mapping[str, float]) -> float:
        return sum(self.parts(amounts).values())


def fit_sum(points: Sequence[tuple[Mapping[str, float], float]], either: tuple[str, ...] = ()) -> Sum:
    """The sum that is nearest to points (amounts, seconds above 0), of which there must be one: least squares in
    relative error. Nothing costs less than nothing."""
    names = list(points[0][0])
    seconds = np.array([taken for _, taken in points])
    shares = np.array([[amounts[name] for name in names] for amounts, _ in points]) / seconds[:, None]
    rivals = [names.index(name) for name in either]
    counted = np.ones_like(shares)  # which amounts each point is said to be made of: all, then the longest rival alone
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
    """Factors, none below zero, that bring the sum of each row near 1."""
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
