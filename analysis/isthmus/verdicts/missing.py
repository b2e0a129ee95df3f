"""Absence: partitions, nodes, GPUs and series that are missing in side B, on later days, or in one of several equals.

Comparisons of figures cannot detect absence. All commands judge it with the same cells: a series, regardless of version
and unit, on all nodes, on a node, or on a GPU. docs/false-alarms.md states how often these rules are wrong.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import datetime
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from isthmus import spelling
from isthmus.grouping import grouped
from isthmus.records import measurements, store
from isthmus.statistics import rank_test
from isthmus.statistics.series import Job, Series

# --- cells ---

Place = tuple[str, str]  # (node, GPU); ("", "") means everywhere, (node, "") a node with all its GPUs
EVERYWHERE: Place = ("", "")


def but_version(each: Series) -> tuple:
    """Returns the key of a series without the workload's version and the unit."""
    return tuple(value for name, value in zip(measurements.SERIES, each.key) if name not in ("version", "unit"))


def places(node: str, gpus: str) -> Iterator[Place]:
    """Yields the node, then each of the GPUs `gpus`, since a case may have used several GPUs together."""
    yield node, ""
    yield from ((node, gpu) for gpu in gpus.split("+") if gpu)


def places_of(job: Job) -> set[Place]:
    return {place for node, gpus in job.places for place in places(node, gpus)}


def in_words(place: Place) -> str:
    node, gpu = map(spelling.printable, place)
    return f"{gpu} of {node}" if gpu else node


# --- far too few jobs ---

HALF = 0.5  # largest share of the expected number of jobs that counts as too few


def too_few(has: int, seen: int, ratio: float, *, regular: bool, tests: int) -> bool:
    """Returns whether the number of jobs `has` is at most half of the expected `seen * ratio`, and not by chance.

    `regular` means that jobs run on each place as planned: two missing jobs are enough then, or one if none is left.
    Otherwise jobs run wherever there is room, and chance must explain so few in fewer than one of twenty comparisons
    with `tests` tests.
    """
    should = seen * ratio
    if has > HALF * should + 1e-6 or should - has < (2 if has else 1) - 1e-6:
        return False
    return regular or _at_most(has, seen + has, ratio / (1 + ratio)) * tests <= rank_test.SESSION


def _at_most(count: int, of: int, share: float) -> float:
    """Returns the binomial probability of at most `count` successes."""
    logs = [
        math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)
        + k * math.log(share) + (of - k) * math.log1p(-share) for k in range(count + 1)
    ]  # fmt: skip
    return min(1.0, sum(map(math.exp, logs)))


def is_regular(counts: Iterable[int]) -> bool:
    """Returns whether job counts of places are similar: the smallest above zero is at least half of the largest."""
    counts = [count for count in counts if count]
    return bool(counts) and 2 * min(counts) >= max(counts)


# --- between two sides ---

_BESIDE = 0.8  # share of their jobs that two series of side A must have in common to count as running together
_KEPT = 0.9  # share of the expected jobs on all nodes that must have a series
_LEAST = 2  # minimum number of jobs that lack a series, since a single job may have been cut short


@dataclasses.dataclass
class Lacking:
    """Places and series of A that B lacks, or has in far fewer jobs than others."""

    reasons: dict[tuple, str] = dataclasses.field(default_factory=dict)  # key of a series → reason
    single: int = 0  # number of series that only one job of B lacks, which does not count
    places: list[str] = dataclasses.field(default_factory=list)  # partitions, nodes and GPUs that are gone, in words
    fewer: list[str] = dataclasses.field(default_factory=list)  # sentences on places with at most half of their jobs
    chance: list[str] = dataclasses.field(default_factory=list)  # places without a job by chance, which do not count

    @property
    def sentences(self) -> list[str]:
        """Reasons why a comparison is undecided even if every series is equivalent."""
        found = []
        if self.places:
            found.append(
                f"no job of B ran on {_named(self.places)}, where A did, so the effect of the change there is unknown; "
                "use --without for places that are gone on purpose"
            )
        return found + [f"half of the jobs or more are absent: {each}" for each in self.fewer]

    @property
    def notes(self) -> list[str]:
        return [f"no job of B happened to run on {_named(self.chance)}, where A did"] if self.chance else []


_NAMED = 5


def _named(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


class _Beside:
    """Expected numbers of B's jobs for series, derived from other series that ran in the same jobs of A."""

    def __init__(self, measured: list[tuple[frozenset, frozenset]]):
        """Stores the jobs of A and of B of each measured series; A must have jobs of each."""
        patterns = {a: i for i, (a, _) in enumerate(dict(measured).items())}
        self._column = {job: i for i, job in enumerate(sorted({job for a in patterns for job in a}))}
        self._has = np.array([self._row(a) for a in patterns])
        self._sizes = self._has.sum(axis=1)
        most = np.zeros(len(patterns))
        for a, b in measured:
            most[patterns[a]] = max(most[patterns[a]], len(b))
        self._ratios = most / self._sizes
        self._wanted: dict[frozenset, float] = {}

    def _row(self, jobs: frozenset) -> np.ndarray:
        row = np.zeros(len(self._column), np.float32)
        row[[self._column[job] for job in jobs if job in self._column]] = 1
        return row

    def wanted(self, a: frozenset) -> float:
        """Returns how many jobs of B should have a series, given the jobs of A that have it."""
        if a not in self._wanted:
            near = self._has @ self._row(a) >= _BESIDE * np.maximum(self._sizes, len(a)) - 1e-6
            self._wanted[a] = float(self._ratios[near].max(initial=0)) * len(a)
        return self._wanted[a]


_Jobs = dict[Place, set]  # place → names of its jobs; for EVERYWHERE, (node, name) pairs


def _jobs(each: Series, side: str) -> _Jobs:
    found: _Jobs = collections.defaultdict(set)
    for job in each.of(side):
        for place in places_of(job):
            found[place].add(job.name)
            found[EVERYWHERE].add((place[0], job.name))  # a job on two nodes must run on both
    return found


def lacking(measured: Iterable[Series], machine: Iterable[Series] = (), ran: dict[str, _Jobs] | None = None) -> Lacking:
    """Finds places and series that A ran and measured but B lacks on all nodes, on a node, or on a GPU.

    `machine` contains further series that are judged by the measured ones, but not the other way round. `ran` contains
    the jobs of each side at each place, regardless of their results (see ran_on()); without it, the jobs of the series
    count. A series that all nodes lack is named once, without single places.
    """
    of = {each.key: (_jobs(each, "A"), _jobs(each, "B")) for each in measured}
    known = [(a, b) for a, b in of.values() if a]
    result = Lacking()
    if not known:
        return result
    if ran is None:
        ran = {side: _union(jobs[i] for jobs in known) for i, side in enumerate("AB")}
    gone = _gone_places(ran["A"], ran["B"], result)
    companions = _Beside([(frozenset(a[EVERYWHERE]), frozenset(b[EVERYWHERE])) for a, b in known])
    usual = _usual_ratios(known)
    tests = len({tuple(sorted((place, frozenset(jobs)) for place, jobs in a.items())) for a, _ in known})
    of |= {each.key: (_jobs(each, "A"), _jobs(each, "B")) for each in machine}
    for key, (a, b) in of.items():
        if not (a and b):
            continue
        should, does = companions.wanted(frozenset(a[EVERYWHERE])), len(b[EVERYWHERE])
        if reason := _reason(a, b, usual, gone, tests):
            result.reasons[key] = reason
        elif should - does >= _LEAST - 1e-6 and does < _KEPT * should:
            result.reasons[key] = f"absent: {does} of {should:.0f} jobs of B have it"
        elif should - does > 1 - 1e-6:
            result.single += 1
    return result


def _union(jobs: Iterable[_Jobs]) -> _Jobs:
    found: _Jobs = collections.defaultdict(set)
    for each in jobs:
        for place, names in each.items():
            found[place] |= names
    return found


def _middle(ratios: list[float]) -> float:
    """Returns the median; of two middle values the higher, since the lower may be due to missing jobs."""
    return sorted(ratios)[len(ratios) // 2]


def _usual_ratios(known: list[tuple[_Jobs, _Jobs]]) -> dict[Place, tuple[float, bool]]:
    """Returns, for each place of A, the median over series of B's jobs per job of A, and whether jobs are regular."""
    counts: dict[Place, list[tuple[int, int]]] = collections.defaultdict(list)
    for a, b in known:
        for place, jobs in a.items():
            counts[place].append((len(jobs), len(b.get(place, ()))))
    return {
        place: (_middle([b / a for a, b in each]), is_regular(a for a, _ in each)) for place, each in counts.items()
    }


def _reason(a: _Jobs, b: _Jobs, usual: dict[Place, tuple[float, bool]], gone: set[Place], tests: int) -> str:
    """Returns a sentence if too few of B's jobs have a series: overall, otherwise on the node or GPU that lacks the
    most jobs; empty if there are enough."""
    others = _other_ratios(a, b)
    short: dict[Place, tuple[float, str]] = {}
    for place in sorted(a):
        if place in gone or (place[0], "") in gone:
            continue
        had, has = len(a[place]), len(b.get(place, ()))
        ratio, regular = usual.get(place, (0.0, False))
        ratio = min(1.0, max(ratio, others.get(place, 0.0)))
        regular = regular or (place != EVERYWHERE and is_regular(len(a[each]) for each in _peers(a, place)))
        if ratio and too_few(has, had, ratio, regular=regular, tests=tests):
            where = f" on {in_words(place)}" if place != EVERYWHERE else ""
            short[place] = (had * ratio - has, f"absent: {has} of {had * ratio:.0f} jobs of B{where} have it")
    if EVERYWHERE in short or not short:
        return short[EVERYWHERE][1] if short else ""
    return max((short[place] for place in sorted(narrowest(set(short), a))), key=lambda each: each[0])[1]


def _peers(jobs: _Jobs, place: Place) -> list[Place]:
    """Returns all nodes for a node, or all GPUs of its node for a GPU, including the place."""
    node, gpu = place
    return [each for each in jobs if (each[0] == node and each[1] if gpu else each[0] and not each[1])]


def _other_ratios(a: _Jobs, b: _Jobs) -> dict[Place, float]:
    """Returns, for each place, the median of B's jobs per job of A on the other nodes, or on the node's other GPUs."""
    found = {}
    for place in a:
        ratios = [len(b.get(each, ())) / len(a[each]) for each in _peers(a, place) if each != place]
        if place != EVERYWHERE and ratios:
            found[place] = _middle(ratios)
    return found


def ran_on(opened: store.Store, side: str) -> dict[str, _Jobs]:
    """Returns the jobs of each side at each place, regardless of their results.

    A partition is the place (system:partition, _PARTITION).
    """
    found: dict[str, _Jobs] = {"A": collections.defaultdict(set), "B": collections.defaultdict(set)}
    rows = opened.sql(
        f"SELECT DISTINCT side, system, partition, node, gpus, job FROM (SELECT *, {side} AS side FROM measurements) "
        "WHERE side IN ('A', 'B')"
    ).fetchall()
    for where, system, partition, node, gpus, job in rows:
        for place in places(node, gpus or ""):
            found[where][place].add(job)
        if partition:
            found[where][f"{system}:{partition}", _PARTITION].add(job)
    return found


_PARTITION = "partition"


def narrowest(short: set[Place], every: Iterable[Place]) -> set[Place]:
    """Returns the places of `short` without repetition: a node, or its GPUs if only some of them are in `short`."""
    gpus = grouped((node, (node, gpu)) for node, gpu in every if gpu)
    kept = set(short)
    for node, those in gpus.items():
        some = [place for place in those if place in short]
        if (node, "") in short:
            kept -= {(node, "")} if 0 < len(some) < len(those) else set(some)
    return kept


def _gone_places(a: _Jobs, b: _Jobs, result: Lacking) -> set[Place]:
    """Adds partitions, nodes and GPUs that B lacks, or ran in at most half of the jobs, to `result`; returns them.

    If the sides have no node in common, the comparison is between nodes, so none of them is gone.
    """
    every = sorted(place for place in a if place != EVERYWHERE)
    partitions = [place for place in every if place[1] == _PARTITION]
    nodes = [place for place in every if not place[1]]
    gpus = [place for place in every if place[1] and place[1] != _PARTITION]
    short: set[Place] = set()
    none: set[Place] = set()
    for level in (partitions, nodes, gpus):
        if any(place in b for place in level):
            none |= {place for place in level if not b.get(place)}
            short |= {place for place in level if _is_short(a, b, place, level)}
    lost = {job for place in short & set(partitions) if place in none for job in a[place]}
    whole = {place for place in [*nodes, *gpus] if a[place] <= lost or (place[1] and (place[0], "") in none)}
    told = narrowest(short - set(partitions) - whole, [*nodes, *gpus]) | (short & set(partitions))
    for place in sorted(told, key=lambda each: (each[1] != _PARTITION, each)):
        name = f"partition {spelling.printable(place[0])}" if place[1] == _PARTITION else in_words(place)
        if place in none:
            result.places.append(name)
        else:
            result.fewer.append(f"B ran {len(b[place])} jobs on {name}, A {len(a[place])}")
    result.chance += [in_words(place) for place in sorted(none - short - whole - set(partitions))]
    return told | none


def _is_short(a: _Jobs, b: _Jobs, place: Place, level: list[Place]) -> bool:
    peers = [each for each in level if each[0] == place[0]] if _is_gpu(place) else level
    regular = place[1] == _PARTITION or is_regular(len(a[each]) for each in peers)
    ratio = min(1.0, _ratio_of_place(a, b, place, peers))
    return too_few(len(b.get(place, ())), len(a[place]), ratio, regular=regular, tests=len(level))


def _is_gpu(place: Place) -> bool:
    return bool(place[1]) and place[1] != _PARTITION


def _ratio_of_place(a: _Jobs, b: _Jobs, place: Place, peers: list[Place]) -> float:
    """Returns the expected number of B's jobs per job of A at a place.

    It is the median over the other places if B ran at this place, and otherwise the ratio of the total numbers. A
    node's only GPU is compared with the node.
    """
    others = [len(b.get(each, ())) / len(a[each]) for each in peers if each != place]
    if b.get(place) and others:
        return _middle(others)
    if len(peers) == 1 and _is_gpu(place):
        return len(b.get((place[0], ""), ())) / len(a[place])
    return sum(len(b.get(each, ())) for each in peers) / sum(len(a[each]) for each in peers)


# --- absence since a day ---

FEWEST = 5  # number of days with a series that must be exceeded, and minimum number of days without it since then
# Stricter than SESSION, since measurements showed that losses() is too small if shares are estimated from few days.
_OF_LOSSES = rank_test.SESSION / 4


@dataclasses.dataclass(frozen=True)
class Gone:
    """Series or place that is no longer measured on all nodes, a node or a GPU, or on at most half of the days."""

    series: Series | None  # None if nothing is measured at the place
    place: Place
    had: Sequence[tuple[datetime.datetime, str]]  # jobs with it, up to the last one before it was missing
    since: Sequence[tuple[datetime.datetime, str]]  # jobs since then
    days: tuple[int, int]  # number of days since then with it, and of all days since then
    together: int = 1  # number of series that vanished together


def is_gone(had: int, before: int, since: int, series: int, others: Presence | None = None) -> bool:
    """Returns whether a series is gone that was measured on `had` of `before` days, the last included, but not since.

    `since` is the number of days without it; `series` is the number of series watched. If each day had each series by
    chance, none would be missing for so long in 95% of histories, examined after each day; the chance is unknown, with
    a uniform prior. A series that was there on each of its days is compared with the presence of the `others` as well.
    Returns false if `had` is at most FEWEST or below half of `before`, or if `since` is below FEWEST.
    """
    if had <= FEWEST or since < FEWEST or 2 * had < before:
        return False
    missing = before - had + np.arange(since)  # days missed before each day since; the last day with it does not count
    by_chance = float(np.prod((1 + missing) / (1 + before + np.arange(since))))
    if series * (before + since) * by_chance <= rank_test.SESSION:
        return True
    if others is None or had < before:
        return False
    return (before + since) * others.losses(had, since) <= _OF_LOSSES


class Presence:
    """Presence of a history's workloads: the numbers of days with and without each, at each place."""

    def __init__(self, known: Iterable[tuple[int, int]]):
        """Stores the numbers of days with and without each workload, up to the last day with it.

        Later days do not count, because the workload may be lost.
        """
        counts = collections.Counter(known)
        self._count = np.array([*counts.values()], float)
        # The first day does not count, since counting begins with it.
        self._with = np.array([1.0 * had for had, _ in counts])
        self._without = np.array([1.0 + missing for _, missing in counts])

    def losses(self, had: int, since: int) -> float:
        """Returns the number of workloads that chance would show on `had` days in a row and then on none of `since`.

        Each workload has a different probability of being present on a day, estimated from its days.
        """
        logs = [
            math.lgamma(a + had - 1) + math.lgamma(b + since) - math.lgamma(a + b + had - 1 + since)
            - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b) for a, b in zip(self._with, self._without)
        ]  # fmt: skip
        return float(self._count @ np.exp(logs)) if logs else math.inf


def thinned(there: np.ndarray, series: int) -> int | None:
    """Returns the day since which a series is present on at most half of the days, and not by chance, or None.

    Before that day, it must have been present on nine days in ten. `there` contains a value for each day; `series` and
    chance are as in is_gone().
    """
    days = len(there)
    missing = np.concatenate([[0], np.cumsum(~there)])
    best: tuple[float, int | None] = (1.0, None)
    for start in np.flatnonzero(~there):
        before, without = int(start), int(missing[start])
        since, lost = days - before, int(missing[-1] - without)
        if before <= FEWEST or lost < FEWEST or 2 * lost < since or 10 * without > before:
            continue
        chance = math.fsum(_predicted(k, since, without, before) for k in range(lost, since + 1))
        best = min(best, (chance, int(start)), key=lambda each: each[0])
    return best[1] if best[0] * series * days <= rank_test.SESSION else None


def _predicted(missing: int, of: int, before: int, days: int) -> float:
    """Returns the Beta-binomial probability of `missing` absences in the next `of` days, after `before` in `days`."""

    def beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    ways = math.lgamma(of + 1) - math.lgamma(missing + 1) - math.lgamma(of - missing + 1)
    a, b = 1 + before, 1 + days - before
    return math.exp(ways + beta(a + missing, b + of - missing) - beta(a, b))


_Ran = dict[str, list[tuple[datetime.datetime, str]]]  # node → its jobs, ordered by time


def _busy(ran: _Ran, node: str) -> set[datetime.date]:
    """Returns the days on which at least half of the other nodes ran."""
    others = (jobs for other, jobs in ran.items() if other != node)
    days = collections.Counter(day for jobs in others for day in {time.date() for time, _ in jobs})
    return {day for day, count in days.items() if 2 * count >= len(ran) - 1}


class _Calendar:
    """Days of each cell: (place, None) for anything that ran at a place, (place, series) for a series measured there.

    EVERYWHERE counts as a place; its days are the days of all nodes.
    """

    def __init__(self, opened: store.Store, every: list[Series]):
        rows = opened.sql(
            "SELECT node, gpus, job, min(time) AS time FROM measurements GROUP BY ALL ORDER BY time, job"
        ).fetchall()
        self.ran: _Ran = {}
        self.cells: dict[tuple[Place, tuple | None], dict[datetime.date, tuple]] = {}  # cell → last job on each day
        time_of: dict[tuple[str, str], datetime.datetime] = {}
        for node, gpus, job, time in rows:
            if (node, job) not in time_of:
                time_of[node, job] = time
                self.ran.setdefault(node, []).append((time, job))
            for place in places(node, gpus or ""):
                self._add(place, None, time_of[node, job], job, None)
        self.latest: dict[tuple, dict[int, datetime.datetime]] = {}  # (node, workload) → latest job of each version
        for each in every:
            name = but_version(each)
            for job in each.of("A"):
                for place in {EVERYWHERE, *places_of(job)}:
                    time = max(time_of[node, job.name] for node in ([place[0]] if place[0] else nodes_of(job)))
                    self._add(place, name, time, job.name, each)
                    versions = self.latest.setdefault((place[0], each.workload), {})
                    versions[version_of(each)] = max(time, versions.get(version_of(each), time))

    def _add(self, place: Place, name, time: datetime.datetime, job: str, each: Series | None) -> None:
        days = self.cells.setdefault((place, name), {})
        if (known := days.get(time.date())) is None or known[0] <= time:
            days[time.date()] = (time, job, each)

    def nodes_with(self, name) -> set[str]:
        """Returns the nodes that ever had a series."""
        return {node for node in self.ran if ((node, ""), name) in self.cells}

    def clock(self, place: Place, name) -> set[datetime.date]:
        """Returns the days on which a cell should be there.

        For a series (`name`) they are the days of its place. Without one they are, for a GPU, the days of its node, and
        for a node, those on which at least half of the other nodes ran. EVERYWHERE has the days of all nodes with the
        series.
        """
        node, gpu = place
        if place == EVERYWHERE:
            return {day for each in self.nodes_with(name) for day in self.cells[(each, ""), None]}
        if name is not None:
            return {*self.cells[place, None]}
        return {*self.cells[(node, ""), None]} if gpu else _busy(self.ran, node)

    def presence(self) -> Presence:
        """Returns the presence of each workload at each place, since a workload's series appear and vanish together."""
        clocks: dict[tuple[Place, frozenset], list[datetime.date]] = {}
        days_of: dict[tuple[Place, str], set[datetime.date]] = collections.defaultdict(set)
        first: dict[tuple[Place, str], tuple] = {}
        for (place, name), days in self.cells.items():
            if name is not None:
                workload = next(iter(days.values()))[2].workload
                days_of[place, workload] |= {*days}
                first.setdefault((place, workload), name)
        known = []
        for (place, workload), there in days_of.items():
            name = first[place, workload]
            key = (place, frozenset(self.nodes_with(name)) if place == EVERYWHERE else frozenset())
            clock = clocks.setdefault(key, sorted(self.clock(place, name)))
            between = bisect.bisect_right(clock, max(there)) - bisect.bisect_left(clock, min(there))
            if len(there) > FEWEST:
                known.append((len(there), max(0, between - len(there))))
        return Presence(known)

    def replaced(self, place: Place, each: Series, since: datetime.datetime) -> bool:
        """Returns whether the node has measured another version of a series' workload since a time."""
        versions = self.latest[place[0], each.workload]
        return any(at > since for version, at in versions.items() if version != version_of(each))


def nodes_of(job: Job) -> set[str]:
    return {node for node, _ in job.places}


def version_of(each: Series) -> int:
    return each.key[measurements.SERIES.index("version")]


def cells(opened: store.Store, every: list[Series]) -> set[tuple[Place, tuple | None]]:
    """Returns (place, None) for each place with a record, and (place, but_version(series)) for each series there."""
    return {*_Calendar(opened, every).cells}


def gone(opened: store.Store, every: list[Series]) -> list[Gone]:
    """Returns nodes, GPUs and series of side A that were present on most days and then missing for FEWEST days or more.

    Days are counted rather than jobs, because the jobs of one day may be one study. For a node, days on which half of
    the other nodes ran are counted; for other cells, the days of the node or GPU. A series that all nodes lack is named
    once. A series that is measured with another version of the workload is not lost.
    """
    calendar = _Calendar(opened, every)
    watched = sum(len(days) > FEWEST for days in calendar.cells.values())
    presence = calendar.presence()
    result: list[Gone] = []
    lost: set[tuple[Place, tuple | None]] = set()

    def order(cell):
        (node, gpu), name = cell
        return (name is not None, bool(node), bool(gpu), cell[0], str(name))

    for place, name in sorted(calendar.cells, key=order):
        node = (place[0], "")
        if {(node, None), (place, None), (node, name), (EVERYWHERE, name)} & lost:
            continue
        if place == EVERYWHERE and sum(((each, ""), None) not in lost for each in calendar.nodes_with(name)) < 2:
            continue  # the series was on a single node, or on nodes that are gone
        found = _missing_since(calendar, place, name, watched, presence)
        if found:
            lost.add((place, name))
            result.append(found)
    return _together(result)


def _missing_since(calendar: _Calendar, place: Place, name, watched: int, presence: Presence) -> Gone | None:
    days = calendar.cells[place, name]
    if len(days) <= FEWEST:
        return None
    first, last = min(days), max(days)
    clock = sorted(day for day in calendar.clock(place, name) | {*days} if day >= first)
    since = sum(day > last for day in clock)
    if is_gone(len(days), len(clock) - since, since, watched, presence if name else None):
        start = len(clock) - since
    else:
        there = np.array([day in days for day in clock])
        thin = thinned(there, watched)
        if thin is None:
            return None
        start = thin
    before = [days[day] for day in clock[:start] if day in days]
    time, _, each = before[-1]
    if each is not None and calendar.replaced(place, each, time):
        return None
    later = [entry for entry in calendar.ran.get(place[0], ()) if entry[0].date() >= clock[start]]
    if not later:  # for all nodes, or a node that is gone, use the jobs of other nodes
        later = sorted(job for jobs in calendar.ran.values() for job in jobs if job[0].date() >= clock[start])
    has = sum(day in days for day in clock[start:])
    return Gone(each, place, [entry[:2] for entry in before], later, (has, len(clock) - start))


def _together(found: list[Gone]) -> list[Gone]:
    """Merges the series of a place that have been missing since the same job into one, with their number."""
    alike = grouped(((each.place, each.series is None, each.since[0], each.days), each) for each in found)
    return [dataclasses.replace(those[0], together=len(those)) for those in alike.values()]


# --- absence among equals ---

_OTHERS = 3  # minimum number of equals that have a series
MOST = 0.25  # maximum share of equals that lack a series; if more do, it is not their fault


def among(
    jobs_of: dict[Place, set[str]], cells: dict[tuple, dict[Place, set[str]]],
    explained: dict[tuple, dict[Place, set[str]]],
) -> dict[Place, dict[tuple, int]]:  # fmt: skip
    """Returns, for each place, the series that at most half of the expected jobs have, with the number of those jobs.

    `jobs_of` contains the jobs of equal nodes and GPUs; `cells` contains the jobs with each series. Jobs that are
    `explained` at a place count as if they had the series. A series that a node lacks is not repeated for its GPUs.
    """
    found: dict[Place, dict[tuple, int]] = {}
    levels = [[place for place in sorted(jobs_of) if bool(place[1]) == of_gpus] for of_gpus in (False, True)]
    for name, jobs in cells.items():
        short: dict[Place, int] = {}
        others = explained.get(name, {})
        for level in levels:
            has = {place: len(jobs.get(place, ())) for place in level}
            ran = {place: len(jobs_of[place]) for place in level}
            known = {place: len(jobs.get(place, set()) | others.get(place, set())) for place in level}
            short |= {place: has[place] for place in _short_of_others(has, ran, known, len(cells))}
        for place in narrowest(set(short), jobs_of):
            found.setdefault(place, {})[name] = short[place]
    return found


def _short_of_others(has: dict[Place, int], ran: dict[Place, int], known: dict[Place, int], tests: int) -> list[Place]:
    """Returns places at which too few jobs have a series that other places have; `known` includes explained jobs."""
    with_it = [place for place in has if has[place]]
    if len(with_it) < _OTHERS:
        return []
    shares = {place: has[place] / ran[place] for place in has}
    middle = float(np.median([shares[place] for place in with_it]))
    total, jobs = sum(has.values()), sum(ran.values())
    regular = is_regular(has[place] for place in with_it if shares[place] > HALF * middle)
    short = []
    for place in has:
        others, others_ran = total - has[place], jobs - ran[place]
        # The usual share is the median over places if jobs are regular, and otherwise the share of all other jobs.
        ratio = middle * ran[place] / others if regular and others else ran[place] / max(others_ran, 1)
        if others and too_few(known[place], others, ratio, regular=regular, tests=tests * len(has)):
            short.append(place)
    return short if len(short) <= MOST * len(has) else []
