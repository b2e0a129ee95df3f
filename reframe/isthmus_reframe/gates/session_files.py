"""Gates for a session's folders and files: other sessions must not use them while it runs, and output must not be lost.

ReFrame only warns about a log or a report that it could not write, empties a stage folder without looking into it, and
lets two sessions work in one folder. A session whose output is lost does not pass.
"""

import contextlib
import errno
import fcntl
import functools
import logging
import os
import pathlib
import socket
import sys
import tempfile
import time
import types

import reframe.core.runtime as runtime
import reframe.utility.osext as osext
from reframe.core.exceptions import LoggingError, ReframeError
from reframe.frontend import cli, reporting
from reframe.frontend.executors import RegressionTask

from isthmus import inputs, spelling
from isthmus.records import load
from isthmus_reframe import jobs

LOCK = ".isthmus-session"
JOB = "isthmus-job"
KEPT = ".kept"

lost = []  # one sentence for each output that could not be written
_LONGEST_NOTE = 4096  # characters of a lock file that are read
_held = {}  # folders of this session, with their lock files
_began = time.time()


# --- one session in a folder ------------------------------------------------------------------------


def _is_alive(words: list[str]) -> bool:
    """Returns whether the process named in a lock file, `PID HOST …`, is running on this host."""
    return words[1:2] == [socket.gethostname()] and words[0].isdigit() and pathlib.Path("/proc", words[0]).exists()


def hold(folder: pathlib.Path) -> None:
    """Reserves a folder for this session until its process ends. Raises ReframeError if another session has reserved
    it."""
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = open(folder / LOCK, "a+", encoding="utf-8")  # noqa: SIM115, open for as long as the session
    file.seek(0)
    other, is_taken = file.read(_LONGEST_NOTE).split(), False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # If the file system does not support locks, the other session's note is the only evidence.
        is_taken = error.errno in (errno.EACCES, errno.EAGAIN) or _is_alive(other)
    if is_taken:
        file.close()
        who = f"process {other[0]} on {other[1]}, begun {other[2]}" if len(other) >= 3 else "another process"
        raise ReframeError(
            f"another session ({who}) works in {folder}, and each would remove the other's records: wait for it, or "
            "give this one its own folder (--prefix)"
        )
    with contextlib.suppress(OSError):  # a full disk has its own message
        file.seek(0)
        file.truncate()
        print(os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), file=file, flush=True)
    _held[folder] = file


# --- lost output -----------------------------------------------------------------------------------


def _why(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(getattr(error, "strerror", None) or error)


def refuse_unwritable() -> None:
    """Raises ReframeError if the session could not write its logs and reports. It is called before anything is
    measured."""
    current = runtime.runtime()
    config, report = current.site_config, current.get_option("general/0/report_file")
    folders = {
        "--stage or --prefix": current.stage_prefix,
        "--output or --prefix": current.output_prefix,
        "--report-file": os.path.dirname(osext.expandvars(report)),
    }
    for number, handler in enumerate(config.get("logging/0/handlers_perflog")):
        if handler["type"] == "filelog":
            folders["--perflogdir"] = osext.expandvars(config.get(f"logging/0/handlers_perflog/{number}/basedir"))
    for option, folder in folders.items():
        try:
            os.makedirs(folder or ".", exist_ok=True)
            with tempfile.TemporaryFile(dir=folder or "."):
                pass
        except OSError as error:
            raise ReframeError(
                f"{os.path.abspath(folder)} cannot be written ({error.strerror}), so the results would be lost: "
                f"make it writable, or name another folder with {option}"
            ) from None


def _note_lost(what: str, error: BaseException) -> None:
    lost.append(f"{what} was lost ({_why(error)})")


def _gate(owner, name, make) -> None:
    """Replaces owner.name by make(owner.name), once."""
    original = getattr(owner, name)
    if not hasattr(original, "isthmus_gate"):
        replacement = functools.wraps(original)(make(original))
        replacement.isthmus_gate = True
        setattr(owner, name, replacement)


def _decoding_anything(original):
    """Returns ReFrame's function with a tolerant decoder. Scheduler commands may print comments and reasons that are
    not UTF-8, and ReFrame's polls would otherwise fail because of them."""

    def run_command_async(*args, **kwargs):
        return original(*args, **{"errors": "replace", **kwargs})

    return run_command_async


def _naming_users(original):
    """Returns ReFrame's function with a fallback: a user without a name, as in some containers, is named by number,
    because ReFrame's log would fail for None."""

    def osuser():
        return original() or str(os.getuid())

    return osuser


def _logging_results(original):
    def log_result(self):
        try:
            self._perflogger.log_result(logging.INFO, self, multiline=self._perflog_multiline)
        except (LoggingError, OSError) as error:
            _note_lost(f"the line of {self.check.display_name} in the performance log", error)

    return log_result


def _handling_errors(original):
    def handleError(self, record):
        error = sys.exc_info()[1]
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            _note_lost(f"a line of {getattr(self, 'baseFilename', None) or 'a log'}", error)
        else:
            original(self, record)

    return handleError


def _writing(what: str):
    def make(original):
        def write(self, *args, **kwargs):
            try:
                return original(self, *args, **kwargs)
            except ReframeError:  # only the link to the last report failed, so nothing is lost
                raise
            except Exception as error:
                _note_lost(what, error)
                raise

        return write

    return make


def _saving(original):
    """Returns ReFrame's function with a check of the file name, because another session may have had the same name and
    have ended first."""

    def save(self, filename, *args, **kwargs):
        path = pathlib.Path(filename)
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_mtime > _began:
                path.rename(path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}"))
        return original(self, filename, *args, **kwargs)

    return save


class _Exit(types.SimpleNamespace):
    """Replacement of `sys` for ReFrame's command line, so that a session that lost output does not exit with 0."""

    def __getattr__(self, name):
        return getattr(sys, name)

    @staticmethod
    def exit(code=0):
        for what in dict.fromkeys(lost):
            print(f"ERROR: {what}: make its folder writable, and run again", file=sys.stderr, flush=True)
        sys.exit(code or bool(lost))


def install() -> None:
    _gate(osext, "osuser", _naming_users)
    _gate(osext, "run_command_async", _decoding_anything)
    _gate(RegressionTask, "log_result", _logging_results)
    _gate(logging.Handler, "handleError", _handling_errors)
    _gate(reporting.RunReport, "save", lambda original: _writing("the session's report")(_saving(original)))
    _gate(reporting.RunReport, "save_junit", _writing("the session's JUnit report"))
    _gate(reporting.RunReport, "store", _writing("the entry in the results database"))
    cli.sys = _Exit()


# --- leftovers of a session that was killed ------------------------------------------------------------


def note_job(check) -> None:
    """Notes in a check's stage folder which job works there, for a later session that finds the folder."""
    if check.job is not None and check.job.jobid:
        limit = int(check.job.time_limit or 0)
        note = f"{check.job.scheduler.registered_name} {check.job.jobid} {limit}\n"
        with contextlib.suppress(OSError):  # a missing folder is detected when the job has ended
            (pathlib.Path(check.stagedir) / JOB).write_text(note, encoding="utf-8")


def mark_kept(path: pathlib.Path) -> None:
    """Notes, next to a record in a stage folder, that the record has been copied to the results."""
    with contextlib.suppress(OSError):
        path.with_name(path.name + KEPT).write_text(inputs.sha256(path), encoding="utf-8")


def is_kept(path: pathlib.Path) -> bool:
    with contextlib.suppress(OSError):
        return inputs.read_note(path.with_name(path.name + KEPT)) == inputs.sha256(path)
    return False


def stage_folders(testcases) -> list[pathlib.Path]:
    """Returns the stage folders that ReFrame will empty for these cases."""
    stage = pathlib.Path(runtime.runtime().stage_prefix)
    names = {
        (c.partition.fullname.partition(":")[0], c.partition.name, c.environ.name, c.check.short_name)
        for c in testcases
    }
    return [stage.joinpath(*name) for name in sorted(names)]


def wait_for_leftover_jobs(folders, printer) -> None:
    """Waits for a killed session's jobs in folders that this session will use, and cancels those that are queued.
    Raises ReframeError if it is unknown whether one has ended."""
    for folder in folders:
        try:
            scheduler, jobid, limit = inputs.read_note(folder / JOB).split()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it was cut short"
            raise ReframeError(
                f"{folder / JOB}: {why}, so it is not known which job of an earlier session works there: remove it "
                "once none does, or give this session its own folder (--prefix)"
            ) from None
        if scheduler in jobs.SLURM and jobs.look_in_queue([jobid])[0] is not False:
            printer.info(f"Waiting for job {jobid} of an earlier session, which is still in {folder}")
            if why := jobs.settle_ids([jobid]):
                raise ReframeError(
                    f"it is not known whether job {jobid} of an earlier session still writes into {folder} ({why}): "
                    "run again once Slurm answers, or give this session its own folder (--prefix)"
                )
        elif scheduler == "local" and _works_in(jobid, folder):
            printer.info(f"Waiting for process {jobid} of an earlier session, which is still in {folder}")
            _wait_for_process(jobid, folder, int(limit) or 3600)
        (folder / JOB).unlink(missing_ok=True)


def _works_in(pid: str, folder: pathlib.Path) -> bool:
    """Returns whether a process works in this folder. Its number alone is not enough, because numbers are reused."""
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", pid, "cwd").resolve().is_relative_to(folder.resolve())
    return False


def _wait_for_process(pid: str, folder: pathlib.Path, seconds: int) -> None:
    end = time.monotonic() + seconds
    while _works_in(pid, folder):
        if time.monotonic() > end:
            raise ReframeError(f"process {pid} of an earlier session is still in {folder}: end it (kill {pid})")
        time.sleep(0.2)


def keep_leftovers(stage: pathlib.Path, keep, printer) -> None:
    """Keeps the records in the stage folders of a session that was killed; `keep(path)` keeps those of one file and
    returns their number."""
    below = [(folder, names) for folder, names in load.walk(stage, [], compacted=True, links=False)]
    found = [
        pathlib.Path(folder, name)
        for name in ("record.jsonl", "unprofiled.jsonl")
        for folder, names in below
        if name in names
    ]
    number = sum(keep(path) for path in found if path.is_file() and not is_kept(path))
    if number:
        printer.info(f"Kept {spelling.counted(number, 'record')} that an earlier session left in {stage}")
