"""Accuracy of the map of methods: each half of the patterns is predicted from the other, and programs from all."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import zlib
from typing import Any

from isthmus import Error, units
from isthmus.advise.measured import medians
from isthmus.advise.methods import EITHER, Map, Program, ways_of
from isthmus.advise.paged_programs import Left, Point, axes_key, programs_of
from isthmus.advise.placing_check import ERRORS, Miss, line_of_errors
from isthmus.grouping import grouped
from isthmus.records import hardware
from isthmus.spelling import counted
from isthmus.tables import output

PATTERN = "paging/pattern"
NO_PATTERN = "these files have no valid record of paging/pattern; measure the sweep in docs/paging.md"
#: Largest loss of a good pick, relative to the best method.
NEAR = 0.10


@dataclasses.dataclass(frozen=True)
class Check:
    """Predictions for all patterns and programs, including programs for which only one method was measured."""

    patterns: list[Pick]
    programs: list[Pick]
    left: list[Left]
    machines: frozenset[hardware.Machine]  # machines of the patterns
    alike: dict[hardware.Facts, hardware.Machine]  # machine of each record, keyed by the record's facts

    def elsewhere(self, case: dict) -> bool:
        """Returns whether a case was measured on hardware on which no pattern was measured."""
        return self.machine(case) not in self.machines

    def machine(self, case: dict) -> hardware.Machine:
        return self.alike[_facts(case)]


@dataclasses.dataclass(frozen=True)
class Pick:
    """Predicted seconds of each method for a point; the pick is the fastest."""

    point: Point
    predicted: dict[str, float]

    @property
    def way(self) -> str:
        return min(self.predicted, key=self.predicted.__getitem__)

    @property
    def best(self) -> str:
        return min(self.predicted, key=self.point.seconds.__getitem__)

    @property
    def loss(self) -> float:
        """Relative excess of the picked method's time over the best method's."""
        return self.point.seconds[self.way] / self.point.seconds[self.best] - 1


# --- patterns ---


def _pattern(case: dict) -> tuple[Program, str, float] | None:
    axes, found = case["axes"], medians(case)
    numbers = [axes.get(name) for name in ("bytes", "page", "passes", "frames")]
    if case["workload"] != PATTERN or axes.get("way") not in EITHER or case["skipped"] or case["error"]:
        return None
    if not all(isinstance(number, int) and 0 < number < 1 << 60 for number in numbers):
        return None
    touched, useful, seconds = (found.get(name) or 0 for name in ("pages_touched", "useful", "time"))
    if not (1 <= touched <= axes["bytes"] / axes["page"] + 1 and 0 < useful <= touched * axes["page"]):
        return None
    if not 1e-9 <= seconds < 1e9:
        return None
    room = min(axes["frames"] / 100, 1)
    return (
        Program(axes["bytes"], axes["page"], touched, useful / touched, axes["passes"], room,
                axes.get("order") == "in_order"), axes["way"], seconds,
    )  # fmt: skip


def points_of(cases: list[dict]) -> list[Point]:
    """Makes the points of all patterns.

    A hash of the axes assigns each pattern to a half. Room and method are not hashed, so all points of a pattern are in
    the same half, since they share the time of reading in place, which does not depend on the room.
    """
    known = [(found, case) for case in cases if (found := _pattern(case)) is not None]
    patterns = grouped((axes_key(case, {"way", "frames"}), (*found, case)) for found, case in known)
    points = []
    for key, records in sorted(patterns.items()):
        in_place = {way: seconds for _, way, seconds, _ in records if way == "mapped"}
        for room in sorted({program.room for program, *_ in records}):
            there = [each for each in records if each[0].room == room]
            program, _, _, case = there[0]
            seconds = in_place | {way: taken for _, way, taken, _ in there}
            label = " ".join(f"{name}={value}" for name, value in json.loads(key).items())
            points.append(
                Point(f"{label} frames={room:.0%}".removesuffix("%"), program,
                      {way: seconds[way] for way in ways_of(program) if way in seconds}, case,
                      zlib.crc32(key.encode()) % 2)
            )  # fmt: skip
    return points


def learn(points: list[Point], multiprocessors: int) -> Map:
    """Learns a map from each method of each point; reading in place counts once for all rooms of a pattern."""
    measured = {
        (dataclasses.replace(point.program, room=1) if way == "mapped" else point.program, way, seconds)
        for point in points for way, seconds in point.seconds.items()
    }  # fmt: skip
    return Map(sorted(measured, key=repr), multiprocessors)


def picks(points: list[Point], machine: Map, fewest: int = 2) -> list[Pick]:
    """Returns the picks of points with at least `fewest` methods that are possible, measured and in the map."""
    found = []
    for point in points:
        predicted = {way: machine.seconds(point.of(way), way) for way in point.seconds if way in machine.costs}
        if len(predicted) >= fewest:
            found.append(Pick(point, predicted))
    return found


# --- both ---


def _facts(case: dict) -> hardware.Facts:
    """Returns the facts of a case's hardware without its system, which only records of ReFrame name."""
    return dataclasses.replace(hardware.facts(case), system="")


def multiprocessors_of(cases: list[dict]) -> int:
    return max((case["devices"][0].get("multiprocessors") or 1 for case in cases), default=1)


def check(cases: list[dict]) -> Check:
    """Predicts each pattern from the other half, and each program from all patterns. Raises Error if too few exist."""
    points = points_of(cases)
    multiprocessors = multiprocessors_of([point.case for point in points])
    if {point.half for point in points} != {0, 1}:
        if not points:
            raise Error(NO_PATTERN)
        raise Error(
            f"{counted(len(points), 'pattern', 'are')} too few to predict one half from the other; measure the sweep "
            "in docs/paging.md"
        )
    found: list[Pick] = []
    for half in (0, 1):
        machine = learn([point for point in points if point.half != half], multiprocessors)
        found += picks([point for point in points if point.half == half], machine)
    machine = learn(points, multiprocessors)
    copy = machine.costs.get("copy")
    programs, left = programs_of(cases, (copy.each["copied"] if copy else 0) or math.inf)
    alike = hardware.machines({_facts(case) for case in cases})
    machines = frozenset(alike[_facts(point.case)] for point in points)
    return Check(found, picks(programs, machine, fewest=1), left, machines, alike)


def choices(found: list[Pick]) -> list[Pick]:
    return [pick for pick in found if len(pick.predicted) > 1]


def good_share(found: list[Pick]) -> float:
    """Returns the share of picks whose loss is at most NEAR."""
    return sum(pick.loss <= NEAR for pick in found) / len(found)


def _said(what: str, found: list[Pick]) -> list[str]:
    found = choices(found)
    if not found:
        return output.fold(f"{what}: no case leaves a choice")
    good, worst = sum(pick.loss <= NEAR for pick in found), max(found, key=lambda pick: pick.loss)
    text = f"{what} picked within {NEAR:.0%} of the best: {good} of {len(found)} ({good_share(found):.0%})"
    if worst.loss > NEAR:
        text += f"; worst {worst.loss:+.0%}, {worst.way} for {worst.best}, {worst.point.label}"
    best = collections.Counter(pick.best for pick in found)
    return output.fold(text) + output.fold(f"fastest: {', '.join(f'{way} {n}' for way, n in best.most_common())}")


def _errors(head: str, found: list[Pick]) -> list[str]:
    """Returns a line for each method. The column with the worst case is left out, since its name is too long."""
    misses: dict[str, list[Miss]] = collections.defaultdict(list)
    for pick in found:
        for way, predicted in pick.predicted.items():
            misses[way].append(Miss(pick.point.label, "", way, "", way, pick.point.seconds[way], predicted))
    columns = [dataclasses.replace(ERRORS[0], head=head), *ERRORS[1:-1]]
    return output.lay_out(columns, [line_of_errors(way, misses[way])[:-1] for way in EITHER if misses[way]])


_OF_PROGRAMS = [output.Column("program"), output.Column("way", right=False), output.Column("measured"),
                output.Column("predicted"), output.Column("off"), output.Column("", right=False)]  # fmt: skip


def _programs(found: Check) -> list[str]:
    if not found.programs:
        return output.fold("These records have no program measured with one of the methods.")
    rows = []
    for pick in found.programs:
        label = pick.point.label + (" *" if found.elsewhere(pick.point.case) else "")
        for way, predicted in sorted(pick.predicted.items(), key=lambda each: pick.point.seconds[each[0]]):
            measured = pick.point.seconds[way]
            said = [word for word, of in (("best", pick.best), ("picked", pick.way)) if of == way]
            off = f"{predicted / measured - 1:+.0%}"
            notes = ", ".join(said) if len(pick.predicted) > 1 else ""
            rows.append([label, way, units.quantity(measured, "s"), units.quantity(predicted, "s"), off, notes])
            label = ""
    lines = ["", *output.lay_out(_OF_PROGRAMS, rows), "", *_errors("programs", found.programs)]
    lines += _said("method of a program", found.programs)
    others = {found.machine(pick.point.case) for pick in found.programs if found.elsewhere(pick.point.case)}
    if others:
        titles = hardware.titles([*found.machines, *others])
        lines += output.fold(
            f"* measured on other hardware ({'; '.join(sorted(titles[each] for each in others))}) than the patterns "
            f"({'; '.join(sorted(titles[each] for each in found.machines))}); links and drivers are assumed to be alike"
        )
    return lines


def _left(found: Check) -> list[str]:
    """Returns a line for each reason for leaving programs out, and for each program that is refused."""
    why: dict[str, set[str]] = collections.defaultdict(set)
    for left in found.left:
        if not left.refused:
            why[left.why].add(left.case["workload"])
    for pick in found.programs:
        for way, reason in pick.point.left.items():
            why[f"{way}: {reason}"].add(pick.point.case["workload"])
    lines = [f"Left out, {reason}: {', '.join(sorted(names))}" for reason, names in sorted(why.items())]
    lines += [f"Refused, {left.label}: {left.why}" for left in found.left if left.refused]
    return [line for text in lines for line in output.fold(text)]


_COLUMNS = {"way": "VARCHAR", "label": "VARCHAR", "measured": "DOUBLE", "predicted": "DOUBLE", "relative": "DOUBLE",
            "picked": "VARCHAR", "best": "VARCHAR", "loss": "DOUBLE", "elsewhere": "BOOLEAN",
            "left_out": "VARCHAR"}  # fmt: skip


def _row(found: Check, case: dict, label: str) -> dict[str, Any]:
    of_case = {name: case.get(name) for name in ("workload", "size", "preset", "version")}
    return of_case | {"axes": {}, "label": label, "elsewhere": found.elsewhere(case)}


def table_of_check(found: Check) -> output.Table:
    """Makes a table of prediction errors and of the time lost by picking by prediction, a row per method and point."""
    rows: list[dict[str, Any]] = []
    for pick in [*found.patterns, *found.programs]:
        point = pick.point
        row = _row(found, point.case, point.label)
        if len(pick.predicted) > 1:
            row |= {"picked": pick.way, "best": pick.best, "loss": pick.loss}
        for way, predicted in pick.predicted.items():
            measured = point.seconds[way]
            rows.append(row | {"way": way, "measured": measured, "predicted": predicted,
                               "relative": predicted / measured - 1})  # fmt: skip
        rows += [row | {"way": way, "left_out": why} for way, why in point.left.items()]
    rows += [_row(found, left.case, left.label) | {"left_out": left.why} for left in found.left]
    lines = _errors("patterns", found.patterns) + _said("method of a pattern", found.patterns)
    lines += _programs(found) + _left(found)
    lines += output.fold(
        "Each pattern is predicted from the half of all patterns that it is not in, each program from all patterns and "
        "its own counts. median error: half of the records are off by less."
    )
    return output.of_cases(rows, _COLUMNS, "\n".join(lines))
