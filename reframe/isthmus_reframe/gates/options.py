"""Table of ReFrame's options: the gate of each, and its handling in a pipeline that --ci-generate writes.

A test compares the table with ReFrame's own parser. If a later ReFrame adds an option, the test fails until the option
has a row.
"""

import argparse
import os
import shlex
import sys
import typing

import reframe.core.runtime as runtime
import reframe.utility.osext as osext
from reframe.core.exceptions import ReframeError

from isthmus_reframe.gates import module_options, selections, site_gates, unjudged, variables

Given = dict[str, list]  #: values of each option on the command line, keyed by option; the value of a flag is None


class Session(typing.NamedTuple):
    """Chosen test cases, and the options that chose them and set their variables."""

    given: Given
    testcases: list
    ours: typing.Any  #: session.Ours


class Option(typing.NamedTuple):
    flags: str  #: ReFrame's names, the long one last
    values: str  #: "one" for a value, "flag" for none, "maybe" for an optional value
    gate: typing.Any  #: function of a Session that raises ReframeError, or the reason why no gate is needed
    generated: str  #: HANDED_ON, CHOSEN, WRITTEN or HERE; or why a generated job cannot have the option
    environment: str = ""  #: ReFrame's variable for the option, and the delimiter of its values; ! negates it

    @property
    def name(self) -> str:
        return self.flags.split()[-1].lstrip("-").replace("-", "_")


HANDED_ON = "each generated job gets it"
CHOSEN = "has chosen the checks, and their order, when the pipeline is written"
WRITTEN = "ReFrame writes it, or its equivalent, into each generated job"
HERE = "says what this command does"


def _selections(session):
    selections.refuse_misses(session.testcases)
    if len(session.given.get("filter_expr", ())) > 1:
        raise ReframeError(
            "-E is given several times, but ReFrame uses only the last one: write one expression, with `and`"
        )


def _variables(session):
    settings = session.given.get("setvar", [])
    variables.refuse_unknown(session.testcases, settings)
    variables.refuse_overwritten(session.testcases, session.ours.program, settings)


def _hooks(session):
    unjudged.refuse_switched_off(session.testcases, (session.ours.program, session.ours.build))


def _job_options(session):
    site_gates.refuse_job_options(session.testcases, session.given.get("job_option", []))


def _modules(session):
    given = [option.flags.split()[0] for option in OPTIONS if option.gate is _modules and option.name in session.given]
    module_options.refuse_idle(session.testcases, given)


def _flexible(session):
    """Raises ReframeError for options of flexible node counts, which checks of this tree do not have."""
    given = [name for name in ("flex_alloc_nodes", "flex_alloc_strict") if name in session.given]
    checks = [case.check for case in session.testcases if not case.check.is_fixture()]
    if given and all(_is_fixed(check, session.ours.program) for check in checks):
        raise ReframeError(
            f"--{given[0].replace('_', '-')} has no effect, because no chosen check has a flexible number of nodes: "
            "leave it out, or choose nodes with --distribute"
        )


def _is_fixed(check, programs) -> bool:
    return isinstance(check, programs) and (check.num_tasks is None or check.num_tasks > 0)


def _needing(needed: str):
    """Returns a gate for options that have no effect without the option `needed`."""
    name = needed.lstrip("-").replace("-", "_")

    def gate(session):
        for row in OPTIONS:
            if row.gate is gate and row.name in session.given and name not in session.given:
                raise ReframeError(f"{row.flags} has no effect without {needed}: give both, or leave it out")

    return gate


_CHOICE = "ReFrame refuses an invalid value, and a session follows a valid one"
_MORE = "lets more checks run, each of which is judged"
_OUTPUT = "changes what is shown or kept, and nothing that is measured"
_PLACE = "names files, which session_files checks before anything is measured"
_REST = "the rest of the selection runs, and an empty one is refused"
_TOLD = "session and retries report its end, its tries and its interruptions"
_WHOLE = "applies to the session as a whole, but generated jobs know nothing of each other"
_OWN = "is written by each generated job under its own name"
_NEW = "creates checks that no generated job would find by its -n"

_RETRIES = _needing("--max-retries")
_PARAMETERS = _needing("--parameterize")

OPTIONS = [
    # Options that select.
    Option("-n --name", "one", _selections, CHOSEN),
    Option("-x --exclude", "one", _selections, CHOSEN),
    Option("-t --tag", "one", _selections, CHOSEN),
    Option("-T --exclude-tag", "one", _selections, CHOSEN),
    Option("-E --filter-expr", "one", _selections, CHOSEN),
    Option("--maintainer", "one", _selections, CHOSEN),
    Option("-p --prgenv", "one", _selections, HANDED_ON),
    Option("--cpu-only", "flag", _REST, CHOSEN),
    Option("--gpu-only", "flag", _REST, CHOSEN),
    Option("--failed", "flag", _REST, CHOSEN),
    Option("--restore-session", "maybe", _REST, "reads a report that generated jobs do not have"),
    Option("--skip-prgenv-check", "flag", _MORE, HANDED_ON),
    Option("--skip-system-check", "flag", _MORE, HANDED_ON),
    Option("--system", "one", _CHOICE, HANDED_ON, "RFM_SYSTEM"),
    Option("--mode", "one", "each of its options has its own gate", WRITTEN),
    Option("-C --config-file", "one", "site_gates.refuse_settings checks its settings", WRITTEN),
    Option("-c --checkpath", "one", "session refuses a path without checks", WRITTEN),
    Option("-R --recursive", "flag", _MORE, WRITTEN),
    # Options that create checks.
    Option("--distribute", "maybe", _REST, _NEW),
    Option("-P --parameterize", "one", "ReFrame refuses a variable that a check does not have", _NEW),
    Option("--param-values-delim", "one", _PARAMETERS, _NEW),
    Option("--repeat", "one", _CHOICE, _NEW),
    # Options that change checks and their jobs.
    Option("-S --setvar", "one", _variables, HANDED_ON),
    Option("-J --job-option", "one", _job_options, HANDED_ON),
    Option("--disable-hook", "one", _hooks, HANDED_ON),
    Option("--flex-alloc-nodes", "one", _flexible, HANDED_ON),
    Option("--flex-alloc-strict", "flag", _flexible, HANDED_ON, "RFM_FLEX_ALLOC_STRICT"),
    Option("--skip-performance-check", "flag", "unjudged reports it", HANDED_ON),
    Option("--skip-sanity-check", "flag", "unjudged reports it", HANDED_ON),
    # Options for the environment of jobs.
    Option("-m --module", "one", _modules, HANDED_ON, "RFM_USER_MODULES ,"),
    Option("-u --unload-module", "one", _modules, HANDED_ON, "RFM_UNLOAD_MODULES ,"),
    Option("-M --map-module", "one", _modules, HANDED_ON, "RFM_MODULE_MAPPINGS ,"),
    Option("--module-mappings", "one", _modules, HANDED_ON, "RFM_MODULE_MAP_FILE"),
    Option("--module-path", "one", _modules, HANDED_ON),
    Option("--purge-env", "flag", _modules, HANDED_ON, "RFM_PURGE_ENVIRONMENT"),
    Option("--non-default-craype", "flag", "sets a library path in job scripts", HANDED_ON, "RFM_NON_DEFAULT_CRAYPE"),
    # Options for the order, the duration and the end of a session.
    Option("--exec-order", "one", _CHOICE, CHOSEN),
    Option("--exec-policy", "one", _CHOICE, HANDED_ON),
    Option("--duration", "one", _TOLD, HANDED_ON),
    Option("--max-retries", "one", _TOLD, HANDED_ON),
    Option("--maxfail", "one", _TOLD, _WHOLE),
    Option("--reruns", "one", _TOLD, HANDED_ON),
    Option("--retries-threshold", "one", _RETRIES, _WHOLE),
    # Options for output and for kept files.
    Option("--compress-report", "flag", _OUTPUT, HANDED_ON, "RFM_COMPRESS_REPORT"),
    Option("--dont-restage", "flag", _OUTPUT, HANDED_ON, "!RFM_CLEAN_STAGEDIR"),
    Option("--keep-stage-files", "flag", _OUTPUT, HANDED_ON, "RFM_KEEP_STAGE_FILES"),
    Option("-o --output", "one", _PLACE, HANDED_ON, "RFM_OUTPUT_DIR"),
    Option("--perflogdir", "one", _PLACE, HANDED_ON, "RFM_PERFLOG_DIR"),
    Option("--prefix", "one", _PLACE, HANDED_ON, "RFM_PREFIX"),
    Option("--report-file", "one", _PLACE, _OWN),
    Option("--report-junit", "one", _PLACE, _OWN),
    Option("-s --stage", "one", _PLACE, HANDED_ON, "RFM_STAGE_DIR"),
    Option("--save-log-files", "flag", _OUTPUT, HANDED_ON, "RFM_SAVE_LOG_FILES"),
    Option("--timestamp", "maybe", _OUTPUT, HANDED_ON, "RFM_TIMESTAMP_DIRS"),
    Option("--performance-report", "maybe", _OUTPUT, HANDED_ON, "RFM_PERF_REPORT_SPEC"),
    Option("--session-extras", "one", _OUTPUT, HANDED_ON),
    Option("--failure-stats", "flag", _OUTPUT, HANDED_ON),
    Option("--nocolor", "flag", _OUTPUT, HANDED_ON, "!RFM_COLORIZE"),
    Option("--table-format", "one", _OUTPUT, HANDED_ON, "RFM_TABLE_FORMAT"),
    Option("--table-format-delim", "one", _OUTPUT, HANDED_ON, "RFM_TABLE_FORMAT_DELIM"),
    Option("--term-lhs", "one", _OUTPUT, HANDED_ON),
    Option("--term-rhs", "one", _OUTPUT, HANDED_ON),
    Option("-v --verbose", "flag", _OUTPUT, WRITTEN),
    Option("-q --quiet", "flag", _OUTPUT, HANDED_ON),
    Option("--warn-as-error", "flag", "makes warnings red", HANDED_ON, "RFM_WARN_AS_ERROR"),
    # Actions, of which ReFrame accepts one at a time.
    *(
        Option(flags, values, HERE, HERE)
        for flags, values in {
            "-r --run": "flag",
            "--dry-run": "flag",
            "-l --list": "maybe",
            "-L --list-detailed": "maybe",
            "--list-tags": "flag",
            "--describe": "flag",
            "--ci-generate": "one",
            "--show-config": "maybe",
            "--detect-host-topology": "maybe",
            "--performance-compare": "one",
            "--list-stored-sessions": "maybe",
            "--list-stored-testcases": "one",
            "--describe-stored-sessions": "one",
            "--describe-stored-testcases": "one",
            "--delete-stored-sessions": "one",
            "-V --version": "flag",
            "-h --help": "flag",
        }.items()
    ),
]


def parse(words: list[str]) -> Given:
    """Reads a command line as ReFrame does, including abbreviated names and several values."""
    parser = argparse.ArgumentParser(add_help=False)
    for option in OPTIONS:
        keywords = {"flag": {"action": "append_const", "const": None}, "one": {"action": "append"}}
        maybe = {"action": "append", "nargs": "?"}
        parser.add_argument(*option.flags.split(), dest=option.name, **keywords.get(option.values, maybe))
    return {name: values for name, values in vars(parser.parse_args(words)).items() if values is not None}


def given() -> Given:
    """Returns the options of this session's command line, preceded by those of its --mode."""
    typed = parse(sys.argv[1:])
    if not (modes := typed.get("mode")):
        return typed
    words = runtime.runtime().site_config.get(f"modes/@{modes[-1]}/options")
    return parse([each for word in words for each in shlex.split(osext.expandvars(word))] + sys.argv[1:])


def refuse(session: Session) -> None:
    """Raises ReframeError for an option that would not have the effect that it promises."""
    for gate in dict.fromkeys(option.gate for option in OPTIONS if callable(option.gate)):
        gate(session)


def handed_on(values: Given) -> list[str]:
    """Returns the options that a generated job needs and ReFrame does not pass on. Raises ReframeError for an option
    that a generated job cannot have."""
    words = []
    for option in OPTIONS:
        found = values.get(option.name)
        if option.generated == HANDED_ON:
            long = option.flags.split()[-1]
            found = _from_environment(option) if found is None else found
            words += [long if value is None else shlex.quote(f"{long}={value}") for value in found]
        elif found is not None and option.generated not in (CHOSEN, WRITTEN, HERE):
            raise ReframeError(
                f"--ci-generate cannot pass on {option.flags.split()[-1]}, because it {option.generated}: leave it out"
            )
    return words


def _from_environment(option: Option) -> list:
    """Returns the option's values from ReFrame's environment variable, because generated jobs do not inherit this
    environment."""
    name, _, delimiter = option.environment.partition(" ")
    text = os.environ.get(name.lstrip("!"))
    if text is None or not name:
        return []
    if option.values == "flag":
        return [None] if (text.lower() in ("true", "yes", "1")) != name.startswith("!") else []
    return text.split(delimiter) if delimiter else [text]
