"""tests/chain/run on a Slurm of one node of its own, without a GPU: what it leaves, and that it can be red."""

import collections
import json
import os
import subprocess

import pytest

from conftest import HOST, ROOT, needs

pytestmark = needs(HOST)


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Runs steps, and returns the exit code, what was said, and the folder."""
    folder = tmp_path_factory.mktemp("chain")
    select = folder / "checks.txt"
    select.write_text("Memory.*%family=latency%size=tiny\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "SLURM_", "FAKE_", "SITE"))}

    def run(*words):
        done = subprocess.run(
            [ROOT / "tests/chain/run", "--node", "lonely", "--jobs", "2", "--select", select, folder, *words],
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
    assert min(jobs) > 1_000_000, "another machine's jobs, kept beside these, would have their numbers"
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
    """A node without a GPU has no check of them, either."""
    code, said, _ = chain("agree")
    assert code == 1 and "the session 'agree' is red" in said, said


def test_a_session_that_nothing_disturbs_is_told(chain):
    """The emulator's times are held to nothing, so whatever else runs there the session is green."""
    code, said, _ = chain("crowd")
    assert code == 1 and said.endswith("chain: the session beside which the GPU was used is green\n"), said


@pytest.mark.parametrize("words", [["--twice"], ["measure", "again"]])
def test_a_word_that_it_does_not_know(chain, words):
    code, said, _ = chain(*words)
    assert code == 2 and len(said.splitlines()) == 1 and words[-1] in said
