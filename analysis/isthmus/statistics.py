"""What comparing needs: an exact test of ranks within nodes, its interval, correction for many metrics, and planning.

The unit is the job: one value per job, the median of what it measured. Jobs of one node (a *stratum*) are compared with
each other only, so a slow node is no regression. Everything here is exact or seeded: the same input gives the same
verdict. docs/statistics.md says why these, and what they assume.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from statistics import NormalDist

import numpy as np

ALPHA = 0.01  # false alarms of one metric
SESSION = 0.05  # of all metrics of a session together
CONFIDENCE = 0.95
POWER = 0.9
_EXACT, _EXACT_ALL = 64, 400  # jobs of a stratum, and of all, up to which the null is counted; beyond, it is normal
_DRAWS = 20_000  # simulated comparisons per planned size: the power's standard error is 0.2%


# --- the null distribution ---


def _subset_sums(weights: np.ndarray, size: int) -> np.ndarray:
    """Shares of the subsets of `size` of the whole numbers `weights` by their sum (Streitberg and Röhmel 1986)."""
    counts = np.zeros((size + 1, int(weights.sum()) + 1))
    counts[0, 0] = 1
    for weight in weights:
        counts[1:, weight:] += counts[:-1, : counts.shape[1] - weight].copy()
    return counts[size] / math.comb(len(weights), size)


@functools.lru_cache(maxsize=256)
def _untied(n: int, m: int) -> np.ndarray:
    """Shares of twice the number of pairs (a, b) with a < b, for n and m values without ties."""
    ranks = _subset_sums(np.arange(1, n + m + 1), m)
    pairs = ranks[m * (m + 1) // 2 : m * (m + 1) // 2 + n * m + 1]
    result = np.zeros(2 * n * m + 1)
    result[::2] = pairs
    return result


def _doubled_midranks(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1


def _stratum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Null distribution of twice the pairs with a < b (ties count half, hence twice), given the values seen."""
    together = np.concatenate([a, b])
    n, m = len(a), len(b)
    if len(np.unique(together)) == n + m:
        return _untied(n, m)
    sums = _subset_sums(_doubled_midranks(together), m)
    return sums[m * (m + 1) : m * (m + 1) + 2 * n * m + 1]


def _counted(sizes: tuple[tuple[int, int], ...]) -> bool:
    """Whether the null distribution of such strata is counted."""
    totals = [n + m for n, m in sizes]
    return max(totals) <= _EXACT and sum(totals) <= _EXACT_ALL


def _doubled_wins(a: np.ndarray, b: np.ndarray) -> int:
    return int(2 * np.count_nonzero(a[:, None] < b) + np.count_nonzero(a[:, None] == b))


def _normal_moments(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Mean and variance of twice the pairs with a < b, with the correction for ties."""
    n, m = len(a), len(b)
    _, ties = np.unique(np.concatenate([a, b]), return_counts=True)
    total = n + m
    spread = (total + 1) - float((ties**3 - ties).sum()) / (total * (total - 1))
    return float(n * m), n * m * spread / 3


def _convolved(distributions) -> np.ndarray:
    return functools.reduce(np.convolve, distributions)


@functools.lru_cache(maxsize=256)
def _design(sizes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Shares of the pairs with a < b over all strata, without ties."""
    return _convolved(_untied(n, m)[::2] for n, m in sizes)


def p_value(strata: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Two-sided p of 'a and b are alike within every stratum' (van Elteren's design, pairs of equal weight).

    Exact given the values, whatever their distribution; normal for more than 64 jobs in a stratum or 400 in all.
    """
    wins = sum(_doubled_wins(a, b) for a, b in strata)
    if _counted(tuple((len(a), len(b)) for a, b in strata)):
        null = _convolved([_stratum(a, b) for a, b in strata])
        low, high = null[: wins + 1].sum(), null[wins:].sum()
        return float(min(1.0, 2 * min(low, high) + 1e-15))
    moments = [_normal_moments(a, b) for a, b in strata]
    mean, variance = sum(m for m, _ in moments), sum(v for _, v in moments)
    if variance == 0:
        return 1.0
    return math.erfc(max(abs(wins - mean) - 1, 0) / math.sqrt(2 * variance))


def p_values(sizes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Two-sided p by the number of pairs with a < b, for strata of (n, m) values without ties."""
    null = _design(sizes)
    below = np.cumsum(null)
    return np.minimum(1, 2 * np.minimum(below, below[::-1]))


def wins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pairs with a < b within strata, for many comparisons at once: (…, strata, n) and (…, strata, m) to (…)."""
    total = np.zeros(a.shape[:-2], np.int32)
    for i in range(a.shape[-1]):
        total += np.count_nonzero(a[..., i, None] < b, axis=(-2, -1))
    return total


def _lower_quantile(sizes: tuple[tuple[int, int], ...], tail: float) -> int:
    """How many pairs may be cut off at an end: the largest k with P(fewer than k) at most `tail`."""
    if _counted(sizes):
        return int(np.searchsorted(np.cumsum(_design(sizes)), tail * (1 + 1e-12), "right"))
    mean = sum(n * m for n, m in sizes) / 2
    spread = math.sqrt(sum(n * m * (n + m + 1) for n, m in sizes) / 12)
    return max(0, math.floor(mean + NormalDist().inv_cdf(tail) * spread))


# --- comparing ---


@dataclasses.dataclass(frozen=True)
class Comparison:
    """B against A: a factor (logarithms were compared) or a difference."""

    estimate: float  # Hodges and Lehmann's: the median of b - a over the pairs of a stratum
    low: float  # of the 95% interval; infinite where there are too few jobs for one
    high: float
    p: float


def compare(strata: list[tuple[np.ndarray, np.ndarray]]) -> Comparison:
    """Compares values a and b of each stratum; the shift, its interval and p belong together, so never disagree."""
    strata = [(np.asarray(a, float), np.asarray(b, float)) for a, b in strata]
    differences = np.sort(np.concatenate([(b - a[:, None]).ravel() for a, b in strata]))
    cut = _lower_quantile(tuple((len(a), len(b)) for a, b in strata), (1 - CONFIDENCE) / 2)
    low, high = (differences[cut - 1], differences[-cut]) if cut else (-math.inf, math.inf)
    return Comparison(float(np.median(differences)), float(low), float(high), p_value(strata))


def spread(strata: list[np.ndarray]) -> float:
    """Standard deviation between jobs within strata, robust: from the median distance of two jobs; NaN below two."""
    distances = [np.abs(x[:, None] - x)[np.triu_indices(len(x), 1)] for x in map(np.asarray, strata) if len(x) > 1]
    return float(np.median(np.concatenate(distances)) / 0.9539) if distances else math.nan


def adjusted(p: np.ndarray) -> np.ndarray:
    """Benjamini and Hochberg's adjusted p: below q, the expected share of false ones among those found is below q."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    result = np.empty_like(p)
    result[order] = np.minimum(1, np.minimum.accumulate(raised[::-1])[::-1])
    return result


# --- planning ---


def threshold(metrics: int) -> float:
    """The p that one changed metric among so many must reach by itself."""
    return min(ALPHA, SESSION / max(metrics, 1))


@functools.lru_cache(maxsize=64)
def _draws(n: int, strata: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng([n, strata])
    return tuple(chance.standard_normal((2, _DRAWS, strata, n), dtype=np.float32))


def power(step: float, jobs: int, *, strata: int = 1, metrics: int = 1) -> float:
    """Chance to find a step of so many standard deviations between jobs, with `jobs` a side in each of the strata."""
    cut = _lower_quantile(((jobs, jobs),) * strata, threshold(metrics) / 2)
    if cut == 0:
        return 0.0
    a, b = _draws(jobs, strata)
    found = wins(a, b + np.float32(step))
    pairs = strata * jobs * jobs
    return float(np.mean((found >= pairs - cut + 1) | (found <= cut - 1)))


@functools.lru_cache(maxsize=1024)
def _jobs_needed(step: float, strata: int, metrics: int, wanted: float) -> int:
    z = NormalDist().inv_cdf(1 - threshold(metrics) / 2) + NormalDist().inv_cdf(wanted)
    total = 2 * math.pi / 3 * (z / step) ** 2  # a side, all strata; Noether's, for normal noise
    about = math.ceil(total / strata)
    if about > 40:
        return about
    jobs = max(1, about // 2)
    while power(step, jobs, strata=strata, metrics=metrics) < wanted + 0.005:
        jobs += 1
    return jobs


def jobs_needed(step: float, *, strata: int = 1, metrics: int = 1, wanted: float = POWER) -> int:
    """Jobs a side in each stratum that find a step of so many standard deviations with the wanted power."""
    if not step > 0:
        raise ValueError("a step must be above 0")
    return _jobs_needed(min(max(round(step, 2), 0.01), 100.0), strata, metrics, wanted)


# --- the next job ---


def _student_tail(t: float, freedom: int) -> float:
    """P(T > t) of Student's t with whole degrees of freedom: the finite series of Abramowitz and Stegun 26.7.3-4."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine2, sine = math.cos(angle) ** 2, math.sin(angle)
    odd = freedom % 2
    term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
    for k in range((freedom - odd) // 2):
        total += term
        term *= cosine2 * ((2 * k + 2) / (2 * k + 3) if odd else (2 * k + 1) / (2 * k + 2))
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 - inside) / 2


@functools.lru_cache(maxsize=1024)
def student_quantile(tail: float, freedom: int) -> float:
    """The t that Student's distribution with so many degrees of freedom exceeds with this probability, ≤ 0.5."""
    if not (1e-9 <= tail <= 0.5 and freedom >= 1):
        raise ValueError("a tail is between 1e-9 and 0.5")
    low, high = 0.0, 1.0
    while _student_tail(high, freedom) > tail:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_tail(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What one more job will give, from jobs of some nodes: a mean, and how far a value may be from it by chance."""

    mean: float
    spread: float  # standard deviation of (one more job - mean)
    mean_spread: float  # of the mean
    freedom: int

    def distance(self, tail: float) -> float:
        """The distance that one more job exceeds, to one side, with this probability where noise is normal."""
        return self.spread * student_quantile(tail, self.freedom)


def predict(nodes: list[np.ndarray]) -> Prediction:
    """Of a job on any node, from the values of each node's jobs; two jobs or more in all.

    Variances between nodes and within them are told apart (one-way analysis of variance) where there is more than
    one node with several jobs; their sum has Satterthwaite's degrees of freedom, rounded down. Where nodes do not
    differ more than their jobs explain, all jobs are one sample.
    """
    nodes = [np.asarray(x, float) for x in nodes if len(x)]
    every = np.concatenate(nodes)
    n, k = len(every), len(nodes)
    pooled = float(np.var(every, ddof=1))
    mean = float(np.mean(every))
    plain = Prediction(mean, math.sqrt(pooled * (1 + 1 / n)), math.sqrt(pooled / n), n - 1)
    if k < 2 or n <= k:
        return plain
    sizes = np.array([len(x) for x in nodes])
    means = np.array([x.mean() for x in nodes])
    within = sum(float(((x - x.mean()) ** 2).sum()) for x in nodes) / (n - k)
    among = float((sizes * (means - mean) ** 2).sum()) / (k - 1)
    size = (n - (sizes**2).sum() / n) / (k - 1)
    if among <= within:
        return plain
    between = (among - within) / size
    of_mean = between * float((sizes**2).sum()) / n**2 + within / n
    parts = among / size, (1 - 1 / size) * within
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (k - 1) + parts[1] ** 2 / (n - k))
    return Prediction(mean, math.sqrt(between + within + of_mean), math.sqrt(of_mean), max(1, math.floor(freedom)))
