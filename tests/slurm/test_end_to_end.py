"""Tests of tests/end_to_end/run, which starts Slurm on one node without a GPU: what it writes, and that it can fail."""

import collections
import json
import os
import subprocess

import pytest

from conftest import HOST, ROOT, needs

pytestmark = needs(HOST)


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Returns a function that runs steps and returns the exit code, the output, and the folder of results."""
    folder = tmp_path_factory.mktemp("chain")
    select = folder / "checks.txt"
    select.write_text("Memory.*%family=latency%size=tiny\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "SLURM_", "FAKE_", "SITE"))}

    def run(*words):
        done = subprocess.run(
            [ROOT / "tests/end_to_end/run", "--node", "lonely", "--jobs", "2", "--select", select, folder, *words],
            env=clean | {"ISTHMUS_BENCH": str(HOST)}, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout, folder

    return run


def test_jobs_of_a_node_that_was_probed(chain):
    code, said, folder = chain("measure")
    assert code == 0, said
    cases = [
        json.loads(line) for file in folder.glob("records/measure/*.jsonl") for line in file.read_text().splitlines()
    ]
    assert {case["run"]["node"] for case in cases} == {"lonely"}
    jobs = {int(case["run"]["job"]) for case in cases}
    assert len(jobs) == 2
    assert min(jobs) > 1_000_000, "another machine's jobs, kept next to these, would have their numbers"
    assert (folder / "site-configs/one-gpu/reframe.py").is_file()
    code, said, _ = chain("refer")
    assert code == 1 and "8 jobs" in said


def test_jobs_of_several_processes(chain, tmp_path):
    two = tmp_path / "checks.txt"
    two.write_text("# of these only the first\nMemory.*%family=latency%size=tiny\nMemory.*%family=atomics%size=tiny\n")
    code, said, folder = chain("--select", two, "--first", "1", "--processes", "3", "processes")
    assert code == 0, said
    cases = [
        json.loads(line) for file in folder.glob("records/processes/*.jsonl") for line in file.read_text().splitlines()
    ]
    per_job = collections.Counter((case["run"]["job"], case["workload"], str(case["axes"])) for case in cases)
    assert len({job for job, *_ in per_job}) == 2 and set(per_job.values()) == {3}
    assert {workload.split("/")[0] for _, workload, _ in per_job} == {"latency"}


def test_without_the_programs_to_compare_with_it_is_red(chain):
    """Runs the step `agree`, which fails because a node without a GPU has no checks of the yardsticks."""
    code, said, _ = chain("agree")
    assert code == 1 and "the session 'agree' is red" in said, said


def test_a_session_that_nothing_disturbs_is_told(chain):
    """Runs the step `crowd`, which fails because its session is green: the emulator's times have no references."""
    code, said, _ = chain("crowd")
    assert code == 1 and said.endswith(
        "end-to-end: the session during which another program used the GPU is green\n"
    ), said


@pytest.mark.parametrize("words", [["--twice"], ["measure", "again"]])
def test_a_word_that_it_does_not_know(chain, words):
    code, said, _ = chain(*words)
    assert code == 2 and len(said.splitlines()) == 1 and words[-1] in said
