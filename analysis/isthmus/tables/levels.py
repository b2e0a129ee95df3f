"""Cache levels from latency records of several sizes: `isthmus table FILE… --view levels`, 80 columns.

A level is a range of sizes over which the latency of latency/*/chase is about constant. It ends somewhere between its
last size and the first size of the next level. If hwloc or the device reports a cache whose size is in this range, the
level is named after it. Otherwise the level has no name: it is something else, such as an unreported cache or the reach
of a TLB.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from isthmus import Error, units
from isthmus.grouping import grouped
from isthmus.records import doubts, fields
from isthmus.statistics import spread
from isthmus.tables import matrix, output
from isthmus.tables.output import Column
from isthmus.units import quantity

_FLAT = 1.15  # maximum factor by which the latency within a level grows when the size doubles
_ALIKE = 1.25  # factor; neighbouring stretches that differ by less are one level in which some sizes were disturbed
_MEMORY = 2  # multiple of the largest cache; a last level that reaches this size is memory


@dataclasses.dataclass
class Level:
    """Range of sizes with the same latency."""

    seconds: float
    first: int  # bytes
    last: int
    beyond: int | None = None  # first size of the next level; the capacity is between `last` and this size
    name: str = ""
    reported: int | None = None  # size in bytes of the cache after which the level is named
    low: float | None = None  # seconds; low and high are the extremes of latency over the level's sizes and their jobs
    high: float | None = None
    doubts: str = ""


def _stretches(points: list[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    """Returns runs of at least two sizes over which the latency is flat."""
    runs: list[list[tuple[int, float]]] = []
    for point in points:
        if runs:
            before = runs[-1][-1]
            octaves = math.log2(point[0] / before[0])
            if abs(math.log(point[1] / before[1])) <= math.log(_FLAT) * max(octaves, 0.5):
                runs[-1].append(point)
                continue
        runs.append([point])
    return [run for run in runs if len(run) > 1]


def _seconds(run: list[tuple[int, float]]) -> float:
    return statistics.median(value for _, value in run)


def find(points: list[tuple[int, float]], caches: Sequence[tuple[str, int]] = ()) -> list[Level]:
    """Returns the levels of a curve of (bytes, seconds), named after those reported `caches` (name, bytes) that fit."""
    runs: list[list[tuple[int, float]]] = []
    for run in _stretches(sorted(points)):
        if runs and _seconds(run) < _ALIKE * _seconds(runs[-1]):
            runs[-1] = runs[-1] + run
        else:
            runs.append(run)
    levels = [Level(_seconds(run), run[0][0], run[-1][0]) for run in runs]
    for level, following in itertools.pairwise(levels):
        level.beyond = following.first
    largest = max((size for _, size in caches), default=None)
    for level in levels:
        if level.beyond is None and largest is not None and level.last >= _MEMORY * largest:
            level.name = "memory"
            continue
        fitting = [
            (size, name)
            for name, size in caches
            if level.last <= size and (size <= level.beyond if level.beyond else level.first <= size)
        ]
        if fitting:
            level.reported, level.name = min(fitting)
    return levels


def reported_caches(case: dict) -> list[tuple[str, int]]:
    """Returns (name, bytes) of the caches of the device that reads: the processor's, or the GPU's second level."""
    found = matrix.route(case["workload"])
    reader = found["end"] if found else ""
    if reader.startswith("gpu"):
        index = int(reader.removeprefix("gpu"))
        sizes = [device.get("l2_bytes") for device in case["devices"] if device.get("index") == index]
        return [("L2", size) for size in sizes if size]
    caches = case["host"].get("caches") or []
    return [(f"L{cache['level']}", cache["bytes"]) for cache in caches if cache["holds"] != "instructions"]


def curves(cases: list[dict]) -> dict[tuple, list[dict]]:
    """Groups records with a latency into curves; the records of a curve differ only in `bytes`."""
    groups: dict[tuple, list[dict]] = {}
    for case in cases:
        metric = fields.metrics(case).get("latency")
        if metric is None or metric["median"] is None or "bytes" not in case["axes"]:
            continue
        others = tuple(sorted((axis, value) for axis, value in case["axes"].items() if axis != "bytes"))
        groups.setdefault((case["run"]["node"], case["workload"], others), []).append(case)
    return groups


def _points(cases: list[dict]) -> dict[int, spread.Values]:
    """Returns the latencies over jobs for each size."""
    by_size: dict[int, spread.Values] = {}
    for case in cases:
        by_size.setdefault(case["axes"]["bytes"], spread.Values()).add(case, fields.metrics(case)["latency"])
    return dict(sorted(by_size.items()))


def _levels(cases: list[dict], points: dict[int, spread.Values], caches: list[tuple[str, int]]) -> list[Level]:
    """Returns the levels of a curve, each with its extremes over sizes and jobs, and its doubts."""
    levels = find([(size, values.value) for size, values in points.items() if values.value is not None], caches)
    for level in levels:
        inside = [values for size, values in points.items() if level.first <= size <= level.last]
        ends = [
            end for values in inside if values.value is not None for end in spread.ends(values.value, values.spread)
        ]
        level.low, level.high = min(ends), max(ends)
        figures = grouped((case["axes"]["bytes"], (case, fields.metrics(case)["latency"])) for case in cases)
        equals_of_sizes = [found for size, found in figures.items() if level.first <= size <= level.last]
        level.doubts = doubts.say([each for equals in equals_of_sizes for each in doubts.of_figures(equals)])
    return levels


_COLUMNS = [Column("level", right=False), Column("latency"), Column("±"), Column("flat over", right=False),
            Column("ends between", right=False), Column("reported", right=False)]  # fmt: skip


def _row(level: Level) -> list[str]:
    last = units.byte_text(level.last)
    ends = f"{last} … {units.byte_text(level.beyond)}" if level.beyond else "-"
    known = f"{level.name} {units.byte_text(level.reported)}" if level.reported else "-"
    assert level.low is not None and level.high is not None
    sure = spread.percent(level.seconds, spread.Spread(level.low, level.high, "range", 1)).removeprefix("±")
    return [
        level.name or "?",
        quantity(level.seconds, "s"),
        sure,
        f"{units.byte_text(level.first)} … {last}",
        ends,
        known,
    ]


def _block(
    title: str, points: dict[int, spread.Values], levels: list[Level], reported: list[tuple[str, int]]
) -> list[str]:
    lines = ["", *output.fold(title)]
    if not levels:
        return [*lines, "no level: at least two neighboring sizes must agree; measure more (--size-sweep)"]
    rows: list[list[str] | str] = []
    for level in levels:
        rows += [_row(level), *([output.Note(level.doubts)] if level.doubts else [])]
    lines += output.lay_out(_COLUMNS, rows)
    unseen = [f"{name} {units.byte_text(size)}" for name, size in reported if name not in {x.name for x in levels}]
    if unseen and max(points) > max(size for _, size in reported):
        lines += output.fold(f"reported but not seen: {', '.join(unseen)} (others may have used it meanwhile)")
    return lines


MORE = {
    "node": "VARCHAR", "unit": "VARCHAR", "level": "VARCHAR", "value": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE",
    "first_bytes": "BIGINT", "last_bytes": "BIGINT", "next_bytes": "BIGINT", "reported_bytes": "BIGINT",
    "doubts": "VARCHAR",
}  # fmt: skip


def view(cases: list[dict]) -> output.Table:
    """Returns a table with a row for each level; its text has a block for each curve.

    Raises Error if no record has a latency.
    """
    groups = curves(cases)
    if not groups:
        raise Error("no record has a latency of a chain in memory; run latency/*/chase --size-sweep")
    axes = [dict(others) for _, _, others in groups]
    several = {axis for each in axes for axis in each if len({other.get(axis) for other in axes}) > 1}
    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    for (node, workload, others), members in groups.items():
        points, reported = _points(members), reported_caches(members[0])
        levels = _levels(members, points, reported)
        title = workload + "".join(f" {axis}={value}" for axis, value in others if axis in several)
        lines += _block(f"{title} on {node}, {len(points)} sizes", points, levels, reported)
        common = {name: members[0].get(name) for name in output.CASE} | {
            "ranks": None, "metric": "latency", "axes": dict(others), "node": node, "unit": "s",
        }  # fmt: skip
        rows += [
            common | {"level": level.name or None, "value": level.seconds, "low": level.low, "high": level.high,
                      "first_bytes": level.first, "last_bytes": level.last, "next_bytes": level.beyond,
                      "reported_bytes": level.reported, "doubts": level.doubts or None} for level in levels
        ]  # fmt: skip
    lines += ["", "±: half the range over the sizes of a level and their jobs."]
    return output.of_cases(rows, MORE, "\n".join(lines[1:]))
