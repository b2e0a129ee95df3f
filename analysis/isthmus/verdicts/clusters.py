"""Means of a system's figures and their variance, computed from nodes, boots, and occasions that nodes share.

Jobs of one boot share the state that the boot created, and jobs of one night share the state of the machine room.
Therefore neither jobs nor boots are the unit of replication. A node counts once, as the mean of its boots; a boot
counts as the mean of its jobs. The variance of the mean over nodes comes from the differences between nodes and between
occasions, which are nights or restarts of all nodes. With a single node, the variance comes from its boots and applies
only to that node. A single boot, or a single night of several nodes, cannot show this variance: it is not identifiable
and therefore set to infinity; `Estimate.reason` states why.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.grouping import components, grouped
from isthmus.statistics import rank_test
from isthmus.statistics.series import Job

ONE_BOOT, ONE_NIGHT, NO_BOOTS = "one boot", "one night", "boots not known"
#: Reason → explanation and what to do.
MEANING = {
    ONE_BOOT: "jobs of one boot do not show how much boots differ: measure in two boots or more",
    ONE_NIGHT: "one night does not show which effects its nodes shared: measure in two nights or more",
    NO_BOOTS: "the records do not say when the node was started: measure again with this Isthmus",
}
_PAUSE = datetime.timedelta(hours=6)  # minimum pause between jobs of two nights
_DAY = datetime.timedelta(days=1)  # maximum duration of a night


# --- occasions that nodes share ---


def _time(job: Job) -> datetime.datetime:
    return job.time or datetime.datetime.min


def _nights(jobs: Sequence[Job]) -> dict[str, int]:
    """Returns the number of each job's night; jobs must be ordered by time."""
    result: dict[str, int] = {}
    times = [_time(job) for job in jobs]
    start, number = times[0], 0
    for job, time, before in zip(jobs, times, [start, *times]):
        if time - before >= _PAUSE or time - start >= _DAY:
            start, number = time, number + 1
        result[job.name] = number
    return result


def _boots_not_known(job: Job) -> bool:
    return not job.boots or any(boot is None for _, boot in job.boots)


def _restarts(jobs: Sequence[Job]) -> dict[str, int]:
    """Returns, for each job, how often all nodes had been restarted before it; jobs must be ordered by time."""
    last_of_boot = {boot: i for i, job in enumerate(jobs) for boot in job.boots}
    last_of_node = {node: i for i, job in enumerate(jobs) for node in job.nodes}
    known = not any(map(_boots_not_known, jobs))
    result: dict[str, int] = {}
    seen: set[str] = set()
    number, boots_until = 0, -1
    for i, job in enumerate(jobs):
        again = any(last_of_node[node] >= i for node in seen)
        later = i > 0 and _time(job) > _time(jobs[i - 1])
        if known and later and boots_until < i and again:
            number, seen = number + 1, set()
        seen |= {*job.nodes}
        boots_until = max([boots_until, *(last_of_boot[boot] for boot in job.boots)])
        result[job.name] = number
    return result


def occasions(jobs: Iterable[Job]) -> dict[str, Any]:
    """Returns a label for each job of a system, keyed by name; jobs with the same label share a night or a restart.

    If the time of any job is unknown, each boot is an occasion; jobs whose boots are unknown are occasions themselves.
    """
    unique = {job.name: job for job in jobs}
    if any(job.time is None for job in unique.values()):
        return {name: name if _boots_not_known(job) else job.boots for name, job in unique.items()}
    ordered = sorted(unique.values(), key=lambda job: (_time(job), job.name))
    if not ordered:
        return {}
    nights, restarts = _nights(ordered), _restarts(ordered)
    pairs = [frozenset({("night", nights[name]), ("restart", restarts[name])}) for name in unique]
    both: dict[str, Any] = dict(zip(unique, components(pairs)))
    one_node = len({node for job in ordered for node in job.nodes}) == 1
    candidates: list[dict[str, Any]] = [both, restarts] if one_node else [both, nights, restarts]
    return next((found for found in candidates if len({*found.values()}) > 1), restarts)


# --- mean and variance ---


@dataclasses.dataclass
class Estimate:
    """Means of the logarithms of a system's terms, with the variance and degrees of freedom of their weighted sum."""

    logs: np.ndarray  # mean of each term
    variance: float  # infinite if it is not identifiable
    freedom: float
    nodes: int  # number of nodes in the term that has the fewest
    boots: int  # smallest number of boots of a term over all nodes; unknown boots of a node count as one
    jobs: int  # number of jobs in the term that has the fewest
    reason: str = ""  # key of MEANING if the variance is infinite


@dataclasses.dataclass
class _Cells:
    """Logarithms of a term, as the mean over jobs for each (node, occasion, boot), and the term's number of jobs."""

    values: dict[tuple, float]
    jobs: int

    @property
    def nodes(self) -> dict[str, list[float]]:
        return grouped((cell[0], value) for cell, value in self.values.items())

    def distinct(self, *fields: int) -> int:
        return len({tuple(cell[i] for i in fields) for cell in self.values})


def cells(jobs: Sequence[Job], occasion: dict[str, Any], sign: int = 1) -> _Cells:
    """Returns the cells of a series whose values are all above zero; a job's GPUs on one node count as one."""
    found = grouped(
        ((node, occasion[job.name], dict(job.boots).get(node)), (job.name, math.log(value)))
        for job in jobs
        for (node, _), value in job.places.items()
    )
    means = {}
    for cell, values in found.items():
        by_job = grouped(values)
        means[cell] = sign * float(np.mean([np.mean(each) for each in by_job.values()]))
    return _Cells(means, len(jobs))


def _clustered(parts: dict[tuple, float], fields: Sequence[int], fewest: int) -> float:
    """Returns the variance of a sum of parts that are clustered by these fields of their cells.

    `fewest` is the smallest number of clusters of any term.
    """
    if fewest < 2:
        return math.inf
    sums = grouped((tuple(cell[i] for i in fields), part) for cell, part in parts.items())
    return fewest / (fewest - 1) * sum(sum(values) ** 2 for values in sums.values())


def _joined(*found: tuple[float, float]) -> tuple[float, float]:
    """Joins variances clustered by node, by occasion and by both, each with its degrees of freedom, into one such pair.

    The joint variance is at least the mean of the first two: if nodes and occasions coincide, a smaller joint variance
    is due to chance.
    """
    (of_nodes, n), (of_occasions, m), _ = found
    joined, least = of_nodes + of_occasions - found[2][0], (of_nodes + of_occasions) / 2
    parts = found if joined >= least else ((of_nodes / 2, n), (of_occasions / 2, m))
    squares = sum(variance**2 / freedom for variance, freedom in parts)
    variance = max(joined, least)
    return variance, max(variance**2 / squares, 1.0) if squares > 0 else 1.0


def estimate(terms: Sequence[_Cells], weights: Sequence[float]) -> Estimate:
    """Estimates each term's mean over nodes of the means over boots, and the variance of the weighted sum of terms.

    Nodes and occasions are crossed. Their variances are joined as in Cameron, Gelbach and Miller, Robust inference with
    multiway clustering (2011); the degrees of freedom are Satterthwaite's.
    """
    logs: list[float] = []
    parts: dict[tuple, float] = {}
    for term, weight in zip(terms, weights):
        by_node = term.nodes
        middle = float(np.mean([np.mean(values) for values in by_node.values()]))
        logs.append(middle)
        for cell, value in term.values.items():
            share = weight / (len(by_node) * len(by_node[cell[0]]))
            parts[cell] = parts.get(cell, 0.0) + share * (value - middle)
    nodes, jobs = min(term.distinct(0) for term in terms), min(term.jobs for term in terms)
    boots, at = min(term.distinct(0, 2) for term in terms), min(term.distinct(1) for term in terms)
    of_occasions = _clustered(parts, (1,), at)
    if nodes == 1:
        no_boots = any(cell[2] is None for term in terms for cell in term.values)
        reason = "" if at > 1 and not no_boots else NO_BOOTS if no_boots else ONE_BOOT
        variance = math.inf if reason else of_occasions
        return Estimate(np.array(logs), variance, at - 1, 1, boots, jobs, reason)
    if at == 1:
        return Estimate(np.array(logs), math.inf, 0, nodes, boots, jobs, ONE_NIGHT)
    both = min(term.distinct(0, 1) for term in terms)
    of_nodes, of_both = _clustered(parts, (0,), nodes), _clustered(parts, (0, 1), both)
    variance, freedom = _joined((of_nodes, nodes - 1), (of_occasions, at - 1), (of_both, max(both - 1, 1)))
    return Estimate(np.array(logs), variance, freedom, nodes, boots, jobs)


# --- difference of two systems ---


def _freedom(a: Estimate, b: Estimate) -> float:
    """Returns Welch's degrees of freedom of a difference, or fewer.

    A variance from two boots is often far too small by chance. Therefore the result is also computed with the sides'
    shares of the variance moved halfway to the shares that their numbers of units predict; the smaller result counts.
    """
    seen = a.variance / (a.variance + b.variance)
    expected = (b.freedom + 1) / (a.freedom + b.freedom + 2)
    shares = (seen, (seen + expected) / 2)
    return min(1 / (share**2 / a.freedom + (1 - share) ** 2 / b.freedom) for share in shares)


def half(a: Estimate, b: Estimate, tail: float = (1 - rank_test.CONFIDENCE) / 2) -> float:
    """Returns half the width of the interval of two systems' difference; infinite if it is not identifiable."""
    variance = a.variance + b.variance
    if not math.isfinite(variance) or min(a.freedom, b.freedom) < 1:
        return math.inf
    return quantile(tail, _freedom(a, b)) * math.sqrt(variance) if variance > 0 else 0.0


def p_value(difference: float, a: Estimate, b: Estimate) -> float:
    """Returns the two-sided p-value of the hypothesis of no difference; 1 if it is not identifiable."""
    variance = a.variance + b.variance
    if not math.isfinite(variance) or min(a.freedom, b.freedom) < 1:
        return 1.0
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    t, freedom = difference / math.sqrt(variance), _freedom(a, b)
    return _between(lambda whole: max(rank_test.student_p(t, whole), 1e-300), freedom)


def quantile(tail: float, freedom: float) -> float:
    """Returns the quantile of Student's t for a fractional number of degrees of freedom."""
    return _between(lambda whole: rank_test.student_quantile(tail, whole), freedom)


def _between(of, freedom: float) -> float:
    """Interpolates a function of whole degrees of freedom, whose logarithm is nearly linear in their reciprocal."""
    whole = max(1, math.floor(freedom))
    low, high = (math.log(of(each)) for each in (whole, whole + 1))
    share = (1 / whole - 1 / max(freedom, whole)) * whole * (whole + 1)
    return math.exp(low + share * (high - low))
