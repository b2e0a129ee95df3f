"""Commands that remain to be run for the papers: they measure everything that is missing, and the program accepts
them."""

import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest
from histories import record, write

from isthmus_papers import exhibits, remaining

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "papers/data/published/exhibits.yaml"
PAPERS = """
papers:
  - name: P
    title: A paper
    exhibits:
"""
PART = """
      - exhibit: Figure %d
        what: something
        parts: [{what: it, records: {workload: %s, metric: %s}%s}]
"""


@pytest.fixture(scope="module")
def committed():
    return exhibits.measured([ROOT / "papers/data"])


def read(tmp_path, *parts):
    """Returns papers with one figure per part; a part is (workload and other fields, metric, further keys)."""
    path = tmp_path / "table.yaml"
    path.write_text(PAPERS + "".join(PART % (number, *part) for number, part in enumerate(parts, 1)))
    return exhibits.load(path)


def lines(text):
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def rows_of(commands, metrics):
    """Yields the rows that exhibits.measured() would return after the commands have run."""
    for each in commands:
        for values in itertools.product(*each.fields.values()):
            wanted = [m for m in metrics if m.startswith("profiled_") == bool(each.how.profiler)]
            for metric in wanted:
                yield dict(zip(each.fields, values, strict=True)) | {
                    "metric": metric, "_host": "n1", "_processes": each.how.runs, "_samples": 9, "_first": None,
                    "_last": None, "_files": ["d/r.jsonl"],
                }  # fmt: skip


@pytest.mark.parametrize("known", ["none", "committed"])
def test_the_commands_measure_all_that_is_missing(committed, known):
    papers = exhibits.load(TABLE)
    rows = committed if known == "committed" else []
    made = remaining.commands(papers, rows)
    parts = [part for paper in papers for exhibit in paper.exhibits for part in exhibit.parts if part.kind == "records"]
    metrics = {metric for part in parts for metric in dict(part.wanted)["metric"]}
    after = rows + list(rows_of(made, metrics))
    assert [part.what for part in parts if not exhibits.find(part, rows).whole]
    assert not [part.what for part in parts if not exhibits.find(part, after).whole]
    cases = sum(len(exhibits.find(part, rows).cases) for part in parts)
    assert len(made) < cases / 8
    last = made.pop()  # each command is needed
    after = rows + list(rows_of(made, metrics))
    assert [part.what for part in parts if not exhibits.find(part, after).whole], last


def dry_runs(text):
    """Returns all commands of the script, including those in comments."""
    return [line.lstrip("# ") for line in text.splitlines() if line.lstrip("# ").startswith("isthmus-bench ")]


def test_the_program_takes_each_command(tmp_path, committed):
    bench = os.environ.get("ISTHMUS_TEST_BENCH")
    if not bench:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    papers = exhibits.load(TABLE)
    commands = dict.fromkeys(
        line for rows in (committed, []) for line in dry_runs(remaining.script(papers, rows))
    )  # fmt: skip
    assert len(commands) > 60
    # A GPU with this memory must suffice for all cases.
    emulator = "devices=2,peer=1,memory=48GiB"
    environment = os.environ | {"ISTHMUS_EMULATOR": emulator, "ISTHMUS_RESULTS": str(tmp_path)}
    said = []
    for line in commands:
        words = shlex.split(re.sub(r"--observe \w+", "", line))[1:]  # observation needs NVIDIA's driver
        done = subprocess.run([bench, *words, "--dry-run"], capture_output=True, text=True, env=environment)
        unfit = "of device memory" in done.stdout
        copied = "--observe uvm" in line and re.search(r"^\S+ (pageable|pinned|streamed|pool)\b", done.stdout, re.M)
        if done.returncode or unfit or copied or not re.search(r"\d+ cases? in all|\d+ cases?,", done.stdout):
            said.append((line, done.stdout[-300:], done.stderr))
    assert not said


def test_alike_cases_are_one_command(tmp_path):
    papers = read(
        tmp_path,
        ("microbench/saxpy, mode: [pm, uvm], size: [large, mega]", "kernel", ""),
        ("[microbench/saxpy, microbench/gemv], mode: pm, size: mega", "in", ""),
        ("microbench/saxpy, size: mega", "out", ""),
    )
    assert lines(remaining.script(papers, [])) == [
        "isthmus-bench run microbench/saxpy --mode pm,uvm --size large --samples 5",
        "isthmus-bench run microbench/saxpy --mode pm,uvm --size mega --samples 3",
        "isthmus-bench run microbench/gemv --mode pm --size mega --samples 3",
    ]
    assert "\n# P Figure 1, P Figure 2, P Figure 3\nisthmus-bench run microbench/saxpy" in remaining.script(papers, [])


@pytest.mark.parametrize("part, said", [
    (("transfer/gpu0-gpu1/ce, bytes: [1, 2]", "rate", ""), "# Needs two GPUs:\n\n# P Figure 1\nisthmus-bench run "
     "transfer/gpu0-gpu1/ce --set bytes=1,2\n"),
    (("apps/lud", "profiled_global_rate", ""), "# Needs ncu, a run for each case"),
    (("apps/lud", "profiled_gpu_page_faults", ""), "#   isthmus-bench run apps/lud --samples 1\n"),
    (("stream/cpu/triad", "profiled_cpu_page_faults", ""), "# Needs perf, a run for each case"),
    (("faults/regular", "[time, uvm_batches]", ""), "isthmus-bench run faults/regular --observe uvm --samples 3\n"),
    (("faults/regular", "[uvm_batches, uvm_every_batch]", ""),
     "isthmus-bench run faults/regular --observe uvm_brief --samples 3\n\n# No command"),
    (("microbench/gemv", "time", ", runs: 30"), "isthmus-bench run microbench/gemv --processes 30 --samples 1\n"),
])  # fmt: skip
def test_what_a_command_needs_is_said(tmp_path, part, said):
    assert said in remaining.script(read(tmp_path, part), [])


def test_records_are_looked_at(tmp_path):
    written = write(tmp_path / "r", [record(0.001, workload="transfer/a-b/ce", axes={"bytes": 1})])
    [has, lacks] = [exhibits.measured([written]), []]
    papers = read(tmp_path, ("transfer/a-b/ce, bytes: [1, 2]", "time", ""))
    assert lines(remaining.script(papers, has)) == ["isthmus-bench run transfer/a-b/ce --set bytes=2"]
    assert lines(remaining.script(papers, lacks)) == ["isthmus-bench run transfer/a-b/ce --set bytes=1,2"]


def test_the_script_takes_records(tmp_path):
    written = write(tmp_path / "r", [record(0.001, workload="transfer/a-b/ce", axes={"bytes": 1})])
    papers = [sys.executable, ROOT / "papers/exhibits", "--missing"]
    done = subprocess.run([*papers, written], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == remaining.script(exhibits.load(TABLE), exhibits.measured([written]))
    syntax = subprocess.run(["bash", "-n"], input=done.stdout, capture_output=True, text=True)
    assert syntax.returncode == 0, syntax.stderr
    absent = subprocess.run([*papers, tmp_path / "absent"], capture_output=True, text=True)
    assert absent.returncode == 2 and absent.stdout == "" and len(absent.stderr.splitlines()) == 1
