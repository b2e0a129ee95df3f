"""Reads the output of profilers in one form: kernels, copies, migrations, page faults, API calls, counters.

`isthmus profile TOOL FOLDER` prints the output of a profiler for any run, including output that `-S profiler=TOOL` left
next to a record. docs/profiling.md states the source of each figure.
"""
# read(tool, folder) reads one set of files per rank into a Profile, and as_record.amend(records, profile) adds the
# profile to the records of the run. Sources of the formats: NVIDIA's export schema of Nsight Systems, the raw page of
# Nsight Compute, rocprofv3's csv, json and rocpd outputs, perf-stat(1)'s CSV, and src/trace/cupti_counts.cpp.

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
import stat
import textwrap
from collections.abc import Callable
from typing import Any

from isthmus import exits, inputs, spelling
from isthmus.grouping import grouped
from isthmus.profiles import admissions, as_record, coverage, cupti, ncu, nsys, passes, perf, ranks, rocprofv3
from isthmus.profiles.profile import FURTHER, Kernel, Moved, Profile, ProfileError, Ranks, added
from isthmus.records import load
from isthmus.tables import output

_READERS: dict[str, tuple[Callable[[pathlib.Path], Profile], tuple[str, ...]]] = {
    "nsys": (nsys.read, (".sqlite",)),
    "ncu": (ncu.read, (".csv",)),
    "rocprofv3": (rocprofv3.read, (".db", ".json", *rocprofv3.CSV)),
    "cupti": (cupti.read, (".json",)),
    "perf": (perf.read, (".perf",)),
}
TOOLS = tuple(_READERS)
#: Endings of reports that can be read only after the tool has converted them, and the command that converts them.
_REPORTS: dict[str, tuple[tuple[str, ...], str]] = {
    "nsys": ((".nsys-rep", ".qdrep", ".qdstrm"), "nsys export --type=sqlite"),
    "ncu": ((".ncu-rep", ".nsight-cuprof-report"), "ncu --import FILE --csv --page raw"),
    "rocprofv3": ((".pftrace", ".otf2"), "rocprofv3 with --output-format rocpd or json"),
}
#: Tools whose reports are converted to the files that are read here. rocprofv3 writes all its formats in one run, in
#: any order.
_EXPORTERS = ("nsys", "ncu")
_COPIED_S = 2.0  # seconds by which a report may be newer than its export, since copying may change their times
_NAMED = 6  # maximum number of files of one kind that a message names


def _stem(path: pathlib.Path) -> pathlib.Path:
    """Returns the path that the outputs of one process share: the folder, and the name without the tool's endings."""
    added = [f"_{ending}" for ending in rocprofv3.CSV] + list(rocprofv3.CSV)
    ending = next(filter(path.name.endswith, added), path.suffix)
    return path.with_name(path.name.removesuffix(ending).removesuffix("_results").rstrip("_") or "results")


@dataclasses.dataclass
class _Below:
    """Folders and files below a folder, including those that links lead to, and those that cannot be examined."""

    folder: pathlib.Path
    folders: list[pathlib.Path] = dataclasses.field(default_factory=list)
    files: list[pathlib.Path] = dataclasses.field(default_factory=list)
    unseen: list[load.Skipped] = dataclasses.field(default_factory=list)

    def ending_in(self, endings: tuple[str, ...]) -> list[pathlib.Path]:
        return [path for path in self.files if path.name.endswith(endings)]


def _look_below(folder: pathlib.Path) -> _Below:
    """Lists everything below a folder; a folder that several links lead to is listed once."""
    below = _Below(folder)
    for place, names in load.walk(folder, below.unseen, compacted=True):
        below.folders.append(pathlib.Path(place))
        for path in (pathlib.Path(place, name) for name in names):
            try:
                below.files += [path] if stat.S_ISREG(os.stat(path).st_mode) else []
            except OSError as error:
                why = inputs.DANGLING if isinstance(error, FileNotFoundError) else error.strerror or str(error)
                below.unseen.append(load.Skipped(str(path), why))
    del below.folders[:1]  # removes the folder itself
    below.files.sort()
    return below


def _real(path: pathlib.Path) -> str:
    return os.path.realpath(path)


def _once(folder: pathlib.Path, paths: list[pathlib.Path]) -> list[pathlib.Path]:
    """Returns one path for each file, preferably its real path, even if several of the paths lead to it."""
    top = _real(folder)
    own_first = sorted(paths, key=lambda path: os.path.join(top, path.relative_to(folder)) != _real(path))
    first = {_real(path): path for path in reversed(own_first)}
    return sorted(first.values())


def _outputs(tool: str, below: _Below) -> list[pathlib.Path]:
    """Returns the files to read, under every name that links give them.

    All formats of rocprofv3 contain the same events, so only the fullest format of each process is returned.
    """
    found = below.ending_in(_READERS[tool][1])
    if tool != "rocprofv3":
        return found
    formats = grouped((_stem(path), path.suffix) for path in found)
    fullest = {stem: min(kinds, key=(".db", ".json", ".csv").index) for stem, kinds in formats.items()}
    return [path for path in found if path.suffix == fullest[_stem(path)]]


def files(tool: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of a folder that are read, each once."""
    below = _look_below(folder)
    return _once(folder, _current(_outputs(tool, below), _stale(tool, below)))


def read(tool: str, folder: pathlib.Path) -> Profile:
    """Adds up all output of a profiler in a folder; `missing` lists the reasons why it does not cover the whole run.

    Raises ProfileError if nothing can be read.
    """
    if tool not in TOOLS:
        raise ProfileError(f"{tool!r} is not a known profiler; choose from {', '.join(TOOLS)}")
    below = _look_below(folder)
    every = _outputs(tool, below)
    stale = _stale(tool, below)
    outputs = _current(every, stale)
    found = _once(folder, outputs)
    unconverted = _unconverted(tool, below, every)
    reasons = [
        *_convert(tool, folder, unconverted), *_convert_again(tool, folder, stale), *_misnamed(tool, below, every),
        *_unseen(below),
    ]  # fmt: skip
    if not found:
        if not stale and tool == "nsys" and unconverted and all(path.suffix == ".qdstrm" for path in unconverted):
            raise ProfileError(
                "nsys left only a *.qdstrm, since it found no importer; use a complete installation of Nsight Systems"
            )
        endings = " nor ".join(f"*{ending}" for ending in _READERS[tool][1][:3])
        raise ProfileError("; ".join([f"{tool} left no {endings}{' of its last run' if stale else ''}", *reasons]))
    empty: set[str] = set()
    of_ranks: dict[str, Ranks] = {}
    parts: dict[pathlib.Path, list[tuple[pathlib.Path, Profile]]] = {}
    for path in found:
        seen = _READERS[tool][0](path)
        empty |= {_real(path)} if seen.empty() else set()
        of_ranks[_real(path)] = seen.ranks
        seen.missing = [_in_folder(folder, path, sentence) for sentence in seen.missing]
        process = _stem(path) if tool == "rocprofv3" else path  # only rocprofv3 writes several files per process
        parts.setdefault(process, []).append((path, added(Profile(tool), seen)))
    whole = passes.united(folder, [_process(folder, found) for found in parts.values()])
    _read_logs(whole, below)
    if whole.empty():
        raise ProfileError("; ".join([f"{tool} saw nothing", *reasons]))
    coverage.withhold(whole)
    whole.missing += [f"not the whole run: {reason}" for reason in reasons]
    with_figures = [path for path in outputs if _real(path) not in empty]
    if silent := _silent(tool, below, outputs, with_figures, [*unconverted, *stale.values()]):
        verb = "has" if len(silent) == 1 else "have"
        names = _names(folder, silent)
        whole.missing.append(f"not the whole run: {names} {verb} no figure, unlike the files next to it")
    whole.missing += _lacking(tool, below, every, {path: of_ranks[_real(path)] for path in outputs})
    if tool == "rocprofv3":
        _say_formats(whole, below, found)
    whole.files = [str(path.relative_to(folder)) for path in found]
    return whole


def _process(folder: pathlib.Path, outputs: list[tuple[pathlib.Path, Profile]]) -> passes.Part:
    """Combines the outputs of one process into a part of the run."""
    paths, profiles = zip(*outputs)
    return passes.Part(paths[0], _names(folder, list(paths)), functools.reduce(added, profiles))


def _in_folder(folder: pathlib.Path, path: pathlib.Path, sentence: str) -> str:
    """Replaces a file's name in a sentence with its path, which distinguishes it from other ranks' files."""
    return sentence.replace(path.name, _names(folder, [path]), 1)


def _read_logs(whole: Profile, below: _Below) -> None:
    """Adds the losses that the profiler admits in the logs next to its output to `whole`."""
    for path in below.files:
        if path.name == admissions.LOG:
            log = Profile(whole.tool)
            admissions.read_log(log, path)
            whole.missing += [_in_folder(below.folder, path, sentence) for sentence in log.missing]


def _unconverted(tool: str, below: _Below, outputs: list[pathlib.Path]) -> list[pathlib.Path]:
    """Returns reports without a converted output of the same name."""
    converted = {_stem(path) for path in outputs}
    reports = below.ending_in(_REPORTS[tool][0]) if tool in _REPORTS else []
    return list({_stem(path): path for path in reports if _stem(path) not in converted}.values())


def _convert(tool: str, folder: pathlib.Path, reports: list[pathlib.Path]) -> list[str]:
    """Returns a clause that names unconverted reports and how to convert them; empty if there are none."""
    if not reports:
        return []
    verb = "was" if len(reports) == 1 else "were"
    return [
        f"{_names(folder, reports)} {verb} never converted; convert each to a file of the same name next to it: "
        f"{_REPORTS[tool][1]}"
    ]


def _stale(tool: str, below: _Below) -> dict[pathlib.Path, pathlib.Path]:
    """Returns the exports that are older than the report of the same name, each with its report."""
    if tool not in _EXPORTERS:
        return {}
    # If several reports have the same stem, the last one, which is the newest, is kept.
    reports = {_stem(path): path for path in sorted(below.ending_in(_REPORTS[tool][0]), key=_changed)}
    exports = {path: reports.get(_stem(path)) for path in _outputs(tool, below)}
    return {
        path: report
        for path, report in exports.items()
        if report is not None and _changed(report) > _changed(path) + _COPIED_S
    }


def _changed(path: pathlib.Path) -> float:
    """Returns the time when a file was last written, in seconds; 0 if it is gone."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _current(outputs: list[pathlib.Path], stale: dict[pathlib.Path, pathlib.Path]) -> list[pathlib.Path]:
    """Returns all outputs except stale exports and links to them."""
    old = {_real(path) for path in stale}
    return [path for path in outputs if _real(path) not in old]


def _convert_again(tool: str, folder: pathlib.Path, stale: dict[pathlib.Path, pathlib.Path]) -> list[str]:
    """Returns a clause that names stale exports and their reports, and what to do; empty if there are none."""
    if not stale:
        return []
    exports, reports = _names(folder, list(stale)), _names(folder, list(stale.values()))
    one = len(stale) == 1
    return [
        f"{reports} {'is' if one else 'are'} newer than {exports}, so {'that export shows' if one else 'those show'} "
        f"an earlier run and {'is' if one else 'are'} not read; delete {'it' if one else 'them'} and convert the "
        f"{'report' if one else 'reports'} again: {_REPORTS[tool][1]}"
    ]


def _unseen(below: _Below) -> list[str]:
    """Returns a clause for each reason why files or folders cannot be examined."""
    reasons = grouped((each.why, pathlib.Path(each.path)) for each in below.unseen)
    return [
        f"{_names(below.folder, paths)}: {why}" + ("" if ";" in why else f"; {_ADVICE.get(why, _READABLE)}")
        for why, paths in reasons.items()
    ]


_ADVICE = {inputs.DANGLING: "restore the target, or remove the link"}
_READABLE = "make it readable, or move it away"


def _misnamed(tool: str, below: _Below, outputs: list[pathlib.Path]) -> list[str]:
    """Returns a clause for each reason why files that seem to be outputs are not read because of their names."""
    read = _READERS[tool][1]
    reports = _REPORTS[tool][0] if tool in _REPORTS else ()
    converted = set(map(_stem, outputs))
    known = {*converted, *map(_stem, below.ending_in(reports)), *below.folders}
    alike = {_numberless(place) for path in outputs for place in (_stem(path), *path.parents)}
    found = []
    for path in below.files:
        if path.name.endswith((*read, *reports)) or _is_packed_twin(path, below):
            continue
        name = _up_to_ending(path.name, (*read, *reports))
        if name and name.lower().endswith(reports) and _stem(path.with_name(name)) in converted:
            continue
        # rocprofv3's names contain process numbers, so names that differ only in numbers are normal; _silent() reports
        # folders without figures.
        if not name and (tool == "rocprofv3" or not _is_sibling(path, known, alike)):
            continue
        wanted = next((end for end in (*read, *reports) if name and name.lower().endswith(end)), read[0])
        found.append((inputs.unread_because(path.name, wanted, ", or move it away"), path))
    return [f"{_names(below.folder, paths)}: {why}" for why, paths in grouped(found).items()]


def _up_to_ending(name: str, endings: tuple[str, ...]) -> str | None:
    """Returns a name up to the first of these endings, in upper or lower case: stat.perf for stat.perf.gz.

    Returns None if the name contains no such ending, and for files that SQLite writes next to a database.
    """
    if name.endswith(("-journal", "-wal", "-shm")):
        return None
    found = re.search(rf"({'|'.join(map(re.escape, endings))})(?![a-z])", name, re.IGNORECASE)
    return name[: found.end()] if found else None


def _is_packed_twin(path: pathlib.Path, below: _Below) -> bool:
    """Returns whether a file is compressed and its uncompressed original exists next to it, as after `gzip --keep`."""
    return inputs.packer(path.name) is not None and path.with_suffix("") in below.files


def _is_sibling(path: pathlib.Path, known: set[pathlib.Path], alike: set[pathlib.Path]) -> bool:
    """Returns whether a name, cut at one of its dots, differs only in numbers from one that was read.

    Returns false for names that are `known`, that is, read or reported elsewhere.
    """
    parts = path.name.split(".")
    names = [path.with_name(".".join(parts[:end])) for end in range(1, len(parts) + 1) if parts[0]]
    return not known & set(names) and any(_numberless(name) in alike for name in names)


def _numberless(place: pathlib.Path) -> pathlib.Path:
    return place.with_name(re.sub(r"\d+", "#", place.name)) if place.name else place


def _names(folder: pathlib.Path, paths: list[pathlib.Path]) -> str:
    names = [spelling.printable(spelling.shorten(str(path.relative_to(folder)), 120)) for path in paths[:_NAMED]]
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(names) + more


def _silent(
    tool: str, below: _Below, outputs: list[pathlib.Path], with_figures: list[pathlib.Path], known: list[pathlib.Path]
) -> list[pathlib.Path]:
    """Returns folders and files without figures if others, whose names differ only in numbers, have figures.

    Names of ranks and nodes differ in this way. Folders with a file that is `known` to be missing are left out.
    """
    speaking = {place for path in with_figures for place in (path, *path.parents)}
    places = [*below.folders]
    if tool != "rocprofv3":  # rocprofv3 writes a file for each kind of event, and for each process of a rank
        places += outputs
    families = grouped((_numberless(place), place) for place in places)
    explained = {place for path in known for place in (path, *path.parents)}
    return sorted(
        place for family in families.values() if speaking & set(family) for place in set(family) - speaking - explained
    )


def _lacking(tool: str, below: _Below, outputs: list[pathlib.Path], seen: dict[pathlib.Path, Ranks]) -> list[str]:
    """Returns sentences that name the ranks without any output; unreadable output is reported elsewhere."""
    reports = below.ending_in(_REPORTS[tool][0]) if tool in _REPORTS else []
    unseen = [pathlib.Path(each.path) for each in below.unseen]
    files = [(path, _stem(path)) for path in [*outputs, *reports]]
    return [
        f"not the whole run: {clause}" for clause in ranks.lacking(below.folder, [*below.folders, *unseen], files, seen)
    ]


def _say_formats(whole: Profile, below: _Below, found: list[pathlib.Path]) -> None:
    """Adds notes on output of rocprofv3 that was not read, and on output that may have been read twice."""
    folder = below.folder
    held = [_stem(path) for path in found if path.suffix != ".csv"]  # these formats contain everything
    read_here = {_real(path) for path in found}
    for path in below.ending_in(("_trace.csv",)):
        mine = any(path.parent == stem.parent and path.name.startswith(f"{stem.name}_") for stem in held)
        if _real(path) not in read_here and not mine:
            whole.leave_out(f"the file {path.name}")
    for place, paths in grouped((path.parent, path) for path in found).items():
        kinds = {path.suffix: path for path in paths}
        if len(kinds) > 1:
            whole.notes.append(
                f"{_names(folder, list(kinds.values()))} have different names, so their figures are added up as those "
                f"of different processes; if they are of one process, keep only one format in {place.name}"
            )


_COLUMNS = {
    "kind": "VARCHAR", "name": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "count": "BIGINT",
    "registers": "BIGINT",
}  # fmt: skip


def table(seen: Profile) -> output.Table:
    """Makes a table of figures, counters, kernels and named phases. Kernels and phases are sorted, the longest first.
    The text shows all figures, but only the first several of the others."""
    figure_rows: list[dict[str, Any]] = [
        {"kind": "figure", "name": n, "value": v, "unit": u} for n, (v, u) in as_record.figures(seen).items()
    ]
    counters: list[dict[str, Any]] = [
        {"kind": "counter", "name": name, "value": value, "unit": "s" if name.endswith("_seconds") else "1"}
        for name, value in sorted(seen.counters.items())
        if name not in (*as_record.COUNTED, "graph_seconds")
    ]  # fmt: skip
    kernels = sorted(seen.kernels.items(), key=lambda item: -item[1].seconds)
    rows: list[dict[str, Any]] = [
        *figure_rows,
        *counters,
        *({"kind": "kernel", "name": name, "value": kernel.seconds or None, "unit": "s", "count": kernel.count,
           "registers": kernel.registers} for name, kernel in kernels),
        *({"kind": "phase", "name": name, "value": moved.seconds, "unit": "s", "count": moved.count}
          for name, moved in sorted(seen.phases.items(), key=lambda item: -item[1].seconds)),
    ]  # fmt: skip
    first = [*seen.missing, *seen.limits]
    notes = [f"note: {note}" for note in seen.all_notes()[len(first) :]]
    lines = [
        *output.fold_each(first), *_lines_of_figures(figure_rows, counters), *_lines_of_kernels(kernels),
        *_lines_of_phases(seen.phases), *output.fold_each(notes),
    ]  # fmt: skip
    return output.Table(_COLUMNS, rows, "\n".join(lines), [*first, *notes])


def _lines_of_figures(figure_rows: list[dict], counters: list[dict]) -> list[str]:
    lines = [
        f"{spelling.printable(spelling.shorten(row['name'])):<28} {row['value']:>16.9g} "
        f"{row['unit'] if row['unit'] != '1' else ''}".rstrip()
        for row in [*figure_rows, *counters[: as_record.NAMES]]
    ]
    if left := counters[as_record.NAMES :]:
        lines.append(f"{spelling.counted(len(left), 'counter')} more left out; --format csv has them")
    return lines


def _lines_of_kernels(kernels: list[tuple[str, Kernel]]) -> list[str]:
    lines = []
    for name, kernel in kernels[: as_record.KERNELS]:
        lines += _named(
            f"kernel {kernel.count:>6} × {kernel.registers or '-':>3} registers {_seconds(kernel):>10} s", name
        )
    if kernels[as_record.KERNELS :]:
        lines.append(f"{len(kernels) - as_record.KERNELS} shorter kernels left out; --format csv has them")
    return lines


def _lines_of_phases(phases: dict[str, Moved]) -> list[str]:
    lines = []
    for name, moved in as_record.longest(phases, as_record.KERNELS).items():
        lines += _named(f"phase  {moved.count:>6} × {moved.seconds:>25.6f} s", name)
    if len(phases) > as_record.KERNELS:
        lines.append(f"{len(phases) - as_record.KERNELS} shorter phases added up as {FURTHER}; --format csv has them")
    return lines


def _seconds(kernel: Kernel) -> str:
    return f"{kernel.seconds:.6f}" if kernel.seconds else "-"  # kernels take time, so 0 means unknown


def _named(head: str, name: str) -> list[str]:
    """Returns lines that end in a name; a long name continues on further lines."""
    text = spelling.printable(spelling.shorten(name, 160))
    room = output.WIDTH - len(head) - 2
    first, *more = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [f"{head}  {first}", *(" " * (len(head) + 2) + line for line in more)]


def add_arguments(parser) -> None:
    parser.epilog = f"example: isthmus profile nsys results/NAME.profile\n\n{exits.EXIT_CODES}"
    parser.add_argument("tool", choices=TOOLS, help="profiler that wrote the output")
    parser.add_argument(
        "folder", type=pathlib.Path, help="folder with its output: an SQLite export, the raw page as CSV, …"
    )
    output.add_arguments(parser)


def run(asked) -> int:
    if not asked.folder.is_dir():
        raise ProfileError(f"{asked.folder}: no such folder; name the one that the profiler wrote")
    seen = read(asked.tool, asked.folder)
    asked.doubts = seen.missing  # decides the exit code in isthmus.cli
    output.write(asked, table(seen))
    return exits.PASSED
