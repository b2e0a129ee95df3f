"""Passes of rocprofv3, which runs a program once for each set of counters and writes each run to pmc_1, pmc_2, ….

All passes run the same program, so a profile contains the counters of all passes, and everything else of one pass.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from collections.abc import Sequence

from isthmus import spelling
from isthmus.grouping import grouped
from isthmus.profiles.coverage import together
from isthmus.profiles.profile import Profile

_PASS = re.compile(r"(?:pmc|pass)_?([0-9]{1,6})", re.IGNORECASE)
_SAME = ("copies", "migrations", "page_faults", "api_calls", "phases", "busy")  # fields that every pass has


@dataclasses.dataclass(frozen=True)
class Part:
    """Output of one process: the path of one of its files, the names of all its files, and its profile."""

    path: pathlib.Path
    name: str
    profile: Profile


def united(folder: pathlib.Path, parts: Sequence[Part]) -> Profile:
    """Combines the parts of a run: adds up its processes, and merges the passes of one run."""
    runs: dict[tuple, dict[int, list[Part]]] = collections.defaultdict(dict)
    for part in parts:
        run, number = _place(folder, part.path) if part.profile.tool == "rocprofv3" else ((), 0)
        runs[run].setdefault(number, []).append(part)
    places = {folder.joinpath(*run): passes for run, passes in runs.items()}
    return together([(_name(folder, place), _united(place, passes)) for place, passes in places.items()])


def _name(folder: pathlib.Path, place: pathlib.Path) -> str:
    return spelling.printable(spelling.shorten(str(place.relative_to(folder)), 120)) if place != folder else folder.name


def _place(folder: pathlib.Path, path: pathlib.Path) -> tuple[tuple[str, ...], int]:
    """Returns the folder that contains a run's passes, as parts of its path, and the number of the file's pass.

    The number is 0 if the file is not in a pass.
    """
    parts = path.relative_to(folder).parts[:-1]
    for depth, part in enumerate(parts):
        if match := _PASS.fullmatch(part):
            return parts[:depth], int(match[1])
    return parts, 0


def _united(where: pathlib.Path, passes: dict[int, list[Part]]) -> Profile:
    of = {
        number: together([(part.name, part.profile) for part in processes])
        for number, processes in sorted(passes.items())
    }
    if set(of) == {0}:
        return of[0]
    first = next((each for each in of.values() if any(kernel.count for kernel in each.kernels.values())), of[min(of)])
    result = dataclasses.replace(first, counters={}, counted={}, left_out={})
    for each in of.values():
        for field in _SAME:
            if not getattr(result, field):
                setattr(result, field, getattr(each, field))
        _lay_over(result, each)
        result.measured = each.measured | result.measured
        result.withheld = each.withheld | result.withheld
        for why in each.missing:
            result.missing += [why] if why not in result.missing else []
        result.notes = list(dict.fromkeys([*result.notes, *each.notes]))
        result.limits = list(dict.fromkeys([*result.limits, *each.limits]))
    numbers = [number for number in of if number]
    if lost := sorted(set(range(1, max(numbers) + 1)) - set(numbers)):
        result.lack(
            f"{where.name} has no output of pass {', '.join(map(str, lost))}, but has pass {max(numbers)}; put the "
            "missing output next to the others, or profile the run again"
        )
    for what, amounts in _unlike(passes, of).items():
        said = " and ".join(f"{amount} in pass {number}" for number, amount in amounts.items())
        result.lack(f"{what} differ between passes: {said} of {where.name}; one is cut short, so profile the run again")
    return result


def _lay_over(result: Profile, each: Profile) -> None:
    """Adds the counters of a pass to the result, and kernels and registers that the result lacks."""
    for field, add in (("counters", result.add_counter), ("counted", result.count_launch),
                       ("left_out", result.leave_out)):  # fmt: skip
        for name in [name for name in getattr(each, field) if name not in getattr(result, field)]:
            add(name, getattr(each, field)[name])
    for name, kernel in each.kernels.items():
        own = result.kernels.get(name)
        if own is None and result.name_in("kernels", name) == name:
            result.kernels[name] = dataclasses.replace(kernel)
        elif own is not None and own.registers is None:
            own.registers = kernel.registers


def _unlike(passes: dict[int, list[Part]], of: dict[int, Profile]) -> dict[str, dict[int, int]]:
    """Returns the amounts in each pass that should be equal in all passes of a program but are not."""
    counts = {
        "processes": {number: len(processes) for number, processes in sorted(passes.items())},
        "kernels": {number: len(each.kernels) for number, each in of.items()},
        "launches": {number: sum(k.count for k in each.kernels.values()) for number, each in of.items()},
        "launches with counters": {number: max(each.counted.values(), default=0) for number, each in of.items()},
    }
    found = {}
    for what, amounts in counts.items():
        # A pass may have been run without tracing, so zeros do not count, except for counters, which every pass has.
        seen = grouped((n, number) for number, n in amounts.items() if n or what == "launches with counters")
        if len(seen) > 1:
            found[f"numbers of {what}"] = {numbers[0]: n for n, numbers in sorted(seen.items())}
    return found
