"""Tables of workloads whose names contain a route: <family>/<from>-<to>/<initiator>[-duplex].

All figures are medians over jobs. First comes a matrix of sources (rows) and destinations (columns) for each initiator
at the largest size, then each route at all sizes, then the failures with their reasons.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
import textwrap
from collections.abc import Iterable

from isthmus import units
from isthmus.grouping import grouped
from isthmus.records import doubts, fields
from isthmus.statistics import spread
from isthmus.tables import output

_SHOWN = ("rate", "latency")  # metrics that a cell can show; it shows the first one that a record has
_ROUTE = re.compile(r"(?P<family>[^/]+)/(?P<start>[^/-]+)-(?P<end>[^/]+)/(?P<initiator>[^/]+)")


def route(workload: str) -> re.Match | None:
    """Returns family, start, end and initiator of a workload's name, or None if the name is not a route."""
    return _ROUTE.fullmatch(workload)


@dataclasses.dataclass
class _Reading:
    """Figures of a route at one size."""

    values: spread.Values = dataclasses.field(default_factory=spread.Values)
    figures: list[doubts.Figure] = dataclasses.field(default_factory=list)  # (record, metric) of each value
    outcome: str = ""  # reason for having no value

    def text(self, factor: float, with_share: bool) -> str:
        """Returns the median with its interval and, with `with_share`, its share of the limit."""
        if self.outcome:
            return self.outcome
        value = self.values.value
        if value is None:
            return "invalid"
        words = [_number(value / factor) + ("!" if self.doubt else ""), self.values.percent()]
        if with_share and self.values.share is not None:
            words += [f"({self.values.share:.0%})"]
        return " ".join(filter(None, words))

    @property
    def doubt(self) -> str:
        """Doubts about the figure, in words; empty without doubts."""
        return doubts.say_of_equals(self.figures)


@dataclasses.dataclass
class _Matrix:
    """Figures of an initiator with the same values of all axes except the size."""

    title: str  # text such as "transfer/ce" or "transfer/ce streams=2"
    metric: str = ""
    unit: str = ""
    sizes: dict[int | None, dict[tuple[str, str], _Reading]] = dataclasses.field(default_factory=dict)

    def shown_size(self) -> int | None:
        """Returns the largest size that has a figure, or the largest of all sizes if none has a figure."""
        ordered = sorted(self.sizes, key=lambda size: size or 0)
        full = [size for size in ordered if any(reading.values.jobs for reading in self.sizes[size].values())]
        return (full or ordered)[-1]


def _number(value: float) -> str:
    size = abs(value)
    if size and size < 0.01:
        return f"{value:.1e}"
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def order(place: str):
    """Returns a sort key that puts gpu2 before gpu10, and `all`, which represents several places, last."""
    stem = place.rstrip("0123456789")
    number = place[len(stem) :]
    return place == "all", stem, int(number or -1)


def sides(cells: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Returns the rows and columns of a matrix of these (from, to) pairs, each sorted."""
    cells = list(cells)
    return sorted({start for start, _ in cells}, key=order), sorted({end for _, end in cells}, key=order)


def _route_of(case: dict) -> re.Match:
    found = route(case["workload"])
    assert found is not None  # guaranteed by the caller of matrices()
    return found


def _group(case: dict) -> str:
    return "{family}/{initiator}".format(**_route_of(case).groupdict())


def _outcome(case: dict) -> str:
    if case["skipped"] and not case["error"]:
        return "skipped"
    if fields.failure(case):
        return "WRONG" if case["verify"]["status"] == "fail" and not case["error"] else "FAILED"
    return ""


def _gather(cases: list[dict]) -> list[_Matrix]:
    """Returns the matrices in the order of their records; axes with several values are part of matrices' titles."""
    seen: dict[tuple[str, str], set] = {}
    for case in cases:
        for axis, value in fields.axes(case).items():
            seen.setdefault((_group(case), axis), set()).add(value)
    matrices: dict[str, _Matrix] = {}
    for case in cases:
        others = sorted((axis, value) for axis, value in fields.axes(case).items() if axis != "bytes")
        title = _group(case)
        title += "".join(f" {axis}={value}" for axis, value in others if len(seen[_group(case), axis]) > 1)
        matrix = matrices.setdefault(title, _Matrix(title))
        found = _route_of(case)
        readings = matrix.sizes.setdefault(case["axes"].get("bytes"), {})
        reading = readings.setdefault((found["start"], found["end"]), _Reading())
        reading.outcome = reading.outcome or _outcome(case)
        metrics = fields.metrics(case)
        name = next((name for name in _SHOWN if name in metrics and metrics[name]["median"] is not None), None)
        if reading.outcome or name is None:
            continue
        matrix.metric, matrix.unit = name, metrics[name]["unit"]
        reading.values.add(case, metrics[name])
        reading.figures.append((case, metrics[name]))
    return list(matrices.values())


def _scale(readings: list[_Reading], unit: str) -> tuple[float, str]:
    """Returns a factor and unit that suit the median value, so that an outlier does not cost other values digits."""
    values = [abs(value) for reading in readings if (value := reading.values.value) is not None]
    return units.scale_of(statistics.median(values) if values else 0, unit)


def _matrix(matrix: _Matrix) -> list[str]:
    size = matrix.shown_size()
    readings = matrix.sizes[size]
    factor, unit = _scale(list(readings.values()), matrix.unit)
    heading = matrix.title if size is None else f"{matrix.title} at {units.byte_text(size)}"
    if matrix.metric:
        both = " of both directions" if matrix.title.split()[0].endswith("-duplex") else ""
        share = " (share of its limit)" if any(reading.values.shares for reading in readings.values()) else ""
        heading += f": {matrix.metric}{both}{unit and f' in {unit}'}{share}"
    rows, columns = sides(readings)
    cells = [[readings[a, b].text(factor, True) if (a, b) in readings else "-" for b in columns] for a in rows]
    return [
        *textwrap.wrap(heading, output.WIDTH, break_on_hyphens=False),
        *output.grid("from \\ to", rows, columns, cells),
        *_doubts({f"{a}→{b}": reading for (a, b), reading in readings.items()}),
    ]


def _doubts(readings: dict[str, _Reading]) -> list[str]:
    """Returns the lines below a table with the doubts about figures that are marked with !."""
    notes = output.notes_of({name: reading.doubt for name, reading in readings.items()})
    return [line for note in notes for line in output.fold(f"  ! {note}")]


def _by_size(matrices: list[_Matrix], metric: str) -> list[str]:
    """Returns a table of all routes that have figures, at all sizes, for the matrices that show `metric`."""
    matrices = [matrix for matrix in matrices if matrix.metric == metric]
    sizes = sorted({size for matrix in matrices for size in matrix.sizes if size is not None})
    if len(sizes) < 2:
        return []
    readings = [reading for m in matrices for size in m.sizes if size is not None for reading in m.sizes[size].values()]
    factor, unit = _scale(readings, matrices[0].unit)
    rows = []
    for matrix in matrices:
        with_figures = [
            pair for size in sizes for pair, reading in matrix.sizes.get(size, {}).items() if reading.values.jobs
        ]
        rows += [(pair, matrix) for pair in dict.fromkeys(with_figures)]
    rows.sort(key=lambda row: (order(row[0][0]), order(row[0][1])))
    labels = [f"{a}→{b}/{matrix.title.partition('/')[2]}" for (a, b), matrix in rows]
    cells = [
        [found.text(factor, False) if (found := matrix.sizes.get(size, {}).get(pair)) else "-" for size in sizes]
        for pair, matrix in rows
    ]
    heads = list(map(units.byte_text, sizes))
    doubtful = {
        f"{label} {head}": found
        for label, (pair, matrix) in zip(labels, rows)
        for size, head in zip(sizes, heads)
        if (found := matrix.sizes.get(size, {}).get(pair)) and size != matrix.shown_size()  # noted below its matrix
    }
    return [f"{metric}{unit and f' in {unit}'} by size", *output.grid("", labels, heads, cells), *_doubts(doubtful)]


def _failures(cases: list[dict]) -> list[str]:
    """Returns lines with the number of cases that failed or are wrong, and the distinct reasons."""
    failed = [case for case in cases if _outcome(case) in ("FAILED", "WRONG")]
    if not failed:
        return []
    details = [f": {case['verify'].get('detail')}" if _outcome(case) == "WRONG" else "" for case in failed]
    reasons = grouped((f"{fields.failure(case)}{detail}", case) for case, detail in zip(failed, details, strict=True))
    lines = [f"Failed: {len(failed)} of {len(cases)} cases"]
    for reason, members in reasons.items():
        lines += output.fold(f"{len(members):>4} × {reason}")
    return lines


def matrices(cases: list[dict]) -> list[str]:
    """Returns lines of at most 80 columns; every case must have a route."""
    gathered = _gather(cases)
    blocks = [_matrix(matrix) for matrix in gathered]
    blocks += [_by_size(gathered, metric) for metric in _SHOWN]
    blocks.append(_failures(cases))
    lines: list[str] = []
    for block in filter(None, blocks):
        lines += ["", *block]
    return lines
