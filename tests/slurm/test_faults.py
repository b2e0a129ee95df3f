"""Tests of faults of jobs, nodes, disks and people.

A session with a fault must keep all measured records, must not be green, and must state the reason in one sentence.
"""

import contextlib
import os
import signal

import pytest

from conftest import (
    CLUSTER,
    HANGS,
    ONE,
    ROOT,
    SEVERAL,
    Session,
    checked,
    command,
    expect,
    jobs,
    lost,
    on,
    other_job,
    small_disk,
    stand_in,
    wait_for,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def out_of_time(tmp_path_factory):
    """Starts the sessions that exceed a time limit. They start before the other tests and are checked last, because
    Slurm counts time limits in minutes."""
    folder = tmp_path_factory.mktemp("out-of-time")
    sessions = {
        scheduler: Session(folder / scheduler, *SEVERAL, "-S", "Memory.time_limit=1m", fake=HANGS,
                           site=on(node, scheduler))
        for scheduler, node in (("slurm", "node3"), ("squeue", "node4"))
    }  # fmt: skip
    yield sessions
    for session in sessions.values():
        session.stop()


@pytest.fixture
def hanging(start):
    """Returns hanging(scheduler, node), which starts a session whose program hangs, and returns it with its job's id.

    The job has the node to itself.
    """

    def begin(scheduler="slurm", node="node1"):
        session = start(*SEVERAL, fake=HANGS, site=on(node, scheduler))
        session.record_begun()
        [job] = jobs("R", node)
        return session, job

    return begin


def test_killed_step(hanging, scheduler):
    session, job = hanging(scheduler)
    command("scancel", "--signal=KILL", f"{job}.0")
    expect(session.finish(), "exit code 137 (SIGKILL)", "cut short", "2 whole records are kept")


def test_killed_job_script(hanging, scheduler):
    session, job = hanging(scheduler)
    os.kill(int(command("pgrep", "-f", f"{CLUSTER}/spool/node1/job{int(job):05}/slurm_script")), signal.SIGKILL)
    expect(session.finish(), f"job {job} on node1 ended (FAILED) before it could note the exit code")


def test_scancel(hanging, scheduler):
    session, job = hanging(scheduler)
    command("scancel", job)
    expect(session.finish(), f"job {job} on node1 was cancelled (CANCELLED)")


def test_scancel_before_it_began(start, scheduler):
    with other_job("node1", "--exclusive"):
        session = start(*ONE, site=on("node1", scheduler))
        [job] = wait_for("a pending job", lambda: jobs("PD"))
        command("scancel", job)
        session.finish()
    expect(session, f"job {job} was cancelled", records=0)


@pytest.mark.parametrize("begins", [True, False])
def test_a_stage_folder_that_was_kept_passes_for_nothing(start, scheduler, begins):
    """Cancels the job before it begins or before its program has written results. In both cases, the stage folder still
    contains the previous job's files."""
    settings = {"folder": "same", "site": on("node1", scheduler)}
    kept_stage = (*ONE, "--keep-stage-files", "--dont-restage")
    assert start(*kept_stage, **settings).finish().green
    with contextlib.nullcontext() if begins else other_job("node1", "--exclusive"):
        earlier = jobs("all")
        session = start(*kept_stage, fake="hangs:0", **settings)
        mine = wait_for("the job", lambda: set(jobs("R" if begins else "PD")) - set(earlier))
        if begins:
            session.record_begun()
        command("scancel", *mine)
        session.finish()
    expect(session, "was cancelled (CANCELLED)", records=1)


@pytest.mark.parametrize("field", ["job", "node"])
def test_a_record_of_another_job_is_red(start, scheduler, field):
    session = start(*ONE, fake=f"another:{field}", site=on("node1", scheduler)).finish()
    expect(session, f"the record is of {field} another, ", records=1)


@pytest.mark.parametrize("where", [ONE, ("-n", "NodeBundle", "-S", "checks=modes tiny saxpy pm")])
def test_a_job_that_is_cancelled_after_its_program_is_red(start, tmp_path, scheduler, where):
    """Cancels the job after its program has ended with exit code 0, so that only Slurm reports how the job ended."""
    checks = "reframe/bundles" if "NodeBundle" in where else "reframe/checks"
    stand_in(tmp_path, "squeue", "if [ -e exit_code ]; then touch ended; sleep 30; fi")
    slow = {"prepare_cmds": [f"export PATH={tmp_path}:$PATH"]}
    session = start(*where, checks=checks, site=on("node1", scheduler, **slow))
    wait_for(
        "the end of the program", lambda: [path for path in session.folder.glob("stage/**/ended") if checked(path)]
    )
    command("scancel", *jobs("R", "node1"))
    expect(session.finish(), "was cancelled (CANCELLED)", records=1)


@pytest.mark.parametrize(
    "select, records",
    [
        (("-n", "TransferModes%workload=saxpy%mode=(pm|uvm)%size=tiny"), 1),
        (("-n", "NodeBundle", "-S", "checks=modes tiny saxpy pm,modes tiny saxpy uvm"), 2),
    ],
    ids=["checks", "bundle"],
)
def test_accounting_that_fails_loses_no_record(start, tmp_path, select, records):
    """Makes sacct fail. The session cannot check results, but records of running jobs are kept, and a job that is
    queued because its node is busy is cancelled."""
    begun = f"find {tmp_path} -name begun | grep -q ."
    stand_in(tmp_path, "sacct", f'if {begun}; then echo "no database" >&2; exit 1; fi; exec /usr/bin/sacct "$@"')
    slow = {"prepare_cmds": ["if [ -e cases.sh ] || grep -q -- --rec[o]rd rfm_job.sh; then touch begun; sleep 3; fi"]}
    session = start(*select, checks="reframe/bundles" if "NodeBundle" in select else "reframe/checks",
                    site=on("node1", **slow), PATH=f"{tmp_path}:{os.environ['PATH']}").finish()  # fmt: skip
    assert not session.green and "the session gave up" in session.output and "no database" in session.output
    assert not jobs("R,PD", "node1")
    assert len(session.records) == records


def test_nodes_that_go_down(hanging):
    """Loses two nodes at once, with a session on each, because the controller takes half a minute to give a node up."""
    node_of = {"slurm": "node1", "squeue": "node2"}
    begun = {scheduler: hanging(scheduler, node) for scheduler, node in node_of.items()}
    with lost(*node_of.values()):
        for session, _ in begun.values():
            session.finish()
    for scheduler, (session, job) in begun.items():
        expect(session, f"job {job} on {node_of[scheduler]} lost its node (NODE_FAIL)")


def test_node_that_is_down_in_an_array_leaves_the_others_green(start):
    """Drains one node. The session is red because that node's job does not start in time, but keeps other records."""
    nodes = {"access": ["--partition=main", "--exclusive", "--exclude=node[3-4]"]}
    command("scontrol", "update", "nodename=node1", "state=drain", "reason=test")
    try:
        session = start(*ONE, "--distribute=all", "-S", "TransferModes.max_pending_time=15s", site=nodes).finish()
    finally:
        command("scontrol", "update", "nodename=node1", "state=resume")
    expect(session, "was cancelled (CANCELLED)", records=1)
    assert [record["run"]["node"] for record in session.records] == ["node2"]


def test_full_stage_disk(start, tmp_path, scheduler):
    """Fills the disk before the record is complete, so that not even the exit code can be noted."""
    stage = tmp_path / "stage"
    with small_disk(stage, "64k"):
        (stage / "other").write_bytes(b"x" * 52 * 1024)
        session = start(*ONE, f"--stage={stage}", site=on("node1", scheduler)).finish()
    assert not session.green
    [reason] = session.reasons
    assert f"the file system of {stage}" in reason and "is full" in reason


def test_full_results_disk(start, tmp_path):
    """Fills the disk of the results folder, so that the record stays in the stage folder, which the session names."""
    results = tmp_path / "results"
    with small_disk(results, "4k"):
        (results / "others.txt").write_bytes(b"x" * 4096)
        session = start(*ONE, site=on("node1"), ISTHMUS_RESULTS=results).finish()
        assert [path.name for path in results.iterdir()] == ["others.txt"]
    expect(session, f"could not be kept in {results} (No space left on device)", "it is still in", records=0)
    [left] = session.folder.glob("stage/**/record.jsonl")
    assert str(left) in session.reasons[0] and left.read_text().endswith("}\n")


def test_two_sessions_at_once_lose_nothing(start, tmp_path):
    """Runs two sessions that write into the same results folder, from jobs with the same names."""
    results = tmp_path / "results"
    site = {"access": ["--partition=main", "--exclusive", "--exclude=node[3-4]"]}
    select = ("-n", "TransferModes%workload=saxpy.*size=tiny")
    sessions = [start(*select, site=site, ISTHMUS_RESULTS=results) for _ in range(2)]
    assert all(session.finish().green for session in sessions)
    files = list(results.iterdir())
    assert len(files) == 12 and all(path.read_text().count("\n") == 1 for path in files)
    assert len({path.read_text() for path in files}) == 12  # each job has a different record


def test_shared_node_invalidates_what_was_measured(start):
    shared = on("node1") | {"access": ["--partition=main", "--nodelist=node1", "--mem=1"]}
    statement = {"access": ["--partition=main", "--nodelist=node2", "--mem=1"],
                 "extras": {"isthmus": {"shared_nodes": True}}}  # fmt: skip
    with other_job("node1", "--mem=1") as other, other_job("node2", "--mem=1"):
        session, stated = start(*ONE, site=shared), start(*ONE, site=statement)
        assert stated.finish().green
        session.finish()
    expect(session, f"other jobs ran on the node ({other})", "--exclusive", records=1)
    for record in session.records + stated.records:
        assert [warning["code"] for warning in record["warnings"]] == ["shared_node"]


def test_a_node_that_others_may_use_is_red(start, tmp_path, scheduler):
    """Shares a node. Other jobs may run on it between two queries of squeue unnoticed, or the query itself may fail."""
    stand_in(tmp_path, "squeue", "exit 1")
    blind = {"prepare_cmds": [f"export PATH={tmp_path}:$PATH"]}
    access = ["--partition=main", "--nodelist=node1", "--mem=1"]
    session = start(*ONE, site=on("node1", scheduler, access=access, **blind)).finish()
    expect(session, "whether other jobs ran on the node could not be determined (squeue failed there)", records=1)
    session = start(*ONE, site=on("node1", scheduler, access=access)).finish()
    expect(session, "the job did not have its nodes to itself", "--exclusive", records=1)
    # A job that has all processors of the node leaves none to others. An exclusive job does not need squeue.
    whole = start(*ONE, site=on("node1", scheduler, access=[*access, "--cpus-per-task=2"]))
    alone = start(*ONE, site=on("node2", scheduler, **blind))
    assert whole.finish().green and alone.finish().green


def test_an_environment_that_does_not_reach_the_program_is_named(start, scheduler):
    site = on("node1", scheduler, prepare_cmds=["export SLURM_EXPORT_ENV=NONE"])
    expect(start(*ONE, site=site).finish(), "the record names no system, so the job's environment did not", records=1)


def test_records_of_a_session_that_was_killed_are_kept(start, scheduler):
    """Kills a session, whose job continues, and starts another session in its folder."""
    settings = {"folder": "same", "site": on("node1", scheduler)}
    first = start(*ONE, fake="stays:20", **settings)
    first.record_begun()
    first.process.kill()
    first.process.wait()
    second = start(*ONE, **settings).finish()
    assert second.green and "Kept 1 record that an earlier session left in" in second.output
    assert len({record["run"]["id"] for record in second.records}) == 2


def test_interrupted_session_keeps_what_was_measured(hanging):
    session, job = hanging()
    session.process.send_signal(signal.SIGINT)
    session.finish()
    assert session.process.returncode != 0
    assert len(session.records) == 2
    wait_for("the job's end", lambda: job not in jobs("R"))


@pytest.mark.parametrize("scheduler", ["slurm", "squeue"])
def test_time_limit(out_of_time, scheduler):
    expect(out_of_time[scheduler].finish(), "ran into its time limit (TIMEOUT)")


def test_nothing_was_left_on_the_nodes(out_of_time):
    """Checks that no process remains from the jobs that earlier tests killed."""
    for session in out_of_time.values():
        session.stop()
    wait_for("no job", lambda: not command("squeue", "-h"))
    wait_for("no process of a job", lambda: not command(ROOT / "tests/slurm/throwaway", "processes", CLUSTER))
