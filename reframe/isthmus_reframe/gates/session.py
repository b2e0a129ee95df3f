"""Gates of a session: it fails if it could not do what was requested or measured nothing, and always keeps its records.

The gates patch functions that are not part of ReFrame's public interface. A ReFrame without them fails here, loudly,
instead of running without the gates.
"""

import functools
import importlib.util
import json
import os
import pathlib
import sys
import types
import typing

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError, RunSessionTimeout, SanityError
from reframe.frontend import ci
from reframe.frontend.executors import Runner
from reframe.frontend.loader import RegressionCheckLoader

from isthmus import spelling
from isthmus.site import capabilities
from isthmus_reframe import ROOT, jobs, steady_clock, store
from isthmus_reframe.gates import (
    job_warnings,
    options,
    retries,
    selections,
    session_files,
    site_gates,
    skips,
    unjudged,
    variables,
)
from isthmus_reframe.results_database import Fingerprinted
from isthmus_reframe.stated import stated_backend, stated_words


class Ours(typing.NamedTuple):
    """Classes of this tree's checks that a session may have."""

    check: type
    program: type
    build: type
    begun: list  #: programs of this session that run in their own job


def _refuse_fallback():
    """Raises ReframeError on a host that the site's files do not describe, because ReFrame would run with its own
    system `generic`."""
    files = site_gates.configuration_files()
    if files and runtime.runtime().system.name == "generic":
        raise ReframeError(
            f"this machine is not a system in {', '.join(files)}; choose one with --system, or add it to 'hostnames'"
        )


def _refuse_blanks():
    """Raises ReframeError for a path with a blank, because ReFrame does not quote paths, neither in scripts nor when it
    starts scripts."""
    for path in (str(ROOT), runtime.runtime().stage_prefix, os.environ.get("ISTHMUS_BENCH", "")):
        if len(path.split()) > 1:
            raise ReframeError(f"{path!r} contains a blank, so ReFrame cannot start jobs there; move or rename it")


def _refuse_old_words():
    """Raises ReframeError if the site states words that checks no longer use, because what these words stand for would
    silently not be measured."""
    for partition in runtime.runtime().system.partitions:
        if why := capabilities.refused(stated_words(partition)):
            raise ReframeError(f"{partition.fullname} {why}")


def _left_out() -> str:
    """Returns a text about a gap in the site's statements that may have made a selection empty, for the error
    message."""
    system = runtime.runtime().system
    bare = [partition.fullname for partition in system.partitions if not partition.environs]
    if bare:
        return f" ({', '.join(bare)} lists no environment)"
    if not any(stated_backend(partition) for partition in system.partitions):
        names = ", ".join(partition.fullname for partition in system.partitions)
        return f" ({names}: no GPU is stated, so checks that need one are left out)"
    return ""


def _refuse_unloaded():
    """Raises ReframeError for a check file that does not load, because ReFrame only warns, and nobody would notice the
    missing checks."""
    config = runtime.runtime().site_config
    for place in config.get("general/0/check_search_path"):
        path = pathlib.Path(os.path.expandvars(place))
        below = "**/*.py" if config.get("general/0/check_search_recursive") else "*.py"
        files = [path] if path.is_file() else sorted(path.glob(below))
        if not files:
            raise ReframeError(f"{path} has no checks: check the path after -c")
        for file in files:
            if RegressionCheckLoader([])._validate_source(file):
                spec = importlib.util.spec_from_file_location(f"isthmus_again_{file.stem}", file)
                module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
                try:
                    spec.loader.exec_module(module)
                except Exception as error:
                    raise ReframeError(f"the check file {file} could not be loaded ({error}); correct it") from None


def _refuse_all_skipped(testcases, ours):
    """Raises ReframeError if every check was skipped, because a session that measured nothing shows nothing about the
    machine."""
    checks = [case.check for case in testcases if isinstance(case.check, ours.check)]
    if not checks or any(check.is_dry_run() or check.may_skip_all for check in checks):
        return
    if not any(check.has_measured for check in (*checks, *ours.begun) if isinstance(check, ours.check)):
        raise ReframeError(
            f"nothing was measured, because all {len(checks)} checks were skipped; choose others, or allow it with "
            "-S may_skip_all=yes"
        )


def install(ours: Ours):
    """Makes a session fail if it selects or measures nothing, because then there is no check that could fail.

    Listing and describing are not affected, because they do not call Runner.runall().
    """
    original = Runner.runall
    if hasattr(original, "isthmus_gate"):
        return

    @functools.wraps(original)
    def runall(self, testcases, *args, **kwargs):
        store.begin()
        _refuse_session(testcases, self._printer, ours)
        if not any(case.check.is_dry_run() for case in testcases):
            _take_folders(testcases, self._printer)
        idle = site_gates.idle_references(self._printer)
        unjudged.note(self._policy, testcases, Fingerprinted)
        try:
            result = original(self, testcases, *args, **kwargs)
        except RunSessionTimeout:  # --duration: the requested end
            self._printer.info("the session has reached its --duration; checks that had not ended are interrupted")
            jobs.settle([check.job for check in ours.begun])
            _refuse_unfinished(testcases, self.stats, ours)
            raise
        except Exception as error:  # such as sacct's errors; ^C is not an Exception
            why = str(error).partition("\n")[0]
            self._printer.error(f"the session gave up: {why}; waiting for its jobs, whose records are kept unjudged")
            jobs.settle([check.job for check in ours.begun])
            raise
        finally:
            _keep_what_is_left(ours, self._printer)
            if store.kept:
                self._printer.info(f"Records: {spelling.counted(len(store.kept), 'file')} in {store.results_folder()}")
            site_gates.report_limits(self._printer)
            job_warnings.report(self._printer, retries.reasons(self.stats))
            if jumped := steady_clock.STEADY.jumped():
                self._printer.warning(f"this machine's clock was set by {jumped:+.0f} s during the session")
        retries.report(self.stats, self._printer)
        skips.report([check for check in ours.begun if isinstance(check, ours.check)], self._printer)
        unjudged.report(self._policy, testcases, self._printer)
        if not self.stats.failed():
            _refuse_all_skipped(testcases, ours)
        site_gates.refuse_idle(idle, testcases)
        return result

    runall.isthmus_gate = True
    Runner.runall = runall
    variables.note_unset()
    _generate_whole_jobs(ours)


def _refuse_unfinished(testcases, stats, ours):
    """Raises ReframeError if --duration ended the session before every check had run."""
    wanted = {retries.case_of(case): case for case in testcases if isinstance(case.check, ours.check)}
    ended = {
        retries.case_of(task.testcase)
        for task in stats.tasks(None)
        if not task.aborted and (task.completed or task.skipped or task.failed)
    }
    left = [case.check.display_name for key, case in wanted.items() if key not in ended]
    if len(left) == len(wanted):
        raise ReframeError("nothing was measured before --duration ended the session; make it longer") from None
    if left:
        raise ReframeError(
            f"{len(left)} of {len(wanted)} checks were not measured before --duration ended the session, the first is "
            f"{left[0]}; make it longer, or choose fewer"
        ) from None


def _refuse_session(testcases, printer, ours):
    """Raises ReframeError for a selection, an option or a setting that would not have the effect that it promises."""
    _refuse_fallback()
    _refuse_blanks()
    _refuse_old_words()
    _refuse_unloaded()
    site_gates.refuse_settings(testcases, printer)
    if not testcases:
        raise ReframeError(
            f"nothing to run: no check matches this selection on this system{_left_out()}; list the checks with -l"
        )
    options.refuse(options.Session(options.given(), testcases, ours))
    selections.refuse_misspelt_variables()
    selections.refuse_idle_variables(testcases)


def _take_folders(testcases, printer):
    """Reserves the session's folders, checks that they are writable, and keeps records that earlier sessions left in
    them."""
    stage = pathlib.Path(runtime.runtime().stage_prefix)
    session_files.refuse_unwritable()
    session_files.hold(stage)
    session_files.wait_for_leftover_jobs(session_files.stage_folders(testcases), printer)
    session_files.keep_leftovers(stage, _keep_leftover, printer)


def _keep_leftover(path: pathlib.Path) -> int:
    """Keeps the complete records in an earlier session's record file, and returns their number."""
    whole = store.whole_records(path)
    if whole:
        first = json.loads(whole[0])
        run = first["run"]
        store.keep_record(path, f"{run['system']}:{run.get('partition')}-{first['workload']}-left", b"".join(whole))
        session_files.mark_kept(path)
    return len(whole)


def _generate_whole_jobs(ours):
    """Makes --ci-generate write jobs that apply all options of this command line.

    ReFrame writes a separate job for each fixture, with an option `-n /hash` that does not select a fixture. It passes
    on only one option, --mode, and a mode's -n would select further checks in the job. With this patch, a check's job
    creates its fixtures itself, and gets the mode's options instead of --mode.
    """
    original = ci.emit_pipeline

    @functools.wraps(original)
    def emit_pipeline(file, testcases, child_pipeline_opts=None, *args, **kwargs):
        checks = [case.check for case in testcases if not case.check.is_fixture()]
        whole = [types.SimpleNamespace(check=check, level=0, deps=[]) for check in checks]
        if not whole:
            raise ReframeError(f"nothing to run: no check matches this selection on this system{_left_out()}")
        given = options.given()
        passed = options.handed_on(given)
        options.refuse(options.Session(given, testcases, ours))
        return original(file, whole, passed, *args, **kwargs)

    ci.emit_pipeline = emit_pipeline


def _keep_what_is_left(ours, printer):
    """Keeps the records of jobs that ReFrame gave up before their checks judged them, and of jobs that it repeated."""
    for check in ours.begun:
        try:
            if isinstance(check, ours.check):
                check.keep_what_is_left()
        except SanityError as error:
            printer.error(f"{check.display_name}: {error}")
