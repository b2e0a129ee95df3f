"""Change points of one history: when its level changed or began to creep, and which jobs are outliers.

Outliers, which are single jobs far from their neighbours, are set aside first, so that they affect neither the noise
nor the level. The evidence for a change is an e-process: its reciprocal is a p-value at any time, however often one
looks.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from isthmus.statistics import rank_test

FEWEST = 5  # jobs before a change
QUIET = 1e-4  # least noise, as a share: identical values are no certainty
_PRIOR = 9.0  # prior variance of steps, in variances between jobs
_CUT = 3.0  # standard deviations at which a job's deviation is cut
_KNOWN = 3.0  # degrees of freedom assigned to the spread of all neighbours, in addition to those of the jobs so far
_LOOKS = 400  # most ends of a history that are examined, evenly spread
_MOST_ALIKE = 0.95  # largest autocorrelation that is allowed for
_MARGIN = 0.8  # standard errors (1 / √jobs) added to a measured autocorrelation

# --- outliers ---

_NEAR = 4  # neighbours on each side
_FAR = 6.0  # standard deviations from the neighbours' median
_FEW = 0.15  # largest share of jobs that are outliers; more than that are a state of the machine
_RUN = 3  # longest run of outliers; a fourth makes it a level


def noise(values: np.ndarray, quiet: float) -> float:
    """Returns the robust standard deviation between neighbours; a step, or one outlier in ten, hardly changes it."""
    steps = np.abs(np.diff(values))
    return max(float(np.median(steps)) / 0.9539, quiet) if len(steps) else quiet


def from_neighbours(values: np.ndarray) -> np.ndarray:
    """Returns distances of values from the median of the nine around each; at the ends, of the outermost nine."""
    width = min(2 * _NEAR + 1, len(values))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    places = np.clip(np.arange(len(values)) - _NEAR, 0, len(medians) - 1)
    return values - medians[places]


def outliers(values: np.ndarray, least: float, quiet: float = QUIET) -> np.ndarray:
    """Returns a mask of outliers: far beyond the noise, by `least` or more, at most three in a row, and few in all."""
    none = np.zeros(len(values), bool)
    if len(values) <= FEWEST:
        return none
    far = np.abs(from_neighbours(values)) > max(_FAR * noise(values, quiet), least)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], far.astype(int), [0]])))
    for start, end in zip(edges[::2], edges[1::2]):
        if end - start > _RUN:
            far[start:end] = False
    return far if far.sum() <= max(1, _FEW * len(values)) else none


# --- steps ---


def weights(count: int) -> np.ndarray:
    """Returns shares of the permitted errors for the 1st, 2nd, … place of a change; over all places they sum to 1."""
    places = np.arange(2, count + 2)
    return 1 / (2.1098 * places * np.log(places) ** 2)


def standard(values: np.ndarray, quiet: float) -> np.ndarray:
    """Returns deviations from the median in robust standard deviations of neighbours, cut at ±_CUT."""
    steps = np.abs(np.diff(values))
    scale = max(noise(values, quiet), float(np.quantile(steps, 0.9)) / 2.326 if len(steps) else quiet)
    return np.clip((values - np.median(values)) / scale, -_CUT, _CUT)


def _left(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the residuals of a fit of these columns."""
    return values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]


def _ramp(times: np.ndarray, start: int) -> np.ndarray:
    """Returns columns for a level that is constant until a job and creeps from there on."""
    return np.stack([np.ones(len(times)), np.maximum(times - times[start], 0)], axis=1)


def autocorrelation(z: np.ndarray) -> float:
    """Returns the lag-1 autocorrelation of the residuals of the likeliest step or creep, corrected for fitting it."""
    n = len(z)
    if n < 2 * FEWEST:
        return 0.0
    places = np.arange(FEWEST, n - FEWEST + 1)
    sums = np.cumsum(z - z.mean())[places - 1]
    place = int(places[np.argmax(sums**2 / (places * (n - places)))])
    jobs = np.arange(float(n))
    columns = [np.stack([np.ones(n), jobs >= place], axis=1), *(_ramp(jobs, n * part // 4) for part in range(3))]
    left = min((_left(each, z) for each in columns), key=lambda rest: float(rest @ rest))
    measured = float(left[1:] @ left[:-1]) / max(float(left @ left), 1e-12)
    return (measured + 4 / n) / (1 - 8 / max(n, 16))


def allowance(measured: float, jobs: float) -> float:
    """Returns the autocorrelation to allow for: one measured over `jobs` jobs, plus a margin for its error."""
    return min(max(measured + _MARGIN / math.sqrt(jobs), 0.0), _MOST_ALIKE)


def log_evidence(z: np.ndarray, alike: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns log E[end, place], the evidence in the jobs before `end` that the level changed at `place`; and the ends.

    `z` (n,) are values in approximate standard deviations, `alike` is their autocorrelation. E is (ends, places), both
    ascending. E is the likelihood ratio of a step with a normal prior to no step, invariant to the unknown level
    (Pérez-Ortiz et al., E-statistics, group invariance and anytime-valid testing, Annals of Statistics 2024), for
    values freed of their autocorrelation (Prais and Winsten). For normal noise it is a martingale under "no change".
    """
    n = len(z)
    first = math.sqrt(1 - alike**2)
    y = np.concatenate([[first * z[0]], z[1:] - alike * z[:-1]])
    c = np.concatenate([[first], np.full(n - 1, 1 - alike)])
    sums = [np.concatenate([[0.0], np.cumsum(each)]) for each in (y * y, y * c, c * c, y)]
    ends = np.unique(np.linspace(min(FEWEST + 1, n), n, min(_LOOKS, max(n - FEWEST, 1))).astype(int))
    places = np.arange(FEWEST, n)
    yy, yc, cc = (each[ends, None] for each in sums[:3])
    after = ends[:, None] - places - 1
    dy = y[places] + (1 - alike) * (sums[3][ends, None] - sums[3][places + 1])
    dc = c[places] + (1 - alike) ** 2 * after
    dd = 1 + (1 - alike) ** 2 * after
    precision = np.maximum(dd - dc**2 / cc, 1e-12)
    between = (dy - dc * yc / cc) ** 2 / precision
    rest = np.maximum(yy - yc**2 / cc, 0) + _KNOWN * (1 - alike**2)
    found = _PRIOR * precision
    evidence = -0.5 * np.log1p(found) - (ends[:, None] - 1 + _KNOWN) / 2 * np.log1p(
        -found / (1 + found) * np.minimum(between / rest, 1)
    )
    return np.where(after >= 0, evidence, -np.inf), ends


def _step(z: np.ndarray, alike: float) -> tuple[int, float]:
    """Returns the number of jobs before the likeliest step, and its p, which is valid however often one looks."""
    evidence, ends = log_evidence(z, alike)
    weighted = evidence + np.log(weights(evidence.shape[1]))
    peak = weighted.max(axis=1)
    total = peak + np.log(np.exp(weighted - peak[:, None]).sum(axis=1))
    seen = int(np.argmax(total >= min(float(total.max()), math.log(1 / rank_test.ALPHA))))
    later = int(np.searchsorted(ends, ends[seen] + FEWEST, "right")) - 1
    return FEWEST + int(np.argmax(weighted[later])), min(1.0, math.exp(-float(total.max())))


def _collapse(values: np.ndarray, quiet: float) -> tuple[int, float]:
    """Returns the place and p of a collapse: all jobs since are far beyond all before, even for heavy-tailed noise.

    The tails are those of Student's t with 5 degrees of freedom; p covers all places at which one may ever look.
    """
    best = (len(values), 1.0)
    shares = weights(len(values))
    for place in range(max(FEWEST, len(values) - 2 * FEWEST), len(values)):
        before, after = values[:place], values[place:]
        middle = float(np.median(before))
        farthest = float(np.abs(before - middle).max())
        scale = max(1.4826 * float(np.median(np.abs(before - middle))), farthest / 3, quiet)
        shifts = after - middle
        if abs(np.sign(shifts).sum()) < len(shifts):
            continue
        t = float(np.abs(shifts).min()) / (scale * math.sqrt(1 + 1 / place))
        if t > 9:
            p = rank_test.student_p(t, 5) / shares[place - FEWEST]
            best = min(best, (place, max(p, 1e-300)), key=lambda each: each[1])
    return best


def change_point(
    values: np.ndarray, alike: float | None = None, *, quiet: float = QUIET, kept: np.ndarray | None = None
) -> tuple[int, float] | None:
    """Returns the number of jobs before the likeliest change, and its p, which is valid however often one looks.

    `alike` is the autocorrelation to allow for; by default it is measured, with a margin for its error. `kept` are the
    indices of jobs that are no outliers. Returns None for fewer than 6 jobs.
    """
    kept = np.arange(len(values)) if kept is None else kept
    if len(kept) <= FEWEST:
        return None
    z = standard(values[kept], quiet)
    place, p = _step(z, allowance(autocorrelation(z), len(z)) if alike is None else alike)
    collapse, p_collapse = _collapse(values, quiet)
    if p_collapse < p:
        return collapse, min(1.0, 2 * p_collapse)
    return int(kept[place]), min(1.0, 2 * p)


# --- sizes ---

_LONG = 15  # fewest jobs of a creep
_LATER = 8.0  # variances of a job that a start after the first job must explain
_CLEARLY = 0.9  # largest share of a step's residuals that a creep may leave


@dataclasses.dataclass(frozen=True)
class Size:
    """Distance that a level moved, with a 95% interval."""

    estimate: float
    low: float
    high: float


def _unlike(alike: float) -> float:
    """Returns the factor by which autocorrelation widens the errors of means."""
    return math.sqrt((1 + alike) / (1 - alike))


def size_of_step(before: np.ndarray, after: np.ndarray, alike: float) -> Size:
    """Returns the difference of levels (Hodges and Lehmann); its interval is widened for autocorrelation.

    It is infinite with too few jobs.
    """
    before, after = before[-_LOOKS:], after[:_LOOKS]
    found = rank_test.compare([(before, after)])
    low, high = (found.estimate + _unlike(alike) * (end - found.estimate) for end in (found.low, found.high))
    return Size(found.estimate, low, high)


def creep_start(z: np.ndarray, times: np.ndarray) -> int | None:
    """Returns the job from which a linear creep explains the values clearly better than any step; None if none does."""
    n = len(z)
    if n < _LONG or times[-1] <= times[0]:
        return None
    sums, squares = np.cumsum(z), float((z**2).sum())
    counts = np.arange(1, n)
    steps = squares - sums[:-1] ** 2 / counts - (sums[-1] - sums[:-1]) ** 2 / (n - counts)
    starts = range(0, n - _LONG + 1, max(1, n // 50))
    rests = {start: float(np.sum(_left(_ramp(times, start), z) ** 2)) for start in starts if times[-1] > times[start]}
    best = min(rests, key=lambda start: rests[start])
    if rests[0] <= rests[best] * (1 + _LATER / n):
        best = 0
    return best if rests[best] < _CLEARLY * float(steps.min()) else None


def size_of_creep(values: np.ndarray, times: np.ndarray, start: int, alike: float) -> Size:
    """Returns how far the level crept from a job to the last, by least squares."""
    columns = _ramp(times, start)
    level, slope = np.linalg.lstsq(columns, values, rcond=None)[0]
    freedom = max(len(values) - 3, 1)
    variance = float(np.sum((values - columns @ [level, slope]) ** 2)) / freedom
    span = float(times[-1] - times[start])
    error = span * math.sqrt(variance * np.linalg.inv(columns.T @ columns)[1, 1]) * _unlike(alike)
    away = error * rank_test.student_quantile(0.025, freedom)
    return Size(span * slope, span * slope - away, span * slope + away)
