"""Scores systems for a procurement: each by a weighted geometric mean of ratios to a reference, with an interval.

The weights are a TOML or JSON file of {"metrics": {"WORKLOAD METRIC [AXIS=VALUE …]": weight}}; WORKLOAD may contain *.
A pattern that matches several series divides its weight among them. A series counts only if every system has it, on all
nodes that ran the weighted cases, so that a system does not gain by leaving out cases in which it, or one of its nodes,
is bad. Series that do not count are listed and their weight is lost; below 80% of the weight there is no score. A ratio
above 1 means that the system is better than the reference.

The figure of a system is the geometric mean over its nodes, that of a node the mean over its boots, and that of a boot
the mean over its jobs. The interval applies to all nodes of this kind: it reflects differences between nodes, and
between nights or restarts of all nodes, over all metrics together. The interval of a single node applies to that node
only and reflects differences between its boots. A single boot has neither interval nor rank.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import math
import pathlib
import sys

import numpy as np

from isthmus import Error, exits, inputs, spelling, units
from isthmus.grouping import grouped
from isthmus.records import selection
from isthmus.statistics import rank_test, series
from isthmus.tables import output
from isthmus.verdicts import clusters, compare, uneven

LEAST = 0.8  # share of the weight that must count
FEWEST = 4  # number of jobs of every series that a system needs for a rank
_DRAWS = 2000


@dataclasses.dataclass
class Term:
    """Series that counts towards the score."""

    key: tuple
    label: str
    weight: float
    sign: int  # 1 if higher is better, -1 if lower is better


@dataclasses.dataclass
class Score:
    """Score of one system."""

    name: str
    score: float
    low: float | None  # lower end of the 95% interval; None for the reference and if there are too few jobs
    high: float | None  # upper end of the 95% interval
    ranks: tuple[int, int] | None  # best and worst rank that the jobs allow; None if there are too few jobs
    by_metrics: float | None  # share of random draws of the metrics in which the system's rank is in `ranks`
    nodes: int  # number of nodes of the series with the fewest nodes
    boots: int  # number of boots of the series with the fewest boots
    jobs: int  # number of jobs of the series with the fewest jobs
    reason: str  # key of clusters.MEANING: why the system has no interval and no rank


_MOST_WEIGHTS = inputs.MIB


def load_weights(path) -> dict[str, float]:
    """Loads the weight of each pattern from a TOML or JSON file. Raises Error if the file contains anything else."""
    path = pathlib.Path(path)
    try:
        data = inputs.read_small(path, _MOST_WEIGHTS)
        parsed = inputs.toml_of(data) if path.suffix == ".toml" else inputs.json_of(data)
        parsed = parsed if isinstance(parsed, dict) else {}
        if unknown := sorted(parsed.keys() - {"metrics"}):
            raise ValueError(f"{unknown[0]!r} is not known here{spelling.did_you_mean(unknown[0], ['metrics'])}")
        weights = parsed.get("metrics")
        if not isinstance(weights, dict) or not weights:
            raise ValueError("it has no table 'metrics', or nothing in it")
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; name a TOML or JSON file of weights") from None
    except (RecursionError, ValueError) as error:
        why = spelling.shorten(str(error), 80)
        raise Error(f'{path}: not a file of weights ({why}); write [metrics] and "WORKLOAD METRIC" = weight') from None
    for name, weight in weights.items():
        _refuse_weight(path, name, weight)
    return {name: float(weight) for name, weight in weights.items()}


def _refuse_weight(path: pathlib.Path, name: str, weight) -> None:
    """Raises Error for an invalid pattern or weight."""
    shown = spelling.shorten(spelling.printable(name))
    words = name.split()
    if len(words) < 2:
        raise Error(f"{path}: {shown!r} names no metric; write 'WORKLOAD METRIC [AXIS=VALUE …]'")
    axes = collections.Counter(word.partition("=")[0] for word in words[2:])
    if axes and max(axes.values()) > 1:
        raise Error(f"{path}: {shown!r} names {axes.most_common(1)[0][0]} twice; keep one of its values")
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not 0 < weight <= sys.float_info.max:
        kind = "a table" if isinstance(weight, dict) else "a list" if isinstance(weight, list) else None
        said = kind or spelling.shorten(spelling.printable(weight), 40)
        raise Error(f"{path}: the weight of {shown!r} is {said}; write a number above zero")


def _matches(pattern: str, each: series.Series) -> bool:
    """Returns whether a series, which has the metric of a pattern, also has its workload and axes."""
    workload, _, *others = pattern.split()
    fields = each.case
    if not fnmatch.fnmatchcase(fields["workload"], workload):
        return False
    further = ("size", "preset", "placement", "staging", "ranks", "mode")
    known = fields["axes"] | {name: fields[name] for name in further}
    pairs = [other.partition("=") for other in others]
    return all(str(known.get(name)) == value for name, _, value in pairs)


def terms(weights: dict[str, float], systems: list[compare.System]) -> tuple[list[Term], list[str]]:
    """Returns the series that count, and a sentence for each reason why other series do not count.

    Weights are shares of the total requested weight, so the weights of the returned series may sum to less than 1.
    Raises Error for a pattern that does not match any series, and for a series that two patterns match.
    """
    every = {key: each for system in systems for key, each in system.series.items()}
    names = series.labels(list(every.values()))
    of_metric = grouped((each.case["metric"], (key, each)) for key, each in every.items())
    matching = {}
    for pattern in weights:
        having = of_metric.get(pattern.split()[1], ())
        matching[pattern] = sorted((key for key, each in having if _matches(pattern, each)), key=str)
        if not matching[pattern]:
            raise Error(f"{spelling.printable(pattern)!r} names no metric that any of the systems has measured")
    short = _short_of(systems, {key for keys in matching.values() for key in keys})
    chosen: dict[tuple, Term] = {}
    excluded: list[str] = []
    total = sum(weights.values())
    for pattern, weight in weights.items():
        keys = matching[pattern]
        counting: list[tuple] = []
        reasons: dict[str, list[str]] = {}  # maps a reason to the series that do not count for it
        for key in keys:
            if reason := _why_not(key, systems, short):
                reasons.setdefault(reason, []).append(names[key])
            elif key in chosen:
                raise Error(f"{names[key]} is named by two patterns, the second {spelling.printable(pattern)!r}")
            else:
                counting.append(key)
        for reason, out in reasons.items():
            more = f" and {len(out) - 1} more of {spelling.printable(pattern)}" if len(out) > 1 else ""
            excluded.append(f"{out[0]}{more}: {reason}")
        if not counting:
            excluded.append(f"{spelling.printable(pattern)}: no series counts, so its weight of {weight:g} is lost")
        for key in counting:
            sign = 1 if every[key].better == "higher" else -1
            chosen[key] = Term(key, names[key], weight / len(keys) / total, sign)
    return list(chosen.values()), excluded


def _why_not(key: tuple, systems: list[compare.System], short: dict[tuple, str]) -> str:
    """Returns the reason why a series does not count, or "" if it counts."""
    having = [system.series[key] for system in systems if key in system.series]
    if len(having) < len(systems):
        return f"missing in {', '.join(spelling.printable(s.name) for s in systems if key not in s.series)}"
    if key in short:
        return f"missing on {short[key]}"
    if having[-1].better is None:
        return "has no better direction"
    return "" if all(series.has_ratios(each, ("A",)) for each in having) else "has values that are not above zero"


def _short_of(systems: list[compare.System], weighed: set[tuple]) -> dict[tuple, str]:
    """Returns, for each series, the names of nodes and GPUs without it although their equals in the system have it."""
    cases = {uneven.case_of(key) for key in weighed}
    ran_by, every = [system.ran for system in systems], [system.series for system in systems]
    found: dict[tuple, str] = {}
    for at, system in enumerate(systems):
        for key in weighed & system.series.keys():
            lacks = uneven.lacks(key, at, every, ran_by, cases)
            if lacks and key not in found:
                found[key] = f"{uneven.places_in_words(sorted(lacks))} of {spelling.printable(system.name)}"
    return found


# --- systems ---


def estimate(system: compare.System, counted: list[Term], weights: np.ndarray) -> clusters.Estimate:
    """Estimates the weighted mean of the terms' logarithms (higher is better), and its variance."""
    every = [clusters.cells(system.series[term.key].of("A"), system.occasions, term.sign) for term in counted]
    return clusters.estimate(every, weights.tolist())


def _ranks(found: list[clusters.Estimate], totals: np.ndarray) -> list[tuple[int, int] | None]:
    """Returns the best and worst rank of each system; the range is limited by systems that are surely better or worse.

    All comparisons of pairs are right together in 95% of cases (Bonferroni), so chance ranks a system above a copy of
    itself in at most 5% of cases.
    """
    known = [i for i, each in enumerate(found) if each.jobs >= FEWEST and not each.reason]
    tail = (1 - rank_test.CONFIDENCE) / 2 / max(len(known) * (len(known) - 1) / 2, 1)
    result: list[tuple[int, int] | None] = [None] * len(found)
    for i in known:
        gaps = [(totals[j] - totals[i], clusters.half(found[i], found[j], tail)) for j in known if j != i]
        better = sum(gap > half for gap, half in gaps)
        worse = sum(-gap > half for gap, half in gaps)
        result[i] = (1 + better, len(known) - worse)
    return result


def _by_metrics(logs: np.ndarray, weights: np.ndarray, ranks: list[tuple[int, int] | None]) -> list[float | None]:
    """Returns for each system the share of random draws of metrics, by weight, in which its rank is among `ranks`."""
    known = {i: rank for i, rank in enumerate(ranks) if rank}
    picks = np.random.default_rng(1).multinomial(logs.shape[1], weights, _DRAWS)
    drawn = logs[[*known]] @ picks.T
    places = 1 + (drawn[None] > drawn[:, None] + 1e-12).sum(axis=1)
    result: list[float | None] = [None] * len(ranks)
    for row, (i, (best, worst)) in zip(places, known.items()):
        result[i] = float(np.mean((row >= best) & (row <= worst)))
    return result


def scores(systems: list[compare.System], counted: list[Term], reference: str) -> list[Score]:
    """Returns the scores of all systems, the best first."""
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
        half = clusters.half(each, found[first]) if i != first else math.inf
        low, high = (_exp(totals[i] - half), _exp(totals[i] + half)) if math.isfinite(half) else (None, None)
        result.append(
            Score(
                system.name, _exp(totals[i]), low, high, ranks[i], by_metrics[i], each.nodes, each.boots, each.jobs,
                each.reason,
            )
        )  # fmt: skip
    return sorted(result, key=lambda each: (-each.score, each.name))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


# --- text ---


def _rank(each: Score) -> str:
    if each.ranks is None:
        return "?"
    return str(each.ranks[0]) if each.ranks[0] == each.ranks[1] else f"{each.ranks[0]}-{each.ranks[1]}"


def _notes(found: list[Score]) -> list[str]:
    notes = []
    for each in found:
        name = spelling.printable(each.name)
        if each.reason:
            notes.append(f"note: {name}: not identifiable: {clusters.MEANING[each.reason]}; until then it has no rank")
        elif each.ranks is None:
            jobs, more = spelling.counted(each.jobs, "job"), spelling.counted(FEWEST - each.jobs, "more job")
            notes.append(f"note: {name} has {jobs} of a series: no rank; run {more} of each")
    single = [spelling.printable(each.name) for each in found if each.nodes == 1]
    if single:
        notes.append(f"note: {', '.join(single)}: one node, so the intervals exclude differences between nodes")
    if any(each.ranks and each.ranks[0] != each.ranks[1] for each in found):
        notes.append("systems with several ranks are tied: their jobs do not tell them apart")
    return notes


def _interval(each: Score, reference: Score) -> str:
    """Returns the interval as text, or why there is none; names a system if the interval applies to its only node."""
    if each.reason or (reference.reason and each is not reference):
        return f"? {each.reason}" if each.reason else f"? {reference.reason} of {spelling.printable(reference.name)}"
    if each.low is None:
        return "-"
    single = [spelling.printable(one.name) for one in (each, reference) if one.nodes == 1]
    return f"[{each.low:.3f}, {each.high:.3f}]" + (" of 1 node" if single else "")


def text(found: list[Score], counted: list[Term], excluded: list[str], reference: str) -> str:
    total = sum(term.weight for term in counted)
    [own] = [each for each in found if each.name == reference]
    columns = [
        output.Column("rank", right=False), output.Column("system", right=False), output.Column("score"),
        output.Column("95% interval", right=False), output.Column("nodes"), output.Column("boots"),
        output.Column("jobs"), output.Column("kept", drop=1),
    ]  # fmt: skip
    rows = []
    for each in found:
        kept = f"{each.by_metrics:.0%}" if each.by_metrics is not None else "-"
        counts = [str(number) for number in (each.nodes, each.boots, each.jobs)]
        name = spelling.shorten(each.name, 28)
        rows.append([_rank(each), name, f"{each.score:.3f}", _interval(each, own), *counts, kept])
    lines = [f"{total:.0%} of the weight counts, in {len(counted)} series", *output.lay_out(columns, rows)]
    if any(each.by_metrics is not None for each in found):
        lines.append("kept: how often a system keeps its rank when other metrics are drawn")
    lines += _notes(found)
    lines.append(f"weighted geometric mean over {len(counted)} series of ratios to {spelling.printable(reference)} = 1")
    for term in sorted(counted, key=lambda term: -term.weight):
        lines.append(f"  {term.weight / total:>6.1%}  {term.label}")
    lines += _excluded(excluded)
    return "\n".join(output.fold_each(lines))


_COLUMNS = {
    "system": "VARCHAR", "score": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "best_rank": "BIGINT",
    "worst_rank": "BIGINT", "kept": "DOUBLE", "nodes": "BIGINT", "boots": "BIGINT", "jobs": "BIGINT",
    "reference": "VARCHAR", "weight": "DOUBLE", "reason": "VARCHAR",
}  # fmt: skip


def table_of(found: list[Score], counted: list[Term], excluded: list[str], reference: str) -> output.Table:
    """Returns a table with a row for each system; `weight` is the share of the requested weight that counts."""
    rows = []
    for each in found:
        best, worst = each.ranks or (None, None)
        rows.append({
            "system": each.name, "score": each.score, "low": each.low, "high": each.high, "best_rank": best,
            "worst_rank": worst, "kept": each.by_metrics, "nodes": each.nodes, "boots": each.boots, "jobs": each.jobs,
            "reference": reference, "weight": sum(term.weight for term in counted), "reason": each.reason or None,
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
        "the weight counts for a score, or a reason of `isthmus compare` applies"
    )
    selection.add_arguments(parser)
    parser.add_argument("--by", metavar="FIELD", help="split the records by this field instead of by folder")
    parser.add_argument("--weights", required=True, metavar="FILE", help="TOML or JSON file of weights")
    parser.add_argument("--least", **units.SHARE, default=LEAST, help="share of the weight that must count (0.8)")
    parser.add_argument("--reference", required=True, metavar="SYSTEM", help="system whose score is 1")
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
        lines = [refused, *_excluded(excluded), "measure what is missing, or give weight only to what all systems have"]
        output.write(asked, output.Table(_COLUMNS, [], "\n".join(lines), lines))
        return exits.UNDECIDED
    found = scores(systems, counted, asked.reference)
    output.write(asked, table_of(found, counted, excluded, asked.reference))
    return exits.UNDECIDED if excluded or any(each.ranks is None for each in found) else exits.PASSED
