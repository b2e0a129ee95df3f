"""Losses of nodes and GPUs: samples that are invalid there while those of their equals are valid.

Losses are counted by node and by GPU, each in its median job. Where each job has one GPU, the losses of one GPU of four
are in no median of the node. A GPU whose every sample is invalid is named however few jobs it had.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from isthmus.groups import grouped
from isthmus.records import store
from isthmus.statistics import parts, rank_test
from isthmus.verdicts import absent
from isthmus.verdicts.absent import Place

SPOILT = 0.10  # share of a place's samples, beyond what its equals lose


@dataclasses.dataclass(frozen=True)
class _Part:
    """Samples that a job has from GPUs of a node that ran together."""

    node: str
    gpus: str
    job: str
    bad: float
    samples: float
    codes: list[str]  # codes of warnings on records with invalid samples

    @property
    def names(self) -> set[str]:
        return {gpu for gpu in self.gpus.split("+") if gpu}


@dataclasses.dataclass
class Loss:
    """Loss of a node or GPU, as a share of its samples."""

    place: Place
    share: float  # share in its median job
    usual: float  # median share of its equals
    jobs: int
    codes: list[str]
    by_chance: bool  # true if chance gives one fleet in twenty such a place, at its equals' rate


def found(opened: store.Store, equal: tuple[str, ...]) -> list[Loss]:
    """Returns nodes and their GPUs that lose more than their equals, which have the same values of columns `equal`."""
    rows = opened.sql(
        f"SELECT {', '.join(equal)}, node, coalesce(gpus, ''), job, "
        "sum(CASE WHEN spoilt THEN n_samples ELSE n_invalid END), sum(n_samples), "
        "flatten(coalesce(list(warnings) FILTER (spoilt OR n_invalid > 0), [])) FROM measurements "
        "WHERE metric IS NOT NULL AND n_samples > 0 GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    width = len(equal)
    of_equals = grouped((row[:width], _Part(*row[width:])) for row in rows)
    return [loss for those in of_equals.values() for loss in _among(those)]


def _among(every: list[_Part]) -> list[Loss]:
    """Returns the losses among equals: nodes that lose more than the others, otherwise their GPUs that do."""
    of_places = grouped((place, each) for each in every for place in absent.places(each.node, each.gpus))
    lost = _beyond(of_places, [place for place in of_places if not place[1]])
    lost |= _beyond(of_places, [place for place in of_places if place[1]])
    return [lost[place] for place in sorted(absent.narrowest(set(lost), of_places))]


def _by_job(of_place: Iterable[_Part]) -> list[float]:
    jobs = grouped((each.job, each) for each in of_place)
    return [sum(each.bad for each in those) / sum(each.samples for each in those) for those in jobs.values()]


def _beyond(of_places: dict[Place, list[_Part]], level: list[Place]) -> dict[Place, Loss]:
    """Returns the nodes, or the GPUs, of one level that lose more than the others.

    A GPU must lose more than chance explains, or everything. Losses of a GPU do not count where they happen only in
    jobs with another GPU that loses more, provided that it ran without that one.
    """
    shares = {place: _by_job(of_places[place]) for place in level}
    usual = float(np.median([np.median(each) for each in shares.values()])) if shares else 0.0
    least = SPOILT + (usual if len(level) > 1 else 0.0)
    result: dict[Place, Loss] = {}
    for place in sorted(level, key=lambda each: (-float(np.median(shares[each])), each)):
        own = of_places[place]
        if place[1]:
            own = [each for each in own if all((place[0], gpu) not in result for gpu in each.names - {place[1]})] or own
        jobs = _by_job(own)
        share = float(np.median(jobs))
        if share < least:
            continue
        others = [each for other in level if other != place for each in shares[other]]
        of, few = (len(others), len(jobs)), tuple(sum(each >= least for each in those) for those in (others, jobs))
        by_chance = parts.excess((few[0], few[1]), of) * len(level) > rank_test.SESSION
        if place[1] and by_chance and min(jobs) < 1:
            continue
        codes = sorted({code for each in own for code in each.codes})
        result[place] = Loss(place, share, usual, len(jobs), codes, by_chance)
    return result


# --- figures that are lost, by case ---


@dataclasses.dataclass
class Case:
    """Jobs of equals that ran a case, by place."""

    ran: dict[Place, set[str]] = dataclasses.field(default_factory=dict)
    failed: dict[Place, set[str]] = dataclasses.field(default_factory=dict)
    spoilt: dict[Place, set[str]] = dataclasses.field(default_factory=dict)

    def spoilt_by_chance(self, place: Place, cases: int) -> bool:
        """Returns whether chance gives one session in twenty, of `cases` cases, a place with this many invalid jobs."""
        level = [each for each in self.ran if bool(each[1]) == bool(place[1])]
        few, of = (
            (sum(len(jobs.get(each, ())) for each in level if each != place), len(jobs.get(place, ())))
            for jobs in (self.spoilt, self.ran)
        )
        return parts.excess(few, of) * len(level) * cases > rank_test.SESSION


def of_cases(opened: store.Store, equal: tuple[str, ...], case: list[str], failed: str) -> dict[tuple, dict]:
    """Returns cases that failed or were invalid anywhere, by equals, then by columns `case`; `failed` is SQL."""
    columns = ", ".join(f'"{name}"' for name in case)
    rows = opened.sql(
        f"SELECT * FROM (SELECT {', '.join(equal)}, node, coalesce(gpus, '') AS gpus, job, "
        f"bool_or({failed}) AS failing, bool_or(spoilt AND NOT {failed}) AS lost, {columns} FROM measurements "
        f"GROUP BY ALL) QUALIFY bool_or(failing OR lost) OVER (PARTITION BY {columns})"
    ).fetchall()
    width = len(equal)
    result: dict[tuple, dict[tuple, Case]] = {}
    for row in rows:
        node, gpus, job, failing, lost = row[width : width + 5]
        each = result.setdefault(row[:width], {}).setdefault(row[width + 5 :], Case())
        for place in absent.places(node, gpus):
            for jobs, has in ((each.ran, True), (each.failed, failing), (each.spoilt, lost)):
                if has:
                    jobs.setdefault(place, set()).add(job)
    return result


def explained(cases: dict[tuple, Case], named: set[Place]) -> dict[tuple, dict[Place, set[str]]]:
    """Returns, by case, the jobs of places without a figure that need no further explanation.

    Either they failed, which is reported for the node, or they are invalid at a place in `named` or no more often than
    by chance.
    """
    with_spoilt = sum(bool(each.spoilt) for each in cases.values())
    result: dict[tuple, dict[Place, set[str]]] = {}
    for case, each in cases.items():
        jobs = result.setdefault(case, {place: set(failed) for place, failed in each.failed.items()})
        for place, spoilt in each.spoilt.items():
            if place in named or (place[0], "") in named or each.spoilt_by_chance(place, with_spoilt):
                jobs.setdefault(place, set()).update(spoilt)
    return result
