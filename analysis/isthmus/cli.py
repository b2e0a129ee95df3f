"""The command `isthmus`: from records to answers. Each subcommand is a module with add_arguments() and run()."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from isthmus import Error, __version__, records

# Command: its module and what it does. Modules are imported when asked for: reading records needs no numpy.
COMMANDS = {
    "compact": ("isthmus.compact", "check record files once and keep them as one table that is quick to read"),
    "regress": ("isthmus.regress", "what a change did: a driver, a kernel, time"),
    "noise": ("isthmus.noise", "how much each metric varies where nothing changed"),
    "trial": ("isthmus.trial", "a change as an experiment: the plan, the Slurm script, one verdict"),
    "drift": ("isthmus.drift", "changes that nobody announced"),
    "nodes": ("isthmus.nodes", "nodes and GPUs that are worse than their equals"),
    "compare": ("isthmus.compare", "systems side by side"),
    "score": ("isthmus.score", "one figure per system, for a procurement"),
    "advise": ("isthmus.advise", "where buffers should live, and when overlapping batches of jobs is worth it"),
    "report": ("isthmus.report", "one HTML page of everything"),
    "table": ("isthmus.table", "medians of a few record files"),
    "levels": ("isthmus.levels", "cache levels from latencies of several sizes"),
    "references": ("isthmus.reference_command", "what a site's figures are held to: make it from records, check it"),
    "profile": ("isthmus.profile", "what a profiler's output says, in the words of a record"),
    "accounting": ("isthmus.accounting", "what counters of memory see of an allocation"),
    "site": ("isthmus.site", "a site's configuration: its mistakes, a first version, its node-hours"),
}

PASSED, FOUND, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
EXIT_CODES = (
    "exit codes: 0 all is well; 1 what the command looks for was found, or a file could not be taken; "
    "2 bad input, nothing was done; 3 too little is known to say"
)


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="isthmus",
        description="From records to answers.",
        epilog="commands:\n"
        + "".join(f"  {name:<{width}}  {does}\n" for name, (_, does) in COMMANDS.items())
        + "\n`isthmus COMMAND --help` has the rest.\n"
        + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"isthmus {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…")
    return parser


def _load(command: str):
    try:
        return importlib.import_module(COMMANDS[command][0])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "isthmus":
            raise
        raise Error(f"{error.name} is not installed; `pip install 'isthmus[analysis]'` brings it") from None


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; what a user did wrong is one sentence on stderr."""
    asked = _parser().parse_args(arguments)
    prog = f"isthmus {asked.command}"
    try:
        module = _load(asked.command)
        parser = argparse.ArgumentParser(
            prog=prog, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(parser)
        if not parser.epilog:
            parser.epilog = EXIT_CODES
        status = module.run(parser.parse_args(asked.arguments))
        sys.stdout.flush()
        return status
    except Error as error:
        print(f"{prog}: {records.printable(error)}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:  # `isthmus table … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PASSED
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
