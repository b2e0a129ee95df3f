"""Simulates unkind histories with known truth, and measures how often `isthmus regress` is wrong about them.

  python tests/python/unkind.py             writes unkind_rates.json next to this file (takes an hour of CPU time)
  python tests/python/unkind.py --trials 200 --sessions 20 --print
  python tests/python/unkind.py --table     prints the committed rates as in docs/false-alarms.md

Nothing changes between the sides of a history unless its kind has a change. Verdicts are computed on arrays;
test_unkind.py shows that the command reaches the same verdicts.
"""

import argparse
import dataclasses
import datetime
import functools
import json
import math
import multiprocessing
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "analysis"))

import histories

from isthmus.statistics import clusters, design, parts, rank_test, series
from isthmus.verdicts import judging, unlike

RATES = pathlib.Path(__file__).with_name("unkind_rates.json")
SEED = 17
METRICS = 500
VERDICTS = ("regressed", "improved", "changed-but-small", "equivalent", "inconclusive")


@dataclasses.dataclass(frozen=True)
class Kind:
    """Kind of history: how its jobs depend on each other. Standard deviations and steps are shares of the value.

    One job per day runs on one node. With several nodes, each runs one job every night, six minutes apart.
    """

    name: str
    jobs: int = 8  # number of jobs per side and node
    nodes: int = 1
    gpus: int = 1  # number of GPUs per job
    boots: int = 0  # number of boots per side and node; 0 if both sides run in the same boot
    job: float = 0.01
    night: float = 0.0  # standard deviation of nights, common to all nodes but separate for each metric
    boot: float = 0.0
    boot_levels: float = 0.0  # distance between two levels, one of which each boot has
    known: int = 0  # number of boots in an earlier history, which shows how much boots differ
    node: float = 0.0
    gpu: float = 0.0  # standard deviation between GPUs that is the same in all jobs
    inside: float = 0.0  # standard deviation between GPUs within a job
    follows: float = 0.0  # autocorrelation of successive jobs on a node
    shared: float = 0.0  # share of the variance between jobs that all metrics have in common
    outliers: float = 0.0  # share of jobs that are a fifth slower
    tails: str = "normal"
    step: float = 0.0
    part: float = 0.0  # share by which the first node, or the first GPU of one node, is slower after the change
    turns: bool = False  # whether jobs of both sides run in pairs in random order, as in `isthmus trial`
    margin: str = "1%"  # "1%", or "noise" if it is derived from an earlier A/A run


KINDS = (
    Kind("independent, 5 jobs", jobs=5, job=0.02),
    Kind("independent, 8 jobs", margin="noise"),
    Kind("independent, 20 jobs", jobs=20, job=0.02),
    Kind("independent, a boot for each of 8 jobs", boots=8, job=0.02),
    Kind("independent, 4 nodes, 4 nights", jobs=4, nodes=4, job=0.01),
    Kind("autocorrelated 0.6, 5 jobs", jobs=5, follows=0.6, job=0.02),
    Kind("autocorrelated 0.6, 8 jobs", follows=0.6, job=0.02),
    Kind("autocorrelated 0.6, 20 jobs", jobs=20, follows=0.6, job=0.02),
    Kind("autocorrelated 0.6, 80% shared, 5 jobs", jobs=5, follows=0.6, shared=0.8, job=0.02),
    Kind("autocorrelated 0.6, 80% shared, 8 jobs", follows=0.6, shared=0.8, job=0.02),
    Kind("autocorrelated 0.6, 80% shared, 12 jobs", jobs=12, follows=0.6, shared=0.8, job=0.02),
    Kind("autocorrelated 0.6, 80% shared, 20 jobs", jobs=20, follows=0.6, shared=0.8, job=0.02),
    Kind("two levels a boot, 5% apart, one a side", boots=1, boot_levels=0.05, job=0.005),
    Kind("two levels a boot, 5% apart, 5 a side", jobs=10, boots=5, boot_levels=0.05, job=0.005),
    Kind("boots differ by 2%, one a side, 10 known", boots=1, boot=0.02, job=0.005, known=10),
    Kind("nights differ by 0.3%, 4 nodes, 4 nights", jobs=4, nodes=4, night=0.003, job=0.003),
    Kind("nights differ by 1%, 4 nodes, 4 nights", jobs=4, nodes=4, night=0.01, job=0.01),
    Kind("nights differ by 2%, 4 nodes, 4 nights", jobs=4, nodes=4, night=0.02, job=0.003),
    Kind("nights differ by 0.3%, 8 nodes, 5 nights", jobs=5, nodes=8, night=0.003, job=0.003),
    Kind("nights differ by 1%, 8 nodes, 5 nights", jobs=5, nodes=8, night=0.01, job=0.01),
    Kind("nights differ by 2%, 8 nodes, 5 nights", jobs=5, nodes=8, night=0.02, job=0.003),
    Kind("nodes differ by 10%, 4 nodes, 5 nights", jobs=5, nodes=4, node=0.10, job=0.02),
    Kind("8 GPUs a job, 8 jobs", gpus=8, gpu=0.03, inside=0.003, job=0.02),
    Kind("heavy tails (t, 2 degrees), 8 jobs", tails="heavy"),
    Kind("heavy tails (t, 2 degrees), 8 nodes, 5 nights", jobs=5, nodes=8, tails="heavy"),
    Kind("5% of jobs a fifth slower, 8 jobs", outliers=0.05),
    Kind("5% of jobs a fifth slower, 8 nodes, 8 nights", jobs=8, nodes=8, outliers=0.05),
    Kind("job noise shared by all metrics (80%)", shared=0.8, job=0.02),
    Kind("autocorrelated 0.6, 8 jobs in turns", follows=0.6, job=0.02, turns=True),
    Kind("a step of 5%, 5 jobs", jobs=5, step=0.05),
    Kind("a step of 3%, 8 jobs", step=0.03),
    Kind("a step of 5%, 4 nodes, 4 nights", jobs=4, nodes=4, step=0.05),
    Kind("one node of 8 slower by 10%, 4 nights", jobs=4, nodes=8, part=0.10),
    Kind("one node of 8 slower by 10%, 8 nights", jobs=8, nodes=8, part=0.10),
    Kind("one GPU of 8 slower by 10%, 8 jobs", gpus=8, gpu=0.03, inside=0.01, job=0.01, part=0.10),
)


# --- histories ---


@functools.lru_cache(maxsize=64)
def jobs_of(kind: Kind) -> tuple[list[series.Job], list[series.Job]]:
    """Returns the jobs of both sides, without figures, in the order in which they run."""
    sides = []
    for side in range(2):
        jobs = []
        for job in range(kind.jobs):
            for node in range(kind.nodes):
                name = f"n{node}"
                boot = f"{side} {job * kind.boots // kind.jobs}" if kind.boots else "one"
                places = {(name, f"G{gpu} of {name}"): math.nan for gpu in range(kind.gpus)}
                time = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=side * kind.jobs + job, minutes=6 * node)
                jobs.append(series.Job(f"{side}-{node}-{job:02}", places, frozenset({(name, boot)}), time))
        sides.append(jobs)
    return sides[0], sides[1]


def _following(chance, kind: Kind, shape) -> np.ndarray:
    """Returns noise with standard deviation 1. The last axis is the jobs of a node, in the order in which they run."""
    noise = np.array(histories.noise(chance, kind.tails, shape), float)
    for i in range(1, shape[-1]):
        noise[..., i] = kind.follows * noise[..., i - 1] + math.sqrt(1 - kind.follows**2) * noise[..., i]
    return noise


def _turns(chance, n: int) -> np.ndarray:
    """Returns the positions in time, out of 2 n, of the jobs of side A, followed by those of side B."""
    pairs = chance.permuted(np.arange(2 * n).reshape(n, 2), axis=1)
    return np.concatenate([pairs[:, 0], pairs[:, 1]])


def values(chance, kind: Kind, sessions: int, metrics: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values of both sides, as two arrays (sessions, metrics, jobs, GPUs) with jobs as in jobs_of()."""
    n, nodes = kind.jobs, kind.nodes
    shape = (sessions, metrics, nodes, 2 * n)
    logs = math.sqrt(1 - kind.shared) * _following(chance, kind, shape)
    if kind.shared:
        logs += math.sqrt(kind.shared) * _following(chance, kind, (sessions, 1, nodes, 2 * n))
    logs *= kind.job
    which = np.arange(2 * n) // n
    if kind.boots:
        boot = which * kind.boots + np.arange(2 * n) % n * kind.boots // n
        of_boots = (*shape[:3], 2 * kind.boots)
        logs += kind.boot * chance.standard_normal(of_boots)[..., boot]
        logs += kind.boot_levels * (chance.random(of_boots) < 0.5)[..., boot]
    logs += kind.night * chance.standard_normal((sessions, metrics, 1, 2 * n))
    logs += kind.node * chance.standard_normal((*shape[:3], 1))
    logs += 0.2 * (chance.random(shape) < kind.outliers)
    if kind.turns:
        logs = logs[..., _turns(chance, n)]
    logs[..., n:] += math.log1p(kind.step)
    if kind.nodes > 1:
        logs[:, :, 0, n:] += math.log1p(kind.part)
    by_gpu = np.repeat(logs[..., None], kind.gpus, axis=-1)
    if kind.gpus > 1:
        by_gpu += kind.gpu * chance.standard_normal((*shape[:3], 1, kind.gpus))
        by_gpu += kind.inside * chance.standard_normal((*shape, kind.gpus))
        by_gpu[..., n:, 0] += math.log1p(kind.part)
    by_gpu = np.exp(by_gpu).swapaxes(2, 3).reshape(sessions, metrics, 2 * n * nodes, kind.gpus)
    return by_gpu[:, :, : n * nodes], by_gpu[:, :, n * nodes :]


def known_spread(chance, kind: Kind, sessions: int, metrics: int) -> np.ndarray:
    """Returns the standard deviation between the means of boots in an earlier history of each metric, as an array
    (sessions, metrics)."""
    shape = (sessions, metrics, kind.known)
    means = kind.boot * chance.standard_normal(shape)
    return np.std(means + kind.job / math.sqrt(kind.jobs) * chance.standard_normal(shape), axis=2, ddof=1)


def margin(kind: Kind) -> float:
    return judging.margin(math.hypot(kind.job, kind.boot) if kind.margin == "noise" else None)


def records(kind: Kind, a: np.ndarray, b: np.ndarray) -> list[dict]:
    """Returns the records of one session, made from the values (metrics, jobs, GPUs) of both sides."""
    cases = []
    for of_side, jobs, driver in zip((a, b), jobs_of(kind), ("570.1", "580.1")):
        for metric, row in enumerate(of_side):
            for job, gpus in zip(jobs, row):
                ((_, boot),) = job.boots
                for (node, gpu), value in zip(job.places, gpus):
                    where = {"node": node, "gpu": gpu, "job": job.name, "time": job.time, "driver": driver}
                    case = histories.record(float(value), **where, host__boot_id=f"{node} {boot}")
                    cases.append(case | {"workload": f"microbench/w{metric:03}"})
    return cases


# --- verdicts ---


def verdicts(kind: Kind, a: np.ndarray, b: np.ndarray, spread=None) -> tuple[np.ndarray, list[rank_test.Order]]:
    """Returns verdicts, as indices of VERDICTS in an array (sessions, metrics), and the test of each session's order.

    `a` and `b` are as returned by values(). `spread` (sessions, metrics) is that of boots in an earlier history.
    """
    figures = np.concatenate([a, b], axis=2).reshape(*a.shape[:2], -1)
    plan = design.of(*jobs_of(kind))
    a, b = (np.log(side.mean(axis=3)) for side in (a, b))
    pairs = plan.pairs(a, b)
    orders = [rank_test.order([side[i] for pair in pairs for side in pair]) for i in range(len(a))]
    if spread is not None:
        plan = design.of(*jobs_of(kind), boots=False)
        pairs = plan.pairs(a, b)
    delta = math.log1p(margin(kind))
    cut = rank_test.cut(plan.sizes, 1 - rank_test.BOUND)
    every = sum(n * m for n, m in plan.sizes)

    def wins(shift):
        shift = np.asarray(shift)[..., None, None]
        return sum(rank_test.wins(x[..., None, :] + shift, y[..., None, :]) for x, y in pairs)

    p = histories.p_values(plan.sizes)[wins(0.0)]
    away = 0.0
    if spread is not None:
        error = spread * math.sqrt(2 / kind.nodes)
        freedom = min(kind.known - 1, judging.TAILS)
        away = error * rank_test.student_quantile(1 - rank_test.BOUND, freedom)
        estimates = np.median((b[..., None, :] - a[..., :, None]).reshape(*p.shape, -1), axis=2)
        p = np.maximum(p, np.vectorize(rank_test.student_p)(estimates / error, freedom))
    higher, lower = wins(delta + away) > every - cut, wins(-delta - away) < cut
    inside = (wins(-delta + away) > every - cut) & (wins(delta - away) < cut)
    excluded = (wins(away) > every - cut) | (wins(-away) < cut)
    if cut == 0:
        higher, lower, inside = (np.zeros(p.shape, bool) for _ in range(3))
    together, t = np.concatenate([a, b], axis=2), rank_test.distance(pairs)
    for level in plan.levels if spread is None and not kind.turns else ():
        found = clusters.compare(level, together)
        ends = [found.estimate + sign * found.away(rank_test.BOUND) for sign in (-1, 1)]
        p, t = np.maximum(p, found.p), np.minimum(t, rank_test.in_errors(found.estimate, found.error))
        higher, lower = higher & (ends[0] > delta), lower & (ends[1] < -delta)
        inside, excluded = inside & (ends[0] >= -delta) & (ends[1] <= delta), excluded & (ends[0] * ends[1] > 0)
    sure = (p <= rank_test.ALPHA) & (np.array([rank_test.adjusted(row) for row in p]) <= rank_test.SESSION)
    guarded = np.array([order.guarded and not kind.turns for order in orders])[:, None]
    guarded = guarded & ((t < judging.GUARD) | (min(plan.units) < judging.GUARD_UNITS))
    found = np.full(p.shape, VERDICTS.index("inconclusive"))
    found[inside] = VERDICTS.index("equivalent")
    found[inside & sure & excluded] = VERDICTS.index("changed-but-small")
    found[sure & higher & ~guarded] = VERDICTS.index("regressed")
    found[sure & lower & ~guarded] = VERDICTS.index("improved")
    if not kind.turns:
        found[[order.bars for order in orders]] = VERDICTS.index("inconclusive")
    with_parts(kind, found, figures, together, [order.bars and not kind.turns for order in orders])
    return found, orders


def _spreads(logs: np.ndarray, plan: design.Design) -> np.ndarray:
    """Returns the same as rank_test.spread() for jobs within strata and sides, but for many metrics at once."""
    distances, of_a = [], plan.jobs_of_sides()[0]
    for members, _ in plan.members():
        for own in (members[np.isin(members, of_a)], members[~np.isin(members, of_a)]):
            first, second = np.triu_indices(len(own), 1)
            distances.append(np.abs(logs[..., own[first]] - logs[..., own[second]]))
    return np.median(np.concatenate(distances, axis=-1), axis=-1) / 0.9539


def with_parts(kind: Kind, found: np.ndarray, figures: np.ndarray, logs: np.ndarray, barred: list[bool]) -> None:
    """Changes verdicts according to single nodes, GPUs and tails, as verdicts/unlike.py does for a single series."""
    jobs = jobs_of(kind)
    plan = design.of(*jobs)
    layout = unlike.layout_of(*jobs, plan)
    places = parts.compare(layout, parts.entries(layout, figures, True)) if layout else None
    least = places.p().min(axis=-1) * len(layout.places) if places else np.ones(found.shape)
    spreads = _spreads(logs, plan)
    for session in range(len(found)):
        results = []
        for metric in range(found.shape[1]):
            each = judging.Result("", VERDICTS[found[session, metric]], better="lower", delta=margin(kind))
            each.barred = "order" if barred[session] else ""
            if least[session, metric] <= unlike.DOUBT:
                of_metric = {
                    name: getattr(places, name)[session, metric] for name in ("own", "more", "error", "values")
                }
                each.parts = unlike.of_places(layout, dataclasses.replace(places, **of_metric), each)
            tail = unlike.tail_of(logs[session, metric], each, plan, spreads[session, metric], below=False)
            each.parts += [tail] if tail else []
            results.append(each)
        unlike.settle(results)
        found[session] = [VERDICTS.index(each.verdict) for each in results]


# --- rates ---


def _share(found: np.ndarray) -> list[float]:
    """Returns a share and its Monte Carlo error over the independent trials, which are the first axis."""
    by_trial = np.asarray(found, float).reshape(len(found), -1).mean(1)
    return [round(float(by_trial.mean()), 5), round(float(by_trial.std() / math.sqrt(len(by_trial))), 5)]


def _of(kind: Kind, chance, trials: int, metrics: int) -> dict:
    chunk = 1 if kind.turns else max(1, 200_000 // (metrics * kind.nodes * kind.jobs * kind.gpus))
    parts, orders = [], []
    for first in range(0, trials, chunk):
        count = min(chunk, trials - first)
        spread = known_spread(chance, kind, count, metrics) if kind.known else None
        found, looked = verdicts(kind, *values(chance, kind, count, metrics), spread)
        parts.append(found)
        orders += looked
    found = np.concatenate(parts)
    rates = {verdict: _share(found == i) for i, verdict in enumerate(VERDICTS)}
    alarms = found <= VERDICTS.index("improved")
    rates["alarms"] = _share(alarms)
    rates["with an alarm"] = _share(alarms.any(axis=1))
    rates["order matters"] = _share(np.array([order.autocorrelated or order.drifts for order in orders]))
    rates["order testable"] = _share(np.array([order.testable for order in orders]))
    return rates


def rates(kind: Kind, *, trials: int, sessions: int, seed: int = SEED) -> dict:
    """Returns the rate of each verdict, for one metric alone and for METRICS together, with Monte Carlo errors."""
    which = [each.name for each in KINDS].index(kind.name)
    alone = _of(kind, np.random.default_rng([seed, which, 1]), trials, 1)
    together = _of(kind, np.random.default_rng([seed, which, 2]), sessions, METRICS) if sessions else None
    return {"kind": dataclasses.asdict(kind), "margin": margin(kind), "alone": alone, "together": together}


#: Kinds in the table of docs/statistics.md; docs/false-alarms.md has all kinds.
CHOSEN = (
    "independent, 8 jobs", "autocorrelated 0.6, 8 jobs", "autocorrelated 0.6, 80% shared, 8 jobs",
    "two levels a boot, 5% apart, one a side", "nights differ by 1%, 4 nodes, 4 nights",
    "nights differ by 2%, 8 nodes, 5 nights", "heavy tails (t, 2 degrees), 8 jobs", "a step of 5%, 5 jobs",
    "one node of 8 slower by 10%, 8 nights", "one GPU of 8 slower by 10%, 8 jobs",
)  # fmt: skip


def table(committed: dict, chosen: tuple[str, ...] = ()) -> str:
    """Returns the committed rates of all kinds, or of the chosen kinds, as a Markdown table."""

    def told(share, error):
        return f"{share:.2%} ± {error:.2%}" if 0 < share < 1 else f"{share:.0%}"

    lines = [
        "| history | found, alone | found, of 500 | sessions | inconclusive, alone | of 500 |",
        "|---|---|---|---|---|---|",
    ]
    kinds = {each["kind"]["name"]: each for each in committed["rates"]}
    for each in (kinds[name] for name in chosen or kinds):
        alone, together = each["alone"], each["together"]
        cells = (
            alone["alarms"], together["alarms"], together["with an alarm"], alone["inconclusive"],
            together["inconclusive"],
        )  # fmt: skip
        lines.append(f"| {' | '.join([each['kind']['name'], *(told(*cell) for cell in cells)])} |")
    return "\n".join(lines) + "\n"


def write(found: list[dict], head: dict) -> None:
    """Writes the rates to the file RATES, with one line per kind."""
    lines = ",\n".join(json.dumps(each) for each in found)
    RATES.write_text(f'{json.dumps(head)[:-1]}, "rates": [\n{lines}\n]}}\n', encoding="utf-8")


def _tell(each: dict) -> None:
    told = [each["alone"]["alarms"], each["alone"]["inconclusive"]]
    if each["together"]:
        told += [each["together"][name] for name in ("alarms", "with an alarm", "inconclusive", "order matters")]
    print(f"{each['kind']['name']:<50} {'  '.join(f'{x:.2%} ± {error:.2%}' for x, error in told)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--print", action="store_true", help="write no file")
    parser.add_argument("--table", action="store_true", help="run nothing; print the committed rates as Markdown")
    asked = parser.parse_args()
    if asked.table:
        print(table(json.loads(RATES.read_text(encoding="utf-8"))), end="")
        return 0
    found = []
    of = functools.partial(rates, trials=asked.trials, sessions=asked.sessions, seed=asked.seed)
    with multiprocessing.Pool(asked.processes) as pool:
        for each in pool.imap(of, KINDS):
            found.append(each)
            _tell(each)
    if not asked.print:
        write(found, {"seed": asked.seed, "trials": asked.trials, "sessions": asked.sessions, "metrics": METRICS})
    return 0


if __name__ == "__main__":
    sys.exit(main())
