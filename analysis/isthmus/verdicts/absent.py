"""Series that are missing: in some jobs of side B that ran what goes with them, or for good from a node.

Neither is a figure, so no comparison of figures sees it. docs/false-alarms.md says how often these rules are wrong.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence

import numpy as np

from isthmus import spelling
from isthmus.groups import grouped
from isthmus.records import measurements, store
from isthmus.statistics import rank_test
from isthmus.statistics.series import Series

# --- in some jobs of B ---

_BESIDE = 0.8  # of the jobs of either of two series of side A: the share that has the other, too
_KEPT = 0.9  # of the jobs that should have a series, over all nodes
_KEPT_ON_NODE = 0.5  # on each: of several nodes one may have had two jobs that were cut off
_LEAST = 2  # jobs without it: a single one may have been cut off


@dataclasses.dataclass
class Lacking:
    """What B has in fewer jobs than what A ran beside it."""

    reasons: dict[tuple, str] = dataclasses.field(default_factory=dict)  # by the key of a series
    single: int = 0  # series that a single job of B lacks, which is no reason


def _jobs(each: Series, side: str) -> frozenset[tuple[str, str]]:
    return frozenset((node, job.name) for job in each.of(side) for node in job.nodes)


class _Beside:
    """What runs beside each other on side A, and in how many jobs of B it does, over all nodes and on each."""

    def __init__(self, measured: list[tuple[frozenset, frozenset]]):
        """From the jobs of A and of B of each measured series, of which those of A are not empty."""
        patterns = {a: i for i, (a, _) in enumerate(dict(measured).items())}
        self._column = {job: i for i, job in enumerate(sorted({job for a in patterns for job in a}))}
        self.places = ["", *sorted({node for node, _ in self._column})]  # all nodes, and each
        self.kept = np.array([_KEPT, *[_KEPT_ON_NODE] * (len(self.places) - 1)])
        self._number = {name: i for i, name in enumerate(self.places)}
        self._has = np.array([self._row(a) for a in patterns])
        self._sizes = self._has.sum(axis=1)
        had = np.array([self.counted(a) for a in patterns])
        most = np.zeros_like(had)
        for a, b in measured:
            most[patterns[a]] = np.maximum(most[patterns[a]], self.counted(b))
        self._ratios = np.divide(most, had, out=np.zeros_like(had), where=had > 0)
        self._wanted: dict[frozenset, np.ndarray] = {}

    def _row(self, jobs: frozenset) -> np.ndarray:
        row = np.zeros(len(self._column), np.float32)
        row[[self._column[job] for job in jobs if job in self._column]] = 1
        return row

    def counted(self, jobs: frozenset) -> np.ndarray:
        """Jobs by place, of places that A has."""
        found = np.zeros(len(self.places))
        for node, _ in jobs:
            if node in self._number:
                found[[0, self._number[node]]] += 1
        return found

    def wanted(self, a: frozenset) -> np.ndarray:
        """In how many jobs of B a series should be, by place, that has these of A."""
        if a not in self._wanted:
            beside = self._has @ self._row(a) >= _BESIDE * np.maximum(self._sizes, len(a)) - 1e-6
            self._wanted[a] = self._ratios[beside].max(axis=0, initial=0) * self.counted(a)
        return self._wanted[a]


def lacking(measured: Iterable[Series], machine: Iterable[Series] = ()) -> Lacking:
    """Of series that both sides have: those that B lacks in jobs, over all nodes or on one.

    Two measured series of A run beside each other where 80% of the jobs of either have the other, too. By what runs
    beside it, B should have a series in as many jobs, in proportion. It lacks what it has in two jobs fewer or more,
    and in fewer than 90% over all nodes, or than 50% on a node. `machine` are series that are held to the measured
    ones alone.
    """
    of = {each.key: (_jobs(each, "A"), _jobs(each, "B")) for each in measured}
    known = [jobs for jobs in of.values() if jobs[0]]
    result = Lacking()
    if not known:
        return result
    beside = _Beside(known)
    of |= {each.key: (_jobs(each, "A"), _jobs(each, "B")) for each in machine}
    for key, (a, b) in of.items():
        if not (a and b):
            continue
        should, does = beside.wanted(a), beside.counted(b)
        short = should - does
        lacks = (short >= _LEAST - 1e-6) & (does < beside.kept * should)
        if lacks.any():
            place = int(np.argmax(np.where(lacks, short, 0)))
            where = f" on {spelling.printable(beside.places[place])}" if place else ""
            result.reasons[key] = f"absent: {does[place]:.0f} of {should[place]:.0f} jobs of B{where} have it"
        result.single += bool(not lacks.any() and short[0] > 1 - 1e-6)
    return result


# --- for good ---

FEWEST = 5  # days with a series, and days without it since


def _version(each: Series) -> int:
    return each.key[measurements.SERIES.index("version")]


@dataclasses.dataclass(frozen=True)
class Gone:
    """A series that a node, or its GPUs, do not measure any more."""

    series: Series
    node: str
    gpus: str  # empty: none of the node's
    had: Sequence[tuple[datetime.datetime, str]]  # jobs of the node up to the last that has it
    since: Sequence[tuple[datetime.datetime, str]]


def but_version(each: Series) -> tuple:
    """What a series has in common with those of other versions of its workload, or in another unit."""
    return tuple(value for name, value in zip(measurements.SERIES, each.key) if name not in ("version", "unit"))


def is_gone(had: int, before: int, since: int, series: int) -> bool:
    """Whether one of so many series is gone, which a node had on `had` of the days up to its last, `before`.

    `since` are the days without it. Where each day has each series by chance, none would be missing for so long in
    95% of histories, looked at after each of their days; which chance is not known, all are as likely beforehand.
    """
    if had <= FEWEST or since < FEWEST or 2 * had < before:
        return False
    missing = before - had + np.arange(since)  # before each of the days since; the last day is not by chance
    by_chance = float(np.prod((1 + missing) / (1 + before + np.arange(since))))
    return series * (before + since) * by_chance <= rank_test.SESSION


def gone(opened: store.Store, every: list[Series]) -> list[Gone]:
    """Series of side A that were measured on most days of a node, and have not been for FEWEST days or more.

    What counts is days on which the node ran: jobs of one day may be one study. What the node measures of another
    version of the workload is not lost.
    """
    ran = grouped(
        (node, (time, job))
        for node, job, time in opened.sql(
            "SELECT node, job, min(time) AS time FROM measurements GROUP BY ALL ORDER BY time, job"
        ).fetchall()
    )
    time_of = {(node, job): time for node, jobs in ran.items() for time, job in jobs}
    days = {node: sorted({time.date() for time, _ in jobs}) for node, jobs in ran.items()}
    latest: dict[tuple, dict[int, datetime.datetime]] = {}  # by node and workload, and by its version
    found: dict[tuple, list] = {}
    for each in every:
        for job in each.of("A"):
            for node, gpus in job.places:
                time = time_of[node, job.name]
                versions = latest.setdefault((node, each.workload), {})
                versions[_version(each)] = max(time, versions.get(_version(each), time))
                for place in {(node, ""), (node, gpus)}:
                    found.setdefault((*place, but_version(each)), []).append((time, job.name, each))
    had = {key: sorted({time.date() for time, *_ in values}) for key, values in found.items()}
    watched = sum(len(of) > FEWEST for of in had.values())
    result: list[Gone] = []
    lost = set()
    for (node, gpus, name), values in sorted(found.items(), key=lambda item: item[0][:2]):
        of = had[node, gpus, name]
        before = sum(day <= of[-1] for day in days[node])
        since = len(days[node]) - before
        if not is_gone(len(of), before, since, watched):
            continue
        time, _, last = max(values, key=lambda value: value[:2])
        versions = latest[node, last.workload]
        newer = any(at > time for version, at in versions.items() if version != _version(last))
        if newer or (node, name) in lost:
            continue
        lost.add((node, name))
        jobs = ran[node]
        result.append(
            Gone(last, node, gpus, [job for job in jobs if job[0] <= time], [job for job in jobs if job[0] > time])
        )
    return result
