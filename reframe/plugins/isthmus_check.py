"""What every Isthmus check is made of: a build, a base class, and gates against passing silently.

ReFrame lets several failures through without a word; docs/decisions/0004-reframe-gates.md lists them and the line
here that closes each. A check reads the record that isthmus-bench wrote and nothing else.
"""

import argparse
import contextlib
import datetime
import errno
import functools
import importlib.util
import itertools
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import statistics
import sys
import tempfile
import types
import typing

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.core.runtime as runtime
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.decorators import TestRegistry
from reframe.core.environments import Environment
from reframe.core.exceptions import ReframeError, RunSessionTimeout, SanityError
from reframe.core.logging import getlogger
from reframe.frontend import ci
from reframe.frontend.executors import Runner
from reframe.frontend.loader import RegressionCheckLoader

ROOT = pathlib.Path(__file__).resolve().parents[2]
if str(ROOT / "analysis") not in sys.path:
    sys.path.insert(0, str(ROOT / "analysis"))

import site_gates

import catalogue
import figure_lines
import job_warnings
import jobs
import profilers
import quick_start
import record_gates
import retries
import selections
import session_files
import spack_build
import steady_clock
import unjudged
from isthmus import inputs, spelling, units
from isthmus.profiles import as_record, profile
from isthmus.records import content, doubts, load, validate
from isthmus.references import lookup
from isthmus.site import capabilities
from results_database import RESULTS, Fingerprinted

for each in (quick_start, steady_clock, selections, session_files, retries, figure_lines):
    each.install()

RECORD = "record.jsonl"
_MOST_RECORDS = 128 * inputs.MIB  # bytes of a record file; 300 records of long runs have 1 MiB
EXIT_CODE = "exit_code"
LISTING = "listing.json"
#: File in which scripts/build-once notes the program's folder.
BUILT = "built"

# What a job writes into its stage folder, and its session believes.
WRITTEN = (
    RECORD, "record.tables", EXIT_CODE, LISTING, profilers.UNPROFILED, "unprofiled.tables", profilers.FOLDER,
    jobs.NOT_LOADED, RECORD + session_files.KEPT, profilers.UNPROFILED + session_files.KEPT,
)  # fmt: skip

# A figure may pass its physical limit by the error of a clock, not by more: then the figure or the limit is wrong.
LIMIT_SLACK = 1.05

# Of the memory that a site states a program gets so much: drivers and the system have theirs.
USABLE = 0.95

# Warnings of others' work beside a measurement, and what can be done.
_COMPANY = {
    "shared_node": ": have {} ask for nodes of its own (access: --exclusive), or state shared_nodes in its extras",
    content.FOREIGN: ": end them, or state shared_nodes in the extras of {}",
}

_kept = []  # record files of this session
_begun = []  # its programs that have a job of their own, repeated ones too
_umask = os.umask(0)
os.umask(_umask)
_started_in = pathlib.Path.cwd()  # while ReFrame loads a check, the working directory is the check's; set right below


def absolute(path) -> pathlib.Path:
    """Relative to where ReFrame was started."""
    return _started_in / path


def results_folder() -> pathlib.Path:
    return absolute(os.environ.get("ISTHMUS_RESULTS") or "results")


# --- a session that selects nothing, and the place of the records ------------------------------------


def _refuse_fallback():
    """On a host that a site's file does not know, ReFrame takes a system of its own, `generic`, and runs there."""
    files = site_gates.configuration_files()
    if files and runtime.runtime().system.name == "generic":
        raise ReframeError(
            f"this machine is none of the systems in {', '.join(files)}; choose with --system, or add it to 'hostnames'"
        )


def _refuse_blanks():
    """ReFrame quotes no path, neither in its scripts nor where it starts them."""
    for path in (str(ROOT), runtime.runtime().stage_prefix, os.environ.get("ISTHMUS_BENCH", "")):
        if len(path.split()) > 1:
            raise ReframeError(f"{path!r} has a blank in it, and ReFrame starts no jobs there; move or rename it")


def _refuse_old_words():
    """A word that no check asks for any more would leave what it states unmeasured, and unmissed."""
    for partition in runtime.runtime().system.partitions:
        if why := capabilities.refused(_stated_words(partition)):
            raise ReframeError(f"{partition.fullname} {why}")


def _left_out() -> str:
    """What the site states that may have left a selection empty."""
    system = runtime.runtime().system
    bare = [partition.fullname for partition in system.partitions if not partition.environs]
    if bare:
        return f" ({', '.join(bare)} lists no environment)"
    if not any(stated_backend(partition) for partition in system.partitions):
        names = ", ".join(partition.fullname for partition in system.partitions)
        return f" ({names}: no GPU is stated, so checks that need one are left out)"
    return ""


def _refuse_unloaded():
    """A check file that does not load is a warning to ReFrame, and its checks are missed by nobody."""
    config = runtime.runtime().site_config
    for place in config.get("general/0/check_search_path"):
        path = pathlib.Path(os.path.expandvars(place))
        below = "**/*.py" if config.get("general/0/check_search_recursive") else "*.py"
        files = [path] if path.is_file() else sorted(path.glob(below))
        if not files:
            raise ReframeError(f"{path} has no checks: look for a typing error behind -c")
        for file in files:
            if RegressionCheckLoader([])._validate_source(file):
                spec = importlib.util.spec_from_file_location(f"isthmus_again_{file.stem}", file)
                module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
                try:
                    spec.loader.exec_module(module)
                except Exception as error:
                    raise ReframeError(f"the check file {file} could not be loaded ({error}); mend it") from None


def _given() -> dict[str, list[str]]:
    """Options of this session's command line that change what its checks do."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in (("-S", "--setvar"), ("-J", "--job-option"), ("--system",)):
        parser.add_argument(*names, action="append", default=[])
    return vars(parser.parse_known_args(sys.argv[1:])[0])


_unset = {}  # of each class of checks the variables that -S names and it does not have


#: Variables of ReFrame that a run of the program sets itself, and what is there instead.
_OVERWRITTEN = {
    "executable": "choose the program by ISTHMUS_BENCH or -S bench=FILE",
    "executable_opts": "add options of isthmus-bench by -S bench_options=…",
    "postrun_cmds": "put commands into 'prerun_cmds', or into the site's 'prepare_cmds'",
}


#: Options that choose what is there as a result.
_CHOSEN_BY = {
    **dict.fromkeys(("device", "arch", "driver", "cpu"), "choose the partition by --system"),
    **dict.fromkeys(("compiler", "mpi", "runtime"), "choose the programming environment by -p"),
    **dict.fromkeys(("code", "git", "emulated"), "choose the program by ISTHMUS_BENCH or -S bench=FILE"),
    "profiled_by": "choose the profiler by -S profiler=NAME",
    "spec": "choose what builds the program by -S build_with=spack",
    "kept": "choose the folder of the records by ISTHMUS_RESULTS",
}


def _refuse_overwritten_variables(testcases):
    if not any(isinstance(case.check, IsthmusProgram) for case in testcases):
        return
    for setting in _given()["setvar"]:
        name = setting.partition("=")[0]
        variable = name.rpartition(".")[2]
        if instead := _OVERWRITTEN.get(variable):
            raise ReframeError(f"-S {name}=… has no effect, as the checks set it themselves: {instead}")
        if variable in RESULTS:
            instead = _CHOSEN_BY.get(variable, "leave it out")
            raise ReframeError(f"-S {name}=… has no effect, as it is a result of the measurement: {instead}")


def _refuse_unknown_variables(testcases):
    """A variable that no chosen check has, as `-S sampels=7`: a warning to ReFrame, which measures without it."""
    classes = {type(case.check).__name__ for case in testcases}
    lacking = [set(_unset.get(name, ())) for name in classes]
    unknown = []
    for setting in _given()["setvar"]:
        name = setting.partition("=")[0]
        owner, dot, variable = name.partition(".")
        if dot and (owner not in classes or variable in _unset.get(owner, ())):
            unknown.append(name)
    unknown += sorted(set.intersection(*lacking) if lacking else ())
    if unknown:
        raise ReframeError(f"-S {unknown[0]}=…: no chosen check has such a variable; look for a typing error")


def _refuse_all_skipped(testcases):
    """A session that measured nothing says nothing of the machine."""
    checks = [case.check for case in testcases if isinstance(case.check, IsthmusCheck)]
    if not checks or any(check.is_dry_run() or check.may_skip_all for check in checks):
        return
    if not any(check.has_measured for check in (*checks, *_begun) if isinstance(check, IsthmusCheck)):
        raise ReframeError(
            f"nothing was measured, all {len(checks)} checks were skipped; choose others, or allow it by "
            "-S may_skip_all=yes"
        )


def _gate_sessions():
    """Makes a session fail that selects nothing, or measures nothing: no check is left that could object.

    Listing and describing never reach Runner.runall(). None of this is ReFrame's public interface, so a ReFrame without
    it fails here, loudly, instead of running without the gate.
    """
    original = Runner.runall
    if hasattr(original, "isthmus_gate"):
        return

    @functools.wraps(original)
    def runall(self, testcases, *args, **kwargs):
        global _started_in
        _started_in = pathlib.Path.cwd()
        _refuse_session(testcases, self._printer)
        if not any(case.check.is_dry_run() for case in testcases):
            _take_folders(testcases, self._printer)
        idle = site_gates.idle_references(self._printer)
        unjudged.note(self._policy, testcases, Fingerprinted)
        try:
            result = original(self, testcases, *args, **kwargs)
        except RunSessionTimeout:  # --duration: the end that was asked for
            self._printer.info("the session has lasted as long as --duration says; what still ran is interrupted")
            jobs.settle([check.job for check in _begun])
            if not any(check.has_measured for check in _begun if isinstance(check, IsthmusCheck)):
                raise ReframeError("nothing was measured before --duration ended the session; make it longer") from None
            raise
        except Exception as error:  # as sacct's; ^C is none
            why = str(error).partition("\n")[0]
            self._printer.error(f"the session gave up: {why}; waiting for its jobs, whose records are kept unjudged")
            jobs.settle([check.job for check in _begun])
            raise
        finally:
            _keep_what_is_left(self._printer)
            if _kept:
                self._printer.info(f"Records: {spelling.counted(len(_kept), 'file')} in {results_folder()}")
            site_gates.report_limits(self._printer)
            job_warnings.report(self._printer, retries.reasons(self.stats))
            if jumped := steady_clock.STEADY.jumped():
                self._printer.warning(f"this machine's clock was set by {jumped:+.0f} s during the session")
        retries.report(self.stats, self._printer)
        unjudged.report(self._policy, testcases, self._printer)
        if not self.stats.failed():
            _refuse_all_skipped(testcases)
        site_gates.refuse_idle(idle, testcases)
        return result

    runall.isthmus_gate = True
    Runner.runall = runall
    _note_unset_variables()
    _generate_whole_jobs()


def _refuse_session(testcases, printer):
    """Raises ReframeError for a selection, an option or a setting with which the session would not do what it says."""
    _refuse_fallback()
    _refuse_blanks()
    _refuse_old_words()
    _refuse_unloaded()
    site_gates.refuse_settings(testcases, printer)
    if not testcases:
        raise ReframeError(
            f"nothing to run: no check matches this selection on this system{_left_out()}; see what there is with -l"
        )
    _refuse_unknown_variables(testcases)
    _refuse_overwritten_variables(testcases)
    unjudged.refuse_switched_off(testcases, (IsthmusProgram, IsthmusBuild))
    selections.refuse_misses(testcases)
    selections.refuse_misspelt_variables()
    selections.refuse_idle_variables(testcases)


def _take_folders(testcases, printer):
    """Reserves the session's folders, checks that they can be written, and keeps the records that are left in them."""
    stage = pathlib.Path(runtime.runtime().stage_prefix)
    session_files.refuse_unwritable()
    session_files.hold(stage)
    session_files.wait_for_leftover_jobs(session_files.stage_folders(testcases), printer)
    session_files.keep_leftovers(stage, _keep_leftover, printer)


def _keep_leftover(path: pathlib.Path) -> int:
    """Keeps what is whole in a record file of an earlier session; the number of its records."""
    whole = whole_records(path)
    if whole:
        first = json.loads(whole[0])
        run = first["run"]
        keep_record(path, f"{run['system']}:{run.get('partition')}-{first['workload']}-left", b"".join(whole))
        session_files.mark_kept(path)
    return len(whole)


def _note_unset_variables():
    """ReFrame warns of each class without a variable that -S names; of builds and lists, which checks bring, nobody
    expects to have it."""
    original, of_fixtures = RegressionCheckLoader.unset_vars, TestRegistry.unset_vars.fget
    fixtures = set()

    @functools.wraps(original)
    def unset_vars(self, testname):
        _unset[testname] = original(self, testname)
        return [] if testname in fixtures else _unset[testname]

    def unset_vars_of_fixtures(self):
        fixtures.update(found := of_fixtures(self))
        return found

    RegressionCheckLoader.unset_vars = unset_vars
    TestRegistry.unset_vars = property(unset_vars_of_fixtures)


def _generate_whole_jobs():
    """--ci-generate makes a job of each fixture, which its own `-n /hash` does not select, and hands on neither -S nor
    the system. Here a check's job makes its fixtures itself."""
    original = ci.emit_pipeline

    @functools.wraps(original)
    def emit_pipeline(file, testcases, options=None, *args, **kwargs):
        passed = [
            shlex.quote(f"--{name.replace('_', '-')}={value}") for name, values in _given().items() for value in values
        ]
        checks = [case.check for case in testcases if not case.check.is_fixture()]
        whole = [types.SimpleNamespace(check=check, level=0, deps=[]) for check in checks]
        if not whole:
            raise ReframeError(f"nothing to run: no check matches this selection on this system{_left_out()}")
        return original(file, whole, [*(options or []), *passed], *args, **kwargs)

    ci.emit_pipeline = emit_pipeline


_gate_sessions()


def _keep_what_is_left(printer):
    """Of jobs on which ReFrame gave up before it asked a check; also of those that it repeated."""
    for check in _begun:
        try:
            if isinstance(check, IsthmusCheck):
                check.keep_what_is_left()
        except SanityError as error:
            printer.error(f"{check.display_name}: {error}")


# --- what a site states ------------------------------------------------------------------------------


def stated_backend(partition, environment=None) -> str | None:
    """cuda or hip where the site says which, gpu where it only says that there is one, else None."""
    features = list(partition.features) + list(environment.features if environment else [])
    for feature in features:
        if feature in capabilities.BACKENDS:
            return capabilities.BACKENDS[feature]
    gpus = [d for d in partition.devices if d.device_type == "gpu"]
    for gpu in gpus:
        if gpu.arch and gpu.arch.startswith(("sm_", "gfx")):
            return "cuda" if gpu.arch.startswith("sm_") else "hip"
    return "gpu" if gpus or "gpu" in features else None


def _stated_words(partition) -> set[str]:
    return set(partition.features) | set(site_setting(partition, "capabilities", []))


def stated_capabilities(partition) -> set[str]:
    """Features and capabilities that the site states of a partition, and what follows from them."""
    stated = _stated_words(partition)
    if stated_backend(partition):
        stated.add("gpu")
    return capabilities.with_implied(stated)


def stated_gpus(partition) -> int:
    """At least so many GPUs does a node have; `peer` means two."""
    stated = stated_capabilities(partition)
    listed = sum(d.num_devices for d in partition.devices if d.device_type == "gpu")
    return max(listed, 2 if "peer" in stated else 1 if "gpu" in stated else 0)


def stated_architectures(partition) -> list[str]:
    """CMake's names of the stated GPUs' architectures: sm_90 → 90, gfx942 → gfx942."""
    archs = {d.arch for d in partition.devices if d.device_type == "gpu" and d.arch}
    return sorted(a.removeprefix("sm_") for a in archs if a.startswith(("sm_", "gfx")))


def site_setting(partition, name, default=None):
    """`extras: {'isthmus': {name: …}}` of the partition."""
    return partition.extras.get("isthmus", {}).get(name, default)


# --- references --------------------------------------------------------------------------------------


def find_references(case: dict, partition: str) -> dict[str, tuple]:
    """Bounds for one record: {metric: (value, lower, upper, unit)}; of a profiled run its counts only."""
    found = lookup.find(site_gates.references(), lookup.case_of(case, partition), case["axes"])
    profiled = case["profiler"] is not None
    found = {name: b for name, b in found.items() if name.startswith(profile.PROFILED) == profiled}
    for name, bound in found.items():
        if profiled and not as_record.is_held(name, bound.unit):
            raise lookup.BadReference(f"a reference for {name!r}: of a profiled run only counts are held to any")
    return {name: tuple(bound) for name, bound in found.items()}


# --- keeping records ---------------------------------------------------------------------------------


def keep_record(source: pathlib.Path, name: str, contents: bytes | None = None) -> pathlib.Path:
    """Copies a record file into the results folder under a name of its own; never changes a file that is there.

    The name tells the run and its job, so what is kept already is not kept again. It appears with its contents
    complete, or not at all: written aside, then linked. Sessions of several hosts may write into one folder. `contents`
    are kept instead of what is in `source` where given. Tables beside the record are kept before it. Raises
    SanityError where it cannot be kept, as where it has more than _MOST_RECORDS bytes.
    """
    folder, tables = results_folder(), source.with_suffix(".tables")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contents = _each_once(inputs.read_small(source, _MOST_RECORDS) if contents is None else contents)
        base = _base_of(name, contents)
        for attempt in range(1, 1000):
            stem = base if attempt == 1 else f"{base}-{attempt}"
            target = folder / f"{stem}.jsonl"
            text = _naming_tables(contents, tables.name, f"{stem}.tables") if tables.is_dir() else contents
            try:
                if _has_lines(target, text):
                    return target
                _place(target, text, tables)
            except FileExistsError:
                continue
            _kept.append(target)
            return target
    except OSError as error:
        why = error.strerror or error
        raise SanityError(f"the record could not be kept in {folder} ({why}); it is still in {source}") from None
    raise SanityError(f"no free name for {base} in {folder}; the record is still in {source}")


def _has_lines(target: pathlib.Path, text: bytes) -> bool:
    """Whether a kept file has all these lines; one that cannot be read is another."""
    try:
        return set(text.splitlines()) <= set(inputs.read_small(target, _MOST_RECORDS).splitlines())
    except OSError:
        return False


def _base_of(name: str, contents: bytes) -> str:
    """When, what, which run and which job, by the first record; by this process where there is none."""
    try:
        run = json.loads(contents.partition(b"\n")[0])["run"]
        words = [re.sub("[-:]", "", run["time"]), name, run["id"], *([f"job{run['job']}"] if run["job"] else [])]
    except (ValueError, KeyError, TypeError, RecursionError):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        words = [now, name, str(os.getpid())]
    return re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(words))


def _each_once(contents: bytes) -> bytes:
    """Without the lines that have stood before."""
    return b"".join(dict.fromkeys(contents.splitlines(keepends=True)))


def _naming_tables(contents: bytes, old: str, new: str) -> bytes:
    """The records with their tables in a folder of another name."""
    lines = []
    for line in contents.split(b"\n"):
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):  # a line that was cut stays as it is
            record = json.loads(line)
            for table in record["tables"]:
                table["file"] = re.sub(f"^{re.escape(old)}/", f"{new}/", table["file"])
            line = json.dumps(record, ensure_ascii=False).encode()
        lines.append(line)
    return b"\n".join(lines)


def _place(target: pathlib.Path, contents: bytes, tables: pathlib.Path) -> None:
    """Writes a record file and its folder of tables, both or none; FileExistsError where one of the names is taken."""
    beside, aside = target.with_suffix(".tables"), None
    if target.exists():
        raise FileExistsError
    if tables.is_dir():
        beside.mkdir()
    try:
        if tables.is_dir():
            shutil.copytree(tables, beside, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
        descriptor, aside = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".part", dir=target.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(contents)
            os.fchmod(descriptor, 0o666 & ~_umask)
            os.fsync(descriptor)
        _name(aside, target)
    except OSError:
        if tables.is_dir():
            shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        if aside:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)


def _name(aside: str, target: pathlib.Path) -> None:
    """Gives a finished file its name unless that is taken (FileExistsError)."""
    try:
        os.link(aside, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # No hard links here: the name is taken first, and shows an empty file for the blink until it is replaced.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o666))
        os.replace(aside, target)


def whole_records(path: pathlib.Path) -> list[bytes]:
    """Returns the records of a file that cannot be taken as a whole: they were measured before the rest was cut.

    Raises SanityError where they have more than _MOST_RECORDS bytes.
    """
    whole, size, bad = {}, 0, []
    try:
        for _, line, _ in load.lines(path, bad):
            for record in _records_within(line.decode("utf-8", errors="surrogateescape")):
                size += len(record) if record not in whole else 0
                whole[record] = None
            if size > _MOST_RECORDS:
                most = f"{_MOST_RECORDS // inputs.MIB} MiB"
                raise SanityError(f"{path} has more than {most} of records, the most that is kept: move it away")
    except validate.RecordError as error:  # also of a file without a line, or that is not there
        bad += [error] if path.is_file() and path.stat().st_size else []
    for error in bad:
        getlogger().warning(f"{error}; what cannot be read is not kept")
    return list(whole)


def _records_within(line: str) -> list[bytes]:
    """The records on a line, each with its end; on one that is no JSON they may stand behind one another, or behind
    half of one."""
    with contextlib.suppress(validate.RecordError, UnicodeError):
        load.parse(line, where="")
        return [line.encode() + b"\n"]
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(line)
        return []
    found, decoder, start = [], json.JSONDecoder(), line.find("{")
    while start >= 0:
        end = start + 1
        with contextlib.suppress(ValueError, RecursionError, validate.RecordError):
            stop = decoder.raw_decode(line, start)[1]
            load.parse(line[start:stop], where="")
            found.append(line[start:stop].encode() + b"\n")
            end = stop
        start = line.find("{", end)
    return found


# --- what a job says ---------------------------------------------------------------------------------


class Run(typing.NamedTuple):
    """Files of a run of the program in its job's stage folder."""

    record: str
    exit_code: str
    said: str = ""  #: what it printed; empty: the standard error of the job


PROGRAM = Run(RECORD, EXIT_CODE)
WITHOUT_PROFILER = Run(profilers.UNPROFILED, profilers.UNPROFILED_CODE, profilers.UNPROFILED_SAID)


def said(check, name: str = "") -> inputs.Ends:
    """Returns what is in this file of a check, or of a build; without a name, the standard error of its job."""
    with contextlib.suppress(OSError, TypeError):
        return inputs.read_ends(pathlib.Path(check.stagedir) / (name or str(check.stderr)))
    return inputs.Ends("")


def judge_environment(check):
    """Raises SanityError where the environment was not loaded, so that another one was built or measured with."""
    heard = said(check)
    where = f"{check.current_partition.fullname}+{check.current_environ.name}"
    if why := jobs.not_loaded(heard.text, check.stagedir):
        raise SanityError(f"the environment of {where} was not loaded ({why}): mend 'modules' there")
    if jobs.is_cut_before_end(heard, check):
        raise SanityError(
            f"whether the environment of {where} was loaded is not known, since loading it wrote too much to be read: "
            f"quiet what it loads; see {check.stderr} in {check.stagedir}{heard.gap}"
        )


# --- the build ---------------------------------------------------------------------------------------


class IsthmusBuild(rfm.CompileOnlyRegressionTest):
    """isthmus-bench, built once for its sources and environment (scripts/build-once); or what $ISTHMUS_BENCH names."""

    descr = "build isthmus-bench"
    #: Path of a built isthmus-bench; empty: build one.
    bench = builtins.variable(str, value=os.environ.get("ISTHMUS_BENCH", ""))
    #: cmake, or spack: in a copy of the site's Spack environment (docs/spack.md). Empty: spack where it has one.
    build_with = builtins.variable(str, value="")
    sourcesdir = None
    build_system = "CustomBuild"
    build_time_limit = "30m"

    @property
    def path(self) -> str:
        if self.bench:
            return str(absolute(self.bench))
        if self.builder == "spack":
            return os.path.join(self.stagedir, spack_build.INSTALLED, "bin/isthmus-bench")
        return os.path.join(self._note()[1], "bin/isthmus-bench")

    def _note(self) -> tuple[str, str]:
        """Reads the note of scripts/build-once: built or reused, and the program's folder."""
        try:
            words = inputs.read_note(pathlib.Path(self.stagedir) / BUILT).split(maxsplit=1)
            return words[0], words[1].strip()
        except (OSError, LookupError):
            return "", "not-built"

    @property
    def builder(self) -> str:
        """cmake or spack."""
        has_environment = spack_build.has_environment(self.current_environ, self.current_system.name)
        return self.build_with or ("spack" if has_environment else "cmake")

    @builtins.run_before("compile")
    def choose_backend(self):
        if self.bench:
            self.build_system.commands = [f"test -x '{self.path}'"]
            return
        backend = stated_backend(self.current_partition, self.current_environ)
        if self.builder == "spack":
            spack_build.prepare(self, backend, stated_architectures(self.current_partition))
            return
        if self.builder != "cmake":
            raise ReframeError(f"build_with is {self.build_with!r}: choose cmake or spack")
        libraries = os.environ.get("ISTHMUS_LIBRARIES")
        if libraries:
            self.env_vars["ISTHMUS_LIBRARIES"] = str(absolute(libraries))
        self.prebuild_cmds = jobs.note_environment(self.current_partition.local_env, self.current_environ)
        if folder := os.environ.get("ISTHMUS_BUILDS"):
            self.env_vars["ISTHMUS_BUILDS"] = str(absolute(folder))
        command = [str(ROOT / "scripts/build-once"), "--note", BUILT]
        if backend in ("cuda", "hip"):
            command += ["--backend", backend]
        architectures = stated_architectures(self.current_partition)
        if "mpi" in self.current_environ.features:
            command += ["--mpi"]
        if architectures:
            command += ["--architectures", "';'".join(architectures)]
        self.build_system.commands = [" ".join(command)]

    @builtins.sanity_function
    def program_is_there(self):
        if not os.access(self.path, os.X_OK):
            raise SanityError(f"{self.path} was not built")
        job_warnings.note(self, str(self.stderr), said(self))
        judge_environment(self)
        if done := self._note()[0]:
            getlogger().info(f"The program: {'reused from' if done == 'reused' else 'built in'} {self._note()[1]}")
        return True


# --- runs of the program -----------------------------------------------------------------------------


class IsthmusProgram(rfm.RunOnlyRegressionTest):
    """A run of isthmus-bench: the one that $ISTHMUS_BENCH names, else the one that this session builds."""

    bench = builtins.variable(str, value=os.environ.get("ISTHMUS_BENCH", ""))
    build_with = builtins.variable(str, value="")  # the build's; here too, or ReFrame warns that -S finds no such
    if not os.environ.get("ISTHMUS_BENCH"):
        build = builtins.fixture(IsthmusBuild, scope="environment")

    sourcesdir = None
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1

    #: Whether the job needs all GPUs that the site states, or one for each rank.
    all_gpus = False
    #: Whether this program alone runs in its job; a bundle's members share one.
    has_own_job = True

    @builtins.run_before("run")
    def program(self):
        path = str(absolute(self.bench)) if self.bench else self.build.path
        if not self.is_dry_run() and not os.access(path, os.X_OK):
            raise ReframeError(f"{path}: no such program; set ISTHMUS_BENCH to a built isthmus-bench, or leave it out")
        self.executable = path
        if self.has_own_job:
            _begun.append(self)
            self.prerun_cmds = [*self._note_environment(), *self.prerun_cmds]
        self._forget_last_job()
        # Schedulers lose exit codes (squeue does), and ReFrame looks at none: the job script writes it down.
        self.postrun_cmds = [f"echo $? > {EXIT_CODE}"]
        self.env_vars["ISTHMUS_SYSTEM"] = self.current_system.name
        self.env_vars["ISTHMUS_PARTITION"] = self.current_partition.name
        gpus = stated_gpus(self.current_partition)
        if gpus:
            wanted = gpus if self.all_gpus else self.num_tasks_per_node or 1
            self.extra_resources.setdefault("gpu", {"num_gpus_per_node": wanted})

    @builtins.run_before("run")
    def watch_job(self):
        jobs.prepare(self)

    @builtins.run_after("run")
    def note_job(self):
        session_files.note_job(self)

    def _note_environment(self) -> list[str]:
        own = Environment(self.unique_name, self.modules)
        return jobs.note_environment(self.current_partition.local_env, self.current_environ, own)

    @builtins.run_before("sanity")
    def look_at_job(self):
        """ReFrame believes squeue where it failed, and does not look whether there still is a stage folder."""
        jobs.wait_for_end(self.job)
        if not os.path.isdir(self.stagedir):
            raise SanityError(f"the stage folder {self.stagedir} is gone: something removed it; run again")
        for name in (str(self.stderr), profilers.UNPROFILED_SAID):
            job_warnings.note(self, name, said(self, name))

    def _forget_last_job(self):
        """Removes what an earlier job left in a stage folder that was kept: here, as this one may never start, and in
        its script, as the earlier one may still end.
        """
        for name in WRITTEN:
            path = pathlib.Path(self.stagedir) / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.prerun_cmds = [f"rm -rf {' '.join(WRITTEN)}", *self.prerun_cmds]

    def _complaint(self, run: Run = PROGRAM) -> str:
        """The end of a sentence: what was said, and where the rest of it is."""
        heard = said(self, run.said)
        why = jobs.complaint(heard.text)
        return f"{f' ({why})' if why else ''}; see {run.said or self.stderr} in {self.stagedir}{heard.gap}"

    def judge_environment(self):
        if self.has_own_job:
            judge_environment(self)

    def _exit_code(self, run: Run = PROGRAM) -> int:
        try:
            return int(inputs.read_note(pathlib.Path(self.stagedir) / run.exit_code))
        except (OSError, ValueError):
            error = retries.Interrupted if jobs.was_interrupted(self.job) else SanityError
            raise error(jobs.unnoted_end(self.job, self.stagedir)) from None


# --- the base class ----------------------------------------------------------------------------------


class Point(typing.NamedTuple):
    """One case of a run: a workload, and its values of the axes that vary in the run."""

    workload: str
    settings: tuple[tuple[str, int | str], ...] = ()

    def __str__(self):
        return " ".join([self.workload, *(f"{axis}={value}" for axis, value in self.settings)])


def points_of(workload: str, varied: dict[str, list]) -> list[Point]:
    return [Point(workload, tuple(zip(varied, values, strict=True))) for values in itertools.product(*varied.values())]


@contextlib.contextmanager
def naming(point):
    """A sanity error in here says of which case it speaks."""
    try:
        yield
    except SanityError as error:
        raise type(error)(f"{point}: {error}") from None


def _ended(code: int) -> type[SanityError]:
    """Kind of error that an exit code of the program stands for."""
    return retries.Interrupted if code == jobs.INTERRUPTED else SanityError


class IsthmusCheck(IsthmusProgram, Fingerprinted):
    """Runs cases of isthmus-bench and holds their records to everything that can be known about them.

    A subclass sets `workload`, `size` and `mode`, and may add to required_metrics(). Where it sets `varied`, there is a
    case for every combination of those values; a run of several workloads says so in points() and request(). What
    ReFrame calls sanity is everything here: there an exception fails the check, while in a performance function it is a
    warning.
    """

    #: nsys, ncu, rocprofv3, cupti or perf around each rank (docs/profiling.md); empty: none.
    profiler = builtins.variable(str, value="")
    samples = builtins.variable(int, type(None), value=None)
    processes = builtins.variable(int, value=1)
    bench_options = builtins.variable(typ.List[str], value=[])
    #: Whether a session may be green in which every check was skipped.
    may_skip_all = builtins.variable(typ.Bool, value=False)

    workload: str
    mode: str | None
    size: str
    cpu_only = False
    #: Whether at least one case was measured.
    has_measured = False
    #: Workloads that leave nothing behind which could be wrong; every other one has to be verified.
    unverified: typing.ClassVar[frozenset[str]] = frozenset()
    #: Axes and the values that one run measures, as the catalogue has them; their names and values follow the metric's
    #: in a performance variable: submit/argument_bytes=256.
    varied: typing.ClassVar[dict[str, list]] = {}

    #: Shown by ReFrame, everything else stays in the record; empty: all metrics.
    published = (
        "in", "kernel", "out", "overlapped", "paper_total", "wall",
        "in_rate", "out_rate", "kernel_rate", "kernel_flop_rate",
    )  # fmt: skip

    # What is asked for; a subclass may ask otherwise.

    def request(self) -> list[str]:
        """What the program is to run."""
        return [self.workload, "--size", self.size, *(["--mode", self.mode] if self.mode else [])]

    def points(self) -> list[Point]:
        """The cases of that, each of which leaves a record per process."""
        return points_of(self.workload, self.varied)

    def settled(self) -> dict[str, str | None]:
        """Fields that are the same in every record."""
        mode = catalogue.load()["modes"].get(self.mode, {"placement": None, "staging": None})
        return {"mode": self.mode, "size": self.size, **mode}

    def axes_of(self, point: Point) -> dict:
        """The values of all axes that the program has been asked for, but those of bench_options."""
        known = catalogue.find(point.workload)
        return {**known.get("axes", {}), **known.get("sizes", {}).get(self.size, {}), **dict(point.settings)}

    def known_axes(self, point: Point) -> set[str] | None:
        """Names of the axes that a record of this case may have; None of a workload that is not in the catalogue."""
        listed = catalogue.find(point.workload).get("axes")
        return None if listed is None else {*listed, *dict(point.settings)}

    def record_name(self) -> str:
        return f"{self.workload}-{self.mode or ''}-{self.size}"

    def required_metrics(self, point: Point) -> set[str]:
        """Metrics without which this case has not been measured: what is shown, and a program's phases."""
        promised = set(catalogue.find(point.workload).get("metrics", ()))
        return promised & (set(self.published) | record_gates.phases(self.settled()["placement"]))

    def is_cpu_only(self, case: dict) -> bool:
        """Whether the CPU measures this case by itself, so that it is no emulation where there is no GPU."""
        return self.cpu_only

    def denied(self, point: Point, case: dict, stated: set[str]) -> set[str]:
        """What the site states, and this case denies by saying that it is unsupported."""
        return stated & {case["placement"], case["staging"]}

    def shown(self, points) -> set[Point]:
        """Of the measured cases those that ReFrame shows; of the others only what a reference holds."""
        return set(points)

    def variable_name(self, point: Point, metric: str, shown: bool) -> str:
        """The name of a performance variable."""
        return "/".join([metric, *(f"{axis}={value}" for axis, value in point.settings)])

    def excuse(self) -> str | None:
        """Why the program cannot measure this at all, where that is no fault."""
        return None

    def uses_gpus(self) -> bool:
        return not self.cpu_only

    @builtins.run_after("init")
    def note_maintainers(self):
        """Those who look after the site: ReFrame names them where a check is red, and chooses by --maintainer."""
        stated = [name for p in runtime.runtime().system.partitions for name in site_setting(p, "maintainers", [])]
        self.maintainers = [*self.maintainers, *dict.fromkeys(stated)]

    @builtins.run_after("init", always_last=True)
    def note_gpus(self):
        """For --gpu-only, --cpu-only and -E, before a partition is chosen: as many as any has."""
        gpus = max(map(stated_gpus, runtime.runtime().system.partitions), default=0)
        if gpus and self.uses_gpus():
            self.num_gpus_per_node = gpus if self.all_gpus else self.num_tasks_per_node or 1

    # Preparing the job.

    @builtins.run_before("run")
    def command(self):
        self.executable_opts = ["run", *self.request(), "--record", RECORD]
        if self.samples is not None:
            self.executable_opts += ["--samples", str(self.samples)]
        if self.processes != 1:
            self.executable_opts += ["--processes", str(self.processes)]
        self.executable_opts += self.bench_options
        if self.profiler:
            profilers.wrap(self, RECORD)

    # Judging what came back, in order of what explains the most.

    @builtins.sanity_function
    def judge(self):
        if why := self.excuse():
            self.skip(why)
        if self.profiler:
            self._judge_profile()
        cases = self._read_record(PROGRAM)
        self._publish(self._without_skips(self._judge_run(PROGRAM, cases)))
        return True

    def _judge_run(self, run, cases) -> dict[Point, list[dict]]:
        """Holds a run of the program to what it was asked for; its records by case."""
        points = self._by_point(cases)
        for point, found in points.items():
            with naming(point):
                for case in found:
                    self._judge_case(case)
                    self._judge_request(point, case)
        code = self._exit_code(run)
        self._judge_end(code)
        self._judge_number(points, code, run)
        if code != 0:
            words = jobs.exit_code_in_words(code)
            raise _ended(code)(f"isthmus-bench ended with exit code {words}{self._complaint(run)}")
        self.judge_environment()
        for case in cases:
            self._judge_spoilt(case)
            self._judge_grant(case)
        return points

    def _judge_profile(self):
        """Judges the run without the profiler, and adds to the other what the profiler saw. A check whose profiler may
        not run is skipped."""
        stage = pathlib.Path(self.stagedir)
        try:
            with naming(f"without {self.profiler}"):
                plain = self._read_record(WITHOUT_PROFILER)
                self._judge_run(WITHOUT_PROFILER, plain)
            self._judge_refusal(stage, plain)
            profilers.amend(self.profiler, stage, RECORD, plain)
        except SanityError:
            if (path := stage / RECORD).exists():  # whatever became of the profile
                profilers.keep(stage, self._keep_record(path))
            raise

    def _judge_refusal(self, stage, plain):
        """Skips the check where its profiler may not run, unless the site states it."""
        reason = profilers.refused(self.profiler, stage / profilers.FOLDER, plain)
        if reason is None:
            return
        uses_gpu = any(case["devices"] and not case["emulated"] for case in plain)
        if uses_gpu and self.profiler in stated_capabilities(self.current_partition):
            raise SanityError(f"{reason}, but {self.current_partition.fullname} states {self.profiler}")
        self.skip(reason)

    def _read_record(self, run) -> list[dict]:
        path = pathlib.Path(self.stagedir) / run.record
        if not path.exists():
            code = jobs.exit_code_in_words(self._exit_code(run))
            raise SanityError(
                f"no record: isthmus-bench ended with exit code {code} and wrote none{self._complaint(run)}"
            )
        if (size := path.stat().st_size) > _MOST_RECORDS:
            most = _MOST_RECORDS // inputs.MIB
            raise SanityError(f"{path} has {size // inputs.MIB} MiB, more than the {most} MiB that records may have")
        try:
            cases = load.read(path) if size else []
        except validate.RecordError as error:
            kept = self.keep_what_is_left(run)
            code = self._exit_code(run)  # a job that was killed explains a line that was cut
            if code and (end := jobs.abnormal_end(self.job)):
                raise (retries.Interrupted if jobs.was_interrupted(self.job) else SanityError)(f"{end}{kept}") from None
            why = f" ({why})" if (why := jobs.complaint(said(self, run.said).text)) else ""
            end = f"isthmus-bench ended with exit code {jobs.exit_code_in_words(code)}{why}, and " if code else ""
            raise SanityError(f"{end}the record cannot be taken: {error}{kept}") from None
        self.keep_fingerprint(cases)
        if cases:
            self._keep(run, path, cases)
        for table in itertools.chain.from_iterable(case["tables"] for case in cases):
            try:
                load.table_path(path, table)
            except validate.RecordError as error:
                raise SanityError(str(error)) from None
        return cases

    def _keep_record(self, path, contents=None) -> pathlib.Path:
        kept = keep_record(path, f"{self.current_partition.fullname}-{self.record_name()}", contents)
        session_files.mark_kept(path)
        self.kept = [*self.kept, str(kept.absolute())]
        return kept

    def _keep(self, run, path, cases):
        """Keeps the record; where other jobs ran on the node, it says so of itself."""
        contents = None
        if message := jobs.company(self.job, self.stagedir):
            for case in cases:
                case["warnings"].append({"code": "shared_node", "message": message, "samples": None})
            contents = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases).encode()
        kept = self._keep_record(path, contents)
        if run is PROGRAM:
            profilers.keep(pathlib.Path(self.stagedir), kept)

    def keep_what_is_left(self, *runs: Run) -> str:
        """Keeps what was measured before the check, or ReFrame, gave up on the job, and says how much that is."""
        if self.is_dry_run() or not self.stagedir:
            return ""
        number = 0
        for path in (pathlib.Path(self.stagedir) / run.record for run in runs or (WITHOUT_PROFILER, PROGRAM)):
            if path.exists() and not session_files.is_kept(path) and (whole := whole_records(path)):
                self._keep_record(path, b"".join(whole))
                number += len(whole)
        return f"; {spelling.counted(number, 'whole record', 'are')} kept" if number else ""

    def _by_point(self, cases) -> dict[Point, list[dict]]:
        """The records of each case that was asked for, one from every process."""
        points = {point: [] for point in self.points()}
        axes = {point.workload: [axis for axis, _ in point.settings] for point in points}
        for case in cases:
            varied = axes.get(case["workload"], ())
            point = Point(case["workload"], tuple((axis, case["axes"].get(axis)) for axis in varied))
            if point not in points:
                raise SanityError(f"a record of {point}, which was not asked for")
            points[point].append(case)
        return points

    def _judge_end(self, code):
        """Of the job; a program that ended well shares it with others in a bundle, which asks for itself."""
        if (self.has_own_job or code != 0) and (end := jobs.abnormal_end(self.job, well=code == 0)):
            error = retries.Interrupted if jobs.was_interrupted(self.job) else SanityError
            raise error(f"{end}; isthmus-bench ended with exit code {jobs.exit_code_in_words(code)}")

    def _judge_number(self, points, code, run):
        for point, found in points.items():
            if len(found) != self.processes:
                total, asked = sum(map(len, points.values())), self.processes * len(points)
                end = f"; isthmus-bench ended with exit code {jobs.exit_code_in_words(code)}" if code else ""
                if total < asked:
                    end = f"{end or '; isthmus-bench ended well'}{self._complaint(run)}"
                raise _ended(code)(f"{total} records where {asked} were asked for, {len(found)} of {point}{end}")
            numbers = sorted(case["run"]["process"] for case in found)
            if numbers != list(range(1, self.processes + 1)):
                shown = ", ".join(map(str, numbers))
                raise SanityError(f"the records of {point} are of processes {shown}: another's is lost")
        runs = sorted({case["run"]["id"] for found in points.values() for case in found})
        if len(runs) > 1:
            raise SanityError(f"the records are of {len(runs)} runs ({', '.join(runs)}), this job made one: another's")

    def _judge_spoilt(self, case):
        """Figures that no comparison takes are not green, unless the site states that it is so."""
        where = self.current_partition
        stated = {"pcie_downtrained"} if site_setting(where, "pcie") else set()
        if site_setting(where, "shared_nodes", False):
            stated |= set(_COMPANY)
        # One that was gone after the case may be the job's own program before, whose memory the driver still freed:
        # the record is of no use, the node is sound.
        if not any((device.get("state_after") or {}).get("foreign_processes") for device in case["devices"]):
            stated.add(content.FOREIGN)
        for warning in content.spoiling(case):
            if warning["code"] not in stated:
                mend = _COMPANY.get(warning["code"], "").format(where.fullname)
                raise SanityError(f"{warning['message']}, which spoils what was measured{mend}")

    def _judge_grant(self, case):
        """Two looks do not see a job that came and went between them, so a node that may be shared is not green."""
        where = self.current_partition
        if not site_setting(where, "shared_nodes", False) and (why := jobs.shared_grant(case, self.job)):
            raise SanityError(f"{why}{_COMPANY['shared_node'].format(where.fullname)}")

    def _judge_case(self, case):
        if why := jobs.foreign(case, self.job, self.current_system.name, self.current_partition.name):
            raise SanityError(why)
        for field, asked in self.settled().items():
            if case.get(field) != asked:
                raise SanityError(f"the record's {field} is {case.get(field)!r}, asked was {asked!r}")
        ranks = case.get("ranks", {"count": 1, "each": [None]})
        if ranks["count"] != self.num_tasks:
            raise SanityError(f"the record is of {ranks['count']} ranks, {self.num_tasks} were started")
        if len(ranks["each"]) != self.num_tasks:
            raise SanityError(f"the record has {len(ranks['each'])} ranks where {self.num_tasks} ran: one is lost")
        if case["error"]:
            raise SanityError(f"failed: {case['error']}")
        gpus = self.extra_resources.get("gpu", {}).get("num_gpus_per_node", 0)
        on_gpus = not (case["emulated"] or self.is_cpu_only(case))
        for why in (
            jobs.short_grant(case, gpus),
            jobs.crowded_ranks(case, on_gpus=on_gpus),
            record_gates.misnamed_device(case),
        ):
            if why:
                raise SanityError(why)
        self._judge_device(case)
        if case["skipped"]:
            return
        if why := record_gates.interrupted(case):
            raise retries.Interrupted(why)
        self._judge_result(case)

    def _judge_result(self, case):
        """What the record says of the result has to fit what it says of the error."""
        workload, verify = case["workload"], case["verify"]
        status, error, tolerance = verify["status"], verify["error"], verify["tolerance"]
        if status == "not_applicable" and workload in self.unverified:
            return
        within = error is not None and tolerance is not None and error <= tolerance
        if status != "pass" or not within:
            detail = verify.get("detail") or f"error {error}, tolerance {tolerance}"
            raise retries.WrongResult(f"wrong result ({status}, {verify['method']}): {detail}")
        if why := record_gates.loose_tolerance(case):
            raise SanityError(why)

    def _judge_request(self, point, case):
        """Holds a record to the options that its program was given."""
        for why in (
            record_gates.unknown_axes(case, self.known_axes(point)),
            record_gates.few_samples(case, self.samples),
        ):
            if why:
                raise SanityError(why)
        if "--preset" not in self.bench_options:
            self._judge_axes(point, case)

    def _judge_axes(self, point, case):
        chosen = {word.partition("=")[0] for word in self.bench_options}  # --set AXIS=VALUE
        for axis, asked in self.axes_of(point).items():
            if axis not in chosen and case["axes"].get(axis) != asked:
                raise SanityError(f"the record's {axis} is {case['axes'].get(axis)!r}, asked was {asked!r}")

    def _judge_device(self, case):
        """A stated GPU must have done the work: a broken driver may not turn into emulated figures."""
        if self.is_cpu_only(case):
            if case["emulated"]:
                raise SanityError("this is what the CPU does by itself, but the record is emulated")
            return
        stated = stated_backend(self.current_partition)
        if stated is None:
            return
        where = self.current_partition.fullname
        if case["emulated"]:
            raise SanityError(f"{where} states a GPU ({stated}), but the record is emulated: driver, build or request")
        backends = {d["backend"] for d in case["devices"]}
        if not backends and not case["skipped"]:
            raise SanityError(f"{where} states a GPU ({stated}), but the record names no device")
        if stated != "gpu" and backends - {stated}:
            raise SanityError(f"{where} states {stated}, but {', '.join(sorted(backends))} ran")

    def _without_skips(self, points):
        """A skip is a skip, unless it denies what the site states; all skipped, and the check is."""
        measured, reasons = {}, []
        for point, cases in points.items():
            with naming(point):
                reason = self._judge_skips(point, cases)
            if reason is None:
                measured[point] = cases
                continue
            reasons.append(reason)
            getlogger().verbose(f"{self.display_name}: skipped {point}: {reason}")
        if not measured:
            self.skip(reasons[0])
        self.has_measured = True
        return measured

    def _judge_skips(self, point, cases) -> str | None:
        """Why all processes skipped a case; None where they measured it."""
        reasons = [c["skipped"] for c in cases if c["skipped"]]
        if not reasons:
            return None
        if len(reasons) != len(cases):
            raise SanityError(f"{len(reasons)} of {len(cases)} processes skipped: {reasons[0]}")
        partition, case = self.current_partition, cases[0]
        denied = self.denied(point, case, stated_capabilities(partition))
        if case.get("skip_kind") == "unsupported" and denied:
            raise SanityError(f"skipped ({reasons[0]}), but {partition.fullname} states {', '.join(sorted(denied))}")
        for case in cases:
            self._judge_memory(case)
        return reasons[0]

    def _judge_memory(self, case):
        """A case that fits into the memory that the site states: another process holds it."""
        if not (short := case.get("short_of")):
            return
        memory, needed = short["memory"], short["needed"]
        stated = site_setting(self.current_partition, f"{memory}_memory")
        if stated is not None and needed <= USABLE * units.amount(str(stated)):
            raise SanityError(
                f"skipped ({case['skipped']}), but {self.current_partition.fullname} states {stated} of {memory} "
                "memory: end what holds the rest"
            )

    def _publish(self, points):
        """Fills perf_variables with plain numbers, and holds every case to its limits and references."""
        bounds, shown = {}, self.shown(points)
        self.doubts = {}  # by performance variable, what stands next to it on a screen
        for point, cases in points.items():
            with naming(point):
                figures = self._figures(point, cases)
                names = [n for n in self.published or figures if n in figures] if point in shown else []
                names += [n for n in figures if n.startswith(profile.PROFILED) and n not in names]
                held = self._references(cases[0], figures, set(names))
            for metric in dict.fromkeys([*names, *held]):
                value, unit = figures[metric]
                name = self.variable_name(point, metric, point in shown)
                self.perf_variables[name] = sn.make_performance_function(sn.defer(value), unit)
                reference = held[metric][0] if metric in held else None
                found = [(case, content.metrics(case).get(metric)) for case in cases]
                self.doubts[name] = doubts.say_of_equals([each for each in found if each[1]], reference)
                if metric in held:
                    bounds[name] = held[metric]
        if bounds:
            self.reference = {self.current_partition.fullname: bounds}
        for name, function in self.perf_variables.items():  # a subclass's own, too: here an exception is red
            value = function.evaluate()
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise SanityError(f"the performance variable {name!r} is {value!r}, not a number")
        self._published = set(self.perf_variables)

    def _figures(self, point, cases) -> dict[str, tuple]:
        """The metrics of one case, each the median over its processes, with its unit."""
        try:
            medians = [content.metrics(case) for case in cases]
        except validate.RecordError as error:
            raise SanityError(str(error).removeprefix(f"{point.workload}: ")) from None
        # Under a profiler no latch holds streams, so what needs one is not measured.
        required = set() if self.profiler else self.required_metrics(point)
        for metrics in medians:
            for name in sorted(required - set(metrics)):
                raise SanityError(f"the record lacks the metric {name!r}")
            for name, metric in metrics.items():
                self._judge_metric(name, metric, cases[0])
        figures = {}
        for name, metric in medians[0].items():
            value = statistics.median(m[name]["median"] for m in medians if name in m)
            figures[name] = (value, metric["unit"])
        return figures

    def _judge_metric(self, name, metric, case):
        value = metric["median"]
        if value is None:
            spoilt = ", ".join(sorted({w["code"] for w in case["warnings"]})) or "no warning says why"
            raise SanityError(f"{name}: every sample is invalid ({spoilt})")
        if name.startswith(profile.PROFILED):
            return
        if name in (self.published or (name,)) and value <= 0 and metric["unit"] != "1":  # a share may be none
            why = "nothing takes no time" if metric["unit"] == "s" else "nothing was moved"
            raise SanityError(f"{name} is {value} {metric['unit']}: {why}")
        share, limit = metric.get("share"), metric.get("limit")
        if share is not None and share > LIMIT_SLACK and not case["emulated"]:
            source = limit["source"] if limit else "its limit"
            raise SanityError(f"{name} is {share:.0%} of what {source} allows: the figure or the limit is wrong")

    def _references(self, case, figures, shown) -> dict[str, tuple]:
        """Bounds of this case's figures; required of those that are shown."""
        partition = self.current_partition
        try:
            found = find_references(case, partition.name)
            self._judge_unreferenced(case, set(figures) - set(found))
        except lookup.BadReference as error:
            raise SanityError(str(error)) from None
        required = site_setting(partition, "require_reference", False)
        required = shown if required is True else shown & set(required or [])
        if self.profiler:
            required = set()  # asked for, so no figure is held but counts
        if required and (case["emulated"] or case["profiler"]):
            what = "emulated" if case["emulated"] else f"profiled by {case['profiler']}"
            raise SanityError(f"{partition.fullname} requires references, but these times are {what}")
        for name in sorted(required - set(found)):
            raise SanityError(f"no reference for {name!r}, and {partition.fullname} requires one")
        for name in sorted(set(found) - set(figures)):
            raise SanityError(f"a reference for {name!r}, which this case does not report")
        if case["emulated"]:
            return {}  # such times mean nothing beside a reference
        for name, bound in found.items():
            if bound[3] != figures[name][1]:
                raise SanityError(f"the reference for {name} is in {bound[3]!r}, the metric in {figures[name][1]!r}")
        return found

    def _judge_unreferenced(self, case, metrics):
        """Where no reference holds, the limit of the hardware does."""
        if case["emulated"] or case["profiler"]:
            return
        partition = self.current_partition
        stated = {name: site_setting(partition, name) for name in ("pcie", "links")}
        stated = {name: value for name, value in stated.items() if value is not None}
        selectors = lookup.case_of(case, partition.name)
        for name, metric in content.metrics(case).items():
            if name in metrics:
                why = lookup.insane(site_gates.references(), metric, case, selectors, stated)
                if why:
                    raise SanityError(why)
                site_gates.note_limits(metric, case, selectors)

    @builtins.run_before("cleanup")
    def keep_unjudged(self):
        """ReFrame removes the stage folder of a check that it did not judge."""
        self.keep_what_is_left()

    @builtins.run_after("performance")
    def nothing_dropped(self):
        """ReFrame drops a performance variable that it cannot evaluate, with a warning."""
        if self.unjudged:  # nothing was published
            return
        prefix = f"{self.current_partition.fullname}:"
        dropped = self._published - {key.removeprefix(prefix) for key in self.perfvalues}
        if dropped:
            raise SanityError(f"ReFrame dropped the performance variable {sorted(dropped)[0]!r}")
