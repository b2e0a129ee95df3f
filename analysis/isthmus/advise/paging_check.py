"""How well the map of ways is known: every pattern is predicted from the other half, and programs from all patterns."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import zlib
from typing import Any

from isthmus import Error
from isthmus.advise.measured import medians
from isthmus.advise.placing_check import ERRORS, Miss, line_of_errors
from isthmus.advise.ways import EITHER, Map, Program, ways_of
from isthmus.groups import grouped
from isthmus.records import content
from isthmus.tables import output

PATTERN = "paging/pattern"
#: A pick is good where it is so little slower than the best.
NEAR = 0.10
#: The way that a program's placement is.
WAYS = {"pinned": "copy", "streamed": "streamed", "mapped": "mapped", "managed_demand": "managed", "paged": "paged"}
#: A program whose results are more than this share of its inputs is another matter: only reading is predicted.
_RESULTS = 0.05
#: A kernel that reads what came more often reads other memory, too: how often this, its record does not tell.
_MOST_PASSES = 16
#: Axes that placements bring along.
_OF_PLACEMENTS = {"page", "frames", "eviction", "transport", "chunks"}


@dataclasses.dataclass(frozen=True)
class Point:
    """A program of known counts, and the seconds of the ways that were measured and are possible."""

    label: str
    program: Program
    seconds: dict[str, float]
    case: dict = dataclasses.field(compare=False)
    half: int = 0


@dataclasses.dataclass(frozen=True)
class Pick:
    """What a map says of a point."""

    point: Point
    predicted: dict[str, float]
    of_pattern: bool

    @property
    def way(self) -> str:
        return min(self.predicted, key=self.predicted.__getitem__)

    @property
    def best(self) -> str:
        return min(self.predicted, key=self.point.seconds.__getitem__)

    @property
    def loss(self) -> float:
        """How much slower the way that was picked is than the best."""
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


def _axes(case: dict, without: set[str]) -> str:
    """As one key."""
    return json.dumps({name: value for name, value in case["axes"].items() if name not in without}, sort_keys=True)


def points_of(cases: list[dict]) -> list[Point]:
    """Of all patterns. A hash of the axes but room and way says which half a pattern is in: what is read in place takes
    the same time whatever has room."""
    known = [(found, case) for case in cases if (found := _pattern(case)) is not None]
    patterns = grouped((_axes(case, {"way", "frames"}), (*found, case)) for found, case in known)
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
    """From each way of each point; what is read in place counts once."""
    measured = {
        (dataclasses.replace(point.program, room=1) if way == "mapped" else point.program, way, seconds)
        for point in points for way, seconds in point.seconds.items()
    }  # fmt: skip
    return Map(sorted(measured, key=repr), multiprocessors)


def picks(points: list[Point], machine: Map, of_pattern: bool) -> list[Pick]:
    """Of points that leave a choice."""
    found = []
    for point in points:
        predicted = {way: seconds for way, seconds in machine.rank(point.program) if way in point.seconds}
        if len(predicted) > 1:
            found.append(Pick(point, predicted, of_pattern))
    return found


# --- programs ---


def _needed(case: dict, name: str) -> float:
    return content.metrics(case).get(name, {}).get("bytes_needed") or 0.0


def _counts(case: dict, copied: dict, in_order: bool) -> Program | None:
    """What a program counted while it was paged; `copied`: its record in placement pinned. None where it did not count,
    where others brought its pages, or where it reads much else."""
    found, page, frames = medians(case), case["axes"].get("page"), case["axes"].get("frames")
    if case["axes"].get("transport", "pull") != "pull":
        return None
    fetches = found.get("fetches") or 0
    size = _needed(copied, "in") - _needed(case, "in")
    if not all(isinstance(number, int) and 0 < number < 1 << 60 for number in (page, frames)):
        return None
    if fetches < 1 or size <= 0:
        return None
    touched = min(fetches, math.ceil(size / page))
    read = sum(kernel.get("bytes_read") or 0.0 for kernel in case["kernels"])
    passes = max(round(read / (touched * page)), 1)
    if passes > _MOST_PASSES:
        return None
    use = min(read / passes / touched, page) if read > 0 else page
    return Program(size, page, touched, use, passes, min(frames / 100, 1), in_order, fetches)


def programs_of(cases: list[dict]) -> list[Point]:
    """Of programs that were measured paged and copied, and write little."""
    placed = [case for case in cases if case["placement"] in WAYS and (medians(case).get("overlapped") or 0) > 0]
    groups = grouped(((case["workload"], case["size"], _axes(case, _OF_PLACEMENTS)), case) for case in placed)
    points = []
    for group in groups.values():
        others = {WAYS[case["placement"]]: case for case in group if case["placement"] != "paged"}
        copied = others.get("copy")
        if copied is None or _needed(copied, "out") > _RESULTS * _needed(copied, "in"):
            continue
        seconds = {way: medians(case)["overlapped"] for way, case in others.items()}
        for case in group:
            program = _counts(case, copied, "streamed" in others) if case["placement"] == "paged" else None
            if program is not None:
                known = seconds | {"paged": medians(case)["overlapped"]}
                label = " ".join(f"{name}={value}" for name, value in case["axes"].items())
                points.append(
                    Point(f"{case['workload']} {label}", program,
                          {way: known[way] for way in ways_of(program) if way in known}, case)
                )  # fmt: skip
    return points


# --- both ---


def multiprocessors_of(cases: list[dict]) -> int:
    return max((case["devices"][0].get("multiprocessors") or 1 for case in cases), default=1)


def check(cases: list[dict]) -> list[Pick]:
    """Each pattern by what was learnt from the other half, each program by what was learnt from all. Raises Error."""
    points, multiprocessors = points_of(cases), multiprocessors_of(cases)
    if {point.half for point in points} != {0, 1}:
        raise Error(
            f"{len(points)} patterns of paging/pattern are no two halves to learn from and to try; measure the sweep "
            "in docs/paging.md"
        )
    found: list[Pick] = []
    for half in (0, 1):
        machine = learn([point for point in points if point.half != half], multiprocessors)
        found += picks([point for point in points if point.half == half], machine, True)
    return found + picks(programs_of(cases), learn(points, multiprocessors), False)


def good_share(found: list[Pick]) -> float:
    """The share of picks within NEAR of the best."""
    return sum(pick.loss <= NEAR for pick in found) / len(found)


def _said(what: str, found: list[Pick]) -> list[str]:
    if not found:
        return output.fold(f"{what}: none leaves a choice")
    good, worst = sum(pick.loss <= NEAR for pick in found), max(found, key=lambda pick: pick.loss)
    text = f"{what} picked within {NEAR:.0%} of the best: {good} of {len(found)} ({good_share(found):.0%})"
    if worst.loss > NEAR:
        text += f"; worst {worst.loss:+.0%}, {worst.way} for {worst.best}, {worst.point.label}"
    best = collections.Counter(pick.best for pick in found)
    return output.fold(text) + output.fold(f"fastest: {', '.join(f'{way} {n}' for way, n in best.most_common())}")


_COLUMNS = {"way": "VARCHAR", "label": "VARCHAR", "measured": "DOUBLE", "predicted": "DOUBLE", "relative": "DOUBLE",
            "picked": "VARCHAR", "best": "VARCHAR", "loss": "DOUBLE"}  # fmt: skip


def table_of_check(found: list[Pick]) -> output.Table:
    """How far predictions are off, and what picking by them costs; a row for each way of each pattern and program."""
    rows: list[dict[str, Any]] = []
    misses: dict[str, list[Miss]] = collections.defaultdict(list)
    for pick in found:
        for way, predicted in pick.predicted.items():
            measured = pick.point.seconds[way]
            miss = Miss(pick.point.label, "", way, "", way, measured, predicted)
            if pick.of_pattern:
                misses[way].append(miss)
            rows.append(
                {name: pick.point.case.get(name) for name in ("workload", "size", "preset", "version")}
                | {"axes": {}, "way": way, "label": pick.point.label, "measured": measured, "predicted": predicted,
                   "relative": miss.relative, "picked": pick.way, "best": pick.best, "loss": pick.loss}
            )  # fmt: skip
    errors = [line_of_errors(way, misses[way])[:-1] for way in EITHER if misses[way]]  # the worst has too long a name
    lines = output.lay_out(ERRORS[:-1], errors)
    lines += _said("way of a pattern", [pick for pick in found if pick.of_pattern])
    lines += _said("way of a program", [pick for pick in found if not pick.of_pattern])
    lines += output.fold(
        "Each pattern is predicted from the half of all patterns that it is not in, each program from all patterns and "
        "its own counts. median error: half of the records are off by less."
    )
    return output.of_cases(rows, _COLUMNS, "\n".join(lines))
