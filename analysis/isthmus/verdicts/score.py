"""One figure per system for a procurement: the weighted geometric mean of ratios to a reference, and how sure it is.

The weights are a TOML or JSON file of {"metrics": {"WORKLOAD METRIC [AXIS=VALUE …]": weight}}; WORKLOAD may hold *. A
pattern that means several series divides its weight among them. Only series that every system has count, so that none
gains by leaving out what it is bad at; what does not count is named, its weight is lost, and below 80% of the weight
there is no score. Ratios are above 1 where a system is better.

A system's figure is the geometric mean of its nodes, a node's that of its jobs. The interval is of such nodes: it comes
from how unlike the nodes are, over all metrics together. Of one node it is of that node's jobs, and the output says so.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import importlib
import json
import math
import pathlib
import sys

import numpy as np

from isthmus import Error, exits, spelling, units
from isthmus.groups import grouped
from isthmus.records import old_names, selection
from isthmus.statistics import rank_test, series
from isthmus.tables import output
from isthmus.verdicts import compare

LEAST = 0.8  # of the weight must count
FEWEST = 4  # jobs of every series, below which a system has no rank
_DRAWS = 2000


@dataclasses.dataclass
class Term:
    """One series that counts."""

    key: tuple
    label: str
    weight: float
    sign: int  # 1 where higher is better, -1 where lower is


@dataclasses.dataclass
class Score:
    """One system's."""

    name: str
    score: float
    low: float | None  # 95% interval; null for the reference and where too little is known
    high: float | None
    ranks: tuple[int, int] | None  # the best and the worst that the jobs allow; null for too few jobs
    by_metrics: float | None  # share of draws of the metrics in which its place is among these ranks
    nodes: int  # fewest of a series
    jobs: int


def load_weights(path) -> dict[str, float]:
    path = pathlib.Path(path)
    try:
        data = path.read_bytes()
        if path.suffix == ".toml":
            tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
            parsed = tomllib.loads(data.decode())
        else:
            parsed = json.loads(data)
        weights = parsed.get("metrics") if isinstance(parsed, dict) else None
        if not isinstance(weights, dict) or not weights:
            raise ValueError("it has no table 'metrics', or nothing in it")
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; name a TOML or JSON file of weights") from None
    except (RecursionError, ValueError) as error:
        why = spelling.shorten(str(error), 80)
        raise Error(f'{path}: no weights ({why}); write [metrics] and "WORKLOAD METRIC" = weight') from None
    for name, weight in weights.items():
        if len(name.split()) < 2:
            raise Error(f"{path}: {spelling.printable(name)!r} names no metric; write 'WORKLOAD METRIC [AXIS=VALUE …]'")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            said = spelling.shorten(spelling.printable(weight), 40)
            raise Error(f"{path}: the weight of {spelling.printable(name)!r} is {said}; write a number above zero")
    items = [(old_names.selection(name), float(weight)) for name, weight in weights.items()]
    names = [name for name, _ in items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Error(
            f"{path}: {spelling.printable(twice)!r} stands twice, once with an earlier version's name; keep one"
        )
    return dict(items)


def _matches(pattern: str, each: series.Series) -> bool:
    workload, metric, *others = pattern.split()
    fields = each.case
    if metric != fields["metric"] or not fnmatch.fnmatchcase(fields["workload"], workload):
        return False
    beside = ("size", "preset", "placement", "staging", "ranks", "mode")
    known = fields["axes"] | {name: fields[name] for name in beside}
    pairs = [other.partition("=") for other in others]
    return all(str(known.get(name)) == value for name, _, value in pairs)


def terms(weights: dict[str, float], systems: list[compare.System]) -> tuple[list[Term], list[str]]:
    """Series that count, and a sentence a reason why others do not. Raises Error for a pattern that means nothing.

    Weights are shares of all that was asked for, so those of what counts may sum to less than 1.
    """
    every = {key: each for system in systems for key, each in system.series.items()}
    names = series.labels(list(every.values()))
    chosen: dict[tuple, Term] = {}
    excluded: list[str] = []
    total = sum(weights.values())
    for pattern, weight in weights.items():
        keys = sorted((key for key, each in every.items() if _matches(pattern, each)), key=str)
        if not keys:
            raise Error(f"{spelling.printable(pattern)!r} names no metric that any of the systems has measured")
        counting: list[tuple] = []
        reasons: dict[str, list[str]] = {}  # why not, and which series
        for key in keys:
            missing = [spelling.printable(system.name) for system in systems if key not in system.series]
            values = np.concatenate([s.series[key].all("A") for s in systems if key in s.series])
            if missing:
                reasons.setdefault(f"missing in {', '.join(missing)}", []).append(names[key])
            elif every[key].better is None:
                reasons.setdefault("neither more nor less of it is better", []).append(names[key])
            elif not (values > 0).all():
                reasons.setdefault("has values that are not above zero", []).append(names[key])
            elif key in chosen:
                raise Error(f"{names[key]} is named by two patterns, the second {spelling.printable(pattern)!r}")
            else:
                counting.append(key)
        for reason, out in reasons.items():
            more = f" and {len(out) - 1} more of {spelling.printable(pattern)}" if len(out) > 1 else ""
            excluded.append(f"{out[0]}{more}: {reason}")
        if not counting:
            excluded.append(f"{spelling.printable(pattern)}: nothing of it counts, so its weight of {weight:g} is lost")
        for key in counting:
            sign = 1 if every[key].better == "higher" else -1
            chosen[key] = Term(key, names[key], weight / len(keys) / total, sign)
    return list(chosen.values()), excluded


# --- one system ---


@dataclasses.dataclass
class _Estimate:
    """A system's weighted mean of logarithms by term, and its variance with degrees of freedom."""

    logs: np.ndarray  # by term
    variance: float  # infinite where nothing is known of it
    freedom: int
    nodes: int
    jobs: int


def _cells(each: series.Series) -> dict[tuple[str, str], float]:
    """Logarithms by (node, job): a job's GPUs of a node count as one value."""
    cells = grouped(
        ((node, job.name), math.log(value)) for job in each.of("A") for (node, _), value in job.places.items()
    )
    return {cell: float(np.mean(values)) for cell, values in cells.items()}


def _clustered(parts: dict[tuple[str, str], float], by, fewest: int) -> float:
    """Variance of a sum of parts that go together in clusters, of which a term has so many at least."""
    sums: dict = {}
    for cell, part in parts.items():
        sums[by(cell)] = sums.get(by(cell), 0.0) + part
    return fewest / (fewest - 1) * sum(value**2 for value in sums.values()) if fewest > 1 else math.inf


def estimate(system: compare.System, counted: list[Term], weights: np.ndarray) -> _Estimate:
    """Means over nodes of means over jobs, and the variance of their weighted sum.

    The variance is that of a bootstrap which draws nodes, each with all its jobs and all metrics at once, in closed
    form and without its bias for few nodes (the score is a sum, so nothing need be drawn); of one node, jobs are drawn.
    Jobs on several nodes tie these together: variances by node and by job are joined as Cameron, Gelbach and Miller do
    (Robust inference with multiway clustering, 2011), the largest being taken. Student's t of the fewest clusters.
    """
    logs, nodes, jobs = [], [], []
    parts: dict[tuple[str, str], float] = {}
    for term, weight in zip(counted, weights):
        cells = _cells(system.series[term.key])
        by_node = grouped((node, term.sign * value) for (node, _), value in cells.items())
        means = {node: float(np.mean(values)) for node, values in by_node.items()}
        middle = float(np.mean(list(means.values())))
        logs.append(middle)
        nodes.append(len(by_node))
        jobs.append(len({job for _, job in cells}))
        for cell, value in cells.items():
            share = weight / (len(by_node) * len(by_node[cell[0]]))
            parts[cell] = parts.get(cell, 0.0) + share * (term.sign * value - middle)
    by_job = _clustered(parts, lambda cell: cell[1], min(jobs))
    if min(nodes) == 1:
        return _Estimate(np.array(logs), by_job, min(jobs) - 1, 1, min(jobs))
    variances = [_clustered(parts, lambda cell: cell[0], min(nodes))]
    clusters = min(nodes)
    if len({job for _, job in parts}) < len(parts):  # some jobs ran on several nodes
        variances += [by_job, variances[0] + by_job - _clustered(parts, lambda cell: cell, len(parts))]
        clusters = min(clusters, min(jobs))
    return _Estimate(np.array(logs), max(variances), clusters - 1, min(nodes), min(jobs))


# --- systems ---


def _half(a: _Estimate, b: _Estimate, tail: float) -> float:
    """Half of the interval of the difference of two systems; Welch's and Satterthwaite's degrees of freedom."""
    variance = a.variance + b.variance
    if not math.isfinite(variance) or min(a.freedom, b.freedom) < 1:
        return math.inf
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(each.variance**2 / each.freedom for each in (a, b))
    return _quantile(tail, freedom) * math.sqrt(variance)


def _quantile(tail: float, freedom: float) -> float:
    """Student's t of fractional degrees of freedom: its logarithm is nearly linear in their reciprocal."""
    whole = max(1, math.floor(freedom))
    low, high = (math.log(rank_test.student_quantile(tail, each)) for each in (whole, whole + 1))
    share = (1 / whole - 1 / max(freedom, whole)) * whole * (whole + 1)
    return math.exp(low + share * (high - low))


def _ranks(found: list[_Estimate], totals: np.ndarray) -> list[tuple[int, int] | None]:
    """The ranks that each system may have: one more than are surely better, and as many as are not surely worse.

    All pairs hold together in 95% of cases (Bonferroni), so no system is ranked above its own copy but by 5% chance.
    """
    known = [i for i, each in enumerate(found) if each.jobs >= FEWEST]
    tail = (1 - rank_test.CONFIDENCE) / 2 / max(len(known) * (len(known) - 1) / 2, 1)
    result: list[tuple[int, int] | None] = [None] * len(found)
    for i in known:
        gaps = [(totals[j] - totals[i], _half(found[i], found[j], tail)) for j in known if j != i]
        better = sum(gap > half for gap, half in gaps)
        worse = sum(-gap > half for gap, half in gaps)
        result[i] = (1 + better, len(known) - worse)
    return result


def _by_metrics(logs: np.ndarray, weights: np.ndarray, ranks: list[tuple[int, int] | None]) -> list[float | None]:
    """Shares of draws of the metrics, with their weights as chances, in which a system's place is among its ranks."""
    known = {i: rank for i, rank in enumerate(ranks) if rank}
    picks = np.random.default_rng(1).multinomial(logs.shape[1], weights, _DRAWS)
    drawn = logs[[*known]] @ picks.T
    places = 1 + (drawn[None] > drawn[:, None] + 1e-12).sum(axis=1)
    result: list[float | None] = [None] * len(ranks)
    for row, (i, (best, worst)) in zip(places, known.items()):
        result[i] = float(np.mean((row >= best) & (row <= worst)))
    return result


def scores(systems: list[compare.System], counted: list[Term], reference: str) -> list[Score]:
    """The score of each system, the best first."""
    weights = np.array([term.weight for term in counted])
    weights = weights / weights.sum()
    found = [estimate(system, counted, weights) for system in systems]
    first = next(i for i, system in enumerate(systems) if system.name == reference)
    logs = np.array([each.logs for each in found])
    totals = (logs - logs[first]) @ weights
    ranks = _ranks(found, totals)
    by_metrics = _by_metrics(logs - logs[first], weights, ranks)
    result = []
    for i, (system, each) in enumerate(zip(systems, found)):
        half = _half(each, found[first], (1 - rank_test.CONFIDENCE) / 2) if i != first else math.inf
        low, high = (_exp(totals[i] - half), _exp(totals[i] + half)) if math.isfinite(half) else (None, None)
        result.append(
            Score(system.name, _exp(totals[i]), low, high, ranks[i], by_metrics[i], each.nodes, each.jobs)
        )  # fmt: skip
    return sorted(result, key=lambda each: (-each.score, each.name))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


# --- what a person reads ---


def _rank(each: Score) -> str:
    if each.ranks is None:
        return "?"
    return str(each.ranks[0]) if each.ranks[0] == each.ranks[1] else f"{each.ranks[0]}-{each.ranks[1]}"


def _notes(found: list[Score]) -> list[str]:
    notes = []
    few = [each for each in found if each.ranks is None]
    for each in few:
        name = spelling.printable(each.name)
        jobs, more = spelling.counted(each.jobs, "job"), spelling.counted(FEWEST - each.jobs, "more job")
        notes.append(f"note: {name} has {jobs} of a series: no rank; run {more} of each")
    single = [spelling.printable(each.name) for each in found if each.nodes == 1]
    if single:
        notes.append(f"note: {', '.join(single)}: one node, so how unlike nodes are is not in the intervals")
    if any(each.ranks and each.ranks[0] != each.ranks[1] for each in found):
        notes.append("systems with several ranks are tied: their jobs do not tell them apart")
    return notes


def text(found: list[Score], counted: list[Term], excluded: list[str], reference: str) -> str:
    width = max(6, *(len(spelling.printable(each.name)) for each in found))
    total = sum(term.weight for term in counted)
    head = f"{'rank':<5} {'system':<{width}} {'score':>7} {'95% interval':<18} {'nodes':>5} {'jobs':>5}"
    lines = [f"{total:.0%} of the weight counts, in {len(counted)} series", f"{head}  rank kept by other metrics"]
    for each in found:
        interval = f"[{each.low:.3f}, {each.high:.3f}]" if each.low is not None else "-"
        kept = f"{each.by_metrics:.0%}" if each.by_metrics is not None else "-"
        lines.append(
            f"{_rank(each):<5} {spelling.printable(each.name):<{width}} {each.score:>7.3f} {interval:<18} "
            f"{each.nodes:>5} {each.jobs:>5}  {kept}"
        )
    lines += _notes(found)
    lines.append(f"weighted geometric mean over {len(counted)} series of ratios to {spelling.printable(reference)} = 1")
    for term in sorted(counted, key=lambda term: -term.weight):
        lines.append(f"  {term.weight / total:>6.1%}  {term.label}")
    lines += _excluded(excluded)
    return "\n".join(output.fold_each(lines))


_COLUMNS = {
    "system": "VARCHAR", "score": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "best_rank": "BIGINT",
    "worst_rank": "BIGINT", "kept": "DOUBLE", "nodes": "BIGINT", "jobs": "BIGINT", "reference": "VARCHAR",
    "weight": "DOUBLE",
}  # fmt: skip


def table_of(found: list[Score], counted: list[Term], excluded: list[str], reference: str) -> output.Table:
    """A row for each system; `weight` is the share of all that was asked for which counts."""
    rows = []
    for each in found:
        best, worst = each.ranks or (None, None)
        rows.append({
            "system": each.name, "score": each.score, "low": each.low, "high": each.high, "best_rank": best,
            "worst_rank": worst, "kept": each.by_metrics, "nodes": each.nodes, "jobs": each.jobs,
            "reference": reference, "weight": sum(term.weight for term in counted),
        })  # fmt: skip
    shown = text(found, counted, excluded, reference)
    return output.Table(_COLUMNS, rows, shown, [*_notes(found), *_excluded(excluded)])


def _excluded(excluded: list[str]) -> list[str]:
    return [f"does not count: {sentence}" for sentence in excluded]


def add_arguments(parser) -> None:
    parser.epilog = (
        "example: isthmus score old new-a new-b --weights weights.toml --reference old\n"
        '  weights.toml:  [metrics]\n                 "transfer/pinned-gpu0/ce rate bytes=1073741824" = 3\n'
        '                 "microbench/* kernel_rate size=super" = 1\n\n'
        "exit codes: 0 every metric counted and every system has a rank; 2 bad input; 3 some did not, too little of\n"
        "the weight counts for a score, or as `isthmus compare` says"
    )
    selection.add_arguments(parser)
    parser.add_argument("--by", metavar="FIELD", help="split the records by this field instead of by folder")
    parser.add_argument("--weights", required=True, metavar="FILE", help="TOML or JSON")
    parser.add_argument("--least", **units.SHARE, default=LEAST, help="of the weight that must count (0.8)")
    parser.add_argument("--reference", required=True, metavar="SYSTEM", help="whose score is 1")
    output.add_arguments(parser)


def run(asked) -> int:
    weights = load_weights(asked.weights)
    systems = compare.load(asked)
    names = [system.name for system in systems]
    if asked.reference not in names:
        raise Error(f"no system is called {asked.reference!r}; there are {', '.join(map(spelling.printable, names))}")
    counted, excluded = terms(weights, systems)
    if not counted:
        raise Error(f"nothing counts: {excluded[0]}")
    counts = sum(term.weight for term in counted)
    if counts < asked.least - 1e-9:
        refused = f"{counts:.0%} of the weight counts, less than {asked.least:.0%}: no score"
        lines = [refused, *_excluded(excluded), "measure what is missing, or weigh only what all systems have"]
        output.write(asked, output.Table(_COLUMNS, [], "\n".join(lines), lines))
        return exits.UNDECIDED
    found = scores(systems, counted, asked.reference)
    output.write(asked, table_of(found, counted, excluded, asked.reference))
    return exits.UNDECIDED if excluded or any(each.ranks is None for each in found) else exits.PASSED
