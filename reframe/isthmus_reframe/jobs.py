"""Scheduler's view of a job: how it ended, what it was granted, who shared its nodes, and where ranks ran.

docs/slurm.md has the table of what a session shows in each case.
"""

import calendar
import contextlib
import functools
import os
import pathlib
import re
import shlex
import signal
import socket
import time

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import slurm
from reframe.utility import nodelist_expand

from isthmus import inputs, spelling, tools
from isthmus_reframe import steady_clock

SLURM = ("slurm", "squeue")  # two of ReFrame's schedulers, one batch system
OTHER_JOBS = "other_jobs"
RESTARTED = "restarted"

#: Option that makes a launcher bind each rank to a core, keyed by ReFrame's name for the launcher.
BIND_TO_CORES = {
    "srun": "--cpu-bind=cores",
    "mpirun": "--bind-to core",
    "mpiexec": "--bind-to core",
    "pals": "--cpu-bind core",
}

CLOCKS_APART = 300  # maximum difference of a node's clock from the clock of the session's host, in seconds

# Reasons why a job ended before its program, keyed by the scheduler's state.
_ENDS = {
    "BOOT_FAIL": "had nodes that did not start",
    "CANCELLED": "was cancelled",
    "DEADLINE": "ran into its deadline",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "was killed for its use of memory",
    "PREEMPTED": "was preempted",
    "REVOKED": "was given to another cluster",
    "TIMEOUT": "ran into its time limit",
    "UNKNOWN": "ended in an unknown way, because scontrol failed",  # not a state of Slurm
}

PATIENCE = 10  # consecutive queries, a second apart, that Slurm may leave unanswered
_FORGOTTEN = "Invalid job id"  # answer for a job that ended a while ago


def _end_the_preempted():
    """Makes ReFrame treat a preempted job as ended, which it is because of --no-requeue. ReFrame would wait forever for
    it to run again."""
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


LOOK_FAILED = "?"

# Shell line that notes other jobs on this job's nodes, one per line, or notes that they could not be determined. It
# runs before and after the program.
_OTHERS = (
    'if others=$(timeout 10 squeue -h -t R -w "$SLURM_JOB_NODELIST" -o %A 2>/dev/null); then echo "$others"; '
    f'else echo "{LOOK_FAILED}"; fi | grep -vx -e "$SLURM_JOB_ID" -e "" {{}} {OTHER_JOBS} || true'
)
_NOTE_OTHERS, _NOTE_OTHERS_TOO = _OTHERS.format(">"), _OTHERS.format(">>")
_GREP = "LC_ALL=C grep -a"  # reads bytes: names and comments of jobs and nodes need not be UTF-8
_NOTE_SHARING = (
    'export ISTHMUS_JOB_SHARING=$(timeout 10 scontrol show job -o "$SLURM_JOB_ID" 2>/dev/null'
    f" | {_GREP} -o 'OverSubscribe=[A-Z]*' | cut -d= -f2)"
)
# Shell line that notes exclusive use. A job that has all processors of its nodes is exclusive even if it did not
# request that.
_NOTE_WHOLE_NODES = (
    'if [ "$ISTHMUS_JOB_SHARING" = OK ] && [ "$(timeout 10 scontrol show job -o "$SLURM_JOB_ID" 2>/dev/null '
    f'| {_GREP} -o NumCPUs=[0-9]* | cut -d= -f2)" = '
    '"$(timeout 10 scontrol show node -o "$SLURM_JOB_NODELIST" 2>/dev/null '
    f"| {_GREP} -o CPUTot=[0-9]* | awk -F= '{{n += $2}} END {{print n + 0}}')\" ]; then ISTHMUS_JOB_SHARING=NO; fi"
)
# Shell line that ends a job when Slurm starts it a second time. The second start measures nothing, and the records of
# the first start are kept.
_END_WHERE_RESTARTED = f'if [ "${{SLURM_RESTART_COUNT:-0}}" != 0 ]; then rm -f exit_code; touch {RESTARTED}; exit 1; fi'


def prepare(check) -> None:
    """Adds to a check's job what a measurement needs from the batch system at any site.

    Raises ReframeError for a job array: its tasks would write into one folder and overwrite each other's records.
    """
    if not in_slurm(check.job):
        return
    options = (*check.job.sched_access, *check.job.options, *check.job.cli_options)
    given = [word for option in options for word in option.split()]
    if any(re.match("--array|-a", word) for word in given):
        raise ReframeError(
            "a job array would measure into one folder; leave --array out, and name the nodes with --distribute"
        )
    # --no-requeue, because a job that starts again after its node failed would hide the failure. A site's own --requeue
    # comes after this option and overrides it.
    check.job.options.append("--no-requeue")
    pathlib.Path(check.stagedir, RESTARTED).unlink(missing_ok=True)
    check.prerun_cmds = [_END_WHERE_RESTARTED, *check.prerun_cmds, _NOTE_SHARING, _NOTE_WHOLE_NODES, _NOTE_OTHERS]
    # Otherwise srun would let ranks wait for a dead rank until the job's time limit.
    check.env_vars["SLURM_KILL_BAD_EXIT"] = "1"
    check.postrun_cmds.append(_NOTE_OTHERS_TOO)


def _seen(stagedir) -> set[str]:
    """Returns the noted ids of other jobs, including LOOK_FAILED if a query for them failed or nothing was noted."""
    try:
        return set(inputs.read_note(pathlib.Path(stagedir) / OTHER_JOBS).split())
    except OSError:
        return {LOOK_FAILED}


def company(job, stagedir) -> str | None:
    """Returns a sentence that names other jobs on this job's nodes while it measured, or states that they could not be
    determined."""
    if not in_slurm(job):
        return None
    seen = _seen(stagedir)
    if others := sorted(seen - {LOOK_FAILED}):
        return f"other jobs ran on the node ({', '.join(others)})"
    if seen and not is_exclusive(job):
        return "whether other jobs ran on the node could not be determined (squeue failed there)"
    return None


def is_exclusive(job) -> bool | None:
    """Returns whether Slurm granted the job's nodes exclusively, or None if Slurm does not tell."""
    if not hasattr(job, "isthmus_exclusive"):
        answer = tools.ask("scontrol", "show", "job", "-o", str(job.jobid))
        found = answer.ok and re.search(r"\bOverSubscribe=(\w+)", answer.out)
        job.isthmus_exclusive = found[1] == "NO" if found else None
    return job.isthmus_exclusive


def shared_grant(case: dict, job) -> str | None:
    """Returns a reason if another job may have run on the nodes unnoticed, between the two queries for other jobs."""
    if not in_slurm(job):
        return None
    exclusive = (case["run"].get("allocation") or {}).get("exclusive")
    exclusive = is_exclusive(job) if exclusive is None else exclusive
    if exclusive:
        return None
    if exclusive is None:
        return "whether the job had its nodes to itself could not be determined (scontrol failed)"
    return "the job did not have its nodes to itself, so another may have run there"


def foreign(case: dict, job, system: str, partition: str) -> str | None:
    """Returns a reason if a record is not from this job, but from another job, another node or another time."""
    run = case["run"]
    for what, recorded, own in (("system", run["system"], system), ("partition", run.get("partition"), partition)):
        if recorded is None:
            return _lost_environment(what)
        if recorded != own:
            return f"the record is of {what} {recorded}, but this session is of {own}: it is from another session"
    of_batch = job.scheduler.registered_name != "local"
    granted = str(job.jobid) if in_slurm(job) else None if of_batch else _own_job()
    if run["job"] is None and granted:
        return _lost_environment("job")
    if run["job"] != granted and (in_slurm(job) or not of_batch):
        return f"the record is of job {run['job']}, but this is {granted or 'no batch job'}: it is from an earlier job"
    if (nodes := _nodes(job)) is None:
        return (
            f"the nodes of job {granted} could not be queried (scontrol failed): the record may be from another job; "
            "run again"
        )
    for node in (run["node"], *(rank["node"] for rank in case.get("ranks", {}).get("each", []))):
        if nodes and node not in nodes and node.partition(".")[0] not in nodes:
            return f"the record is of node {node}, but the job ran on {', '.join(sorted(nodes))}: look at the launcher"
    # End of the case, in whole seconds.
    ended = calendar.timegm(time.strptime(run["time"], "%Y-%m-%dT%H:%M:%SZ"))
    slack = CLOCKS_APART if of_batch else 1
    jumped = steady_clock.STEADY.jumped()  # jump of this host's clock, perhaps of the node's as well
    if not job.submit_time - slack + min(jumped, 0) <= ended <= time.time() + slack + max(-jumped, 0):
        return f"the record is of {run['time']}, when this job did not run: it is an earlier job's, or a clock is wrong"
    return None


def _lost_environment(what: str) -> str:
    return (
        f"the record names no {what}, so the job's environment did not reach the program; look for --export, "
        "SLURM_EXPORT_ENV or SRUN_EXPORT_ENV in the site's configuration and launcher, and for a script that clears it"
    )


def short_grant(case: dict, wanted: int) -> str | None:
    """Returns a sentence if the job was granted fewer than `wanted` GPUs, because the missing ones are not measured."""
    granted = (case["run"].get("allocation") or {}).get("gpus")
    if granted is None or granted >= wanted:
        return None
    return f"the job was granted {granted} GPUs on {case['run']['node']}, but {wanted} were requested"


def crowded_ranks(case: dict, *, on_gpus: bool) -> str | None:
    """Returns a sentence that names two ranks that share a processor, or a GPU if they need one, and so disturb each
    other's measurements."""
    taken = {}
    for number, rank in enumerate(case.get("ranks", {}).get("each", [])):
        gpus = {rank["device"]} - {None} if on_gpus else set()
        for what, mine in (("GPU", gpus), ("processor", numbers(rank.get("cpus") or ""))):
            theirs = taken.setdefault((rank["node"], what), {})
            for one in sorted(mine & set(theirs)):
                return (
                    f"ranks {theirs[one]} and {number} are both bound to {what} {one} of {rank['node']}: make the "
                    "launcher give each its own"
                )
            theirs.update(dict.fromkeys(mine, number))
    return None


def numbers(ranges: str) -> set[int]:
    """Returns the numbers in ranges: {0, 1, 2, 8} for "0-2,8"."""
    found = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def abnormal_end(job, *, well: bool = False) -> str | None:
    """Returns half a sentence on how the job ended if the scheduler reports that it did not end by itself, or that it
    failed although its program ended well (`well`)."""
    state, nodes = _state(job)
    how = _ENDS.get(state)
    if well and state == "FAILED" and in_slurm(job):
        how = "failed in a line of its script after the program"
    return how and f"job {job.jobid}{f' on {nodes}' if nodes else ''} {how} ({state})"


def was_interrupted(job) -> bool:
    """Returns whether the job was ended by a person, or by the scheduler in favour of another job."""
    return job is not None and _state(job)[0] in ("CANCELLED", "PREEMPTED", "REVOKED")


def unnoted_end(job, stagedir) -> str:
    """Returns why a job's script did not reach the line that notes the exit code."""
    if known := job and abnormal_end(job):
        return f"{known} before the program ended"
    stagedir = pathlib.Path(stagedir)
    if any((folder / RESTARTED).exists() for folder in (stagedir, stagedir.parent)):  # parent: of a bundle
        again = f"Slurm started job {job.jobid} a second time (it was requeued)"
        return f"{again}, and a second start measures nothing; run the check again"
    if is_full(stagedir):
        return f"the file system of {stagedir} is full: the job could not note the exit code; free some space"
    if not os.access(stagedir, os.W_OK):
        return f"{stagedir} is read-only: the job could not note the exit code; have it remounted, or use --stage"
    if not in_slurm(job):
        return "the job ended before it could note the exit code (killed, or out of time)"
    state, nodes = _state(job)
    where = f" on {nodes}" if nodes else ""
    if state == "COMPLETED":
        return (
            f"job {job.jobid}{where} ended successfully, but the exit code that it noted is not in {stagedir}: "
            "run again"
        )
    return f"job {job.jobid}{where} ended ({state}) before it could note the exit code: its script was killed"


def exit_code_in_words(code: int) -> str:
    """Returns an exit code as text, such as 7 or 137 (SIGKILL): shells add 128 to the number of the signal that ended a
    program."""
    if code in _SHELL:
        return f"{code} ({_SHELL[code]})"
    try:
        return f"{code} ({signal.Signals(code - 128).name})"
    except ValueError:
        return str(code)


INTERRUPTED = 3
_SHELL = {
    INTERRUPTED: "it was asked to end, or its device was lost",
    126: "it is not executable",
    127: "it, its launcher or a library was not found",
}

# Launchers' own messages about a task that ended, which seldom say why.
_ECHO = re.compile(r"srun: error: \S+: tasks? |slurmstepd\S*: error: \*\*\* (STEP|JOB) ")
_WRONG = re.compile(r"error|fail|cannot|not found|denied|fatal|no such", re.IGNORECASE)


def complaint(text: str) -> str:
    """Returns the line of a job's standard error that states what went wrong: the program's own message if there is
    one, otherwise that of the launcher or the shell."""
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line.startswith("isthmus-bench: ")]
    complaints = [line for line in lines if _WRONG.search(line)]
    # One of several ranks may have been killed.
    killed = [line for line in complaints if ": task" in line and "Exited with" not in line and _ECHO.match(line)]
    wrong = own[-1:] or [line for line in complaints if not _ECHO.match(line)] or killed
    return spelling.printable(spelling.shorten(wrong[0], 200)) if wrong else ""


NOT_LOADED = "not_loaded"
_LOADED = "isthmus: the environment ends here"

# Messages of environment modules and of Spack that something could not be loaded, anywhere in the output.
_MODULE_ERROR = re.compile(
    r"module: (?:command )?not found|Lmod has detected the following error|Unable to locate a modulefile|Module ERROR"
    r"|==> Error: "
)
# Words that indicate an error, searched for only in the output of loading the environment.
_ANY_ERROR = re.compile(
    r"\b(?:errors?|conflicts?|unable|cannot|could(?: not|n't)|not found|no such|fail(?:ed|s|ure)?|unknown|unsatisfied"
    r"|invalid|denied|refused|matches (?:multiple|no))\b",
    re.IGNORECASE,
)
# Lines that are not about the environment: messages from a person's own files, from a shell about locale and terminal,
# and from Slurm about its job.
_OF_A_PERSON = re.compile(r"bashrc|profile|/etc/|setlocale|locale|stty|tput|TERM\b|^slurmstepd|^srun:")


def note_environment(*environments) -> list[str]:
    """Returns script lines to run directly after an environment was loaded. They mark the end of its output and list
    missing modules, because another module may have unloaded one, and a failed load may be silent."""
    lines = [f"echo '{_LOADED}' >&2"]
    named = [module["name"] for env in environments for module in env.modules_detailed if not module.get("collection")]
    if not named or (system := runtime.runtime().modules_system).name == "nomod":
        return lines
    asked = [module for name in named for module in system.resolve_module(name)]
    if system.name == "spack":
        there = 'spack find --loaded "$module" >/dev/null 2>&1'
    else:
        there = (
            'case ":$LOADEDMODULES:" in *":$module:"* | *":$module/"*) ;; '
            '*) module is-loaded "$module" >/dev/null 2>&1 ;; esac'
        )
    modules = " ".join(map(shlex.quote, dict.fromkeys(asked)))
    return [*lines, f'for module in {modules}; do {there} || echo "$module"; done > {NOT_LOADED}']


def is_cut_before_end(said: inputs.Ends, check) -> bool:
    """Returns whether a job printed so much that its output about the environment, which ends with the mark of
    note_environment(), was not read in full."""
    lines = [*check.prerun_cmds, *getattr(check, "prebuild_cmds", [])]
    return bool(said.left_out) and _LOADED not in said.head and any(_LOADED in line for line in lines)


def not_loaded(text: str, stagedir=None) -> str | None:
    """Returns why an environment was not loaded, from a job's standard error or its list of missing modules."""
    before, mark, after = text.partition(_LOADED)
    for line in before.splitlines() if mark else ():
        if _ANY_ERROR.search(line) and not _OF_A_PERSON.search(line):
            return spelling.printable(spelling.shorten(line.strip(), 200))
    for line in (after if mark else text).splitlines():
        if _MODULE_ERROR.search(line) and not _OF_A_PERSON.search(line):
            return spelling.printable(spelling.shorten(line.strip(), 200))
    with contextlib.suppress(OSError):
        if stagedir and (missing := inputs.read_note(pathlib.Path(stagedir) / NOT_LOADED).split()):
            return f"after it, {', '.join(missing)} is not loaded"
    return None


def is_full(folder) -> bool:
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return state.f_bavail == 0 or (state.f_files > 0 and state.f_favail == 0)


def settle(all_jobs) -> None:
    """Ends the jobs of a session that gave them up, as settle_ids() does. ReFrame would not end them."""
    settle_ids([str(job.jobid) for job in all_jobs if in_slurm(job) and job.jobid])


def settle_ids(ids: list[str]) -> str | None:
    """Cancels queued jobs, and waits for running ones to finish within Slurm's time limit. Returns None if all have
    ended, otherwise the reason why that is unknown."""
    if not ids:
        return None
    tools.ask("scancel", "--state=PENDING", *ids)
    return _wait_for(ids)


def look_in_queue(ids: list[str]) -> tuple[bool | None, str]:
    """Returns whether one of these jobs is in the queue; if squeue fails, returns None and the reason."""
    answer = tools.ask("squeue", "-h", "-j", ",".join(ids), "-o", "%A")
    if _FORGOTTEN in answer.err:
        return False, ""
    if not answer.ok:
        said = " ".join(answer.err.split()) or answer.why
        return None, f"squeue failed: {spelling.printable(spelling.shorten(said))}"
    return not answer.is_empty, ""


def wait_for_end(job) -> None:
    """Waits for the job's end, because ReFrame assumes that a job has ended if squeue fails."""
    if in_slurm(job) and job.scheduler.registered_name == "squeue" and job.jobid:
        _wait_for([str(job.jobid)])


def _wait_for(ids: list[str]) -> str | None:
    """Waits until none of these jobs is in the queue. Gives up after PATIENCE consecutive unanswered queries and
    returns the reason."""
    fails, why = 0, ""
    while fails < PATIENCE:
        queued, why = look_in_queue(ids)
        if queued is False:
            return None
        fails = fails + 1 if queued is None else 0
        time.sleep(1)
    return why


def _own_job() -> str | None:
    """Returns the id of the job that the session itself runs in, or None."""
    return next(filter(None, map(os.environ.get, ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"))), None)


def _nodes(job) -> set[str] | None:
    """Returns the names of the nodes that a job was granted: an empty set if its scheduler and the record use different
    names, None if Slurm did not answer."""
    if not in_slurm(job):
        here = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        return {here} if job.scheduler.registered_name == "local" else set()
    nodes = _state(job)[1] or getattr(job, "_nodespec", None) or ""  # from ReFrame's last query of the queue
    try:
        return set(nodelist_expand(nodes)) or None
    except ValueError:
        return None


def _state(job) -> tuple[str, str]:
    """Returns state and nodes of a job that has ended. Queries Slurm only once, because a bundle calls this for each of
    its checks."""
    if not hasattr(job, "isthmus_end"):
        job.isthmus_end = _asked_state(job)
    return job.isthmus_end


def _asked_state(job) -> tuple[str, str]:
    """Returns state and nodes from Slurm. Without accounting, ReFrame regards every job that has left the queue as
    COMPLETED, but Slurm's controller remembers its state for a while (MinJobAge)."""
    state = re.split(r"[ ,]", job.state or "")[0]
    if in_slurm(job) and job.scheduler.registered_name == "squeue" and job.jobid:
        for _ in range(PATIENCE):
            answer = tools.ask("scontrol", "show", "job", "-o", str(job.jobid))
            if answer.ok or _FORGOTTEN in answer.err:
                break
            time.sleep(1)
        else:
            return "UNKNOWN", ""
        if found := re.search(r"\bJobState=(\w+)", answer.out):
            nodes = re.search(r"\bNodeList=([^\s(]+)", answer.out)
            return found[1], nodes[1] if nodes else ""
    return state, ",".join(job.nodelist or []) if state != "PENDING" else ""
