"""What profilers wrote, in one form: kernels, copies, migrations, page faults, API calls, counters.

`isthmus profile TOOL FOLDER` prints what any run of a profiler left, and so what `-S profiler=TOOL` left beside a
record. docs/profiling.md says which figure comes from where.
"""
# read(tool, folder) takes one set of files per rank and gives a Profile, which as_record.amend(records, profile) writes
# into the records of that run. Sources: NVIDIA's export schema of Nsight Systems, the raw page of Nsight Compute,
# rocprofv3's csv, json and rocpd outputs, perf-stat(1)'s CSV, and src/trace/cupti_counts.cpp.

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Callable
from typing import Any

from isthmus import exits, spelling
from isthmus.groups import grouped
from isthmus.profiles import as_record, cupti, ncu, nsys, perf, rocprofv3
from isthmus.profiles.profile import Profile, ProfileError, added
from isthmus.tables import output

_READERS: dict[str, tuple[Callable[[pathlib.Path], Profile], tuple[str, ...]]] = {
    "nsys": (nsys.read, (".sqlite",)),
    "ncu": (ncu.read, (".csv",)),
    "rocprofv3": (rocprofv3.read, (".db", ".json", *rocprofv3.CSV)),
    "cupti": (cupti.read, (".json",)),
    "perf": (perf.read, (".perf",)),
}
TOOLS = tuple(_READERS)
#: Reports that are read only once the tool has converted them, and how.
_REPORTS: dict[str, tuple[tuple[str, ...], str]] = {
    "nsys": ((".nsys-rep", ".qdrep", ".qdstrm"), "nsys export --type=sqlite"),
    "ncu": ((".ncu-rep", ".nsight-cuprof-report"), "ncu --import FILE --csv --page raw"),
    "rocprofv3": ((".pftrace", ".otf2"), "rocprofv3 with --output-format rocpd or json"),
}
_NAMED = 6  # files of one kind that are named


def _stem(path: pathlib.Path) -> pathlib.Path:
    """What outputs of one process share: the folder, and the name before what a tool adds."""
    added = [f"_{ending}" for ending in rocprofv3.CSV] + list(rocprofv3.CSV)
    ending = next(filter(path.name.endswith, added), path.suffix)
    return path.with_name(path.name.removesuffix(ending).removesuffix("_results").rstrip("_") or "results")


def _files_below(folder: pathlib.Path, endings: tuple[str, ...]) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.name.endswith(endings) and path.is_file())


def files(tool: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """What of a folder is to be read; of rocprofv3's formats the fullest of each process, since they say the same."""
    found = _files_below(folder, _READERS[tool][1])
    if tool != "rocprofv3":
        return found
    formats = grouped((_stem(path), path.suffix) for path in found)
    fullest = {stem: min(kinds, key=(".db", ".json", ".csv").index) for stem, kinds in formats.items()}
    return [path for path in found if path.suffix == fullest[_stem(path)]]


def read(tool: str, folder: pathlib.Path) -> Profile:
    """All that a profiler left in a folder, added up; its `missing` says where that is not the whole run. Raises
    ProfileError where that is nothing."""
    if tool not in TOOLS:
        raise ProfileError(f"{tool!r} is no profiler that is known; choose from {', '.join(TOOLS)}")
    whole = Profile(tool)
    found = files(tool, folder)
    unconverted = _unconverted(tool, folder, found)
    if not found:
        if tool == "nsys" and unconverted and all(path.suffix == ".qdstrm" for path in unconverted):
            raise ProfileError(
                "nsys left a *.qdstrm only, since it found no importer; use an Nsight Systems that was installed whole"
            )
        endings = " nor ".join(f"*{ending}" for ending in _READERS[tool][1][:3])
        raise ProfileError(f"{tool} left no {endings}{_convert(tool, folder, unconverted, '; ')}")
    empty: list[pathlib.Path] = []
    for path in found:
        seen = _READERS[tool][0](path)
        empty += [path] if seen.empty() else []
        whole = added(whole, seen)
    if whole.empty():
        raise ProfileError(f"{tool} saw nothing{_convert(tool, folder, unconverted, '; ')}")
    if unconverted:
        whole.missing.append(f"not the whole run: {_convert(tool, folder, unconverted)}")
    if silent := _silent(tool, folder, found, empty):
        verb = "has" if len(silent) == 1 else "have"
        whole.missing.append(f"not the whole run: {_names(folder, silent)} {verb} no figure, unlike those next to it")
    if tool == "rocprofv3":
        _say_formats(whole, folder, found)
    whole.files = [str(path.relative_to(folder)) for path in found]
    return whole


def _unconverted(tool: str, folder: pathlib.Path, found: list[pathlib.Path]) -> list[pathlib.Path]:
    """Reports of which nothing that is read has the name."""
    converted = {_stem(path) for path in found}
    reports = _files_below(folder, _REPORTS[tool][0]) if tool in _REPORTS else []
    return list({_stem(path): path for path in reports if _stem(path) not in converted}.values())


def _convert(tool: str, folder: pathlib.Path, reports: list[pathlib.Path], before: str = "") -> str:
    """A clause that names reports and what makes them readable; empty where there are none."""
    if not reports:
        return ""
    verb = "was" if len(reports) == 1 else "were"
    return (
        f"{before}{_names(folder, reports)} {verb} never converted; write each under its own name next to it: "
        f"{_REPORTS[tool][1]}"
    )


def _names(folder: pathlib.Path, paths: list[pathlib.Path]) -> str:
    names = [spelling.printable(spelling.shorten(str(path.relative_to(folder)), 120)) for path in paths[:_NAMED]]
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(names) + more


def _silent(
    tool: str, folder: pathlib.Path, found: list[pathlib.Path], empty: list[pathlib.Path]
) -> list[pathlib.Path]:
    """Folders and files without a figure where others have some, whose names differ in a number only: ranks, nodes."""
    speaking = {place for path in set(found) - set(empty) for place in (path, *path.parents)}
    places = [path for path in folder.rglob("*") if path.is_dir()]
    if tool != "rocprofv3":  # which writes a file for each kind of event, and for each process that a rank starts
        places += found
    families = grouped((place.with_name(re.sub(r"\d+", "#", place.name)), place) for place in places)
    return sorted(
        place for family in families.values() if speaking & set(family) for place in set(family) - speaking
    )  # fmt: skip


def _say_formats(whole: Profile, folder: pathlib.Path, found: list[pathlib.Path]) -> None:
    """What of rocprofv3's output was not read, and what may have been read twice."""
    held = [_stem(path) for path in found if path.suffix != ".csv"]  # these formats hold it all
    for path in sorted(folder.rglob("*_trace.csv")):
        mine = any(path.parent == stem.parent and path.name.startswith(f"{stem.name}_") for stem in held)
        if path not in found and not mine:
            whole.leave_out(f"the file {path.name}")
    for place, paths in grouped((path.parent, path) for path in found).items():
        kinds = {path.suffix: path for path in paths}
        if len(kinds) > 1:
            whole.notes.append(
                f"{_names(folder, list(kinds.values()))} have different names, so their figures are added as those of "
                f"different processes; where they are of one, leave one format in {place.name}"
            )


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
    lines = output.fold_each(seen.missing)
    lines += [
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
    notes = seen.all_notes()[len(seen.missing) :]
    lines += [line for note in notes for line in output.fold(f"note: {note}")]
    return output.Table(_COLUMNS, rows, "\n".join(lines), seen.missing)


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
    seen = read(asked.tool, asked.folder)
    asked.doubts = seen.missing  # for the exit code: isthmus.cli
    output.write(asked, table(seen))
    return exits.PASSED
