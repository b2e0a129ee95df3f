"""Programs as points on which the map of methods is tested, with amounts taken from their records.

If a program was paged, it counted the pages that arrived. If not, its record in placement pinned contains the size of
the array and how often its kernels read it. Programs that a record cannot describe or that the map does not cover are
left out with the reason; impossible counts are refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

from isthmus.advise.measured import medians
from isthmus.advise.methods import Program, ways_of
from isthmus.grouping import grouped
from isthmus.records import fields
from isthmus.units import byte_text

PREFIX = "apps/"
#: Method that each placement of a program stands for.
WAYS = {"pinned": "copy", "streamed": "streamed", "mapped": "mapped", "managed_demand": "managed", "paged": "paged"}
#: Largest ratio of results to inputs of a program that can be predicted, since only reading is predicted.
RESULTS = 0.05
#: Maximum number of times that kernels read what arrived. If they read more, they also read other memory, and the
#: record does not say how often.
MOST_PASSES = 64
#: Axes that only some placements have.
_OF_PLACEMENTS = {"page", "frames", "eviction", "transport", "chunks", "queues", "depth"}
#: Page size of a program whose pages were not counted, and maximum number of a program's arrays, each of which may need
#: an extra page.
_PAGE, _ARRAYS = 4096, 16
_NO_ROOM = {
    "copy": "the whole array does not fit in its frames", "managed": "the whole array does not fit in its frames",
    "streamed": "not all of its pages are read in order",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Point:
    """Program with known counts, and the seconds of the methods that were measured and are possible."""

    label: str
    program: Program
    seconds: dict[str, float]
    case: dict = dataclasses.field(compare=False)
    half: int = 0
    # Program as seen by each method; its kernels may read other amounts than in `program`.
    reads: dict[str, Program] = dataclasses.field(default_factory=dict)
    left: dict[str, str] = dataclasses.field(default_factory=dict)  # reasons why other measured methods do not count

    def of(self, way: str) -> Program:
        """Returns the program with the amounts that a method's kernels read."""
        return self.reads.get(way, self.program)


@dataclasses.dataclass(frozen=True)
class Left:
    """Program whose records cannot be used as a point, with the reason."""

    label: str
    why: str
    case: dict = dataclasses.field(compare=False)
    refused: bool = False


class _Unknown(Exception):
    """Reason why a program's counts are unknown."""


class _Impossible(Exception):
    """Reason why no program can have such counts."""


def machine_of(case: dict) -> str:
    """Returns a record's GPU as its UUID, or its name if the UUID is unknown."""
    device = case["devices"][0]
    return device.get("uuid") or device["name"]


def axes_key(case: dict, without: set[str]) -> str:
    """Returns all axes except those in `without`, as one key."""
    return json.dumps({name: value for name, value in case["axes"].items() if name not in without}, sort_keys=True)


# --- counts ---


def _needed(case: dict, name: str) -> float:
    return fields.metrics(case).get(name, {}).get("bytes_needed") or 0.0


def _sum(case: dict, name: str) -> float:
    """Returns the sum of a field over all kernels."""
    return sum(kernel.get(name) or 0.0 for kernel in case["kernels"])


def _counted(case: dict, name: str) -> int:
    """Returns the value of a metric that counts pages. Raises _Impossible if it is not a valid count."""
    value = medians(case).get(name) or 0
    if not 0 <= value < 1 << 60 or value != int(value):
        raise _Impossible(f"{name}={value:.6g} is not a number of pages")
    return int(value)


def _of_axis(case: dict, name: str, most: int) -> int:
    """Returns the value of an axis, 1 to `most`. Raises _Impossible for any other."""
    value = case["axes"].get(name)
    if not isinstance(value, int) or not 0 < value <= most:
        raise _Impossible(f"{name}={value} is not a whole number from 1 to {most}")
    return value


def _size(paged: dict | None, copied: dict | None) -> float:
    """Returns the size in bytes of the arrays that were paged.

    If the program was also run with copies, these are the bytes that it copied in addition to those of the paged run.
    """
    if copied is not None:
        size = _needed(copied, "in") - (_needed(paged, "in") if paged else 0)
        if size < 0:
            raise _Impossible("it copied in more bytes when it was paged than when everything was copied")
        if size == 0:
            raise _Unknown("its records do not give the bytes of its inputs")
        return size
    assert paged is not None
    fetches, evictions, frames = _counted(paged, "fetches"), _counted(paged, "evictions"), paged["axes"]["frames"]
    if evictions == 0 and frames < 100:
        raise _Unknown("no record in which it was copied shows the size of the array")
    return max(fetches - evictions, 1) / (min(frames, 100) / 100) * paged["axes"]["page"]  # all frames are full


def _program(paged: dict | None, copied: dict | None, in_order: bool) -> Program:
    """Returns the program as if it read every page once and whole. Raises _Unknown and _Impossible."""
    own = copied or paged
    if own is None:
        raise _Unknown("no record in which it was copied shows the size of the array")
    page, frames, fetches, evictions = _PAGE, 100, None, 0
    if paged:
        if paged["axes"].get("transport", "pull") != "pull":
            raise _Unknown("something else moved its pages")
        page, frames = _of_axis(paged, "page", 1 << 40), _of_axis(paged, "frames", 10**6)
        fetches, evictions = _counted(paged, "fetches"), _counted(paged, "evictions")
        if fetches == 0:
            raise _Unknown("it counted no pages")
        if evictions > fetches:
            raise _Impossible(f"{evictions} pages were evicted, but only {fetches} arrived")
    size, results = _size(paged, copied), _needed(own, "out")
    if results > RESULTS * (_needed(copied, "in") if copied else size):
        raise _Unknown(f"its results exceed {RESULTS:.0%} of its inputs, and only reading is predicted")
    pages = math.ceil(size / page)
    if fetches is not None and frames >= 100 and fetches > pages + _ARRAYS:
        raise _Impossible(f"with room for all pages, it fetched {fetches} although it has only {pages}")
    touched = pages if fetches is None else min(fetches, pages)
    return Program(size, page, touched, page, 1, min(frames / 100, 1), in_order, fetches)


def _reading(program: Program, case: dict, seconds_a_byte: float) -> Program:
    """Returns the program with the passes and bytes per page that this record's kernels read. Raises _Unknown."""
    read, whole = _sum(case, "bytes_read"), program.touched * program.page
    passes = max(round(read / whole), 1)
    if passes > MOST_PASSES:
        raise _Unknown(
            f"its kernels read more than {MOST_PASSES} times the bytes that arrived, so they also read other memory"
        )
    rate = case["devices"][0].get("fp32_rate") or math.inf
    if _sum(case, "flops") / rate > program.bytes * seconds_a_byte:
        raise _Unknown("even at the GPU's peak, it computes for longer than the link needs for its bytes")
    use = min(read / passes / program.touched, program.page) if read > 0 else program.page
    return dataclasses.replace(program, use=use, passes=passes)


# --- points ---


def _labels(cases: Sequence[dict]) -> list[str]:
    """Returns a label for each record: program, size and the axes that differ; if paged, also page size and frames."""

    def named(case: dict) -> list[str]:
        staging = case["staging"] if case["staging"] != "none" else None
        words = (case["workload"].removeprefix(PREFIX), case["size"], case["preset"], case["mode"], staging)
        return [word for word in words if word]

    both = [tuple(named(case)) for case in cases]
    values = grouped(
        ((of, name), repr(case["axes"].get(name))) for of, case in zip(both, cases) for each in cases
        if each["workload"] == case["workload"] for name in each["axes"] if name not in _OF_PLACEMENTS
    )  # fmt: skip
    labels = []
    for of, case in zip(both, cases):
        shown = [name for name in case["axes"] if len(set(values.get((of, name), []))) > 1]
        if case["placement"] == "paged":
            shown += ["page", "frames", *(["eviction"] if case["axes"].get("eviction") != "fifo" else [])]
        words = [f"{name}={_worded(name, case['axes'].get(name))}" for name in shown]
        labels.append(" ".join([*of, *words]))
    return labels


def _worded(name: str, value: object) -> str:
    return byte_text(value) if name == "page" and isinstance(value, int) and value >= 0 else str(value)


def _seconds(case: dict) -> float:
    return medians(case)["overlapped"]


def _point(label: str, pages: Program, measured: dict[str, dict], case: dict, seconds_a_byte: float) -> Point:
    """Makes the point of a program from its records, one per method. Raises _Unknown."""
    possible = [way for way in ways_of(pages) if way in measured]
    reads = {way: _reading(pages, measured[way], seconds_a_byte) for way in possible}
    left = {way: _NO_ROOM[way] for way in measured if way not in possible}
    return Point(label, pages, {way: _seconds(measured[way]) for way in possible}, case, reads=reads, left=left)


def _roomy(group: list[tuple[str, dict]], paged: list[tuple[str, dict]]) -> list[tuple[str, dict, dict | None]]:
    """Returns the program with room for all its pages, if they were counted only with less room, or not at all.

    The list has one entry (label, record, paged record or None), or is empty.
    """
    others = [each for each in group if each[1]["placement"] != "paged"]
    if not others or any(case["axes"].get("frames") == 100 for _, case in paged):
        return []
    return [(*others[0], paged[0][1] if paged else None)]


def programs_of(cases: Sequence[dict], seconds_a_byte: float) -> tuple[list[Point], list[Left]]:
    """Returns the points of all programs on all GPUs, and the programs that are left out.

    `seconds_a_byte` is the time that the link needs per byte. Each record in placement paged becomes a point. If none
    of these has room for all pages, a point with room is added.
    """
    placed = [
        case for case in cases
        if case["workload"].startswith(PREFIX) and case["placement"] in WAYS
        and 1e-9 <= medians(case).get("overlapped", 0) < 1e9
    ]  # fmt: skip
    groups = grouped(
        ((case["workload"], case["version"], case["size"], case["preset"], case["mode"], case["staging"],
          axes_key(case, _OF_PLACEMENTS), machine_of(case)), (label, case))
        for label, case in zip(_labels(placed), placed)
    )  # fmt: skip
    points: list[Point] = []
    left: list[Left] = []
    for group in groups.values():
        others: dict[str, dict] = {}
        for _, case in group:  # the fastest of several records of a method counts
            way = WAYS[case["placement"]]
            if way != "paged" and (way not in others or _seconds(case) < _seconds(others[way])):
                others[way] = case
        paged = [each for each in group if each[1]["placement"] == "paged"]
        for label, case, counted in [*((label, case, case) for label, case in paged), *_roomy(group, paged)]:
            try:
                program, measured = _program(counted, others.get("copy"), "streamed" in others), others
                if counted is case:
                    measured = others | {"paged": case}
                else:
                    program = dataclasses.replace(program, room=1, fetches=None)
                points.append(_point(label, program, measured, case, seconds_a_byte))
            except _Unknown as why:
                left.append(Left(label, str(why), case))
            except _Impossible as why:
                left.append(Left(label, f"its counts are impossible: {why}; measure it again", case, True))
    return points, left
