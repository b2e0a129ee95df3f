"""Agreement of docs/end-to-end.md's table of instruction counts with the kept records."""

import collections
import pathlib

from isthmus.records import fields, load

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXACT = {"profiled_registers", "profiled_kernels", "profiled_flops"}
HEAD = "| kernel | count | 13.0 | 12.4 | |"


def test_counts_of_both_toolkits():
    counts = collections.defaultdict(lambda: collections.defaultdict(set))
    for case in load.read(ROOT / "papers/data/end_to_end/counted.jsonl.gz"):
        for name, metric in fields.metrics(case).items() if case["profiler"] else ():
            if name.endswith("_instructions") or name in EXACT:
                label = f"{case['workload'].split('/')[-1]} {case['mode']}"
                counts[label, name.removeprefix("profiled_")][case["devices"][0]["runtime"]].add(metric["median"])
    lines = (ROOT / "docs/end-to-end.md").read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD) + 2
    end = lines.index("", start)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]
    for kernel, count, new, old, ratio in rows:
        of = counts[kernel, count]
        assert of["13.0"] == {float(new)} and of["12.4"] == {float(old)}
        assert ratio == f"×{float(old) / float(new):.4f}"
    shown = {(kernel, count) for kernel, count, *_ in rows}
    assert {key for key, of in counts.items() if of["13.0"] != of["12.4"]} == shown
