"""Command that draws a figure of the notebooks from any folder of records.

Records of different machines are not mixed: the machine with most of the figure's data is chosen. If several cases
match, the commonest is chosen. Both choices are reported, with the option that changes them.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as pyplot
from matplotlib.figure import Figure

from isthmus import Error, exits, spelling, units
from isthmus.records import hardware, store
from isthmus.records.measurements import literal
from isthmus.statistics import series
from isthmus.tables import output, readings
from isthmus_papers.figures import counters, interjob, memory, modes, networks, paging, programs, transfers
from isthmus_papers.figures.registry import FIGURES, Commonest, Named, is_empty

FORMATS = ("png", "svg", "pdf")
_MODULES = (transfers, memory, modes, counters, programs, networks, interjob, paging)  # each registers its figures
_AXES = "axes."
_DPI = 150
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # equal records produce equal files


def names() -> str:
    """Returns a text with one line per figure: its name and what it shows."""
    width = max(map(len, FIGURES))
    return "\n".join(
        line
        for _, each in sorted(FIGURES.items())
        for line in output.fold(f"{each.name:<{width}}  {each.what}", indent=" " * width)
    )


def _wanted(name: str) -> Named:
    if name in FIGURES:
        return FIGURES[name]
    meant = spelling.did_you_mean(name, FIGURES)
    raise Error(f"there is no figure {spelling.shorten(name, 40)!r}{meant or '; `isthmus figure --list` lists them'}")


def _is_of_case(where: str) -> bool:
    """Returns whether a condition is on a field or axis of a case, not on a machine, job or build."""
    name, equals, _ = where.partition("=")
    return bool(equals) and (name.startswith(_AXES) or name in set(readings.FIELDS) - {"device", "cpu"})


def _number(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return units.amount(text)
    return None


def _chosen(found: list[readings.Reading], cases: dict[str, str]) -> list[readings.Reading]:
    """Returns the readings whose fields and axes have these values. Readings of workloads without such an axis are all
    included. Raises Error for a value that no record has."""
    for name, text in cases.items():
        axis = name.removeprefix(_AXES)
        values = readings.Readings(found).values(axis)
        if not values:
            known = sorted({each for reading in found for each in reading.axes})
            raise Error(f"no record of this figure has {name}; its axes are {', '.join(known) or 'none'}")
        fitting = [v for v in values if readings.matches(str(v), text) or (v == _number(text) and v is not True)]
        if not fitting:
            few = ", ".join(map(str, values[:12])) + (", …" if values[12:] else "")
            raise Error(f"no record of this figure has {name}={spelling.shorten(text, 40)}; there are {few}")
        found = [each for each in found if each.get(axis) in fitting or (axis != name and axis not in each.axes)]
    return found


def _machines(opened: store.Store, shown: str) -> list[tuple[str, str]]:
    """Returns SQL that selects each machine with data that is shown, and words that name it; the machine with most of
    the data comes first."""
    machines = hardware.name_machines(opened)
    titles = hardware.titles(machines)
    rows = opened.rows(
        "SELECT machine, count(DISTINCT (workload, placement, staging, size, preset, axes)) AS cases FROM measured "
        f"WHERE metric IS NOT NULL AND {series.COUNTS} AND {shown} GROUP BY machine ORDER BY cases DESC, machine"
    )
    named = [titles[machines[row["machine"]]] for row in rows]
    found = []
    for place, (row, title) in enumerate(zip(rows, named)):
        others = "; ".join(named[:place] + named[place + 1 :])
        which = "one with enough data" if place else "the one with the most data"
        words = f"; of {len(rows)} machines {which}; --where chooses another ({others})" if others else ""
        found.append((f"machine = {row['machine']}", title + words))
    return found


class _Attempt(NamedTuple):
    """Figure of one machine, or the error that kept it from being drawn; neither if it has no valid readings."""

    which: str  # SQL that selects the machine
    machine: str
    chosen: Commonest
    made: Figure | None = None
    error: Error | None = None

    @property
    def suffices(self) -> bool:
        return self.made is not None and not is_empty(self.made)


def _attempt(
    wanted: Named, opened: store.Store, shown: str, machine: tuple[str, str], cases: dict[str, str]
) -> _Attempt:
    found = readings.of_store(opened, "measured", f"{shown} AND {machine[0]}")
    try:
        chosen = Commonest(_chosen(found, cases) if found else [])
        return _Attempt(*machine, chosen, wanted.draw(chosen) if found else None)
    except Error as error:
        return _Attempt(*machine, Commonest([]), error=error)


def _best(attempts: Iterator[_Attempt]) -> _Attempt:
    """Returns the first attempt that suffices, otherwise the first; closes the figures of the others. Draws no more
    than it has to."""
    first = next(attempts)
    if first.suffices:
        return first
    for each in attempts:
        if each.suffices:
            if first.made is not None:
                pyplot.close(first.made)
            return each
        if each.made is not None:
            pyplot.close(each.made)
    return first


def open_store(paths, wheres=()) -> store.Store:
    """Returns the store that draw() reads, restricted to machines, jobs and builds that match `wheres`."""
    columns = {*readings.WANTED, *hardware.WANTED, *series.FIELDS, "profiler"}
    return store.open_store(
        paths, wanted=columns, profiled=True, where=" AND ".join(map(series.condition, wheres)) or "true"
    )


def _of_workloads(wanted: Named) -> str:
    """Returns SQL that selects the records of a figure's workloads."""
    return f"({' OR '.join(f'workload GLOB {literal(pattern)}' for pattern in wanted.workloads)})"


def _say_uncounted(wanted: Named, opened: store.Store, which: str) -> list[str]:
    """Reports on stderr which records of a figure's workloads and machine are not shown. Returns those that failed or
    are wrong."""
    of = _of_workloads(wanted)
    profiled = f"profiler IS {'NOT NULL' if wanted.profiled else 'NULL'}"
    found = series.uncounted(opened, f"{of} AND {profiled} AND {which}", "measured")
    found.say(wanted.name)
    emulated = f"SELECT count(*) FROM everything WHERE metric_index = 0 AND emulated AND {of}"
    [(count,)] = opened.sql(emulated).fetchall()
    if count:
        print(f"{wanted.name}: {spelling.counted(count, 'emulated record')} left out", file=sys.stderr)
    return [found.words] if found.bad else []


def draw(name: str, opened: store.Store, cases: dict[str, str]):
    """Returns the figure, sentences about choices between several candidates, and the records that failed or are wrong.
    Raises Error.

    Records that do not count are first named on stderr, because they may be the reason why there is too little data.
    """
    wanted = _wanted(name)
    shown = f"{_of_workloads(wanted)} AND {readings.COUNTED if wanted.profiled else 'profiler IS NULL'}"
    nothing = Error(f"these records have no valid figure of {', '.join(wanted.workloads)}")
    machines = _machines(opened, shown)
    if not machines:
        _say_uncounted(wanted, opened, "true")
        raise nothing
    best = _best(_attempt(wanted, opened, shown, machine, cases) for machine in machines)
    doubts = _say_uncounted(wanted, opened, best.which)
    if best.error:
        raise best.error
    if best.made is None:
        raise nothing
    if not best.suffices:
        raise Error(f"these records have too little data for {name}: {wanted.what}")
    notes = [f"machine: {best.machine}"]
    for field, (value, others) in best.chosen.taken.items():
        axis = field if field in readings.FIELDS else f"{_AXES}{field}"
        notes.append(
            f"{axis}={value}, the commonest of {', '.join(map(str, (value, *others)))}; --where chooses another"
        )
    return best.made, notes, doubts


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus figure --list\n  isthmus figure transfer-managed results -o managed.svg\n"
        "  isthmus figure memory-latency results -o l.pdf --where device='NVIDIA H200'\n"
        "  isthmus figure transfer-zero-copy results -o copy.png --where axes.width=4\n\n"
        "exit codes: 0 the figure is drawn; 2 bad input; 3 it is drawn, but cases of its workloads failed or are\n"
        "wrong, or files could not be read"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of the names that --list prints")
    parser.add_argument("paths", nargs="*", metavar="RECORDS", help="folders with record files, or files")
    parser.add_argument("--list", action="store_true", help="list the figures")
    parser.add_argument("-o", "--output", metavar="FILE", type=output.Destination,
                        help="picture to write: .png, .svg or .pdf; - is stdout")  # fmt: skip
    parser.set_defaults(check_output=output.check_destinations)
    parser.add_argument("--format", choices=FORMATS, help="format of the picture, if FILE does not tell")
    parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE",
                        help="a field, as in `isthmus regress --from`, placement, size, preset, … or axes.NAME "
                        "(may be repeated)")  # fmt: skip


def _cases(conditions: list[str]) -> dict[str, str]:
    """Returns the values of a case's fields and axes. Raises Error for a field with two values, because a figure shows
    one case."""
    values: dict[str, list[str]] = {}
    for name, _, value in (where.partition("=") for where in conditions if _is_of_case(where)):
        if not value.strip():
            raise Error(f"--where {name}= lacks its value; write {name}=VALUE, or leave it out")
        values.setdefault(name, []).append(value)
    if twice := next((name for name, given in values.items() if len(set(given)) > 1), None):
        raise Error(f"--where names two values of {twice}, but a figure shows one case; keep one")
    return {name: given[0] for name, given in values.items()}


def run(asked) -> int:
    if asked.list:
        print(names())
        return exits.PASSED
    if not (asked.name and asked.paths and asked.output):
        raise Error("a name, records and -o FILE are needed, or --list (see `isthmus figure --help`)")
    kind = output.chosen_format(asked, FORMATS)
    matplotlib.use("agg")
    _wanted(asked.name)  # report a misspelt name before records are read
    cases = _cases(asked.where)
    with open_store(asked.paths, [where for where in asked.where if not _is_of_case(where)]) as opened:
        asked.absent = opened.skipped  # isthmus.cli derives the exit code from them
        opened.say_absent()
        made, notes, asked.doubts = draw(asked.name, opened, cases)
    picture = io.BytesIO()
    made.savefig(picture, format=kind, dpi=_DPI, metadata=_UNDATED.get(kind))
    for note in notes:
        print(spelling.printable(note), file=sys.stderr)
    output.deliver(picture.getvalue(), asked.output)
    return exits.PASSED
