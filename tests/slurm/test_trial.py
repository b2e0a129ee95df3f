"""Tests of trials, which plan a change as an experiment, run it as arrays of jobs, and conclude with one verdict.

Another test drains a slow node.
"""

import os
import shlex
import subprocess
import types

import pytest

from conftest import FAKE, HOST, NODES, command, jobs, needs, wait_for
from isthmus import cli

MEASURE = f'{shlex.quote(str(FAKE))} run microbench/saxpy --mode pm --record "$ISTHMUS_RESULTS/$SLURM_JOB_ID.jsonl"'
CHANGE = ["--from", "driver=570", "--to", "driver=580", "--jobs", "3"]


def plan(folder, *options, nodes=NODES):
    assert cli.main(["trial", "plan", str(folder), "--nodes", ",".join(nodes), *options]) == 0
    return folder


def submit(folder, part, **environment):
    """Submits a part of a trial and returns the ids of its job arrays."""
    done = subprocess.run([folder / "submit", part], env={**os.environ, **environment},
                          stdout=subprocess.PIPE, text=True, timeout=180, check=True)  # fmt: skip
    return [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("Submitted")]


def all_done():
    wait_for("an empty queue", lambda: not command("squeue", "-h"))


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Runs two trials at once: in `step` a new driver makes everything 5% slower, in `none` it has no effect.

    In `none`, one node is slower than the others, the folder has a hostile name, and the last task before the change on
    node2 is cancelled.
    """
    folder = tmp_path_factory.mktemp("trials")
    step = plan(folder / "step", *CHANGE, "--command", MEASURE,
                "--setup-before", "FAKE_DRIVER=570.1 FAKE_BENCH=gpu:cuda,varies:0 # as it was",
                "--setup-after", "FAKE_DRIVER=580.1 FAKE_BENCH=gpu:cuda,varies:5")  # fmt: skip
    wait = folder / "wait"
    wait.touch()
    none = plan(
        folder / "it's [a] 'trial' %j $(id)", *CHANGE, "--command",
        f"while [[ $SLURMD_NODENAME.$SLURM_ARRAY_TASK_ID == node2.2 && -e {wait} ]]; do sleep 0.1; done\n"
        f"case $SLURMD_NODENAME in node3) worse=30 ;; *) worse=0 ;; esac\nFAKE_BENCH=gpu:cuda,varies:$worse {MEASURE}",
    )  # fmt: skip
    arrays = submit(none, "before", FAKE_DRIVER="570.1")
    submit(none, "after", FAKE_DRIVER="580.1")
    split = submit(step, "both")
    task = none / "tasks/before.node2.2"
    wait_for("the task that is cancelled", task.exists)
    command("scancel", f"{arrays[1]}_2")
    wait.unlink()
    all_done()
    return types.SimpleNamespace(step=step, none=none, split=split)


def read(folder, capsys):
    """Returns the exit code and the output joined to one line, because line breaks depend on the figures."""
    capsys.readouterr()
    code = cli.main(["trial", "read", str(folder)])
    return code, " ".join(capsys.readouterr().out.split())


def test_a_step_is_found(trials, capsys):
    code, said = read(trials.step, capsys)
    assert code == 1 and said.startswith("verdict: regressed")
    assert "12 jobs against 12, 18 series: 17 regressed, 1 " in said and said.count(" as 12+12 pairs") >= 15
    # The cluster's MaxArraySize is too small for the six tasks of a node, so each node needs two arrays.
    assert len(trials.split) == 8


def test_a_lost_task_is_told_and_runs_again(trials, capsys):
    code, said = read(trials.none, capsys)
    assert code == 3
    assert "note: task 2 of before on node2 (before) began but did not end" in said
    assert "1 of 3 jobs before on node2 are missing" in said
    assert len(submit(trials.none, "before", FAKE_DRIVER="570.1")) == 1
    all_done()
    # Nothing changed: node3 is slow before and after. So few jobs cannot exclude a change of 1% in every series.
    code, said = read(trials.none, capsys)
    assert code == 3 and said.startswith("verdict: inconclusive") and "12 jobs against 12" in said
    assert "regressed" not in said and "improved" not in said and "note: task" not in said
    assert "not identifiable: nights of all nodes" in said
    assert submit(trials.none, "before") == []


def test_the_slow_node_is_drained(trials, capsys):
    """Drains the slow node with the commands that `isthmus nodes --help` describes."""
    capsys.readouterr()
    assert cli.main(["nodes", str(trials.none / "records"), "--drain"]) == 1
    found = capsys.readouterr().out
    script = 'while IFS=$\'\\t\' read -r node why; do scontrol update nodename="$node" state=drain reason="$why"; done'
    subprocess.run(["bash", "-c", script], input=found, text=True, check=True)
    try:
        told = command("sinfo", "-h", "-t", "drain", "-o", "%N %E").splitlines()
        assert len(told) == 1 and told[0].startswith("node3 slow: ") and "% worse than 3 equals over" in told[0]
    finally:
        command("scontrol", "update", "nodename=node3", "state=resume")
    assert cli.main(["nodes", str(trials.none / "records"), "--drain", "--metric", "memory_peak"]) == 0
    assert capsys.readouterr().out == ""


def test_an_unknown_node_gets_no_job_nor_do_the_others(tmp_path):
    folder = plan(tmp_path / "t", *CHANGE, "--command", "true", nodes=("node1", "node9"))
    refused = subprocess.run([folder / "submit", "before"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "submit: Node node9 not found" in refused.stderr
    assert not jobs("R,PD")


@needs(HOST)
def test_what_the_c_library_does_is_found(tmp_path, capsys):
    """Finds a change outside this project: with MALLOC_PERTURB_, malloc fills the memory that it returns.

    The real program records the boot of this machine on every node of the cluster, so the trial has one node.
    """
    name = "MALLOC_PERTURB_"
    folder = plan(tmp_path / "t", "--from", f"environment.{name}=0", "--to", f"environment.{name}=165",
                  "--setup-before", f"{name}=0", "--setup-after", f"{name}=165", "--jobs", "12",
                  "--command", f"{HOST} run alloc/pageable --set bytes=64KiB --quiet", nodes=NODES[:1])  # fmt: skip
    submit(folder, "both")
    all_done()
    code, said = read(folder, capsys)
    assert code == 1 and said.startswith("verdict: regressed")
    assert "regressed alloc/pageable small bytes=64KiB alloc " in said
