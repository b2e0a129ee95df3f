"""Exact rank test within nodes, with its interval, a correction for many metrics, and planning.

The unit is the job, with one value: the median of its measurements. Jobs of one node (a *stratum*) are compared only
with each other, so a slow node is not mistaken for a regression. All methods are exact or seeded, so the same input
always produces the same verdict. docs/statistics.md explains the choice of methods and their assumptions.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from scipy import special

ALPHA = 0.01  # rate of false alarms for one metric
SESSION = 0.05  # rate of false alarms for all metrics of a session together
CONFIDENCE = 0.95
BOUND = 0.95  # confidence of each end of an interval that decides a verdict
POWER = 0.9
NOISIER = 2.0  # minimum ratio of a stratum's spread to that of the others at which the stratum is reported
MOST = 1000  # maximum number of units per side that can be run; if more are needed, a change cannot be found
# Maximum numbers of jobs in a stratum, and in all, for an exact null distribution; for more, a normal one is used.
_EXACT, _EXACT_ALL = 64, 400
_SIMULATED = 60  # maximum number of jobs per side in all strata for a simulation of the power (10 MB, 0.3 s)
_DRAWS = 20_000  # number of simulated comparisons per planned size; the standard error of the power is 0.2%


# --- null distribution ---


def _subset_sums(weights: np.ndarray, size: int) -> np.ndarray:
    """Returns, for each sum, the share of subsets of `size` of the integers `weights` (Streitberg and Röhmel 1986)."""
    counts = np.zeros((size + 1, int(weights.sum()) + 1))
    counts[0, 0] = 1
    for weight in weights:
        counts[1:, weight:] += counts[:-1, : counts.shape[1] - weight].copy()
    return counts[size] / math.comb(len(weights), size)


@functools.lru_cache(maxsize=256)
def _untied(n: int, m: int) -> np.ndarray:
    """Returns the distribution of twice the number of pairs (a, b) with a < b, for n and m values without ties."""
    ranks = _subset_sums(np.arange(1, n + m + 1), m)
    pairs = ranks[m * (m + 1) // 2 : m * (m + 1) // 2 + n * m + 1]
    result = np.zeros(2 * n * m + 1)
    result[::2] = pairs
    return result


def _doubled_midranks(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1


def _stratum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the null distribution of twice the number of pairs with a < b, given the values.

    The number is doubled because ties count half.
    """
    together = np.concatenate([a, b])
    n, m = len(a), len(b)
    if len(np.unique(together)) == n + m:
        return _untied(n, m)
    sums = _subset_sums(_doubled_midranks(together), m)
    return sums[m * (m + 1) : m * (m + 1) + 2 * n * m + 1]


def _counted(sizes: tuple[tuple[int, int], ...]) -> bool:
    """Returns whether the null distribution of strata with these sizes is computed exactly."""
    totals = [n + m for n, m in sizes]
    return max(totals) <= _EXACT and sum(totals) <= _EXACT_ALL


def _normal_moments(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Returns the mean and variance of twice the number of pairs with a < b, corrected for ties."""
    n, m = len(a), len(b)
    _, ties = np.unique(np.concatenate([a, b]), return_counts=True)
    total = n + m
    spread = (total + 1) - float((ties**3 - ties).sum()) / (total * (total - 1))
    return float(n * m), n * m * spread / 3


@functools.lru_cache(maxsize=256)
def _design(sizes: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Returns the distribution of the number of pairs with a < b in all strata, for values without ties."""
    return functools.reduce(np.convolve, (_untied(n, m)[::2] for n, m in sizes))


def p_value(strata: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Returns the two-sided p of the hypothesis that a and b are alike within every stratum (van Elteren's design).

    All pairs have equal weight. p is exact given the values, regardless of their distribution; for more than 64 jobs in
    a stratum or 400 in all, it is a normal approximation.
    """
    wins = sum(int(np.count_nonzero(a[:, None] < b) + np.count_nonzero(a[:, None] <= b)) for a, b in strata)
    if _counted(tuple((len(a), len(b)) for a, b in strata)):
        null = functools.reduce(np.convolve, (_stratum(a, b) for a, b in strata))
        low, high = null[: wins + 1].sum(), null[wins:].sum()
        return float(min(1.0, 2 * min(low, high) + 1e-15))
    moments = [_normal_moments(a, b) for a, b in strata]
    mean, variance = sum(m for m, _ in moments), sum(v for _, v in moments)
    if variance == 0:
        return 1.0
    return math.erfc(max(abs(wins - mean) - 1, 0) / math.sqrt(2 * variance))


def smallest_p(sizes: tuple[tuple[int, int], ...]) -> float:
    """Returns the smallest p that strata of (n, m) values can reach, which is that of complete separation."""
    return min(1.0, 2 * math.exp(-sum(math.log(math.comb(n + m, n)) for n, m in sizes)))


def wanted_a_side(strata: int, p: float) -> int:
    """Returns the minimum number of values per side in each stratum with which p can be reached."""
    wanted = 1
    while smallest_p(((wanted, wanted),) * strata) > p:
        wanted += 1
    return wanted


def wins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Counts pairs with a < b within strata, for many comparisons: a (…, strata, n), b (…, strata, m), result (…)."""
    total = np.zeros(a.shape[:-2], np.int32)
    for i in range(a.shape[-1]):
        total += np.count_nonzero(a[..., i, None] < b, axis=(-2, -1))
    return total


def cut(sizes: tuple[tuple[int, int], ...], tail: float) -> int:
    """Returns how many pairs to cut off at each end: the largest k for which P(fewer than k) is at most `tail`."""
    if _counted(sizes):
        return int(np.searchsorted(np.cumsum(_design(sizes)), tail * (1 + 1e-12), "right"))
    mean = sum(n * m for n, m in sizes) / 2
    spread = math.sqrt(sum(n * m * (n + m + 1) for n, m in sizes) / 12)
    return max(0, math.floor(mean + NormalDist().inv_cdf(tail) * spread))


# --- comparison ---


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Comparison of B with A as a difference, or as the logarithm of a factor if logarithms were compared."""

    estimate: float  # median of b - a over all pairs within strata (Hodges and Lehmann)
    low: float  # lower end of the interval; infinite if there are too few jobs
    high: float
    p: float


def compare(strata: list[tuple[np.ndarray, np.ndarray]], confidence: float = CONFIDENCE) -> Comparison:
    """Compares values a and b of each stratum; estimate, interval and p come from one test, so they never disagree."""
    strata = [(np.asarray(a, float), np.asarray(b, float)) for a, b in strata]
    differences = np.sort(np.concatenate([(b - a[:, None]).ravel() for a, b in strata]))
    outside = cut(tuple((len(a), len(b)) for a, b in strata), (1 - confidence) / 2)
    low, high = (differences[outside - 1], differences[-outside]) if outside else (-math.inf, math.inf)
    return Comparison(float(np.median(differences)), float(low), float(high), p_value(strata))


def distance(strata: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Returns Student's t: the distance between the means of a (…, n) and b (…, m) in pooled standard errors.

    If every stratum has one value per side, the error is estimated from differences between the strata's changes. The
    distance is infinite if the error cannot be estimated.
    """
    weights = [a.shape[-1] * b.shape[-1] / (a.shape[-1] + b.shape[-1]) for a, b in strata]
    steps = [b.mean(axis=-1) - a.mean(axis=-1) for a, b in strata]
    step = sum(w * d for w, d in zip(weights, steps)) / sum(weights)
    freedom = sum(a.shape[-1] + b.shape[-1] - 2 for a, b in strata)
    if freedom:
        squares = sum(((x - x.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1) for pair in strata for x in pair)
        error = np.sqrt(squares / freedom / sum(weights))
    elif len(strata) > 1:
        error = np.std(steps, axis=0, ddof=1) / math.sqrt(len(strata))
    else:
        return np.full(np.shape(step), math.inf)
    return in_errors(step, error)


def in_errors(step, error):
    """Returns how many standard errors a step is from zero; infinite if the quotient overflows."""
    with np.errstate(over="ignore"):
        return np.abs(step) / np.maximum(error, 1e-300)


def _signed_null(doubled: np.ndarray) -> np.ndarray:
    """Returns the null distribution of the sum of the doubled ranks with a positive sign, if signs are random."""
    null = np.ones(1)
    for rank in doubled:
        raised = np.zeros(len(null) + rank)
        raised[: len(null)] += null / 2
        raised[rank:] += null / 2
        null = raised
    return null


def fewest_pairs(p: float) -> int:
    """Returns the minimum number of pairs for which compare_pairs() can return a p this small."""
    return math.ceil(1 - math.log2(p) - 1e-12)


def compare_pairs(differences: np.ndarray, confidence: float = CONFIDENCE) -> Comparison:
    """Compares B with A, given the differences b - a of pairs (n,) in random order, with Wilcoxon's signed-rank test.

    The test is exact, with doubled midranks for ties and without zeros; for more than 200 pairs it is a normal
    approximation. The estimate and the interval come from the means of two differences (Hodges and Lehmann).
    """
    d = np.asarray(differences, float)
    n, tail = len(d), (1 - confidence) / 2
    means = np.sort(((d[:, None] + d) / 2)[np.triu_indices(n)])
    signed = d[d != 0]
    doubled = _doubled_midranks(np.abs(signed)) if len(signed) else np.zeros(0, int)
    won = int(doubled[signed > 0].sum())
    if n <= _EXACT_ALL // 2:
        null = _signed_null(doubled)
        p = 2 * min(null[: won + 1].sum(), null[won:].sum())
        outside = int(np.searchsorted(np.cumsum(_signed_null(np.arange(1, n + 1))), tail * (1 + 1e-12), "right"))
    else:
        deviation = math.sqrt(float((doubled.astype(float) ** 2).sum()) / 4)
        p = math.erfc(max(abs(won - doubled.sum() / 2) - 1, 0) / deviation / math.sqrt(2)) if deviation else 1.0
        quantile = NormalDist().inv_cdf(tail) * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        outside = max(0, math.floor(n * (n + 1) / 4 + quantile))
    low, high = (means[outside - 1], means[-outside]) if outside else (-math.inf, math.inf)
    return Comparison(float(np.median(means)), float(low), float(high), float(min(1.0, p + 1e-15)))


def spread(strata: list[np.ndarray]) -> float:
    """Returns a robust standard deviation between jobs within strata, based on the median distance of two jobs.

    Returns NaN if no stratum has two jobs.
    """
    distances = [np.abs(x[:, None] - x)[np.triu_indices(len(x), 1)] for x in map(np.asarray, strata) if len(x) > 1]
    return float(np.median(np.concatenate(distances)) / 0.9539) if distances else math.nan


def noisier(strata: list[np.ndarray], tests: int = 1) -> list[int]:
    """Returns the indices of strata that vary at least NOISIER times as much as the others, and more than by chance.

    Distances from a stratum's median are ranked against those of the others, so the distribution does not matter.
    Distances are scaled by the strata's sizes, because the median of few values is close to them. `tests` is the number
    of tests in a session.
    """
    if len(strata) < 2:
        return []
    away = [np.abs(x - np.median(x)) * math.sqrt(len(x) / max(len(x) - 1, 1)) for x in strata]
    found = []
    for i, own in enumerate(strata):
        others = [x for j, x in enumerate(strata) if j != i]
        if not spread([own]) > 0 or not spread([own]) >= NOISIER * spread(others):
            continue
        pooled = np.concatenate([x for j, x in enumerate(away) if j != i and len(x) > 1])
        if p_value([(pooled, away[i])]) * len(strata) * tests <= SESSION:
            found.append(i)
    return found


@functools.lru_cache(maxsize=64)
def spread_factors(sizes: tuple[int, ...]) -> tuple[float, float]:
    """Returns the factors by which spread() must be multiplied for the ends of its 95% interval.

    They are simulated once for strata of these sizes and normal noise.
    """
    chance = np.random.default_rng(1)
    drawn = [spread([chance.standard_normal(size) for size in sizes]) for _ in range(4000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(1 / high), float(1 / low)


def adjusted(p: np.ndarray) -> np.ndarray:
    """Returns Benjamini and Hochberg's adjusted p: of findings below q, on average at most a share q is false."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    result = np.empty_like(p)
    result[order] = np.minimum(1, np.minimum.accumulate(raised[::-1])[::-1])
    return result


# --- exchangeability ---

_ORDERS = 999  # number of random orders with which the actual order is compared
ORDER_ALPHA = 0.005
HARMLESS = 0.05  # maximum autocorrelation for which the rates below are correct (docs/statistics.md)
SEEN = 0.3  # autocorrelation that must be found with a power of 90% before units are called exchangeable
_LONGEST = 1000  # maximum number of units of a side and stratum that are examined; the last ones are


@dataclasses.dataclass(frozen=True)
class Order:
    """Effect of the order of a side's units in time, pooled over metrics."""

    units: int  # number of units in sequences of three or more
    metrics: int
    autocorrelation: float  # autocorrelation at lag 1, corrected for its bias in short sequences
    p: float
    trend_p: float
    testable: bool  # true if an autocorrelation of SEEN would be found
    together: bool = False  # true if metrics move together, so that many contain little more information than one

    @property
    def guarded(self) -> bool:
        """True if many metrics may be wrong at the same time without being noticed."""
        return self.together and not self.testable

    @property
    def autocorrelated(self) -> bool:
        return self.p <= ORDER_ALPHA and self.autocorrelation > HARMLESS

    @property
    def drifts(self) -> bool:
        return self.trend_p <= ORDER_ALPHA

    @property
    def bars(self) -> bool:
        """True if the order of units prevents any decision."""
        return self.autocorrelated or self.drifts


@functools.lru_cache(maxsize=256)
def _orders(n: int) -> np.ndarray:
    """Returns the actual order of n units, followed by random orders: (1 + _ORDERS, n)."""
    chance = np.random.default_rng([n, 0])
    orders = np.tile(np.arange(n), (1 + _ORDERS, 1))
    orders[1:] = chance.permuted(orders[1:], axis=1)
    return orders


@functools.lru_cache(maxsize=256)
def _lag_one(n: int, phi: float) -> float:
    """Returns the expected lag-1 autocorrelation of n centred values of a first-order autoregression."""
    steps = np.arange(n)
    centred = np.eye(n) - 1 / n
    covariance = centred @ phi ** np.abs(steps[:, None] - steps) @ centred
    return float(np.trace(covariance, 1) / np.trace(covariance))


def _scores(values: np.ndarray) -> np.ndarray:
    """Returns the ranks in each row, scaled to mean 0 and variance 1; 0 for missing values, and if all are equal."""
    there = np.isfinite(values)
    ranks = np.array([_doubled_midranks(row) for row in np.where(there, values, np.inf)], float)
    ranks[~there] = np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        counts = there.sum(1, keepdims=True)
        ranks = ranks - np.nansum(ranks, axis=1, keepdims=True) / counts
        ranks /= np.sqrt(np.nansum(ranks**2, axis=1, keepdims=True) / (counts - 1))
    return np.nan_to_num(ranks, nan=0.0, posinf=0.0, neginf=0.0)


def order(groups: list[np.ndarray]) -> Order:
    """Tests lag-1 autocorrelation and trend in groups of values (metrics, units ordered by time), NaN if missing.

    All metrics, and all sequences of the same length, are permuted in the same way, so that dependent metrics and nodes
    do not count as independent. The tests are exact if units are exchangeable. They are fast, since only products of
    units summed over metrics are needed.
    """
    groups = [group[:, -_LONGEST:] for group in groups if group.shape[1] >= 3]
    lags, trends = np.zeros(1 + _ORDERS), np.zeros(1 + _ORDERS)
    total = 0.0
    expected = alternative = 0.0
    for group in groups:
        n = group.shape[1]
        scores = _scores(group)
        products = scores.T @ scores
        orders = _orders(n)
        lags = lags + products[orders[:, :-1], orders[:, 1:]].sum(1)
        times = (np.arange(n) - (n - 1) / 2) / math.sqrt(n * (n * n - 1) / 12)
        placed = np.empty(orders.shape)
        np.put_along_axis(placed, orders, np.broadcast_to(times, orders.shape), 1)
        trends = trends + ((placed @ products) * placed).sum(1)
        weight = float(np.trace(products))
        total += weight
        expected += weight * -1 / n
        alternative += weight * _lag_one(n, SEEN)
    units = sum(group.shape[1] for group in groups)
    metrics = max((len(group) for group in groups), default=0)
    if total == 0:
        return Order(units, metrics, math.nan, 1.0, 1.0, False)
    deviation = float(np.std(lags[1:]))
    needed = NormalDist().inv_cdf(1 - ORDER_ALPHA) + NormalDist().inv_cdf(POWER)
    testable = bool((alternative - expected) / max(deviation, 1e-12) >= needed)
    p, trend_p = (float(np.mean(found >= found[0] - 1e-9)) for found in (lags, trends))
    return Order(units, metrics, float((lags[0] - expected) / total), p, trend_p, testable, move_together(groups))


TOGETHER = 0.05  # mean squared correlation of pairs of metrics, minus that of chance, above which they move together


def move_together(groups: list[np.ndarray]) -> bool:
    """Returns whether metrics of the same units are correlated; groups have values (metrics, units), NaN if missing.

    All groups have the same rows. Each group is centred separately. The sum of the squared correlations of all pairs of
    metrics is computed from the products of units.
    """
    groups = [group[:, -_LONGEST:] for group in groups if group.shape[1] >= 3]
    if not groups or len({len(group) for group in groups}) > 1 or len(groups[0]) < 2:
        return False
    scores = np.concatenate([_scores(group) for group in groups], axis=1)
    length = np.sqrt((scores**2).sum(axis=1))
    scores = scores[length > 0] / length[length > 0, None]
    pairs = len(scores) * (len(scores) - 1)
    if not pairs:
        return False
    products = scores.T @ scores
    alike = (float((products**2).sum()) - len(scores)) / pairs
    chance = 1 / sum(group.shape[1] - 1 for group in groups)
    return alike - chance > TOGETHER + 2 * chance * math.sqrt(4 / pairs)


# --- planning ---


def threshold(metrics: int) -> float:
    """Returns the p that a single changed metric among `metrics` must reach."""
    return min(ALPHA, SESSION / max(metrics, 1))


@functools.lru_cache(maxsize=64)
def _draws(n: int, strata: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng([n, strata])
    return tuple(chance.standard_normal((2, _DRAWS, strata, n), dtype=np.float32))


def simulated(jobs: int, strata: int = 1) -> bool:
    """Returns whether power() simulates the test for this many jobs; for more, a normal approximation is as good."""
    return jobs * strata <= _SIMULATED


def _normal_power(step: float, jobs: int, strata: int, cut: int) -> float:
    """Returns the power if values are normal and those of one side are `step` standard deviations higher.

    The number of pairs that the higher side wins is assumed to be normal, with its mean and variance for that step
    (Lehmann, Nonparametrics, 1975, section 2.3). From 30 jobs per side on, this is within 0.5% of the simulated power.
    """
    normal = NormalDist()
    x = np.linspace(-8, 8, 801)
    density = np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    won = normal.cdf(step / math.sqrt(2))
    # Probability that a value wins against two values of the other side.
    both = float(density @ np.array([normal.cdf(value + step) for value in x]) ** 2)
    pairs = strata * jobs * jobs
    variance = pairs * (won * (1 - won) + 2 * (jobs - 1) * (both - won * won))
    return normal.cdf((pairs * won - (pairs - cut + 0.5)) / math.sqrt(max(variance, 1e-12)))


@functools.lru_cache(maxsize=4096)
def power(step: float, jobs: int, *, strata: int = 1, metrics: int = 1, margin: float = 0.0) -> float:
    """Returns the power to find a step with `jobs` per side in each stratum.

    A change counts as found if p and q are significant and its interval is beyond the margin. Step and margin are in
    standard deviations between jobs.
    """
    sizes = ((jobs, jobs),) * strata
    cut_p, cut_margin = cut(sizes, threshold(metrics) / 2), cut(sizes, 1 - BOUND)
    if cut_p == 0 or cut_margin == 0:
        return 0.0
    if not simulated(jobs, strata):
        return min(_normal_power(step, jobs, strata, cut_p), _normal_power(step - margin, jobs, strata, cut_margin))
    a, b = _draws(jobs, strata)
    pairs = strata * jobs * jobs
    found = wins(a, b + np.float32(step)) >= pairs - cut_p + 1
    if margin > 0:
        found &= wins(a, b + np.float32(step - margin)) >= pairs - cut_margin + 1
    return float(np.mean(found))


@functools.lru_cache(maxsize=1024)
def _jobs_needed(step: float, strata: int, metrics: int, wanted: float, margin: float) -> int:
    quantile = NormalDist().inv_cdf
    distances = [(quantile(1 - threshold(metrics) / 2) + quantile(wanted)) / step]
    distances.append((quantile(BOUND) + quantile(wanted)) / (step - margin))
    total = 2 * math.pi / 3 * max(distances) ** 2  # jobs per side in all strata, by Noether's formula for normal noise
    about = math.ceil(total / strata)
    if about > 40:
        return about
    jobs = max(1, about // 2)
    while power(step, jobs, strata=strata, metrics=metrics, margin=margin) < wanted + 0.005:
        jobs += 1
    return jobs


def jobs_needed(step: float, *, strata: int = 1, metrics: int = 1, wanted: float = POWER, margin: float = 0.0) -> int:
    """Returns the number of jobs per side in each stratum with which a step is found with the power `wanted`.

    `step` and `margin` are in standard deviations between jobs. Raises ValueError unless 0 ≤ margin < step.
    """
    if not step > margin >= 0:
        raise ValueError("a step must be above 0, and above the margin")
    margin = round(min(margin, 100.0), 2)
    return _jobs_needed(min(max(round(step, 2), margin + 0.01), 200.0), strata, metrics, wanted, margin)


# --- prediction of the next job ---


def student_p(t: float, freedom: int) -> float:
    """Returns the two-sided p of Student's t, at least 1e-15."""
    return max(2 * float(special.stdtr(freedom, -abs(t))), 1e-15) if math.isfinite(t) else 1e-15


@functools.lru_cache(maxsize=1024)
def student_quantile(tail: float, freedom: int) -> float:
    """Returns the value that Student's t exceeds with probability `tail`, 1e-9 to 0.5. Raises ValueError otherwise."""
    if not (1e-9 <= tail <= 0.5 and freedom >= 1):
        raise ValueError("a tail is between 1e-9 and 0.5")
    return -float(special.stdtrit(freedom, tail))


def ratio_interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Returns the geometric mean of two or more ratios and its 95% interval (Student's, computed on logarithms)."""
    log = np.log(np.asarray(ratios, dtype=float))
    width = student_quantile(0.025, len(log) - 1) * log.std(ddof=1) / math.sqrt(len(log))
    mean = float(log.mean())
    return math.exp(mean), math.exp(mean - width), math.exp(mean + width)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Prediction of the next job's value: the mean, and how far chance may move the value from it."""

    mean: float
    spread: float  # standard deviation of the difference between the next job and the mean
    mean_spread: float  # standard deviation of the mean
    freedom: int

    def distance(self, tail: float) -> float:
        """Returns the distance from the mean, on one side, that the next job exceeds with probability `tail`.

        Normal noise is assumed.
        """
        return self.spread * student_quantile(tail, self.freedom)


def predict(nodes: list[np.ndarray]) -> Prediction:
    """Predicts the value of a job on any node from the values of each node's jobs, at least two in all.

    If there are several nodes and at least one has several jobs, variances between and within nodes are estimated
    separately (one-way analysis of variance); their sum has Satterthwaite's degrees of freedom, rounded down. If nodes
    do not differ more than their jobs explain, all jobs are treated as one sample.
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
