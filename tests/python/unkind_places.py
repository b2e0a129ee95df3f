"""Measures how often `isthmus drift` and `isthmus nodes` are wrong, on histories and fleets with known truth.

  python tests/python/unkind_places.py            writes unkind_places_rates.json (the committed run; five minutes)
  python tests/python/unkind_places.py --trials 100 --print
  python tests/python/unkind_places.py --table    prints the committed rates as in docs/false-alarms.md

Unless its kind differs, a history is one series on one node with one job per day. A fleet has eight nodes, each with
three jobs of fifty metrics. Standard deviations and steps are shares of the value.
"""

import argparse
import dataclasses
import datetime
import json
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))

import histories

from isthmus.records import measurements
from isthmus.statistics import series
from isthmus.verdicts import drift, nodes

RATES = pathlib.Path(__file__).with_name("unkind_places_rates.json")
SEED = 23


@dataclasses.dataclass(frozen=True)
class Kind:
    """Kind of history or fleet: how its jobs depend on each other, and the planted events."""

    name: str
    command: str = "drift"
    jobs: int = 60  # number of jobs per node
    nodes: int = 1
    metrics: int = 1
    job: float = 0.01  # standard deviation between jobs
    node: float = 0.0  # standard deviation between nodes
    night: float = 0.0  # standard deviation of the noise that all nodes share in a night
    tails: str = "normal"
    follows: float = 0.0  # autocorrelation of successive jobs on a node
    states: float = 0.0  # distance between two clock states, which all metrics of a job share
    share: float = 0.3  # share of jobs in the second state
    stays: float = 0.0  # probability that a job has the state of the job before it; otherwise the state is drawn
    outliers: float = 0.0  # share of jobs that are 20% off
    step: float = 0.0  # step after half of the jobs; in a fleet, the step of node 3 in all jobs
    creep: float = 0.0  # change per week
    trials: float = 1.0  # share of the requested trials

    @property
    def truth(self) -> float:
        """Returns the change of the level from the first job to the last, as a logarithm."""
        return self.step + self.creep * (self.jobs - 1) / 7


DRIFT = (
    Kind("independent"),
    Kind("independent, 20 jobs", jobs=20),
    Kind("5% outlier jobs", outliers=0.05),
    Kind("5% outlier jobs, 0.3% between jobs", outliers=0.05, job=0.003),
    Kind("5% outlier jobs, 20 jobs", outliers=0.05, jobs=20),
    Kind("autocorrelated 0.2", follows=0.2),
    Kind("autocorrelated 0.6", follows=0.6),
    Kind("heavy tails (t, 2 degrees)", tails="heavy"),
    Kind("two clock states at random", states=0.05, job=0.003),
    Kind("two clock states that stay (90%)", states=0.05, job=0.003, share=0.5, stays=0.8),
    Kind("nights shared by 8 nodes, 4 series", nodes=8, metrics=4, jobs=30, night=0.01, job=0.005, trials=0.2),
    Kind("a step of 3%", step=0.03),
    Kind("a step of 3%, 5% outlier jobs", step=0.03, outliers=0.05),
    Kind("a step of 3%, autocorrelated 0.2", step=0.03, follows=0.2),
    Kind("a step of 6%, heavy tails", step=0.06, tails="heavy"),
    Kind("a step of 3%, 20 jobs", step=0.03, jobs=20),
    Kind("a creep of 0.3% a week, 0.3% between jobs, 50 days", creep=0.003, job=0.003, jobs=50),
    Kind("the same, 5% outlier jobs", creep=0.003, job=0.003, jobs=50, outliers=0.05),
)
_FLEET = Kind("", "nodes", jobs=3, nodes=8, metrics=50, node=0.01)
NODES = tuple(
    dataclasses.replace(_FLEET, name=name, **changes)
    for name, changes in {
        "independent": {},
        "5% outlier jobs": {"outliers": 0.05},
        "autocorrelated 0.6": {"follows": 0.6},
        "heavy tails (t, 2 degrees)": {"tails": "heavy"},
        "two clock states at random": {"states": 0.05},
        "nights shared by all nodes": {"night": 0.02},
        "nodes differ by 5%": {"node": 0.05},
        "one node of eight 10% slow": {"step": -0.105},
        "one node of eight 10% slow, 5% outlier jobs": {"step": -0.105, "outliers": 0.05},
    }.items()
)
KINDS = (*DRIFT, *NODES)


def values(chance, kind: Kind) -> np.ndarray:
    """Returns logarithms of values as an array (metrics, nodes, jobs). Higher is better."""
    shape = (kind.metrics, kind.nodes, kind.jobs)
    noise = np.array(histories.noise(chance, kind.tails, shape), float)
    for i in range(1, kind.jobs):
        noise[..., i] = kind.follows * noise[..., i - 1] + math.sqrt(1 - kind.follows**2) * noise[..., i]
    logs = kind.job * noise + kind.node * chance.standard_normal((kind.metrics, kind.nodes, 1))
    logs += kind.night * chance.standard_normal((kind.metrics, 1, kind.jobs))
    drawn = chance.random((kind.nodes, kind.jobs)) < kind.share
    for i in range(1, kind.jobs):
        drawn[:, i] = np.where(chance.random(kind.nodes) < kind.stays, drawn[:, i - 1], drawn[:, i])
    logs += kind.states * drawn
    logs += math.log(0.8) * (chance.random((kind.nodes, kind.jobs)) < kind.outliers)
    if kind.command == "nodes":
        logs[:, 3] += kind.step
        return logs
    return logs + kind.step * (np.arange(kind.jobs) >= kind.jobs // 2) + kind.creep * np.arange(kind.jobs) / 7


def series_of(logs: np.ndarray) -> list[series.Series]:
    """Returns a series for each metric, with one job per day on each node."""
    start, found = datetime.datetime(2026, 1, 1), []
    for number, of_metric in enumerate(logs):
        key = tuple({"workload": f"w{number}", "metric": "rate", "unit": "B/s"}.get(n) for n in measurements.SERIES)
        jobs = [
            series.Job(f"{node}-{day}", {(f"n{node}", "G"): math.exp(value)}, frozenset(),
                       start + datetime.timedelta(days=day, minutes=node))
            for node, of_node in enumerate(of_metric) for day, value in enumerate(of_node)
        ]  # fmt: skip
        found.append(series.Series(key, "higher", None, {"A": sorted(jobs, key=lambda job: job.time)}))
    return found


def _of_drift(chance, kind: Kind) -> tuple[bool, bool | None]:
    """Returns whether a change was found, and whether the largest change's interval contains the truth (or None)."""
    changes = drift.find(series_of(values(chance, kind))).changes
    if not (changes and kind.truth):
        return bool(changes), None
    largest = max(changes, key=lambda change: abs(change.size))
    return True, largest.low <= math.expm1(kind.truth) <= largest.high


def _of_nodes(chance, kind: Kind) -> tuple[bool, bool | None]:
    """Returns whether the slow node was named and whether no other node was. Without a slow node, returns whether any
    node was named, and None."""
    jobs = values(chance, kind)
    medians, better = np.median(jobs, axis=2), np.quantile(jobs, 0.8, axis=2)
    places = [(f"n{i}", "") for i in range(kind.nodes)]
    labels = [f"w{i}" for i in range(kind.metrics)]
    told = [("s", False)] * kind.metrics
    fleet = nodes.Fleet(places, labels, medians, np.full(medians.shape, kind.jobs), told, None, better)
    named = {name for name, _ in nodes.slow_as_a_whole(fleet)[0]} | {f"n{i}" for _, i, _ in nodes.slow_places(fleet)}
    return ("n3" in named, not named - {"n3"}) if kind.step else (bool(named), None)


def _share(found: list) -> list[float] | None:
    """Returns a share and its standard error."""
    if not found:
        return None
    share = float(np.mean(found))
    return [round(share, 4), round(math.sqrt(max(share * (1 - share), 1e-9) / len(found)), 4)]


def rates(kind: Kind, trials: int, seed: int = SEED) -> dict:
    chance = np.random.default_rng([seed, KINDS.index(kind)])
    of = _of_drift if kind.command == "drift" else _of_nodes
    found = [of(chance, kind) for _ in range(max(2, round(trials * kind.trials)))]
    right = _share([held for _, held in found if held is not None])
    return {"kind": dataclasses.asdict(kind), "found": _share([each for each, _ in found]), "right": right}


def table(committed: dict, command: str) -> str:
    """Returns the committed rates of a command as a Markdown table."""

    def told(share) -> str:
        return f"{share[0]:.1%} ± {share[1]:.1%}" if share else ""

    heads = {
        "drift": ("history", "a change is found", "its interval contains the truth"),
        "nodes": ("fleet", "a node is named", "and no healthy one"),
    }[command]
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|"]
    for each in committed["rates"]:
        if each["kind"]["command"] == command:
            lines.append(f"| {each['kind']['name']} | {told(each['found'])} | {told(each['right'])} |")
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--print", action="store_true", help="write no file")
    parser.add_argument("--table", action="store_true", help="run nothing; print the committed rates as Markdown")
    asked = parser.parse_args()
    if asked.table:
        committed = json.loads(RATES.read_text(encoding="utf-8"))
        print("\n".join(table(committed, command) for command in ("drift", "nodes")), end="")
        return 0
    found = []
    for kind in KINDS:
        found.append(rates(kind, asked.trials, asked.seed))
        print(f"{kind.command} {kind.name:<52}", found[-1]["found"], found[-1]["right"] or "", flush=True)
    if not asked.print:
        lines = ",\n".join(json.dumps(each) for each in found)
        head = json.dumps({"seed": asked.seed, "trials": asked.trials})[:-1]
        RATES.write_text(f'{head}, "rates": [\n{lines}\n]}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
