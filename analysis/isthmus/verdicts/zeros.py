"""Comparison of places by differences, for series in which a value is zero or below, so that ratios are meaningless.

A place with a rate of zero is worse without bound if its equals have a rate above zero; so is a place with a cost above
zero if its equals have a cost of zero. A place is far from its equals if it differs from their mean by more than
Student's t allows for their spread. If all jobs of the equals are at zero there is no spread; then more of the place's
jobs must have a cost above zero than chance explains. The same applies to jobs at a rate of zero if the equals are
above zero.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from isthmus.statistics import parts, rank_test

_MOST = 1 / 3  # largest share of places that can be worse; if more are, they are another kind
_QUIET = 5e-4  # smallest noise assumed, as a share of the usual value


@dataclasses.dataclass(frozen=True)
class At:
    """Values of a series at a node or at one of its GPUs."""

    node: str
    gpus: str
    value: float  # median over jobs
    jobs: int
    better: float  # 80th percentile of its jobs (20th if lower is better)
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
        """Returns the share by which a place is worse than usual; None if a value is at or below zero."""
        low, high = sorted((at.value, self.usual))
        return 1 - low / high if low > 0 else None

    def far(
        self, floor: float, steady: float, limit: Callable[[float], float], series: int
    ) -> tuple[list[At], list[At]]:
        """Returns places that are worse than the others, and places that may be worse but have too few jobs to judge.

        A place must be worse by at least the share `floor`, and its better jobs by at least the share `steady` of the
        place's difference. `limit` returns Student's t for degrees of freedom; `series` is the number of series with
        zeros.
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
        """Returns the number of jobs of a place with a cost above zero, or with a rate of zero, and of all its jobs."""
        return at.above if self.lower else at.jobs - at.above, at.jobs
