"""What a change did: a driver, a kernel, any part of the fingerprint, or time.

Compares jobs of a boot, else boots of a node, metric by metric. The margin, the change that is of no interest, is fixed
beforehand. Each metric ends as regressed or improved (the whole interval lies beyond the margin), equivalent or
changed-but-small (within it), or inconclusive, with the reason and what would decide. docs/statistics.md explains it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
from typing import Any

import numpy as np

from isthmus import Error, exits, spelling, units
from isthmus.records import measurements, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import design, rank_test, series
from isthmus.tables import output

FLOOR = 0.01  # a smaller change than 1% is of no interest, however sure
DELTA = 2.25  # standard deviations between jobs of an earlier A/A run: 8 jobs a side show that a change is smaller
TAILS = 2  # degrees of freedom, at most, of the tails that boots are taken to have: few boots do not show theirs
CEILING = 0.05  # a change of 5% is of interest, however noisy the metric
# "changed" is beyond the margin, of a metric of which neither direction is better; "new" is no verdict: only B has it.
VERDICTS = ("regressed", "inconclusive", "improved", "changed", "changed-but-small", "new", "equivalent")
WANTED = (
    *measurements.FINGERPRINT, *measurements.SERIES, "mode", "better", "median", "n_samples", "n_invalid", "node",
    "gpus", "job", "spoilt", "error", "skipped", "verify", "system", "partition", "time", "dirty", "ecc_uncorrected",
    "xids",
)  # fmt: skip
# What the machine was like during a job, compared as metrics: which way is better, what difference is of no interest.
_HEALTH = {
    "invalid_samples": ("lower", 0.01, "coalesce(sum(CASE WHEN spoilt THEN n_samples ELSE n_invalid END)"
                        " / nullif(sum(n_samples), 0), 0)"),
    "failed_cases": ("lower", 0.01, "count(*) FILTER (metric_index = 0 AND (error IS NOT NULL OR verify = 'fail'))"
                     " / nullif(count(*) FILTER (metric_index = 0 AND skipped IS NULL), 0)"),
    "skipped_cases": ("lower", 0.01, "avg((skipped IS NOT NULL)::INTEGER) FILTER (metric_index = 0)"),
    "pcie_generation": ("higher", 0, "min(pcie_gen)"),
    "pcie_lanes": ("higher", 0, "min(pcie_width)"),
    "gpu_links": ("higher", 0, "min(links)"),
    "ecc_uncorrected": ("lower", 0, "max(ecc_uncorrected)"),
    "xid_errors": ("lower", 0, "max(xids)"),
}  # fmt: skip


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
    absent: int = 0  # files that could not be read

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)

    @property
    def verdict(self) -> str:
        """All results as one; what was found weighs more than what is not known."""
        for verdict in ("regressed", "inconclusive", "changed", "improved", "changed-but-small"):
            if self.count(verdict):
                return "inconclusive" if self.absent and verdict != "regressed" else verdict
        return "inconclusive" if self.absent else "equivalent"

    @property
    def exit_code(self) -> int:
        if self.count("regressed"):
            return exits.FOUND
        return exits.UNDECIDED if self.count("inconclusive") or self.absent else exits.PASSED


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

    A change is told when the interval lies beyond the margin and p and q are sure of it. One within the margin is told
    as small when p and q are sure of it and the interval excludes zero; else it is equivalent.
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


def _logs(values: np.ndarray, ratio: bool) -> np.ndarray:
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
        return f"not identifiable: boots, {_of_sides(plan)}; {where}", more
    return f"too few jobs: {where}", more


def _of_sides(plan: design.Design) -> str:
    return "{} against {}".format(*plan.units)


def compare(
    each: series.Series, label: str, *, delta: float | None = None, noise: float | None = None,
    boots: Boots | None = None, floor: float = FLOOR, turns: dict[str, tuple] | None = None,
) -> Result:  # fmt: skip
    """Compares sides A and B of a series; q, and with it the verdict, wait for the other series.

    `delta` is the margin; without it `noise`, the standard deviation between jobs of an earlier history, gives it.
    `turns` names the pair of each job, where chance drew which job of a pair is on which side: see _paired().
    """
    values = [each.all(side) for side in ("A", "B")]
    ratio = all((side > 0).all() for side in values)
    size = 1.0 if ratio else float(np.max(np.abs(values[0])))
    logs = [_logs(side, ratio) for side in values]
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


def _more(result: Result, sigma: float, metrics: int) -> int:
    """Units a side that are still to be run before a step of the margin is found or excluded."""
    step = DELTA
    if sigma > 0 and math.isfinite(sigma) and result.delta:
        step = (math.log1p(result.delta) if result.ratio else result.delta) / sigma
    strata = max(result.strata, 1)
    return max(rank_test.jobs_needed(step, strata=strata, metrics=metrics) * strata - min(result.units), 2)


# --- all series ---


def _missing(every: list[series.Series], names: dict[tuple, str]) -> list[Result]:
    """Series that only one side has; another version or unit of the other's is told as such."""
    loose = [measurements.SERIES.index(name) for name in ("version", "unit")]

    def without(key):
        return tuple(value for i, value in enumerate(key) if i not in loose)

    both = {without(each.key) for each in every if each.jobs("A")} & {without(e.key) for e in every if e.jobs("B")}
    results = []
    for each in every:
        sides = (each.jobs("A"), each.jobs("B"))
        if all(sides):
            continue
        note = "only A has it" if sides[0] else "only B has it"
        if without(each.key) in both:
            note += "; the other side measured another version of the workload, or in another unit: not comparable"
        # What is new in B is no loss.
        lost = sides[0] or without(each.key) in both
        verdict = "inconclusive" if lost else "new"
        reason = "absent" if lost else ""
        results.append(
            Result(names[each.key], verdict, unit=each.unit, jobs=sides, reason=reason, note=note, case=each.case)
        )
    return results


def _health(opened: store.Store, side: str) -> list[tuple[series.Series, float]]:
    columns = ", ".join(f"{expression} AS {name}" for name, (_, _, expression) in _HEALTH.items())
    rows = opened.rows(
        f"SELECT side, node, gpus, job, any_value(boot) AS boot, min(time) AS time, {columns} "
        f"FROM (SELECT *, {side} AS side FROM measurements) "
        "WHERE side IS NOT NULL GROUP BY side, node, gpus, job ORDER BY ALL"
    )
    result = []
    for name, (better, floor, _) in _HEALTH.items():
        key = tuple({"workload": "machine", "metric": name, "unit": "1"}.get(column) for column in measurements.SERIES)
        places: dict[str, list[tuple]] = {}
        for row in rows:
            if row[name] is not None:
                place = (row["job"], row["node"], row["gpus"], row["boot"], row["time"], row[name])
                places.setdefault(row["side"], []).append(place)
        found = {where: series.jobs_of(of_side) for where, of_side in places.items()}
        if found.get("A") and found.get("B") and len({job.value for jobs in found.values() for job in jobs}) > 1:
            result.append((series.Series(key, better, None, found), floor))
    return result


def _differences(opened: store.Store, side: str, asked: str) -> tuple[dict, list[str]]:
    """Fields of the fingerprint in which the sides differ, but for those that were asked for; and a reboot."""
    asked_fields = set(re.findall(r"(?:^|,)\s*([\w.]+)=", asked))
    with_side = f"(SELECT *, {side} AS side FROM measurements) WHERE side IS NOT NULL"
    found = _of_fields(opened, with_side, asked_fields)
    for column in measurements.OBJECTS:
        found |= _of_settings(opened, with_side, column, asked_fields)
    return found, _reboots(opened, with_side)


def _of_fields(opened: store.Store, with_side: str, asked_fields: set[str]) -> dict[str, tuple]:
    """Values of each side, by field that differs and was not asked for."""
    fields = [name for name in measurements.FINGERPRINT if name not in ("boot", *measurements.OBJECTS)]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in fields)
    by_side = {row["side"]: row for row in opened.rows(f"SELECT side, {lists} FROM {with_side} GROUP BY side")}
    found = {}
    for name in fields:
        values = [[value for value in by_side[s][name] or [] if value not in (None, "")] for s in ("A", "B")]
        if name not in asked_fields and values[0] != values[1] and all(values):
            found[name] = tuple(values)
    return found


def _of_settings(opened: store.Store, with_side: str, column: str, asked_fields: set[str]) -> dict[str, tuple]:
    """The same for a field that is an object of settings, one of measurements.OBJECTS."""
    objects: dict[str, list[dict]] = {"A": [], "B": []}
    for where, text in opened.sql(f"SELECT DISTINCT side, {column} FROM {with_side}").fetchall():
        if text is not None:
            objects[where].append(json.loads(text) or {})
    if not (objects["A"] and objects["B"]):  # one side does not say
        return {}
    # A variable that is not set is a setting, too; a parameter that a module lacks says nothing.
    silent = {None} if column == "uvm" else set()
    names = {name for those in objects.values() for each in those for name in each}
    found = {}
    for name in sorted(names - {each.removeprefix(f"{column}.") for each in asked_fields}):
        told = [{each.get(name) for each in objects[s]} - silent for s in ("A", "B")]
        if told[0] != told[1] and all(told):
            found[f"{column}.{name}"] = tuple(
                sorted("unset" if value is None else str(value) for value in each) for each in told
            )
    return found


def _reboots(opened: store.Store, with_side: str) -> list[str]:
    """A sentence where nodes were started anew between A and B and neither side shows what that alone does."""
    boots: dict[str, dict[str, set[str]]] = {}
    for where, node, boot in opened.sql(
        f"SELECT DISTINCT side, node, boot FROM {with_side} AND boot IS NOT NULL"
    ).fetchall():
        boots.setdefault(node, {}).setdefault(where, set()).add(boot)
    shared = {node: sides for node, sides in boots.items() if len(sides) == 2}
    if not shared:
        return ["the records do not say when a node was started: a reboot between A and B may be part of the change"]
    anew = [node for node, sides in sorted(shared.items()) if not sides["A"] & sides["B"]]
    controlled = [node for node in anew if len(shared[node]["A"]) > 1]
    if not anew or len(controlled) == len(anew):
        return []
    names = ", ".join(map(spelling.printable, anew[:5])) + (" …" if len(anew) > 5 else "")
    return [
        f"{len(anew)} nodes were started anew between A and B ({names}), which may explain a change by itself; "
        "a control is to measure A, start the nodes anew, measure A again"
    ]


def _check_sides(opened: store.Store, side: str, asked: str) -> tuple[int, int]:
    """Jobs of each side. Raises Error where a side has none, or a job is on both."""
    jobs = dict(
        opened.sql(
            f"SELECT side, count(DISTINCT job) FROM (SELECT *, {side} AS side FROM measurements) GROUP BY side"
        ).fetchall()
    )
    if jobs.get("both"):
        raise Error(f"{jobs['both']} jobs are on both sides; make --from and --to exclude each other")
    for name, option in (("A", "--from"), ("B", "--to")):
        if not jobs.get(name):
            raise Error(f"no job is on side {name} ({option}); {_what_there_is(opened, asked)}")
    return jobs["A"], jobs["B"]


def order_of(every: list[series.Series]) -> rank_test.Order:
    """Whether the order of units within a side matters, over all series that both sides have."""
    sequences = design.Sequences()
    for each in every:
        plan = design.of(each.of("A"), each.of("B"))
        values = [each.all(side) for side in ("A", "B")]
        ratio = all((side > 0).all() for side in values)
        for side, of_side in zip(("A", "B"), values):
            sequences.add(plan, side, each.of(side), _logs(of_side, ratio))
    return rank_test.order(sequences.matrices())


def _barred(order: rank_test.Order) -> str:
    if order.autocorrelated:
        trend = ", with a trend" if order.drifts else ""
        return f"autocorrelated: {order.autocorrelation:.2f} at lag 1 within the sides{trend}"
    return "drift: a trend within the sides" if order.drifts else ""


def _margin_in_words(delta: float | None, noise: dict | None) -> str:
    if delta is not None:
        return f"±{delta:.1%}, as --delta says"
    if noise is not None:
        return (
            f"{DELTA:g} standard deviations between jobs of --noise, ±{FLOOR:.0%} to ±{CEILING:.0%}; "
            f"±{FLOOR:.0%} for series that it lacks"
        )
    return f"±{FLOOR:.0%}; --noise or --delta give another"


def outcome(
    opened: store.Store, side: str, *, asked: str = "", delta: float | None = None, noise: dict | None = None,
    boots: dict[tuple, Boots] | None = None, randomised: bool = False, turns: dict[str, tuple] | None = None,
) -> Outcome:  # fmt: skip
    """Compares sides 'A' and 'B' of a store; `side` is SQL that names a row's side. Raises Error where one is empty.

    `noise` and `boots` are of an earlier history, by series. `randomised`: which job was on which side was drawn;
    `turns`: in pairs, by job.
    """
    jobs = _check_sides(opened, side, asked)
    every = series.load(opened, side)
    names = series.labels(every)
    shared = [each for each in every if each.jobs("A") and each.jobs("B")]
    order = None if randomised else order_of(shared)
    compared, sigmas, betters = [], [], []
    for each in shared:
        known = (noise or {}).get(each.key)
        found = compare(each, names[each.key], delta=delta, noise=known, boots=(boots or {}).get(each.key), turns=turns)
        found.barred = found.barred or (_barred(order) if order else "")
        compared.append(found)
        sigmas.append(series.spread(each, ("A", "B")) if known is None else known)
        betters.append(each.better)
    for each, floor in _health(opened, side):
        compared.append(compare(each, f"{each.workload} {each.metric}", delta=floor, turns=turns))
        sigmas.append(math.nan)
        betters.append(each.better)
    for result, q in zip(compared, rank_test.adjusted(np.array([result.p for result in compared]))):
        result.q = float(q)
    for result, sigma, better in zip(compared, sigmas, betters):
        result.verdict = judge(result, better)
        if result.verdict != "inconclusive" or result.barred:
            result.more = None
        elif result.more is None:
            result.more = _more(result, sigma, len(compared))
    differences, notes = _differences(opened, side, asked)
    results = compared + _missing(every, names)
    results.sort(key=lambda r: (VERDICTS.index(r.verdict), r.reason == "", r.q if r.q is not None else 1, r.label))
    absent = len(opened.skipped)
    if absent:
        notes.insert(0, f"{absent} files could not be read, so what their jobs would have shown is not known")
    return Outcome(results, differences, notes, jobs, _margin_in_words(delta, noise), order, absent)


def _what_there_is(opened: store.Store, asked: str) -> str:
    """The values of the fields that were asked for."""
    told = []
    for field in dict.fromkeys(re.findall(r"(?:^|,)\s*(\w+)=", asked)):
        values = [
            spelling.printable(row[0])
            for row in opened.sql(
                f"SELECT DISTINCT \"{field}\"::VARCHAR AS value FROM measurements WHERE value <> '' ORDER BY 1 LIMIT 9"
            ).fetchall()
        ]
        told.append(f"{field} is {', '.join(values) or 'in no record'}" + (" …" if len(values) == 9 else ""))
    [[first, last]] = opened.sql("SELECT min(time), max(time) FROM measurements").fetchall()
    return "; ".join([*told, f"the jobs are from {first} to {last}"])


def sides(a: str, b: str) -> str:
    """SQL that names the side of a row, from two conditions."""
    return f"CASE WHEN {a} AND {b} THEN 'both' WHEN {a} THEN 'A' WHEN {b} THEN 'B' END"


# --- baselines and noise files ---


def _baseline_path(folder, name: str) -> pathlib.Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise Error(f"{spelling.shorten(name, 40)!r} is no name for a baseline; use letters, digits, points and dashes")
    return pathlib.Path(folder) / "baselines" / f"{name}.json"


def save_baseline(opened: store.Store, folder, name: str, condition: str) -> int:
    """Keeps the jobs that fulfil a condition under a name; returns how many. A name is given once."""
    jobs = [
        row[0] for row in opened.sql(f"SELECT DISTINCT job FROM measurements WHERE {condition} ORDER BY job").fetchall()
    ]
    if not jobs:
        raise Error("no job is what was asked for, so there is no baseline to keep")
    path = _baseline_path(folder, name)
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump({"made": series.now(), "jobs": jobs}, file, indent=1)
    except FileExistsError:
        raise Error(f"the baseline {name} is there already ({path}); choose another name or remove it") from None
    return len(jobs)


def load_baseline(folder, name: str) -> list[str]:
    path = _baseline_path(folder, name)
    try:
        jobs = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        if not (jobs and all(isinstance(job, str) for job in jobs)):
            raise ValueError("no jobs")
    except FileNotFoundError:
        known = sorted(each.stem for each in path.parent.glob("*.json"))
        there = f"there is {', '.join(known)}" if known else "none is there"
        raise Error(f"no baseline {name} in {path.parent}; {there}") from None
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        raise Error(f"{path}: no baseline ({error})") from None
    return jobs


AXES = "axes_json"  # column of what `isthmus noise` writes: with CASE and the unit it makes the key of a series


def _deviation(value) -> float:
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{value} is no deviation")
    return float(value)


def _from_noise(path, read) -> dict[tuple, Any]:
    """What `read` makes of each series of a file that `isthmus noise -o FILE.json` wrote, unless it makes nothing."""
    try:
        entries = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if not (isinstance(entries, list) and entries):
            raise ValueError("no series")
        keys = [tuple(entry[AXES if name == "axes" else name] for name in measurements.SERIES) for entry in entries]
        return {key: found for key, entry in zip(keys, entries) if (found := read(entry)) is not None}
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (AttributeError, RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(error), 60)
        raise Error(f"{path}: not what `isthmus noise -o FILE.json` writes ({why})") from None


def load_noise(path) -> dict[tuple, float]:
    """Standard deviations between jobs by series."""
    return _from_noise(path, lambda entry: _deviation(entry["between"]))


def load_boots(path) -> dict[tuple, Boots]:
    """How far boots differ by series, of those of which several were seen on a node."""

    def read(entry) -> Boots | None:
        spread, freedom = entry["boots"], entry["boots_freedom"]
        return None if spread is None else Boots(_deviation(spread), int(freedom))

    return _from_noise(path, read)


# --- the command ---

_SHOWN = {"regressed": 30, "inconclusive": 5, "improved": 10, "changed": 5, "changed-but-small": 3}


def _figure(value: float | None, result: Result) -> str:
    if value is None:
        return "-"
    if result.ratio:
        return f"{value:+.1%}" if math.isfinite(value) else ("-∞" if value < 0 else "∞")
    return f"{value:+.3g}"


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _run_more(number: int, unit: str) -> str:
    """What to run so many more of, such that it can be counted and run."""
    if unit == "pair":
        return f"run {_counted(number, 'pair')} of jobs more, one job of each side in a pair"
    return f"run {_counted(number, unit)} more a side" + (" and jobs in each" if unit != "job" else "")


def lines_of(result: Result) -> list[str]:
    """What a person reads of a series: the verdict, its figures, then the reason or a note."""
    head, indent = f"{result.verdict:<12} {result.label}", " " * 12
    if result.estimate is None:
        return [head, f"{indent} {result.note}"]
    a, b = (units.quantity(m, result.unit if result.unit != "1" else "").strip() for m in result.medians)
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
        more = f"; {_run_more(result.more, result.unit_compared)}" if result.more else ""
        if more and result.strata > 1:
            more += f", on the {result.strata} {result.paired}s together"
        lines.append(f"{indent} {result.reason}{more}")
    return lines + ([f"{indent} {result.note}"] if result.note else [])


def _order_in_words(order: rank_test.Order | None) -> str:
    if order is None:
        return "drawn at random, so it does not matter"
    what = f"{_counted(order.units, 'job')} of {_counted(order.metrics, 'metric')}"
    figures = f"lag-1 autocorrelation {order.autocorrelation:.2f}, p = {order.p:.2g}; trend, p = {order.trend_p:.2g}"
    if order.autocorrelated or order.drifts:
        return f"it matters ({figures}; {what}): nothing can be decided; run both sides in turns"
    if not order.testable:
        return f"not testable with {what}"
    return f"does not matter ({figures}; {what})"


def text(found: Outcome, *, everything: bool = False) -> str:
    """What a person reads: the margin, what was found first, then what else changed, then one verdict."""
    return "\n".join([*_premises(found), *_lines_of_all(found, everything), *_summary(found)])


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
        told = " → ".join(spelling.shorten(", ".join(map(spelling.printable, values)), 60) for values in (a, b))
        lines.append(f"changed too: {name}: {told}")
    lines += [f"note: {note}" for note in found.notes]
    counts = ", ".join(f"{found.count(v)} {v}" for v in VERDICTS if found.count(v))
    lines.append(f"{found.jobs[0]} jobs against {found.jobs[1]}, {len(found.results)} series: {counts}")
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
            lines.append(f"{_run_more(more[-1], unit)} to decide all of {len(more)} series{half}")
    return lines


def as_json(found: Outcome) -> dict:
    """The outcome for machines; infinite and undefined numbers are null."""

    def plain(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value

    def dictionary(each):
        return {name: plain(value) for name, value in dataclasses.asdict(each).items()}

    return {
        "verdict": found.verdict,
        "margin": found.margin,
        "order": dictionary(found.order) if found.order else None,
        "jobs": found.jobs,
        "differences": found.differences,
        "notes": found.notes,
        "results": [dictionary(each) for each in found.results],
    }


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n"
        "  isthmus regress results --from driver=570 --to driver=580\n"
        "  isthmus regress results --from ..2026-11-01 --to 2026-11-01.. --workload 'transfer/*'\n"
        "  isthmus regress results --save-baseline autumn --from driver=570\n"
        "  isthmus regress results --baseline autumn\n\n"
        "exit codes: 0 nothing regressed; 1 something did; 2 bad input; 3 nothing regressed that could be seen, but\n"
        "some series are inconclusive: the reason stands beside them"
    )
    selection.add_arguments(parser)
    parser.add_argument("--from", dest="a", metavar="WHAT", help="side A: FIELD=VALUE,… or a day or FROM..TO")
    parser.add_argument("--to", dest="b", metavar="WHAT", help="side B, likewise")
    parser.add_argument(
        "--baseline", metavar="NAME", help="side A is this baseline; B, without --to, all jobs after it"
    )
    parser.add_argument("--save-baseline", metavar="NAME", help="only keep the jobs of --from under this name")
    parser.add_argument(
        "--delta", type=units.share, metavar="SHARE", help="the margin: changes up to this are of no interest, as 2%%"
    )
    parser.add_argument(
        "--noise", metavar="FILE", help="of earlier jobs, by `isthmus noise -o FILE.json`: delta is 2.25 sd of each"
    )
    parser.add_argument("--all", action="store_true", help="show every series")
    parser.add_argument("--json", metavar="FILE", help="write there, too: what --format json has, and what is of all")
    output.add_arguments(parser)


def _sides_asked(asked, folder) -> tuple[str, str]:
    if asked.baseline:
        jobs = ", ".join(map(literal, load_baseline(folder, asked.baseline)))
        a = f"job IN ({jobs})"
        after = f"time > (SELECT max(time) FROM measurements WHERE {a})"
        return a, f"(NOT {a} AND {series.condition(asked.b) if asked.b else after})"
    if not (asked.a and asked.b):
        raise Error("say what to compare: --from and --to, or --baseline")
    return series.condition(asked.a), series.condition(asked.b)


def run(asked) -> int:
    folder = next((path for path in asked.paths if pathlib.Path(path).is_dir()), ".")
    if asked.save_baseline:
        condition = series.condition(asked.a) if asked.a else "true"
        with selection.from_arguments(asked, wanted=WANTED, agreeing=True) as opened:
            count = save_baseline(opened, folder, asked.save_baseline, condition)
        print(f"baseline {asked.save_baseline}: {count} jobs")
        return exits.PASSED
    a, b = _sides_asked(asked, folder)
    noise, boots = (load_noise(asked.noise), load_boots(asked.noise)) if asked.noise else (None, None)
    with selection.from_arguments(asked, wanted=WANTED, agreeing=True) as opened:
        found = outcome(
            opened, sides(a, b), asked=",".join(filter(None, (asked.a, asked.b))), delta=asked.delta, noise=noise,
            boots=boots,
        )  # fmt: skip
    rows = [row_of(each) for each in found.results]
    output.write(asked, output.of_cases(rows, COLUMNS, text(found, everything=asked.all), of_all(found)))
    if asked.json:
        try:
            pathlib.Path(asked.json).write_text(json.dumps(as_json(found), indent=1), encoding="utf-8")
        except OSError as error:
            raise Error(f"{asked.json}: {error.strerror}") from None
    return found.exit_code
