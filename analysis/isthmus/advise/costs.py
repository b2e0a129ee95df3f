"""Cost model behind all advice: seconds that an operation takes for a number of bytes, learnt from records.

A topic adds its measurements of a machine (copies, prefetches, allocations and deallocations, kernels) as points, and
queries the cost of other sizes: on a curve if many sizes were measured, on a line if few were, or at the best rate. A
cost that depends on several amounts at once (bytes, pages, kernels) is a sum over them.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from isthmus.grouping import grouped

_LATENCY = 2**24  # number of bytes below which time no longer depends on size


@dataclasses.dataclass
class Curve:
    """Seconds as a function of bytes: medians of the points in each half octave, interpolated log-linearly."""

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
        """Returns the seconds for `size` bytes.

        Outside the measured sizes, the rate of the nearest one applies. Below both _LATENCY and the smallest measured
        size, the time is constant.
        """
        if size <= 0:
            return 0.0
        seconds_a_byte = math.exp(np.interp(math.log(size), np.log(self._sizes), self._logs))
        return max(size, min(self._sizes[0], _LATENCY)) * seconds_a_byte


class Costs:
    """Measured points (bytes, seconds), grouped by operation."""

    def __init__(self) -> None:
        self._points: dict[Hashable, list[tuple[float, float]]] = collections.defaultdict(list)
        self._curves: dict[tuple[Hashable, ...], Curve | None] = {}

    def add(self, what: Hashable, size: float, seconds: float) -> None:
        """Adds a point: operation `what` took `seconds` for `size` bytes or flops."""
        self._points[what].append((size, seconds))
        self._curves.clear()

    def curve(self, *what: Hashable) -> Curve | None:
        """Returns a curve through the points of all these operations together; None if they have no points."""
        if what not in self._curves:
            found = Curve([point for each in what for point in self._points.get(each, ())])
            self._curves[what] = found if found else None
        return self._curves[what]

    def line(self, what: Hashable) -> Callable[[float], float]:
        """Returns a linear function from bytes to seconds, fitted to one or more points of similar size.

        The fit minimises squared relative errors, so that small sizes count. The function is never negative.
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
    """Seconds as a sum of amounts times factors; of the amounts in `either`, only the one that takes longest counts."""

    each: dict[str, float]
    either: tuple[str, ...] = ()

    def parts(self, amounts: Mapping[str, float]) -> dict[str, float]:
        """Returns the seconds of each amount that counts."""
        found = {name: seconds * amounts[name] for name, seconds in self.each.items()}
        longest = max(self.either, key=found.__getitem__, default=None)
        return {name: seconds for name, seconds in found.items() if name not in self.either or name == longest}

    def __call__(self, amounts: Mapping[str, float]) -> float:
        return sum(self.parts(amounts).values())


def fit_sum(points: Sequence[tuple[Mapping[str, float], float]], either: tuple[str, ...] = ()) -> Sum:
    """Fits a sum to one or more points (amounts, seconds > 0), minimising squared relative errors.

    Factors are never negative.
    """
    names = list(points[0][0])
    seconds = np.array([taken for _, taken in points])
    shares = np.array([[amounts[name] for name in names] for amounts, _ in points]) / seconds[:, None]
    rivals = [names.index(name) for name in either]
    counted = np.ones_like(shares)  # 1 for each amount that counts in a point; later only the longest of `either`
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
    """Returns non-negative factors that bring the weighted sum of each row near 1."""
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
