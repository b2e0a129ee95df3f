"""Means of a system's figures, and how sure they are: by its nodes, their boots, and what nodes share.

Jobs of one boot share what that start gave them, jobs of one night what the machine room gave all nodes. So neither is
the unit of replication. A node counts once, as the mean of its boots, a boot as the mean of its jobs. The variance of
the mean over nodes comes from how unlike nodes are, and how unlike occasions are: nights, or restarts of all nodes.
Of one node it comes from its boots, and is of that node. What one boot, or one night of several nodes, cannot show is
not identifiable: then the variance is infinite and `Estimate.reason` says why.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from isthmus.groups import components, grouped
from isthmus.statistics import rank_test
from isthmus.statistics.series import Job

ONE_BOOT, ONE_NIGHT, NO_BOOTS = "one boot", "one night", "boots not known"
#: What each reason means, and what to do.
MEANING = {
    ONE_BOOT: "jobs of one boot do not show how unlike boots are: measure in two boots or more",
    ONE_NIGHT: "one night does not show what its nodes shared then: measure in two nights or more",
    NO_BOOTS: "the records do not say when the node was started: measure again with this Isthmus",
}
_PAUSE = datetime.timedelta(hours=6)  # between jobs of two nights, at least
_DAY = datetime.timedelta(days=1)  # a night is no longer


# --- occasions: what nodes share ---


def _time(job: Job) -> datetime.datetime:
    return job.time or datetime.datetime.min


def _nights(jobs: Sequence[Job]) -> dict[str, int]:
    """A number by job for the night that it began in; jobs are in the order of time."""
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
    """A number by job that counts how often all nodes had been started anew; jobs are in the order of time."""
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
    """A label for each job of a system, by its name: jobs of all nodes with one label share a night or a restart.

    Where it is not known when jobs ran, each boot is an occasion of its own, or each job.
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


# --- a mean and its variance ---


@dataclasses.dataclass
class Estimate:
    """A system's weighted mean of logarithms by term, and its variance with degrees of freedom."""

    logs: np.ndarray  # by term
    variance: float  # infinite where it is not identifiable
    freedom: float
    nodes: int  # fewest of a term, as are the others
    boots: int  # of all nodes; those not known count once a node
    jobs: int
    reason: str = ""  # of MEANING, where the variance is infinite


@dataclasses.dataclass
class _Cells:
    """Logarithms of a term by (node, occasion, boot), each the mean of its jobs, and how many jobs there are."""

    values: dict[tuple, float]
    jobs: int

    @property
    def nodes(self) -> dict[str, list[float]]:
        return grouped((cell[0], value) for cell, value in self.values.items())

    def distinct(self, *fields: int) -> int:
        return len({tuple(cell[i] for i in fields) for cell in self.values})


def cells(jobs: Sequence[Job], occasion: dict[str, Any], sign: int = 1) -> _Cells:
    """Of the jobs of a series, all above zero; GPUs of a node that a job used count as one value."""
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
    """Variance of a sum of parts that go together by these fields of their cells; a term has so many at least."""
    if fewest < 2:
        return math.inf
    sums = grouped((tuple(cell[i] for i in fields), part) for cell, part in parts.items())
    return fewest / (fewest - 1) * sum(sum(values) ** 2 for values in sums.values())


def _joined(*found: tuple[float, float]) -> tuple[float, float]:
    """Of variances by node, by occasion and by both, each with its degrees of freedom: the variance, and its own.

    It is no smaller than the mean of the first two: where nodes and occasions are alike, less of it is chance.
    """
    (of_nodes, n), (of_occasions, m), _ = found
    joined, least = of_nodes + of_occasions - found[2][0], (of_nodes + of_occasions) / 2
    parts = found if joined >= least else ((of_nodes / 2, n), (of_occasions / 2, m))
    squares = sum(variance**2 / freedom for variance, freedom in parts)
    variance = max(joined, least)
    return variance, max(variance**2 / squares, 1.0) if squares > 0 else 1.0


def estimate(terms: Sequence[_Cells], weights: Sequence[float]) -> Estimate:
    """Means over nodes of means over boots, and the variance of their weighted sum.

    Nodes and occasions are crossed, and their variances are joined as Cameron, Gelbach and Miller do (Robust inference
    with multiway clustering, 2011); the degrees of freedom are Satterthwaite's.
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


# --- the difference of two systems ---


def _freedom(a: Estimate, b: Estimate) -> float:
    """Welch's degrees of freedom of a difference, no more than where either side's share is drawn to what its number
    of units lets expect: of two boots the variance is often far too small by chance."""
    seen = a.variance / (a.variance + b.variance)
    expected = (b.freedom + 1) / (a.freedom + b.freedom + 2)
    shares = (seen, (seen + expected) / 2)
    return min(1 / (share**2 / a.freedom + (1 - share) ** 2 / b.freedom) for share in shares)


def half(a: Estimate, b: Estimate, tail: float = (1 - rank_test.CONFIDENCE) / 2) -> float:
    """Half of the interval of the difference of two systems; infinite where it is not identifiable."""
    variance = a.variance + b.variance
    if not math.isfinite(variance) or min(a.freedom, b.freedom) < 1:
        return math.inf
    return quantile(tail, _freedom(a, b)) * math.sqrt(variance) if variance > 0 else 0.0


def p_value(difference: float, a: Estimate, b: Estimate) -> float:
    """Two-sided p of no difference; 1 where it is not identifiable."""
    variance = a.variance + b.variance
    if not math.isfinite(variance) or min(a.freedom, b.freedom) < 1:
        return 1.0
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    t, freedom = difference / math.sqrt(variance), _freedom(a, b)
    return _between(lambda whole: max(rank_test.student_p(t, whole), 1e-300), freedom)


def quantile(tail: float, freedom: float) -> float:
    """Student's t of fractional degrees of freedom."""
    return _between(lambda whole: rank_test.student_quantile(tail, whole), freedom)


def _between(of, freedom: float) -> float:
    """A function of whole degrees of freedom at fractional ones: its logarithm is nearly linear in their reciprocal."""
    whole = max(1, math.floor(freedom))
    low, high = (math.log(of(each)) for each in (whole, whole + 1))
    share = (1 / whole - 1 / max(freedom, whole)) * whole * (whole + 1)
    return math.exp(low + share * (high - low))
