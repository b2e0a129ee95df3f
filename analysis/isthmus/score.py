"""One figure per system for a procurement: the weighted geometric mean of ratios to a reference, and how sure it is.

The weights are a TOML or JSON file of {"metrics": {"WORKLOAD METRIC [AXIS=VALUE …]": weight}}; WORKLOAD may hold *. A
pattern that means several series divides its weight among them. Only series that every system has count, so that none
gains by leaving out what it is bad at; what does not count is listed. Ratios are above 1 where a system is better.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
import pathlib

import numpy as np

from isthmus import Error, cli, compare, records, series, store

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
    low: float | None  # 95% interval over jobs drawn anew; null where a system has one job
    high: float | None
    rank: int
    ranks_jobs: list[float]  # share of draws of jobs in which it has rank 1, 2, …
    ranks_metrics: list[float]  # the same with the metrics drawn anew


def load_weights(path) -> dict[str, float]:
    path = pathlib.Path(path)
    try:
        data = path.read_bytes()
        if path.suffix == ".toml":
            try:
                import tomllib
            except ModuleNotFoundError:  # Python 3.10
                import tomli as tomllib
            parsed = tomllib.loads(data.decode())
        else:
            parsed = json.loads(data)
        weights = parsed["metrics"]
        items = [(str(name), float(weight)) for name, weight in weights.items()]
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (RecursionError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = records.shorten(str(error), 80)
        raise Error(f'{path}: no weights ({why}); write [metrics] and "WORKLOAD METRIC" = weight') from None
    bad = [name for name, weight in items if not (weight > 0 and math.isfinite(weight))]
    if bad or not items:
        raise Error(f"{path}: {f'the weight of {records.printable(bad[0])!r}' if bad else 'no weight'} is above zero")
    return dict(items)


def _matches(pattern: str, key: tuple, mode: str | None) -> bool:
    workload, metric, *others = pattern.split()
    fields = dict(zip(store.SERIES, key))
    if metric != fields["metric"] or not fnmatch.fnmatchcase(fields["workload"], workload):
        return False
    try:
        axes = json.loads(fields["axes"] or "{}")
    except ValueError:
        axes = {}
    known = {
        **axes,
        **{name: fields[name] for name in ("size", "preset", "placement", "staging", "ranks")},
        "mode": mode,
    }
    pairs = [other.partition("=") for other in others]
    return all(str(known.get(name)) == value for name, _, value in pairs)


def terms(weights: dict[str, float], systems: list[compare.System]) -> tuple[list[Term], list[str]]:
    """Series that count, and a sentence for each that does not. Raises Error for a pattern that means nothing."""
    every = {key: each for system in systems for key, each in system.series.items()}
    names = series.labels(list(every.values()))
    chosen: dict[tuple, Term] = {}
    excluded = []
    for pattern, weight in weights.items():
        if len(pattern.split()) < 2:
            raise Error(f"{records.printable(pattern)!r} names no metric; write 'WORKLOAD METRIC [AXIS=VALUE …]'")
        keys = sorted((key for key, each in every.items() if _matches(pattern, key, each.mode)), key=str)
        if not keys:
            raise Error(f"{records.printable(pattern)!r} names no metric that any of the systems has measured")
        counting = []
        for key in keys:
            missing = [records.printable(system.name) for system in systems if key not in system.series]
            values = np.concatenate([s.series[key].all("A") for s in systems if key in s.series])
            if missing:
                excluded.append(f"{names[key]}: missing in {', '.join(missing)}")
            elif every[key].better is None:
                excluded.append(f"{names[key]}: neither more nor less of it is better")
            elif not (values > 0).all():
                excluded.append(f"{names[key]}: has values that are not above zero")
            elif key in chosen:
                raise Error(f"{names[key]} is named by two patterns, the second {records.printable(pattern)!r}")
            else:
                counting.append(key)
        if not counting:
            excluded.append(f"{records.printable(pattern)}: nothing of it counts, so its weight of {weight:g} is lost")
        for key in counting:
            sign = 1 if every[key].better == "higher" else -1
            chosen[key] = Term(key, names[key], weight / len(counting), sign)
    return list(chosen.values()), excluded


def _drawn(values: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """Medians of jobs drawn anew."""
    return np.median(values[chance.integers(0, len(values), (_DRAWS, len(values)))], axis=1)


def _ranks(scores: np.ndarray) -> np.ndarray:
    """Rank of each system (rows) in each draw, 1 the best."""
    return (-scores).argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") + 1


def scores(systems: list[compare.System], counted: list[Term], reference: str) -> list[Score]:
    """The score of each system, the best first."""
    base = next(system for system in systems if system.name == reference)
    chance = np.random.default_rng(1)
    weights = np.array([term.weight for term in counted])
    weights = weights / weights.sum()
    logs = np.array(
        [[t.sign * math.log(np.median(s.series[t.key].all("A"))) for t in counted] for s in systems]
    )  # (systems, terms)
    drawn = np.array(
        [[t.sign * np.log(_drawn(s.series[t.key].all("A"), chance)) for t in counted] for s in systems]
    )  # (systems, terms, draws)
    first = systems.index(base)
    point = np.exp((logs - logs[first]) @ weights)
    by_jobs = np.einsum("stn,t->sn", drawn - drawn[first], weights)
    # Metrics drawn with their weights as chances: how much the ranks hang on the choice of metrics.
    picks = chance.multinomial(len(counted), weights, _DRAWS) / len(counted)
    by_metrics = (logs - logs[first]) @ picks.T
    places = _ranks(point[:, None])[:, 0]
    result = []
    for i, system in enumerate(systems):
        fewest = min(len(s.series[t.key].all("A")) for s in (system, base) for t in counted)
        low, high = np.exp(np.percentile(by_jobs[i], [2.5, 97.5])) if fewest > 1 and i != first else (None, None)
        shares = [
            [float(np.mean(_ranks(draws)[i] == place)) for place in range(1, len(systems) + 1)]
            for draws in (by_jobs, by_metrics)
        ]
        result.append(Score(system.name, float(point[i]), low, high, int(places[i]), *shares))
    return sorted(result, key=lambda each: each.rank)


def text(found: list[Score], counted: list[Term], excluded: list[str], reference: str) -> str:
    width = max(len(records.printable(each.name)) for each in found)
    head = f"{'rank':<5} {'system':<{width}} {'score':>7} {'95% interval':<16}"
    lines = [f"{head} holds its rank when drawn anew: jobs, metrics"]
    for each in found:
        interval = f"[{each.low:.3f}, {each.high:.3f}]" if each.low is not None else "-"
        lines.append(
            f"{each.rank:<5} {records.printable(each.name):<{width}} {each.score:>7.3f} {interval:<16} "
            f"{each.ranks_jobs[each.rank - 1]:.0%}, {each.ranks_metrics[each.rank - 1]:.0%}"
        )
    lines.append(f"weighted geometric mean over {len(counted)} series of ratios to {records.printable(reference)} = 1")
    total = sum(term.weight for term in counted)
    for term in sorted(counted, key=lambda term: -term.weight):
        lines.append(f"  {term.weight / total:>6.1%}  {term.label}")
    lines += [f"does not count: {sentence}" for sentence in excluded]
    return "\n".join(lines)


def add_arguments(parser) -> None:
    parser.epilog = (
        "example: isthmus score old new-a new-b --weights weights.toml --reference old\n"
        '  weights.toml:  [metrics]\n                 "transfer/pinned-gpu0/ce rate bytes=1073741824" = 3\n'
        '                 "microbench/* kernel_rate size=super" = 1\n\n'
        "exit codes: 0 every metric counted; 2 bad input; 3 some did not count"
    )
    store.add_arguments(parser)
    parser.add_argument("--by", metavar="FIELD", help="split the records by this field instead of by folder")
    parser.add_argument("--weights", required=True, metavar="FILE", help="TOML or JSON")
    parser.add_argument("--reference", required=True, metavar="SYSTEM", help="whose score is 1")


def run(asked) -> int:
    weights = load_weights(asked.weights)
    systems = compare.load(asked)
    names = [system.name for system in systems]
    if asked.reference not in names:
        raise Error(f"no system is called {asked.reference!r}; there are {', '.join(map(records.printable, names))}")
    counted, excluded = terms(weights, systems)
    if not counted:
        raise Error(f"nothing counts: {excluded[0]}")
    print(text(scores(systems, counted, asked.reference), counted, excluded, asked.reference))
    return cli.UNDECIDED if excluded else cli.PASSED
