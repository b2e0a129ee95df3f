"""What profilers wrote, in one form: kernels, copies, migrations, page faults, API calls, counters.

`isthmus profile TOOL FOLDER` prints what any run of a profiler left, and so what `-S profiler=TOOL` left beside a
record. docs/profiling.md says which figure comes from where.
"""
# read(tool, folder) takes one set of files per rank and gives a Profile, which as_record.amend(records, profile) writes
# into the records of that run. Sources: NVIDIA's export schema of Nsight Systems, the raw page of Nsight Compute,
# rocprofv3's csv, json and rocpd outputs, perf-stat(1)'s CSV, and src/trace/cupti_counts.cpp.

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Callable
from typing import Any

from isthmus import exits, spelling
from isthmus.profiles import as_record, cupti, ncu, nsys, perf, rocprofv3
from isthmus.profiles.profile import Profile, ProfileError, added
from isthmus.tables import output

_READERS: dict[str, tuple[Callable[[pathlib.Path], Profile], list[tuple[str, ...]]]] = {
    "nsys": (nsys.read, [("*.sqlite",)]),
    "ncu": (ncu.read, [("*.csv",)]),
    "rocprofv3": (rocprofv3.read, [("*.db",), ("*.json",), tuple(f"*{ending}" for ending in rocprofv3.CSV)]),
    "cupti": (cupti.read, [("*.json",)]),
    "perf": (perf.read, [("*.perf",)]),
}
TOOLS = tuple(_READERS)
#: What else these tools write; of rocprofv3 only where its CSV is read, since the other formats hold it all.
_UNREAD = {"rocprofv3": ("*_trace.csv",)}


def files(tool: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """What of a folder is to be read; of rocprofv3's formats the fullest that is there, since they say the same."""
    for patterns in _READERS[tool][1]:
        found = sorted({path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()})
        if found:
            return found
    return []


def read(tool: str, folder: pathlib.Path) -> Profile:
    """All that a profiler left in a folder, added up. Raises ProfileError where that is nothing."""
    if tool not in TOOLS:
        raise ProfileError(f"{tool!r} is no profiler that is known; choose from {', '.join(TOOLS)}")
    whole = Profile(tool)
    found = files(tool, folder)
    if not found:
        if tool == "nsys" and any(folder.rglob("*.qdstrm")):
            raise ProfileError(
                "nsys left a *.qdstrm only, since it found no importer; use an Nsight Systems that was installed whole"
            )
        raise ProfileError(f"{tool} left no {' nor '.join(patterns[0] for patterns in _READERS[tool][1])}")
    for path in found:
        whole = added(whole, _READERS[tool][0](path))
    if whole.empty():
        raise ProfileError(f"{tool} saw nothing")
    patterns = _UNREAD.get(tool, ()) if found[0].suffix == ".csv" else ()
    unread = {path.name for pattern in patterns for path in folder.rglob(pattern)}
    for name in sorted(unread - {path.name for path in found}):
        whole.leave_out(f"the file {name}")
    whole.files = [str(path.relative_to(folder)) for path in found]
    return whole


_COLUMNS = {
    "kind": "VARCHAR", "name": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "count": "BIGINT",
    "registers": "BIGINT",
}  # fmt: skip


def table(seen: Profile) -> output.Table:
    """Figures, kernels and named phases, the longest first; the text has as_record.KERNELS of the kernels."""
    figure_rows: list[dict[str, Any]] = [
        {"kind": "figure", "name": n, "value": v, "unit": u} for n, (v, u) in as_record.figures(seen).items()
    ]
    counters: list[dict[str, Any]] = [
        {"kind": "counter", "name": name, "value": value, "unit": "s" if name.endswith("_seconds") else "1"}
        for name, value in sorted(seen.counters.items())
        if name not in (*as_record.COUNTED, "graph_seconds")
    ]  # fmt: skip
    kernels = sorted(seen.kernels.items(), key=lambda item: -item[1].seconds)
    phases = sorted(seen.phases.items(), key=lambda item: -item[1].seconds)
    rows: list[dict[str, Any]] = [
        *figure_rows,
        *counters,
        *({"kind": "kernel", "name": name, "value": kernel.seconds, "unit": "s", "count": kernel.count,
           "registers": kernel.registers} for name, kernel in kernels),
        *({"kind": "phase", "name": name, "value": moved.seconds, "unit": "s", "count": moved.count}
          for name, moved in phases),
    ]  # fmt: skip
    lines = [
        f"{row['name']:<28} {row['value']:>16.9g} {row['unit'] if row['unit'] != '1' else ''}".rstrip()
        for row in [*figure_rows, *counters]
    ]
    for name, kernel in kernels[: as_record.KERNELS]:
        lines += _named(
            f"kernel {kernel.count:>6} × {kernel.registers or '-':>3} registers {kernel.seconds:>10.6f} s", name
        )
    if kernels[as_record.KERNELS :]:
        lines.append(f"{len(kernels) - as_record.KERNELS} shorter kernels left out; --format csv has them")
    for name, moved in phases:
        lines += _named(f"phase  {moved.count:>6} × {moved.seconds:>25.6f} s", name)
    lines += [line for note in seen.all_notes() for line in output.fold(f"note: {note}")]
    return output.Table(_COLUMNS, rows, "\n".join(lines))


def _named(head: str, name: str) -> list[str]:
    """A line with a name at its end, which may be long: it goes on below."""
    text = spelling.printable(spelling.shorten(name, 160))
    room = output.WIDTH - len(head) - 2
    first, *more = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [f"{head}  {first}", *(" " * (len(head) + 2) + line for line in more)]


def add_arguments(parser) -> None:
    parser.epilog = f"example: isthmus profile nsys results/NAME.profile\n\n{exits.EXIT_CODES}"
    parser.add_argument("tool", choices=TOOLS, help="who wrote it")
    parser.add_argument("folder", type=pathlib.Path, help="with its output: an SQLite export, the raw page as CSV, …")
    output.add_arguments(parser)


def run(asked) -> int:
    if not asked.folder.is_dir():
        raise ProfileError(f"{asked.folder}: no such folder; name the one that the profiler wrote")
    output.write(asked, table(read(asked.tool, asked.folder)))
    return exits.PASSED
