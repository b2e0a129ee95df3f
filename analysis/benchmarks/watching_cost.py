"""Cost of watching a program's page faults, measured with pairs of processes: one watched, one not, in random order.

    python analysis/benchmarks/watching_cost.py --pairs 40 --seed 1 -o cost.json -- faults/regular --set bytes=1GiB
    python analysis/benchmarks/watching_cost.py --show cost.json

Arguments after -- are passed to `isthmus-bench run`. The kernel's time (the median of its samples) and the wall time of
each process are stored, and each ratio compares the two processes of a pair. The interval is Student's 95% interval of
the logarithms. Measuring needs only Python; showing needs numpy.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import own_python

    own_python.start(__doc__, "jsonschema")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

METRICS = ("time", "kernel")  # metric of a workload that times itself, and metric of a whole application
MARGIN = 1.05


def fail(sentence):
    sys.exit(f"watching_cost: {sentence}")


def measure(asked, observer):
    """Runs one process; returns the seconds of its kernel and of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "record.jsonl"
        command = [asked.bench, "run", *asked.arguments, "--warmups", str(asked.warmups)]
        command += ["--samples", str(asked.samples), "--record", record, "--quiet"]
        command += ["--observe", observer] if observer else []
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - began
        if done.returncode:
            fail(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        cases = [json.loads(line) for line in record.read_text().splitlines()]
    if len(cases) != 1:
        fail(f"{' '.join(asked.arguments)} are {len(cases)} cases; name one workload, one value of each axis")
    if any(warning["code"] == "uvm_dropped" for warning in cases[0]["warnings"]):
        fail("the driver dropped events, so this was no whole watching; choose a smaller size")
    found = {metric["name"]: metric["samples"] for metric in cases[0]["metrics"]}
    name = next((name for name in METRICS if found.get(name)), None)
    if name is None:
        fail(f"the record has none of {', '.join(METRICS)}: {cases[0]['skipped'] or cases[0]['error']}")
    return {"kernel": statistics.median(found[name]), "wall": wall}


def pairs(asked):
    """Measures all pairs; within each, the two processes run one after the other, in random order."""
    chance = random.Random(asked.seed)
    measured = []
    for number in range(asked.pairs):
        first = chance.choice(("watched", "plain"))
        pair = {"first": first}
        for arm in (first, "plain" if first == "watched" else "watched"):
            pair[arm] = measure(asked, asked.observe if arm == "watched" else None)
        measured.append(pair)
        print(f"pair {number + 1} of {asked.pairs}", end="\r", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return measured


def verdict(low, high):
    if low > 1 / MARGIN and high < MARGIN:
        return "equivalent within 5%"
    if high < 1 / MARGIN or low > MARGIN:
        return "not equivalent within 5%"
    return "whether within 5% cannot be said: more pairs would tell"


def show(path):
    from isthmus.statistics import rank_test  # imported here because it needs numpy

    kept = json.loads(pathlib.Path(path).read_text())
    found = kept["pairs"]
    print(f"{' '.join(kept['arguments'])}, --observe {kept['observe']}, {len(found)} pairs, seed {kept['seed']}")
    if len(found) < 2:
        fail("an interval needs two pairs; measure more")
    for what in ("kernel", "wall"):
        over = [pair["watched"][what] / pair["plain"][what] for pair in found]
        ratio, low, high = rank_test.ratio_interval(over)
        print(f"{what:6}  watched over plain {ratio:.3f} [{low:.3f}, {high:.3f}]: {verdict(low, high)}")
        by_order = [
            [each for each, pair in zip(over, found, strict=True) if pair["first"] == first]
            for first in ("watched", "plain")
        ]
        if all(by_order):
            means = [statistics.geometric_mean(each) for each in by_order]
            print(f"        {means[0]:.3f} of {len(by_order[0])} watched first, {means[1]:.3f} of the others")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--show", metavar="FILE", help="what an earlier run has written; measure nothing")
    parser.add_argument("--bench", default="isthmus-bench", help="the program (default: isthmus-bench of $PATH)")
    parser.add_argument("--observe", default="uvm", help="the observer (default: uvm)")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--samples", type=int, default=1, help="of a process (default: 1)")
    parser.add_argument("--warmups", type=int, default=1, help="before them (default: 1)")
    parser.add_argument("-o", "--output", metavar="FILE", help="keeps every pair")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="after --, those of isthmus-bench run")
    asked = parser.parse_args()
    if asked.show:
        return show(asked.show)
    asked.arguments = asked.arguments[1:] if asked.arguments[:1] == ["--"] else asked.arguments
    if not asked.arguments or not asked.output:
        fail("say where the pairs go (-o FILE) and, after --, what is measured")
    kept = {"arguments": asked.arguments, "observe": asked.observe, "seed": asked.seed, "pairs": pairs(asked)}
    pathlib.Path(asked.output).write_text(json.dumps(kept, indent=1) + "\n")
    try:
        show(asked.output)
    except ImportError as missing:
        print(f"{asked.output} is written; show it where {missing.name} is: --show {asked.output}")
    return None


if __name__ == "__main__":
    main()
