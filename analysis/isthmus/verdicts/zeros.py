"""Comparison of places by differences, for series of equals in which a value is zero or below and ratios mean nothing.

A place at zero where its equals have a rate is worse without bound; so is one with a cost where theirs is zero. A place
is far from its equals if it differs from their mean by more than Student's t allows for their spread. Where all of
their jobs are at zero there is no spread. Then costs above zero must be in more of a place's jobs than chance explains.
The same holds for zeros where the equals are above zero.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.statistics import parts, rank_test

_MOST = 1 / 3  # largest share of places that are worse; more are another kind
_QUIET = 5e-4  # least noise, as a share of the usual value


@dataclasses.dataclass(frozen=True)
class At:
    """Values of a series at a node, or at a GPU of it."""

    node: str
    gpus: str
    value: float  # value of its median job
    jobs: int
    better: float  # value that four in five of its jobs do not better
    above: int  # number of jobs with a value above zero


@dataclasses.dataclass
class Zeros:
    """Series with a value at or below zero."""

    label: str
    unit: str
    lower: bool  # true if lower is better
    case: dict[str, Any]
    places: list[At]

    @property
    def usual(self) -> float:
        return float(np.median([each.value for each in self.places]))

    def worse(self, at: At) -> float | None:
        """Returns the share by which a place is worse than usual; None where that is no ratio."""
        low, high = sorted((at.value, self.usual))
        return 1 - low / high if low > 0 else None

    def far(
        self, floor: float, steady: float, limit: Callable[[float], float], series: int
    ) -> tuple[list[At], list[At]]:
        """Returns places that are worse than the others, and places that may be but have too few jobs to tell.

        A place is worse by at least the share `floor`, and its better jobs by the share `steady` of that. `limit` gives
        Student's t for degrees of freedom; `series` is the number of all series with zeros.
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
        """Returns the jobs of a place that are off zero with a cost, or at zero without a gain; and all its jobs."""
        return at.above if self.lower else at.jobs - at.above, at.jobs
