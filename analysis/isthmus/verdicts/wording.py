"""What a comparison came to, in words and as rows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from isthmus import spelling, units
from isthmus.statistics import rank_test
from isthmus.tables import output
from isthmus.verdicts.judging import VERDICTS, Outcome, Result

_SHOWN = {"regressed": 30, "inconclusive": 5, "improved": 10, "changed": 5, "changed-but-small": 3}


def _figure(value: float | None, result: Result) -> str:
    if value is None:
        return "-"
    if result.ratio:
        return f"{value:+.1%}" if math.isfinite(value) else ("-∞" if value < 0 else "∞")
    return f"{value:+.3g}"


def run_more(number: int, unit: str) -> str:
    """What to run so many more of, such that it can be counted and run."""
    if unit == "pair":
        return f"run {spelling.counted(number, 'pair')} of jobs more, one job of each side in a pair"
    return f"run {spelling.counted(number, unit)} more a side" + (" and jobs in each" if unit != "job" else "")


def lines_of(result: Result) -> list[str]:
    """What a person reads of a series: the verdict, its figures, then the reason or a note."""
    head, indent = f"{result.verdict:<12} {result.label}", " " * 12
    if result.estimate is None:
        return [head, f"{indent} {result.note}"]
    a, b = (units.quantity(m, result.unit) for m in result.medians)
    figures = (
        f"{_figure(result.estimate, result)} [{_figure(result.low, result)}, {_figure(result.high, result)}]  "
        f"±{_figure(result.delta, result).lstrip('+')}  {a} → {b}  q={result.q:.2g}  "
        f"{result.jobs[0]}+{result.jobs[1]} jobs"
    )
    if result.unit_compared != "job":
        figures += f" as {result.units[0]}+{result.units[1]} {result.unit_compared}s"
    if result.strata > 1:
        figures += f" in {result.strata} pairs of {result.paired}s"
    lines = [head, f"{indent} {figures}"]
    if result.reason:
        more = f"; {run_more(result.more, result.unit_compared)}" if result.more else ""
        if more and result.strata > 1:
            more += f", on the {result.strata} {result.paired}s together"
        lines.append(f"{indent} {result.reason}{more}")
    return lines + ([f"{indent} {result.note}"] if result.note else [])


def _order_in_words(order: rank_test.Order | None) -> str:
    if order is None:
        return "drawn at random, so it does not matter"
    what = f"{spelling.counted(order.units, 'job')} of {spelling.counted(order.metrics, 'metric')}"
    figures = f"lag-1 autocorrelation {order.autocorrelation:.2f}, p = {order.p:.2g}; trend, p = {order.trend_p:.2g}"
    if order.autocorrelated or order.drifts:
        return f"it matters ({figures}; {what}): nothing can be decided; run both sides in turns"
    if not order.testable:
        return f"not testable with {what}"
    return f"does not matter ({figures}; {what})"


def text(found: Outcome, *, everything: bool = False) -> str:
    """What a person reads: the margin, what was found first, then what else changed, then one verdict."""
    results = output.fold_each(_lines_of_all(found, everything), indent=" " * 13)
    return "\n".join([*output.fold_each(_premises(found)), *results, *output.fold_each(_summary(found))])


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
        lines.append(f"changed too: {name}: {change}")
    lines += [f"note: {note}" for note in found.notes]
    counts = ", ".join(f"{found.count(v)} {v}" for v in VERDICTS if found.count(v))
    jobs = f"{spelling.counted(found.jobs[0], 'job')} against {found.jobs[1]}"
    lines.append(f"{jobs}, {len(found.results)} series: {counts or 'none that both sides have'}")
    return [*lines, *_more_in_words(found), f"verdict: {found.verdict}"]


COLUMNS = {
    "unit": "VARCHAR", "series": "VARCHAR", "verdict": "VARCHAR", "reason": "VARCHAR", "note": "VARCHAR",
    "ratio": "BOOLEAN", "change": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "p": "DOUBLE", "q": "DOUBLE",
    "margin": "DOUBLE", "value_a": "DOUBLE", "value_b": "DOUBLE", "jobs_a": "BIGINT", "jobs_b": "BIGINT",
    "compared": "VARCHAR", "units_a": "BIGINT", "units_b": "BIGINT", "strata": "BIGINT", "more": "BIGINT",
}  # fmt: skip


def row_of(each: Result) -> dict[str, Any]:
    return each.case | {
        "unit": each.unit, "series": each.label, "verdict": each.verdict, "reason": each.reason or None,
        "note": each.note or None, "ratio": each.ratio, "change": each.estimate, "low": each.low, "high": each.high,
        "p": each.p, "q": each.q, "margin": each.delta, "value_a": each.medians[0], "value_b": each.medians[1],
        "jobs_a": each.jobs[0], "jobs_b": each.jobs[1], "compared": each.unit_compared, "units_a": each.units[0],
        "units_b": each.units[1], "strata": each.strata, "more": each.more,
    }  # fmt: skip


def of_all(found: Outcome) -> list[str]:
    """Lines on what is of all series and not of one."""
    return [*_premises(found), *_summary(found)]


def _more_in_words(found: Outcome) -> list[str]:
    lines = []
    for unit in ("job", "pair", "boot", "node"):
        more = sorted(each.more for each in found.results if each.more and each.unit_compared == unit)
        if more:
            half = f", {more[len(more) // 2]} for half of them" if len(more) > 1 else ""
            lines.append(f"{run_more(more[-1], unit)} to decide all of {len(more)} series{half}")
    return lines


def as_json(found: Outcome) -> dict:
    """The outcome for machines; infinite and undefined numbers are null."""
    whole = dataclasses.asdict(found)
    names = ("margin", "order", "jobs", "differences", "notes", "results")
    return output.plain({"verdict": found.verdict} | {name: whole[name] for name in names})
