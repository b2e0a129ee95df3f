"""Named figures. Each is a function of readings, which notebooks and `isthmus figure` call.

A figure shows the data that the given readings have; a panel without data is marked as empty. If readings of several
cases match where one case is meant, that is an error, unless the readings are Commonest.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable

import matplotlib.figure

from isthmus.grouping import grouped
from isthmus.tables import readings


@dataclasses.dataclass(frozen=True)
class Named:
    """Named figure. `workloads` are patterns of the workloads that it shows; a `profiled` figure shows only a
    profiler's counts."""

    name: str
    what: str
    workloads: tuple[str, ...]
    draw: Callable[..., matplotlib.figure.Figure]
    profiled: bool = False


FIGURES: dict[str, Named] = {}


def figure(name: str, what: str, *workloads: str, profiled: bool = False):
    """Registers a function that draws a figure under a name. Panels that the function leaves empty are marked."""

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
    """Returns whether all panels are empty."""
    return not any(axes.lines or axes.patches or axes.images or axes.containers for axes in made.axes)


class Commonest(readings.Readings):
    """Readings that use the commonest case if several match, and cases without a preset before those with one. `taken`
    has the choice for each field, and its candidates."""

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
        """Returns the readings of one case at each value of the axis. Once a field's value has been chosen, it is used
        again wherever it occurs."""
        left = readings.Readings(self.where(**wanted).found)
        while names := [name for name in _ambiguous(left, axis) if name not in ("workload", "metric", "size")]:
            name = next((each for each in names if each in self.taken), names[0])
            records = Counter(each.get(name) for each in left.found)
            points = Counter(value for value, _ in {(each.get(name), each.get(axis or "")) for each in left.found})
            plain = name == "preset" and None in points
            first, seen = self.taken.get(name, (None if plain else _most(points, records), ()))
            self.taken[name] = first, tuple(dict.fromkeys([*seen, *(value for value in points if value != first)]))
            left = left.where(**{name: first if first in points else _most(points, records)})
        # A size is only a name for values of axes, and these no longer differ.
        return readings.Readings([dataclasses.replace(e, case=e.case | {"size": None}) for e in left.found])


def _ambiguous(found: readings.Readings, axis: str | None) -> list[str]:
    """Returns the fields that differ at equal values of the axis, if there is one."""
    if axis is None:
        return found.differing()
    alike = grouped((each.get(axis), each) for each in found.found)
    return sorted({name for each in alike.values() for name in readings.Readings(each).differing()})


def _most(points: Counter, records: Counter):
    """Returns the value with the most points on a line; among equals the one with the most records, then the
    simplest."""
    return min(points, key=lambda value: (-points[value], -records[value], value is not None, str(value)))


def in_geometry(found: readings.Readings, preset: str) -> readings.Readings:
    """Returns the readings in a paper's geometry if it was measured, otherwise in the geometry that was measured."""
    of_paper = found.where(preset=preset)
    return of_paper if len(of_paper) else found.where(preset=None)


def present(values: dict) -> dict:
    """Returns the values that are neither None nor empty."""
    return {name: value for name, value in values.items() if value is not None and value != {}}


def over(value: float | None, base: float | None):
    """Returns a ratio, or None if either value is missing or the base is zero."""
    return value / base if value is not None and base else None


def mean(values: Iterable[float]):
    """Returns the arithmetic mean, with an interval if the values have intervals; None if there are no values."""
    values = list(values)
    return sum(values) / len(values) if values else None
