"""Series of equals in which a value is zero or below: ratios mean nothing there, so places are judged by differences.

A place at zero where its equals have a rate is worse without bound; so is one with a cost where theirs is zero. A place
is far from its equals when it differs from their mean by more than Student's t allows of their own spread. Where they
are at zero in all jobs there is no spread. Costs above it must be in more of a place's jobs than chance explains. So
must zeros where equals are above it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.statistics import parts, rank_test

_MOST = 1 / 3  # of the places: more that are worse are another kind
_QUIET = 5e-4  # noise below this share of what is usual is taken as this share


@dataclasses.dataclass(frozen=True)
class At:
    """What a node, or a GPU of it, measured of a series."""

    node: str
    gpus: str
    value: float  # of its median job
    jobs: int
    better: float  # of its better jobs: four of five are no better
    above: int  # jobs with a value above zero


@dataclasses.dataclass
class Zeros:
    """A series with a value at or below zero."""

    label: str
    unit: str
    lower: bool  # is better
    case: dict[str, Any]
    places: list[At]

    @property
    def usual(self) -> float:
        return float(np.median([each.value for each in self.places]))

    def worse(self, at: At) -> float | None:
        """By what share a place is worse than usual; None where that is no ratio."""
        low, high = sorted((at.value, self.usual))
        return 1 - low / high if low > 0 else None

    def far(
        self, floor: float, steady: float, limit: Callable[[float], float], series: int
    ) -> tuple[list[At], list[At]]:
        """Places that are worse than the others, and places that may be, of which jobs are too few to tell.

        Worse by the share `floor`, in better jobs by the share `steady` of that. `limit` is Student's t by its degrees
        of freedom, `series` the number of all that have zeros.
        """
        sign, usual = (-1 if self.lower else 1), self.usual
        ordered = sorted(self.places, key=lambda each: sign * each.value)
        values = sign * np.array([each.value for each in ordered])
        count = 0
        for first in range(1, int(_MOST * len(values)) + 1):
            others = values[first:]
            spread = max(float(others.std(ddof=1)), _QUIET * abs(usual)) * math.sqrt(1 + 1 / len(others))
            if float(others.mean()) - values[first - 1] > limit(len(others) - 1) * spread:
                count = first
        found, unsure = [], []
        for each in ordered[:count]:
            off, better = (sign * (usual - value) for value in (each.value, each.better))
            if off < floor * abs(usual) or better < steady * off:
                continue
            at_zero = usual == 0 if self.lower else each.value == 0
            if not at_zero:
                found.append(each)
                continue
            own, rest = self._off(each), [self._off(other) for other in self.places if other is not each]
            few, of = ((sum(other[i] for other in rest), own[i]) for i in (0, 1))
            alone = not few[0] and own[0] == own[1]
            if parts.excess(few, of) * len(self.places) * series <= rank_test.SESSION:
                found.append(each)
            elif alone:
                unsure.append(each)
        return found, unsure

    def _off(self, at: At) -> tuple[int, int]:
        """Jobs of a place with a cost, or without what more is better of; and all of its jobs."""
        return at.above if self.lower else at.jobs - at.above, at.jobs
