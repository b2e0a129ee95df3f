"""Histories that `isthmus drift` watches: those of each series at each place, and those of means of related series."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from typing import Any

import numpy as np

from isthmus.grouping import grouped
from isthmus.statistics import change_points, series
from isthmus.statistics.change_points import FEWEST, QUIET, Size, allowance, autocorrelation

FLOOR = 0.01  # smallest change of interest, as a share, and smallest deviation of an outlier


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Jobs from `start` to before `end` (None: to the last job), with a step at `place` or a creep from `place` on."""

    start: datetime.datetime
    place: datetime.datetime
    end: datetime.datetime | None
    creeps: bool = False


@dataclasses.dataclass
class History:
    """Jobs of a series at one place, ordered by time, or means of several series, which are scaled to be comparable."""

    label: str
    node: str
    gpus: str
    jobs: list[str]
    times: list
    values: np.ndarray
    sign: int  # 1 if higher is better, -1 if lower is better, 0 if neither is
    ratio: bool
    parts: list[History] = dataclasses.field(default_factory=list)
    alike: float = 0.0
    variance: float = 0.0  # variance of a mean of several series, relative to the variance of one series
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # series.Series.case of a single series
    added: float = 0.0  # standard deviation of the noise that is added to `values` in `watched`

    @property
    def quiet(self) -> float:
        return QUIET if self.ratio or self.parts else QUIET * max(float(np.abs(self.values).max()), 1e-300)

    @property
    def watched(self) -> np.ndarray:
        """Values that are searched for changes, with seeded noise: each job keeps its noise when the history grows."""
        if not self.added:
            return self.values
        return self.values + self.added * np.random.default_rng(0).standard_normal(len(self.values))

    @functools.cached_property
    def outliers(self) -> np.ndarray:
        """Mask of the jobs that are far from their neighbours and are therefore set aside."""
        least = 0.0 if self.parts else math.log1p(FLOOR) if self.ratio else FLOOR * float(np.abs(self.values).max())
        return change_points.outliers(self.watched, least, self.quiet)

    @functools.cached_property
    def kept(self) -> np.ndarray:
        return np.flatnonzero(~self.outliers)

    @functools.cached_property
    def days(self) -> np.ndarray:
        """Times of the jobs, in days since the first job."""
        return np.array([(time - self.times[0]).total_seconds() / 86400 for time in self.times])

    @property
    def z(self) -> np.ndarray:
        return change_points.standard(self.watched, self.quiet)

    def autocorrelation(self) -> float:
        return autocorrelation(self.z[self.kept])

    def size(self, of: Stretch) -> Size:
        """Returns how far the level moved; for several series the median share by which they improved.

        The size is NaN if no job is on one of the sides of the change, or if the level of several series did not move.
        """
        if not self.parts:
            return self._scaled(self._shift(of))
        parts = [size for part in self.parts if math.isfinite(size := part.better(of))]
        shift = self._shift(of)
        estimate = float(np.median(parts or [0]))
        if not (parts and shift.estimate):
            return Size(math.nan, math.nan, math.nan)
        ends = sorted(estimate * end / shift.estimate for end in (shift.low, shift.high))
        return Size(estimate, *ends)

    def moved_as_one(self, of: Stretch) -> bool:
        """Returns whether three in four series moved in one direction, by at least a third of the upper quartile."""
        parts = np.array([size for part in self.parts if math.isfinite(size := part.better(of))])
        if not len(parts):
            return True
        sizes = parts * (1 if np.median(parts) >= 0 else -1)
        return bool(np.mean(sizes > np.quantile(sizes, 0.75, method="higher") / 3) >= 0.75)

    def better(self, of: Stretch) -> float:
        """Returns the share by which the series improved."""
        size = self.size(of).estimate if self.parts else self._scaled(self._shift(of, quick=True)).estimate
        return size if self.sign >= 0 else 1 / (1 + size) - 1

    def _scaled(self, shift: Size) -> Size:
        if not self.ratio:
            return shift
        return Size(*(math.expm1(min(end, 700)) for end in (shift.estimate, shift.low, shift.high)))

    def _shift(self, of: Stretch, *, quick: bool = False) -> Size:
        """Returns how far the level moved, in the unit of `values`; `quick` leaves out the interval of a step.

        The size is NaN if no job is after the change or, unless the level creeps, none is before it.
        """
        inside = [i for i in self.kept if of.start <= self.times[i] and (of.end is None or self.times[i] < of.end)]
        if not any(self.times[i] >= of.place for i in inside):  # the last jobs collapsed, and count as outliers
            inside += [i for i in np.flatnonzero(self.outliers) if self.times[i] >= of.place]
        late = np.array([self.times[i] >= of.place for i in inside], bool)
        values, days = self.values[inside], self.days[inside]
        if not late.any() or (late.all() and not of.creeps):
            return Size(math.nan, math.nan, math.nan)
        if of.creeps:
            return change_points.size_of_creep(values, days, int(np.argmax(late)), self.alike)
        if quick:
            return Size(float(np.median(values[late]) - np.median(values[~late])), -math.inf, math.inf)
        return change_points.size_of_step(values[~late], values[late], self.alike)


def of_series(every: list[series.Series]) -> list[History]:
    labels = series.labels(every)
    found = []
    for each in every:
        places = grouped(
            (place, (job.time, job.name, value)) for job in each.of("A") for place, value in job.places.items()
        )
        sign = {"higher": 1, "lower": -1}.get(each.better or "", 0)
        for (node, gpus), jobs in places.items():
            jobs.sort(key=lambda job: job[:2])
            values = np.array([value for *_, value in jobs], float)
            ratio = bool((values > 0).all())
            found.append(
                History(
                    labels[each.key], node, gpus, [name for _, name, _ in jobs], [time for time, *_ in jobs],
                    np.log(values) if ratio else values, sign, ratio, case=each.case,
                )
            )  # fmt: skip
    return [history for history in found if len(history.jobs) > FEWEST]


def _mean_of_jobs(parts: list[History], label: str, node: str) -> History | None:
    """Averages the series of a node within each job; jobs with less than half of the series are left out."""
    values = grouped(
        ((time, job), part.sign * z) for part in parts for time, job, z in zip(part.times, part.jobs, part.z)
    )
    merged: dict[str, list] = {}
    for (time, job), those in values.items():
        known = merged.setdefault(job, [time, []])
        known[0] = min(known[0], time)
        known[1] += those
    kept = sorted((time, job, those) for job, (time, those) in merged.items() if 2 * len(those) >= len(parts))
    return _together(kept, parts, label, node)


def _mean_of_turns(parts: list[History], label: str) -> History | None:
    """Averages the histories of several nodes over periods in which each node has about one job."""
    turns = int(np.median([len(part.jobs) for part in parts]))
    every = sorted(
        (time, job, part.sign * float(z)) for part in parts for time, job, z in zip(part.times, part.jobs, part.z)
    )
    kept = []
    for stretch in np.array_split(np.arange(len(every)), max(turns, 1)):
        if len(stretch):
            kept.append((*every[stretch[0]][:2], [every[i][2] for i in stretch]))
    return _together(kept, parts, label, "")


def _together(kept: list[tuple], parts: list[History], label: str, node: str) -> History | None:
    if len(kept) <= FEWEST:
        return None
    means = np.array([np.mean(those) for *_, those in kept])
    scale = change_points.noise(means, 1e-3)  # at least 1e-3 of a series' standard deviation
    jobs, times = [job for _, job, _ in kept], [time for time, *_ in kept]
    return History(label, node, "", jobs, times, means / scale, 1, False, parts, variance=float(np.var(means)))


def pooled(single: list[History]) -> list[History]:
    """Returns the means that are watched besides single series: of each node, of each series over nodes, and of all."""
    judged = [history for history in single if history.sign]
    nodes = grouped((history.node, history) for history in judged)
    labels = grouped((history.label, history) for history in judged)
    means = [_mean_of_jobs(p, f"{len(p)} series together", node) for node, p in nodes.items() if len(p) > 1]
    of_nodes = [history for history in means if history]
    of_labels = [_mean_of_turns(p, label) for label, p in labels.items() if len({h.node for h in p}) > 1]
    everything = []
    if len(of_nodes) > 1:
        everything = [_mean_of_turns(of_nodes, f"{len(labels)} series together")]
    return [history for history in [*of_nodes, *of_labels, *everything] if history]


def allow(single: list[History], pooled: list[History]) -> None:
    """Sets the assumed correlation of consecutive jobs: the median over all series, adjusted for series that differ.

    Series that move together count as fewer series, depending on the variance of their mean.
    """
    measured = np.array([history.autocorrelation() for history in single])
    jobs = np.array([len(history.jobs) for history in single], float)
    common = float(np.median(measured))
    alone = [history for history in pooled if history.node]
    shares = [_independent(history) for history in alone] or [1.0]
    worth = float(np.sum(shares)) * float(np.median(jobs))
    noise = 1.2 / jobs  # variance of a measured autocorrelation
    differ = max(float(np.var(measured)) - float(noise.mean()), 0.0) if len(single) > 2 else 0.0
    own = differ / (differ + noise)
    for history, value, weight, count in zip(single, measured, own, jobs):
        effective = 1 / ((1 - weight) / worth + weight / count)
        history.alike = allowance(common + weight * (value - common), max(effective, count))
    for history in pooled:
        at_least = max(common, history.autocorrelation())
        history.alike = allowance(at_least, len(history.jobs))


def _independent(history: History) -> float:
    """Returns the number of independent series that are equivalent to the series of a mean."""
    own = float(np.mean([np.var(part.z) for part in history.parts]))
    return max(1.0, min(len(history.parts), own / max(history.variance, 1e-9)))
