"""Simulates histories with known truth: jobs on nodes, a metric with noise between and within runs, planted events.

`medians()` draws the medians of many jobs at once, to measure rates of wrong verdicts. `write()` writes record files.
"""

import copy
import dataclasses
import datetime
import json
import pathlib
import sys

import numpy as np

from isthmus.records import measurements
from isthmus.statistics import rank_test, series

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "reframe"))
import fake_bench

BASE = fake_bench.record("microbench/saxpy", "pm", "tiny", "cuda") | {"emulated": False}
SECOND = BASE["metrics"][0] | {"name": "time", "unit": "s", "better": "lower", "limit": None, "share": None}


def p_values(sizes):
    """Returns two-sided p-values, indexed by the number of pairs with a < b, for strata of (n, m) untied values."""
    below = np.cumsum(rank_test._design(sizes))
    return np.minimum(1, 2 * np.minimum(below, below[::-1]))


@dataclasses.dataclass
class History:
    """Parameters of a simulated history.

    Standard deviations, the step at the change, and the drift from the first to the last job are shares of the value.
    """

    between: float = 0.01
    within: float = 0.003
    iterations: int = 20
    nodes: int = 1
    node_effect: float = 0.0
    tails: str = "normal"  # or heavy (Student's t with 2 degrees), skewed (log-normal), ties (a coarse timer)
    step: float = 0.0
    drift: float = 0.0


def noise(chance, tails, shape):
    if tails == "heavy":
        return chance.standard_t(2, shape)
    if tails == "skewed":
        return np.exp(chance.standard_normal(shape)) - 1.65
    return chance.standard_normal(shape, dtype=np.float32)


def medians(chance, history, trials, jobs):
    """Returns the logarithms of the medians of jobs before and after the change, as arrays (trials, nodes, jobs)."""
    shape = (trials, history.nodes, 2 * jobs)
    values = history.between * noise(chance, history.tails, shape)
    values += history.node_effect * chance.standard_normal((trials, history.nodes, 1))
    values += history.drift * np.linspace(0, 1, 2 * jobs)
    # Adds noise with about the spread of a median of n iterations, which is a tenth of the noise between jobs.
    values += 1.2533 * history.within / np.sqrt(history.iterations) * noise(chance, "normal", shape)
    values[..., jobs:] += np.log1p(history.step)
    if history.tails == "ties":
        values = np.round(values, 2)
    return values[..., :jobs], values[..., jobs:]


def record(value, *, node="n1", gpu="GPU-1", job="1", time=None, chance=None, within=0.003, driver="570.1", **changes):
    """Returns a record with one metric, `time`, of about `value` seconds."""
    case = copy.deepcopy(BASE)
    metric = copy.deepcopy(SECOND)
    samples = value * (1 + within * (chance.standard_normal(5) if chance else np.zeros(5)))
    metric |= {"samples": samples.tolist(), "median": float(np.median(samples)), "invalid": []}
    case["metrics"] = [metric]
    case["devices"] = [copy.deepcopy(BASE["devices"][0]) | {"driver": driver, "uuid": gpu}]
    time = time or datetime.datetime(2026, 1, 1)
    case["host"]["boot_id"] = f"boot of {node}"
    case["run"] |= {"node": node, "job": job, "id": f"run-{job:>8}", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ")}
    for path, changed in changes.items():
        *outer, last = path.split("__")
        inner = case
        for name in outer:
            inner = inner[int(name) if name.isdigit() else name]
        inner[last] = changed
    return case


def fitting(case):
    """Returns the record with samples that match its medians, because readers compare them."""
    metrics = []
    for metric in case["metrics"]:
        samples, median = metric["samples"], metric["median"]
        left = [value for i, value in enumerate(samples) if i not in metric.get("invalid", [])]
        own = float(np.median(left)) if left else None
        if median is None:
            metric = {**metric, "invalid": list(range(len(samples)))}
        elif left and own != median:
            metric = {**metric, "samples": [v * (median / own) if own else median for v in samples]}
        metrics.append(metric)
    return {**case, "metrics": metrics}


def write(folder, cases, name="records.jsonl"):
    folder.mkdir(parents=True, exist_ok=True)
    cases = [fitting(case) for case in cases]
    (folder / name).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return folder


def jobs_of(history, seed, jobs, *, workloads=("microbench/saxpy",), **changes):
    """Returns records of `jobs` jobs per node before and after a change of the driver from 570 to 580."""
    chance = np.random.default_rng(seed)
    cases = []
    for number, workload in enumerate(workloads):
        before, after = medians(chance, history, 1, jobs)
        for node in range(history.nodes):
            for index, value in enumerate([*before[0, node], *after[0, node]]):
                driver = "570.124.06" if index < jobs else "580.159.04"
                time = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=index)
                where = {"node": f"n{node}", "gpu": f"GPU-{node}", "job": f"{node * 1000 + index}"}
                value = 0.001 * (number + 1) * float(np.exp(value))
                cases.append(
                    record(value, time=time, driver=driver, chance=chance, workload=workload, **where, **changes)
                )
    return cases


def series_of(values, better="lower", metric="time", unit="s"):
    """Returns a series with one job per value. `values` is keyed by side and then by (node, GPU)."""
    key = tuple({"workload": "w", "metric": metric, "unit": unit}.get(name) for name in measurements.SERIES)
    sides = {
        side: [
            series.Job(f"{side}-{node}-{gpu}-{n}", {(node, gpu): float(value)}, frozenset({(node, f"boot of {node}")}))
            for (node, gpu), group in groups.items()
            for n, value in enumerate(group)
        ]
        for side, groups in values.items()
    }
    return series.Series(key, better, None, sides)


def tell(capsys, record_property, text):
    """Prints a measured rate and stores it in the JUnit report, which also has the rates of tests run in parallel."""
    record_property("rate", text)
    with capsys.disabled():
        print(f"\n  {text}", end="")
