"""Tests of ReFrame's options.

Each option has a gate or does not need one, and either reaches the jobs of a generated pipeline or is refused.
"""

import doctest

import pytest
import yaml
from reframe.core.exceptions import ReframeError
from reframe.frontend import argparse, cli

import isthmus_reframe.check  # noqa: F401, installs the gates
from isthmus_reframe.gates import expressions, options

CHECKS = "transfer_modes.py"


@pytest.fixture(scope="module")
def parser():
    """Returns ReFrame's argument parser, intercepted when ReFrame is about to parse the command line."""

    class Made(Exception):
        pass

    def parse_args(self, *_, **__):
        raise Made(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        with pytest.raises(Made) as made:
            cli.main()
    return made.value.args[0]


def test_the_table_has_every_option_of_reframe(parser):
    theirs = {" ".join(action.option_strings): action.nargs for action in parser._holder._actions}
    values = {None: "one", 0: "flag", "?": "maybe"}
    assert {row.flags: row.values for row in options.OPTIONS} == {
        flags: values[nargs] for flags, nargs in theirs.items()
    }
    assert len({row.name for row in options.OPTIONS}) == len(options.OPTIONS)


def test_an_option_that_is_new_is_missed(parser):
    parser._holder.add_argument("--select-otherwise")
    with pytest.raises(AssertionError):
        test_the_table_has_every_option_of_reframe(parser)
    parser._holder._actions.pop()


def test_the_table_has_every_variable_of_an_option_that_is_handed_on(parser):
    theirs = {}
    for action in parser._holder._actions:
        variable, _, kind, *_ = parser._option_map.get(action.dest, (None, None, None))
        theirs[" ".join(action.option_strings)] = (
            f"{'!' if kind == 'store_false' else ''}{variable}" if variable else ""
        )
    for row in options.OPTIONS:
        if row.generated == options.HANDED_ON:
            assert row.environment == theirs[row.flags], row.flags


def test_every_option_has_a_gate_or_a_reason_for_none():
    for row in options.OPTIONS:
        assert callable(row.gate) or row.gate, row.flags
        assert row.generated, row.flags


def test_the_parts_of_expressions():
    assert doctest.testmod(expressions).failed == 0


@pytest.mark.parametrize(
    "option, why",
    [
        (["-x", "NoSuchCheck"], "-x 'NoSuchCheck' excludes no check that is chosen without it"),
        (["-T", "nosuchtag"], "-T 'nosuchtag' excludes no check"),
        (["-E", "mode == 'pm' or mode == 'uvm_asnc'"], "uvm_asnc"),
        (["-E", "mode == 'pm'", "-E", "size == 'tiny'"], "several times, but ReFrame uses only the last one"),
        (["-J", "reservation=maint"], "-J reservation=maint: the scheduler 'local' takes no options: leave it out"),
        (["-J", "exclusive", "-J", "constraint=a100"], "-J exclusive: the scheduler 'local' takes no options"),
        (["-S", "build_with=sapck"], "-S build_with=sapck has no effect, because ISTHMUS_BENCH or -S bench=… names"),
        (["-S", "samples"], "-S samples sets nothing: write -S samples=VALUE"),
        (["-S", "modules=cuda/99.9"], "(cuda/99.9) are never loaded, because modules_system is 'nomod'"),
        (["-m", "cuda/99.9"], "modules of -m (cuda/99.9) are never loaded"),
        (["-u", "cuda"], "-u has no effect, because modules_system is 'nomod'"),
        (["--purge-env"], "--purge-env has no effect"),
        (["--map-modul=cuda:cudatoolkit"], "-M has no effect"),
        (["--module-path=+/opt"], "--module-path has no effect"),
        (["--flex-alloc-nodes=2"], "--flex-alloc-nodes has no effect, because no chosen check has a flexible number"),
        (["--retries-threshold=1"], "--retries-threshold has no effect without --max-retries"),
    ],
)
def test_an_option_without_effect_is_refused_before_anything_runs(session, option, why):
    outcome = session("-r", *option, site={})
    assert outcome.returncode == 1 and not outcome.ran and why in outcome.output


def test_options_with_effect_are_green(session):
    chosen = ("-x", "mode=uvm%", "-E", "mode == 'pm' or mode != 'pm'", "--max-retries=1", "--retries-threshold=1")
    outcome = session("-r", *chosen, select="TransferModes.*saxpy.*mode=(pm|uvm.*)%")
    assert outcome.green and "mode=pm %size=tiny" in outcome.output and "mode=uvm %" not in outcome.output


def test_a_builder_of_one_check_is_refused(session):
    outcome = session("-r", "-S", "TransferModes.build_with=cmake", ISTHMUS_BENCH="")
    assert outcome.returncode == 1 and "one build serves all checks: write -S build_with=cmake" in outcome.output


def test_an_option_of_a_mode_goes_through_its_gate(session, tmp_path):
    session("-l", site={})  # writes the site configuration
    file = tmp_path / "site/reframe.py"
    mode = {"name": "odd", "options": ["-J exclusive"]}
    file.write_text(f"{file.read_text()}site_configuration['modes'] = [{mode!r}]\n")
    outcome = session("-C", str(file), "-r", "--mode=odd")
    assert outcome.returncode == 1 and "-J exclusive: the scheduler 'local' takes no options" in outcome.output


@pytest.mark.parametrize(
    "typed, passed",
    [
        (["-S", "samples=3", "--system=s:p"], ["--system=s:p", "--setvar=samples=3"]),
        (["-m", "cuda", "-u", "gcc", "--purge-env"], ["--module=cuda", "--unload-module=gcc", "--purge-env"]),
        (["-M", "a: b c", "--max-retr", "2"], ["'--map-module=a: b c'", "--max-retries=2"]),
        (["-p", "gnu", "-Jqos=x", "-q"], ["--prgenv=gnu", "--job-option=qos=x", "--quiet"]),
        (["--timestamp", "--performance-report=now-1d:now/last:/"], None),
        (["-n", "saxpy", "-x", "gemm", "-t", "smoke", "-T", "a", "-E", "size", "-c", "x", "-v"], []),
    ],
)
def test_what_is_handed_on_to_generated_jobs(monkeypatch, typed, passed):
    for row in options.OPTIONS:
        monkeypatch.delenv(row.environment.strip("!").partition(" ")[0] or "NONE", raising=False)
    expected = ["--timestamp", "--performance-report=now-1d:now/last:/"] if passed is None else passed
    assert options.handed_on(options.parse([*typed, "--ci-generate=pipeline.yml"])) == expected


def test_variables_of_reframe_are_handed_on(monkeypatch):
    for name, value in {"USER_MODULES": "a,b", "CLEAN_STAGEDIR": "no", "COLORIZE": "yes", "SYSTEM": "s"}.items():
        monkeypatch.setenv(f"RFM_{name}", value)
    assert options.handed_on({}) == ["--system=s", "--module=a", "--module=b", "--dont-restage"]
    assert options.handed_on({"system": ["t"]})[0] == "--system=t"


@pytest.mark.parametrize(
    "option", ["--maxfail=1", "--repeat=3", "-P=samples=1,2", "--distribute", "--restore-session", "--report-file=r"]
)
def test_what_generated_jobs_cannot_have_is_refused(option):
    with pytest.raises(ReframeError, match=r"--ci-generate cannot pass on --[a-z-]+, because it .*: leave it out"):
        options.handed_on(options.parse([option]))


def test_a_generated_pipeline_does_what_its_command_line_says(session, tmp_path):
    session("-l", site={})  # writes the site configuration
    file = tmp_path / "site/reframe.py"
    mode = {"name": "two", "options": ["-n saxpy", "--max-retries=2"]}
    file.write_text(f"{file.read_text()}site_configuration['modes'] = [{mode!r}]\n")
    outcome = session("-C", str(file), "--ci-generate=pipeline.yml", "--mode=two", "-p", "builtin", "--maxfail=1")
    assert outcome.returncode == 1 and "--ci-generate cannot pass on --maxfail" in outcome.output
    outcome = session("-C", str(file), "--ci-generate=pipeline.yml", "--mode=two", "-p", "builtin")
    assert outcome.returncode == 0
    jobs = yaml.safe_load((tmp_path / "pipeline.yml").read_text())
    [script] = [job["script"][0] for name, job in jobs.items() if name.startswith("TransferModes")][:1]
    assert "--max-retries=2" in script and "--prgenv=builtin" in script
    assert "--mode" not in script and "saxpy" not in script  # the mode's -n would select further checks


def test_a_pipeline_of_a_selection_that_misses_is_refused(session):
    outcome = session("--ci-generate=pipeline.yml", "-n", "gem_m")
    assert outcome.returncode == 1 and "-n 'gem_m' selects no check on this system" in outcome.output
