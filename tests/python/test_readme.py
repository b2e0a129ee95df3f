"""Tests that README's code blocks run unchanged, one after the other.

tests/readme/run runs those that need a build or a session.
"""

import gzip
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import readme_blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = readme_blocks.commands((ROOT / "README.md").read_text(encoding="utf-8"))
#: Commands that build, measure, or need the results of such commands.
LONG = ("make run", "reframe ", "build/current/", ". .venv/", "isthmus faults run")


def test_blocks_are_found():
    text = "a\n    one   # why\n    two \\\n      three\nb\n"
    assert readme_blocks.commands(text) == ["one", "two three"]
    assert len(COMMANDS) > 10 and COMMANDS[0] == "make run"
    assert not any(word in command for command in COMMANDS for word in ("…", "FILE", "PROGRAM", "<"))


def run_in(folder, listed):
    """Runs commands in a folder with the committed records. Returns the exit code and the output."""
    for name in ("examples", "papers/data/end_to_end"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "bin").mkdir()
    (folder / "bin/isthmus").write_text(f'#!/bin/sh\nexec {sys.executable} -m isthmus "$@"\n')
    (folder / "bin/isthmus").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "analysis")}
    done = subprocess.run(["bash"], input=readme_blocks.script(listed), text=True, cwd=folder, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
    return done.returncode, done.stdout


def test_what_reads_records_runs_verbatim(tmp_path):
    short = [command for command in COMMANDS if not command.startswith(LONG) and not command.startswith("isthmus site")]
    assert sum(command.startswith("isthmus ") for command in short) >= 3
    code, said = run_in(tmp_path, short)
    assert code == 0 and "README: every block works" in said, said


@pytest.mark.parametrize("broken", ["isthmus compare old new", "build/cuda/bin/isthmus-bench list"])
def test_a_block_that_does_not_work_is_named(tmp_path, broken):
    code, said = run_in(tmp_path, ["true", broken, "echo not here"])
    assert code == 1 and f"README: this does not work: {broken}" in said and "\nnot here" not in said


def lines(path):
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        return file.readlines()


@pytest.mark.parametrize("system", ["h100", "h200"])
def test_examples_are_kept_records(system):
    kept = {line for path in (ROOT / "papers/data" / system).glob("*.jsonl*") for line in lines(path)}
    examples = lines(ROOT / "examples/records" / system / "pm-medium.jsonl.gz")
    assert len(examples) == 7 and kept.issuperset(examples)
