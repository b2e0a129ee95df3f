"""Text for a comparison of systems: an answer of at most ten lines, then a list of series, the most important first."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from isthmus import spelling, units
from isthmus.grouping import grouped
from isthmus.statistics import series, spread
from isthmus.statistics.series import Series
from isthmus.tables import output
from isthmus.verdicts import clusters

if TYPE_CHECKING:
    from isthmus.verdicts.compare import Cell, System

_LINES = 10  # maximum number of lines of the answer
_SHOWN = {"worse": 10, "better": 10, "other": 4, "unsure": 6, "equal": 3}  # series shown per verdict without --all
_SPEEDS = ("B/s", "FLOP/s", "1/s")
_ORDER = ("worse", "better", "other", "unsure", "equal", "")

Rows = dict[tuple, list["Cell | None"]]


# --- words for one figure ---


def direction(cell: Cell, of: Series) -> str:
    """Returns how a figure differs from the reference: faster or slower, better or worse, more or less, or equal.

    Returns "" if there is no ratio.
    """
    if cell.ratio is None:
        return ""
    if cell.verdict == "equal" or cell.ratio == 1:
        return "equal"
    larger = cell.ratio > 1
    if of.better and of.unit in ("s", *_SPEEDS):
        return "faster" if cell.better else "slower"
    if of.better:
        return "better" if cell.better else "worse"
    return "more" if larger else "less"


def times(ratio: float) -> str:
    """Returns the ratio of the larger to the smaller figure, such as ×1.62; words elsewhere state the direction."""
    return f"×{max(ratio, 1 / ratio):#.3g}".rstrip(".")


def sureness(cell: Cell) -> str:
    """Returns the interval of a ratio as text, or why there is none; marks intervals of single nodes."""
    if cell.reason:
        return cell.reason
    if cell.low is None or cell.high is None or cell.ratio is None:
        return ""
    low, high = (cell.low, cell.high) if cell.ratio >= 1 else (1 / cell.high, 1 / cell.low)
    unsure = "" if cell.verdict != "unsure" else "unsure "
    return f"{unsure}[{low:#.3g}, {high:#.3g}]" + (" 1 node" if cell.single else "")


# --- the answer ---


def _far(cells: list[tuple[str, Cell]]) -> tuple[str, Cell]:
    """Returns the cell with the ratio farthest from 1, and its name."""
    return max(cells, key=lambda each: abs(math.log(each[1].ratio or 1)))


def _verdicts(name: str, first: str, found: list[tuple[str, Cell, Series]]) -> list[str]:
    """Returns lines that compare a system with the first one: sure differences, then unsure ones with the reasons."""
    judged = [each for each in found if each[1].verdict]
    by = grouped((cell.verdict, (label, cell)) for label, cell, _ in judged)
    sure = []
    for verdict, word in (("worse", "worse"), ("better", "better"), ("other", "different")):
        if by.get(verdict):
            label, cell = _far(by[verdict])
            most = f"{'by ' if len(by[verdict]) == 1 else 'by up to '}{times(cell.ratio or 1)} ({label})"
            sure.append(f"{len(by[verdict])} {word} {most}")
    if by.get("equal"):
        sure.append(f"{len(by['equal'])} equal within 1%")
    lines = [f"{name} against {first}: of {len(found)} series {'; '.join(sure) or 'none is surely better or worse'}"]
    unsure = [each for each in judged if each[1].verdict == "unsure"]
    if unsure:
        lines.append(_unsure(unsure))
    return lines


def _unsure(found: list[tuple[str, Cell, Series]]) -> str:
    """Returns text on unsure differences: their number, the reasons, and what the figures alone suggest."""
    reasons = Counter(cell.reason or "too close to tell" for _, cell, _ in found)
    why = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    ways = [cell for _, cell, _ in found if cell.better is not None and cell.ratio]
    logs = sorted((1 if cell.better else -1) * abs(math.log(cell.ratio or 1)) for cell in ways)
    middle = f", median {times(math.exp(logs[len(logs) // 2]))} {'better' if logs[len(logs) // 2] > 0 else 'worse'}"
    alone = f"; their figures alone: {sum(log > 0 for log in logs)} better, {sum(log < 0 for log in logs)} worse"
    return f"  not sure: {len(found)} ({why}){alone + middle if logs else ''}"


def _uncounted(systems: list[System]) -> str | None:
    """Returns a sentence on failed, wrong and invalid cases, which the figures leave out, or None."""
    found = [f"{spelling.printable(s.name)}: {s.uncounted.words}" for s in systems if s.uncounted.words]
    return f"left out, because they do not count: {'; '.join(found)}" if found else None


def _without_ratio(systems: list[System], rows: Rows, names: dict[tuple, str]) -> str | None:
    """Returns a sentence on series without a ratio because only some systems have values at or below zero, or None."""
    found = []
    for key in rows:
        having = [(system, each) for system in systems if (each := system.series.get(key))]
        if len({series.has_ratios(each, ("A",)) for _, each in having}) > 1:
            lowest = {
                system.name: min(v for job in each.of("A") for v in job.places.values()) for system, each in having
            }
            unit = having[0][1].unit
            of = ", ".join(f"{spelling.printable(name)} {units.quantity(v, unit)}" for name, v in lowest.items())
            found.append(f"{names[key]} (lowest: {of})")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"no ratio, because one has values at or below zero: {found[0]}{more}" if found else None


def _lacking(systems: list[System]) -> str | None:
    """Returns a sentence on nodes and GPUs that, unlike their equals, are not in a system's figures, or None."""
    found = [sentence for system in systems for sentence in system.lacking]
    return f"not like for like: {'; '.join(found)}" if found else None


def _places(systems: list[System]) -> str:
    """Returns a sentence on the nodes that each system was measured on, which marks systems with a single node."""
    words = []
    for system in systems:
        nodes = sorted(system.nodes)
        named = ", ".join(map(spelling.printable, nodes[:2])) + (" …" if len(nodes) > 2 else "")
        only = "one node only, " if len(nodes) == 1 else f"{len(nodes)} nodes, "
        words.append(f"{spelling.printable(system.name)}: {only}{named}")
    return f"where: {'; '.join(words)}"


def _farthest(rows: Rows, systems: list[System], names: dict[tuple, str]) -> str | None:
    """Returns a sentence on the series with the smallest share of the hardware's limit, or None."""
    shares = [
        (cell.share, systems[at].name, key)
        for key, row in rows.items()
        for at, cell in enumerate(row)
        if cell is not None and cell.share
    ]
    if not shares:
        return None
    share, name, key = min(shares, key=lambda each: (each[0], str(each[2])))
    return (
        f"furthest from its limit: {names[key]} of {spelling.printable(name)}, {share:.1%} of it"
        if share >= 0.001
        else f"furthest from its limit: {names[key]} of {spelling.printable(name)}, below 0.1% of it"
    )


def _alone(systems: list[System]) -> str | None:
    """Returns a sentence on the numbers of series that only one system has and of skipped cases, or None."""
    found = []
    for system in systems:
        others = [other for other in systems if other is not system]
        alone = sum(not any(key in other.series for other in others) for key in system.series)
        if alone:
            found.append(f"only in {spelling.printable(system.name)}: {alone} series")
    found += [f"{spelling.printable(system.name)} {system.skipped}" for system in systems if system.skipped]
    return "; ".join(found) or None


def answer(systems: list[System], rows: Rows, names: dict[tuple, str], of: dict[tuple, Series]) -> list[str]:
    """Returns at most ten lines: each system against the first, the nodes, other differences, what is not compared."""
    first = spelling.printable(systems[0].name)
    lines: list[str] = []
    for at, system in enumerate(systems[1:], 1):
        found = [(names[key], cell, of[key]) for key, row in rows.items() if (cell := row[at]) is not None]
        found = [each for each in found if of_measured(each[2]) and each[1].ratio is not None]
        lines += _verdicts(spelling.printable(system.name), first, found)
    rest = [
        _uncounted(systems),
        _lacking(systems),
        _without_ratio(systems, rows, names),
        _places(systems),
        _farthest(rows, systems, names),
        *differences(systems),
        _alone(systems),
    ]
    return _fitted([*lines, *filter(None, rest)], 2 * (len(systems) - 1))


def _fitted(sentences: list[str], first: int) -> list[str]:
    """Folds sentences to at most _LINES lines; cuts the first `first` sentences last, and drops sentences if needed."""
    folded = [output.fold(each) for each in sentences]
    while sum(map(len, folded)) > _LINES:
        long = [i for i, lines in enumerate(folded) if len(lines) > 1]
        at = max(long, key=lambda i: (i >= first, len(folded[i]), i), default=None)
        if at is None:
            folded = [*folded[: _LINES - 1], [f"… and {len(folded) - _LINES + 1} more sentences; --format csv has all"]]
            break
        folded[at] = [spelling.shorten(sentences[at], spelling.WIDTH)]
    return [line for each in folded for line in each]


def of_measured(each: Series) -> bool:
    return each.workload != "machine"


def differences(systems: list[System]) -> list[str]:
    """Returns sentences on other differences: builds, drivers, fields of the fingerprint, and versions of workloads."""
    found = []
    for field in systems[0].facts:
        values = [system.facts[field] for system in systems]
        if any(each != values[0] for each in values) and all(values):
            found.append((field, values))
    names = [_WORDS.get(field, field) for field, _ in found]
    told = "; ".join(
        f"{name} {' against '.join(_some(field, each) for each in values)}"
        for name, (field, values) in zip(names, found[:4])
    )
    return [
        # All names come first, so that shortening does not lose them.
        *([f"not alike: {', '.join(names)} ({told})"] if found else []),
        *(f"not compared: {each}" for each in versions(systems)),
    ]


_WORDS = {"git": "build", "code": "device code", "driver": "driver"}


def _some(field: str, values: list[str]) -> str:
    first = spelling.printable(values[0])
    first = first[:10] if field == "git" else spelling.shorten(first, 24)
    return first if len(values) == 1 else f"{first} and {len(values) - 1} more"


def versions(systems: list[System]) -> list[str]:
    """Returns a sentence for each workload that has no version common to all systems."""
    by_system = [system.versions for system in systems]
    found = []
    for workload in sorted({*by_system[0]}.intersection(*by_system[1:])):
        sets = [each[workload] for each in by_system]
        if not set.intersection(*sets):
            told = " and ".join(
                f"{', '.join(map(str, sorted(each, key=str)))} in {spelling.printable(s.name)}"
                for each, s in zip(sets, systems)
            )
            found.append(f"{spelling.printable(workload)} is of version {told}")
    if not found:
        return []
    more = f", and {len(found) - 1} more workloads differ likewise" if len(found) > 1 else ""
    return [f"{found[0]}{more}"]


# --- the list ---

_COLUMNS = [
    output.Column("system", right=False), output.Column("value"), output.Column("±", drop=1),
    output.Column("of", drop=2), output.Column("×"), output.Column("", right=False),
    output.Column("95%", right=False),
]  # fmt: skip


def _line(system: System, cell: Cell | None, of: Series) -> list[str]:
    name = spelling.shorten(spelling.printable(system.name), 16)
    if cell is None:
        return [name, "-", "", "", "", "", ""]
    texts = [units.quantity(cell.value, of.unit), spread.percent(cell.value, cell.interval)]
    texts.append(f"{cell.share:.0%}" if cell.share else "")
    if cell.ratio is None:
        return [name, *texts, "", "", ""]
    return [name, *texts, times(cell.ratio), direction(cell, of), sureness(cell)]


def _weight(row: list[Cell | None]) -> tuple[int, float]:
    """Returns a key that sorts rows by importance: by verdict, then by distance of the ratio from 1."""
    judged = [cell for cell in row if cell is not None and cell.ratio is not None]
    if not judged:
        return len(_ORDER), 0.0
    foremost = min(judged, key=lambda cell: (_ORDER.index(cell.verdict), -abs(math.log(cell.ratio or 1))))
    return _ORDER.index(foremost.verdict), -abs(math.log(foremost.ratio or 1))


def text(
    systems: list[System], rows: Rows, names: dict[tuple, str], of: dict[tuple, Series], everything: bool
) -> tuple[str, list[str]]:
    """Returns the whole text (the answer and the list below it), and the lines of the answer alone."""
    told = answer(systems, rows, names, of)
    ordered = sorted(rows, key=lambda key: (not of_measured(of[key]), *_weight(rows[key]), names[key]))
    shown: list[list[str] | str] = []
    left: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for key in ordered:
        place, _ = _weight(rows[key])
        verdict = _ORDER[place] if place < len(_ORDER) else ""
        limit = _SHOWN.get(verdict, 0) if of_measured(of[key]) else math.inf
        counts[verdict] += 1
        if not everything and counts[verdict] > limit:
            left[verdict] += 1
            continue
        shown.append(names[key])
        for system, cell in zip(systems, rows[key]):
            shown.append(_line(system, cell, of[key]))
            shown += [f"    ! {system.name}: {cell.doubts}"] if cell is not None and cell.doubts else []
    lines = [*told, "", *(output.lay_out(_COLUMNS, shown) if shown else [])]
    if left:
        words = {"": "without a ratio", "unsure": "not sure", "other": "different"}
        rest = ", ".join(f"{number} {words.get(verdict, verdict)}" for verdict, number in left.items())
        lines += output.fold(f"not shown: {rest}; --all shows them, --format csv has them")
    return "\n".join([*lines, "", *_foot(systems[0], rows)]), told


def _foot(first: System, rows: Rows) -> list[str]:
    """Returns lines that explain the columns and the reasons in them."""
    reasons = {cell.reason for row in rows.values() for cell in row if cell is not None and cell.reason}
    lines = output.fold(spread.MEANING.replace(" (j=1)", ""))
    lines += output.fold(
        f"of: the share of its limit. ×: to {first.name}, as means over nodes and their boots. 95%: the interval of ×; "
        "1 node: it applies only to that node."
    )
    for reason in sorted(reasons):
        lines += output.fold(f"{reason}: {clusters.MEANING[reason]}")
    return lines
