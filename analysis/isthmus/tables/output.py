"""Output of commands: a table, as text for people or as json, csv or parquet for programs.

A command adds the options with add_arguments(), makes a Table and ends with `write(asked, table)`. Any other option
that names a file to write has `type=output.Destination`. Output never replaces measured data or a file that was read:
see refuse_input().

The rows of a Table are for programs: plain values in base units (s, B/s, bytes), in one column each. Its text is for
people. Rows of measured cases begin with the columns CASE, followed by a column for each axis; of_cases() makes such a
table.
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
from isthmus.grouping import grouped
from isthmus.records import load
from isthmus.records.measurements import literal
from isthmus.spelling import WIDTH, fold

FORMATS = ("text", "json", "csv", "parquet")
PAGE_FORMATS = (*FORMATS, "html")  # formats of commands that can also write a page
#: First columns of all rows of measured cases, with their DuckDB types; columns for the axes follow.
CASE = {
    "workload": "VARCHAR", "metric": "VARCHAR", "placement": "VARCHAR", "staging": "VARCHAR", "mode": "VARCHAR",
    "size": "VARCHAR", "preset": "VARCHAR", "version": "BIGINT", "ranks": "BIGINT",
}  # fmt: skip
_NARROWEST = 16  # minimum width, in characters, to which the first column is folded to make room


@dataclasses.dataclass(frozen=True)
class Table:
    """Table for programs (columns with DuckDB types, rows keyed by column, missing values null) and its text."""

    columns: dict[str, str]
    rows: list[dict[str, Any]]
    text: str
    notes: Sequence[str] = ()  # lines of the text that are not in any row; other formats print them on stderr


def axis_columns(axes: Iterable[dict[str, Any]], taken: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns the column name and type of each axis.

    The column of an axis without a name, or with a name that is in `taken`, is called `axis_NAME`.
    """
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
    """Returns a Table of rows with the columns CASE, a column for each entry of `axes`, and the columns `more`."""
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
    """Adds --format and -o; `formats` replaces FORMATS for commands with other formats."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format", choices=formats, help="text, or a format for programs (s, B/s, bytes); default: by FILE's ending"
    )
    group.add_argument(
        "-o", "--output", metavar="FILE", default="-", type=Destination, help="file to write; - is stdout, the default"
    )

    # isthmus.cli calls check() before records are read, since reading takes a while.
    def check(asked: argparse.Namespace) -> None:
        chosen_format(asked, formats)
        check_destinations(asked)

    parser.set_defaults(check_output=check)


class Destination(str):
    """Name of a file that a command writes; `-` and /dev/stdout are standard output."""

    __slots__ = ()


def check_destinations(asked: argparse.Namespace) -> None:
    """Raises Error if a Destination of a command is also an input or another Destination; called before the work."""
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
    """Returns the paths that an argument may name: the whole argument, and PATH of NAME=PATH."""
    if isinstance(value, (list, tuple)):
        return [path for each in value for path in _named(each)]
    if isinstance(value, Destination) or not isinstance(value, (str, os.PathLike)):
        return []
    text = os.fspath(value)
    return [text, text.partition("=")[2]] if "=" in text else [text]


def _is_same(one: str, other: str) -> bool:
    """Returns whether two names lead to the same file, directly or by links."""
    try:
        return os.path.isfile(one) and os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def refuse_input(path) -> None:
    """Raises Error if writing this file would destroy measured data, or a file that this command has read."""
    if not os.path.isfile(path):
        return
    if inputs.was_read(os.stat(path)):
        raise Error(_IS_INPUT.format(path))
    if what := inputs.holds(path):
        raise Error(f"{path} contains {what}, which is never overwritten; name another file")
    above = pathlib.Path(os.path.realpath(path)).parents
    if any(map(load.is_table, above[:3])) or (above[0].name == load.MANIFESTS and load.is_table(above[1])):
        raise Error(f"{path} is a part of a compacted table, which is never overwritten; name another file")


def chosen_format(asked: argparse.Namespace, formats: Sequence[str] = FORMATS) -> str:
    """Returns the format that --format names or, without it, the format of the ending of -o FILE.

    Without both it is text, or html for a file if the command supports that. Raises Error for other endings, and if
    text is not among `formats` and neither option names a format.
    """
    kind = asked.format or by_ending(asked.output, formats, ", or give --format")
    if not kind and "text" not in formats:
        raise Error(f"{asked.output} does not name a format; {_endings_wanted(formats)}, or give --format")
    return kind or ("html" if "html" in formats and streams.descriptor(asked.output) is None else "text")


def by_ending(where: str, formats: Sequence[str], or_else: str = "") -> str | None:
    """Returns the format that belongs to a file name's ending, or None without an ending.

    Raises Error for unknown endings.
    """
    ending = pathlib.PurePath(where).suffix.lower()
    kinds = {_ending(kind): kind for kind in formats}
    if ending and ending not in kinds:
        raise Error(f"{where} ends in {ending}, which is not a known format; {_endings_wanted(formats)}{or_else}")
    return kinds.get(ending)


def _ending(kind: str) -> str:
    return ".txt" if kind == "text" else f".{kind}"


def _endings_wanted(formats: Sequence[str]) -> str:
    *but_last, last = map(_ending, formats)
    return f"name a file that ends in {', '.join(but_last)}{' or ' if but_last else ''}{last}"


def write(asked: argparse.Namespace, table: Table) -> None:
    """Writes the table as the options of add_arguments() request. Raises Error if that is impossible."""
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
    """Writes to a file (completely or not at all), to standard output for `-`, or to a descriptor such as /dev/fd/3.

    Raises Error for a file that was read or has measured data, unless `updates`, and for bytes to a terminal.
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
        raise Error("parquet cannot be shown in a terminal; name a file with -o, or pipe it")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _write_to(number: int, where: str, content: bytes) -> None:
    """Appends to an open descriptor of this process."""
    sys.stderr.flush()
    try:
        with io.BufferedWriter(streams.Patient(number, "wb", closefd=False)) as file:
            file.write(content)
    except OSError as error:
        raise Error(f"{where}: {error.strerror or error}") from None


def write_whole(path: pathlib.Path, content: bytes, *, once: bool = False) -> None:
    """Writes a file, completely or not at all; with `once`, raises FileExistsError instead of replacing a file.

    Links are kept; the file to which they lead is written. Things that cannot be replaced (a FIFO, a device, an open
    file of another process) are opened and appended to. Raises Error if the file cannot be written.
    """
    try:
        if not once and path.exists() and (not path.is_file() or streams.open_file_of(path)):
            with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as opened:
                opened.write(content)
            return
        path = pathlib.Path(os.path.realpath(path))
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        start.unfinished.add(str(temporary))
        try:
            temporary.write_bytes(content)
            if once:
                os.link(temporary, path)
            else:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
            start.unfinished.discard(str(temporary))
    except FileNotFoundError as error:
        raise Error(f"{path}: {error.strerror}; name a file in an existing folder") from None
    except FileExistsError:
        raise
    except OSError as error:
        raise Error(f"{path}: {error.strerror or error}") from None


@contextlib.contextmanager
def whole_folder(folder: pathlib.Path):
    """Provides a temporary folder that is renamed to `folder` at the end, or removed if an exception is raised.

    Raises FileExistsError if `folder` exists.
    """
    if os.path.lexists(folder):
        raise FileExistsError(folder)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def plain(value: Any) -> Any:
    """Returns a value, and everything in it, as JSON supports it: non-finite numbers are null, times ISO 8601."""
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
    """Returns a JSON object for each row, with its columns renamed to `names`."""
    named = dict(zip(table.columns, names))
    return [
        json.dumps({name: plain(row.get(column)) for column, name in named.items()}, allow_nan=False)
        for row in table.rows
    ]


def _csv(table: Table) -> str:
    """Returns the table as CSV (RFC 4180) with a header.

    Null is an empty cell, and a list is JSON. Control characters are escaped as for a terminal.
    """

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
    """Returns a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _parquet(table: Table) -> bytes:
    from isthmus.records import store  # imported here because only this format needs DuckDB

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
    """Returns the rows as a data frame of `library`, "pandas" or "polars".

    The default is pandas if it is installed, else polars. Raises Error for another library, or if the library is not
    installed.
    """
    for name in [library] if library else ["pandas", "polars"]:
        if name not in ("pandas", "polars"):
            raise Error(f"{name!r} is not a library of data frames; choose pandas or polars")
        try:
            module = __import__(name)
        except ModuleNotFoundError:
            continue
        found = {column: [row.get(column) for row in rows] for column in columns}
        return _pandas(module, found, columns) if name == "pandas" else _polars(module, found, columns)
    wanted = library or "neither pandas nor polars"
    raise Error(f"{wanted} is {'not ' if library else ''}installed; run `pip install {library or 'pandas'}`")


def _pandas(pandas, found: dict[str, list], columns: dict[str, str]):
    """Returns a data frame with nullable types, so that integers and booleans keep their types if some are missing."""
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
    """Column of a text table: heading, alignment, and rank for dropping it for lack of room.

    The column with the largest `drop` is dropped first; columns with 0 are never dropped.
    """

    head: str
    right: bool = True
    drop: int = 0


def _kept(columns: list[Column], widths: list[int], width: int) -> list[int]:
    """Returns the indices of the columns that fit; the first always fits, since it can be folded to _NARROWEST."""
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
    """Row of a text table that is a note on the row above it."""

    __slots__ = ()


def notes_of(doubts: dict[str, str]) -> list[Note]:
    """Returns the doubts about the figures of a row; figures with the same doubt share a note."""
    by_text = grouped((text, name) for name, text in doubts.items() if text)
    return [Note(f"{', '.join(names)}: {text}") for text, names in by_text.items()]


def lay_out(columns: list[Column], rows: Sequence[list[str] | str], width: int = WIDTH) -> list[str]:
    """Returns lines of at most `width` characters; the last line names columns that did not fit.

    A row that is a string is a Note, or a heading for the rows below it, which are indented. The first column, headings
    and notes are folded if they are too long; nothing is truncated.
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
        lines += fold(f"Left out for lack of space: {', '.join(gone)}; --format csv has them.", width)
    return lines


def grid(corner: str, rows: list[str], columns: list[str], cells: list[list[str]]) -> list[str]:
    """Returns a table of cells with names of rows and columns, in blocks that have as many columns as fit."""
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
