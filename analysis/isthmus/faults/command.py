"""Records and shows page faults of any CUDA program, as the NVIDIA driver reports them.

run     runs a program with libisthmus-uvm.so preloaded: each process writes PREFIX.<pid>.uvm
report  shows what happened, where and why, and what to do about it, as text or as one page
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import sys
from typing import NamedTuple

import isthmus
from isthmus import Error, exits, plugins, spelling, units
from isthmus.faults import processes, report, tracefile

#: Variable with a process number; if it is set, the library watches only children of that process.
_ONLY_OF = "ISTHMUS_UVM_PARENT"
_LIBRARY = "libisthmus-uvm.so"
_SHOWN = 20  # maximum number of files, and of processes, that are listed
_MOST_BYTES = 64_000_000  # maximum number of bytes of files that are read for the summary


def _library(asked: pathlib.Path | None) -> pathlib.Path:
    """Returns the library to preload: the requested one, or the one that was built or installed with isthmus-bench."""
    given = asked or os.environ.get("ISTHMUS_UVM_LIBRARY")
    if given:
        if not pathlib.Path(given).is_file():
            raise Error(f"{given} is not a file; name the {_LIBRARY} that was built with isthmus-bench")
        found = pathlib.Path(given).resolve()
    else:
        found = _built_library()
    if any(letter.isspace() or letter == ":" for letter in str(found)):
        raise Error(f"{found} has a blank or a colon in its path, which LD_PRELOAD does not allow; "
                    "copy the file elsewhere, and name the copy with --library")  # fmt: skip
    return found


def _built_library() -> pathlib.Path:
    tree = pathlib.Path(isthmus.__file__).resolve().parents[2]
    named = os.environ.get("ISTHMUS_BENCH")
    if named and not shutil.which(named):
        raise Error(f"ISTHMUS_BENCH is {named}, which is not a program; correct or unset it, or use --library")
    benches = [shutil.which(name) for name in (named, "isthmus-bench") if name]
    folders = [pathlib.Path(bench).resolve().parent for bench in benches if bench]
    folders.append(pathlib.Path(sys.prefix) / "bin")
    near = [place for folder in folders for place in (folder / _LIBRARY, folder.parent / "lib" / _LIBRARY)]
    if found := next((place for place in near if place.is_file()), None):
        return found.resolve()
    # Search the builds of this command's tree and of the current folder. The library is the same for each backend, so
    # the newest one is used.
    built = [path for root in (tree, pathlib.Path.cwd()) for path in root.glob(f"build/*/bin/{_LIBRARY}")]
    if built:
        return max(built, key=lambda path: path.stat().st_mtime).resolve()
    script = tree / "scripts/build"
    how = f"{script} --target isthmus-uvm" if script.is_file() else "building isthmus-bench"
    raise Error(
        f"{_LIBRARY} is neither next to an isthmus-bench ($ISTHMUS_BENCH, $PATH) nor in {tree}/build/*/bin; "
        f"build it with `{how}`, or name it with --library"
    )


def _program(words: list[str], children: bool) -> str:
    """Returns the program's path. Raises Error if neither the program nor the processes it starts can be watched."""
    if not words:
        raise Error("no program is named; write `isthmus faults run -- ./program ARGUMENTS`")
    where = shutil.which(words[0])
    if where is None:
        raise Error(f"{words[0]}: no such program; give its path")
    if processes.has_privileges(where):
        raise Error(f"{where} runs as another user or with capabilities, so no library can be preloaded, neither "
                    "into it nor into the programs that it starts; run it as that user")  # fmt: skip
    if processes.is_static(where):
        if not children:
            raise Error(f"{where} is fully static, so no library can be preloaded; link its C library dynamically")
        _say(f"{where} is fully static, so only the programs that it starts are watched")
    return where


def _prefix(asked: str) -> pathlib.Path:
    """Returns the prefix of the files as an absolute path, because a program may change its working directory.

    Raises Error if its folder is missing or cannot be written.
    """
    prefix = pathlib.Path(os.path.abspath(asked))
    if not prefix.parent.is_dir():
        raise Error(f"{prefix.parent}: no such folder; create it, or name another one with --output")
    if not os.access(prefix.parent, os.W_OK):
        raise Error(f"{prefix.parent} cannot be written; name another folder with --output")
    return prefix


def record(asked) -> int:
    words = asked.program[1:] if asked.program[:1] == ["--"] else asked.program
    where = _program(words, asked.children)
    prefix, library = _prefix(asked.output), str(_library(asked.library))
    before = set(_traces(prefix))
    preload = " ".join(filter(None, [library, os.environ.get("LD_PRELOAD")]))
    environment = {**os.environ, "LD_PRELOAD": preload, "ISTHMUS_UVM_TRACE": str(prefix)}
    environment.pop(_ONLY_OF, None)
    if not asked.children:  # then the library ignores all processes except the direct child
        environment[_ONLY_OF] = str(os.getpid())
    done = processes.run(words, where, environment, library)
    left = [path for path in _traces(prefix) if path not in before]
    if done.interrupted_by:
        kept = "the events recorded until then are kept" if left else "nothing had been recorded"
        _say(f"interrupted by {done.interrupted_by}; {kept}")
    short = _summarize(left, words[0], asked.children)
    unseen = _tell_unwatched(done, left, prefix) if asked.children else []
    if done.left:
        _say(f"still running, so their files keep growing: {_listed(map(str, done.left))}")
    if done.code:
        return 128 - done.code if done.code < 0 else done.code
    return exits.PASSED if left and not unseen and not short else exits.UNDECIDED


def _say(sentence: str) -> None:
    print(f"isthmus faults: {spelling.printable(sentence)}", file=sys.stderr)
    sys.stderr.flush()


def _traces(prefix: pathlib.Path) -> list[pathlib.Path]:
    if not prefix.parent.is_dir():
        return []
    names = [each for each in os.listdir(prefix.parent) if each.startswith(f"{prefix.name}.") and each.endswith(".uvm")]
    return [prefix.parent / name for name in sorted(names)]


def _listed(names) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


class _Line(NamedTuple):
    """Line of the summary, for one file or for all files together."""

    path: pathlib.Path
    faults: int = 0
    batches: int = 0
    moved: int = 0
    about: str = ""
    is_read: bool = True
    is_short: bool = False  # true if the trace shows that it lacks some events of the process

    def figures(self) -> str:
        if not self.is_read:
            return "not read for this summary"
        batches = f"{self.batches} {'batch' if self.batches == 1 else 'batches'}"
        return f"{spelling.counted(self.faults, 'fault')} in {batches}, {units.quantity(self.moved, 'B')} moved"


def _line(path: pathlib.Path) -> _Line:
    try:
        trace = tracefile.read(path)
    except Error as error:
        return _Line(path, about=str(error), is_read=False, is_short=True)
    events = tracefile.decode(trace.entries)
    found = tracefile.figures_of(events, tracefile.batches_of(events))
    about = spelling.shorten(spelling.printable(trace.facts.get("command", "")).strip(), 60)
    if trace.problem:
        about += "; its end is missing: the process was killed, still runs, or has started another program"
    if trace.dropped:
        about += f"; the driver dropped {trace.dropped} events, so these figures are too low"
    is_short = bool(trace.problem or trace.dropped)
    return _Line(path, found.faults, found.batches, sum(found.moved.values()), about, is_short=is_short)


def _summarize(left: list[pathlib.Path], program: str, children: bool) -> bool:
    """Prints a line per file, those with most faults first, and their sum; returns whether any file lacks events."""
    if not left:
        who = f"{program} and the programs that it started" if children else program
        more = "" if children else "; without --no-children, the programs that it starts are watched as well"
        _say(f"{who} used no unified memory that could be watched{more}")
        return False
    _say(f"{spelling.counted(len(left), 'file')} of page faults; `isthmus faults report FILE` shows one")
    lines, size = [], 0
    for path in left:
        size += path.stat().st_size
        lines.append(_line(path) if size <= _MOST_BYTES else _Line(path, about="too large", is_read=False))
    lines.sort(key=lambda line: -line.faults)
    for line in lines[:_SHOWN]:
        print(f"  {os.path.relpath(line.path)}  {line.figures()}  {line.about}", file=sys.stderr)
    if lines[_SHOWN:]:
        print(f"  {len(lines) - _SHOWN} more with fewer faults", file=sys.stderr)
    if len(lines) > 1:
        faults, batches, moved = (sum(amounts) for amounts in zip(*(line[1:4] for line in lines)))
        unread = sum(not line.is_read for line in lines)
        but = (
            f", but for {spelling.counted(unread, 'file')} that {'was' if unread == 1 else 'were'} not read"
            if unread
            else ""
        )
        print(f"  in all: {_Line(left[0], faults, batches, moved).figures()}{but}", file=sys.stderr)
    return any(line.is_short for line in lines)


def _tell_unwatched(done: processes.Run, left: list[pathlib.Path], prefix: pathlib.Path) -> list[processes.Process]:
    """Reports processes that were not watched; returns those that used unified memory but have no file."""
    numbers = {path.name[len(prefix.name) + 1 :].removesuffix(".uvm").partition("-")[0] for path in left}
    unseen = [
        each for each in done.processes
        if each.uses_memory and not {str(each.pid), str(each.inner)} & numbers
    ]  # fmt: skip
    for each in unseen:
        why = "" if each.is_watched else f": it {each.reason}"
        _say(f"{each.name} (process {each.pid}) used unified memory but left no file{why}")
    reasons: dict[str, list[str]] = {}
    for each in done.unwatched():
        if each not in unseen:
            reasons.setdefault(each.reason, []).append(f"{each.name} ({each.pid})")
    for reason, names in reasons.items():
        _say(f"not watched, but not seen to use unified memory either: {_listed(names)}, which {reason}")
    if names := done.elsewhere():
        _say(f"{_listed(names)} may have started processes that are not its descendants, such as on other nodes; "
             "they are watched only if they have LD_PRELOAD, ISTHMUS_UVM_TRACE and access to this folder")  # fmt: skip
    if not done.seen_all:
        _say("/proc does not show the program's processes, so it is unknown which of them were not watched")
    return unseen


def _add_run(parts) -> None:
    running = parts.add_parser(
        "run", help="run a program and record its page faults",
        epilog="example: isthmus faults run -o solver -- ./solver --steps 10\n\n"
        "Processes that the program starts are watched as well; each process has its own file.\n"
        "Ends with the program's exit code, or with 3 if that is 0 but nothing was recorded, a process used unified\n"
        "memory without being watched, the driver dropped events, or a file lacks its end.",
    )  # fmt: skip
    running.add_argument(
        "-o", "--output", metavar="PREFIX", default="faults", help="prefix of the files (default: faults)"
    )
    running.add_argument("--library", type=pathlib.Path, help="libisthmus-uvm.so (default: the built one)")
    running.add_argument(
        "--no-children", dest="children", action="store_false", help="record only the program, not what it starts"
    )
    running.add_argument("program", nargs=argparse.REMAINDER, help="program to run, after --, with its arguments")
    running.set_defaults(run_part=record)


def add_arguments(parser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    _add_run(parts)
    reporting = parts.add_parser(
        "report", help="show what was recorded", description=report.__doc__,
        epilog="examples:\n  isthmus faults report faults.4711.uvm\n"
        "  isthmus faults report faults.4711.uvm -o page.html\n\n"
        "-o FILE without --format writes the page, unless it ends in .json, .csv or .parquet.\n"
        "exit code 3: events are missing, or some of them cannot be trusted",
    )  # fmt: skip
    report.add_arguments(reporting)
    reporting.set_defaults(run_part=report.run)
    others, failed = plugins.parts("faults")
    for sentence in dict.fromkeys(failed.values()):
        _say(sentence)
    for name, part in others.items():
        try:
            module = plugins.module(part.module)
        except Error as error:
            _say(str(error))
            continue
        added = parts.add_parser(name, help=part.does, description=module.__doc__, epilog=part.epilog)
        module.add_arguments(added)
        added.set_defaults(run_part=module.run)


def run(asked) -> int:
    return asked.run_part(asked)
