"""What a scheduler says of a job: how it ended, what it was granted, with whom it shared its nodes, where ranks ran.

docs/slurm.md has the table of what a session shows in each case.
"""

import calendar
import functools
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import slurm

ANALYSIS = str(pathlib.Path(__file__).resolve().parents[2] / "analysis")
if ANALYSIS not in sys.path:  # a check file may import this before isthmus_check
    sys.path.insert(0, ANALYSIS)

from isthmus import spelling

SLURM = ("slurm", "squeue")  # two of ReFrame's schedulers, one batch system
OTHER_JOBS = "other_jobs"
RESTARTED = "restarted"

#: What each launcher takes to bind a rank to a core, by ReFrame's name for it.
BIND_TO_CORES = {
    "srun": "--cpu-bind=cores",
    "mpirun": "--bind-to core",
    "mpiexec": "--bind-to core",
    "pals": "--cpu-bind core",
}

CLOCKS_APART = 300  # seconds by which a node's clock may differ from that of the session's host

# States in which a scheduler says why a job ended before its program.
_ENDS = {
    "BOOT_FAIL": "had nodes that did not start",
    "CANCELLED": "was cancelled",
    "DEADLINE": "ran into its deadline",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "was killed for its use of memory",
    "PREEMPTED": "was preempted",
    "REVOKED": "was given to another cluster",
    "TIMEOUT": "ran into its time limit",
}


def _end_the_preempted():
    """ReFrame waits for ever for a job that was preempted, as if it were queued again; --no-requeue has it end."""
    original = slurm.slurm_state_completed
    if hasattr(original, "isthmus_gate"):
        return

    @functools.wraps(original)
    def slurm_state_completed(state):
        return original(state and re.sub("PREEMPTED|REVOKED", "CANCELLED", state))

    slurm_state_completed.isthmus_gate = True
    slurm.slurm_state_completed = slurm_state_completed


_end_the_preempted()


def in_slurm(job) -> bool:
    return job is not None and job.scheduler.registered_name in SLURM


# Others on the nodes of this job, noted before and after the run. One line of a job script each; what fails is silent.
_OTHERS = (
    'timeout 10 squeue -h -t R -w "$SLURM_JOB_NODELIST" -o %A 2>/dev/null'
    ' | grep -vx "$SLURM_JOB_ID" {} ' + OTHER_JOBS + " || true"
)
_NOTE_OTHERS, _NOTE_OTHERS_TOO = _OTHERS.format(">"), _OTHERS.format(">>")
_NOTE_SHARING = (
    'export ISTHMUS_JOB_SHARING=$(timeout 10 scontrol show job -o "$SLURM_JOB_ID" 2>/dev/null'
    " | grep -o 'OverSubscribe=[A-Z]*' | cut -d= -f2)"
)
# A job that Slurm starts again measures nothing: the records of its first start are all there is, and stay.
_END_WHERE_RESTARTED = f'if [ "${{SLURM_RESTART_COUNT:-0}}" != 0 ]; then rm -f exit_code; touch {RESTARTED}; exit 1; fi'


def prepare(check) -> None:
    """Adds to a check's job what a measurement needs of the batch system, whatever the site.

    Raises ReframeError for an array: its tasks would write into one folder, each over the other's record.
    """
    if not in_slurm(check.job):
        return
    options = (*check.job.sched_access, *check.job.options, *check.job.cli_options)
    given = [word for option in options for word in option.split()]
    if any(re.match("--array|-a", word) for word in given):
        raise ReframeError("a job array would measure into one folder; leave --array out, --distribute names the nodes")
    # A job that is started again after its node failed would hide that. A site's own --requeue comes after this one.
    check.job.options.append("--no-requeue")
    pathlib.Path(check.stagedir, RESTARTED).unlink(missing_ok=True)
    check.prerun_cmds = [_END_WHERE_RESTARTED, *check.prerun_cmds, _NOTE_SHARING, _NOTE_OTHERS]
    # Else srun lets ranks wait for one that has died until the job's time is over.
    check.env_vars["SLURM_KILL_BAD_EXIT"] = "1"
    check.postrun_cmds.append(_NOTE_OTHERS_TOO)


def others(stagedir) -> list[str]:
    """Ids of jobs that ran on the same nodes while this one measured."""
    try:
        return sorted(set((pathlib.Path(stagedir) / OTHER_JOBS).read_text().split()))
    except OSError:
        return []


def foreign(case: dict, job, system: str, partition: str) -> str | None:
    """Why a record is not of this job: another's, another node's, or of another time."""
    run = case["run"]
    for what, recorded, own in (("system", run["system"], system), ("partition", run.get("partition"), partition)):
        if recorded != own:
            return f"the record is of {what} {recorded}, this session is of {own}: an earlier or another session's"
    of_batch = job.scheduler.registered_name != "local"
    granted = str(job.jobid) if in_slurm(job) else None if of_batch else _own_job()
    if run["job"] != granted and (in_slurm(job) or not of_batch):
        return f"the record is of job {run['job']}, this is {granted or 'none of a batch system'}: an earlier job's"
    nodes = _nodes(job)
    for node in (run["node"], *(rank["node"] for rank in case.get("ranks", {}).get("each", []))):
        if nodes and node not in nodes and node.partition(".")[0] not in nodes:
            return f"the record is of node {node}, the job ran on {', '.join(sorted(nodes))}: look at the launcher"
    # To the second, when the case ended.
    ended = calendar.timegm(time.strptime(run["time"], "%Y-%m-%dT%H:%M:%SZ"))
    slack = CLOCKS_APART if of_batch else 1
    if not job.submit_time - slack <= ended <= time.time() + slack:
        return f"the record is of {run['time']}, when this job did not run: an earlier job's, or a clock is wrong"
    return None


def short_grant(case: dict, wanted: int) -> str | None:
    """Why the job's GPUs are too few: those that it was not granted stay unmeasured."""
    granted = (case["run"].get("allocation") or {}).get("gpus")
    if granted is None or granted >= wanted:
        return None
    return f"the job was granted {granted} GPUs on {case['run']['node']}, {wanted} were asked for"


def crowded_ranks(case: dict, *, on_gpus: bool) -> str | None:
    """Which two ranks have no GPU (where they need one) or no processor of their own, and so measure each other."""
    taken = {}
    for number, rank in enumerate(case.get("ranks", {}).get("each", [])):
        gpus = {rank["device"]} - {None} if on_gpus else set()
        for what, mine in (("GPU", gpus), ("processor", numbers(rank.get("cpus") or ""))):
            theirs = taken.setdefault((rank["node"], what), {})
            for one in sorted(mine & set(theirs)):
                return (
                    f"ranks {theirs[one]} and {number} are both bound to {what} {one} of {rank['node']}: have the "
                    "launcher give each its own"
                )
            theirs.update(dict.fromkeys(mine, number))
    return None


def numbers(ranges: str) -> set[int]:
    """{0, 1, 2, 8} of "0-2,8"."""
    found = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def abnormal_end(job, *, well: bool = False) -> str | None:
    """How the job ended, in half a sentence, where its scheduler says that it did not end by itself, or that it failed
    though its program ended `well`."""
    state, nodes = _state(job)
    how = _ENDS.get(state)
    if well and state == "FAILED" and in_slurm(job):
        how = "failed in a line of its script after the program"
    return how and f"job {job.jobid}{f' on {nodes}' if nodes else ''} {how} ({state})"


def unnoted_end(job, stagedir) -> str:
    """Why a job's script did not come to the line that notes the exit code."""
    if known := job and abnormal_end(job):
        return f"{known} before the program ended"
    stagedir = pathlib.Path(stagedir)
    if any((folder / RESTARTED).exists() for folder in (stagedir, stagedir.parent)):  # a bundle's, above its checks
        again = f"Slurm started job {job.jobid} a second time (it was requeued)"
        return f"{again}, and a second start measures nothing; run the check again"
    if is_full(stagedir):
        return f"the file system of {stagedir} is full: the job could not note the exit code; free some space"
    if not os.access(stagedir, os.W_OK):
        return f"{stagedir} is read-only: the job could not note the exit code; have it mounted anew, or use --stage"
    if not in_slurm(job):
        return "the job ended before it could note the exit code (killed, or out of time)"
    state, nodes = _state(job)
    where = f" on {nodes}" if nodes else ""
    if state == "COMPLETED":
        return f"job {job.jobid}{where} ended well, but the exit code that it noted is not in {stagedir}: run again"
    return f"job {job.jobid}{where} ended ({state}) before it could note the exit code: its script was killed"


def exit_code_in_words(code: int) -> str:
    """7, or 137 (SIGKILL): shells add 128 to the signal that ended a program."""
    if code in _SHELL:
        return f"{code} ({_SHELL[code]})"
    try:
        return f"{code} ({signal.Signals(code - 128).name})"
    except ValueError:
        return str(code)


_SHELL = {126: "it may not be executed", 127: "it, its launcher or a library was not found"}

# A launcher's own word on a task that ended, which seldom says why.
_ECHO = re.compile(r"srun: error: \S+: tasks? |slurmstepd\S*: error: \*\*\* (STEP|JOB) ")
_WRONG = re.compile(r"error|fail|cannot|not found|denied|fatal|no such", re.IGNORECASE)


def complaint(text: str) -> str:
    """Of a job's standard error the line in which the program, else whatever started it, says what went wrong."""
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line.startswith("isthmus-bench: ")]
    complaints = [line for line in lines if _WRONG.search(line)]
    # Of several ranks one may have been killed.
    killed = [line for line in complaints if ": task" in line and "Exited with" not in line and _ECHO.match(line)]
    wrong = own[-1:] or [line for line in complaints if not _ECHO.match(line)] or killed
    return spelling.printable(spelling.shorten(wrong[0], 200)) if wrong else ""


# How systems of environment modules, and Spack, say that they could not load one; a person's own files are not asked.
_NOT_LOADED = re.compile(
    r"(?!.*(?:bashrc|profile|/etc/)).*module: command not found|Lmod has detected the following error.*"
    r"|.*Unable to locate a modulefile.*|Module ERROR.*|==> Error: Spec .* matches no installed packages.*"
)


def not_loaded(text: str) -> str | None:
    """Of a job's standard error the line that says of an environment that it was not loaded."""
    found = next(filter(None, map(_NOT_LOADED.match, text.splitlines())), None)
    return found and spelling.printable(spelling.shorten(found[0], 200))


def is_full(folder) -> bool:
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return state.f_bavail == 0 or (state.f_files > 0 and state.f_favail == 0)


def settle(all_jobs) -> None:
    """Of a session that gave its jobs up: those that wait are cancelled, those that run have their time, as Slurm's own
    limit says; ReFrame would leave both to themselves."""
    ids = [str(job.jobid) for job in all_jobs if in_slurm(job) and job.jobid]
    if not ids:
        return
    _asked("scancel", "--state=PENDING", *ids)
    _wait_for(ids)


def wait_for_end(job) -> None:
    """Where squeue failed once, ReFrame believes that the job has ended."""
    if in_slurm(job) and job.scheduler.registered_name == "squeue" and job.jobid:
        _wait_for([str(job.jobid)])


def _wait_for(ids: list[str]) -> None:
    """Until no job of these is in the queue, or ten times in a row there was no answer."""
    fails = 0
    while fails < 10:
        answer = subprocess.run(
            ["squeue", "-h", "-j", ",".join(ids), "-o", "%A"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if "Invalid job id" in answer.stderr or (answer.returncode == 0 and not answer.stdout.strip()):
            return
        fails = fails + 1 if answer.returncode else 0
        time.sleep(1)


def _own_job() -> str | None:
    """The job that a session without a scheduler is in."""
    return next(filter(None, map(os.environ.get, ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"))), None)


def _nodes(job) -> set[str]:
    """Names of the nodes that a job was granted; none where its scheduler does not name them as the record does."""
    if not in_slurm(job):
        here = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        return {here} if job.scheduler.registered_name == "local" else set()
    return _expanded(_state(job)[1])


@functools.cache
def _expanded(nodes: str) -> set[str]:
    """{node1, node2} of "node[1-2]"."""
    if "[" not in nodes:
        return set(filter(None, nodes.split(",")))
    return set(_asked("scontrol", "show", "hostnames", nodes).split())


def _asked(*command: str) -> str:
    """What a command of Slurm's answers; nothing where it fails."""
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=False
    ).stdout


def _state(job) -> tuple[str, str]:
    """State and nodes of a job that has ended, asked for once: a bundle asks for each of its checks."""
    if not hasattr(job, "isthmus_end"):
        job.isthmus_end = _asked_state(job)
    return job.isthmus_end


def _asked_state(job) -> tuple[str, str]:
    """Without accounting ReFrame calls COMPLETED what has left the queue, but the controller remembers the job for a
    while (MinJobAge)."""
    state = re.split(r"[ ,]", job.state or "")[0]
    if in_slurm(job) and job.scheduler.registered_name == "squeue" and job.jobid:
        answer = _asked("scontrol", "show", "job", "-o", str(job.jobid))
        if found := re.search(r"\bJobState=(\w+)", answer):
            nodes = re.search(r"\bNodeList=([^\s(]+)", answer)
            return found[1], nodes[1] if nodes else ""
    return state, ",".join(job.nodelist or []) if state != "PENDING" else ""
