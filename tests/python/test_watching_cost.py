"""Tests of analysis/benchmarks/watching_cost.py.

A planted cost is found, no cost is reported as equivalent, and failures are reported.
"""

import json
import pathlib
import random
import re
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "analysis/benchmarks/watching_cost.py"
# Stub of isthmus-bench, which copies the prepared output of each arm's nth call. It is a shell script because it is
# started very often.
BENCH = """#!/bin/sh
arm=plain
case " $* " in *" --observe "*) arm=watched ;; esac
while [ "$1" != --record ]; do shift; done
echo $arm >>"$0.log"
cp "$0.$arm.$(wc -l <"$0.log")" "$2"
"""


def run(tmp_path, *options, pairs=8, cost=1.0, warnings=(), cases=1):
    bench = tmp_path / "bench"
    bench.write_text(BENCH)
    bench.chmod(0o755)
    noise = random.Random(1)
    for call in range(1, 2 * pairs + 1):
        for arm, factor in (("plain", 1), ("watched", cost)):
            seconds = (1 + noise.gauss(0, 0.005)) * factor
            case = {"metrics": [{"name": "kernel", "samples": [9 * seconds, seconds, seconds / 9]}], "skipped": None,
                    "error": None, "warnings": list(warnings)}  # fmt: skip
            (tmp_path / f"bench.{arm}.{call}").write_text((json.dumps(case) + "\n") * cases)
    command = [sys.executable, SCRIPT, "--bench", bench, "-o", tmp_path / "cost.json", "--pairs", str(pairs), *options]
    return subprocess.run([*command, "--", "faults/regular"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("cost, says", [(1.13, "not equivalent"), (1.0, "equivalent"), (1.05, "cannot be said")])
def test_the_kernels_ratio_has_an_interval_and_a_verdict(tmp_path, cost, says):
    done = run(tmp_path, "--seed", "3", cost=cost)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("kernel")]
    low, high = (float(each) for each in line.split("[")[1].split("]")[0].split(", "))
    assert low < cost < high and high - low < 0.04
    assert says in line and ("not equivalent" in line) == (cost == 1.13)
    assert "wall" in done.stdout


def test_the_order_is_drawn_by_the_seed_and_each_pair_is_kept(tmp_path):
    assert run(tmp_path, "--seed", "3").returncode == 0
    order = (tmp_path / "bench.log").read_text().split()
    kept = json.loads((tmp_path / "cost.json").read_text())
    assert [pair["first"] for pair in kept["pairs"]] == order[::2]
    assert len(order) == 16 and 0 < order[::2].count("watched") < 8
    assert all({order[i], order[i + 1]} == {"watched", "plain"} for i in range(0, 16, 2))
    (tmp_path / "bench.log").unlink()
    run(tmp_path, "--seed", "3")
    assert (tmp_path / "bench.log").read_text().split() == order


def test_what_is_no_pair_ends_in_a_sentence(tmp_path):
    for how, says in (({"warnings": [{"code": "uvm_dropped"}]}, "dropped events"), ({"cases": 2}, "are 2 cases")):
        done = run(tmp_path, pairs=2, **how)
        assert done.returncode == 1 and says in done.stderr and done.stderr.count("watching_cost:") == 1


@pytest.mark.parametrize("observer", ["uvm", "uvm_batches"])
def test_the_page_says_what_the_kept_pairs_say(observer):
    root = SCRIPT.parents[2]
    said = subprocess.run(
        [sys.executable, SCRIPT, "--show", root / f"papers/data/h200/watching/{observer}.json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    page = " ".join((root / "docs/uvm.md").read_text().split())
    (kernel, wall), pairs = re.findall(r"plain (\S+) \[(\S+), (\S+)\]", said), re.search(r"(\d+) pairs", said).group(1)
    assert f"{pairs} pairs of fresh processes" in page and wall[0] in page
    assert re.search(rf"{kernel[0]} times[^.]*, (95% )?{kernel[1]} to {kernel[2]}", page)
