#!/usr/bin/env python3
"""Cost of a query over a million records, compacted and as raw JSON Lines.

Generates records from the committed real ones (their whole text, with noise on every figure, and with nodes, GPUs,
drivers and dates that vary), compacts them, and runs the same query on both forms in fresh processes:
the median over jobs of each rate, per workload, parameters, node, GPU and driver.

    analysis/benchmarks/million_records.py --records 1000000 /scratch/million      (needs 7 GB there)

Exits with 1 if, on 2 cores, the query takes more than 6 s or 2 GB on compacted records, or 30 s on raw ones.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import own_python

    own_python.start(__doc__, "numpy", "duckdb", "isthmus")

import numpy as np

from isthmus.records import compact, store

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ("papers/data/h200/transfer.jsonl.gz", "papers/data/h200/driver.jsonl.gz")
VARIANTS = 16  # texts with different noise, per record of a template file
NODES, DRIVERS = 40, ("570.124.06", "575.57.08", "580.159.04")
AIMS = {"compacted": {"seconds": 6, "gigabytes": 2}, "raw": {"seconds": 30}}
QUESTION = """
SELECT workload, axes, node, gpus, driver, count(*) AS jobs, median(value) AS rate
FROM (SELECT workload, axes, node, gpus, driver, job, median(median) AS value FROM measurements
      WHERE metric = 'rate' AND n_invalid = 0 GROUP BY ALL)
GROUP BY ALL ORDER BY rate, workload, axes, node, gpus, driver"""
WANTED = ("workload", "axes", "node", "gpus", "driver", "job", "metric", "median", "n_invalid")


def _varied(metric: dict, chance: np.random.Generator) -> dict:
    """Returns a metric as another job might have measured it: noisy samples and a summary that matches them."""
    factor = float(np.exp(0.03 * chance.standard_normal()))
    samples = np.array(metric["samples"]) * factor * np.exp(0.003 * chance.standard_normal(len(metric["samples"])))
    valid = np.delete(samples, metric["invalid"])
    moved = {name: metric[name] * factor for name in ("mad", "p05", "p95") if metric.get(name)}
    return {**metric, **moved, "samples": samples.tolist(), "median": float(np.median(valid)) if valid.size else None}


def _templates() -> list[list[bytes]]:
    """Returns the variants of each real record, as text with noise on its figures.

    Values that differ between jobs are replaced by \\0word.
    """
    chance = np.random.default_rng(1)
    templates = []
    for path in TEMPLATES:
        for line in gzip.decompress((ROOT / path).read_bytes()).decode().splitlines():
            record = json.loads(line)
            for device in record["devices"]:
                device |= {"driver": "\0driver", "uuid": "\0gpu"}
            record["run"] |= {"node": "\0node", "job": "\0job", "id": "\0run-----", "time": "\0time"}
            templates.append([])
            for _ in range(VARIANTS):
                varied = {**record, "metrics": [_varied(metric, chance) for metric in record["metrics"]]}
                templates[-1].append(json.dumps(varied, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
    return templates


def generate(folder: pathlib.Path, count: int) -> int:
    """Writes `count` records, one file per job as isthmus-bench does; returns their size in bytes."""
    chance = np.random.default_rng(1)
    texts = _templates()
    folder.mkdir(parents=True, exist_ok=True)
    written, total, job = 0, 0, 0
    first = datetime.datetime(2026, 1, 1)
    while written < count:
        job += 1
        number = min(len(texts), count - written)
        when = (first + datetime.timedelta(minutes=20 * job)).strftime("%Y-%m-%dT%H:%M:%SZ")
        node = job % NODES
        words = {
            "driver": DRIVERS[job * len(DRIVERS) * len(texts) // (count + len(texts)) % len(DRIVERS)],
            "gpu": f"GPU-{node:08x}-0000-0000-0000-{job % 4:012x}",
            "node": f"node{node:03d}",
            "job": str(1_000_000 + job),
            "run-----": f"{job:016x}",
            "time": when,
        }
        data = b"".join(text[chance.integers(VARIANTS)] for text in texts[:number])
        for word, value in words.items():
            data = data.replace(b"\\u0000" + word.encode(), value.encode())
        (folder / f"{job:06d}.jsonl").write_bytes(data)
        total += len(data)
        written += number
    return total


def ask(path: str) -> dict:
    """Runs the query; returns the seconds until its answer and the process's peak memory."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    started = time.monotonic()
    with store.open_store([path], wanted=WANTED) as opened:
        rows = opened.sql(QUESTION).fetchall()
    seconds, busy = time.monotonic() - started, time.process_time()
    status = pathlib.Path("/proc/self/status").read_text()  # getrusage() would include the parent's memory
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return {"seconds": seconds, "busy": busy, "gigabytes": peak / 1e9, "rows": len(rows), "first": rows[0]}


def _in_fresh_process(path: pathlib.Path) -> dict:
    command = [sys.executable, __file__, "--ask", str(path)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--ask", action="store_true", help="only put the question to this folder")
    parser.add_argument("folder", type=pathlib.Path)
    asked = parser.parse_args()
    if asked.ask:
        print(json.dumps(ask(str(asked.folder))))
        return 0
    raw, table = asked.folder / "raw", asked.folder / "table"
    if not raw.exists():
        size = generate(raw, asked.records)
        print(f"made {asked.records} records, {size / 1e9:.2f} GB, {size / asked.records:.0f} bytes each", flush=True)
    started = time.monotonic()
    result = compact.compact(raw, table)
    if result["skipped"]:
        print(f"skipped {result['skipped'][0]}")
        return 1
    stored = sum(path.stat().st_size for path in table.rglob("*.parquet"))
    print(f"compacted {result['records']} in {time.monotonic() - started:.1f} s: {stored / 1e9:.2f} GB", flush=True)
    missed, answers = False, []
    for name, path in (("compacted", table), ("raw", raw)):
        for turn in ("first", "second"):
            answer = _in_fresh_process(path)
            answers.append((answer["rows"], answer["first"]))
            misses = [f"{what} < {aim}" for what, aim in AIMS[name].items() if answer[what] >= aim]
            missed |= bool(misses)
            verdict = f"missed: {', '.join(misses)}" if misses else "as aimed"
            print(
                f"{name:<9} {turn:<6} {answer['seconds']:6.2f} s ({answer['busy']:.1f} s of CPU)  "
                f"{answer['gigabytes']:.2f} GB  "
                f"{answer['rows']} rows  {verdict}",
                flush=True,
            )
    if len(set(map(str, answers))) > 1:
        print("the answers differ")
        return 1
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
