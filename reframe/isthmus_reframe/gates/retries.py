"""Gate for retries (--max-retries): a retry must not hide a wrong result, and failed tries are reported.

ReFrame repeats every check that failed, and its exit code is that of the last try. A machine that sometimes computes
wrong results would pass if it is tried often enough.
"""

import functools

from reframe.core.exceptions import ReframeError, SanityError, what
from reframe.frontend.executors import Runner

from isthmus import spelling


class WrongResult(SanityError):
    """Error for a result that is wrong or was not verified."""


WrongResult.__name__ = SanityError.__name__  # ReFrame's reasons begin with the class: `sanity error: …`


class Interrupted(SanityError):
    """Error for a measurement that a person or the scheduler ended, and which therefore shows nothing about the
    machine."""


def _is(task, kind) -> bool:
    return task.failed and task.exc_info is not None and isinstance(task.exc_info[1], kind)


def case_of(testcase) -> tuple[str, str, str]:
    """Returns check, partition and environment, which identify a test case in every run of a session."""
    return testcase.check.unique_name, testcase.partition.fullname, testcase.environ.name


def install() -> None:
    """Makes ReFrame exclude wrong results from its retries."""
    original = Runner._retry_failed
    if hasattr(original, "isthmus_gate"):
        return

    @functools.wraps(original)
    def _retry_failed(self, cases):
        stats, failed = self._stats, self._stats.failed
        stats.failed = lambda run=-1: [task for task in failed(run) if not _is(task, WrongResult)]
        try:
            original(self, cases)
        finally:
            del stats.failed

    _retry_failed.isthmus_gate = True
    Runner._retry_failed = _retry_failed


def report(stats, printer) -> None:
    """Reports failed tries and interrupted checks. Raises ReframeError for a wrong result that a later run would
    hide."""
    last = {case_of(task.testcase): task for task in stats.tasks(None)}
    hidden = []
    for number, tasks in stats.runs():
        for task in tasks:
            if not task.failed or task is last[case_of(task.testcase)]:
                continue
            how = "passed" if not last[case_of(task.testcase)].failed else "failed as well"
            why = what(*task.exc_info).partition("\n")[0].removeprefix("sanity error: ")
            printer.warning(f"try {number + 1} of {task.check.display_name} failed ({why}); the last one {how}")
    for task in last.values():
        if _is(task, WrongResult) and task not in stats.failed():
            hidden.append(task.check.display_name)
    interrupted = [task.check.display_name for task in last.values() if _is(task, Interrupted)]
    if interrupted:
        names = ", ".join(sorted(interrupted)[:3]) + (", …" if len(interrupted) > 3 else "")
        printer.info(f"Interrupted, not failed: {spelling.counted(len(interrupted), 'check')} ({names}); run again")
    if hidden:
        raise ReframeError(f"a wrong result is final and is not retried: {', '.join(sorted(hidden))}")


def reasons(stats) -> str:
    """Returns the reasons why checks of a session failed, in one text."""
    failed = (task for _, tasks in stats.runs() for task in tasks if task.failed and task.exc_info)
    return "\n".join(what(*task.exc_info) for task in failed)
