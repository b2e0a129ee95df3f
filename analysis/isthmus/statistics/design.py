"""What may be dealt out anew if nothing changed: jobs of one boot, boots of one node, nodes.

Jobs of one boot (one start of a node) share what that start gave them: where memory was laid out, how links and
clocks were trained. So jobs are compared with jobs of the same boot where both sides ran in it; where they did not, a
boot counts once, with the mean of its jobs, and is compared with boots of the same node. Where the sides share no node,
a node counts once. What one boot a side cannot tell stays open: see docs/statistics.md.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from isthmus.statistics import rank_test
from isthmus.statistics.series import Job, components


@dataclasses.dataclass(frozen=True)
class Stratum:
    """Units of one stratum, in the order of time: weights (units, jobs of the side) that give their values."""

    key: tuple  # what its units have in common, the same for every series
    a: np.ndarray
    b: np.ndarray


@dataclasses.dataclass(frozen=True)
class Design:
    """Which units are compared with which."""

    strata: tuple[Stratum, ...]
    unit: str  # job, boot or node: the least of what is dealt out
    paired: str  # GPU, node or unpaired
    jobs: tuple[int, int]  # of each side that are in a stratum
    boots_known: bool  # every job says in which boot it ran
    other_gpus: bool = False  # the sides ran on other GPUs of the nodes, and not by chance

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Units of each side, by stratum."""
        return tuple((len(stratum.a), len(stratum.b)) for stratum in self.strata)

    @property
    def units(self) -> tuple[int, int]:
        """Of each side, in all strata."""
        return sum(a for a, _ in self.sizes), sum(b for _, b in self.sizes)

    def pairs(self, a: np.ndarray, b: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Values of units by stratum from values of jobs, whose last axis is the job."""
        return [(a @ stratum.a.T, b @ stratum.b.T) for stratum in self.strata]


@dataclasses.dataclass
class _Unit:
    jobs: list[int]
    by_gpu: tuple
    by_node: tuple


def of(a: list[Job], b: list[Job], *, boots: bool = True) -> Design:
    """The design of two sides' jobs, each in the order of time; without `boots` they are taken for one."""
    known = all(job.boots and all(boot is not None for _, boot in job.boots) for job in (*a, *b))
    labels = _boots([*a, *b], apart=boots and known)
    units = _units(a, b, labels[: len(a)], labels[len(a) :])
    by_gpu, by_node = _strata(units, "by_gpu"), _strata(units, "by_node")
    sizes = (len(a), len(b))
    if not by_node:
        return Design((Stratum(("nodes",), _apart(a), _apart(b)),), "node", "unpaired", sizes, known)
    jobs, jobs_by_node = _jobs(by_gpu), _jobs(by_node)
    paired, level, other_gpus = "GPU", by_gpu, False
    if not by_gpu or sum(jobs) < 0.8 * sum(jobs_by_node):
        paired, level, jobs = "node", by_node, jobs_by_node
        cells = tuple(tuple(_cells(units, side) for units, side in zip(each, (a, b))) for each in level.values())
        other_gpus = _on_other_gpus(cells)
    unit = "boot" if any(unit.by_node[0] is None for each in level.values() for unit in each[0]) else "job"
    strata = tuple(Stratum(key, *(_weights(side, n) for side, n in zip(each, sizes))) for key, each in level.items())
    return Design(strata, unit, paired, jobs, known, other_gpus)


def _boots(jobs: list[Job], *, apart: bool) -> list[frozenset]:
    """Of each job: the boots of all that it shares one with, directly or by others; not `apart`, those of all jobs."""
    labels = components([job.boots for job in jobs]) if apart else [0] * len(jobs)
    members: dict[int, set] = {}
    for job, label in zip(jobs, labels):
        members.setdefault(label, set()).update(job.boots)
    names = {label: frozenset(found) for label, found in members.items()}
    return [names[label] for label in labels]


def _units(a, b, labels_a, labels_b) -> tuple[list[_Unit], list[_Unit]]:
    """Units of both sides: jobs of a boot that both sides have, else boots."""
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
    """Units of both sides by what they have in common, in the order of time."""
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
    """Of each unit: the GPUs of its jobs."""
    return tuple(tuple(tuple(sorted(set(jobs[i].places), key=str)) for i in unit.jobs) for unit in units)


_ORDERS = 999


@functools.lru_cache(maxsize=1024)
def _on_other_gpus(strata: tuple) -> bool:
    """Whether which GPUs a unit had goes with its side: they share none, or chance alone would seldom part them so.

    GPUs of a node are unlike each other, so then a difference of sides may be one of GPUs. `strata` are _cells() of
    both sides.
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
    """Rows that average the jobs of a unit."""
    weights = np.zeros((len(units), jobs))
    for row, unit in zip(weights, units):
        row[unit.jobs] = 1 / len(unit.jobs)
    return weights


def _apart(jobs: list[Job]) -> np.ndarray:
    """Rows that average the jobs of a node; nodes that a job had together count as one."""
    labels = components([frozenset(job.nodes) for job in jobs])
    return np.array([[(label == each) / labels.count(each) for label in labels] for each in dict.fromkeys(labels)])


# --- the order in time ---


class Sequences:
    """Values of units by side and stratum over all series, as rank_test.order() takes them."""

    def __init__(self):
        self._rows: dict[tuple, list[dict]] = {}

    def add(self, design: Design, side: str, jobs: list[Job], values: np.ndarray) -> None:
        """Takes the units of one side of a series; `values` are of its jobs."""
        for stratum in design.strata:
            weights = stratum.a if side == "A" else stratum.b
            first = [jobs[int(np.argmax(row > 0))] for row in weights]
            units = {(job.time, job.name): value for job, value in zip(first, weights @ values)}
            self._rows.setdefault((side, stratum.key), []).append(units)

    def matrices(self) -> list[np.ndarray]:
        """(series, units in the order of time) for each side and stratum; NaN where a series has no such unit."""
        result = []
        for rows in self._rows.values():
            units = {(time, job) for row in rows for time, job in row}
            columns = {unit: i for i, unit in enumerate(sorted(units, key=lambda unit: (str(unit[0]), unit[1])))}
            matrix = np.full((len(rows), len(columns)), np.nan)
            for line, row in zip(matrix, rows):
                line[[columns[unit] for unit in row]] = list(row.values())
            result.append(matrix)
        return result
