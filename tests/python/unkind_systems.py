"""Measures how often `isthmus compare` and `isthmus score` are wrong about systems whose truth is known.

  python tests/python/unkind_systems.py             runs every world, as in docs/false-alarms.md (takes some minutes)
  python tests/python/unkind_systems.py --trials 100

In a world, nights (shared by all nodes of a system), nodes, boots of a node, jobs of a boot, and GPUs each have noise,
half of which all metrics of a job share. Both systems are equal, so an interval is right if it contains a ratio of 1.
With one node, that node's level is the truth. Ranking a system above its equal is a false ranking.
"""

import argparse
import dataclasses
import datetime
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))

from isthmus.records import measurements
from isthmus.statistics import series
from isthmus.verdicts import compare, score

SEED = 29


@dataclasses.dataclass(frozen=True)
class World:
    """Parameters of the two systems. Standard deviations are shares of the value. All nodes are restarted together,
    once per night."""

    nodes: int
    boots: int  # number of boots per node
    jobs: int = 2  # number of jobs per boot
    gpus: int = 1  # number of GPUs per node; each job uses one
    night: float = 0.0
    node: float = 0.01
    boot: float = 0.01
    job: float = 0.01
    gpu: float = 0.005
    other: int = 0  # number of boots of the second system if it differs, or else 0
    noisier: float = 1.0  # factor by which the second system's noise is larger
    tails: str = "normal"

    @property
    def name(self) -> str:
        parts = [
            f"{self.nodes} × {self.boots} × {self.jobs}"
            + (f" against {self.nodes} × {self.other}" if self.other else "")
        ]
        parts += [f"night {self.night:.1%}"] if self.night else []
        parts += [f"nodes {self.node:.0%}"] if self.node != 0.01 and self.nodes > 1 else []
        parts += [f"boots {self.boot:.1%}"] if self.boot != 0.01 else []
        parts += [f"{self.gpus} GPUs"] if self.gpus > 1 else []
        parts += [f"noise ×{self.noisier:g}"] if self.noisier != 1 else []
        return ", ".join(parts + ([self.tails] if self.tails != "normal" else []))


WORLDS = (
    *(World(1, boots) for boots in (2, 3, 4, 8)),
    World(1, 4, jobs=1), World(1, 2, jobs=4, boot=0.0), World(1, 4, noisier=3.0), World(1, 2, other=8),
    World(1, 8, gpus=8, gpu=0.02), World(1, 8, tails="heavy"),
    *(World(nodes, boots, night=0.02) for nodes in (2, 4, 8) for boots in (2, 8)),
    *(World(nodes, 4) for nodes in (2, 4, 8)),
    World(4, 4, node=0.0, boot=0.0), World(8, 5, night=0.003), World(4, 4, node=0.05),
    World(8, 2, node=0.0, night=0.02),
    World(4, 4, gpus=4, gpu=0.02, night=0.01), World(4, 4, night=0.01, noisier=3.0), World(8, 4, tails="heavy"),
)  # fmt: skip
UNIDENTIFIABLE = (World(1, 1, jobs=8), World(4, 1, night=0.02), World(8, 1, night=0.02))


def _noise(chance, tails: str, shape) -> np.ndarray:
    if tails == "heavy":
        return chance.standard_t(3, shape) / math.sqrt(3)
    return chance.standard_normal(shape)


def logs(chance, world: World, metrics: int, boots: int, scale: float) -> np.ndarray:
    """Returns the logarithms of one system's values, as an array (metrics, nodes, boots, jobs). All metrics share half
    of each part's variance."""

    def part(size, *shape):
        shared, own = (_noise(chance, world.tails, (count, *shape)) for count in (1, metrics))
        return size * scale * math.sqrt(0.5) * (shared + own)

    n, b, j = world.nodes, boots, world.jobs
    values = part(world.job, n, b, j) + part(world.boot, n, b, 1) + part(world.night, 1, b, 1)
    values = values + (part(world.node, n, 1, 1) if n > 1 else 0.0)
    if world.gpus > 1:  # in a system of one node, the mean of its GPUs is the node's level
        own = part(world.gpu, n, world.gpus)
        own -= own.mean(axis=2, keepdims=True) if n == 1 else 0.0
        which = chance.integers(0, world.gpus, (n, b, j))
        places = np.broadcast_to(which.reshape(1, n, -1), (metrics, n, b * j))
        values = values + np.take_along_axis(own, places, 2).reshape(metrics, n, b, j)
    return values


def system(name: str, values: np.ndarray) -> compare.System:
    """Returns a system with a series for each metric, in which successive boots are one day apart."""
    start = datetime.datetime(2026, 1, 1)
    found = {}
    for metric, of_metric in enumerate(np.exp(values)):
        fields = {"workload": f"w{metric}", "metric": "rate", "unit": "B/s"}
        key = tuple(fields.get(column) for column in measurements.SERIES)
        jobs = [
            series.Job(
                f"{node}-{boot}-{job}", {(f"{name}{node}", ""): float(of_metric[node, boot, job])},
                frozenset({(f"{name}{node}", f"{name}{node} {boot}")}),
                start + datetime.timedelta(days=boot, minutes=10 * job),
            )
            for node, boot, job in np.ndindex(of_metric.shape)
        ]  # fmt: skip
        found[key] = series.Series(key, "higher", None, {"A": jobs})
    return compare.System(name, found, {})


def trial(chance, world: World, metrics: int) -> tuple[bool | None, bool | None, bool]:
    """Simulates two equal systems. Returns whether compare's interval for one metric contains the truth, whether
    score's interval does, and whether the systems are ranked differently.

    The first two are None if there is no interval.
    """
    a = system("a", logs(chance, world, metrics, world.boots, 1.0))
    b = system("b", logs(chance, world, metrics, world.other or world.boots, world.noisier))
    _, cell = compare.cells([a, b], next(iter(a.series)))
    assert cell is not None
    held = None if cell.low is None or cell.high is None else cell.low <= 1 <= cell.high
    counted, _ = score.terms({"w* rate": 1}, [a, b])
    ranked = score.scores([a, b], counted, "a")
    [of_b] = [each for each in ranked if each.name == "b"]
    scored = None if of_b.low is None or of_b.high is None else of_b.low <= 1 <= of_b.high
    return held, scored, len({each.ranks for each in ranked}) > 1


def rates(world: World, trials: int, *, metrics: int = 3, seed: int = SEED) -> dict[str, tuple[float, float] | None]:
    """Returns the coverage of both commands' intervals and the share of false rankings, each with its Monte Carlo
    error. A share is None if there were no intervals."""
    chance = np.random.default_rng([seed, *map(ord, world.name)])
    columns = zip(*(trial(chance, world, metrics) for _ in range(trials)))
    found: dict[str, tuple[float, float] | None] = {}
    for name, column in zip(("compare", "score", "ranked"), columns):
        known = [value for value in column if value is not None]
        share = float(np.mean(known)) if known else math.nan
        found[name] = (share, math.sqrt(share * (1 - share) / len(known))) if known else None
    return found


def row(world: World, found: dict) -> str:
    cells = (f"{each[0]:.1%} ± {each[1]:.1%}" if each else "no interval" for each in found.values())
    return f"| {world.name} | {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    heads = (
        "nodes × boots × jobs of each system", "`compare` contains the truth", "`score` contains the truth",
        "equals ranked differently",
    )  # fmt: skip
    print(f"| {' | '.join(heads)} |\n|---|---|---|---|")
    for world in (*WORLDS, *UNIDENTIFIABLE):
        print(row(world, rates(world, asked.trials, seed=asked.seed)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
