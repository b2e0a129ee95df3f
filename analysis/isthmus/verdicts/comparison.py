"""Comparison of all series of two sides of a store. docs/statistics.md explains the method."""

from __future__ import annotations

import math
import re

import numpy as np

from isthmus import Error, spelling
from isthmus.records import measurements, store
from isthmus.statistics import design, rank_test, series
from isthmus.verdicts import comparison_text, environment, judging, missing, unlike
from isthmus.verdicts.judging import CEILING, DELTA, FLOOR, Boots, Outcome, Result

WANTED = (
    *measurements.FINGERPRINT, *measurements.SERIES, "mode", "better", "median", "n_samples", "n_invalid", "node",
    "gpus", "job", "invalid", "error", "skipped", "verify", "system", "partition", "time", "dirty", "ecc_uncorrected",
    "xids",
)  # fmt: skip


def sides(a: str, b: str) -> str:
    """Returns SQL for the side of a row, given an SQL condition for each side."""
    return f"CASE WHEN {a} AND {b} THEN 'both' WHEN {a} THEN 'A' WHEN {b} THEN 'B' END"


def _missing(every: list[series.Series], names: dict[tuple, str]) -> list[Result]:
    """Returns a result for each series that only one side has, with a note if only its version or unit differs."""
    both = {missing.but_version(each) for each in every if each.jobs("A")} & {
        missing.but_version(e) for e in every if e.jobs("B")
    }
    results = []
    for each in every:
        sides = (each.jobs("A"), each.jobs("B"))
        if all(sides):
            continue
        note = "only A has it" if sides[0] else "only B has it"
        if missing.but_version(each) in both:
            note += "; the other side measured another version of the workload, or in another unit: not comparable"
        # A series that only B has is new rather than lost.
        lost = sides[0] or missing.but_version(each) in both
        verdict = "inconclusive" if lost else "new"
        reason = "absent" if lost else ""
        results.append(
            Result(names[each.key], verdict, unit=each.unit, jobs=sides, reason=reason, note=note, case=each.case)
        )
    return results


def _settle(result: Result, each: series.Series, sigma: float, lacking: str, metrics: int) -> None:
    """Sets the verdict of a compared series, and how many more units would decide it.

    `lacking` is the reason for an undecided verdict if B has the series in too few jobs, since nobody knows what the
    missing jobs would show.
    """
    result.verdict = judging.judge(result, each.better)
    if lacking and result.verdict != "regressed":
        result.verdict, result.reason = "inconclusive", lacking
    if result.verdict != "inconclusive" or result.barred or lacking or result.reason == result.guard != "":
        result.more = None
    else:
        judging.advise(result, sigma, metrics)


def _check_sides(opened: store.Store, side: str, asked: str) -> tuple[int, int]:
    """Counts the jobs of each side. Raises Error if a side has none, or a job is on both."""
    jobs = dict(
        opened.sql(
            f"SELECT side, count(DISTINCT job) FROM (SELECT *, {side} AS side FROM measurements) GROUP BY side"
        ).fetchall()
    )
    if jobs.get("both"):
        both = spelling.counted(jobs["both"], "job", "are")
        raise Error(f"{both} on both sides; make --from and --to exclude each other")
    for name, option in (("A", "--from"), ("B", "--to")):
        if not jobs.get(name):
            raise Error(f"no job is on side {name} ({option}); {_what_there_is(opened, asked)}")
    return jobs["A"], jobs["B"]


def check_some(opened: store.Store, condition: str, refusal: str, asked: str) -> None:
    """Raises Error if no record fulfils a condition; the error lists existing values of the requested fields."""
    if not opened.sql(f"SELECT 1 FROM measurements WHERE {condition} LIMIT 1").fetchall():
        raise Error(f"{refusal}; {_what_there_is(opened, asked)}")


def order_of(every: list[series.Series], plans: list[design.Design]) -> rank_test.Order:
    """Tests whether the order of units within a side matters, using all series that both sides have."""
    sequences = design.Sequences()
    for each, plan in zip(every, plans):
        ratio = series.has_ratios(each, ("A", "B"))
        case = tuple(value for name, value in zip(measurements.SERIES, each.key) if name not in ("metric", "unit"))
        sides = [(each.of(side), judging.logs_of(each.all(side), ratio)) for side in ("A", "B")]
        sequences.add(plan, case, sides)
    return sequences.order()


def _barred(order: rank_test.Order) -> str:
    if order.autocorrelated:
        trend = ", with a trend" if order.drifts else ""
        return f"autocorrelated: {order.autocorrelation:.2f} at lag 1 within the sides{trend}"
    return "drift: a trend within the sides" if order.drifts else ""


_GUARD = (
    "order not testable, and the metrics move together: only a change of "
    f"{judging.GUARD:.0f} standard errors exceeds what consecutive jobs may show; run both sides in turns"
)


def _margin_in_words(delta: float | None, noise: dict | None, shared: list[series.Series]) -> str:
    """Returns a description of the margin; the answer shows only the part before the semicolon."""
    if delta is not None:
        return f"±{delta:.1%}, from --delta"
    if noise is None:
        return f"±{FLOOR:.0%}; --noise or --delta give another"
    known = sum(each.key in noise for each in shared)
    others = f", and ±{FLOOR:.0%} for the {len(shared) - known} that it lacks" if known < len(shared) else ""
    return (
        f"{DELTA:g} sd between jobs, of --noise for {known} of {len(shared)} series; that is ±{FLOOR:.0%} to "
        f"±{CEILING:.0%}{others}"
    )


def _refuse_other_noise(noise: dict | None, shared: list[series.Series], names: dict[tuple, str]) -> None:
    """Raises Error if --noise covers none of the compared series and would therefore have no effect."""
    if not noise or not shared or any(each.key in noise for each in shared):
        return
    at = measurements.SERIES.index("version")
    any_version = {key[:at] + key[at + 1 :] for key in noise}
    known = next((each for each in shared if each.key[:at] + each.key[at + 1 :] in any_version), None)
    why = f" ({names[known.key]} only in another version of the workload)" if known else ""
    raise Error(
        f"--noise has none of the {len(shared)} compared series, such as {names[shared[0].key]}{why}; make it from "
        "earlier jobs of these cases with `isthmus noise`, or leave it out"
    )


def outcome(
    opened: store.Store, side: str, *, asked: str = "", delta: float | None = None, noise: dict | None = None,
    boots: dict[tuple, Boots] | None = None, randomised: bool = False, turns: dict[str, tuple] | None = None,
) -> Outcome:  # fmt: skip
    """Compares sides 'A' and 'B' of a store. Raises Error if a side has no jobs.

    `side` is SQL for a row's side. `noise` and `boots` come from an earlier history and are keyed by series.
    `randomised` means that jobs were assigned to sides at random; if this was done in pairs, `turns` contains the pair
    of each job.
    """
    jobs = _check_sides(opened, side, asked)
    every = series.load(opened, side)
    names = series.labels(every)
    shared = [each for each in every if each.jobs("A") and each.jobs("B")]
    _refuse_other_noise(noise, shared, names)
    margin = _margin_in_words(delta, noise, shared)
    plans = [design.of(each.of("A"), each.of("B")) for each in shared]
    order = None if randomised else order_of(shared, plans)
    compared, sigmas = [], []
    for each, plan in zip(shared, plans):
        known = (noise or {}).get(each.key)
        found = judging.compare(
            each, names[each.key], plan=plan, delta=delta, noise=known, boots=(boots or {}).get(each.key), turns=turns
        )
        found.barred = found.barred or (_barred(order) if order else "")
        found.guard = _GUARD if order and order.guarded else ""
        compared.append(found)
        sigmas.append(series.spread(each, ("A", "B")) if known is None else known)
    machine = environment.health(opened, side)
    lacking = missing.lacking(every, [each for each, _ in machine], missing.ran_on(opened, side))
    for each, floor in machine:
        names[each.key] = f"{each.workload} {each.metric}"
        if not each.jobs("B"):
            every.append(each)
        elif len({*each.all("A"), *each.all("B")}) > 1 or each.key in lacking.reasons:
            shared.append(each)
            plans.append(design.of(each.of("A"), each.of("B")))
            compared.append(judging.compare(each, names[each.key], plan=plans[-1], delta=floor, turns=turns))
            sigmas.append(math.nan)
    adjusted = rank_test.adjusted(np.array([result.p for result in compared]))
    for result, each, sigma, q in zip(compared, shared, sigmas, adjusted):
        result.q = float(q)
        _settle(result, each, sigma, lacking.reasons.get(each.key, ""), len(compared))
    for result, each, plan, sigma in zip(compared, shared, plans, sigmas):
        tail = unlike.tail(each, result, plan, sigma)
        result.parts = unlike.places(each, result, plan) + ([tail] if tail else [])
    unlike.settle(compared)
    differences, notes = environment.differences(opened, side, asked)
    notes = lacking.sentences + lacking.notes + notes
    results = compared + _missing(every, names)
    results.sort(key=comparison_text.by_weight)
    if lacking.single:
        notes.append(f"a single job of B lacks {lacking.single} series that it should have")
    unread = len(opened.skipped)
    if unread:
        files = spelling.counted(unread, "file")
        whole = " whole" if any(each.has_part for each in opened.skipped) else ""
        notes.insert(0, f"{files} could not be read{whole}, so it is unknown what the rest would have shown")
    lost = unread + len(lacking.places) + len(lacking.fewer)
    return Outcome(results, differences, notes, jobs, margin, order, lost, [*lacking.places, *lacking.fewer])


def _what_there_is(opened: store.Store, asked: str) -> str:
    """Returns a description of the requested fields' values, and of the range of times."""
    sentences = []
    for field in dict.fromkeys(re.findall(r"(?:^|,)\s*(\w+)=", asked)):
        values = [
            spelling.printable(row[0])
            for row in opened.sql(
                f"SELECT DISTINCT \"{field}\"::VARCHAR AS value FROM measurements WHERE value <> '' ORDER BY 1 LIMIT 9"
            ).fetchall()
        ]
        sentences.append(f"{field} is {', '.join(values) or 'in no record'}" + (" …" if len(values) == 9 else ""))
    [[first, last]] = opened.sql("SELECT min(time), max(time) FROM measurements").fetchall()
    return "; ".join([*sentences, f"the jobs are from {first} to {last}"])
