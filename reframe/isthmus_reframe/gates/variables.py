"""Refuses -S of variables without effect."""

import argparse
import functools
import sys

from reframe.core.decorators import TestRegistry
from reframe.core.exceptions import ReframeError
from reframe.frontend.loader import RegressionCheckLoader

from isthmus_reframe.results_database import RESULTS


def given() -> dict[str, list[str]]:
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


def refuse_overwritten(testcases, programs):
    if not any(isinstance(case.check, programs) for case in testcases):
        return
    for setting in given()["setvar"]:
        name = setting.partition("=")[0]
        variable = name.rpartition(".")[2]
        if instead := _OVERWRITTEN.get(variable):
            raise ReframeError(f"-S {name}=… has no effect, as the checks set it themselves: {instead}")
        if variable in RESULTS:
            instead = _CHOSEN_BY.get(variable, "leave it out")
            raise ReframeError(f"-S {name}=… has no effect, as it is a result of the measurement: {instead}")


def refuse_unknown(testcases):
    """A variable that no chosen check has, as `-S sampels=7`: a warning to ReFrame, which measures without it."""
    classes = {type(case.check).__name__ for case in testcases}
    lacking = [set(_unset.get(name, ())) for name in classes]
    unknown = []
    for setting in given()["setvar"]:
        name = setting.partition("=")[0]
        owner, dot, variable = name.partition(".")
        if dot and (owner not in classes or variable in _unset.get(owner, ())):
            unknown.append(name)
    unknown += sorted(set.intersection(*lacking) if lacking else ())
    if unknown:
        raise ReframeError(f"-S {unknown[0]}=…: no chosen check has such a variable; look for a typing error")


def note_unset():
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
