"""Change points of a history: when its level changed or began to creep, and which jobs are outliers.

Outliers, which are a few jobs far from their neighbours, are set aside first, so that they affect neither the noise nor
the level. The evidence for a change is an e-process: its reciprocal is a valid p-value at any time, no matter how often
the history is examined.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from isthmus.statistics import rank_test

FEWEST = 5  # minimum number of jobs before a change
QUIET = 1e-4  # minimum noise, as a share, since identical values do not prove that there is no noise
_PRIOR = 9.0  # prior variance of steps, in units of the variance between jobs
_CUT = 3.0  # number of standard deviations to which a job's deviation is limited
_KNOWN = 3.0  # degrees of freedom of the noise between neighbours in the whole history, added to those of earlier jobs
_LOOKS = 400  # maximum number of ends of a history that are examined; they are evenly spread
_MOST_ALIKE = 0.95  # maximum autocorrelation that is assumed
_MARGIN = 0.8  # number of standard errors (1 / √jobs) that is added to a measured autocorrelation

# --- outliers ---

_NEAR = 4  # number of neighbours on each side
_FAR = 6.0  # number of standard deviations from the neighbours' median that makes a job an outlier
_FEW = 0.15  # maximum share of jobs that are outliers; if there are more, they show a state of the machine
_RUN = 3  # maximum number of outliers in a row; four jobs are a level


def noise(values: np.ndarray, quiet: float) -> float:
    """Returns a robust standard deviation between neighbours, which a step or one outlier in ten hardly affects."""
    steps = np.abs(np.diff(values))
    return max(float(np.median(steps)) / 0.9539, quiet) if len(steps) else quiet


def from_neighbours(values: np.ndarray) -> np.ndarray:
    """Returns each value's distance from the median of the nine values around it or, at the ends, of the last nine."""
    width = min(2 * _NEAR + 1, len(values))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    places = np.clip(np.arange(len(values)) - _NEAR, 0, len(medians) - 1)
    return values - medians[places]


def outliers(values: np.ndarray, least: float, quiet: float = QUIET) -> np.ndarray:
    """Returns a mask of outliers: jobs that are far beyond the noise and at least `least` away from their neighbours.

    At most three in a row, and at most a share _FEW of all jobs, count as outliers.
    """
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
    """Returns the share of the permitted errors for the 1st, 2nd, … place of a change; the sum of all shares is 1."""
    places = np.arange(2, count + 2)
    return 1 / (2.1098 * places * np.log(places) ** 2)


def standard(values: np.ndarray, quiet: float) -> np.ndarray:
    """Returns deviations from the median, divided by the noise between neighbours and limited to ±_CUT."""
    steps = np.abs(np.diff(values))
    scale = max(noise(values, quiet), float(np.quantile(steps, 0.9)) / 2.326 if len(steps) else quiet)
    return np.clip((values - np.median(values)) / scale, -_CUT, _CUT)


def _left(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the residuals of a least-squares fit of these columns."""
    return values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]


def _ramp(times: np.ndarray, start: int) -> np.ndarray:
    """Returns the columns of a fit in which the level is constant until job `start` and creeps from then on."""
    return np.stack([np.ones(len(times)), np.maximum(times - times[start], 0)], axis=1)


def autocorrelation(z: np.ndarray) -> float:
    """Returns the lag-1 autocorrelation of the residuals of the best-fitting step or creep, corrected for the fit."""
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
    """Returns the autocorrelation to assume: the one measured over `jobs` jobs, plus a margin for its error."""
    return min(max(measured + _MARGIN / math.sqrt(jobs), 0.0), _MOST_ALIKE)


def log_evidence(z: np.ndarray, alike: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns log E[end, place], the evidence in the jobs before `end` that the level changed at `place`; and the ends.

    `z` (n,) has values in approximate standard deviations; `alike` is their autocorrelation. E has shape (ends,
    places), both ascending. E is the likelihood ratio of a step with a normal prior to no step, invariant to the
    unknown level (Pérez-Ortiz et al., E-statistics, group invariance and anytime-valid testing, Annals of Statistics
    2024), for values from which the autocorrelation was removed (Prais and Winsten). For normal noise, E is a
    martingale if the level does not change.
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
    """Returns the number of jobs before the likeliest step, and its p, which is valid for repeated examination."""
    evidence, ends = log_evidence(z, alike)
    weighted = evidence + np.log(weights(evidence.shape[1]))
    peak = weighted.max(axis=1)
    total = peak + np.log(np.exp(weighted - peak[:, None]).sum(axis=1))
    seen = int(np.argmax(total >= min(float(total.max()), math.log(1 / rank_test.ALPHA))))
    later = int(np.searchsorted(ends, ends[seen] + FEWEST, "right")) - 1
    return FEWEST + int(np.argmax(weighted[later])), min(1.0, math.exp(-float(total.max())))


def _collapse(values: np.ndarray, quiet: float) -> tuple[int, float]:
    """Returns the place and p of a collapse, after which all jobs are far beyond all earlier jobs.

    Heavy-tailed noise is assumed: Student's t with 5 degrees of freedom. p is corrected for all possible places.
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
    """Returns the number of jobs before the likeliest change, and its p, which is valid for repeated examination.

    `alike` is the autocorrelation to assume; by default it is measured, with a margin for its error. `kept` contains
    the indices of jobs that are not outliers. Returns None for fewer than 6 jobs.
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

_LONG = 15  # minimum number of jobs of a creep
_LATER = 8.0  # minimum improvement of the fit, in variances of a job, if a creep begins after the first job
_CLEARLY = 0.9  # maximum ratio of a creep's squared residuals to those of the best step


@dataclasses.dataclass(frozen=True)
class Size:
    """Distance by which a level moved, with a 95% interval."""

    estimate: float
    low: float
    high: float


def _unlike(alike: float) -> float:
    """Returns the factor by which autocorrelation widens the errors of means."""
    return math.sqrt((1 + alike) / (1 - alike))


def size_of_step(before: np.ndarray, after: np.ndarray, alike: float) -> Size:
    """Returns the difference of two levels (Hodges and Lehmann) with an interval that is widened for autocorrelation.

    The interval is infinite if there are too few jobs.
    """
    before, after = before[-_LOOKS:], after[:_LOOKS]
    found = rank_test.compare([(before, after)])
    low, high = (found.estimate + _unlike(alike) * (end - found.estimate) for end in (found.low, found.high))
    return Size(found.estimate, low, high)


def creep_start(z: np.ndarray, times: np.ndarray) -> int | None:
    """Returns the first job of a linear creep that fits the values clearly better than any step, or None."""
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
    """Returns how far the level crept from job `start` to the last job, by least squares."""
    columns = _ramp(times, start)
    level, slope = np.linalg.lstsq(columns, values, rcond=None)[0]
    freedom = max(len(values) - 3, 1)
    variance = float(np.sum((values - columns @ [level, slope]) ** 2)) / freedom
    span = float(times[-1] - times[start])
    error = span * math.sqrt(variance * np.linalg.inv(columns.T @ columns)[1, 1]) * _unlike(alike)
    away = error * rank_test.student_quantile(0.025, freedom)
    return Size(span * slope, span * slope - away, span * slope + away)
