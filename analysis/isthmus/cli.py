"""The command `isthmus`, whose subcommands are modules with add_arguments() and run()."""

from __future__ import annotations

import argparse
import errno
import io
import os
import pathlib
import re
import sys
import textwrap

from isthmus import Error, __version__, plugins, spelling, start, streams, variables
from isthmus.exits import BAD_INPUT, CLOSED_PIPE, EXIT_CODES, FOUND, LOST_OUTPUT, PASSED, UNDECIDED, with_absence

# Command → its module, and what it does. A module is imported when its command runs: not every command needs numpy.
COMMANDS = {  # isthmus.plugins adds those of plug-ins
    "compact": ("isthmus.records.compact", "check record files once and keep their records in a table that loads fast"),
    "regress": ("isthmus.verdicts.regress", "the effect of a change: of a driver, of a kernel, or over time"),
    "noise": ("isthmus.verdicts.noise", "how much each metric varies where nothing changed"),
    "trial": ("isthmus.verdicts.trial", "a change as an experiment: a plan, a Slurm script and one verdict"),
    "drift": ("isthmus.verdicts.drift", "changes that were not announced"),
    "nodes": ("isthmus.verdicts.nodes", "nodes and GPUs that are worse than their equals"),
    "compare": ("isthmus.verdicts.compare", "systems side by side"),
    "score": ("isthmus.verdicts.score", "one figure per system, for a procurement"),
    "advise": ("isthmus.advise.command", "where buffers should live, and when overlapping batches of jobs is worth it"),
    "report": ("isthmus.figures.report", "one HTML page of everything"),
    "table": ("isthmus.tables.medians", "medians of a few record files"),
    "references": ("isthmus.references.command", "references of a site: make them from records, check them"),
    "faults": ("isthmus.faults.command", "page faults of any CUDA program, as the driver reports them"),
    "profile": ("isthmus.profiles.command", "figures from a profiler's output, named as in a record"),
    "nightly": ("isthmus.verdicts.nightly", "one summary of a night's sessions for other programs: JSON and JUnit"),
    "site": ("isthmus.site.command", "a site's configuration: its mistakes, a first version, its node-hours"),
}


_FULL = 100  # minimum characters in a wrapped line of a description, counting the next line's first word
_ITEM = re.compile(r" *(?:\S(?:.{0,20}?\S)?  +|- )")  # `name   what it is` or `- item of a list`


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Formatter of descriptions that fills sentences to the terminal's width and keeps everything else as written."""

    def _fill_text(self, text, width, indent):
        return "\n".join(
            part for line, whole in _lines_of(text) for part in ([line] if whole else _hanging(line, width))
        )


def _lines_of(text: str) -> list[tuple[str, bool]]:
    """Returns the lines of a text after joining wrapped sentences, each with true if it must be printed unchanged."""
    lines: list[tuple[str, bool]] = []
    before, whole = "", False
    for line in text.splitlines():
        whole = line.lstrip() != line and (whole or line.lstrip().startswith("isthmus "))
        word = line.split()[0] if line.split() else ""
        if word and not whole and not _ITEM.match(line) and len(before) + len(word) >= _FULL and not lines[-1][1]:
            lines[-1] = (f"{lines[-1][0]} {line.strip()}", False)
        else:
            lines.append((line, whole))
        before = line
    return lines


def _hanging(line: str, width: int) -> list[str]:
    """Wraps a line and aligns further lines with its text; in `name   what it is`, the text begins after the blanks."""
    item = _ITEM.match(line)
    below = " " * (len(item[0]) if item else len(line) - len(line.lstrip()))
    folded = textwrap.wrap(line, width, subsequent_indent=below, break_on_hyphens=False, break_long_words=False)
    return folded or [""]


#: Types of argparse actions whose options may be given several times.
_COLLECTS = (argparse._AppendAction, argparse._ExtendAction)
_PATHS = ("DIR", "FILE", "PATH", "PREFIX", "RECORDS", "REPORT", "SVG")  # names of arguments that are paths


def _is_path(action: argparse.Action) -> bool:
    """Returns whether an argument may contain bytes that are not UTF-8, as file names may."""
    return action.type is pathlib.Path or action.metavar in _PATHS


class Parser(argparse.ArgumentParser):
    """Parser of arguments that reports errors in one sentence, with a suggestion for a misspelt option or command.

    Options cannot be abbreviated, because an option that the next version adds could change what a script means.
    Subparsers have this class as well.
    """

    def __init__(self, *args, **words):
        words.setdefault("formatter_class", _Formatter)
        words.setdefault("allow_abbrev", False)
        super().__init__(*args, **words)

    def parse_known_args(self, args=None, namespace=None):
        self._given = list(sys.argv[1:] if args is None else args)
        self._taken: list[argparse.Action] = []  # options with a single value that were given
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported here, so that the message names the help of the part of the command that was called
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def _get_values(self, action, arg_strings):
        """Returns the values of one occurrence of an option or positional argument.

        Raises ArgumentError for a second occurrence of an option with a single value.
        """
        if action.option_strings and action.nargs != 0 and not isinstance(action, _COLLECTS):
            if action in self._taken:
                raise argparse.ArgumentError(action, "takes one value, but was given several")
            self._taken.append(action)
        return super()._get_values(action, arg_strings)

    def _get_value(self, action, arg_string):
        """Returns the value of one word; refuses an empty one, such as a variable that a script did not set."""
        if action.nargs in (argparse.REMAINDER, argparse.PARSER):
            return super()._get_value(action, arg_string)
        if not arg_string.strip() and arg_string is not action.default:
            raise argparse.ArgumentError(action, "was given an empty value; write one, or leave the option out")
        if not _is_path(action):
            try:
                arg_string.encode()
            except UnicodeEncodeError:
                why = f"{spelling.shorten(spelling.printable(arg_string), 60)} is not UTF-8, as all records are"
                raise argparse.ArgumentError(action, why) from None
        return super()._get_value(action, arg_string)

    def _print_message(self, message, file=None):
        """Writes help and versions. Unlike argparse's method, it does not ignore write errors."""
        file = sys.stderr if file is None else file
        file.write(message or "")
        file.flush()

    def _options(self) -> list[str]:
        """Returns the options of this parser and of those below it."""
        options = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                options += [option for below in action.choices.values() for option in below._options()]
        return options

    def _asked_for(self) -> Parser:
        """Returns the parser of the part of the command that was called; argparse calls error() on its parent."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                part = next((action.choices[word] for word in self._given if word in action.choices), None)
                return part._asked_for() if isinstance(part, Parser) and hasattr(part, "_given") else self
        return self

    def error(self, message):
        part = self._asked_for()
        if part is not self:
            part.error(message)
        known = self._options()
        names = [word.partition("=")[0] for word in self._given if re.match("--[a-z]", word)]
        unknown = [name for name in names if name not in known]
        choice = re.match(r"argument .*?: invalid choice: '(.*?)' \(choose from (.*)\)$", message, re.DOTALL)
        if unknown:  # argparse would report missing arguments first
            message = f"there is no option {unknown[0]}{_meant(unknown[0], known)}"
        elif choice:
            choices = re.findall(r"[\w-]+", choice[2])
            message = f"there is no '{choice[1]}'{_meant(choice[1], choices) or ': choose from ' + ', '.join(choices)}"
        raise Error(f"{message} (see `{self.prog} --help`)")


def _meant(word: str, known) -> str:
    close = spelling.nearest(word, known)
    return f"; did you mean {close}?" if close else ""


def commands(asked: str | None = None) -> dict[str, tuple[str, str]]:
    """Returns the module and description of every command, those of plug-ins last.

    Plug-ins that cannot be loaded are named on stderr. Raises Error if `asked` is a command of such a plug-in.
    """
    added, failed = plugins.commands()
    if asked in failed:
        raise Error(failed[asked])
    for sentence in dict.fromkeys(failed.values()):
        _say(sentence)
    return COMMANDS | {name: (each.module, each.does) for name, each in added.items() if name not in COMMANDS}


def _parser(known: dict[str, tuple[str, str]]) -> Parser:
    width = max(map(len, known))
    parser = Parser(
        prog="isthmus",
        description="From records to answers.",
        epilog="commands:\n"
        + "".join(f"  {name:<{width}}  {does}\n" for name, (_, does) in known.items())
        + "\n`isthmus COMMAND --help` has the rest.\n\n"
        + EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"isthmus {__version__}")
    parser.add_argument("command", choices=known, metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…").required = False
    return parser


def _lost(error: streams.LostOutput) -> int:
    """Returns the exit code for a failed write to standard output."""
    streams.drop_output()
    if error.errno == errno.EPIPE:  # such as `isthmus table … | head`
        return CLOSED_PIPE
    _say(f"standard output could not be written ({error.strerror}); send it elsewhere")
    return LOST_OUTPUT


def _why(error: OSError) -> str:
    """Returns a sentence for an OSError that a command did not expect."""
    if not os.path.isabs(error.filename or "") and _is_adrift():
        return "the current folder no longer exists; change to another one, and run the command again"
    return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}"


def _is_adrift() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _say(sentence: str) -> None:
    print(f"{start.program}: {spelling.printable(sentence)}", file=sys.stderr)


def _run(arguments: list[str] | None) -> int:
    """Runs one command and returns its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    first = words[0] if words else None
    known = COMMANDS if first in COMMANDS else commands(first)  # plug-ins cannot replace our commands
    asked = _parser(known).parse_args(arguments)
    start.program = f"isthmus {asked.command}"
    module = plugins.module(known[asked.command][0])
    parser = Parser(prog=start.program, description=module.__doc__)
    module.add_arguments(parser)
    if "exit codes:" not in f"{parser.description}{parser.epilog}":
        parser.epilog = "\n\n".join(filter(None, (parser.epilog, EXIT_CODES)))
    given = parser.parse_args(asked.arguments)
    if note := variables.sentence(os.environ):
        _say(note)
    if check := getattr(given, "check_output", None):
        check(given)
    status = module.run(given)
    return with_absence(status, [*getattr(given, "absent", []), *getattr(given, "doubts", [])])


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors that a user can correct are one sentence on stderr.

    Unexpected errors print a traceback, for a report, and return an exit code that is not a verdict.
    """
    start.program = "isthmus"
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for µ, ± and ≤ on a terminal that lacks them
    status = PASSED
    try:
        try:
            status = _run(arguments)
        except Error as error:
            _say(str(error))
            status = BAD_INPUT
        except streams.LostOutput:
            raise
        except OSError as error:
            _say(_why(error))
            status = BAD_INPUT
        except KeyboardInterrupt:  # raised if another Python program calls main() without start.listen()
            _say("interrupted")
            status = start.INTERRUPTED
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not error.code:  # help was requested
                raise
            status = start.fault(error)
        sys.stdout.flush()
    except streams.LostOutput as error:
        lost = _lost(error)
        return lost if status in (PASSED, FOUND, UNDECIDED) else status
    return status
