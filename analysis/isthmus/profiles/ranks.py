"""Finding of ranks without output in a folder, from the numbers in its names and from MPI ranks in reports.

Only a number after the word "rank" counts as a rank; other numbers are processes, jobs, nodes, sizes or dates.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterable, Iterator

from isthmus import spelling
from isthmus.grouping import grouped
from isthmus.profiles.profile import Ranks

#: Pattern of names such as rank3, mpi_rank-03, rank.3of8, but not nrank4 or ranks4, which state the number of ranks.
_RANK = re.compile(
    r"(?<![a-z])(?:mpi_?)?rank[ ._=-]?([0-9]{1,9})(?![0-9])(?:[ ._-]?of[ ._-]?([0-9]{1,9})(?![0-9]))?", re.IGNORECASE
)
_OURS = re.compile(r"rank[0-9]+")  # name of a rank's folder, from rank0, as in reframe/isthmus_reframe/profilers.py
_NAMED = 6  # maximum number of gaps that a sentence names


@dataclasses.dataclass(frozen=True)
class _Place:
    """File or folder whose name contains the number of a rank."""

    parts: tuple[str, ...]  # parts of its path; the last part without numbers
    rank: int
    ours: bool
    read: bool  # true if something in it was read
    ranks: Ranks  # ranks according to its name and its reports


def lacking(folder: pathlib.Path, folders: Iterable[pathlib.Path], files: Iterable[tuple[pathlib.Path, pathlib.Path]],
            reports: dict[pathlib.Path, Ranks]) -> list[str]:  # fmt: skip
    """Returns a clause for each run in a folder that lacks ranks, unless its numbers may have another meaning.

    `files` contains paths, each with the name that all outputs of its process share; `reports` contains the ranks that
    each file names.
    """
    said: dict[str, None] = {}
    seen = grouped((place, ranks) for path, ranks in reports.items() for place in (path, *path.parents))
    named = [(path, path) for path in folders], list(files)
    for kind in named:
        found = {path: place for path, name in kind if (place := _place(folder, path, name, seen.get(path, [])))}
        near = {path.parent for path, place in found.items() if place.read}
        for run in _runs([place for path, place in found.items() if path.parent in near]):
            said |= dict.fromkeys(_clause(run))
    return list(said)


def _place(folder: pathlib.Path, path: pathlib.Path, name: pathlib.Path, seen: list[Ranks]) -> _Place | None:
    match = _RANK.search(name.name)
    if not match:
        return None
    rank = int(match[1])
    count = max([int(match[2] or 0), *(ranks.count for ranks in seen)])
    rest = re.sub(r"[0-9]+", "#", _RANK.sub("", name.name))
    return _Place(
        (*path.relative_to(folder).parts[:-1], rest), rank, _OURS.fullmatch(path.name) is not None, bool(seen),
        Ranks({rank}.union(*(ranks.numbers for ranks in seen)), count if count > rank else 0),
    )  # fmt: skip


def _runs(places: list[_Place], depth: int = 0) -> Iterator[list[_Place]]:
    """Yields the places of each run: splits places by the parts of their paths until each rank is in one place only.

    Nodes with different ranks are one run, while repetitions, or nodes that each count from 0, are several runs.
    """
    parts = grouped((place.parts[depth : depth + 1], place) for place in places)
    numbers = [{place.rank for place in part} for part in parts.values()]
    last = depth >= max((len(place.parts) for place in places), default=0)
    if last or (len(parts) > 1 and sum(map(len, numbers)) == len(set().union(*numbers))):
        yield places
        return
    for part in parts.values():
        yield from _runs(part, depth + 1)


def _clause(run: list[_Place]) -> list[str]:
    numbers = {place.rank for place in run}
    present = numbers.union(*(place.ranks.numbers for place in run))
    stated = max((place.ranks.count for place in run), default=0)
    from_0 = 0 in numbers or all(place.ours for place in run)  # otherwise the numbers may be sizes: rank8, rank16
    if not any(place.read for place in run) or not (stated or (len(numbers) > 1 and from_0)):
        return []
    gaps = list(_gaps(present, stated))
    if not gaps:
        return []
    names = [str(first) if first == last else f"{first}-{last}" for first, last in gaps[:_NAMED]]
    more = f" and {len(gaps) - _NAMED} more gaps" if len(gaps) > _NAMED else ""
    several = len(gaps) > 1 or "-" in names[0]
    why = f"the run had {stated} ranks" if stated > max(present) else f"there is rank {max(present)}"
    folders = {place.parts[:-1] for place in run}
    where = f" in {spelling.printable('/'.join(*folders))}" if len(folders) == 1 and folders != {()} else ""
    return [
        f"no output of rank{'s' if several else ''} {', '.join(names)}{more}{where}, although {why}; put "
        f"{'theirs' if several else 'its output'} next to the others, or profile the run again"
    ]


def _gaps(present: set[int], count: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last rank of each gap, up to the highest rank, or to rank `count` - 1 if that is higher."""
    expected = 0
    for rank in sorted({*present, max(count, max(present) + 1)}):
        if rank > expected:
            yield expected, rank - 1
        expected = rank + 1
