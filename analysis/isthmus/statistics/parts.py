"""Parts of a system that changed differently from the rest: a node, a GPU, or some of the jobs.

A comparison of all jobs cannot detect that one node of eight has half speed, because its interval describes most jobs.
Therefore each place (node or GPU) is compared with the other places: how much more it changed than they did, without
effects that all places of a job or night share. In addition, the tails of both sides are compared: how many jobs are
far below the usual value of their place.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from isthmus.grouping import grouped
from isthmus.statistics import rank_test
from isthmus.statistics.design import Design
from isthmus.statistics.series import Job

LEAST = 6.0  # standard errors by which a place must differ to count; correlated jobs seldom cause such a difference
ALPHA = 0.005  # maximum p of a place with few units, after correction for the number of places
FEWEST = 3  # minimum number of units of a place per side that show the place's noise
TAILS = 2  # maximum degrees of freedom if there is one boot per side
OUTLIER = 4.0  # standard deviations between jobs, beyond the margin, from which a job is in the tail


# --- places ---


@dataclasses.dataclass(frozen=True)
class Layout:
    """Structure of the compared values (entries): place, side and cluster of each, and the figures that it averages.

    An entry is a unit at a place: a job, or a boot with the mean of its jobs. Places are compared within their group:
    nodes with nodes, GPUs with GPUs of the same node. The entries of a cluster share an effect, which is removed.
    """

    places: tuple[tuple[str, str], ...]  # (node, GPUs); the GPUs are empty for a whole node
    group: np.ndarray  # group of each place
    place: np.ndarray  # place of each entry
    side: np.ndarray  # side of each entry
    cluster: np.ndarray  # cluster of each entry
    figures: tuple[tuple[tuple[int, ...], ...], ...]  # columns of figures to average, for each job of each entry
    boots: bool


def _labels(values: list) -> np.ndarray:
    numbers: dict = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], int)


def layout(a: list[Job], b: list[Job], units: list[int], clusters: list[int], *, boots: bool) -> Layout | None:
    """Returns the layout of two sides' jobs; None if there are no two places to compare.

    `units` and `clusters` contain a number for each job of A and then of B; `boots` means that units are boots. The
    columns of figures are the places of all jobs, job by job.
    """
    cells: dict[tuple, dict[int, list]] = {}  # columns by job, for each (side, unit, place)
    cluster_of: dict[tuple, tuple] = {}
    column = 0
    for i, job in enumerate([*a, *b]):
        side = int(i >= len(a))
        own = grouped((node, gpus) for node, gpus in job.places)
        for node, gpus in job.places:
            for place in [(node, "")] + ([(node, gpus)] if gpus else []):
                cells.setdefault((side, units[i], place), {}).setdefault(i, []).append(column)
                together = len(own[node]) > 1 if place[1] else len(own) > 1
                shared = ("unit", units[i]) if together else ("time", clusters[i])
                cluster_of[side, units[i], place] = (side, node if place[1] else "", *shared)
            column += 1
    sides_of = grouped((place, side) for side, _, place in cells)
    both = [place for place, sides in sides_of.items() if len({*sides}) == 2]
    groups = grouped((place[0] if place[1] else "", place) for place in both)
    places = tuple(place for those in groups.values() if len(those) > 1 for place in those)
    if not places:
        return None
    number = {place: i for i, place in enumerate(places)}
    kept = [key for key in cells if key[2] in number]
    return Layout(
        places,
        _labels([place[0] if place[1] else "" for place in places]),
        np.array([number[place] for _, _, place in kept]),
        np.array([side for side, _, _ in kept]),
        _labels([cluster_of[key] for key in kept]),
        tuple(tuple(map(tuple, cells[key].values())) for key in kept),
        boots,
    )


def entries(of: Layout, figures: np.ndarray, ratio: bool) -> np.ndarray:
    """Returns values of entries (…, entries), given figures of jobs at places (…, columns); logarithms if `ratio`."""
    result = np.empty((*figures.shape[:-1], len(of.figures)))
    for i, jobs in enumerate(of.figures):
        means = [figures[..., list(columns)].mean(axis=-1) for columns in jobs]
        result[..., i] = np.mean(np.log(means) if ratio else means, axis=0)
    return result


def _sums(values: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    """Returns the sums of values (…, n) that have the same label, as (…, count)."""
    order = np.argsort(labels, kind="stable")
    present, first = np.unique(labels[order], return_index=True)
    result = np.zeros((*values.shape[:-1], count))
    result[..., present] = np.add.reduceat(values[..., order], first, axis=-1)
    return result


@dataclasses.dataclass(frozen=True)
class Places:
    """Changes of places relative to the other places of their group; arrays have shape (…, places)."""

    own: np.ndarray  # B - A of the place
    more: np.ndarray  # `own` minus the median of the other places
    error: np.ndarray
    freedom: np.ndarray  # degrees of freedom of each place, (places,)
    replicated: np.ndarray  # true if the place has enough units to show its noise, (places,)
    values: np.ndarray  # values of entries without the effects that clusters share, (…, entries)

    @property
    def t(self) -> np.ndarray:
        return self.more / np.maximum(self.error, 1e-12)

    def p(self) -> np.ndarray:
        """Returns the two-sided p of each place; 1 within two standard errors, and if the error is unknown."""
        t, result = np.nan_to_num(self.t), np.ones(self.t.shape)
        for where in zip(*np.nonzero(np.abs(t) > 2)):
            result[where] = rank_test.student_p(float(t[where]), int(self.freedom[where[-1]]))
        return result


def _others(own: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Returns, for each place, the median of the other places of its group."""
    result = np.full(own.shape, math.nan)
    for each in np.unique(group):
        members = np.flatnonzero(group == each)
        for i in members:
            result[..., i] = np.median(own[..., members[members != i]], axis=-1)
    return result


def _of_few(own: np.ndarray, group: np.ndarray, boots: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns each place's error and degrees of freedom, estimated from the changes of the other places of its group.

    The error is NaN in groups of fewer than four places.
    """
    error, freedom = np.full(own.shape, math.nan), np.ones(own.shape[-1], int)
    for each in np.unique(group):
        members = np.flatnonzero(group == each)
        if len(members) < 4:
            continue
        for i in members:
            others = own[..., members[members != i]]
            error[..., i] = others.std(axis=-1, ddof=1) * math.sqrt(1 + math.pi / 2 / others.shape[-1])
            freedom[i] = min(others.shape[-1] - 1, TAILS) if boots else others.shape[-1] - 1
    return error, freedom


def compare(of: Layout, values: np.ndarray) -> Places:
    """Compares the places, given the values of entries (…, entries)."""
    count = len(of.places)
    cell = of.place * 2 + of.side
    sizes = np.bincount(cell, minlength=2 * count)
    means = _sums(values, cell, 2 * count) / np.maximum(sizes, 1)
    left = values - means[..., cell]
    clusters = int(of.cluster.max()) + 1
    in_cluster = np.bincount(of.cluster, minlength=clusters)
    common = np.where(in_cluster > 1, _sums(left, of.cluster, clusters) / np.maximum(in_cluster, 1), 0.0)
    left = left - common[..., of.cluster]
    cleaned = values - common[..., of.cluster]
    means = _sums(cleaned, cell, 2 * count) / np.maximum(sizes, 1)
    own = means[..., 1::2] - means[..., 0::2]
    others = _others(own, of.group)
    left = cleaned - means[..., cell]
    by_group = of.group[of.place]
    groups = int(of.group.max()) + 1
    used = [len({*of.cluster[(by_group == g) & (in_cluster[of.cluster] > 1)]}) for g in range(groups)]
    free = np.array([
        (by_group == g).sum() - len({*cell[by_group == g]}) - max(used[g] - 2, 0) for g in range(groups)
    ])  # fmt: skip
    variance = _sums(left**2, by_group, groups) / np.maximum(free, 1)
    inverse = 1 / np.maximum(sizes[0::2], 1) + 1 / np.maximum(sizes[1::2], 1)
    peers = np.bincount(of.group)[of.group] - 1
    error = np.sqrt(variance[..., of.group] * inverse * (1 + math.pi / 2 / peers))
    replicated = (np.minimum(sizes[0::2], sizes[1::2]) >= FEWEST) & (free[of.group] >= 2 * FEWEST)
    error_of_few, freedom_of_few = _of_few(own, of.group, of.boots)
    return Places(
        own, own - others, np.where(replicated, error, error_of_few),
        np.where(replicated, np.maximum(free[of.group], 1), freedom_of_few), replicated, cleaned,
    )  # fmt: skip


def interval(of: Layout, found: Places, place: int) -> tuple[float, float]:
    """Returns an interval for how much more a place changed than the others; each end has confidence rank_test.BOUND.

    It covers Student's interval and, if the place has enough units to show its noise, the interval of the rank test.
    `found` must be of one series.
    """
    more, error = float(found.more[place]), float(found.error[place])
    away = error * rank_test.student_quantile(1 - rank_test.BOUND, int(found.freedom[place]))
    low, high = more - away, more + away
    if found.replicated[place]:
        a, b = (found.values[(of.place == place) & (of.side == side)] for side in (0, 1))
        ranks = rank_test.compare([(a, b - (found.own[place] - more))], 2 * rank_test.BOUND - 1)
        low, high = min(low, ranks.low), max(high, ranks.high)
    return low, high


# --- tails ---


def excess(few: tuple[int, int], of: tuple[int, int]) -> float:
    """Returns the one-sided p of Fisher's exact test that B has more such jobs than A: `few` of `of` on each side."""
    total, found = sum(of), sum(few)
    ways = math.comb(total, found)
    most = min(found, of[1])
    return sum(math.comb(of[1], k) * math.comb(of[0], found - k) for k in range(few[1], most + 1)) / ways


def _away(plan: Design, values: np.ndarray) -> np.ndarray:
    """Returns the distance of each job (A, then B) from the median of A's jobs in its stratum; NaN without stratum."""
    result = np.full(values.shape, math.nan)
    for members, of_a in plan.members():
        result[members] = values[members] - np.median(values[of_a])
    return result


def far_from_usual(plan: Design, values: np.ndarray, distance: float, below: bool) -> tuple[list[int], list[int]]:
    """Returns the indices of jobs of A and of B that are more than `distance` below, or above, the usual value."""
    away = _away(plan, values) * (-1 if below else 1)
    of_a, of_b = plan.jobs_of_sides()
    return [i for i in of_a if away[i] > distance], [i for i in of_b if away[i] > distance]


def median_away(plan: Design, values: np.ndarray, jobs: list[int]) -> float:
    return float(np.median(_away(plan, values)[jobs]))
