"""How commands hand over what they found: one table, as text for people or as json, csv or parquet for programs.

A command adds the options with add_arguments(), makes a Table and ends with `write(asked, table)`. Another option that
names a file to write has `type=output.Destination`. No output replaces what was measured or read: see refuse_input().

The rows of a Table are what programs read: plain values in base units (s, B/s, bytes), one column each; its text is
what people read. Rows of measured cases begin with CASE, then a column for each axis: of_cases() makes such a table.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import io
import json
import math
import os
import pathlib
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from isthmus import Error, inputs, spelling, start, streams
from isthmus.groups import grouped
from isthmus.records import load
from isthmus.records.measurements import literal
from isthmus.spelling import WIDTH, fold

FORMATS = ("text", "json", "csv", "parquet")
PAGE_FORMATS = (*FORMATS, "html")  # of commands that write a page, too
#: Columns with which every row of a measured case begins, and their DuckDB types; the axes follow.
CASE = {
    "workload": "VARCHAR", "metric": "VARCHAR", "placement": "VARCHAR", "staging": "VARCHAR", "mode": "VARCHAR",
    "size": "VARCHAR", "preset": "VARCHAR", "version": "BIGINT", "ranks": "BIGINT",
}  # fmt: skip
_NARROWEST = 16  # characters of a first column that is folded to make room


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns with their DuckDB types, rows as dictionaries (what a row lacks is null), and the same for people."""

    columns: dict[str, str]
    rows: list[dict[str, Any]]
    text: str
    notes: Sequence[str] = ()  # lines of the text that no row says; on stderr beside the other formats


def axis_columns(axes: Iterable[dict[str, Any]], taken: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Of each axis the name of its column and its type; an axis called like another column, or "", is `axis_NAME`."""
    values = grouped((name, value) for each in axes for name, value in each.items())
    taken = set(taken)
    return {
        name: (f"axis_{name}" if name in taken or not name else name, _type_of(found))
        for name, found in sorted(values.items())
    }


def _type_of(values: list) -> str:
    if all(isinstance(value, bool) for value in values):
        return "BOOLEAN"
    if all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 for value in values):
        return "BIGINT"
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return "DOUBLE"
    return "VARCHAR"


def of_cases(rows: list[dict[str, Any]], more: dict[str, str], text: str, notes: Sequence[str] = ()) -> Table:
    """A table of rows that have CASE, a dictionary `axes`, and the columns `more`, in this order."""
    axes = axis_columns((row["axes"] for row in rows), [*CASE, *more])
    columns = {**CASE, **dict(axes.values()), **more}
    flat = []
    for row in rows:
        named = {
            axes[axis][0]: str(value) if axes[axis][1] == "VARCHAR" else value for axis, value in row["axes"].items()
        }
        flat.append({name: row[name] for name in (*CASE, *more) if row.get(name) is not None} | named)
    return Table(columns, flat, text, notes)


# --- options and writing ---


def add_arguments(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """--format and -o; `formats` names more than FORMATS where a command has more."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format", choices=formats, help="text, or for programs in s, B/s, bytes; without it as FILE ends"
    )
    group.add_argument(
        "-o", "--output", metavar="FILE", default="-", type=Destination, help="where to; - is stdout, as usual"
    )

    # What isthmus.cli asks before records are read, which takes a while.
    def check(asked: argparse.Namespace) -> None:
        chosen_format(asked, formats)
        check_destinations(asked)

    parser.set_defaults(check_output=check)


class Destination(str):
    """A file that a command is asked to write; `-` is stdout, as /dev/stdout is."""

    __slots__ = ()


def check_destinations(asked: argparse.Namespace) -> None:
    """Raises Error where a Destination of a command is a file to be read, or another's; before the work."""
    inputs.forget()
    destinations = []
    for value in vars(asked).values():
        if isinstance(value, Destination) and (number := streams.descriptor(value)) is not None:
            inputs.answer_on(number)
        elif isinstance(value, Destination):
            destinations.append(value)
    named = [path for value in vars(asked).values() for path in _named(value)]
    places: set[str] = set()
    for where in destinations:
        refuse_input(where)
        if any(_is_same(where, path) for path in named):
            raise Error(_IS_INPUT.format(where))
        if (place := os.path.realpath(where)) in places and not (os.path.exists(where) and not os.path.isfile(where)):
            raise Error(f"{where} is named for two outputs; name another file for one of them")
        places.add(place)


_IS_INPUT = "{} is one of the files to be read; name another"


def _named(value: Any) -> list[str]:
    """Paths that an argument may name: itself, or what follows NAME=."""
    if isinstance(value, (list, tuple)):
        return [path for each in value for path in _named(each)]
    if isinstance(value, Destination) or not isinstance(value, (str, os.PathLike)):
        return []
    text = os.fspath(value)
    return [text, text.partition("=")[2]] if "=" in text else [text]


def _is_same(one: str, other: str) -> bool:
    """Whether two names are one file, by links, too."""
    try:
        return os.path.isfile(one) and os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def refuse_input(path) -> None:
    """Raises Error where writing this file would lose what was measured, or what this command has read."""
    if not os.path.isfile(path):
        return
    if inputs.was_read(os.stat(path)):
        raise Error(_IS_INPUT.format(path))
    if what := inputs.holds(path):
        raise Error(f"{path} holds {what}, which no output replaces; name another file")
    above = pathlib.Path(os.path.realpath(path)).parents
    if any(map(load.is_table, above[:3])) or (above[0].name == load.MANIFESTS and load.is_table(above[1])):
        raise Error(f"{path} is a part of a compacted table, which no output replaces; name another file")


def chosen_format(asked: argparse.Namespace, formats: Sequence[str] = FORMATS) -> str:
    """What --format says, else the ending of -o FILE; without one text, or of a file html where there is that.

    Raises Error where none of them says it.
    """
    kind = asked.format or by_ending(asked.output, formats, ", or give --format")
    if not kind and "text" not in formats:
        raise Error(f"{asked.output} does not say which format; {_endings_wanted(formats)}, or give --format")
    return kind or ("html" if "html" in formats and streams.descriptor(asked.output) is None else "text")


def by_ending(where: str, formats: Sequence[str], or_else: str = "") -> str | None:
    """The format that a file name's ending says, None where it has no ending. Raises Error for another ending."""
    ending = pathlib.PurePath(where).suffix.lower()
    kinds = {_ending(kind): kind for kind in formats}
    if ending and ending not in kinds:
        raise Error(f"{where} ends in {ending}, which is no format here; {_endings_wanted(formats)}{or_else}")
    return kinds.get(ending)


def _ending(kind: str) -> str:
    return ".txt" if kind == "text" else f".{kind}"


def _endings_wanted(formats: Sequence[str]) -> str:
    *but_last, last = map(_ending, formats)
    return f"name a file that ends in {', '.join(but_last)}{' or ' if but_last else ''}{last}"


def write(asked: argparse.Namespace, table: Table) -> None:
    """Writes the table as the options of add_arguments() ask. Raises Error where that cannot be done."""
    kind = chosen_format(asked)
    for note in table.notes if kind != "text" else ():
        print(note, file=sys.stderr)
    if kind == "text":
        deliver(f"{table.text}\n" if table.text else "", asked.output)
    elif kind == "json":
        objects = ",\n".join(_objects(table, table.columns))
        deliver(f"[\n{objects}\n]\n" if table.rows else "[]\n", asked.output)
    elif kind == "csv":
        deliver(_csv(table), asked.output)
    else:
        deliver(_parquet(table), asked.output)


def deliver(content: str | bytes, where: str, *, updates: bool = False) -> None:
    """Writes to a file, whole or not at all, with `-` to stdout, or to the descriptor that /dev/fd/3 and such name.

    Raises Error for a file that was read, unless this `updates` it.
    """
    number = streams.descriptor(where)
    if number is None:
        if not updates:
            refuse_input(where)
        write_whole(pathlib.Path(where), content.encode() if isinstance(content, str) else content)
    elif number != 1:
        _write_to(number, where, content.encode() if isinstance(content, str) else content)
    elif isinstance(content, str):
        sys.stdout.write(content)
    elif sys.stdout.isatty():
        raise Error("parquet is no text for a terminal; name a file with -o, or pipe it on")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _write_to(number: int, where: str, content: bytes) -> None:
    """Writes to a descriptor of this process, behind what it has."""
    sys.stderr.flush()
    try:
        with io.BufferedWriter(streams.Patient(number, "wb", closefd=False)) as file:
            file.write(content)
    except OSError as error:
        raise Error(f"{where}: {error.strerror or error}") from None


def write_whole(path: pathlib.Path, content: bytes, *, once: bool = False) -> None:
    """Writes a file, whole or not at all; `once`: raises FileExistsError where there is one, and leaves it.

    A link stays: the file that it names is written. What is no file that could be replaced is opened and written
    behind what it has: a FIFO, a device, an open file of another process.
    """
    try:
        if not once and path.exists() and (not path.is_file() or streams.open_file_of(path)):
            with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as opened:
                opened.write(content)
            return
        path = pathlib.Path(os.path.realpath(path))
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        start.unfinished.add(str(beside))
        try:
            beside.write_bytes(content)
            if once:
                os.link(beside, path)
            else:
                beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
            start.unfinished.discard(str(beside))
    except FileNotFoundError as error:
        raise Error(f"{path}: {error.strerror}; name a file in a folder that is there") from None
    except FileExistsError:
        raise
    except OSError as error:
        raise Error(f"{path}: {error.strerror or error}") from None


@contextlib.contextmanager
def whole_folder(folder: pathlib.Path):
    """A folder to write in, which is called `folder` once all is written; where that fails there is none.

    Raises FileExistsError where `folder` is there.
    """
    if os.path.lexists(folder):
        raise FileExistsError(folder)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}")
    beside.mkdir()
    try:
        yield beside
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def plain(value: Any) -> Any:
    """A value as JSON has it, and all that it holds: what is no finite number is null, times are ISO 8601."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "item"):  # NumPy's numbers
        return plain(value.item())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _objects(table: Table, names: Iterable[str]) -> list[str]:
    """A JSON object for each row, with every column by the name that is given to it."""
    named = dict(zip(table.columns, names))
    return [
        json.dumps({name: plain(row.get(column)) for column, name in named.items()}, allow_nan=False)
        for row in table.rows
    ]


def _csv(table: Table) -> str:
    """RFC 4180 with a head; null is empty, a list is JSON. Control characters are spelt out, as for a terminal."""

    def cell(value: Any) -> Any:
        value = plain(value)
        if isinstance(value, bool):
            return str(value).lower()
        return spelling.printable(json.dumps(value) if isinstance(value, list) else value) if value is not None else ""

    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow([spelling.printable(name) for name in table.columns])
    lines.writerows([cell(row.get(name)) for name in table.columns] for row in table.rows)
    return file.getvalue()


def identifier(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _parquet(table: Table) -> bytes:
    from isthmus.records import store  # here: nothing else that is written needs DuckDB

    connection, folder = store.connect()
    try:
        lines, path = pathlib.Path(folder.name, "rows.jsonl"), pathlib.Path(folder.name, "table.parquet")
        plain = {f"c{i}": kind for i, kind in enumerate(table.columns.values())}  # an axis may have any name
        lines.write_text("".join(f"{each}\n" for each in _objects(table, plain)), encoding="utf-8")
        kinds = ", ".join(f"{name}: {literal(kind)}" for name, kind in plain.items())
        names = ", ".join(f"{name} AS {identifier(column)}" for name, column in zip(plain, table.columns))
        source = (
            f"read_json({literal(str(lines))}, format = 'newline_delimited', columns = {{{kinds}}}, "
            "maximum_object_size = 268435456)"
        )
        connection.execute(f"COPY (SELECT {names} FROM {source}) TO {literal(str(path))} (FORMAT parquet)")
        return path.read_bytes()
    finally:
        connection.close()
        folder.cleanup()


def frame(columns: dict[str, str], rows: list[dict[str, Any]], library: str | None):
    """The rows as a data frame of pandas or polars; without `library`, whichever is installed, pandas first.

    Raises Error where it is not installed.
    """
    for name in [library] if library else ["pandas", "polars"]:
        if name not in ("pandas", "polars"):
            raise Error(f"{name!r} is no library of data frames; choose pandas or polars")
        try:
            module = __import__(name)
        except ModuleNotFoundError:
            continue
        found = {column: [row.get(column) for row in rows] for column in columns}
        return _pandas(module, found, columns) if name == "pandas" else _polars(module, found, columns)
    wanted = library or "neither pandas nor polars"
    raise Error(f"{wanted} is {'not ' if library else ''}installed; `pip install {library or 'pandas'}` brings it")


def _pandas(pandas, found: dict[str, list], columns: dict[str, str]):
    """Whole numbers and truth values stay what they are where some are missing."""
    kinds = {"BIGINT": "Int64", "BOOLEAN": "boolean", "DOUBLE": "float64", "TIMESTAMP": "datetime64[us]"}
    return pandas.DataFrame(
        {name: pandas.Series(values, dtype=kinds.get(columns[name], "object")) for name, values in found.items()}
    )


def _polars(polars, found: dict[str, list], columns: dict[str, str]):
    kinds = {
        "VARCHAR": polars.String, "BIGINT": polars.Int64, "DOUBLE": polars.Float64, "BOOLEAN": polars.Boolean,
        "TIMESTAMP": polars.Datetime, "DOUBLE[]": polars.List(polars.Float64),
        "VARCHAR[]": polars.List(polars.String),
    }  # fmt: skip
    return polars.DataFrame(found, schema={name: kinds[kind] for name, kind in columns.items()})


# --- text ---


@dataclasses.dataclass(frozen=True)
class Column:
    """Of a text table: its head, its side, and when it goes for want of room (0: never; the largest goes first)."""

    head: str
    right: bool = True
    drop: int = 0


def _kept(columns: list[Column], widths: list[int], width: int) -> list[int]:
    """Places of the columns that there is room for; the first stays, and may be folded to _NARROWEST."""
    kept = list(range(len(columns)))

    def needed(first: int) -> int:
        return first + sum(widths[i] + 1 for i in kept[1:])

    while len(kept) > 1 and needed(widths[0]) > width:
        droppable = [i for i in kept[1:] if columns[i].drop]
        if needed(min(widths[0], _NARROWEST)) > width and not droppable:
            droppable = kept[1:]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda i: (columns[i].drop, i)))
    return kept


class Note(str):
    """A row of a text table that says something of the row above it."""

    __slots__ = ()


def notes_of(doubts: dict[str, str]) -> list[Note]:
    """What casts doubt on the figures of a row, by figure; figures of one doubt are named together."""
    by_text = grouped((text, name) for name, text in doubts.items() if text)
    return [Note(f"{', '.join(names)}: {text}") for text, names in by_text.items()]


def lay_out(columns: list[Column], rows: Sequence[list[str] | str], width: int = WIDTH) -> list[str]:
    """Lines of at most `width` characters; what went for want of room is named in the last.

    A row that is one text is a heading of those below it, which are indented, or a Note. The first column, headings and
    notes are folded where they are too long; nothing is cut.
    """
    heads = [column.head for column in columns]
    texts = [heads, *(row if isinstance(row, str) else [spelling.printable(cell) for cell in row] for row in rows)]
    cells = [row for row in texts if not isinstance(row, str)]
    indent = "  " if any(isinstance(row, str) and not isinstance(row, Note) for row in texts) else ""
    room = width - len(indent)
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    kept = _kept(columns, widths, room)
    first = min(widths[0], max(_NARROWEST, room - sum(widths[i] + 1 for i in kept[1:])), room)
    lines = []
    for row in texts:
        if isinstance(row, Note):
            lines += fold(f"{indent}    {row}", width)
            continue
        if isinstance(row, str):
            lines += fold(row, width)
            continue
        folded = textwrap.wrap(row[0], first, subsequent_indent="  ", break_on_hyphens=False) or [""]
        rest = "".join(f" {row[i]:>{widths[i]}}" if columns[i].right else f" {row[i]:<{widths[i]}}" for i in kept[1:])
        lines += [f"{indent}{line}".rstrip() for line in (*folded[:-1], f"{folded[-1]:<{first}}{rest}")]
    gone = [head for i, head in enumerate(heads) if i not in kept]
    if gone:
        lines += fold(f"Left out for want of room: {', '.join(gone)}; --format csv has them.", width)
    return lines


def grid(corner: str, rows: list[str], columns: list[str], cells: list[list[str]]) -> list[str]:
    """Rows and columns with their names; as many columns side by side as the width holds."""
    label = max(map(len, [corner, *rows]))
    widths = [
        max(len(text) for text in [name, *column]) + 2
        for name, column in zip(columns, zip(*cells, strict=True), strict=True)
    ]
    lines, first = [], 0
    while first < len(columns):
        last = first + 1
        while last < len(columns) and label + sum(widths[first : last + 1]) <= WIDTH:
            last += 1
        lines += [""] if first else []
        for name, row in [(corner, columns), *zip(rows, cells, strict=True)]:
            texts = zip(row[first:last], widths[first:last], strict=True)
            lines.append(f"{name:<{label}}" + "".join(f"{text:>{width}}" for text, width in texts))
        first = last
    return lines


def fold_each(lines: Iterable[str], indent: str = "") -> list[str]:
    return [part for line in lines for part in fold(line, indent=indent)]
