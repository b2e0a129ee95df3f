"""Fixtures for ReFrame sessions on the throwaway cluster that tests/slurm/run has started, and for injecting faults."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from faults import HOST, ROOT  # noqa: F401, tests import HOST from this module

FAKE = ROOT / "tests/reframe/fake_bench.py"
RANKED = ROOT / "build/host-mpi/bin/isthmus-bench"
CLUSTER = pathlib.Path(os.environ.get("SLURM_CONF", "none")).parent
REFRAME = pathlib.Path(sys.executable).with_name("reframe")
NODES = ["node1", "node2", "node3", "node4"]


def needs(program):
    return pytest.mark.skipif(not program.exists(), reason=f"{program} is not built")


def command(*words, check=True):
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, timeout=180, check=check)
    return done.stdout.strip()


def wait_for(what, condition, seconds=180):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    pytest.fail(f"{what}: not within {seconds} s")


def jobs(state, node=None):
    """Returns the ids of the jobs in a state, such as R or PD, on all nodes or on `node`."""
    return command("squeue", "-h", "-t", state, "-o", "%A", *(["-w", node] if node else [])).split()


class Session:
    """Running ReFrame session; finish() waits for its end."""

    def __init__(self, folder, *options, bench=FAKE, fake="", site=None, checks="reframe/checks", **environment):
        self.folder, self.results = folder, folder / "results"
        folder.mkdir(parents=True, exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "ISTHMUS_", "FAKE_", "SITE"))}
        settings = {
            "ISTHMUS_BENCH": bench, "FAKE_BENCH": fake, "FAKE_CATALOGUE": ROOT / "reframe/checks/catalogue.json",
            "SITE": json.dumps(site or {}), "OMPI_MCA_rmaps_base_oversubscribe": 1, "TMPDIR": folder, **environment,
        }  # fmt: skip
        with (folder / "session.log").open("w") as output:
            self.process = subprocess.Popen(
                [REFRAME, "-C", ROOT / "tests/slurm/site.py", "-c", ROOT / checks, "--nocolor", f"--prefix={folder}",
                 f"--report-file={folder}/report.json", "-r", *options],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=clean | {k: str(v) for k, v in settings.items()},
                # A shell that starts the tests in the background makes them and all their children ignore Ctrl-C.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip

    def finish(self, seconds=600):
        try:
            self.process.wait(seconds)
        finally:
            self.process.kill()
            print(self.output)
        return self

    def stop(self):
        """Ends the session as Ctrl-C does: ReFrame cancels its jobs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()

    @property
    def output(self):
        return (self.folder / "session.log").read_text()

    @property
    def green(self):
        return self.process.returncode == 0 and "FAILED" not in self.output

    @property
    def reasons(self):
        """Returns the reasons why checks failed, one line per check."""
        return re.findall(r"^  \* Reason: (.*)$", self.output, re.MULTILINE)

    @property
    def records(self):
        return [json.loads(line) for path in self.results.glob("*.jsonl") for line in path.read_text().splitlines()]

    @property
    def results_left_aside(self):
        return [path for path in self.results.iterdir() if path.suffix != ".jsonl"]

    def record_begun(self):
        """Waits until a job has begun to write its record, or the session has ended."""
        wait_for("a record", lambda: any(self.folder.glob("stage/**/record.jsonl")) or self.process.poll() is not None)


@pytest.fixture(params=["slurm", "squeue"])
def scheduler(request):
    return request.param


@pytest.fixture
def start(tmp_path):
    """Returns start(options…, fake=…, site=…), which starts and returns a Session, by default in a new folder."""
    sessions = []

    def begin(*options, folder=None, **settings):
        sessions.append(Session(tmp_path / (folder or str(len(sessions))), *options, **settings))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.stop()


@contextlib.contextmanager
def small_disk(folder, size):
    """Mounts a separate file system of `size` on `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False).returncode:
        pytest.skip("a file system of a small size needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def other_job(node, *options):
    """Runs a job that is not the session's on the node; yields its id."""
    job = command("sbatch", "--parsable", "-w", node, "-o", "/dev/null", *options, "--wrap", "sleep 600")
    wait_for("the other job", lambda: job in jobs("R", node))
    try:
        yield job
    finally:
        command("scancel", job)


@contextlib.contextmanager
def lost(*nodes):
    """Kills everything on the nodes, as a power cut would; restores the nodes afterwards."""
    for node in nodes:
        command(ROOT / "tests/slurm/throwaway", "lose", CLUSTER, node)
    try:
        yield
    finally:
        for node in nodes:
            command(ROOT / "tests/slurm/throwaway", "restore", CLUSTER, node)
        wait_for("idle nodes", lambda: command("sinfo", "-h", "-n", ",".join(nodes), "-o", "%T") == "idle")


# --- common parts of tests of faults ---

# Options and misbehaviour (`fake`). With both, a session has one job whose program runs several cases, finishes two and
# hangs while it writes the record of the third.
SEVERAL = ("-n", "Memory%family=stream%size=tiny")
HANGS = "hangs:2"
ONE = ("-n", "TransferModes%workload=saxpy%mode=pm%size=tiny")


def on(node, scheduler="slurm", **settings):
    return {"scheduler": scheduler, "access": ["--partition=main", "--exclusive", f"--nodelist={node}"], **settings}


def expect(session, *words, records=2):
    """Checks that the session failed for one reason that contains these words, and kept `records` records."""
    assert not session.green
    [reason] = session.reasons
    for word in words:
        assert word in reason
    assert len(session.records) == records
    assert not session.results.exists() or not session.results_left_aside


def checked(path):
    """Returns whether a file belongs to the job of a check, and not to the job that lists the workloads."""
    return "Listing" not in str(path)


def stand_in(folder, name, script):
    """Writes a command that replaces Slurm's command of this name if `folder` comes first on PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
