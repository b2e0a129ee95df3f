"""Design of a comparison: the units that may be permuted if nothing changed (jobs of a boot, boots of a node, nodes).

Jobs of one boot (one start of a node) share its effects: the layout of memory, and the training of links and clocks.
Therefore jobs are compared with jobs of the same boot if both sides ran in it. Otherwise a boot counts once, with the
mean of its jobs, and is compared with boots of the same node. If the sides have no node in common, a node counts once.
Changes that one boot per side cannot show remain undecided: see docs/statistics.md.

Different nodes may also share a cause, such as a night or a restart of all nodes. Design.levels groups jobs that may
share one.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math

import numpy as np

from isthmus.statistics import clusters, rank_test
from isthmus.statistics.series import Job, components


@dataclasses.dataclass(frozen=True)
class Stratum:
    """Units of a stratum, ordered by time, as weights (units, jobs of the side) that turn jobs' values into units'."""

    key: tuple  # common properties of its units, which are the same for every series
    a: np.ndarray
    b: np.ndarray


@dataclasses.dataclass(frozen=True)
class Design:
    """Assignment of units to the strata in which they are compared."""

    strata: tuple[Stratum, ...]
    unit: str  # unit that is permuted: "job", "boot" or "node"
    paired: str  # property that units of a stratum share: "GPU", "node" or "unpaired"
    jobs: tuple[int, int]  # number of jobs of each side that are in a stratum
    unnamed: int  # number of jobs whose boot is unknown
    other_gpus: bool = False  # true if the sides ran on different GPUs of the nodes, and not by chance
    levels: tuple[clusters.Level, ...] = ()  # clusters of jobs that ran together, over all strata

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Number of units of each side in each stratum."""
        return tuple((len(stratum.a), len(stratum.b)) for stratum in self.strata)

    @property
    def units(self) -> tuple[int, int]:
        """Number of units of each side in all strata together."""
        return sum(a for a, _ in self.sizes), sum(b for _, b in self.sizes)

    def members(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns, for each stratum, the indices of its jobs (A then B), and the indices of its jobs of A."""
        of_a = self.strata[0].a.shape[1]
        result = []
        for each in self.strata:
            a, b = (np.flatnonzero((rows > 0).any(axis=0)) for rows in (each.a, each.b))
            result.append((np.concatenate([a, of_a + b]), a))
        return result

    def jobs_of_sides(self) -> tuple[list[int], list[int]]:
        """Returns the indices of the jobs of A, and of those of B, that are in a stratum."""
        of_a = self.strata[0].a.shape[1]
        every = sorted(int(job) for members, _ in self.members() for job in members)
        return [job for job in every if job < of_a], [job for job in every if job >= of_a]

    def units_of_jobs(self) -> list[int]:
        """Returns a number for each job of A, then B, equal for jobs of a unit, unique for jobs without a stratum."""
        of_a, of_b = (sides[0].shape[1] for sides in zip(*((each.a, each.b) for each in self.strata)))
        result = list(range(-1, -1 - of_a - of_b, -1))
        rows = [(0, row) for each in self.strata for row in each.a]
        rows += [(of_a, row) for each in self.strata for row in each.b]
        for number, (first, row) in enumerate(rows):
            for job in np.flatnonzero(row > 0):
                result[first + job] = number
        return result

    def clusters_of_jobs(self) -> list[int]:
        """Returns a number for each job of A, then B, which is equal for jobs that ran together."""
        name = "restarts" if self.unit == "boot" else ""
        for level in self.levels:
            if not name or level.name == name:
                return [label if label >= 0 else -1 - i for i, label in enumerate(level.labels.tolist())]
        return [-1 - unit for unit in self.units_of_jobs()]

    def pairs(self, a: np.ndarray, b: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns units' values of A and B in each stratum, given jobs' values; the last axis is the unit or job."""
        return [(a @ stratum.a.T, b @ stratum.b.T) for stratum in self.strata]


@dataclasses.dataclass
class _Unit:
    jobs: list[int]
    by_gpu: tuple
    by_node: tuple


def of(a: list[Job], b: list[Job], *, boots: bool = True) -> Design:
    """Makes the design for two sides' jobs, each ordered by time; without `boots`, all boots count as one."""
    unnamed = sum(not job.boots or any(boot is None for _, boot in job.boots) for job in (*a, *b))
    labels = _boots([*a, *b], apart=boots and not unnamed)
    units = _units(a, b, labels[: len(a)], labels[len(a) :])
    by_gpu, by_node = _strata(units, "by_gpu"), _strata(units, "by_node")
    sizes = (len(a), len(b))
    if not by_node:
        nodes = (Stratum(("nodes",), _apart(a), _apart(b)),)
        return Design(nodes, "node", "unpaired", sizes, unnamed, levels=_levels(nodes, a, b, "node"))
    jobs, jobs_by_node = _jobs(by_gpu), _jobs(by_node)
    paired, level, other_gpus = "GPU", by_gpu, False
    if not by_gpu or sum(jobs) < 0.8 * sum(jobs_by_node):
        paired, level, jobs = "node", by_node, jobs_by_node
        cells = tuple(tuple(_cells(units, side) for units, side in zip(each, (a, b))) for each in level.values())
        other_gpus = _on_other_gpus(cells)
    unit = "boot" if any(unit.by_node[0] is None for each in level.values() for unit in each[0]) else "job"
    strata = tuple(Stratum(key, *(_weights(side, n) for side, n in zip(each, sizes))) for key, each in level.items())
    found = _levels(strata, a, b, paired)
    if unit == "boot" and len(strata) > 1:
        found += _restarts(strata, a, b)
    return Design(strata, unit, paired, jobs, unnamed, other_gpus, found)


_EPOCH = datetime.datetime(1970, 1, 1)


def _seconds(jobs: list[Job]) -> np.ndarray:
    """Returns the start times of jobs in s, NaN if unknown; works for years for which timestamp() fails."""
    times = (job.time.replace(tzinfo=None) if job.time else None for job in jobs)
    return np.array([(time - _EPOCH).total_seconds() if time else math.nan for time in times])


def _strata_of(strata: tuple[Stratum, ...], jobs: int) -> np.ndarray:
    """Returns the index of the stratum of each job of A, then B; -1 for jobs without a stratum."""
    result = np.full(jobs, -1)
    for i, each in enumerate(strata):
        result[np.concatenate([(each.a > 0).any(axis=0), (each.b > 0).any(axis=0)])] = i
    return result


def _over_all(level: clusters.Level, used: np.ndarray, jobs: int) -> clusters.Level:
    """Returns a level of the jobs `used`, extended to all jobs."""
    weights, labels = np.zeros((len(level.weights), jobs)), np.full(jobs, -1)
    weights[:, used] = level.weights
    labels[used] = level.labels
    return dataclasses.replace(level, weights=weights, labels=labels)


def _levels(strata: tuple[Stratum, ...], a: list[Job], b: list[Job], paired: str) -> tuple[clusters.Level, ...]:
    """Returns the levels of jobs that are in a stratum, with weights over all jobs of A, then B."""
    jobs = [*a, *b]
    of_job, times = _strata_of(strata, len(jobs)), _seconds(jobs)
    used = np.flatnonzero(of_job >= 0)
    if not np.isfinite(times[used]).all():
        return ()
    sides = tuple((used >= len(a)).astype(int).tolist())
    places = len({frozenset(jobs[i].places) if paired == "GPU" else jobs[i].nodes for i in used})
    found = clusters.levels(tuple(times[used]), sides, tuple(of_job[used].tolist()), places)
    return tuple(_over_all(level, used, len(jobs)) for level in found)


def _restarts(strata: tuple[Stratum, ...], a: list[Job], b: list[Job]) -> tuple[clusters.Level, ...]:
    """Returns the finest level whose clusters are boots that began together on several nodes.

    A boot's first job shows when it began.
    """
    jobs, seconds = [*a, *b], _seconds([*a, *b])
    of_job = _strata_of(strata, len(jobs))
    began = np.full(len(jobs), math.nan)
    for each in strata:
        for rows, first in ((each.a, 0), (each.b, len(a))):
            for row in rows:
                members = first + np.flatnonzero(row > 0)
                began[members] = seconds[members].min()
    used = np.flatnonzero(of_job >= 0)
    if not np.isfinite(began[used]).all():
        return ()
    sides = (used >= len(a)).astype(int)
    for labels in clusters.cuts(began[used]):
        if any(len({*of_job[used][labels == label]}) > 1 for label in {*labels}):
            level = clusters.level_of("restarts", labels, sides, of_job[used])
            return (_over_all(level, used, len(jobs)),)
    return ()


def _boots(jobs: list[Job], *, apart: bool) -> list[frozenset]:
    """Returns, for each job, the boots of all jobs linked to it by common boots; without `apart`, those of all jobs."""
    labels = components([job.boots for job in jobs]) if apart else [0] * len(jobs)
    members: dict[int, set] = {}
    for job, label in zip(jobs, labels):
        members.setdefault(label, set()).update(job.boots)
    names = {label: frozenset(found) for label, found in members.items()}
    return [names[label] for label in labels]


def _units(a, b, labels_a, labels_b) -> tuple[list[_Unit], list[_Unit]]:
    """Returns the units of both sides: jobs if both sides ran in their boot, otherwise boots."""
    shared = {*labels_a} & {*labels_b}
    sides = []
    for jobs, labels in ((a, labels_a), (b, labels_b)):
        boots: dict[frozenset, list[int]] = {}
        units = []
        for i, (job, label) in enumerate(zip(jobs, labels)):
            if label in shared:
                units.append(_Unit([i], (label, frozenset(job.places)), (label, job.nodes)))
            else:
                boots.setdefault(label, []).append(i)
        for members in boots.values():
            cells = frozenset(frozenset(jobs[i].places) for i in members)
            nodes = tuple(sorted({node for i in members for node in jobs[i].nodes}))
            units.append(_Unit(members, (None, cells), (None, nodes)))
        sides.append(units)
    return sides[0], sides[1]


def _strata(units, level: str) -> dict[tuple, tuple[list[_Unit], list[_Unit]]]:
    """Groups the units of both sides by their attribute `level`, in order of time; keeps groups with both sides."""
    groups: list[dict[tuple, list[_Unit]]] = []
    for side in units:
        groups.append({})
        for unit in sorted(side, key=lambda unit: unit.jobs[0]):
            groups[-1].setdefault(getattr(unit, level), []).append(unit)
    return {key: (found, groups[1][key]) for key, found in groups[0].items() if key in groups[1]}


def _jobs(strata) -> tuple[int, int]:
    a, b = (sum(len(unit.jobs) for each in strata.values() for unit in each[side]) for side in (0, 1))
    return a, b


def _cells(units: list[_Unit], jobs: list[Job]) -> tuple:
    """Returns the GPUs of each job of each unit."""
    return tuple(tuple(tuple(sorted(set(jobs[i].places), key=str)) for i in unit.jobs) for unit in units)


_ORDERS = 999


@functools.lru_cache(maxsize=1024)
def _on_other_gpus(strata: tuple) -> bool:
    """Returns whether the sides ran on different GPUs: they have none in common, or differ more than by chance.

    GPUs of a node differ, so a difference between such sides may be one between GPUs. `strata` contains the _cells() of
    both sides for each stratum.
    """
    chance = np.random.default_rng(1)
    seen, drawn, shared = 0.0, np.zeros(_ORDERS), False
    for sides in strata:
        gpus = sorted({gpu for units in sides for unit in units for job in unit for gpu in job}, key=str)
        column = {gpu: i for i, gpu in enumerate(gpus)}
        shares = np.zeros((sum(map(len, sides)), len(gpus)))
        for row, unit in zip(shares, [unit for units in sides for unit in units]):
            for job in unit:
                row[[column[gpu] for gpu in job]] += 1 / len(job) / len(unit)
        first = len(sides[0])
        shared |= bool(((shares[:first] > 0).any(axis=0) & (shares[first:] > 0).any(axis=0)).any())
        orders = np.argsort(chance.random((_ORDERS, len(shares))), axis=1)
        mixed = shares[orders]
        drawn += np.abs(mixed[:, :first].mean(axis=1) - mixed[:, first:].mean(axis=1)).sum(axis=1)
        seen += float(np.abs(shares[:first].mean(axis=0) - shares[first:].mean(axis=0)).sum())
    p = (1 + int((drawn >= seen - 1e-9).sum())) / (1 + _ORDERS)
    return not shared or p <= rank_test.ALPHA


def _weights(units: list[_Unit], jobs: int) -> np.ndarray:
    """Returns a row of weights for each unit that averages its jobs."""
    weights = np.zeros((len(units), jobs))
    for row, unit in zip(weights, units):
        row[unit.jobs] = 1 / len(unit.jobs)
    return weights


def _apart(jobs: list[Job]) -> np.ndarray:
    """Returns a row of weights for each node that averages its jobs; nodes with a common job count as one."""
    labels = components([frozenset(job.nodes) for job in jobs])
    return np.array([[(label == each) / labels.count(each) for label in labels] for each in dict.fromkeys(labels)])


# --- order in time ---


class Sequences:
    """Values of units of all series, grouped by side and stratum, for rank_test.order()."""

    def __init__(self):
        self._rows: dict[tuple, dict[int, dict]] = {}
        self._cases: dict = {}  # case → its first series; its other metrics come from the same samples
        self._count = 0

    def add(self, design: Design, case, sides: list[tuple[list[Job], np.ndarray]]) -> None:
        """Adds the units of a series of a case; `sides` contains the jobs of A and of B with their values."""
        for side, (jobs, values) in enumerate(sides):
            for stratum in design.strata:
                weights = stratum.b if side else stratum.a
                first = [jobs[int(np.argmax(row > 0))] for row in weights]
                units = {(job.time, job.name): value for job, value in zip(first, weights @ values)}
                self._rows.setdefault((side, stratum.key), {})[self._count] = units
        self._cases.setdefault(case, self._count)
        self._count += 1

    def _matrices(self, series: list[int] | None) -> list[np.ndarray]:
        result = []
        for rows in self._rows.values():
            chosen = [*rows] if series is None else series
            units = {unit for number in chosen for unit in rows.get(number, ())}
            columns = {unit: i for i, unit in enumerate(sorted(units, key=lambda unit: (str(unit[0]), unit[1])))}
            matrix = np.full((len(chosen), len(columns)), np.nan)
            for line, number in zip(matrix, chosen):
                row = rows.get(number, {})
                line[[columns[unit] for unit in row]] = list(row.values())
            result.append(matrix)
        return result

    def order(self) -> rank_test.Order:
        """Tests whether the order of units matters, and, with one metric per case, whether metrics move together."""
        found = rank_test.order(self._matrices(None))
        together = rank_test.move_together(self._matrices(list(self._cases.values())))
        return dataclasses.replace(found, together=together)
