"""Nodes and GPUs that have records before `--since` but none since then."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Iterable

from isthmus.grouping import grouped
from isthmus.records import store


@dataclasses.dataclass(frozen=True)
class Absent:
    """Node, or GPU of a node that still has records, without a record since `--since`."""

    node: str
    gpu: str  # empty for the whole node
    last: datetime.date
    as_before: bool  # true if it was absent for as many days in a row earlier


class _Days:
    """Days on which nodes, and their GPUs, have records."""

    def __init__(self, opened: store.Store):
        rows = opened.sql(
            "SELECT DISTINCT coalesce(system, ''), node, coalesce(gpus, ''), time::DATE FROM measurements"
        ).fetchall()
        self.nodes: dict[str, list[datetime.date]] = grouped((node, day) for _, node, _, day in rows)
        self.names = {(system, opened.names[node]) for system, node, _, _ in rows if node in opened.names}
        self.systems: dict[str, list[str]] = grouped((node, system) for system, node, _, _ in rows)
        self.gpus: dict[str, dict[str, list[datetime.date]]] = {}
        for _, node, gpus, day in rows:
            for gpu in filter(None, gpus.split("+")):
                self.gpus.setdefault(node, {}).setdefault(gpu, []).append(day)


def places(opened: store.Store, earlier: store.Store) -> list[Absent]:
    """Returns the nodes, then the GPUs, that are in `earlier`, the store without `--since`, but not in `opened`.

    A node does not count as absent if another host of its system now has its name. GPUs do not count as absent if the
    node later got as many new ones, which replaced them.
    """
    now, ever = _Days(opened), _Days(earlier)
    calendar = {day for days in ever.nodes.values() for day in days}
    result = [
        Absent(node, "", max(days), _was_absent(days, calendar))
        for node, days in sorted(ever.nodes.items())
        if node not in now.nodes and not any((of, earlier.names.get(node)) in now.names for of in ever.systems[node])
    ]
    for node in sorted(now.nodes):
        days_of = ever.gpus.get(node, {})
        lost = {gpu: max(days) for gpu, days in days_of.items() if gpu not in now.gpus.get(node, {})}
        if lost and sum(min(days) > max(lost.values()) for days in days_of.values()) < len(lost):
            calendar = set(ever.nodes[node])
            result += [Absent(node, gpu, lost[gpu], _was_absent(days_of[gpu], calendar)) for gpu in sorted(lost)]
    return result


def _was_absent(days: Iterable[datetime.date], calendar: set[datetime.date]) -> bool:
    """Returns whether the longest earlier absence, in days of the calendar, was at least as long as the current one."""
    number = {day: i for i, day in enumerate(sorted(calendar))}
    own = sorted({number[day] for day in days})
    longest = max((after - before - 1 for before, after in itertools.pairwise(own)), default=0)
    return len(number) - 1 - own[-1] <= longest
