"""Text and rows for the outcome of a comparison."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from isthmus import spelling, units
from isthmus.statistics import rank_test
from isthmus.tables import output
from isthmus.verdicts import unlike
from isthmus.verdicts.judging import VERDICTS, Outcome, Part, Result, run_more

_SHOWN = {"regressed": 30, "inconclusive": 5, "improved": 10, "changed": 5, "changed-but-small": 3}


def _figure(value: float | None, result: Result) -> str:
    if value is None:
        return "-"
    if result.ratio:
        return f"{value:+.1%}" if math.isfinite(value) else ("-∞" if value < 0 else "∞")
    return f"{value:+.3g}"


def direction(change: float | None, result: Result) -> str:
    """Returns the direction of a change in words: slower, faster, lower or higher; empty if nothing changed."""
    if not change:
        return ""
    if result.ratio and result.unit == "s":
        return "slower" if change > 0 else "faster"
    return "higher" if change > 0 else "lower"


def _foremost(result: Result) -> list[Part]:
    """Returns the sure parts that changed in the verdict's direction, the largest change first."""
    sure = [part for part in result.parts if part.sure and result.bears_out(part.own)]
    return sorted(sure, key=lambda part: -abs(part.own))


def _size(result: Result) -> float:
    """Returns the largest change in the verdict's direction, for sorting: as a share, or scaled by the margin."""
    changes = [result.estimate or 0.0, *(part.own for part in _foremost(result))]
    largest = max((change for change in changes if result.bears_out(change)), key=abs, default=0.0)
    if result.ratio:
        return abs(math.log1p(max(largest, -0.999999)))
    return abs(largest) / result.delta * 0.01 if result.delta else abs(largest)


def by_weight(result: Result) -> tuple:
    """Returns a sort key that orders results by verdict, absent series first, then by the size of the change."""
    absent = not result.reason.startswith("absent")
    return VERDICTS.index(result.verdict), absent, result.reason == "", -_size(result), result.label


def _seen(result: Result) -> str:
    """Returns a short description of the change that determines a series' verdict, and of its place."""
    if parts := _foremost(result):
        more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
        where = f"on {spelling.printable(parts[0].where)}{more}"
        return f"{_figure(parts[0].own, result)} {direction(parts[0].own, result)} {where}"
    return f"{_figure(result.estimate, result)} {direction(result.estimate, result)}".rstrip()


def lines_of(result: Result) -> list[str]:
    """Returns the lines about a series: its verdict, its figures, then the reason or a note."""
    head, indent = f"{result.verdict:<12} {result.label}", " " * 12
    if result.estimate is None:
        return [head, f"{indent} {result.note}"]
    a, b = (units.quantity(m, result.unit) for m in result.medians)
    ends = (result.low, result.high)
    interval = (
        f"[{_figure(result.low, result)}, {_figure(result.high, result)}]"
        if any(end is not None and math.isfinite(end) for end in ends) else "(no interval)"
    )  # fmt: skip
    figures = (
        f"{_figure(result.estimate, result)} {direction(result.estimate, result)} {interval}  "
        f"±{_figure(result.delta, result).lstrip('+')}  {a} → {b}  q={result.q:.2g}  "
        f"{result.jobs[0]}+{result.jobs[1]} jobs"
    )
    if result.unit_compared != "job":
        figures += f" as {result.units[0]}+{result.units[1]} {result.unit_compared}s"
    if result.strata > 1:
        figures += f" in {result.strata} pairs of {result.paired}s"
    if result.clusters:
        figures += f", {result.clusters.sizes[0]}+{result.clusters.sizes[1]} {result.clusters.name}"
    lines = [head, f"{indent} {figures}"]
    if result.parts:
        lines.append(f"{indent} unlike the others: {unlike.in_words(result)}")
    if result.reason:
        said = result.reason if not (result.parts and result.reason.startswith("unlike the others")) else ""
        lines += [f"{indent} {line}" for line in ["; ".join(filter(None, (said, result.advice)))] if line]
    return lines + ([f"{indent} {result.note}"] if result.note else [])


def _order_in_words(order: rank_test.Order | None) -> str:
    if order is None:
        return "drawn at random, so it does not matter"
    what = f"{spelling.counted(order.units, 'job')} of {spelling.counted(order.metrics, 'metric')}"
    figures = f"lag-1 autocorrelation {order.autocorrelation:.2f}, p = {order.p:.2g}; trend, p = {order.trend_p:.2g}"
    if order.autocorrelated or order.drifts:
        return f"it matters ({figures}; {what}): nothing can be decided; run both sides in turns"
    if not order.testable:
        together = ", and the metrics move together" if order.together else ""
        return f"not testable with {what}{together}"
    return f"does not matter ({figures}; {what})"


# --- the answer ---

_MOST = 10  # maximum number of lines of the answer
_SHORT = 24  # maximum length of a margin's description that fits next to the number of jobs, in characters
_FIRST = 2  # number of series that are named


def _named(result: Result, width: int) -> str:
    seen = _seen(result)
    return f"{spelling.shorten(result.label, max(width - len(seen) - 2, 20))}: {seen}"


def _kind(name: str, results: list[Result], every: int, named: int = 1) -> list[str]:
    """Returns lines with the number of series of a kind, and the first of them: what changed, where, by how much."""
    if not results:
        return []
    head = f"{name:<8} {len(results)} of {every} series"
    if named == 1:
        return [f"{head}, first {_named(results[0], spelling.WIDTH - len(head) - 8)}"]
    return [head, *(f"{'':<8} {_named(result, spelling.WIDTH - 9)}" for result in results[:named])]


def _unclear(found: Outcome) -> list[str]:
    """Counts the undecided series, except absent ones, and gives the most frequent reason."""
    results = [r for r in found.results if r.verdict == "inconclusive" and not r.reason.startswith("absent")]
    if not results:
        return []
    reasons = collections.Counter(result.reason for result in results)
    (reason, most), *others = reasons.most_common()
    advice = next((result.advice for result in results if result.reason == reason and result.advice), "")
    count = f", {most} of them" if others else ""
    why, _, wanted = reason.partition("; ")
    lines = [f"unclear  {len(results)} of {len(found.results)} series{count}: {why}"]
    return lines + [f"{'':<8} {line}" for line in ["; ".join(filter(None, (wanted, advice)))] if line]


def answer(found: Outcome) -> list[str]:
    """Returns the answer in at most ten lines: verdict; series that are worse, better, gone or unclear; certainty."""
    of = {verdict: [r for r in found.results if r.verdict == verdict] for verdict in VERDICTS}
    every = len(found.results)
    gone = found.gone + [r.label for r in found.results if r.reason.startswith("absent")]
    alike = len(of["equivalent"]) + len(of["changed-but-small"])
    lines = [f"verdict: {found.verdict}", *_kind("worse", of["regressed"], every, _FIRST)]
    lines += [*_kind("better", of["improved"], every), *_kind("changed", of["changed"], every)]
    lines += [f"gone     {gone[0]}{f' and {len(gone) - 1} more' if len(gone) > 1 else ''}"] if gone else []
    lines += _unclear(found)
    margin = found.margin.partition(";")[0]
    has_line = len(margin) > _SHORT and len(lines) < _MOST - 1
    lines += [f"margin   {margin}"] if has_line else []
    lines += [f"alike    {alike} of {every} series, within the margin"] if alike and len(lines) < _MOST - 1 else []
    lines.append(
        f"sure     {spelling.counted(found.jobs[0], 'job')} against {found.jobs[1]}; "
        f"{'' if has_line else f'margin {margin}; '}"
        f"order of jobs: {_order_in_words(found.order).partition(' (')[0].partition(' with ')[0]}"
    )
    return [spelling.shorten(spelling.printable(line), spelling.WIDTH) for line in lines]


def text(found: Outcome, *, everything: bool = False, more: Sequence[str] = ()) -> str:
    """Returns the text for people: the answer, series (the largest change first), and other changes."""
    results = output.fold_each(_lines_of_all(found, everything), indent=" " * 13)
    rest = output.fold_each([*more, *_premises(found), *_summary(found)])
    return "\n".join([*answer(found), *([""] if results else []), *results, "", *rest])


def _premises(found: Outcome) -> list[str]:
    return [f"margin: {found.margin}", f"order within the sides: {_order_in_words(found.order)}"]


def _lines_of_all(found: Outcome, everything: bool) -> list[str]:
    lines = []
    for verdict in VERDICTS:
        results = [result for result in found.results if result.verdict == verdict]
        shown = len(results) if everything else _SHOWN.get(verdict, 0)
        for result in results[:shown]:
            lines += lines_of(result)
        if shown and len(results) > shown:
            lines.append(f"{verdict:<12} … {len(results) - shown} more series (--all)")
    return lines


def _summary(found: Outcome) -> list[str]:
    lines = []
    for name, (a, b) in found.differences.items():
        change = " → ".join(spelling.shorten(", ".join(map(spelling.printable, values)), 60) for values in (a, b))
        lines.append(f"also changed: {name}: {change}")
    lines += [f"note: {note}" for note in found.notes]
    counts = ", ".join(f"{found.count(v)} {v}" for v in VERDICTS if found.count(v))
    jobs = f"{spelling.counted(found.jobs[0], 'job')} against {found.jobs[1]}"
    lines.append(f"{jobs}, {len(found.results)} series: {counts or 'none that both sides have'}")
    return [*lines, *_more_in_words(found)]


COLUMNS = {
    "unit": "VARCHAR", "series": "VARCHAR", "verdict": "VARCHAR", "reason": "VARCHAR", "note": "VARCHAR",
    "ratio": "BOOLEAN", "change": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "p": "DOUBLE", "q": "DOUBLE",
    "margin": "DOUBLE", "value_a": "DOUBLE", "value_b": "DOUBLE", "jobs_a": "BIGINT", "jobs_b": "BIGINT",
    "compared": "VARCHAR", "units_a": "BIGINT", "units_b": "BIGINT", "strata": "BIGINT", "more": "BIGINT",
    "clusters": "VARCHAR", "clusters_a": "BIGINT", "clusters_b": "BIGINT", "part": "VARCHAR", "part_change": "DOUBLE",
    "advice": "VARCHAR",
}  # fmt: skip


def row_of(each: Result) -> dict[str, Any]:
    part = max(each.parts, key=lambda part: (part.sure, each.bears_out(part.own), abs(part.own)), default=None)
    shared = each.clusters
    return each.case | {
        "unit": each.unit, "series": each.label, "verdict": each.verdict, "reason": each.reason or None,
        "note": each.note or None, "ratio": each.ratio, "change": each.estimate, "low": each.low, "high": each.high,
        "p": each.p, "q": each.q, "margin": each.delta, "value_a": each.medians[0], "value_b": each.medians[1],
        "jobs_a": each.jobs[0], "jobs_b": each.jobs[1], "compared": each.unit_compared, "units_a": each.units[0],
        "units_b": each.units[1], "strata": each.strata, "more": each.more,
        "clusters": shared and shared.name, "clusters_a": shared and shared.sizes[0],
        "clusters_b": shared and shared.sizes[1], "part": part and part.where, "part_change": part and part.own,
        "advice": each.advice or None,
    }  # fmt: skip


def of_all(found: Outcome) -> list[str]:
    """Returns the lines about all series together."""
    return [f"verdict: {found.verdict}", *_premises(found), *_summary(found)]


def _more_in_words(found: Outcome) -> list[str]:
    lines = []
    for unit in dict.fromkeys(each.more_of for each in found.results if each.more):
        more = sorted(each.more for each in found.results if each.more and each.more_of == unit)
        if more:
            half = f", {more[len(more) // 2]} for half of them" if len(more) > 1 else ""
            lines.append(f"{run_more(more[-1], unit)} to decide all of {len(more)} series{half}")
    never = sum(bool(each.advice) and not each.more for each in found.results)
    if never:
        lines.append(f"no number of jobs that can be run decides {never} series; --all shows why")
    return lines


def as_json(found: Outcome) -> dict:
    """Returns the outcome in the form of JSON for programs; infinite and undefined numbers are null."""
    whole = dataclasses.asdict(found)
    names = ("margin", "order", "jobs", "differences", "notes", "results")
    return output.plain({"verdict": found.verdict} | {name: whole[name] for name in names})
