"""Where in time one history changed its level, or began to creep, and which of its jobs are outliers.

Outliers, single jobs far from their neighbours, are set aside first: neither the noise nor the level is judged by them.
The evidence for a change is an e-process, whose reciprocal is a p-value at any time, however often one looks.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from isthmus.statistics import rank_test

FEWEST = 5  # jobs before a change
QUIET = 1e-4  # noise below this share is taken as this share: identical values are no certainty
_PRIOR = 9.0  # variance of the steps that are looked for, in variances between jobs
_CUT = 3.0  # standard deviations beyond which a job weighs no more
_KNOWN = 3.0  # degrees of freedom for which the spread of all neighbours stands, beside that of the jobs so far
_LOOKS = 400  # of a long history's ends, evenly spread
_MOST_ALIKE = 0.95  # autocorrelation that is allowed for at most
_MARGIN = 0.8  # standard errors (1 / √jobs) that are added to a measured autocorrelation

# --- outliers ---

_NEAR = 4  # neighbours on each side
_FAR = 6.0  # standard deviations from the neighbours' median
_FEW = 0.15  # of the jobs: where more are far from their neighbours, they are a state of the machine
_RUN = 3  # outliers one after the other: a fourth is a level


def noise(values: np.ndarray, quiet: float) -> float:
    """Robust standard deviation between neighbours; a step, or one job in ten far off, hardly changes it."""
    steps = np.abs(np.diff(values))
    return max(float(np.median(steps)) / 0.9539, quiet) if len(steps) else quiet


def from_neighbours(values: np.ndarray) -> np.ndarray:
    """Distance of each value from the median of the nine values around it; at the ends, of the outermost nine."""
    width = min(2 * _NEAR + 1, len(values))
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
    places = np.clip(np.arange(len(values)) - _NEAR, 0, len(medians) - 1)
    return values - medians[places]


def outliers(values: np.ndarray, least: float, quiet: float = QUIET) -> np.ndarray:
    """Which jobs are outliers: far beyond the noise and by `least` or more, three in a row at most, and few in all."""
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
    """Shares of the permitted errors for the 1st, 2nd, … place of a change; those of all places, for ever, sum to 1."""
    places = np.arange(2, count + 2)
    return 1 / (2.1098 * places * np.log(places) ** 2)


def standard(values: np.ndarray, quiet: float) -> np.ndarray:
    """Values in robust standard deviations of neighbours from the median, cut at _CUT."""
    steps = np.abs(np.diff(values))
    scale = max(noise(values, quiet), float(np.quantile(steps, 0.9)) / 2.326 if len(steps) else quiet)
    return np.clip((values - np.median(values)) / scale, -_CUT, _CUT)


def _left(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What a fit of these columns leaves of the values."""
    return values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]


def _ramp(times: np.ndarray, start: int) -> np.ndarray:
    """Columns of a level that holds until a job and creeps from there on."""
    return np.stack([np.ones(len(times)), np.maximum(times - times[start], 0)], axis=1)


def autocorrelation(z: np.ndarray) -> float:
    """Of a job with the next one, of what the likeliest step or creep leaves, corrected for what that takes away."""
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
    """The autocorrelation to allow for, given one that was measured over so many jobs, with a margin for its error."""
    return min(max(measured + _MARGIN / math.sqrt(jobs), 0.0), _MOST_ALIKE)


def log_evidence(z: np.ndarray, alike: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of E[end, place]: the evidence in the jobs before `end` that the level changed at `place`.

    `z` (n,) are values in about standard deviations, `alike` their autocorrelation. Returns E (ends, places) and the
    ends, both ascending. E is the likelihood ratio of a step with a normal prior to none, invariant to the unknown
    level (Pérez-Ortiz et al., E-statistics, group invariance and anytime-valid testing, Annals of Statistics 2024), of
    values freed of their autocorrelation (Prais and Winsten): for normal noise a martingale under "no change".
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
    """How many jobs come before the likeliest step, and its p, which holds however often one looks."""
    evidence, ends = log_evidence(z, alike)
    weighted = evidence + np.log(weights(evidence.shape[1]))
    peak = weighted.max(axis=1)
    total = peak + np.log(np.exp(weighted - peak[:, None]).sum(axis=1))
    seen = int(np.argmax(total >= min(float(total.max()), math.log(1 / rank_test.ALPHA))))
    later = int(np.searchsorted(ends, ends[seen] + FEWEST, "right")) - 1
    return FEWEST + int(np.argmax(weighted[later])), min(1.0, math.exp(-float(total.max())))


def _collapse(values: np.ndarray, quiet: float) -> tuple[int, float]:
    """Place and p of a collapse: all jobs since are far beyond all before, even for noise with heavy tails.

    The tails are those of Student's t with 5 degrees; p is for all places at which one may ever be looked for.
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
    """How many jobs come before the likeliest change, and its p, which holds however often one looks.

    `alike` is the autocorrelation to allow for, else it is measured, with a margin for its error. `kept` are the places
    of jobs that are no outliers. None below 6 jobs.
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

_LONG = 15  # jobs that a creep takes at least
_LATER = 8.0  # variances of a job that a start after the first one must explain
_CLEARLY = 0.9  # of what a step leaves unexplained: a creep must leave less


@dataclasses.dataclass(frozen=True)
class Size:
    """How far a level moved, with a 95% interval."""

    estimate: float
    low: float
    high: float


def _unlike(alike: float) -> float:
    """Factor by which errors of means are wider where jobs are like the ones before them."""
    return math.sqrt((1 + alike) / (1 - alike))


def size_of_step(before: np.ndarray, after: np.ndarray, alike: float) -> Size:
    """Difference of levels (Hodges and Lehmann), widened for autocorrelation; unbounded where jobs are too few."""
    before, after = before[-_LOOKS:], after[:_LOOKS]
    found = rank_test.compare([(before, after)])
    low, high = (found.estimate + _unlike(alike) * (end - found.estimate) for end in (found.low, found.high))
    return Size(found.estimate, low, high)


def creep_start(z: np.ndarray, times: np.ndarray) -> int | None:
    """The job from which on a straight creep explains the values clearly better than any step; None where none does."""
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
    """How far the level crept from a job to the last, by least squares."""
    columns = _ramp(times, start)
    level, slope = np.linalg.lstsq(columns, values, rcond=None)[0]
    freedom = max(len(values) - 3, 1)
    variance = float(np.sum((values - columns @ [level, slope]) ** 2)) / freedom
    span = float(times[-1] - times[start])
    error = span * math.sqrt(variance * np.linalg.inv(columns.T @ columns)[1, 1]) * _unlike(alike)
    away = error * rank_test.student_quantile(0.025, freedom)
    return Size(span * slope, span * slope - away, span * slope + away)
