"""Records: JSON Lines written by isthmus-bench, one measured case a line; files that end in .gz are unpacked.

A file is read whole or refused with a sentence that names the line. Nothing is dropped: a reader that leaves out
what it cannot read turns a crashed run into a shorter, better-looking one. Records of earlier versions are read as
records of this one. What is too long for a line lies in tables beside the file: see read_table().
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import json
import math
import os
import pathlib
import re
import sys
import zlib

from isthmus import Error

SCHEMA = "isthmus.record/2"
VERSIONS = ("isthmus.record/1", SCHEMA)  # that are read

NO_RECORD = "no record in any .jsonl or .jsonl.gz file; run isthmus-bench with --record, or name another folder"
MANIFESTS = "manifests"  # the folder that marks a compacted table, and says what its parts are made of

# Warnings that spoil a whole record where they name no samples: its figures are invalid, not slow.
FOREIGN = "foreign_processes"
SPOILING = ("throttled", "pcie_downtrained", "ecc_errors", "xid_errors", "shared_node", FOREIGN)


class RecordError(Error):
    """A record file, or a line of it, that cannot be taken; says which line and why."""


def schema_path() -> pathlib.Path:
    """The one definition of a record: $ISTHMUS_SCHEMA, else schema/ of the source tree, else beside this package."""
    given = os.environ.get("ISTHMUS_SCHEMA")
    here = pathlib.Path(__file__).resolve()
    places = [pathlib.Path(given)] if given else [here.parents[2] / "schema", here.parent]
    for place in places:
        path = place if place.suffix == ".json" else place / "record.schema.json"
        if path.is_file():
            return path
    raise RecordError(f"record.schema.json is not in {' nor '.join(map(str, places))}; set ISTHMUS_SCHEMA to its path")


@functools.lru_cache(maxsize=1)
def _validator():
    import jsonschema  # here, so that reading names needs no third-party package

    with schema_path().open(encoding="utf-8") as file:
        return jsonschema.Draft202012Validator(json.load(file))


@functools.lru_cache(maxsize=1)
def _compiled():
    """The same schema compiled, 80 times faster, where jsonschema-rs is installed; it tells good from bad, not why."""
    try:
        import jsonschema_rs
    except ModuleNotFoundError:
        return None
    with schema_path().open(encoding="utf-8") as file:
        return jsonschema_rs.validator_for(json.load(file))


def _refuse_constant(name: str):
    raise ValueError(f"{name} is not JSON")


def _no_duplicates(pairs):
    result = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} stands twice")
        result[key] = value
    return result


def shorten(text: str, length: int = 160) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def printable(text: str) -> str:
    """Text of a record or a file name for a terminal: control characters, which could steer it, are spelt out."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text))


def is_node_name(text: str) -> bool:
    """Whether a scheduler's command takes this for one node: it is no option, list or pattern."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text) is not None


def upgrade(record: dict) -> dict:
    """A record of an earlier version as one of this version; others are given back as they are."""
    if record.get("schema") != "isthmus.record/1":
        return record
    return {"tables": [], "submission": None, "host_turns": None, **record, "schema": SCHEMA}


def problem(record) -> str | None:
    """Why `record` (parsed JSON) is no valid record, in one sentence, or None."""
    if not isinstance(record, dict):
        return f"a JSON {type(record).__name__}, not a record"
    if record.get("schema") not in VERSIONS:
        given = shorten(repr(record.get("schema")), 40)
        return f"another schema ({given}), not {SCHEMA} or an earlier one"
    record = upgrade(record)
    if _compiled() and _compiled().is_valid(record):
        return None
    errors = sorted(_validator().iter_errors(record), key=lambda e: list(map(str, e.absolute_path)))
    if not errors:
        return None
    first = errors[0]
    where = "/".join(map(str, first.absolute_path)) or "the record"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{shorten(where, 80)}: {shorten(first.message)}{more}"


def parse(line: str, *, where: str, last: bool = False) -> dict:
    """One line as a record; `where` names it in the error, `last` says that it may have been cut."""
    try:
        record = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        what = "cut short" if last and line.lstrip().startswith("{") else "no JSON"
        raise RecordError(f"{where}: {what} ({shorten(str(error))})") from None
    why = problem(record)
    if why:
        raise RecordError(f"{where}: {why}")
    return upgrade(record)


def iterate(path):
    """Records of a file, one by one in its order. Raises RecordError for a file, or a line, that cannot be taken."""
    path = pathlib.Path(path)
    number, line = 0, b""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                # Only \n ends a line: a record's strings may hold U+2028.
                text = line.removesuffix(b"\n").decode("utf-8")
                yield parse(text, where=f"{path}:{number}", last=not line.endswith(b"\n"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{path}: not what gzip wrote, or cut short ({error})") from None
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}:{number}: not UTF-8 ({error.reason})") from None
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None


def find_files(path) -> list[str]:
    """Record files of a folder and its folders, in order; a file given by name is taken whatever it is called."""
    path = pathlib.Path(path)
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        raise Error(f"{path}: no such file or folder")
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not (pathlib.Path(folder) / name / MANIFESTS).is_dir())
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith((".jsonl", ".jsonl.gz"))]
    return found


def read(path) -> list[dict]:
    """All records of a file, in its order. Raises RecordError for a file, or the first line, that cannot be taken."""
    return list(iterate(path))


def read_files(paths) -> tuple[list[dict], int]:
    """Records of files and folders for a command, and its exit code: what cannot be taken is named on stderr.

    Raises Error where that leaves no record.
    """
    cases, errors = [], []
    for path in paths:
        for file in find_files(path):
            try:
                cases += read(file)
            except RecordError as error:
                errors.append(error)
    if not cases and len(errors) == 1:
        raise errors[0]
    if not cases:
        what = f"none of {len(errors)} files can be taken (the first, {errors[0]})" if errors else NO_RECORD
        raise Error(f"{', '.join(map(str, paths))}: {what}")
    for error in errors:
        print(printable(error), file=sys.stderr)
    return cases, 1 if errors else 0


# --- tables beside a record file ---


def table_path(record_path, table: dict) -> pathlib.Path:
    """Where the side file lies that an entry of a record's `tables` names, if it is there and as it was written."""
    path = pathlib.Path(record_path).parent / table["file"]
    named = f"{path}: the table {table['name']!r} of {pathlib.Path(record_path).name}"
    if pathlib.PurePosixPath(table["file"]).is_absolute() or ".." in pathlib.PurePosixPath(table["file"]).parts:
        raise RecordError(f"{named} would lie outside of the record's folder; do not trust this record")
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        raise RecordError(f"{named} is not there; keep a record file and its folder of tables together") from None
    except OSError as error:
        raise RecordError(f"{named} cannot be read ({error.strerror or error})") from None
    if digest.hexdigest() != table["sha256"]:
        raise RecordError(f"{named} was altered since it was written (its SHA-256 is another); measure again")
    return path


def read_table(record_path, record: dict, name: str) -> list[dict[str, float | None]]:
    """The rows of a record's table; `record_path` is the file that the record was read from.

    Raises RecordError, one sentence, for a table that is missing, altered, or not what the record says.
    """
    found = [table for table in record["tables"] if table["name"] == name]
    if len(found) != 1:
        there = ", ".join(table["name"] for table in record["tables"]) or "none"
        raise RecordError(f"{record_path}: the record has {len(found) or 'no'} tables {name!r}; its tables: {there}")
    path = table_path(record_path, found[0])
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            lines = csv.reader(file, strict=True)
            columns = next(lines, [])
            if columns != found[0]["columns"]:
                raise ValueError(f"its columns are {shorten(', '.join(columns))}")
            rows = [dict(zip(columns, map(_number, line), strict=True)) for line in lines]
        if len(rows) != found[0]["rows"]:
            raise ValueError(f"it has {len(rows)} rows instead of {found[0]['rows']}")
    except (ValueError, csv.Error, EOFError, zlib.error, OSError) as error:
        what = printable(shorten(str(error)))
        raise RecordError(f"{path}: not the table that {pathlib.Path(record_path).name} describes ({what})") from None
    return rows


def _number(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shorten(text, 40)} is no finite number")
    return value


# --- what counts ---


def spoiling(record: dict) -> list[dict]:
    """The record's warnings that make all of its figures invalid; analysis/isthmus/store.py has the same as SQL.

    Ranks see each other's processes on the device, so there a foreign process says nothing.
    """
    return [
        warning
        for warning in record["warnings"]
        if warning["samples"] is None
        and warning["code"] in SPOILING
        and (warning["code"] != FOREIGN or "ranks" not in record)
    ]


def say_spoilt(number: int) -> None:
    if number:
        what = "1 record is" if number == 1 else f"{number} records are"
        print(f"{what} spoilt and left out: see the warnings", file=sys.stderr)


def that_count(cases: list[dict], *, emulated: bool) -> list[dict]:
    """Without the emulated, unless they are asked for, and without those that are spoilt, whose number is told."""
    cases = [case for case in cases if emulated or not case["emulated"]]
    good = [case for case in cases if not spoiling(case)]
    say_spoilt(len(cases) - len(good))
    return good


def metrics(record: dict) -> dict[str, dict]:
    """The record's metrics by name; two of one name are refused."""
    result = {}
    for metric in record["metrics"]:
        if metric["name"] in result:
            raise RecordError(f"{record['workload']}: two metrics are called {metric['name']!r}")
        result[metric["name"]] = metric
    return result
