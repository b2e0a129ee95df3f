"""Bounds of a reference: as wide as jobs on a machine in one state vary, for a stated rate of false alarms."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from isthmus.profiles import profile
from isthmus.statistics import rank_test, series
from isthmus.verdicts import judging

FEWEST = 8  # minimum number of jobs for a reference


@dataclasses.dataclass(frozen=True)
class Reference:
    """Value and tolerances of a metric over `n` jobs. Tolerances are fractions of the value; None means unlimited."""

    value: float
    lower: float | None
    upper: float | None
    unit: str
    n: int
    nodes: int
    interval: tuple[float, float]


def of(each: series.Series, tail: float, floor: float = judging.FLOOR) -> Reference | str:
    """Returns the reference of a series (side A), or a sentence that states why there cannot be one.

    A further job like these is out of bounds by chance with probability `tail`. If higher or lower is better, only the
    worse direction is bounded; otherwise, and for a profiler's counts, both are, and `tail` covers both together. The
    bounds include all of these jobs and, for times and rates, a deviation of `floor`.
    """
    values, nodes = each.all("A"), series.apart(each.of("A"))
    found_in = functools.partial(Reference, unit=each.unit, n=len(values), nodes=len(nodes))
    counted = each.metric.startswith(profile.PROFILED)
    if np.all(values == values[0]) and (counted or each.better is None):
        value = float(values[0])
        return found_in(value, 0.0, 0.0, interval=(value, value))
    if not (values > 0).all():
        return "can be zero or negative, so a fraction of it means nothing"
    found = rank_test.predict([np.log(x) for x in nodes.values()])
    both = counted or each.better is None
    distance = found.distance(tail / 2 if both else tail)
    extremes = found.mean - float(np.log(values.min())), float(np.log(values.max())) - found.mean
    floor = 0.0 if counted else floor
    # Only six digits are written, so bounds must allow an error in the last digit. Near -1, six digits are too coarse
    # for the small remainder, so the lower bound is rounded outward.
    lower, upper = (max(distance, extreme * 1.00001, math.log1p(floor)) for extreme in extremes)
    half = found.mean_spread * rank_test.student_quantile((1 - rank_test.CONFIDENCE) / 2, found.freedom)
    return found_in(
        math.exp(found.mean),
        math.floor(math.expm1(-lower) * 1e6) / 1e6 if both or each.better == "higher" else None,
        math.expm1(upper) if both or each.better == "lower" else None,
        interval=(math.exp(found.mean - half), math.exp(found.mean + half)),
    )
