"""Finds nodes and GPUs that differ from their equals, with the reason for each and a list that a scheduler accepts.

The first reasons do not depend on figures: nodes and GPUs that vanished, and nodes that fail cases which their equals
pass, have invalid samples (throttled, a link trained down), or lack figures or GPUs that their equals have. Slow nodes
and GPUs follow. Nodes are equal if they have the same CPU and GPU model, partition and driver.

A node is slow as a whole if its mean over all series is worse than that of its equals by a floor (3%), and by more than
chance causes for any node in one fleet of twenty. In the mean, series in which nodes differ little weigh more. GPUs are
judged in the same way, against the other GPUs of their node. Nodes and GPUs may also be slow in a single series, by the
same criterion. If more than one in eight is slow, the slow ones are considered another kind rather than outliers,
unless they are slow by 20%. Series with values at or below zero are not part of means; each is judged alone, see
zeros.py.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import functools
import math
import sys
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy import special

from isthmus import Error, exits, options, spelling, units
from isthmus.grouping import grouped
from isthmus.records import measurements, selection, store
from isthmus.statistics import rank_test, series
from isthmus.tables import output
from isthmus.verdicts import absent, comparison, environment, losses, missing, zeros

FLOOR = 0.03
GROSS, GROSS_Z, GROSS_SHARE = 0.20, 5.0, 1 / 3
FEWEST = 4  # number of equals that a comparison needs, including the node itself
KINDS = ("vanished", "failing", "invalid", "lacking", "slow")
QUIET = 5e-4  # smallest noise assumed, as a share
_DRAWS = 20_000
_STEADY = 2 / 3  # share of a place's slowness that its better jobs must reach


@dataclasses.dataclass
class Reason:
    """Reason why one node, or one GPU of it, differs from its equals."""

    node: str
    kind: str  # one of KINDS
    words: str
    gpus: str = ""
    worse: float = 0.0  # share by which the place is slow
    series: int = 0  # number of series that the reason is about
    drain: bool = True  # false if the place is only reported, because its equals are not better
    # Value of series.Series.case, if the reason is about a single series.
    case: dict[str, Any] = dataclasses.field(default_factory=dict)
    host: str = ""  # figures in which the host of a slow node is slower
    name: str = ""  # the node's name, if several hosts share it
    system: str = ""  # the node's system, if nodes of several systems have the name

    @property
    def sentence(self) -> str:
        of = f", of system {spelling.printable(self.system)}" if self.system else ""
        return self.words + (f" on {spelling.printable(self.gpus)}" if self.gpus else "") + self.host + of


@dataclasses.dataclass
class Found:
    """Results for a fleet."""

    reasons: list[Reason]
    nodes: int
    compared: int  # number of series with enough equals
    notes: list[str]


# --- slow: limits ---


# Share of sessions in which a healthy place may by chance be called slow because of its mean over all series.
_WHOLE = 0.7 * rank_test.SESSION


@functools.lru_cache(maxsize=64)
def limits(count: int, permitted: float = _WHOLE, groups: tuple[int, ...] = ()) -> np.ndarray:
    """Returns how many standard deviations below the mean of the others the worst, second worst … of `count` may be.

    The limits are one-sided, and simulated with a fixed seed for normal values. In a healthy fleet, the probability
    that any limit is exceeded is `permitted`. Up to one in eight values can be outliers (Rosner, Percentage points for
    a generalized ESD procedure, 1983). If the sizes of `groups` are given, the limits are for values of from_group().
    """
    most = max(1, count // 8)
    drawn = np.random.default_rng(count).standard_normal((_DRAWS if count <= 64 else 4000, count))
    if groups:
        ends = np.cumsum(groups)
        drawn = np.hstack([from_group(drawn[:, end - size : end]) for end, size in zip(ends, groups)])
    drawn.sort(axis=1)
    distances = _distances(drawn, most)
    low, high = permitted / most / 2, permitted
    for _ in range(30):
        tail = (low + high) / 2
        found = np.quantile(distances, 1 - tail, axis=0)
        low, high = (tail, high) if (distances > found).any(axis=1).mean() <= permitted else (low, tail)
    return np.quantile(distances, 1 - low, axis=0)


def from_group(values: np.ndarray) -> np.ndarray:
    """Returns the difference between each value and the median of the others in its group (last axis)."""
    others = [np.median(np.delete(values, i, axis=-1), axis=-1) for i in range(values.shape[-1])]
    return values - np.stack(others, axis=-1)


def _distances(ordered: np.ndarray, most: int, quiet: float = 0.0) -> np.ndarray:
    """Returns how far each of the `most` lowest values (last axis, ascending) is below the mean of all larger values.

    The unit is the standard deviation of these larger values, but at least `quiet`.
    """
    left = ordered.shape[-1] - 1 - np.arange(most)
    sums, squares = (
        values.sum(axis=-1, keepdims=True) - np.cumsum(values[..., :most], axis=-1) for values in (ordered, ordered**2)
    )
    means = sums / left
    variances = np.maximum(squares - left * means**2, 0) / np.maximum(left - 1, 1)
    return (means - ordered[..., :most]) / np.maximum(np.sqrt(variances), quiet or 1e-12)


def apart(values: np.ndarray, floor: float, permitted: float = _WHOLE, groups: tuple[int, ...] = ()) -> list[int]:
    """Returns the indices of values (logarithms) below the others by the floor and by more than chance explains."""
    order = np.argsort(values, kind="stable")
    middle = float(np.median(values))
    ordered = values[order] - middle
    bounds = limits(len(values), permitted, groups)
    far = (_distances(ordered, len(bounds), QUIET) > bounds) & (1 - np.exp(ordered[: len(bounds)]) >= floor)
    count = int(np.flatnonzero(far).max(initial=-1)) + 1
    return sorted({*order[:count].tolist(), *_grossly(values, floor)})


def _grossly(values: np.ndarray, floor: float) -> list[int]:
    """Returns the indices of values that are a fifth below the median.

    Returns nothing if these are more than a third, because then they are another kind.
    """
    middle = float(np.median(values))
    scale = max(1.4826 * float(np.median(np.abs(values - middle))), QUIET)
    far = np.flatnonzero(((1 - np.exp(values - middle)) >= max(GROSS, floor)) & ((middle - values) >= GROSS_Z * scale))
    return far.tolist() if len(far) <= GROSS_SHARE * len(values) else []


@functools.lru_cache(maxsize=64)
def _without_lowest(count: int) -> float:
    """Returns the geometric mean of the variance of normal values without the lowest, relative to all values."""
    drawn = np.sort(np.random.default_rng(count).standard_normal((4000, min(count, 500))), axis=1)[:, 1:]
    freedom = drawn.shape[1] - 1
    mean = float(np.mean(np.log(drawn.var(axis=1, ddof=1))))
    return math.exp(mean - special.digamma(freedom / 2) + math.log(freedom / 2))


def _common(variances: np.ndarray, freedom: int) -> tuple[float, float]:
    """Returns the variance common to all series, and its weight for a single series, in degrees of freedom.

    The method is Smyth's (Linear models and empirical Bayes methods, 2004): if log variances spread more than the
    degrees of freedom explain, the rest is how much series differ. Bisection finds the root of the trigamma function.
    """
    if len(variances) < 3:
        return 0.0, 0.0
    logs = np.log(np.maximum(variances, QUIET**2)) - special.digamma(freedom / 2) + math.log(freedom / 2)
    beyond = float(np.var(logs, ddof=1)) - special.polygamma(1, freedom / 2)
    low, high = 1e-2, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if special.polygamma(1, middle / 2) > beyond else (low, middle)
    return math.exp(float(np.mean(logs)) + special.digamma(low / 2) - math.log(low / 2)), low


def _student_limit(freedom: float, tests: int, permitted: float = 0.2 * rank_test.SESSION) -> float:
    """Returns the Student's t that chance exceeds in this share of sessions with this many tests (Wallace, 1959)."""
    z = NormalDist().inv_cdf(1 - permitted / max(tests, 1))
    exponent = (z * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom
    return math.sqrt(freedom * math.expm1(min(exponent, 700)))


# --- slow: one fleet ---


@dataclasses.dataclass
class Fleet:
    """Equal places, with the logarithms of their figures as (series, places); higher is better, NaN means missing."""

    places: list[tuple[str, str]]  # (node, GPUs)
    labels: list[str]
    values: np.ndarray
    jobs: np.ndarray  # number of jobs of each value
    units: list[tuple[str, bool]]  # unit of each series, and true if lower is better
    cases: list[dict[str, Any]] | None = None  # series.Series.case of each series
    better_jobs: np.ndarray | None = None  # like `values`, but the 80th percentile of a place's jobs, not the median
    zeros: list[zeros.Zeros] = dataclasses.field(default_factory=list)  # series with values that have no logarithm

    @property
    def measured(self) -> list[int]:
        """Number of places that measured each series."""
        return [*np.isfinite(self.values).sum(axis=1).tolist(), *(len(each.places) for each in self.zeros)]


def means(fleet: Fleet) -> np.ndarray:
    """Returns the mean of each place over all series; series in which places differ little weigh more.

    The mean is NaN for places with less than half of the weight, because it would be a mean over other series.
    """
    if not fleet.values.size:
        return np.full(len(fleet.places), np.nan)
    residuals = fleet.values - np.nanmedian(fleet.values, axis=1, keepdims=True)
    scales = np.maximum(1.4826 * np.nanmedian(np.abs(residuals), axis=1), QUIET)  # robust standard deviations
    weights = 1 / scales**2
    weights = np.minimum(weights, 4 * np.median(weights))
    known = np.isfinite(fleet.values)
    sums = np.where(known, residuals, 0).T @ weights
    totals = known.T @ weights
    return np.where(2 * totals >= weights.sum(), sums / np.maximum(totals, 1e-300), np.nan)


def slow_as_a_whole(fleet: Fleet, floor: float = FLOOR) -> tuple[list[tuple[str, float]], list[tuple[int, float]]]:
    """Returns (name, share) for nodes and (place, share) for GPUs that are slow over all series by this share.

    A node is compared with the median of its equals, and a GPU with the median of the other GPUs of its node. Slow GPUs
    are left out when their node is judged, so that a node is not reported for a GPU or a GPU for its node. Both tests
    together are wrong as rarely as a single one.
    """
    of_places = means(fleet)
    by_node = grouped((fleet.places[at][0], at) for at in np.flatnonzero(np.isfinite(of_places)).tolist())
    several = sorted((places for places in by_node.values() if len(places) > 1), key=len)
    gpus = [place for places in several for place in places]
    tested = (len(gpus) >= FEWEST) + (len(by_node) >= FEWEST)
    slow_gpus: list[tuple[int, float]] = []
    if len(gpus) >= FEWEST:
        off = np.concatenate([from_group(of_places[places]) for places in several])
        for i in apart(off, floor, _WHOLE / tested, tuple(map(len, several))):
            if _is_steady(fleet, [gpus[i]]):
                slow_gpus.append((gpus[i], 1 - math.exp(off[i])))
    if len(by_node) < FEWEST:
        return [], slow_gpus
    named = {place for place, _ in slow_gpus}
    healthy = {node: [at for at in places if at not in named] or places for node, places in by_node.items()}
    of_nodes = np.array([of_places[places].mean() for places in healthy.values()])
    names, middle = list(healthy), float(np.median(of_nodes))
    slow = [(names[i], 1 - math.exp(of_nodes[i] - middle)) for i in apart(of_nodes, floor, _WHOLE / tested)]
    return [(name, worse) for name, worse in slow if _is_steady(fleet, healthy[name])], slow_gpus


def _is_steady(fleet: Fleet, columns: list[int]) -> bool:
    """Returns whether places' better jobs are at least two thirds as slow, so that not only single jobs are slow."""
    if fleet.better_jobs is None:
        return True
    usual = np.nanmedian(fleet.values, axis=1, keepdims=True)
    jobs, better = (np.nanmedian((usual - values)[:, columns]) for values in (fleet.values, fleet.better_jobs))
    return bool(better >= _STEADY * jobs)


def slow_places(fleet: Fleet, floor: float = FLOOR, *, tests: int | None = None) -> list[tuple[int, int, float]]:
    """Returns (series, place, share) for places that are too far below their equals in a single series, by this share.

    The spread of a series is the spread of the other places, shrunk towards the spread common to all series. The common
    spread leaves out nodes and GPUs that are slow as a whole, and the lowest place of each series: a place that is slow
    in many series would otherwise increase the spread and so hide.
    """
    values = fleet.values
    known = np.isfinite(values)
    counts = known.sum(axis=1)
    rows = np.flatnonzero(counts >= FEWEST)
    if not len(rows):
        return []
    tests = tests or int(counts[rows].sum())
    lowest = np.nanargmin(np.where(known, values, np.inf)[rows], axis=1)
    others = values[rows].copy()
    others[np.arange(len(rows)), lowest] = np.nan
    means, variances = np.nanmean(others, axis=1), np.nanvar(others, axis=1, ddof=1)
    slow_nodes, slow_gpus = slow_as_a_whole(fleet, floor)
    slow = {node for node, _ in slow_nodes}
    left_out = {place for place, _ in slow_gpus} | {at for at, (node, _) in enumerate(fleet.places) if node in slow}
    common, prior = _common_of_others(values[rows][:, [at not in left_out for at in range(len(fleet.places))]])
    found = []
    for i, row in enumerate(rows):
        middle = float(np.nanmedian(values[row]))
        own = counts[row] - 2
        variance = max((prior * common + own * variances[i]) / (prior + own), QUIET**2)
        t = (means[i] - values[row, lowest[i]]) / math.sqrt(variance * (1 + 1 / (own + 1)))
        far = {int(lowest[i])} if t > _student_limit(prior + own, tests) else set()
        places = np.flatnonzero(known[row])
        far |= {int(places[k]) for k in _grossly(values[row, places], floor)}
        if fleet.better_jobs is not None:
            far = {at for at in far if middle - fleet.better_jobs[row, at] >= _STEADY * (middle - values[row, at])}
        worse = {place: 1 - math.exp(values[row, place] - middle) for place in far}
        found += [(int(row), place, share) for place, share in sorted(worse.items()) if share >= floor]
    return found


def _common_of_others(values: np.ndarray) -> tuple[float, float]:
    """Returns _common() for values as (series, places), without the lowest place of each series."""
    counts = np.isfinite(values).sum(axis=1)
    values, counts = values[counts >= FEWEST], counts[counts >= FEWEST]
    if not len(counts):
        return 0.0, 0.0
    ordered = np.sort(values, axis=1)[:, 1:]  # NaNs are last
    shares = np.array([_without_lowest(int(count)) for count in counts])
    return _common(np.nanvar(ordered, axis=1, ddof=1) / shares, max(int(np.median(counts)) - 2, 1))


# --- records ---

_EQUAL = ("device", "cpu", "partition", "system", "driver")
# Key of a case that fails as a whole.
_CASE = tuple(name for name in measurements.SERIES if name not in ("metric", "unit"))


def _by_equals(rows: list[tuple]) -> list[list[tuple]]:
    """Groups rows by the _EQUAL columns, which come first; returns the other columns of each group."""
    return list(grouped((row[: len(_EQUAL)], row[len(_EQUAL) :]) for row in rows).values())


def _fleets(opened: store.Store, condition: str = "true") -> list[Fleet]:
    """Loads equals and their figures: each figure is the median over the jobs of a place that fulfil a condition."""
    names, equal = measurements.SERIES_COLUMNS, ", ".join(_EQUAL)
    rows = opened.sql(
        f"SELECT {equal}, {names}, node, gpus, median(value), count(*), any_value(better), "
        "CASE WHEN any_value(better) = 'lower' THEN quantile_cont(value, 0.2) ELSE quantile_cont(value, 0.8) END, "
        "count(*) FILTER (value > 0), any_value(mode) FROM "
        f"(SELECT {equal}, {names}, node, gpus, job, any_value(better) AS better, any_value(mode) AS mode, "
        "median(median) AS value FROM measurements "
        f"WHERE ({condition}) AND metric IS NOT NULL AND better IS NOT NULL AND {series.COUNTS} GROUP BY ALL) "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    width, start = len(measurements.SERIES), len(_EQUAL)
    modes = {row[start : start + width]: row[-1] for row in rows}
    every = [series.Series(key, None, mode, {}) for key, mode in modes.items()]
    labels, cases = series.labels(every), {each.key: each.case for each in every}
    return [_fleet(found, labels, cases) for found in _by_equals(rows)]


def _fleet(rows: list[tuple], labels: dict[tuple, str], cases: dict[tuple, dict[str, Any]]) -> Fleet:
    width = len(measurements.SERIES)
    # Columns: series, node, GPUs, median, number of jobs, direction, better jobs, jobs above zero, mode.
    by_series = grouped((row[:width], row[width:]) for row in rows)
    positive = {key: found for key, found in by_series.items() if all(each[2] > 0 < each[5] for each in found)}
    places = sorted({each[:2] for found in by_series.values() for each in found})
    index = {place: i for i, place in enumerate(places)}
    values = np.full((len(positive), len(places)), np.nan)
    jobs, better_jobs = np.zeros(values.shape, int), values.copy()
    told = {
        key: (dict(zip(measurements.SERIES, key))["unit"], found[0][4] == "lower") for key, found in by_series.items()
    }
    for at, (key, found) in enumerate(positive.items()):
        sign = -1 if told[key][1] else 1
        for node, gpus, value, count, _, better, *_ in found:
            values[at, index[node, gpus]] = sign * math.log(value)
            better_jobs[at, index[node, gpus]] = sign * math.log(better)
            jobs[at, index[node, gpus]] = count
    others = [
        zeros.Zeros(labels[key], *told[key], cases[key], [
            zeros.At(node, gpus, value, count, better, above) for node, gpus, value, count, _, better, above, _ in found
        ]) for key, found in by_series.items() if key not in positive
    ]  # fmt: skip
    return Fleet(
        places, [labels[key] for key in positive], values, jobs, [told[key] for key in positive],
        [cases[key] for key in positive], better_jobs, others,
    )  # fmt: skip


def _slow_without_ratios(fleet: Fleet, floor: float, tests: int) -> tuple[list[Reason], list[str]]:
    """Returns places that are slow in series with values at or below zero, and places with too few jobs to judge."""
    reasons, unsure = [], []
    for each in fleet.zeros:
        if len(each.places) < FEWEST:
            continue
        limit = functools.partial(_student_limit, tests=tests)
        found, undecided = each.far(floor, _STEADY, limit, len(fleet.zeros))
        for at in found:
            share, usual = each.worse(at), each.usual
            bound = " without bound" if (usual <= 0 < at.value if each.lower else at.value <= 0 < usual) else ""
            worse = f"worse{bound}" if share is None else f"{share:.1%} worse"
            value, normal = (units.quantity(figure, each.unit) for figure in (at.value, usual))
            once = ", seen in one job only" if at.jobs == 1 else ""
            words = f"{worse} ({value}, usual {normal}{once}): {each.label}"
            drain = not (each.lower and usual <= 0)  # a ratio to zero does not show how much slower the place is
            share = 1.0 if share is None else share
            reasons.append(Reason(at.node, "slow", words, at.gpus, share, 1, drain, each.case))
        is_how = "above zero, where equals are at zero" if each.lower else "at zero, where equals are above it"
        unsure += [f"{each.label} on {missing.in_words((at.node, at.gpus))} is {is_how}" for at in undecided]
    return reasons, unsure


def _slow(fleet: Fleet, floor: float, tests: int) -> list[Reason]:
    reasons = []
    slow_nodes, slow_gpus = slow_as_a_whole(fleet, floor)
    for place, worse in slow_gpus:
        node, gpus = fleet.places[place]
        count = int(np.isfinite(fleet.values[:, place]).sum())
        words = f"{worse:.1%} worse than the other GPUs of the node over {count} series together"
        reasons.append(Reason(node, "slow", words, gpus, worse, count))
    for node, worse in slow_nodes:
        count = int(np.isfinite(fleet.values[:, [place[0] == node for place in fleet.places]]).any(axis=1).sum())
        equals = len({name for name, _ in fleet.places})
        words = f"{worse:.1%} worse than {spelling.counted(equals - 1, 'equal')} over {count} series together"
        reasons.append(Reason(node, "slow", words, worse=worse, series=count))
    for row, place, worse in slow_places(fleet, floor, tests=tests):
        node, gpus = fleet.places[place]
        unit, lower = fleet.units[row]
        sign = -1 if lower else 1
        value, usual = (
            units.quantity(math.exp(sign * x), unit)
            for x in (fleet.values[row, place], float(np.nanmedian(fleet.values[row])))
        )
        once = ", seen in one job only" if fleet.jobs[row, place] == 1 else ""
        words = f"{worse:.1%} worse ({value}, usual {usual}{once}): {fleet.labels[row]}"
        case = fleet.cases[row] if fleet.cases else {}
        reasons.append(Reason(node, "slow", words, gpus, worse, 1, case=case))
    return reasons


def _slow_of(fleets: list[Fleet], floor: float) -> tuple[list[list[Reason]], list[str]]:
    """Returns the slow places of each fleet, and the places with too few jobs to judge."""
    tests = sum(count for fleet in fleets for count in fleet.measured if count >= FEWEST)
    slow_of, unsure = [], []
    for fleet in fleets:
        without_ratios, undecided = _slow_without_ratios(fleet, floor, tests)
        slow_of.append(_slow(fleet, floor, tests) + without_ratios)
        unsure += undecided
    return slow_of, unsure


def _slowest_first(reasons: list[Reason]) -> list[Reason]:
    return sorted(reasons, key=lambda r: (-(r.series > 1), -r.worse, r.node, r.gpus, r.words))


def slow(opened: store.Store, condition: str = "true", *, floor: float = FLOOR) -> list[Reason]:
    """Returns the places that are slow in the jobs that fulfil a condition, like look() but without their hosts."""
    return _slowest_first([reason for found in _slow_of(_fleets(opened, condition), floor)[0] for reason in found])


def _say_hosts(fleet: Fleet, reasons: list[Reason], hosts: dict[str, dict[str, float | None]]) -> None:
    """Adds to the first reason of each node the figures of environment.HOSTS in which its host is worse than others."""
    nodes = {node for node, _ in fleet.places}
    for first in {reason.node: reason for reason in reversed(reasons)}.values():
        node, found = first.node, []
        for name, (_, unit, floor) in environment.HOSTS.items():
            own = hosts.get(node, {}).get(name)
            others = [value for each in nodes - {node} if (value := hosts.get(each, {}).get(name)) is not None]
            if own is None or len(others) < FEWEST - 1:
                continue
            usual = float(np.median(others))
            if unit == "1" and own > usual + floor:
                found.append(f"{own:.0%} of its processors' time is stolen, usual {usual:.0%}")
            elif unit != "1" and own < usual * (1 - floor):
                figures = [units.quantity(value, unit) for value in (own, usual)]
                found.append(f"{name} {figures[0]}, usual {figures[1]}")
        if found:
            first.host = f"; its host is worse as well: {'; '.join(found)}"


def _hosts(opened: store.Store) -> dict[str, dict[str, float | None]]:
    """Returns the medians over jobs of environment.HOSTS for each node."""
    medians = ", ".join(f"median({name}) AS {name}" for name in environment.HOSTS)
    of_jobs = f"SELECT node, job, {medians} FROM measurements GROUP BY ALL"
    rows = opened.rows(f"SELECT node, {medians} FROM ({of_jobs}) GROUP BY ALL")
    return {row.pop("node"): row for row in rows}


def _failing(opened: store.Store) -> list[Reason]:
    """Returns nodes on which cases fail or have wrong results; cases that fail on most nodes do not drain a node."""
    case = ", ".join(f'"{name}"' for name in _CASE)
    why = "coalesce(error, if(verify = 'fail', 'wrong results', 'the results were not verified')) AS why"
    rows = opened.sql(
        f"SELECT {case}, node, count(*) FILTER (bad), any_value(why) FILTER (bad) FROM (SELECT *, "
        f"{series.FAILED} AS bad, {why} FROM measurements WHERE metric_index = 0 AND skipped IS NULL) "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    nodes_of: dict[tuple, dict[str, tuple[int, str]]] = collections.defaultdict(dict)
    for *case_of, node, bad, why in rows:
        nodes_of[tuple(case_of)][node] = (bad, why)
    found: dict[tuple[str, bool], list[tuple[str, str]]] = collections.defaultdict(list)
    for key, by_node in nodes_of.items():
        failing = {node: why for node, (bad, why) in by_node.items() if bad}
        alone = 2 * len(failing) <= len(by_node) and len(by_node) > 1
        for node, why in failing.items():
            found[node, alone].append((str(key[0]), why))
    reasons = []
    for (node, alone), cases in sorted(found.items()):
        workload, why = cases[0]
        more = f" and {spelling.counted(len(cases) - 1, 'more case')}" if len(cases) > 1 else ""
        where = "" if alone else ", as on most nodes that ran it"
        why = spelling.printable(spelling.shorten(why, 80))
        words = f"{spelling.printable(workload)}{more}: {why}{where}"
        reasons.append(Reason(node, "failing", words, series=len(cases), drain=alone))
    return reasons


def _invalid(opened: store.Store) -> list[Reason]:
    """Returns nodes and GPUs that lose a larger share of their samples than their equals, in the median job."""
    reasons = []
    for loss in losses.found(opened, _EQUAL):
        node, gpu = loss.place
        warned = f" ({spelling.printable(', '.join(loss.codes))})" if loss.codes else ""
        words = (
            f"{loss.share:.0%} of the samples of {spelling.counted(loss.jobs, 'job')} are invalid{warned}, "
            f"usual {loss.usual:.0%}"
        )
        drain = not (gpu and loss.by_chance)
        reasons.append(Reason(node, "invalid", words, gpu, series=loss.jobs, drain=drain))
    return reasons


def _vanished(opened: store.Store, expected: list[str]) -> list[Reason]:
    """Returns expected nodes without any record, and nodes without a record for longer than chance explains."""
    rows = opened.sql(
        "SELECT DISTINCT device, cpu, partition, system, node, time::DATE FROM measurements ORDER BY ALL"
    ).fetchall()
    groups: dict[tuple, dict[str, set]] = collections.defaultdict(lambda: collections.defaultdict(set))
    last: dict[tuple[str | None, str], object] = {}
    hosts: dict[tuple[str | None, str], set[str]] = collections.defaultdict(set)
    for *equal, system, host, day in rows:
        node = opened.names.get(host, host)  # a node has not vanished if another host has its name now
        groups[(*equal, system)][node].add(day)
        last[system, node] = max(day, last.get((system, node), day))
        hosts[system, node].add(host)
    reasons = {}
    for (*_, system), by_node in groups.items():
        if len(by_node) < FEWEST:
            continue
        for node, days in by_node.items():
            missed = _missed(days, [each for name, each in by_node.items() if name != node])
            if missed and last[system, node] == max(days):
                words = f"no record since {max(days)}, while its equals ran on {missed} days"
                own = hosts[system, node]
                host = next(iter(own)) if len(own) == 1 else node
                reasons[node, system or ""] = Reason(host, "vanished", words)
    known = {name for _, name in last}.union(
        *(opened.other_names.get(host, ()) for own in hosts.values() for host in own)
    )
    for node in expected:
        if node not in known:
            reasons[node, ""] = Reason(node, "vanished", "expected, but it has no record")
    return [reasons[key] for key in sorted(reasons)]


def _vanished_gpus(opened: store.Store, vanished: set[str]) -> list[Reason]:
    """Returns GPUs without records on days when their node has some, and nodes with fewer GPUs than their equals.

    If more than a quarter of the nodes lost GPUs, jobs no longer request them, so nodes are reported but not drained.
    """
    few = {each.node: each for each in _fewer_gpus(opened) if each.node not in vanished}
    gone = [each for each in missing.gone(opened, []) if each.place[1] and each.place[0] not in vanished]
    by_node = grouped((each.place[0], each) for each in gone)
    began: dict[str, list[datetime.datetime]] = grouped(
        opened.sql(
            "SELECT node, min(time) FROM (SELECT node, time, unnest(string_split(gpus, '+')) AS gpu FROM measurements "
            "WHERE gpus <> '') GROUP BY node, gpu"
        ).fetchall()
    )
    usual = len(by_node) > max(missing.MOST * len(began), 1)  # jobs no longer request them
    reasons = []
    for node, those in sorted(by_node.items()):
        last = max(time for each in those for time, _ in each.had)
        if sum(first > last for first in began[node]) >= len(those):
            continue  # the GPUs were replaced
        few.pop(node, None)
        for each in those:
            has, days = each.days
            ran = f"records on {has} of" if has else "no record in"
            words = f"{ran} the last {days} days of the node, since {each.had[-1][0]:%Y-%m-%d},"
            reasons.append(Reason(node, "vanished", words, each.place[1], drain=not usual))
    return reasons + [few[node] for node in sorted(few)]


def _before(opened: store.Store, earlier: store.Store) -> tuple[list[Reason], list[str]]:
    """Returns places with records only before --since, and notes on places that were absent for as long before it.

    A place that was absent for as long is a reason instead if it has vanished according to the whole history.
    """
    late = {(each.node, each.gpus) for each in _vanished(earlier, [])}
    every = absent.places(opened, earlier)
    gone = [each for each in every if not each.as_before or (each.node, each.gpu) in late]
    [(having,)] = opened.sql("SELECT count(DISTINCT node) FROM measurements WHERE gpus <> ''").fetchall()
    usual = len({each.node for each in gone if each.gpu}) > max(missing.MOST * having, 1)
    reasons = []
    for each in gone:
        last = f"last record {each.last}, before --since"
        if each.gpu:
            words = f"{last} (--without gpus={spelling.printable(each.gpu)} if that is on purpose),"
            reasons.append(Reason(each.node, "vanished", words, each.gpu, drain=not usual))
        else:
            words = f"{last}; leave it out with --without node={spelling.printable(each.node)} if that is on purpose"
            reasons.append(Reason(each.node, "vanished", words))
    others = [each for each in every if each not in gone]
    notes = [
        f"{missing.in_words((each.node, each.gpu))} has no record since --since (the last is of {each.last}); it was "
        f"absent for as long before{f', and so were {len(others) - 1} more' if len(others) > 1 else ''}"
        for each in others[:1]
    ]
    return reasons, notes


_Days = dict[datetime.date, set[str]]  # GPUs of each day


def _fewer_gpus(opened: store.Store) -> list[Reason]:
    """Returns nodes with fewer GPUs in their records than their equals, on all days or since some day."""
    rows = opened.sql(
        "SELECT DISTINCT device, cpu, partition, system, node, time::DATE, gpus FROM measurements "
        "WHERE gpus <> '' ORDER BY ALL"
    ).fetchall()
    groups: dict[tuple, dict[str, _Days]] = {}
    for *equal, node, day, gpus in rows:
        days = groups.setdefault(tuple(equal), {}).setdefault(node, {})
        days.setdefault(day, set()).update(gpus.split("+"))
    reasons = []
    for by_node in groups.values():
        has = {node: _count(days) for node, days in by_node.items()}
        for node, days in by_node.items() if len(by_node) >= FEWEST else ():
            equals = [other for other in by_node if other != node]
            usual = int(np.median([has[other] for other in equals]))
            whole = [by_node[other] for other in equals if has[other] >= usual]
            if found := _with_fewer(days, usual, whole, len(by_node)):
                start, count = found
                since = "" if start == min(days) else f" since {start}"
                words = f"records of {spelling.counted(count, 'GPU')}{since}, but its equals have {usual}"
                reasons.append(Reason(node, "lacking", words, drain=False))
    return reasons


def _count(days: _Days) -> int:
    return len(set().union(*days.values()))


def _with_fewer(days: _Days, usual: int, equals: list[_Days], tests: int) -> tuple[datetime.date, int] | None:
    """Returns the day since when a node has had fewer than `usual` GPUs, and their number; None if chance explains it.

    Two days are enough if the equals have all GPUs on all days. Otherwise chance must cause such a gap in fewer than
    one fleet of twenty, given that each GPU is present on a day as often as the GPUs of the equals.
    """
    if len(equals) < FEWEST - 1:
        return None
    there = [min(len(gpus) / usual, 1) for each in equals for gpus in each.values()]
    share = (sum(there) * usual + 0.5) / (len(there) * usual + 1)
    seen: set[str] = set()
    result = None
    for since, day in enumerate(sorted(days, reverse=True), 1):
        seen |= days[day]
        missing = usual - len(seen)
        if missing <= 0:
            break
        chance = math.comb(usual, missing) * (1 - share) ** (missing * since) * tests * len(days)
        if since >= 2 and (min(there) == 1 or chance <= rank_test.SESSION):
            result = day, len(seen)
    return result


def _missed(days: set, others: list[set]) -> int:
    """Returns the number of days after a node's last on which half of the others ran; 0 if chance explains the absence.

    Chance explains it unless the probability of so many missed days, given the share of such days on which the node ran
    before, is at most 1 in 1,000.
    """
    busy = [day for day in set().union(*others) if 2 * sum(day in each for each in others) >= len(others)]
    during = {day for day in busy if min(days) <= day <= max(days)}
    missed = sum(day > max(days) for day in busy)
    share = (len(days & during) + 0.5) / (len(during) + 1)
    return missed if (1 - share) ** missed <= 1e-3 else 0


def _lacking(opened: store.Store, vanished: set[str], invalid: set[missing.Place]) -> list[Reason]:
    """Returns nodes and GPUs that lack a figure which nearly all equals have, unless there is another reason for it."""
    every = series.load(opened, "'A'")
    equals, jobs_of = _jobs_by_equals(opened, vanished)
    case = [name for name in measurements.SERIES if name not in ("version", "unit", "metric")]
    lost = losses.of_cases(opened, _EQUAL, case, series.FAILED)
    cells: dict[tuple, dict[tuple, dict[missing.Place, set[str]]]] = {}
    labels, labelled = series.labels(every), {}
    for each in every:
        name = missing.but_version(each)
        key = dict(zip(measurements.SERIES, each.key))
        labelled[name] = (labels[each.key], tuple(key[field] for field in case))
        for job in each.of("A"):
            for place in missing.places_of(job):
                if of := equals.get((place, job.name)):
                    cells.setdefault(of, {}).setdefault(name, {}).setdefault(place, set()).add(job.name)
    # Numbers of jobs with a figure and of invalid jobs, for each label.
    lacks: dict[missing.Place, dict[str, tuple[int, int]]] = {}
    for of, named in cells.items():
        of_equals = lost.get(of, {})
        explained = losses.explained(of_equals, invalid)
        known = {name: explained.get(labelled[name][1], {}) for name in named}
        for place, short in missing.among(jobs_of[of], named, known).items():
            for name, count in short.items():
                label, of_case = labelled[name]
                bad = of_equals[of_case].invalid.get(place, ()) if of_case in of_equals else ()
                lacks.setdefault(place, {})[label] = (count, len(bad))
    return [_lack(place, few) for place, few in sorted(lacks.items())]


def _lack(place: missing.Place, few: dict[str, tuple[int, int]]) -> Reason:
    first = min(few, key=lambda label: (few[label], label))
    has, invalid = few[first]
    more = f" and {len(few) - 1} more series" if len(few) > 1 else ""
    there = f"only {spelling.counted(has, 'job', 'have')}" if has else "no job has"
    why = f"; invalid in {spelling.counted(invalid, 'job')}" if invalid else ""
    words = f"{there} a figure of {first}{more}, which its equals have{why}"
    return Reason(place[0], "lacking", words, place[1], series=len(few), drain=False)


def _jobs_by_equals(opened: store.Store, without: set[str]) -> tuple[dict, dict[tuple, dict[missing.Place, set[str]]]]:
    """Returns the group of equals of each place and job, and the jobs of each place in each group."""
    rows = opened.sql(f"SELECT DISTINCT {', '.join(_EQUAL)}, node, gpus, job FROM measurements").fetchall()
    equals: dict[tuple[missing.Place, str], tuple] = {}
    jobs: dict[tuple, dict[missing.Place, set[str]]] = {}
    for *of, node, gpus, job in rows:
        for place in missing.places(node, gpus or "") if node not in without else ():
            equals[place, job] = tuple(of)
            jobs.setdefault(tuple(of), {}).setdefault(place, set()).add(job)
    return equals, jobs


def look(opened: store.Store, *, floor: float = FLOOR, expected: tuple[str, ...] | list[str] = ()) -> Found:
    """Finds everything that is wrong with nodes: first reasons without figures, then slowness, the slowest first."""
    earlier = opened.earlier()
    gone, notes = _before(opened, earlier) if earlier else ([], [])
    there = {each.node for each in gone}  # nodes with records before --since only
    vanished, invalid = _vanished(opened, [name for name in expected if name not in there]), _invalid(opened)
    without = {each.node for each in vanished}
    reasons = [*gone, *vanished, *_vanished_gpus(opened, without), *_failing(opened), *invalid]
    reasons += _lacking(opened, without, {(each.node, each.gpus) for each in invalid})
    fleets = _fleets(opened)
    enough = [[count for count in fleet.measured if count >= FEWEST] for fleet in fleets]
    hosts = _hosts(opened)
    slow_of, unsure = _slow_of(fleets, floor)
    for fleet, found in zip(fleets, slow_of):
        _say_hosts(fleet, found, hosts)
    reasons += _slowest_first([reason for found in slow_of for reason in found])
    systems = _systems_of_namesakes(earlier or opened)
    for reason in reasons:
        reason.name = opened.names.get(reason.node, "")
        reason.system = systems.get(reason.node, "")
    nodes = {row[0] for row in opened.sql("SELECT DISTINCT node FROM measurements").fetchall()} | there
    known = {*opened.names.values(), *(name for names in opened.other_names.values() for name in names)}
    expected = [name for name in expected if name not in known]
    small = {node for fleet, counts in zip(fleets, enough) if not counts for node, _ in fleet.places}
    if small:
        nodes_have = spelling.counted(len(small), "node", "have")
        notes.append(f"{nodes_have} fewer than {FEWEST - 1} equals (same CPU, GPU, partition and driver)")
    if unsure:
        more = f" and {len(unsure) - 1} more" if len(unsure) > 1 else ""
        notes.append(f"not judged, because there are too few jobs: {unsure[0]}{more}")
    return Found(reasons, len(nodes | set(expected)), sum(map(len, enough)), notes)


def _systems_of_namesakes(opened: store.Store) -> dict[str, str]:
    """Returns the system or systems of each host whose name is used in several systems."""
    rows = opened.sql("SELECT DISTINCT node, coalesce(system, '') AS system FROM measurements ORDER BY ALL").fetchall()
    by_name = grouped((opened.names.get(node, node), (node, system)) for node, system in rows)
    several = [hosts for hosts in by_name.values() if len({system for _, system in hosts}) > 1]
    return {
        node: " and ".join(system or "no named system" for system in of)
        for node, of in grouped(each for hosts in several for each in hosts).items()
    }


# --- output for people and schedulers ---


def _drained(reasons: list[Reason]) -> dict[str, Reason]:
    """Returns the first reason of each node that a scheduler can name; reports the others on stderr."""
    found: dict[str, Reason] = {}
    for reason in reasons:
        if reason.drain:
            found.setdefault(reason.name or reason.node, reason)
    for node, reason in sorted(found.items()):
        if reason.system:  # the scheduler of another system would drain its node of the same name
            print(
                f"{spelling.printable(node)!r} is a node of several systems, so it is left out of the list; choose "
                f"{spelling.printable(reason.system)} with --system",
                file=sys.stderr,
            )
            del found[node]
    for node in sorted(found):
        if not spelling.is_node_name(node):
            print(
                f"{spelling.printable(node)!r} is not a name that a scheduler accepts, so it is left out of the list",
                file=sys.stderr,
            )
            del found[node]
    return found


def drain_lines(reasons: list[Reason]) -> list[str]:
    """Returns lines for a site's script: node, tab, kind and reason, in printable characters without quotes."""
    lines = []
    for node, reason in sorted(_drained(reasons).items()):
        words = spelling.shorten(f"{reason.kind}: {reason.sentence}", 160)
        lines.append(f"{node}\t{words.translate(str.maketrans('', '', chr(34) + chr(39) + '`$' + chr(92)))}")
    return lines


_SHOWN = 5
_ANSWERED = 3  # maximum number of nodes in the answer


def _by_node(reasons: list[Reason]) -> list[tuple[str, list[Reason]]]:
    """Returns nodes with their reasons, sorted by kind, then by share of slowness, then by number of series."""
    every = grouped((reason.node, reason) for reason in sorted(reasons, key=_weight))
    return list(every.items())


def _weight(reason: Reason) -> tuple:
    return (KINDS.index(reason.kind), -(reason.series > 1), -reason.worse, -reason.series, reason.node, reason.gpus)


def answer(found: Found) -> list[str]:
    """Returns the answer in at most ten lines: number of nodes of each kind, and the worst nodes with their reasons."""
    nodes = _by_node(found.reasons)
    kinds = [f"{n} {kind}" for kind in KINDS if (n := len({r.node for r in found.reasons if r.kind == kind}))]
    told = f": {', '.join(kinds)}" if kinds else ""
    lines = output.fold(
        f"{len(nodes)} of {found.nodes} nodes are named{told}; {found.compared} series with {FEWEST} equals or more"
    )
    for node, reasons in nodes[:_ANSWERED]:
        more = f", and {spelling.counted(len(reasons) - 1, 'reason')} more" if len(reasons) > 1 else ""
        sentence = spelling.shorten(reasons[0].sentence, 180)
        lines += output.fold(f"{spelling.printable(node)} is {_is(reasons[0])}: {sentence}{more}")[:3]
    return lines[:10]


def _is(reason: Reason) -> str:
    return "without a GPU" if reason.kind == "vanished" and reason.gpus else _IS[reason.kind]


_IS = {kind: kind for kind in KINDS} | {"vanished": "gone", "invalid": "losing samples", "lacking": "lacking figures"}


def text(found: Found) -> str:
    """Returns the answer, followed by each node with its reasons."""
    lines = []
    for node, own in _by_node(found.reasons):
        lines.append("")
        for kind in dict.fromkeys(reason.kind for reason in own):
            of_kind = [reason for reason in own if reason.kind == kind]
            lines.append(f"{spelling.printable(node)}: {kind}")
            lines += output.fold_each(f"  {reason.sentence}" for reason in of_kind[:_SHOWN])
            if len(of_kind) > _SHOWN:
                lines.append(f"  … and {len(of_kind) - _SHOWN} more series")
    notes = output.fold_each(f"note: {note}" for note in found.notes)
    return "\n".join([*answer(found), *notes, *lines])


def _summary(found: Found) -> list[str]:
    """Returns the lines that are not in any row."""
    return [f"note: {note}" for note in found.notes] + [
        f"{len({reason.node for reason in found.reasons})} of {found.nodes} nodes are named; "
        f"{found.compared} series with {FEWEST} equals or more"
    ]


_COLUMNS = {
    "node": "VARCHAR", "on_gpus": "VARCHAR", "kind": "VARCHAR", "reason": "VARCHAR", "worse": "DOUBLE",
    "count": "BIGINT", "drain": "BOOLEAN", "unit": "VARCHAR",
}  # fmt: skip


def table_of(found: Found, text: str) -> output.Table:
    """Returns a table with a row for each reason; reasons about more than one series have no case."""
    rows = [
        {"axes": {}} | each.case | {
            "node": each.node, "on_gpus": each.gpus or None, "kind": each.kind, "reason": each.words + each.host,
            "worse": each.worse or None, "count": each.series or None, "drain": each.drain,
        } for each in found.reasons
    ]  # fmt: skip
    return output.of_cases(rows, _COLUMNS, text, _summary(found))


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus nodes results --workload 'transfer/*'\n"
        "  isthmus nodes results --drain | while IFS=$'\\t' read -r node why; do\n"
        '    scontrol update nodename="$node" state=drain reason="$why"; done\n\n'
        "exit codes: 0 no node is named; 1 some are; 2 bad input; 3 no series has 4 or more equal nodes or GPUs"
    )
    selection.add_arguments(parser)
    parser.add_argument("--floor", **units.SHARE, default=FLOOR, help="smallest difference that is reported (0.03)")
    parser.add_argument("--expect", metavar="N1,N2,…", help="nodes that must be in the records")
    parser.add_argument("--drain", action="store_true", help="only nodes to be drained: NODE, tab, reason; a line each")
    output.add_arguments(parser)


def run(asked) -> int:
    expected = options.listed("--expect", asked.expect) if asked.expect else []
    for node in expected:
        if not spelling.is_node_name(node):
            raise Error(f"{node!r} is not the name of a node; write names separated by commas")
    if asked.drain and output.chosen_format(asked) != "text":
        raise Error("--drain is always text; leave out --drain for --format, which has the columns node and drain")
    with selection.from_arguments(asked, wanted=(*comparison.WANTED, *environment.HOSTS, "warnings")) as opened:
        found = look(opened, floor=asked.floor, expected=expected)
    output.write(asked, table_of(found, "\n".join(drain_lines(found.reasons)) if asked.drain else text(found)))
    if asked.drain:  # stderr, since a script reads stdout
        print("\n".join(output.fold_each(_summary(found))), file=sys.stderr)
    if found.reasons:
        return exits.FOUND
    return exits.PASSED if found.compared else exits.UNDECIDED
