"""What a change did: a driver, a kernel, any part of the fingerprint, or time.

Compares jobs, node by node, metric by metric. Each metric ends as regressed, improved, equivalent (the whole interval
is within ±delta) or inconclusive, with the number of jobs that would tell. docs/statistics.md explains the test.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re

import numpy as np

from isthmus import Error, cli, records, series, statistics, store, table, units

FLOOR = 0.01  # a smaller change than 1% is of no interest, however sure
DELTA = 2.5  # standard deviations between jobs: 8 jobs a side show that a change is smaller, and find one of 3
CEILING = 0.05  # and one of 5% is, however noisy the metric
VERDICTS = ("regressed", "missing", "inconclusive", "improved", "changed", "new", "equivalent")
WANTED = (
    *store.FINGERPRINT, *store.SERIES, "mode", "better", "median", "n_samples", "n_invalid", "node", "gpus", "job",
    "spoilt", "error", "skipped", "verify", "system", "partition", "time", "dirty", "ecc_uncorrected", "xids",
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
    delta: float | None = None
    floor: float = FLOOR
    firm: bool = False  # delta was given, not measured
    jobs: tuple[int, int] = (0, 0)
    strata: int = 0
    paired: str = ""
    medians: tuple[float | None, float | None] = (None, None)
    more: int | None = None
    note: str = ""


@dataclasses.dataclass
class Outcome:
    """What a comparison came to, and what else changed."""

    results: list[Result]
    differences: dict[str, tuple[list[str], list[str]]]
    notes: list[str]
    jobs: tuple[int, int]
    absent: int = 0  # files that could not be read

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)

    @property
    def verdict(self) -> str:
        """All results as one; what was found weighs more than what is not known."""
        for verdict in ("regressed", "missing", "inconclusive", "changed", "improved"):
            if self.count(verdict):
                absent = self.absent and verdict != "regressed"
                return "inconclusive" if verdict == "missing" or absent else verdict
        return "inconclusive" if self.absent else "equivalent"

    @property
    def exit_code(self) -> int:
        if self.count("regressed"):
            return cli.FOUND
        undecided = self.count("inconclusive") or self.count("missing") or self.absent
        return cli.UNDECIDED if undecided else cli.PASSED


# --- one series ---


def _delta(sigma: float, floor: float) -> float:
    """What change is of no interest in a metric of this noise; bounds are those of ratios, scaled with the floor."""
    wanted = DELTA * sigma if math.isfinite(sigma) else floor
    return min(max(floor, wanted), floor / FLOOR * CEILING)


def judge(result: Result, better: str | None) -> str:
    """The verdict from the interval, p and q.

    A delta that was measured is itself uncertain, so a sure change of more than the floor is not called equivalent by
    it; a delta that was given is taken at its word.
    """
    low_limit = -result.delta / (1 + result.delta) if result.ratio else -result.delta
    within = result.low >= low_limit - 1e-12 and result.high <= result.delta + 1e-12
    sure = result.p <= statistics.ALPHA and result.q <= statistics.SESSION
    if within and (result.firm or not sure or abs(result.estimate) <= result.floor):
        return "equivalent"
    if sure:
        if better is None:
            return "changed"
        return "improved" if (result.estimate > 0) == (better == "higher") else "regressed"
    return "inconclusive"


def compare(
    each: series.Series, label: str, *, delta: float | None, noise: float | None, floor: float = FLOOR
) -> Result:
    """Compares sides A and B of a series; q, and with it the verdict, wait for the other series."""
    pairs, paired = series.strata(each, "A", "B")
    ratio = series.as_ratio(pairs)
    if ratio:
        pairs = [(np.log(a), np.log(b)) for a, b in pairs]
    found = statistics.compare(pairs)
    sigma = statistics.spread([side for pair in pairs for side in pair])
    size = 1.0 if ratio else max((float(np.max(np.abs(side))) for pair in pairs for side in pair), default=0.0)
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
        delta=_delta(sigma if noise is None else noise, floor * size) if delta is None else delta,
        floor=floor * size,
        firm=delta is not None,
        jobs=(sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)),
        strata=len(pairs),
        paired=paired,
        medians=tuple(float(np.median(each.all(side))) for side in ("A", "B")),
    )
    left = each.jobs("A") + each.jobs("B") - sum(result.jobs)
    if paired == "unpaired":
        result.note = "A and B share no node: nodes are compared, not jobs"
    elif left:
        result.note = f"{left} jobs ran on nodes or GPUs that only one side has"
    return result


def _more(result: Result, sigma: float, metrics: int) -> int:
    """Jobs a side that are still to be run before a step of delta is found or excluded."""
    if not (sigma > 0 and math.isfinite(sigma)) or not result.delta:
        needed = statistics.jobs_needed(DELTA, strata=max(result.strata, 1), metrics=metrics)
    else:
        step = (math.log1p(result.delta) if result.ratio else result.delta) / sigma
        needed = statistics.jobs_needed(step, strata=max(result.strata, 1), metrics=metrics)
    return max(needed * max(result.strata, 1) - min(result.jobs), 2)


# --- all series ---


def _missing(every: list[series.Series], names: dict[tuple, str]) -> list[Result]:
    """Series that only one side has; another version or unit of the other's is told as such."""
    loose = [store.SERIES.index(name) for name in ("version", "unit")]

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
        verdict = "missing" if sides[0] or without(each.key) in both else "new"
        results.append(Result(names[each.key], verdict, unit=each.unit, jobs=sides, note=note))
    return results


def _health(opened: store.Store, side: str) -> list[tuple[series.Series, float]]:
    columns = ", ".join(f"{expression} AS {name}" for name, (_, _, expression) in _HEALTH.items())
    rows = opened.rows(
        f"SELECT side, node, gpus, job, {columns} FROM (SELECT *, {side} AS side FROM measurements) "
        "WHERE side IS NOT NULL GROUP BY side, node, gpus, job ORDER BY ALL"
    )
    result = []
    for name, (better, floor, _) in _HEALTH.items():
        key = tuple({"workload": "machine", "metric": name, "unit": "1"}.get(column) for column in store.SERIES)
        values: dict[str, dict[tuple[str, str], list[float]]] = {}
        for row in rows:
            if row[name] is not None:
                values.setdefault(row["side"], {}).setdefault((row["node"], row["gpus"]), []).append(float(row[name]))
        seen = {value for groups in values.values() for each in groups.values() for value in each}
        if values.get("A") and values.get("B") and len(seen) > 1:
            result.append((series.Series(key, better, None, values), floor))
    return result


def _differences(opened: store.Store, side: str, asked: str) -> tuple[dict, list[str]]:
    """Fields of the fingerprint in which the sides differ, but for those that were asked for; and a reboot."""
    asked_fields = set(re.findall(r"(?:^|,)\s*([\w.]+)=", asked))
    fields = [name for name in store.FINGERPRINT if name not in ("boot", *store.OBJECTS)]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in fields)
    with_side = f"(SELECT *, {side} AS side FROM measurements) WHERE side IS NOT NULL"
    by_side = {row["side"]: row for row in opened.rows(f"SELECT side, {lists} FROM {with_side} GROUP BY side")}
    found = {}
    for name in fields:
        values = [[value for value in by_side[s][name] or [] if value not in (None, "")] for s in ("A", "B")]
        if name not in asked_fields and values[0] != values[1] and all(values):
            found[name] = tuple(values)
    for column in store.OBJECTS:
        objects: dict[str, list[dict]] = {"A": [], "B": []}
        for where, text in opened.sql(f"SELECT DISTINCT side, {column} FROM {with_side}").fetchall():
            if text is not None:
                objects[where].append(json.loads(text) or {})
        if not (objects["A"] and objects["B"]):  # one side does not say
            continue
        # A variable that is not set is a setting, too; a parameter that a module lacks says nothing.
        names = {name for those in objects.values() for each in those for name in each}
        for name in sorted(names - {each.removeprefix(f"{column}.") for each in asked_fields}):
            values = [{each.get(name) for each in objects[s]} for s in ("A", "B")]
            if column == "uvm":
                values = [each - {None} for each in values]
            if values[0] != values[1] and all(values):
                found[f"{column}.{name}"] = tuple(
                    sorted("unset" if value is None else str(value) for value in each) for each in values
                )
    return found, _reboots(opened, with_side)


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
    names = ", ".join(map(records.printable, anew[:5])) + (" …" if len(anew) > 5 else "")
    return [
        f"{len(anew)} nodes were started anew between A and B ({names}), which may explain a change by itself; "
        "a control is to measure A, start the nodes anew, measure A again"
    ]


def outcome(
    opened: store.Store, side: str, *, asked: str = "", delta: float | None = None, noise: dict | None = None
) -> Outcome:
    """Compares sides 'A' and 'B' of a store; `side` is SQL that names a row's side. Raises Error where one is empty."""
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
    every = series.load(opened, side)
    names = series.labels(every)
    compared, sigmas, betters = [], [], []
    for each in every:
        if each.jobs("A") and each.jobs("B"):
            known = (noise or {}).get(each.key)
            compared.append(compare(each, names[each.key], delta=delta, noise=known))
            sigmas.append(series.spread(each, ("A", "B")) if known is None else known)
            betters.append(each.better)
    for each, floor in _health(opened, side):
        label = f"{each.workload} {each.metric}"
        compared.append(compare(each, label, delta=floor, noise=None))
        sigmas.append(math.nan)
        betters.append(each.better)
    for result, q in zip(compared, statistics.adjusted(np.array([result.p for result in compared]))):
        result.q = float(q)
    for result, sigma, better in zip(compared, sigmas, betters):
        result.verdict = judge(result, better)
        if result.verdict == "inconclusive":
            result.more = _more(result, sigma, len(compared))
    differences, notes = _differences(opened, side, asked)
    results = compared + _missing(every, names)
    results.sort(key=lambda r: (VERDICTS.index(r.verdict), r.q if r.q is not None else 1, r.label))
    absent = len(opened.skipped)
    if absent:
        notes.insert(0, f"{absent} files could not be read, so what their jobs would have shown is not known")
    return Outcome(results, differences, notes, (jobs["A"], jobs["B"]), absent)


def _what_there_is(opened: store.Store, asked: str) -> str:
    """The values of the fields that were asked for."""
    told = []
    for field in dict.fromkeys(re.findall(r"(?:^|,)\s*(\w+)=", asked)):
        values = [
            records.printable(row[0])
            for row in opened.sql(
                f"SELECT DISTINCT \"{field}\"::VARCHAR AS value FROM measurements WHERE value <> '' ORDER BY 1 LIMIT 9"
            ).fetchall()
        ]
        told.append(f"{field} is {', '.join(values) or 'in no record'}" + (" …" if len(values) == 9 else ""))
    first, last = opened.sql("SELECT min(time), max(time) FROM measurements").fetchone()
    return "; ".join([*told, f"the jobs are from {first} to {last}"])


def sides(a: str, b: str) -> str:
    """SQL that names the side of a row, from two conditions."""
    return f"CASE WHEN {a} AND {b} THEN 'both' WHEN {a} THEN 'A' WHEN {b} THEN 'B' END"


# --- baselines and noise files ---


def _baseline_path(folder, name: str) -> pathlib.Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise Error(f"{records.shorten(name, 40)!r} is no name for a baseline; use letters, digits, points and dashes")
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


def load_noise(path) -> dict[tuple, float]:
    """Standard deviations by series, as `isthmus noise -o` wrote them."""
    try:
        entries = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["series"]
        found = {tuple(entry["key"]): float(entry["between"]) for entry in entries}
        if any(value < 0 for value in found.values()):
            raise ValueError("a deviation is below zero")
        return found
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (RecursionError, ValueError, KeyError, TypeError) as error:
        raise Error(f"{path}: not what `isthmus noise -o` writes ({records.shorten(str(error), 60)})") from None


# --- the command ---

_SHOWN = {"regressed": 30, "missing": 5, "inconclusive": 3, "improved": 10, "changed": 5, "new": 0, "equivalent": 0}


def _figure(value: float | None, result: Result) -> str:
    if value is None:
        return "-"
    if result.ratio:
        return f"{value:+.1%}" if math.isfinite(value) else ("-∞" if value < 0 else "∞")
    return f"{value:+.3g}"


def lines_of(result: Result) -> list[str]:
    head = f"{result.verdict:<12} {result.label}"
    if result.estimate is None:
        return [head, f"{'':<12} {result.note}"]
    a, b = (table.quantity(m, result.unit if result.unit != "1" else "").strip() for m in result.medians)
    figures = (
        f"{_figure(result.estimate, result)} [{_figure(result.low, result)}, {_figure(result.high, result)}]  "
        f"±{_figure(result.delta, result).lstrip('+')}  {a} → {b}  q={result.q:.2g}  "
        f"{result.jobs[0]}+{result.jobs[1]} jobs"
    )
    if result.strata > 1:
        figures += f" in {result.strata} pairs of {result.paired}s"
    if result.verdict == "equivalent" and result.q <= statistics.SESSION:
        figures += "; a change, but within ±delta"
    if result.more:
        figures += f"; run {result.more} more a side"
    lines = [head, f"{'':<12} {figures}"]
    return lines + ([f"{'':<12} {result.note}"] if result.note else [])


def text(found: Outcome, *, everything: bool = False) -> str:
    """What a person reads: what was found first, then what else changed, then one verdict."""
    lines = []
    for verdict in VERDICTS:
        results = [result for result in found.results if result.verdict == verdict]
        shown = len(results) if everything else _SHOWN[verdict]
        for result in results[:shown]:
            lines += lines_of(result)
        if shown and len(results) > shown:
            lines.append(f"{verdict:<12} … {len(results) - shown} more series (--all)")
    for name, (a, b) in found.differences.items():
        told = " → ".join(records.shorten(", ".join(map(records.printable, values)), 60) for values in (a, b))
        lines.append(f"changed too: {name}: {told}")
    lines += [f"note: {note}" for note in found.notes]
    counts = ", ".join(f"{found.count(v)} {v}" for v in VERDICTS if found.count(v))
    lines.append(f"{found.jobs[0]} jobs against {found.jobs[1]}, {len(found.results)} series: {counts}")
    more = [result.more for result in found.results if result.more]
    if more:
        lines.append(
            f"run {max(more)} more jobs a side to decide every series, {sorted(more)[len(more) // 2]} for half of them"
        )
    lines.append(f"verdict: {found.verdict}")
    return "\n".join(lines)


def as_json(found: Outcome) -> dict:
    def plain(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value

    results = [{name: plain(value) for name, value in dataclasses.asdict(each).items()} for each in found.results]
    return {
        "verdict": found.verdict,
        "jobs": found.jobs,
        "differences": found.differences,
        "notes": found.notes,
        "results": results,
    }


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n"
        "  isthmus regress results --from driver=570 --to driver=580\n"
        "  isthmus regress results --from ..2026-11-01 --to 2026-11-01.. --workload 'transfer/*'\n"
        "  isthmus regress results --save-baseline autumn --from driver=570\n"
        "  isthmus regress results --baseline autumn\n\n"
        "exit codes: 0 nothing regressed; 1 something did; 2 bad input; 3 nothing regressed that could be seen, but\n"
        "some series are inconclusive or missing"
    )
    store.add_arguments(parser)
    parser.add_argument("--from", dest="a", metavar="WHAT", help="side A: FIELD=VALUE,… or a day or FROM..TO")
    parser.add_argument("--to", dest="b", metavar="WHAT", help="side B, likewise")
    parser.add_argument(
        "--baseline", metavar="NAME", help="side A is this baseline; B, without --to, all jobs after it"
    )
    parser.add_argument("--save-baseline", metavar="NAME", help="only keep the jobs of --from under this name")
    parser.add_argument("--delta", type=units.share, metavar="SHARE", help="changes up to this are equivalent, as 2%%")
    parser.add_argument("--noise", metavar="FILE", help="what `isthmus noise -o` wrote: delta is 3 sd of each series")
    parser.add_argument("--all", action="store_true", help="show every series")
    parser.add_argument("--json", metavar="FILE", help="write everything there, too")


def _sides_asked(asked, folder) -> tuple[str, str]:
    if asked.baseline:
        jobs = ", ".join(map(store.literal, load_baseline(folder, asked.baseline)))
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
        with store.from_arguments(asked, wanted=WANTED, agreeing=True) as opened:
            count = save_baseline(opened, folder, asked.save_baseline, condition)
        print(f"baseline {asked.save_baseline}: {count} jobs")
        return cli.PASSED
    a, b = _sides_asked(asked, folder)
    noise = load_noise(asked.noise) if asked.noise else None
    with store.from_arguments(asked, wanted=WANTED, agreeing=True) as opened:
        found = outcome(
            opened, sides(a, b), asked=",".join(filter(None, (asked.a, asked.b))), delta=asked.delta, noise=noise
        )
    print(text(found, everything=asked.all))
    if asked.json:
        try:
            pathlib.Path(asked.json).write_text(json.dumps(as_json(found), indent=1), encoding="utf-8")
        except OSError as error:
            raise Error(f"{asked.json}: {error.strerror}") from None
    return found.exit_code
