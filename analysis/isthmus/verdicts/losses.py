"""Losses of nodes and GPUs: samples that are invalid there although those of their equals are valid.

Losses are counted separately for nodes and for GPUs, in the median job of each: if each job uses one GPU, a node's
median does not show the losses of one GPU of four. A GPU with only invalid samples is named even if it had few jobs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from isthmus.grouping import grouped
from isthmus.records import store
from isthmus.statistics import parts, rank_test
from isthmus.verdicts import missing
from isthmus.verdicts.missing import Place

INVALID = 0.10  # share of a place's samples that must be invalid, in addition to the share that its equals lose


@dataclasses.dataclass(frozen=True)
class _Part:
    """Samples of a job from GPUs of a node that it used together."""

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
    share: float  # share in the place's median job
    usual: float  # median of the shares of its equals
    jobs: int
    codes: list[str]
    by_chance: bool  # true if, at the equals' rate, more than one fleet in twenty has such a place by chance


def found(opened: store.Store, equal: tuple[str, ...]) -> list[Loss]:
    """Returns the nodes and GPUs that lose more than their equals, which agree with them in the columns `equal`."""
    rows = opened.sql(
        f"SELECT {', '.join(equal)}, node, coalesce(gpus, ''), job, "
        "sum(CASE WHEN invalid THEN n_samples ELSE n_invalid END), sum(n_samples), "
        "flatten(coalesce(list(warnings) FILTER (invalid OR n_invalid > 0), [])) FROM measurements "
        "WHERE metric IS NOT NULL AND n_samples > 0 GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    width = len(equal)
    of_equals = grouped((row[:width], _Part(*row[width:])) for row in rows)
    return [loss for those in of_equals.values() for loss in _among(those)]


def _among(every: list[_Part]) -> list[Loss]:
    """Returns the losses among equals: of nodes, or of GPUs if only some GPUs of a node lose more than the others."""
    of_places = grouped((place, each) for each in every for place in missing.places(each.node, each.gpus))
    lost = _beyond(of_places, [place for place in of_places if not place[1]])
    lost |= _beyond(of_places, [place for place in of_places if place[1]])
    return [lost[place] for place in sorted(missing.narrowest(set(lost), of_places))]


def _by_job(of_place: Iterable[_Part]) -> list[float]:
    jobs = grouped((each.job, each) for each in of_place)
    return [sum(each.bad for each in those) / sum(each.samples for each in those) for those in jobs.values()]


def _beyond(of_places: dict[Place, list[_Part]], level: list[Place]) -> dict[Place, Loss]:
    """Returns the places of one level (all nodes, or all GPUs) that lose more than the others.

    A GPU must lose more than chance explains, or everything. Jobs in which a GPU ran together with another GPU that
    loses more do not count, provided that it also ran without that GPU.
    """
    shares = {place: _by_job(of_places[place]) for place in level}
    usual = float(np.median([np.median(each) for each in shares.values()])) if shares else 0.0
    least = INVALID + (usual if len(level) > 1 else 0.0)
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


# --- lost figures of cases ---


@dataclasses.dataclass
class Case:
    """Jobs of equals that ran a case, grouped by place."""

    ran: dict[Place, set[str]] = dataclasses.field(default_factory=dict)
    failed: dict[Place, set[str]] = dataclasses.field(default_factory=dict)
    invalid: dict[Place, set[str]] = dataclasses.field(default_factory=dict)

    def invalid_by_chance(self, place: Place, cases: int) -> bool:
        """Returns whether more than one session in twenty with `cases` cases has such a place by chance."""
        level = [each for each in self.ran if bool(each[1]) == bool(place[1])]
        few, of = (
            (sum(len(jobs.get(each, ())) for each in level if each != place), len(jobs.get(place, ())))
            for jobs in (self.invalid, self.ran)
        )
        return parts.excess(few, of) * len(level) * cases > rank_test.SESSION


def of_cases(opened: store.Store, equal: tuple[str, ...], case: list[str], failed: str) -> dict[tuple, dict]:
    """Returns cases that failed or were invalid anywhere, keyed by equals and then by the columns `case`.

    `failed` is SQL for whether a row's case failed.
    """
    columns = ", ".join(f'"{name}"' for name in case)
    rows = opened.sql(
        f"SELECT * FROM (SELECT {', '.join(equal)}, node, coalesce(gpus, '') AS gpus, job, "
        f"bool_or({failed}) AS failing, bool_or(invalid AND NOT {failed}) AS lost, {columns} FROM measurements "
        f"GROUP BY ALL) QUALIFY bool_or(failing OR lost) OVER (PARTITION BY {columns})"
    ).fetchall()
    width = len(equal)
    result: dict[tuple, dict[tuple, Case]] = {}
    for row in rows:
        node, gpus, job, failing, lost = row[width : width + 5]
        each = result.setdefault(row[:width], {}).setdefault(row[width + 5 :], Case())
        for place in missing.places(node, gpus):
            for jobs, has in ((each.ran, True), (each.failed, failing), (each.invalid, lost)):
                if has:
                    jobs.setdefault(place, set()).add(job)
    return result


def explained(cases: dict[tuple, Case], named: set[Place]) -> dict[tuple, dict[Place, set[str]]]:
    """Returns, for each case and place, the jobs without a figure that need no further explanation.

    Such jobs failed, which is reported for the node, or they are invalid and the place is in `named` or has no more
    invalid jobs than chance explains.
    """
    with_invalid = sum(bool(each.invalid) for each in cases.values())
    result: dict[tuple, dict[Place, set[str]]] = {}
    for case, each in cases.items():
        jobs = result.setdefault(case, {place: set(failed) for place, failed in each.failed.items()})
        for place, invalid in each.invalid.items():
            if place in named or (place[0], "") in named or each.invalid_by_chance(place, with_invalid):
                jobs.setdefault(place, set()).update(invalid)
    return result
