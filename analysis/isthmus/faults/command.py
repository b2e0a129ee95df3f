"""Page faults of any CUDA program, as the NVIDIA driver reports them.

run     runs a program with libisthmus-uvm.so preloaded: each process leaves PREFIX.<pid>.uvm
report  what happened, where and why, and what to do about it: text, or one page
model   what a batch costs the driver: seconds a fault, a block, a byte, by driver version
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys

from isthmus import Error, exits
from isthmus.batches import model
from isthmus.faults import report

#: The library watches only in children of this process, where it is set.
_ONLY_OF = "ISTHMUS_UVM_PARENT"


def _is_static(program: pathlib.Path) -> bool:
    """Whether the kernel starts it without a loader, which is what preloads."""
    with program.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
            return False  # a script: its interpreter is loaded
        (at,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(at)
        table = file.read(size * count)
    interpreter = 3
    return not any(
        struct.unpack_from("<I", table, i * size)[0] == interpreter for i in range(min(count, len(table) // size))
    )


def _library(asked: pathlib.Path | None) -> pathlib.Path:
    name = "libisthmus-uvm.so"
    bench = shutil.which("isthmus-bench")
    given = asked or os.environ.get("ISTHMUS_UVM_LIBRARY")
    if given:
        candidates, where = [pathlib.Path(given)], f"{given}"
    else:
        candidates = sorted(pathlib.Path("build").glob(f"*/bin/{name}"))  # of the tree where this is called
        if bench:
            beside = pathlib.Path(bench).resolve().parent
            candidates = [beside / name, beside.parent / "lib" / name, *candidates]
        where = "not beside an isthmus-bench in $PATH, nor in build/*/bin"
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    raise Error(f"{name} is not there ({where}); `scripts/build --target isthmus-uvm` makes it, --library names it")


def record(asked) -> int:
    words = asked.program[1:] if asked.program[:1] == ["--"] else asked.program
    if not words:
        raise Error("no program is named; write `isthmus faults run -- ./program its arguments`")
    where = shutil.which(words[0])
    if where is None:
        raise Error(f"{words[0]}: no such program; give its path")
    program = pathlib.Path(where)
    if _is_static(program):
        raise Error(f"{where} is fully static, so no library can be preloaded; link its C library dynamically")
    if program.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise Error(f"{where} runs as another user, so no library is preloaded; run it as that user")
    preload = " ".join(filter(None, [str(_library(asked.library)), os.environ.get("LD_PRELOAD")]))
    before = set(_traces(asked.output))
    environment = {**os.environ, "LD_PRELOAD": preload, "ISTHMUS_UVM_TRACE": asked.output}
    environment.pop(_ONLY_OF, None)
    if not asked.children:  # the library keeps quiet in processes that another one started
        environment[_ONLY_OF] = str(os.getpid())
    code = subprocess.run([where, *words[1:]], env=environment, check=False).returncode
    left = [path for path in _traces(asked.output) if path not in before]
    for path in left:
        print(f"isthmus faults: page faults are in {path}; `isthmus faults report` shows them", file=sys.stderr)
    if not left:
        more = "" if asked.children else "; --children watches the processes that it starts, too"
        print(f"isthmus faults: {words[0]} used no unified memory that could be watched{more}", file=sys.stderr)
    return 128 - code if code < 0 else code or (exits.PASSED if left else exits.UNDECIDED)


def _traces(prefix: str) -> list[pathlib.Path]:
    base = pathlib.Path(prefix)
    return sorted(base.parent.glob(f"{base.name}.*.uvm")) if base.parent.is_dir() else []


def _add_run(parts) -> None:
    running = parts.add_parser(
        "run", help="run a program and record its page faults",
        epilog="example: isthmus faults run -o solver -- ./solver --steps 10\n\n"
        "Ends with the program's exit code; 3 where that is 0 and nothing was recorded.",
    )  # fmt: skip
    running.add_argument("-o", "--output", metavar="PREFIX", default="faults", help="of the files (default: faults)")
    running.add_argument("--library", type=pathlib.Path, help="libisthmus-uvm.so (default: beside isthmus-bench)")
    running.add_argument("--children", action="store_true", help="record the processes that the program starts, too")
    running.add_argument("program", nargs=argparse.REMAINDER, help="after --, with its arguments")


def add_arguments(parser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="run|report|model")
    _add_run(parts)
    reporting = parts.add_parser(
        "report", help="show what was recorded", description=report.__doc__,
        epilog="examples:\n  isthmus faults report faults.4711.uvm\n"
        "  isthmus faults report faults.4711.uvm -o page.html\n\n"
        "-o FILE without --format writes the page, unless it ends in .json, .csv or .parquet.\n"
        "exit code 3: events are missing, or cannot all be believed",
    )  # fmt: skip
    report.add_arguments(reporting)
    modelling = parts.add_parser(
        "model", help="what a batch costs the driver", description=model.__doc__,
        epilog="examples:\n  isthmus faults model results\n  isthmus faults model *.uvm --format csv -o model.csv\n\n"
        "exit code 3: no coefficient can be estimated, or files could not be read",
    )  # fmt: skip
    model.add_arguments(modelling)


def run(asked) -> int:
    return {"run": record, "report": report.run, "model": model.run}[asked.part](asked)
