"""Judgement of a series (its interval, margin, verdict and what would decide it), and the outcome of all series."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist
from typing import Any

import numpy as np

from isthmus import exits, spelling
from isthmus.statistics import clusters, design, rank_test, series

FLOOR = 0.01  # smallest change of interest, as a share; smaller ones are of no interest even if they are certain
# Margin in standard deviations between jobs of an earlier A/A run; 8 jobs per side can show that a change is smaller.
DELTA = 2.25
GUARD = 8.0  # standard errors that a change needs if the order of jobs may matter but cannot be tested
GUARD_UNITS = 8  # minimum number of units per side in that case; with fewer, no change counts
TAILS = 2  # maximum degrees of freedom assumed for the spread between boots, since few boots do not show the tails
CEILING = 0.05  # largest margin, since a change of 5% is of interest even if a metric is noisy
# "changed" is a change beyond the margin of a metric without a better direction. "new" means that only B has it.
VERDICTS = ("regressed", "inconclusive", "improved", "changed", "changed-but-small", "new", "equivalent")


@dataclasses.dataclass
class Part:
    """Place, or group of jobs, that changed differently from the others."""

    where: str  # name such as "n3", "GPU-1 of n3", "3 of 8 jobs"
    estimate: float  # difference from the change of the others, in the unit of Result.estimate
    low: float | None  # None for jobs
    high: float | None
    p: float  # corrected for the number of places
    own: float = 0.0  # change of the part itself
    q: float = 1.0
    enough: bool = False  # true if the part is far enough beyond the margin to count if q is significant
    sure: bool = False


@dataclasses.dataclass
class Clusters:
    """Clusters of jobs (nights, restarts or rounds of all nodes): their numbers on each side, and their spread."""

    name: str
    sizes: tuple[int, int]
    spread: float  # standard deviation of their means


@dataclasses.dataclass
class Result:
    """Comparison of one series."""

    label: str
    verdict: str
    unit: str = ""
    better: str | None = None  # "higher" or "lower"; None if neither is better
    ratio: bool = True  # true if estimate and interval are factors - 1; false if they are differences in `unit`
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    q: float | None = None
    delta: float | None = None  # margin
    jobs: tuple[int, int] = (0, 0)
    unit_compared: str = "job"  # "job", "boot" or "node"
    units: tuple[int, int] = (0, 0)
    strata: int = 0
    paired: str = ""
    medians: tuple[float | None, float | None] = (None, None)
    barred: str = ""  # reason that rules out any verdict, regardless of the interval
    reason: str = ""  # reason for an inconclusive verdict
    more: int | None = None  # number of additional units per side that would decide the series
    more_of: str = ""  # unit that `more` counts
    advice: str = ""  # advice on what would decide the series, or that nothing would
    note: str = ""
    clusters: Clusters | None = None  # clusters of jobs that widened the interval or p
    t: float | None = None  # size of the change in standard errors of units or of clusters, whichever is smaller
    guard: str = ""  # reason why a change counts only from GUARD standard errors on
    parts: list[Part] = dataclasses.field(default_factory=list)
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # series.Series.case

    def bears_out(self, change: float) -> bool:
        """Returns whether a change has the verdict's direction; true for a verdict without one."""
        if self.better is None or self.verdict not in ("regressed", "improved"):
            return True
        return is_worse(change, self.better) == (self.verdict == "regressed")


def is_worse(change: float, better: str | None) -> bool:
    """Returns whether a change is for the worse; `better` is "higher", "lower" or None."""
    return better is not None and change != 0 and (change > 0) == (better == "lower")


@dataclasses.dataclass
class Outcome:
    """Outcome of a comparison, and other differences between the sides."""

    results: list[Result]
    differences: dict[str, tuple[list[str], list[str]]]
    notes: list[str]
    jobs: tuple[int, int]
    margin: str = ""  # description of the margin
    order: rank_test.Order | None = None  # None if the order was drawn at random and therefore cannot matter
    absent: int = 0  # total number of unreadable files, entries in `gone`, and missing jobs of the baseline
    gone: list[str] = dataclasses.field(default_factory=list)  # nodes, GPUs and jobs that B lacks, in words

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)

    @property
    def verdict(self) -> str:
        """Verdict over all results: regressions outweigh unknowns, and a comparison without series is inconclusive."""
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


# --- judging a series ---


@dataclasses.dataclass(frozen=True)
class Boots:
    """Spread between boots of a node, taken from an earlier history."""

    spread: float  # standard deviation between boots of the means of their jobs
    freedom: int


def margin(noise: float | None, floor: float = FLOOR) -> float:
    """Returns the largest change of no interest, given the noise of an earlier A/A run, never of the compared jobs."""
    wanted = DELTA * noise if noise is not None and math.isfinite(noise) else floor
    return min(max(floor, wanted), floor / FLOOR * CEILING)


def judge(result: Result, better: str | None) -> str:
    """Returns the verdict that follows from the interval, p and q; sets the reason if it is inconclusive.

    A change is reported when the interval is beyond the margin and p and q are significant. An interval within the
    margin is "changed-but-small" when p and q are significant and it excludes zero; otherwise it is "equivalent". A
    barred result is always inconclusive, and so is a guarded change with too small a `t` or too few units.
    """
    assert result.estimate is not None and result.low is not None and result.high is not None
    assert result.p is not None and result.q is not None and result.delta is not None
    low_limit = -result.delta / (1 + result.delta) if result.ratio else -result.delta
    sure = result.p <= rank_test.ALPHA and result.q <= rank_test.SESSION
    guarded = bool(result.guard) and ((result.t or 0) < GUARD or min(result.units) < GUARD_UNITS)
    if result.barred:
        result.reason = result.barred
        return "inconclusive"
    if result.low >= low_limit - 1e-12 and result.high <= result.delta + 1e-12:
        result.reason = ""
        return "changed-but-small" if sure and not result.low <= 0 <= result.high else "equivalent"
    beyond = result.low > result.delta or result.high < low_limit
    if sure and beyond and not guarded:
        result.reason = ""
        if better is None:
            return "changed"
        return "improved" if (result.estimate > 0) == (better == "higher") else "regressed"
    if guarded and sure and beyond:
        result.reason = result.guard
    result.reason = (
        result.reason or f"too few {result.clusters.name if result.clusters else result.unit_compared + 's'}"
    )
    return "inconclusive"


def logs_of(values: np.ndarray, ratio: bool) -> np.ndarray:
    return np.log(values) if ratio else values


def _widened(
    each: series.Series, values, known: Boots, apart: design.Design
) -> tuple[rank_test.Comparison, design.Design]:
    """Compares jobs as if boots did not differ, then widens the interval and p by the known spread between boots.

    `apart` is the design that treats boots as different.
    """
    plan = design.of(each.of("A"), each.of("B"), boots=False)
    found = rank_test.compare(plan.pairs(*values), 2 * rank_test.BOUND - 1)
    counts = [len({*series.components([job.boots for job in each.of(side)])}) for side in ("A", "B")]
    for level in apart.levels:
        if level.name == "restarts":  # a restart of all nodes at once counts once
            counts = list(level.sizes)
    error = max(known.spread * math.sqrt(sum(1 / count for count in counts)), 1e-12)
    freedom = min(known.freedom, TAILS)
    away = error * rank_test.student_quantile(1 - rank_test.BOUND, freedom)
    p = max(found.p, rank_test.student_p(found.estimate / error, freedom))
    return rank_test.Comparison(found.estimate, found.low - away, found.high + away, p), plan


def _paired(each: series.Series, values, turns: dict[str, tuple]) -> np.ndarray:
    """Returns B - A for each pair of turns whose two jobs are both present."""
    sides = []
    for side, those in zip(("A", "B"), values):
        sides.append({turns[job.name]: value for job, value in zip(each.of(side), those) if job.name in turns})
    return np.array([sides[1][pair] - sides[0][pair] for pair in sorted({*sides[0]} & {*sides[1]})])


def _reason(plan: design.Design) -> tuple[str, int | None]:
    """Returns why these few units cannot show any change, and how many more per side could; ("", None) if they can."""
    if rank_test.smallest_p(plan.sizes) <= rank_test.ALPHA:
        return "", None
    strata = len(plan.strata)
    wanted = rank_test.wanted_a_side(strata, rank_test.ALPHA)
    more = max(wanted * strata - min(plan.units), 1)
    where = f"{wanted} a side and node needed" if strata > 1 else f"{wanted} a side needed"
    if plan.unit == "node":
        return f"unlike nodes: A and B share no node; {where}, or jobs of both sides on the same nodes", more
    if plan.unit == "boot":
        return f"not identifiable: boots, {plan.units[0]} against {plan.units[1]}; {where}", more
    return f"too few jobs: {where}", more


def _held_to_clusters(
    plan: design.Design, values, found: rank_test.Comparison
) -> tuple[rank_test.Comparison, Clusters | None, str]:
    """Widens a comparison's interval and p to include those of clusters of jobs.

    Returns the comparison, the last level of clusters that widened it, and why it is not identifiable, if it is not.
    """
    together, widest, barred = np.concatenate(values), None, ""
    for level in plan.levels:
        of_level = clusters.compare(level, together)
        a, b = level.sizes
        if of_level is None:
            barred = f"not identifiable: {level.name} of all nodes, {a} against {b}; {clusters.WANTED} a side needed"
            continue
        away = float(of_level.away(rank_test.BOUND))
        low, high, p = float(of_level.estimate) - away, float(of_level.estimate) + away, float(of_level.p)
        if p >= found.p or low < found.low or high > found.high:
            spread = float(of_level.error) / math.sqrt(1 / len(level.weights) if level.mixed else 1 / a + 1 / b)
            widest = Clusters(level.name, (a, b), spread)
        found = rank_test.Comparison(found.estimate, min(found.low, low), max(found.high, high), max(found.p, p))
    return found, widest, barred


def _distance(plan: design.Design, values) -> float:
    """Returns the size of the change in standard errors: the minimum over units and all levels of clusters."""
    found = [float(rank_test.distance(plan.pairs(*values)))]
    for level in plan.levels:
        if (of_level := clusters.compare(level, np.concatenate(values))) is not None:
            found.append(float(rank_test.in_errors(of_level.estimate, of_level.error)))
    return min(found)


@dataclasses.dataclass
class _Found:
    """Comparison with the finest units that the records identify."""

    comparison: rank_test.Comparison
    plan: design.Design
    reason: str = ""
    more: int | None = None
    barred: str = ""
    clusters: Clusters | None = None
    pairs: int = 0


def _compared(each: series.Series, logs, plan: design.Design, boots: Boots | None, turns) -> _Found:
    pairs = _paired(each, logs, turns or {})
    if len(pairs):
        wanted = rank_test.fewest_pairs(rank_test.ALPHA)
        lacking = max(wanted - len(pairs), 0)
        comparison = rank_test.compare_pairs(pairs, 2 * rank_test.BOUND - 1)
        reason = f"too few pairs: {wanted} needed" if lacking else ""
        return _Found(comparison, plan, reason, lacking or None, pairs=len(pairs))
    reason, more = _reason(plan)
    comparison = rank_test.compare(plan.pairs(*logs), 2 * rank_test.BOUND - 1)
    comparison, widest, barred = _held_to_clusters(plan, logs, comparison)
    if plan.unit == "boot" and (reason or barred) and boots is not None:
        comparison, as_jobs = _widened(each, logs, boots, plan)
        return _Found(comparison, as_jobs, "not identifiable: boots, given how much they are known to differ")
    if plan.unnamed:
        every = each.jobs("A") + each.jobs("B")
        barred = f"not identifiable: boots, which {plan.unnamed} of {every} jobs do not name"
    elif plan.other_gpus:
        barred = "unlike GPUs: A and B ran on different GPUs of the same nodes; run both on the same, or in turns"
    return _Found(comparison, plan, reason, more, "" if reason and not plan.unnamed else barred, widest)


def compare(
    each: series.Series, label: str, *, plan: design.Design | None = None, delta: float | None = None,
    noise: float | None = None, boots: Boots | None = None, floor: float = FLOOR,
    turns: dict[str, tuple] | None = None,
) -> Result:  # fmt: skip
    """Compares sides A and B of a series; q and the verdict are set later, when all series are known.

    `delta` is the margin. Without it, the margin comes from `noise`, the standard deviation between jobs of an earlier
    history. `turns` contains the pair of each job if the jobs of pairs were assigned to sides at random: see _paired().
    """
    values = [each.all(side) for side in ("A", "B")]
    ratio = series.has_ratios(each, ("A", "B"))
    size = 1.0 if ratio else float(np.max(np.abs(values[0])))
    logs = [logs_of(side, ratio) for side in values]
    found = _compared(each, logs, plan or design.of(each.of("A"), each.of("B")), boots, turns)
    scale = math.expm1 if ratio else float
    comparison, plan, pairs = found.comparison, found.plan, found.pairs
    return Result(
        label=label,
        verdict="",
        unit=each.unit,
        better=each.better,
        ratio=ratio,
        estimate=scale(comparison.estimate),
        low=scale(comparison.low) if math.isfinite(comparison.low) else comparison.low,
        high=scale(comparison.high) if math.isfinite(comparison.high) else comparison.high,
        p=comparison.p,
        delta=margin(noise, floor * size) if delta is None else delta,
        jobs=(pairs, pairs) if pairs else plan.jobs,
        unit_compared="pair" if pairs else plan.unit,
        units=(pairs, pairs) if pairs else plan.units,
        strata=1 if pairs else len(plan.strata),
        paired=plan.paired,
        medians=(float(np.median(values[0])), float(np.median(values[1]))),
        barred=found.barred,
        reason=found.reason,
        more=found.more,
        clusters=found.clusters,
        t=_distance(plan, logs),
        note=_left_out(each, plan, pairs),
        case=each.case,
    )


def _left_out(each: series.Series, plan: design.Design, pairs: int) -> str:
    left = each.jobs("A") + each.jobs("B") - (2 * pairs or sum(plan.jobs))
    if plan.unit == "node":
        return "A and B share no node: nodes are compared, not jobs"
    return f"{left} jobs ran on nodes or GPUs that only one side has" if left else ""


# --- what would decide ---


def run_more(number: int, unit: str) -> str:
    """Returns advice to run `number` more units, in terms of jobs that a person can run."""
    if unit == "pair":
        return f"run {spelling.counted(number, 'more pair')} of jobs, with one job of each side per pair"
    return f"run {spelling.counted(number, f'more {unit}')} a side" + (" and jobs in each" if unit != "job" else "")


def advise(result: Result, sigma: float, metrics: int) -> None:
    """Sets the advice on how many more units per side would decide a series, or that no number of units would.

    `sigma` is the standard deviation between jobs, of logarithms if the result is a ratio.
    """
    assert result.delta is not None and result.estimate is not None
    result.more_of = result.unit_compared
    if result.more is None:
        step, margin = abs(result.estimate), result.delta
        if result.ratio:
            step, margin = abs(math.log1p(result.estimate)), math.log1p(result.delta)
        if result.clusters:
            sigma, result.more_of = result.clusters.spread, result.clusters.name[:-1]
        if not (sigma > 0 and math.isfinite(sigma) and margin > 0):
            return
        needed = _needed(step, margin, sigma, result, metrics)
        if needed is None:
            result.advice = _no_number(result, sigma)
            return
        result.more = max(needed - min(result.clusters.sizes if result.clusters else result.units), 1)
    where = f", on the {result.strata} {result.paired}s together" if result.strata > 1 and not result.clusters else ""
    result.advice = run_more(result.more, result.more_of) + where


def _needed(step: float, margin: float, sigma: float, result: Result, metrics: int) -> int | None:
    """Returns the number of units per side, in all strata, that would confirm the change or show it to be small enough.

    Returns None if more than rank_test.MOST are needed.
    """
    beyond = step > 1.1 * margin
    among = metrics if (result.q or 0) > rank_test.SESSION else 1
    quantile = NormalDist().inv_cdf
    if result.clusters:
        size = clusters.needed(step if beyond else margin - step, sigma, margin if beyond else 0.0,
                               rank_test.threshold(among) if beyond else 1.0)  # fmt: skip
    elif beyond:
        strata = max(result.strata, 1)
        size = rank_test.jobs_needed(step / sigma, strata=strata, metrics=among, margin=margin / sigma) * strata
    else:
        room = max(margin - step, 1e-9) / sigma
        size = math.ceil(2 * math.pi / 3 * ((quantile(rank_test.BOUND) + quantile(rank_test.POWER)) / room) ** 2)
    return size if size < rank_test.MOST else None


def _no_number(result: Result, sigma: float) -> str:
    """Returns a sentence that explains why no feasible number of jobs decides a series."""
    assert result.estimate is not None and result.delta is not None
    unit = f"{result.more_of}s"
    if abs(abs(result.estimate) - result.delta) <= 0.2 * result.delta:
        return f"no number of {unit} decides it: the observed change is close to the margin; choose another --delta"
    said = f"{sigma:.1%}" if result.ratio else f"{sigma:.2g} {result.unit}".rstrip()
    return (
        f"more than {rank_test.MOST} {unit} a side would be needed: they differ by {said}, much more than the margin; "
        "make them steadier, or choose a larger --delta"
    )
