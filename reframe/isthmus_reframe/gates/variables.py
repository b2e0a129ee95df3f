"""Gate for -S options that set variables without effect."""

import functools

from reframe.core.decorators import TestRegistry
from reframe.core.exceptions import ReframeError
from reframe.frontend.loader import RegressionCheckLoader

from isthmus_reframe.results_database import RESULTS

_unset = {}  # variables that -S names and a class of checks lacks, keyed by class


#: ReFrame's variables that the checks themselves set, and what to use instead of -S.
_OVERWRITTEN = {
    "executable": "choose the program with ISTHMUS_BENCH or -S bench=FILE",
    "executable_opts": "add options of isthmus-bench with -S bench_options=…",
    "postrun_cmds": "put commands into 'prerun_cmds', or into the site's 'prepare_cmds'",
}


#: Variables that are results, with the option that determines each.
_CHOSEN_BY = {
    **dict.fromkeys(("device", "arch", "driver", "cpu"), "choose the partition with --system"),
    **dict.fromkeys(("compiler", "mpi", "runtime"), "choose the programming environment with -p"),
    **dict.fromkeys(("code", "git", "emulated"), "choose the program with ISTHMUS_BENCH or -S bench=FILE"),
    "profiled_by": "choose the profiler with -S profiler=NAME",
    "spec": "choose the builder of the program with -S build_with=spack",
    "kept": "choose the folder of the records with ISTHMUS_RESULTS",
}


def refuse_overwritten(testcases, programs, settings: list[str]):
    """Raises ReframeError for variables that something else determines, regardless of -S."""
    ours = [case.check for case in testcases if isinstance(case.check, programs)]
    if not ours:
        return
    for setting in settings:
        name = setting.partition("=")[0]
        owner, _, variable = name.rpartition(".")
        if variable == "build_with":
            _refuse_idle_builder(ours, setting, owner)
        if instead := _OVERWRITTEN.get(variable):
            raise ReframeError(f"-S {name}=… has no effect, because the checks set it: {instead}")
        if variable in RESULTS:
            instead = _CHOSEN_BY.get(variable, "leave it out")
            raise ReframeError(f"-S {name}=… has no effect, because it is a result of the measurement: {instead}")


def _refuse_idle_builder(programs, setting: str, owner: str):
    """Raises ReframeError if -S chooses a builder although the session does not build."""
    if any(program.bench for program in programs):
        raise ReframeError(
            f"-S {setting} has no effect, because ISTHMUS_BENCH or -S bench=… names a built program: unset "
            "ISTHMUS_BENCH, or leave build_with out"
        )
    if owner and owner != "IsthmusBuild":
        raise ReframeError(
            f"-S {setting} has no effect, because one build serves all checks: write -S {setting.partition('.')[2]}"
        )


def refuse_unknown(testcases, settings: list[str]):
    """Raises ReframeError for a variable that no chosen check has, such as in `-S sampels=7`, because ReFrame only
    warns and measures without it."""
    classes = {type(case.check).__name__ for case in testcases}
    lacking = [set(_unset.get(name, ())) for name in classes]
    unknown = []
    for setting in settings:
        name, equals, _ = setting.partition("=")
        if not equals:
            raise ReframeError(f"-S {setting} sets nothing: write -S {setting}=VALUE, or leave it out")
        owner, dot, variable = name.partition(".")
        if dot and (owner not in classes or variable in _unset.get(owner, ())):
            unknown.append(name)
    unknown += sorted(set.intersection(*lacking) if lacking else ())
    if unknown:
        raise ReframeError(f"-S {unknown[0]}=…: no chosen check has such a variable; check the spelling")


def note_unset():
    """Makes ReFrame note, for each class, the variables that it could not set, instead of warning. ReFrame would also
    warn about builds and lists, which checks depend on and which are not expected to have the variable."""
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
