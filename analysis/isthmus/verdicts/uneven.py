"""Figures that only some nodes or GPUs of a system have, so that the system's mean would leave out the others.

Systems may differ in their nodes and GPUs, so places are compared only within a system, a kind of device and a
partition. A place without a figure lacks it if the place ran the case, regardless of the result, or if two in three of
the others have the figure. Systems that share GPUs are the same machines, so a place that was measured in one of them
is expected in the other.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from isthmus import spelling
from isthmus.grouping import grouped
from isthmus.records import measurements, store
from isthmus.statistics.series import Series
from isthmus.verdicts import missing
from isthmus.verdicts.missing import Place

_CASE = tuple(name for name in measurements.SERIES if name not in ("version", "metric", "unit"))
_NAMED = 3  # maximum number of places, and of figures of a place, that are named

Kind = tuple  # device and partition


@dataclasses.dataclass
class Ran:
    """Places at which a system ran its cases, regardless of the result: a figure, a failure or a skip."""

    places: dict[Kind, set[Place]] = dataclasses.field(default_factory=dict)
    cases: dict[tuple, dict[Kind, set[Place]]] = dataclasses.field(default_factory=dict)  # keyed by case_of()

    @property
    def everywhere(self) -> set[Place]:
        return set().union(*self.places.values())


def case_of(key: tuple) -> tuple:
    """Returns the case of a series, leaving out the workload's version."""
    return tuple(value for name, value in zip(measurements.SERIES, key) if name in _CASE)


def ran(opened: store.Store, side: str) -> Ran:
    """Returns the cases in the records of side A; `side` is SQL for the side of a row."""
    columns = ", ".join(f'"{name}"' for name in _CASE)
    rows = opened.sql(
        f"SELECT DISTINCT device, partition, node, gpus, {columns} FROM measurements WHERE ({side}) = 'A'"
    ).fetchall()
    found = Ran()
    for device, partition, node, gpus, *case in rows:
        of_case = found.cases.setdefault(tuple(case), {})
        for places in (found.places, of_case):
            places.setdefault((device, partition), set()).update(missing.places(node, gpus or ""))
    return found


def has(each: Series) -> set[Place]:
    return {place for job in each.of("A") for place in missing.places_of(job)}


def lacks(
    key: tuple,
    at: int,
    systems: Sequence[Mapping[tuple, Series]],
    ran_by: Sequence[Ran],
    wanted: Iterable[tuple] = (),
) -> set[Place]:
    """Returns places of system `at` without a figure that equals have, in that system or another on the same machines.

    `wanted` are the cases that the systems are measured for: nodes that ran one of them are expected to have all.
    """
    return _unlike_equals(systems[at][key], ran_by[at], wanted) | _measured_elsewhere(key, at, systems, ran_by)


def _unlike_equals(each: Series, of: Ran, wanted: Iterable[tuple]) -> set[Place]:
    """Returns nodes without a figure that their equals have, and GPUs without one that others of their node have."""
    having = has(each)
    short: set[Place] = set()
    for kind, places in of.cases.get(case_of(each.key), {}).items():
        if not having & places:
            continue  # no place of this kind has the figure
        short |= places - having
        short |= {place for case in wanted for place in of.cases.get(case, {}).get(kind, ()) if not place[1]} - having
        peers = grouped((node if gpu else "", (node, gpu)) for node, gpu in of.places[kind])
        for those in peers.values():
            without = [place for place in those if place not in having]
            short |= set(without) if 3 * len(without) <= len(those) else set()
    return missing.narrowest(short, of.everywhere | having)


def _with_gpus(places: Iterable[Place]) -> set[Place]:
    return {place for place in places if place[1]}


def _same_machines(one: Ran, other: Ran) -> bool:
    """Returns whether two systems share a GPU; a common node name may be a coincidence."""
    return bool(_with_gpus(one.everywhere) & _with_gpus(other.everywhere))


def _measured_elsewhere(
    key: tuple, at: int, systems: Sequence[Mapping[tuple, Series]], ran_by: Sequence[Ran]
) -> set[Place]:
    """Returns places of system `at` without a figure that another system on the same machines has at that place."""
    own, having = ran_by[at], has(systems[at][key])
    found = {
        place for other, theirs in zip(systems, ran_by)
        if other is not systems[at] and key in other and _same_machines(own, theirs) for place in has(other[key])
    }  # fmt: skip
    return missing.narrowest((found & own.everywhere) - having, own.everywhere)


def only_in(at: int, ran_by: Sequence[Ran]) -> list[Place]:
    """Returns places where another system on the same machines ran but system `at` did not."""
    own = ran_by[at].everywhere
    theirs = [other.everywhere for i, other in enumerate(ran_by) if i != at and _same_machines(ran_by[at], other)]
    every = set().union(*theirs)
    gone = every - own
    return sorted(place for place in missing.narrowest(gone, every | own) if not place[1] or (place[0], "") not in gone)


def without_figures(of: Ran, having: Iterable[Series]) -> list[Place]:
    """Returns nodes that ran cases but do not have any figure that counts."""
    known = set().union(*map(has, having))
    return sorted(place for place in of.everywhere - known if not place[1])


def places_in_words(places: Sequence[Place]) -> str:
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(map(missing.in_words, places[:_NAMED])) + more


def in_words(system: str, short: Mapping[tuple, set[Place]], names: Mapping[tuple, str]) -> list[str]:
    """Returns a sentence for each set of places, with the figures that they lack."""
    by_places = collections.defaultdict(list)
    for key, places in short.items():
        if places:
            by_places[tuple(sorted(places))].append(names[key])
    sentences = []
    for where, labels in sorted(by_places.items(), key=lambda each: (-len(each[1]), each[0])):
        more = f" and {len(labels) - 1} more series" if len(labels) > 1 else ""
        sentences.append(f"{spelling.printable(system)} lacks {labels[0]}{more} on {places_in_words(where)}")
    return sentences
