"""Nodes, GPUs and jobs that differ from their equals; references leave them out and list them.

Nodes and GPUs are outliers if `isthmus nodes` calls them slow. Jobs are outliers if they differ from the others by a
fifth or more, and by more than chance explains (as for nodes), provided that they are fewer than a third.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from isthmus.grouping import grouped
from isthmus.records import store
from isthmus.spelling import printable
from isthmus.statistics import series
from isthmus.verdicts import missing, nodes

_FAR = -float(np.log1p(-nodes.GROSS))


@dataclasses.dataclass(frozen=True)
class Outlying:
    """Place or job that differs from its equals."""

    name: str
    why: str  # reason, without the series


class Places:
    """Slow nodes and GPUs among the jobs that fulfil a condition."""

    def __init__(self, opened: store.Store, condition: str) -> None:
        self._whole: dict[tuple[str, str], nodes.Reason] = {}
        self._single: dict[tuple[str, str], list[nodes.Reason]] = {}
        for reason in nodes.slow(opened, condition):
            if reason.case:
                self._single.setdefault((reason.node, reason.gpus), []).append(reason)
            else:
                self._whole.setdefault((reason.node, reason.gpus), reason)

    def of(self, each: series.Series, place: tuple[str, str]) -> Outlying | None:
        """Returns why a place is an outlier in a series, or None if it is not."""
        for at in ((place[0], ""), place):
            if at in self._whole:
                return Outlying(missing.in_words(at), self._whole[at].words)
        if any(reason.case == each.case for reason in self._single.get(place, ())):
            return Outlying(
                missing.in_words(place), f"worse than its equals by {nodes.FLOOR:.0%} or more in single series"
            )
        return None


def without(each: series.Series, places: Places, *, jobs_too: bool = True) -> tuple[series.Series, list[Outlying]]:
    """Returns side A of a series without its outliers, and the outliers."""
    found: dict[str, Outlying] = {}
    left = []
    for job in each.of("A"):
        against = {place: places.of(each, place) for place in job.places}
        found |= {said.name: said for said in against.values() if said}
        kept = {place: value for place, value in job.places.items() if not against[place]}
        left += [dataclasses.replace(job, places=kept)] if kept else []
    far = stray(left) if jobs_too else []
    why = f"{nodes.GROSS:.0%} or more away from the other jobs"
    outlying = [*found.values(), *(Outlying(f"job {printable(left[at].name)}", why) for at in far)]
    jobs = [job for at, job in enumerate(left) if at not in far]
    return (dataclasses.replace(each, sides={**each.sides, "A": jobs}) if outlying else each), outlying


def stray(jobs: list[series.Job]) -> list[int]:
    """Returns indices of jobs with figures far above or below the others; none if ratios are meaningless."""
    values = np.array([job.value for job in jobs])
    return _far(np.log(values)) if len(jobs) and (values > 0).all() else []


def stray_in_words(found: list[tuple[series.Series, str]]) -> tuple[str, str]:
    """Finds the job of side A that is far from the other jobs of its place in most series.

    `found` contains series with their labels. Returns a sentence and the job's name for --without, or two empty strings
    if there is no such job.
    """
    by = grouped((job, label) for each, label in found for job in _stray_of_places(each))
    if not by:
        return "", ""
    job, labels = max(by.items(), key=lambda each: (len(each[1]), each[0]))
    name, more = printable(job), f" (so are {len(by) - 1} more jobs)" if len(by) > 1 else ""
    where = f"in {len(labels)} series, such as {labels[0]}{more}"
    return f"job {name} differs by a fifth or more from the others of its node {where}", name


def _stray_of_places(each: series.Series) -> list[str]:
    """Returns jobs far from the other jobs of the same nodes and GPUs, even if these nodes differ from other nodes."""
    jobs = each.of("A")
    if not series.has_ratios(each, ("A",)):
        return []
    usual = {place: float(np.median(np.log(values))) for place, values in each.by_place("A").items()}
    off = [np.log(job.value) - usual[frozenset(job.places)] for job in jobs]
    return [jobs[at].name for at in _far(np.array(off))]


def _far(logs: np.ndarray) -> list[int]:
    """Returns the indices of values far from their median; none if they are more than a third."""
    if len(logs) < nodes.FEWEST:
        return []
    off = np.abs(logs - np.median(logs))
    scale = max(1.4826 * float(np.median(off)), nodes.QUIET)
    far = np.flatnonzero((off >= _FAR) & (off >= nodes.GROSS_Z * scale)).tolist()
    return far if len(far) <= nodes.GROSS_SHARE * len(logs) else []


def slow_in_words(opened: store.Store, condition: str) -> str:
    """Returns a sentence on the nodes and GPUs that are slow over all series, or "" if there are none."""
    found = [reason for reason in nodes.slow(opened, condition) if not reason.case]
    if not found:
        return ""
    first, *more = found
    others = f", and {len(more)} more nodes or GPUs are slow" if len(more) > 1 else ", and one more is slow" * len(more)
    return f"{missing.in_words((first.node, first.gpus))} is {first.words}{others}"


def in_words(found: list[tuple[Outlying, str]], most: int = 5) -> list[str]:
    """Returns a sentence on each outlier that was left out, from pairs of an outlier and a series' label."""
    by = grouped(((each.name, each.why), label) for each, label in found)
    ordered = sorted(by.items(), key=lambda item: (-len(item[1]), item[0]))
    said = [
        f"{name} is left out of {len(labels)} series, such as {labels[0]}: {why}"
        for (name, why), labels in ordered[:most]
    ]
    return said + ([f"{len(ordered) - most} more nodes, GPUs or jobs are left out"] if len(ordered) > most else [])
