"""Bundles of several checks in one job: each check is prepared and judged as if ReFrame had started it alone.

A scheduler job for each check on each node would flood a queue, and ReFrame needs about 90 ms for each check that it
runs. docs/slurm.md describes how to choose between checks and bundles.
"""

import functools
import importlib.util
import pathlib
import shlex
import sys
import typing

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.core.runtime as runtime
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.exceptions import ReframeError, SanityError, SkipTestError

from isthmus import inputs
from isthmus_reframe import ROOT, jobs
from isthmus_reframe.check import IsthmusCheck
from isthmus_reframe.families.listed_check import ListedCheck, Listing
from isthmus_reframe.gates import retries
from isthmus_reframe.job_files import EXIT_CODE

SCRIPT = "cases.sh"
TIMED_OUT = "124"  # exit code of timeout(1)
#: Seconds that each case beyond the first adds to a job's time limit, as in listed checks. -S time_limit=2h sets the
#: limit explicitly.
SECONDS_A_CASE = 20


@functools.cache
def check_classes() -> tuple[type[IsthmusCheck], ...]:
    """Returns the check classes in reframe/checks, which ReFrame itself does not load when it runs bundles."""
    classes = []
    for path in sorted((ROOT / "reframe/checks").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"isthmus_checks_{path.stem}", path)
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        classes += [value for value in vars(module).values() if _is_check(value) and value.__module__ == spec.name]
    return tuple(classes)


def _is_check(value) -> bool:
    return isinstance(value, type) and issubclass(value, IsthmusCheck) and not value.is_abstract()


class Known(typing.NamedTuple):
    """Available check, given by a function that creates a new instance of it for each bundle."""

    make: typing.Callable[[], IsthmusCheck]
    tags: frozenset[str]
    several_ranks: bool


@functools.cache
def known_checks(fullname: str, environ: str) -> tuple[Known, ...]:
    """Returns all checks that this partition and environment can run."""
    known = []
    for cls in check_classes():
        for variant in range(cls.num_variants):
            member = cls(variant_num=variant)
            valid = runtime.valid_sysenv_comb(member.valid_systems, member.valid_prog_environs)
            if any(p.fullname == fullname and any(e.name == environ for e in valid[p]) for p in valid):
                make = functools.partial(cls, variant_num=variant)
                known.append(Known(make, frozenset(member.tags), member.num_tasks > 1))
    return tuple(known)


# Variables that -S NAME=VALUE sets for all checks, including a bundle's members.
SHARED = [name for name in IsthmusCheck.var_space if name not in rfm.RunOnlyRegressionTest.var_space]


class Bundle(IsthmusCheck):
    """Job that runs every check that has all tags of at least one entry of `checks`."""

    #: One or more selections of tags, separated by commas: -S checks='smoke,transfer default'.
    checks = builtins.variable(typ.List[str], value=["smoke"])
    #: Upper limit in seconds for each check, regardless of its own time limit, so that the remaining checks can run.
    check_seconds = builtins.variable(int, type(None), value=None)
    listing = builtins.fixture(Listing, scope="environment")
    mode, size, workload = None, "", "bundle"
    all_gpus = True
    #: True if the members are checks of several ranks, each of which the launcher starts separately. Otherwise they are
    #: checks of one process, and the launcher starts all of them as one step.
    several_ranks = False

    @builtins.run_after("setup")
    def choose(self):
        known = known_checks(self.current_partition.fullname, self.current_environ.name)
        chosen = set()
        for selection in self.checks:
            tags = set(selection.split())
            found = {number for number, check in enumerate(known) if tags and tags <= check.tags}
            if not found:
                raise ReframeError(f"no check has the tags {selection!r} on this system; list the checks with -L")
            chosen |= found
        checks = [known[number] for number in sorted(chosen)]
        self.members = [check.make() for check in checks if check.several_ranks == self.several_ranks]
        if not self.members:
            self.skip(f"no check of {'several ranks' if self.several_ranks else 'one process'} is chosen")
        if self.several_ranks:
            first = self.members[0]
            self.num_tasks, self.num_tasks_per_node = first.num_tasks, first.num_tasks_per_node

    def _folder(self, member) -> pathlib.Path:
        return pathlib.Path(self.stagedir) / member.short_name

    @builtins.run_before("run")
    def command(self):
        """Writes a script that runs the members in turn, and has the job run it instead of a single program."""
        lines = ["#!/usr/bin/env bash", "# One case after another, each in its own folder."]
        for member in self.members:
            lines += ["", *self._prepare(member)]
        (pathlib.Path(self.stagedir) / SCRIPT).write_text("\n".join(lines) + "\n")
        self.executable, self.executable_opts = "bash", [SCRIPT]
        if self.several_ranks:
            self.job.launcher = getlauncher("local")()
        if self.time_limit is None and not self.is_dry_run():
            cases = sum(len(member.points()) * member.processes for member in self.members)
            longest = max(self._seconds(member) for member in self.members)
            self.time_limit = f"{longest + SECONDS_A_CASE * cases}s"

    def _seconds(self, member) -> int:
        own = int(member.time_limit or 600)
        return min(own, self.check_seconds or own)

    def _out_of_time(self, member) -> str:
        try:
            code = inputs.read_note(self._folder(member) / EXIT_CODE).strip()
        except OSError:
            return ""
        return f"ran longer than its {self._seconds(member)} s; " if code == TIMED_OUT else ""

    def _prepare(self, member) -> list[str]:
        """Runs a member's pre-run hooks for a folder of this job, and returns the member's lines of the script."""
        folder = self._folder(member)
        folder.mkdir(exist_ok=True)
        member._current_partition, member._current_environ = self.current_partition, self.current_environ
        member._stagedir, member._rfm_dry_run = str(folder), self.is_dry_run()
        for name in SHARED:
            setattr(member, name, getattr(self, name))
        if hasattr(self, "build"):
            member.build = self.build
        if isinstance(member, ListedCheck):
            member.listing = self.listing
        member._job, member.has_own_job = self.job, False
        for hook in type(member).pipeline_hooks().get("pre_run", []):
            if hook.__name__ != "watch_job":  # there is one job, and this bundle watches it
                hook(member)
        if not (folder / jobs.OTHER_JOBS).is_symlink():
            (folder / jobs.OTHER_JOBS).symlink_to(f"../{jobs.OTHER_JOBS}")
        exports = [f"export {name}={shlex.quote(str(value))}" for name, value in member.env_vars.items()]
        start = f"timeout --kill-after=10 {self._seconds(member)}"
        if self.several_ranks:
            start += f" {self.job.launcher.run_command(self.job)}"
        program = " ".join([start, member.executable, *member.executable_opts])
        steps = [f"cd {shlex.quote(folder.name)}", *exports, *member.prerun_cmds, program, *member.postrun_cmds]
        return ["(", *(f"  {step}" for step in steps), ")"]

    @builtins.sanity_function
    def judge(self):
        failures, skips, bounds, kinds = {}, [], {}, set()
        for member in self.members:
            try:
                sn.evaluate(member.judge())
            except SanityError as error:
                kinds.add(type(error))
                failures.setdefault(f"{self._out_of_time(member)}{error}", []).append(member.display_name)
            except SkipTestError as error:
                skips.append(f"{member.display_name}: {error}")
            else:
                self.has_measured = True
                self._take_figures(member, bounds)
        self.keep_fingerprints_of(self.members)
        if failures:
            number = sum(map(len, failures.values()))
            reasons = "; ".join(f"{_some(names)}: {error}" for error, names in failures.items())
            raise _worst(kinds)(f"{number} of {len(self.members)} checks failed: {reasons}")
        code = self._exit_code()
        if end := jobs.abnormal_end(self.job, well=code == 0):
            raise SanityError(f"{end} after the last check")
        self.judge_environment()
        if len(skips) == len(self.members):
            self.skip(f"all {len(skips)} checks: {skips[0]}")
        if bounds:
            self.reference = {self.current_partition.fullname: bounds}
        self._published = set(self.perf_variables)
        return True

    def _take_figures(self, member, bounds):
        for name, function in member.perf_variables.items():
            own = f"{member.record_name()}/{name}"
            self.perf_variables[own] = function
            try:
                bounds[own] = member.reference[f"{self.current_partition.fullname}:{name}"]
            except KeyError:
                continue

    def keep_what_is_left(self):
        members = [member for member in getattr(self, "members", []) if member.stagedir]
        left = "".join(member.keep_what_is_left() for member in members)
        self.keep_fingerprints_of(members)
        return left


def _worst(kinds: set[type[SanityError]]) -> type[SanityError]:
    """Returns the kind of error that a bundle raises if its checks failed with errors of these kinds."""
    if retries.WrongResult in kinds:
        return retries.WrongResult
    return retries.Interrupted if kinds == {retries.Interrupted} else SanityError


def _some(names: list[str]) -> str:
    """Returns a text that names checks that failed for a common reason, such as a node that went down: up to two names
    and the number of other checks."""
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
