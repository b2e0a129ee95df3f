"""One series compared: its interval, its margin, its verdict and what more would decide; then all of them as one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from isthmus import exits
from isthmus.statistics import design, rank_test, series

FLOOR = 0.01  # a smaller change than 1% is of no interest, however sure
DELTA = 2.25  # standard deviations between jobs of an earlier A/A run: 8 jobs a side show that a change is smaller
TAILS = 2  # degrees of freedom, at most, of the tails that boots are taken to have: few boots do not show theirs
CEILING = 0.05  # a change of 5% is of interest, however noisy the metric
# "changed" is beyond the margin, of a metric of which neither direction is better; "new" is no verdict: only B has it.
VERDICTS = ("regressed", "inconclusive", "improved", "changed", "changed-but-small", "new", "equivalent")


@dataclasses.dataclass
class Result:
    """What one series came to."""

    label: str
    verdict: str
    unit: str = ""
    ratio: bool = True  # estimate and interval are factors - 1; else differences in `unit`
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    q: float | None = None
    delta: float | None = None  # the margin
    jobs: tuple[int, int] = (0, 0)
    unit_compared: str = "job"  # or boot, or node
    units: tuple[int, int] = (0, 0)
    strata: int = 0
    paired: str = ""
    medians: tuple[float | None, float | None] = (None, None)
    barred: str = ""  # why there can be no verdict whatever the interval
    reason: str = ""  # of inconclusive
    more: int | None = None  # units a side
    note: str = ""
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # series.Series.case


@dataclasses.dataclass
class Outcome:
    """What a comparison came to, and what else changed."""

    results: list[Result]
    differences: dict[str, tuple[list[str], list[str]]]
    notes: list[str]
    jobs: tuple[int, int]
    margin: str = ""  # in words
    order: rank_test.Order | None = None  # None where the order was drawn at random, so that it cannot matter
    absent: int = 0  # files that could not be read, and jobs of a baseline that are gone

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)

    @property
    def verdict(self) -> str:
        """All results as one; what was found weighs more than what is not known. Nothing compared is nothing known."""
        for verdict in ("regressed", "inconclusive", "changed", "improved", "changed-but-small"):
            if self.count(verdict):
                return "inconclusive" if self.absent and verdict != "regressed" else verdict
        return "inconclusive" if self.absent or not self.compared else "equivalent"

    @property
    def compared(self) -> bool:
        return self.count("new") < len(self.results)

    @property
    def exit_code(self) -> int:
        if self.count("regressed"):
            return exits.FOUND
        return exits.UNDECIDED if self.verdict == "inconclusive" else exits.PASSED


# --- one series ---


@dataclasses.dataclass(frozen=True)
class Boots:
    """How far boots of a node differ, from an earlier history."""

    spread: float  # standard deviation of the means of a boot's jobs
    freedom: int


def margin(noise: float | None, floor: float = FLOOR) -> float:
    """What change is of no interest: from the noise of an earlier A/A run where there is one, never of these jobs."""
    wanted = DELTA * noise if noise is not None and math.isfinite(noise) else floor
    return min(max(floor, wanted), floor / FLOOR * CEILING)


def judge(result: Result, better: str | None) -> str:
    """The verdict from the interval, p and q; sets the reason of an inconclusive one.

    A change is reported when the interval lies beyond the margin and p and q are sure of it. One within the margin is
    reported as small when p and q are sure of it and the interval excludes zero; else it is equivalent.
    """
    assert result.estimate is not None and result.low is not None and result.high is not None
    assert result.p is not None and result.q is not None and result.delta is not None
    low_limit = -result.delta / (1 + result.delta) if result.ratio else -result.delta
    sure = result.p <= rank_test.ALPHA and result.q <= rank_test.SESSION
    if result.barred:
        result.reason = result.barred
        return "inconclusive"
    if result.low >= low_limit - 1e-12 and result.high <= result.delta + 1e-12:
        result.reason = ""
        return "changed-but-small" if sure and not result.low <= 0 <= result.high else "equivalent"
    if sure and (result.low > result.delta or result.high < low_limit):
        result.reason = ""
        if better is None:
            return "changed"
        return "improved" if (result.estimate > 0) == (better == "higher") else "regressed"
    result.reason = result.reason or f"too few {result.unit_compared}s"
    return "inconclusive"


def logs_of(values: np.ndarray, ratio: bool) -> np.ndarray:
    return np.log(values) if ratio else values


def _widened(each: series.Series, values, known: Boots) -> tuple[rank_test.Comparison, design.Design]:
    """Jobs compared as if boots did not differ, then the interval and p widened by how far boots are known to."""
    plan = design.of(each.of("A"), each.of("B"), boots=False)
    found = rank_test.compare(plan.pairs(*values), 2 * rank_test.BOUND - 1)
    counts = [len({*series.components([job.boots for job in each.of(side)])}) for side in ("A", "B")]
    error = max(known.spread * math.sqrt(sum(1 / count for count in counts)), 1e-12)
    freedom = min(known.freedom, TAILS)
    away = error * rank_test.student_quantile(1 - rank_test.BOUND, freedom)
    p = max(found.p, rank_test.student_p(found.estimate / error, freedom))
    return rank_test.Comparison(found.estimate, found.low - away, found.high + away, p), plan


def _paired(each: series.Series, values, turns: dict[str, tuple]) -> np.ndarray:
    """B less A of each pair of turns of which both jobs are there."""
    sides = []
    for side, those in zip(("A", "B"), values):
        sides.append({turns[job.name]: value for job, value in zip(each.of(side), those) if job.name in turns})
    return np.array([sides[1][pair] - sides[0][pair] for pair in sorted({*sides[0]} & {*sides[1]})])


def _reason(plan: design.Design) -> tuple[str, int | None]:
    """Why units as few as these can show no change at all, and how many more a side could; or nothing."""
    if rank_test.smallest_p(plan.sizes) <= rank_test.ALPHA:
        return "", None
    strata = len(plan.strata)
    wanted = rank_test.wanted_a_side(strata, rank_test.ALPHA)
    more = max(wanted * strata - min(plan.units), 1)
    where = f"{wanted} a side and node wanted" if strata > 1 else f"{wanted} a side wanted"
    if plan.unit == "node":
        return f"unlike nodes: A and B share none; {where}, or jobs of both sides on the same", more
    if plan.unit == "boot":
        return f"not identifiable: boots, {plan.units[0]} against {plan.units[1]}; {where}", more
    return f"too few jobs: {where}", more


def compare(
    each: series.Series, label: str, *, delta: float | None = None, noise: float | None = None,
    boots: Boots | None = None, floor: float = FLOOR, turns: dict[str, tuple] | None = None,
) -> Result:  # fmt: skip
    """Compares sides A and B of a series; q, and with it the verdict, wait for the other series.

    `delta` is the margin; without it `noise`, the standard deviation between jobs of an earlier history, gives it.
    `turns` names the pair of each job, where chance drew which job of a pair is on which side: see _paired().
    """
    values = [each.all(side) for side in ("A", "B")]
    ratio = series.has_ratios(each, ("A", "B"))
    size = 1.0 if ratio else float(np.max(np.abs(values[0])))
    logs = [logs_of(side, ratio) for side in values]
    plan = design.of(each.of("A"), each.of("B"))
    reason, more = _reason(plan)
    if reason and plan.unit == "boot" and boots is not None:
        found, plan = _widened(each, logs, boots)
        reason, more = "not identifiable: boots, for how far they are known to differ", None
    else:
        found = rank_test.compare(plan.pairs(*logs), 2 * rank_test.BOUND - 1)
    pairs = _paired(each, logs, turns or {})
    if len(pairs):
        found = rank_test.compare_pairs(pairs, 2 * rank_test.BOUND - 1)
        wanted = rank_test.fewest_pairs(rank_test.ALPHA) - len(pairs)
        reason, more = (f"too few pairs: {wanted + len(pairs)} wanted", wanted) if wanted > 0 else ("", None)
    scale = math.expm1 if ratio else float
    result = Result(
        label=label,
        verdict="",
        unit=each.unit,
        ratio=ratio,
        estimate=scale(found.estimate),
        low=scale(found.low) if math.isfinite(found.low) else found.low,
        high=scale(found.high) if math.isfinite(found.high) else found.high,
        p=found.p,
        delta=margin(noise, floor * size) if delta is None else delta,
        jobs=plan.jobs,
        unit_compared=plan.unit,
        units=plan.units,
        strata=len(plan.strata),
        paired=plan.paired,
        medians=(float(np.median(values[0])), float(np.median(values[1]))),
        reason=reason,
        more=more,
        case=each.case,
    )
    if len(pairs):
        result.unit_compared, result.units, result.strata = "pair", (len(pairs), len(pairs)), 1
        result.jobs = result.units
    elif not plan.boots_known:
        result.barred = "not identifiable: boots, the records do not name them"
    elif plan.other_gpus:
        result.barred = "unlike GPUs: A and B ran on others of the same nodes; run both on the same, or in turns"
    left = each.jobs("A") + each.jobs("B") - sum(result.jobs)
    if plan.unit == "node":
        result.note = "A and B share no node: nodes are compared, not jobs"
    elif left:
        result.note = f"{left} jobs ran on nodes or GPUs that only one side has"
    return result


def more_of(result: Result, sigma: float, metrics: int) -> int:
    """Units a side that are still to be run before a step of the margin is found or excluded."""
    step = DELTA
    if sigma > 0 and math.isfinite(sigma) and result.delta:
        step = (math.log1p(result.delta) if result.ratio else result.delta) / sigma
    strata = max(result.strata, 1)
    return max(rank_test.jobs_needed(step, strata=strata, metrics=metrics) * strata - min(result.units), 2)
