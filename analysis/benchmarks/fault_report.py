#!/usr/bin/env python3
"""Cost of `isthmus faults report` for a million events, as text and as a page, each in a fresh process.

Two traces are used: that of a program with several access patterns, and the worst case, where every event is in a
different range.

    analysis/benchmarks/fault_report.py /scratch/faults

Exits with 1 if a report takes more than 20 s or a page exceeds 10 MB.
"""

from __future__ import annotations

import argparse
import pathlib
import resource
import subprocess
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import own_python

    own_python.start(__doc__, "numpy")

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

import fault_streams

AIMS = {"seconds": 20.0, "megabytes": 10.0}


def _traces(events: int) -> dict[str, np.ndarray]:
    scale = max(1, round(events / len(fault_streams.program().rows())))
    scattered = fault_streams.Stream()
    chance = np.random.default_rng(1)
    # One page in each of many blocks, chosen from every 16th block of a 47-bit address space. Each page is faulted and
    # moved, and becomes a separate range.
    blocks = chance.choice(1 << 22, events // 2, replace=False).astype("u8") * np.uint64(16 * fault_streams.BLOCK)
    scattered.faults(blocks, nearby=0)
    return {"program": fault_streams.program(scale).rows(), "scattered": scattered.rows()}


def _report(trace: pathlib.Path, output: pathlib.Path) -> float:
    command = [sys.executable, "-m", "isthmus", "faults", "report", str(trace), "-o", str(output)]
    begin = time.monotonic()
    subprocess.run(command, check=True, cwd=ROOT / "analysis")
    return time.monotonic() - begin


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N")
    parser.add_argument("folder", type=pathlib.Path)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    missed = False
    for name, rows in _traces(asked.events).items():
        trace = fault_streams.write(folder / f"{name}.1.uvm", rows)
        print(f"{name}: {len(rows)} events, {trace.stat().st_size / 1e6:.1f} MB", flush=True)
        for form in ("html", "csv"):
            output = folder / f"{name}.{form}"
            seconds, size = _report(trace, output), output.stat().st_size / 1e6
            bad = seconds > AIMS["seconds"] or size > AIMS["megabytes"]
            missed |= bad
            print(f"  {form:<5} {seconds:6.2f} s  {size:6.2f} MB  {'missed' if bad else 'as aimed'}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"most memory of a report: {peak:.2f} GB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
