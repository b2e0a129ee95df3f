"""Programs as points to test the map of methods on, by what their records count.

A program that was paged counted the pages that arrived. For one that was not, its record in placement pinned gives the
bytes of the array and how often its kernels read them. Programs that a record cannot describe, or the map does not
cover, are left out with the reason; counts that no program can have are refused.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

from isthmus.advise.measured import medians
from isthmus.advise.ways import Program, ways_of
from isthmus.groups import grouped
from isthmus.records import content
from isthmus.units import byte_text

PREFIX = "apps/"
#: Method that each placement of a program stands for.
WAYS = {"pinned": "copy", "streamed": "streamed", "mapped": "mapped", "managed_demand": "managed", "paged": "paged"}
#: Largest share of results to inputs: only reading is predicted.
RESULTS = 0.05
#: Most reads of what arrived; above it, kernels read other memory as well, and the record does not say how often.
MOST_PASSES = 64
#: Axes that come with a placement.
_OF_PLACEMENTS = {"page", "frames", "eviction", "transport", "chunks", "queues", "depth"}
#: Page size of a program whose pages were not counted, and most arrays of one: each may need a page more.
_PAGE, _ARRAYS = 4096, 16
_NO_ROOM = {
    "copy": "its frames have no room for the whole array", "managed": "its frames have no room for the whole array",
    "streamed": "not all of its pages are wanted in order",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Point:
    """Program with known counts, and the seconds of the methods that were measured and are possible."""

    label: str
    program: Program
    seconds: dict[str, float]
    case: dict = dataclasses.field(compare=False)
    half: int = 0
    # Programs of methods whose kernels read other amounts.
    reads: dict[str, Program] = dataclasses.field(default_factory=dict)
    left: dict[str, str] = dataclasses.field(default_factory=dict)  # reasons why measured methods do not count

    def of(self, way: str) -> Program:
        """Returns what the kernels of a method read."""
        return self.reads.get(way, self.program)


@dataclasses.dataclass(frozen=True)
class Left:
    """Records of a program that make no point."""

    label: str
    why: str
    case: dict = dataclasses.field(compare=False)
    refused: bool = False


class _Unknown(Exception):
    """Reason why a program's counts are not known."""


class _Impossible(Exception):
    """Reason why no program can have such counts."""


def machine_of(case: dict) -> str:
    """Returns what identifies the GPU of a record."""
    device = case["devices"][0]
    return device.get("uuid") or device["name"]


def axes_key(case: dict, without: set[str]) -> str:
    """Returns the axes, but for those in `without`, as one key."""
    return json.dumps({name: value for name, value in case["axes"].items() if name not in without}, sort_keys=True)


# --- counts ---


def _needed(case: dict, name: str) -> float:
    return content.metrics(case).get(name, {}).get("bytes_needed") or 0.0


def _sum(case: dict, name: str) -> float:
    """Returns the sum over all kernels."""
    return sum(kernel.get(name) or 0.0 for kernel in case["kernels"])


def _counted(case: dict, name: str) -> int:
    """Returns the value of a metric that counts pages. Raises _Impossible if it is no count."""
    value = medians(case).get(name) or 0
    if not 0 <= value < 1 << 60 or value != int(value):
        raise _Impossible(f"{name}={value:.6g} is no number of pages")
    return int(value)


def _of_axis(case: dict, name: str, most: int) -> int:
    """Returns the value of an axis, 1 to `most`. Raises _Impossible for any other."""
    value = case["axes"].get(name)
    if not isinstance(value, int) or not 0 < value <= most:
        raise _Impossible(f"{name}={value} is none")
    return value


def _size(paged: dict | None, copied: dict | None) -> float:
    """Returns the bytes of the arrays concerned: if they were copied, what was copied in addition to the paged run."""
    if copied is not None:
        size = _needed(copied, "in") - (_needed(paged, "in") if paged else 0)
        if size < 0:
            raise _Impossible("it copied more in where it was paged than where all was copied")
        if size == 0:
            raise _Unknown("its records tell no bytes of inputs")
        return size
    assert paged is not None
    fetches, evictions, frames = _counted(paged, "fetches"), _counted(paged, "evictions"), paged["axes"]["frames"]
    if evictions == 0 and frames < 100:
        raise _Unknown("no record of it copied tells the size of the array")
    return max(fetches - evictions, 1) / (min(frames, 100) / 100) * paged["axes"]["page"]  # all frames are full


def _program(paged: dict | None, copied: dict | None, in_order: bool) -> Program:
    """Returns the program as if it read whole pages, each once. Raises _Unknown and _Impossible."""
    own = copied or paged
    if own is None:
        raise _Unknown("no record of it copied tells the size of the array")
    page, frames, fetches, evictions = _PAGE, 100, None, 0
    if paged:
        if paged["axes"].get("transport", "pull") != "pull":
            raise _Unknown("others brought its pages")
        page, frames = _of_axis(paged, "page", 1 << 40), _of_axis(paged, "frames", 10**6)
        fetches, evictions = _counted(paged, "fetches"), _counted(paged, "evictions")
        if fetches == 0:
            raise _Unknown("it counted no pages")
        if evictions > fetches:
            raise _Impossible(f"{evictions} pages went and {fetches} came")
    size, results = _size(paged, copied), _needed(own, "out")
    if results > RESULTS * (_needed(copied, "in") if copied else size):
        raise _Unknown(f"its results are above {RESULTS:.0%} of its inputs, and only reading is predicted")
    pages = math.ceil(size / page)
    if fetches is not None and frames >= 100 and fetches > pages + _ARRAYS:
        raise _Impossible(f"with room for all it touched {fetches} pages of {pages}")
    touched = pages if fetches is None else min(fetches, pages)
    return Program(size, page, touched, page, 1, min(frames / 100, 1), in_order, fetches)


def _reading(program: Program, case: dict, seconds_a_byte: float) -> Program:
    """Returns the program as the kernels of this record read it. Raises _Unknown."""
    read, whole = _sum(case, "bytes_read"), program.touched * program.page
    passes = max(round(read / whole), 1)
    if passes > MOST_PASSES:
        raise _Unknown(f"its kernels read more than {MOST_PASSES} times what came: other memory, too")
    rate = case["devices"][0].get("fp32_rate") or math.inf
    if _sum(case, "flops") / rate > program.bytes * seconds_a_byte:
        raise _Unknown("it computes, at the GPU's peak, for longer than its bytes need over the link")
    use = min(read / passes / program.touched, program.page) if read > 0 else program.page
    return dataclasses.replace(program, use=use, passes=passes)


# --- points ---


def _labels(cases: Sequence[dict]) -> list[str]:
    """Returns a label per record: the program, its size, the axes that differ; for a paged one its page and room."""

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
    """Makes the point of a program from its record in each method. Raises _Unknown."""
    possible = [way for way in ways_of(pages) if way in measured]
    reads = {way: _reading(pages, measured[way], seconds_a_byte) for way in possible}
    left = {way: _NO_ROOM[way] for way in measured if way not in possible}
    return Point(label, pages, {way: _seconds(measured[way]) for way in possible}, case, reads=reads, left=left)


def _roomy(group: list[tuple[str, dict]], paged: list[tuple[str, dict]]) -> list[tuple[str, dict, dict | None]]:
    """Returns the program with room for everything, if its pages were counted only with less room, or not at all."""
    others = [each for each in group if each[1]["placement"] != "paged"]
    if not others or any(case["axes"].get("frames") == 100 for _, case in paged):
        return []
    return [(*others[0], paged[0][1] if paged else None)]


def programs_of(cases: Sequence[dict], seconds_a_byte: float) -> tuple[list[Point], list[Left]]:
    """Returns points and left-out records of each program on each GPU; `seconds_a_byte` is that of the link.

    Each record in placement paged makes a point. If none of these has room for everything, there is one more with it.
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
                left.append(Left(label, f"no program can have its counts: {why}; measure it again", case, True))
    return points, left
