"""Figures with names: each is a function of readings, which notebooks and `isthmus figure` call.

A figure takes what it shows from the readings that it is given and leaves out what these lack; a panel without data
says so. Readings of several cases where one is meant are an error, unless they are Commonest.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable

import matplotlib.figure

from isthmus.groups import grouped
from isthmus.tables import readings


@dataclasses.dataclass(frozen=True)
class Named:
    """`workloads` are patterns of those that the figure shows; `profiled` ones are of what a profiler counted alone."""

    name: str
    what: str
    workloads: tuple[str, ...]
    draw: Callable[..., matplotlib.figure.Figure]
    profiled: bool = False


FIGURES: dict[str, Named] = {}


def figure(name: str, what: str, *workloads: str, profiled: bool = False):
    """Gives a function that draws a figure its name, and marks the panels that it leaves empty."""

    def enter(function):
        @functools.wraps(function)
        def draw(*arguments, **words):
            made = function(*arguments, **words)
            for axes in made.axes:
                if not axes.has_data():
                    axes.text(
                        0.5, 0.5, "these records do not show this", ha="center", va="center", transform=axes.transAxes
                    )
                    axes.set(xticks=[], yticks=[])
            return made

        assert name not in FIGURES, name
        FIGURES[name] = Named(name, what, workloads, draw, profiled)
        return draw

    return enter


def is_empty(made: matplotlib.figure.Figure) -> bool:
    """Whether no panel shows anything."""
    return not any(axes.lines or axes.patches or axes.images or axes.containers for axes in made.axes)


class Commonest(readings.Readings):
    """Readings that take the commonest case where several are meant; `taken` says of each field which, and of what."""

    def __init__(self, found: list[readings.Reading], taken: dict[str, tuple] | None = None):
        super().__init__(found)
        self.taken: dict[str, tuple] = {} if taken is None else taken

    def _of(self, found: list[readings.Reading]) -> Commonest:
        return Commonest(found, self.taken)

    def by(self, axis: str, **wanted) -> dict:
        return self._settled(axis, wanted).by(axis)

    def value(self, **wanted) -> float | None:
        return self._settled(None, wanted).value()

    def share(self, **wanted) -> float | None:
        return self._settled(None, wanted).share()

    def samples(self, **wanted) -> list[float]:
        return self._settled(None, wanted).samples()

    def _settled(self, axis: str | None, wanted: dict) -> readings.Readings:
        """Of one case at each value of the axis. What was taken of a field once is taken again where it is there."""
        left = readings.Readings(self.where(**wanted).found)
        while names := [name for name in _ambiguous(left, axis) if name not in ("workload", "metric", "size")]:
            name = next((each for each in names if each in self.taken), names[0])
            records = Counter(each.get(name) for each in left.found)
            points = Counter(value for value, _ in {(each.get(name), each.get(axis or "")) for each in left.found})
            first, seen = self.taken.get(name, (_most(points, records), ()))
            self.taken[name] = first, tuple(dict.fromkeys([*seen, *(value for value in points if value != first)]))
            left = left.where(**{name: first if first in points else _most(points, records)})
        # A size is a name for values of axes, and these are alike now.
        return readings.Readings([dataclasses.replace(e, case=e.case | {"size": None}) for e in left.found])


def _ambiguous(found: readings.Readings, axis: str | None) -> list[str]:
    """The fields that differ though the axis, if there is one, does not."""
    if axis is None:
        return found.differing()
    alike = grouped((each.get(axis), each) for each in found.found)
    return sorted({name for each in alike.values() for name in readings.Readings(each).differing()})


def _most(points: Counter, records: Counter):
    """The value with the most points of a line, then the most records, then the simplest."""
    return min(points, key=lambda value: (-points[value], -records[value], value is not None, str(value)))


def in_geometry(found: readings.Readings, preset: str) -> readings.Readings:
    """Readings in a paper's geometry where it was measured, else in whichever was."""
    of_paper = found.where(preset=preset)
    return of_paper if len(of_paper) else found.where(preset=None)


def present(values: dict) -> dict:
    """Those that are there: neither None nor empty."""
    return {name: value for name, value in values.items() if value is not None and value != {}}


def over(value: float | None, base: float | None):
    """A ratio, None where either is missing or the second is zero."""
    return value / base if value is not None and base else None


def mean(values: Iterable[float]):
    """The arithmetic mean, with the interval that those of the values allow; None of none."""
    values = list(values)
    return sum(values) / len(values) if values else None
