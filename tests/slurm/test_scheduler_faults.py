"""Tests of faults of Slurm, its nodes and folders: a session is red with one sentence, or continues unaffected.

Each test states whether its fault is harmless. With a harmless fault, the session is green and keeps its record once.
"""

import contextlib
import os
import subprocess

import pytest

from conftest import (
    CLUSTER,
    HANGS,
    ONE,
    RANKED,
    ROOT,
    SEVERAL,
    checked,
    command,
    expect,
    jobs,
    needs,
    on,
    other_job,
    small_disk,
    stand_in,
    wait_for,
)  # fmt: skip


@contextlib.contextmanager
def failing(hook, node):
    """Makes the prolog or epilog fail on the node, which Slurm then drains; resumes the node at the end."""
    sign = CLUSTER / f"fail.{hook}.{node}"
    sign.touch()
    try:
        yield
    finally:
        sign.unlink()
        command("scontrol", "update", f"nodename={node}", "state=resume")


# Condition in a job script: true in the job of a check, false in the job that lists the workloads.
OF_THE_CHECK = "grep -q -- --rec[o]rd rfm_job.sh"


def harmless(session, records=1):
    assert session.green
    assert len(session.records) == records


def test_prolog_that_fails(start):
    with failing("prolog", "node1"):
        session = start(*ONE, site=on("node1")).finish()
    expect(session, "on node1 was cancelled (CANCELLED) before the program ended", records=0)


def test_epilog_that_fails(start):
    with failing("epilog", "node1"):
        harmless(start(*ONE, site=on("node1")).finish())


def test_a_job_that_slurm_starts_again(start):
    """Requeues a job, whose first record is kept. --no-requeue overrides the site's options until somebody changes the
    job."""
    session = start(*SEVERAL, fake=HANGS, site=on("node1", access=[*on("node1")["access"], "--requeue"]))
    session.record_begun()
    [job] = jobs("R", "node1")
    requeue = ["scontrol", "requeue", job]
    assert "disabled" in subprocess.run(requeue, capture_output=True, text=True, check=False).stderr
    command("scontrol", "update", f"jobid={job}", "Requeue=1")
    command(*requeue)
    wait_for("the second start", lambda: job in jobs("PD"))
    command("scontrol", "update", f"jobid={job}", "StartTime=now+3")  # so the second start is in a later second
    expect(session.finish(), f"Slurm started job {job} a second time (it was requeued)", "run the check again")


def in_place_of(folder, name, script):
    """Returns settings of a session in which `script` runs before Slurm's command `name`."""
    stand_in(folder, name, f'{script}\nexec /usr/bin/{name} "$@"')
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_squeue_that_fails_once(start, tmp_path):
    """Makes squeue fail once, while the job sleeps before its program starts."""
    failed, begun = tmp_path / "failed", f"find {tmp_path} -name begun | grep -q ."
    once = in_place_of(tmp_path, "squeue", f"if {begun} && [ ! -e {failed} ]; then touch {failed}; exit 1; fi")
    slow = {"prepare_cmds": [f"{OF_THE_CHECK} && touch begun && sleep 4"]}
    harmless(start(*ONE, site=on("node1", "squeue", **slow), **once).finish())
    assert failed.exists()


def test_sacct_that_knows_a_job_late(start, tmp_path):
    asked = tmp_path / "asked"
    late = in_place_of(tmp_path, "sacct", f"echo >> {asked}; if [ $(wc -l < {asked}) -le 3 ]; then exit 0; fi")
    harmless(start(*ONE, site=on("node1"), **late).finish())


@pytest.mark.parametrize(
    "state, words",
    [("OUT_OF_MEMORY", "was killed for its use of memory (OUT_OF_MEMORY)"), ("PREEMPTED", "was preempted (PREEMPTED)")],
)
def test_what_sacct_says_counts(start, tmp_path, state, words):
    other = in_place_of(tmp_path, "sacct", f'/usr/bin/sacct "$@" | sed "s/|COMPLETED|/|{state}|/"; exit 0')
    expect(start(*ONE, site=on("node1"), **other).finish(), f"on node1 {words}", records=1)


def test_daemons_that_restart_under_a_job(start, tmp_path):
    """Restarts the controller and the node's daemon after the program has ended and before its job ends."""
    go = tmp_path / "go"
    stand_in(tmp_path, "squeue", f"if [ -e exit_code ]; then touch ended; while [ ! -e {go} ]; do sleep 0.1; done; fi")
    session = start(*ONE, site=on("node1", prepare_cmds=[f"export PATH={tmp_path}:$PATH"]))
    wait_for("the end of the program", lambda: any(session.folder.glob("stage/**/ended")))
    for daemon in ("slurmctld", "node1"):
        command(ROOT / "tests/slurm/throwaway", "restart", CLUSTER, daemon)
    go.touch()
    harmless(session.finish())


def test_a_job_that_slurm_refuses(start):
    session = start(*ONE, site={"access": ["--partition=main", "--account=nobody"]}).finish()
    expect(session, "command 'sbatch rfm_job.sh' failed with exit code 1", records=0)
    assert "Invalid account or account/partition combination specified" in session.output


def test_a_job_array_is_refused(start):
    """Requests a job array, which is refused because its tasks would overwrite each other's records."""
    session = start(*ONE, "-J", "array=1-2", site=on("node1")).finish()
    expect(session, "a job array would measure into one folder; leave --array out", records=0)


def test_read_only_stage(start, tmp_path):
    stage = tmp_path / "stage"
    mount = f"mount --bind {stage} {stage} && mount -o remount,bind,ro {stage} && cd $PWD"
    with small_disk(stage, "1m"):
        session = start(*ONE, f"--stage={stage}", site=on("node1", prepare_cmds=[mount])).finish()
        command("umount", "--lazy", stage)
    expect(session, "is read-only: the job could not note the exit code", records=0)


def test_read_only_results(start, tmp_path):
    results = tmp_path / "results"
    with small_disk(results, "1m"):
        command("mount", "-o", "remount,ro", results)
        session = start(*ONE, site=on("node1"), ISTHMUS_RESULTS=results).finish()
    expect(session, f"could not be kept in {results} (Read-only file system); it is still in", records=0)


def test_stage_folder_that_is_gone_before_the_job_begins(start):
    with other_job("node1", "--exclusive"):
        session = start(*ONE, site=on("node1"))
        wait_for("a pending job", lambda: jobs("PD"))
        [script] = [path for path in session.folder.glob("stage/**/rfm_job.sh") if checked(path)]
        script.parent.rename(script.parent.with_name("away"))
    expect(session.finish(), f"the stage folder {script.parent} is gone: something removed it", records=0)


@needs(RANKED)
def test_a_rank_that_dies(start, tmp_path):
    """Kills the second of two ranks."""
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\n[ "$SLURM_PROCID" != 1 ] || kill -9 $$\nexec {RANKED} "$@"\n')
    program.chmod(0o755)
    session = start("-n", "MpiTransfer%workload=host-host/send%size=tiny", bench=program, site=on("node1")).finish()
    expect(session, "and wrote none (srun: error: node1: task 1: Killed)", records=0)
