"""Clusters in time: jobs that ran together, in one night or after one restart, and may share its effect.

If eight nodes measure in five nights, there are five independent nights, not forty. Therefore a change is also compared
with the differences between means of clusters (Student's t over clusters). If a side has too few clusters, nothing is
decided.

Clusters are separated by gaps. A *level* is a grouping that cuts the jobs at every gap that is at least GAP times as
long as the longest gap inside a cluster. Jobs of one node at regular intervals have no level.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import math

import numpy as np

from isthmus.statistics import rank_test

# Minimum ratio of a gap between clusters to the longest gap inside one, so that weekends do not separate weeks.
GAP = 4
NIGHT = 24 * 3600  # maximum duration of a cluster in s; jobs of longer periods do not share a cause
FEWEST = 2  # minimum number of clusters per side for a spread


@dataclasses.dataclass(frozen=True)
class Level:
    """Grouping of jobs into clusters, with weights that turn jobs' values into clusters' means relative to the strata.

    `weights` has shape (clusters, jobs of A and then of B). Each cluster belongs to one side. If clusters are `mixed`,
    each row is the difference between the sides within a cluster instead.
    """

    name: str  # "nights", "restarts" or "rounds"
    weights: np.ndarray
    sides: np.ndarray  # side of each cluster: 0 or 1
    mixed: bool
    labels: np.ndarray  # cluster of each job; -1 for jobs that are not compared

    @property
    def sizes(self) -> tuple[int, int]:
        return int((self.sides == 0).sum()), int((self.sides == 1).sum())

    @property
    def freedom(self) -> int:
        return len(self.weights) - (1 if self.mixed else 2)


def cuts(times: np.ndarray) -> list[np.ndarray]:
    """Returns, for each level from the finest to the coarsest, the cluster of each point in time (s)."""
    order = np.argsort(times, kind="stable")
    gaps = np.diff(times[order])
    lengths = np.unique(gaps)
    result = []
    for inside, between in itertools.pairwise(lengths):
        if between < GAP * max(inside, 1):
            continue
        labels = np.empty(len(times), int)
        labels[order] = np.concatenate([[0], np.cumsum(gaps > inside)])
        spans = [np.ptp(times[labels == label]) for label in range(labels.max() + 1)]
        if max(spans) < NIGHT:
            result.append(labels)
    return result


def level_of(name: str, labels: np.ndarray, sides: np.ndarray, strata: np.ndarray) -> Level:
    """Returns the level in which jobs have these clusters (`labels`), sides and strata."""
    n = len(labels)
    centring = np.eye(n)
    for stratum in np.unique(strata):
        own = strata == stratum
        for side in (0, 1):
            of_side = own & (sides == side)
            centring[np.ix_(own, of_side)] -= 0.5 / of_side.sum()
    both = [label for label in np.unique(labels) if len({*sides[labels == label]}) == 2]
    mixed = len(both) > 1 and np.isin(labels, both).mean() >= 0.5

    def mean(label, side):
        members = (labels == label) & (sides == side)
        return centring[members].mean(axis=0)

    if mixed:
        rows = [mean(label, 1) - mean(label, 0) for label in both]
        return Level(name, np.array(rows), np.zeros(len(rows), int), True, labels)
    pure = [(label, side) for side in (0, 1) for label in np.unique(labels[sides == side])]
    return Level(name, np.array([mean(*each) for each in pure]), np.array([side for _, side in pure]), False, labels)


@functools.lru_cache(maxsize=512)
def levels(times: tuple[float, ...], sides: tuple[int, ...], strata: tuple[int, ...], places: int) -> tuple[Level, ...]:
    """Returns the levels of jobs with these start times (s), sides and strata; `places` is the number of nodes or GPUs.

    A level is relevant if clusters contain several jobs of a side. Jobs of a single place need three clusters per side,
    because their order is also tested. If several places ran without gaps, a cluster is a round of one job per place.
    """
    of_side, of_stratum = np.array(sides), np.array(strata)
    found = [labels for labels in cuts(np.array(times, float)) if len({*zip(labels, sides)}) < len(labels)]
    result = [level_of("nights", labels, of_side, of_stratum) for labels in found]
    if places == 1:
        return tuple(level for level in result if level.mixed or min(level.sizes) > FEWEST)
    if not result and len({*times}) > 1:
        rounds = np.empty(len(times), int)
        for side in (0, 1):
            own = np.flatnonzero(of_side == side)
            own = own[np.argsort(np.array(times, float)[own], kind="stable")]
            rounds[own] = np.arange(len(own)) // places * 2 + side
        level = level_of("rounds", rounds, of_side, of_stratum)
        result = [level] if min(level.sizes) > FEWEST else []
    return tuple(result)


@dataclasses.dataclass(frozen=True)
class Compared:
    """Comparison of B with A, based on the means of clusters."""

    estimate: np.ndarray
    error: np.ndarray
    freedom: int

    @property
    def p(self) -> np.ndarray:
        """Two-sided p-value."""
        t = rank_test.in_errors(self.estimate, self.error)
        return np.vectorize(rank_test.student_p, otypes=[float])(t, self.freedom)

    def away(self, confidence: float) -> np.ndarray:
        """Returns the distance of both ends of the interval from the estimate; each end has this `confidence`."""
        return self.error * rank_test.student_quantile(1 - confidence, self.freedom)


def compare(level: Level, values: np.ndarray) -> Compared | None:
    """Compares values (…, jobs of A and then of B); returns None if there are too few clusters."""
    if level.freedom < 1 or (not level.mixed and min(level.sizes) < FEWEST):
        return None
    means = values @ level.weights.T
    if level.mixed:
        error = means.std(axis=-1, ddof=1) / math.sqrt(len(level.weights))
        return Compared(means.mean(axis=-1), error, level.freedom)
    a, b = means[..., level.sides == 0], means[..., level.sides == 1]
    squares = sum(((x - x.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1) for x in (a, b))
    error = np.sqrt(squares / level.freedom * sum(1 / size for size in level.sizes))
    return Compared(b.mean(axis=-1) - a.mean(axis=-1), error, level.freedom)


WANTED = 3  # number of clusters per side with which a step of eight standard errors has a p below 1%


def _chances(p: float, size: int) -> tuple[float, float]:
    """Returns how many standard errors a change must be above 0, and above the margin, to be found with POWER."""
    quantile, freedom = rank_test.student_quantile, 2 * size - 2
    chance = quantile(1 - rank_test.POWER, freedom)
    return quantile(max(p / 2, 1e-9), freedom) + chance, quantile(1 - rank_test.BOUND, freedom) + chance


def detectable(size: int, sd: float, margin: float, p: float) -> float:
    """Returns the smallest step that is found with rank_test.POWER if each side has `size` clusters.

    It is infinite below FEWEST clusters.
    """
    if size < FEWEST:
        return math.inf
    error = sd * math.sqrt(2 / size)
    by_itself, beyond = _chances(p, size)
    return max(error * by_itself, margin + error * beyond)


def fewest(p: float) -> int:
    """Returns the minimum number of clusters per side that can be expected to reach a p this small."""
    return next(size for size in range(FEWEST, 64) if rank_test.student_p(8.0, 2 * size - 2) <= p)


def needed(step: float, sd: float, margin: float, p: float) -> int:
    """Returns the number of clusters per side with which a step beyond the margin is found with rank_test.POWER.

    `sd` is the standard deviation of the clusters' means.
    """
    sizes = range(FEWEST, rank_test.MOST)
    return FEWEST + bisect.bisect_left(sizes, True, key=lambda size: detectable(size, sd, margin, p) <= step)
