"""Figures that some nodes or GPUs of a system have and others lack: its mean would be of the others alone.

Systems may differ in nodes and GPUs as they like; only places of one system, with one kind of device in one partition,
are held to each other. A place lacks a figure where it ran the case, whatever came of it, or where two in three of the
others have the figure. Systems with GPUs in common are the same machines: what one of them measured there, the other
one should have, too.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from isthmus import spelling
from isthmus.groups import grouped
from isthmus.records import measurements, store
from isthmus.statistics.series import Series
from isthmus.verdicts import absent
from isthmus.verdicts.absent import Place

_CASE = tuple(name for name in measurements.SERIES if name not in ("version", "metric", "unit"))
_NAMED = 3  # places, and figures of a place

Kind = tuple  # device and partition


@dataclasses.dataclass
class Ran:
    """Where a system ran what, whatever came of it: figures, a failure, or a skip."""

    places: dict[Kind, set[Place]] = dataclasses.field(default_factory=dict)
    cases: dict[tuple, dict[Kind, set[Place]]] = dataclasses.field(default_factory=dict)  # by case_of()

    @property
    def everywhere(self) -> set[Place]:
        return set().union(*self.places.values())


def case_of(key: tuple) -> tuple:
    """The case that a series' figure is of, in any version of its workload."""
    return tuple(value for name, value in zip(measurements.SERIES, key) if name in _CASE)


def ran(opened: store.Store, side: str) -> Ran:
    """Of the records that are on side A; `side` is SQL that names the side of a row."""
    columns = ", ".join(f'"{name}"' for name in _CASE)
    rows = opened.sql(
        f"SELECT DISTINCT device, partition, node, gpus, {columns} FROM measurements WHERE ({side}) = 'A'"
    ).fetchall()
    found = Ran()
    for device, partition, node, gpus, *case in rows:
        of_case = found.cases.setdefault(tuple(case), {})
        for places in (found.places, of_case):
            places.setdefault((device, partition), set()).update(absent.places(node, gpus or ""))
    return found


def has(each: Series) -> set[Place]:
    return {place for job in each.of("A") for place in absent.places_of(job)}


def lacks(
    key: tuple,
    at: int,
    systems: Sequence[Mapping[tuple, Series]],
    ran_by: Sequence[Ran],
    wanted: Iterable[tuple] = (),
) -> set[Place]:
    """Places of the system `at` that lack a figure which their equals have, there or in a system on the same machines.

    `wanted` are cases for which a system is measured: nodes that ran any of them are held to all of them.
    """
    return _unlike_equals(systems[at][key], ran_by[at], wanted) | _measured_elsewhere(key, at, systems, ran_by)


def _unlike_equals(each: Series, of: Ran, wanted: Iterable[tuple]) -> set[Place]:
    """Nodes, and GPUs of nodes that have it on others, which lack a figure that their equals of the system have."""
    having = has(each)
    short: set[Place] = set()
    for kind, places in of.cases.get(case_of(each.key), {}).items():
        if not having & places:
            continue  # a kind of node that cannot have it
        short |= places - having
        short |= {place for case in wanted for place in of.cases.get(case, {}).get(kind, ()) if not place[1]} - having
        peers = grouped((node if gpu else "", (node, gpu)) for node, gpu in of.places[kind])
        for those in peers.values():
            without = [place for place in those if place not in having]
            short |= set(without) if 3 * len(without) <= len(those) else set()
    return absent.narrowest(short, of.everywhere | having)


def _with_gpus(places: Iterable[Place]) -> set[Place]:
    return {place for place in places if place[1]}


def _same_machines(one: Ran, other: Ran) -> bool:
    """Whether two systems have a GPU in common; names of nodes alone may be equal by chance."""
    return bool(_with_gpus(one.everywhere) & _with_gpus(other.everywhere))


def _measured_elsewhere(
    key: tuple, at: int, systems: Sequence[Mapping[tuple, Series]], ran_by: Sequence[Ran]
) -> set[Place]:
    """Places where another system, on the same machines, has a figure, and this one ran but has not."""
    own, having = ran_by[at], has(systems[at][key])
    found = {
        place for other, theirs in zip(systems, ran_by)
        if other is not systems[at] and key in other and _same_machines(own, theirs) for place in has(other[key])
    }  # fmt: skip
    return absent.narrowest((found & own.everywhere) - having, own.everywhere)


def only_in(at: int, ran_by: Sequence[Ran]) -> list[Place]:
    """Places where another system on the same machines ran, and this one did not at all."""
    own = ran_by[at].everywhere
    theirs = [other.everywhere for i, other in enumerate(ran_by) if i != at and _same_machines(ran_by[at], other)]
    every = set().union(*theirs)
    gone = every - own
    return sorted(place for place in absent.narrowest(gone, every | own) if not place[1] or (place[0], "") not in gone)


def without_figures(of: Ran, having: Iterable[Series]) -> list[Place]:
    """Nodes that ran cases of which none has a figure that counts."""
    known = set().union(*map(has, having))
    return sorted(place for place in of.everywhere - known if not place[1])


def places_in_words(places: Sequence[Place]) -> str:
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(map(absent.in_words, places[:_NAMED])) + more


def in_words(system: str, short: Mapping[tuple, set[Place]], names: Mapping[tuple, str]) -> list[str]:
    """A sentence for each set of figures that the same places lack."""
    by_places = collections.defaultdict(list)
    for key, places in short.items():
        if places:
            by_places[tuple(sorted(places))].append(names[key])
    sentences = []
    for where, labels in sorted(by_places.items(), key=lambda each: (-len(each[1]), each[0])):
        more = f" and {len(labels) - 1} more series" if len(labels) > 1 else ""
        sentences.append(f"{spelling.printable(system)} lacks {labels[0]}{more} on {places_in_words(where)}")
    return sentences
