"""Records: JSON Lines written by isthmus-bench, one measured case a line; files that end in .gz are unpacked.

A line that is no record costs that line alone. The others are used, and the file is named as used in part, with
the line and what is wrong with it. So nothing is dropped without a word, and no command passes: a crashed run is no
shorter, better-looking one. A file of another version of the record is refused whole. Records of earlier versions are
read as records of this one. What is too long for a line lies in tables beside the file: see read_table().
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import csv
import dataclasses
import functools
import gc
import gzip
import io
import math
import multiprocessing
import os
import pathlib
import re
import stat
import sys
import zlib

from isthmus import Error, inputs
from isthmus.exits import PASSED, with_absence
from isthmus.inputs import no_file, open_file
from isthmus.records import copies, places, validate
from isthmus.records.validate import RecordError
from isthmus.spelling import counted, fold, printable, shorten, spelt

_LONGEST = 1 << 23  # bytes of a line; DuckDB takes twice as many
MANIFESTS = "manifests"  # the folder that marks a compacted table, and says what its parts are made of

# --- files ---


@dataclasses.dataclass
class Skipped:
    """A file, or a folder, of which nothing or only a part was taken, and why."""

    path: str
    why: str
    newer: str = ""  # the schema that it has, where that is another version of the record
    has_part: bool = False  # what is whole of it was taken


def _no_name(path: str) -> str | None:
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return "its name is not UTF-8; rename it"
    return None


def signature(path) -> list[int]:
    """Bytes, time of the last change in ns, inode: another one after an edit, unless that came at once."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def parse(line: str, *, where: str, last: bool = False) -> dict:
    """One line as a record; `where` names it in the error, `last` says that it may have been cut."""
    return validate.line(line.encode("utf-8", "surrogatepass"), where=where, last=last)


def _lines(path: pathlib.Path, bad: list[RecordError] | None = None):
    """Lines of a file, without their ends: number, bytes, whether it had an end.

    Raises RecordError; with `bad`, a line that is too long is added there instead, and the next one is read.
    """
    try:
        with open_file(path) as raw, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw as file:
            number = 0
            while line := file.readline(_LONGEST + 1):
                number += 1
                if len(line) > _LONGEST:
                    error = RecordError(f"{path}:{number}: longer than {_LONGEST >> 20} MiB, so no record")
                    if bad is None:
                        raise error
                    bad.append(error)
                    while line and not line.endswith(b"\n"):
                        line = file.readline(_LONGEST)
                    continue
                # Only \n ends a line: a record's strings may hold U+2028.
                whole = line.endswith(b"\n")
                yield number, line[:-1] if whole else line, whole
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{path}: not what gzip wrote, or cut short ({error})") from None
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None


def iterate(path):
    """Records of a file, one by one in its order. Raises RecordError for a file, or a line, that cannot be taken."""
    path = pathlib.Path(path)
    for number, line, whole in _lines(path):
        yield validate.line(line, where=f"{path}:{number}", last=not whole)


def sound_lines(path, bad: list[RecordError]):
    """Lines of a file that are records, without their ends, and these records; adds to `bad` why others are none."""
    path = pathlib.Path(path)
    try:
        for number, line, whole in _lines(path, bad):
            try:
                record = validate.line(line, where=f"{path}:{number}", last=not whole)
            except RecordError as error:
                bad.append(error)
                continue
            yield line, record
    except RecordError as error:
        bad.append(error)


def in_part(path, bad: list[RecordError], records: int) -> Skipped:
    """What to say of a file of which these lines are no records, and so many are.

    A file of another version of the record is not used in part: `Skipped.newer` says which it is.
    """
    reasons = [skipped_for(path, error) for error in bad]
    said = next((reason for reason in reasons if reason.newer), reasons[0])
    more = f" (and {counted(len(bad) - 1, 'more line')})" if len(bad) > 1 else ""
    return dataclasses.replace(said, why=said.why + more, has_part=bool(records) and not said.newer)


def find(path) -> tuple[list[str], list[Skipped]]:
    """Record files of a folder and its folders, in order, and what in it cannot be looked at.

    A file given by name is taken whatever it is called. Raises Error where there is none of that name.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            if why := no_file(status):
                raise Error(f"{path}: {why}; records are read from files and folders, so write them to a file first")
            if why := _no_name(path):
                raise Error(f"{path}: {why}")
            return [str(path)], []
        os.scandir(path).close()
    except FileNotFoundError:
        raise Error(f"{path}: no such file or folder") from None
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    found: list[str] = []
    skipped: list[Skipped] = []
    others = 0
    for folder, names in walk(path, skipped):
        for file in (os.path.join(folder, name) for name in names):
            if not file.endswith(_ENDINGS):
                others += 1
                why = _passed_over(file, any_name=others <= _LOOKED_AT)
            else:
                try:
                    why = no_file(os.stat(file)) or _no_name(file)
                except OSError as error:
                    why = error.strerror
                found += [] if why else [file]
            if why:
                skipped.append(Skipped(file, why))
    return found, skipped


_ENDINGS = (".jsonl", ".jsonl.gz")
_LOOKED_AT = 2000  # files of other names in a folder whose first line is read; of more, only those called like JSON


def _passed_over(file: str, *, any_name: bool) -> str | None:
    """Why a file that is not read under its name may hold records, or lead to some; None where it does not."""
    name = os.path.basename(file).lower()
    if os.path.islink(file) and not os.path.exists(file):
        return "a link whose target is missing"
    looked_at = any_name or name.endswith((".json", ".ndjson", ".json.gz"))
    if ".jsonl" in name or (looked_at and inputs.is_record(inputs.first_line(file))):
        return "not read under this name; rename it to end in .jsonl, or in .jsonl.gz where it is packed"
    return None


def walk(top, skipped: list[Skipped]):
    """Each folder below one, itself first, and the names of its files, sorted; compacted tables are left out.

    Links to folders are followed, after all that is there without them, and no folder is entered twice. Folders that
    cannot be read are added to `skipped`.
    """

    def unreadable(error):
        skipped.append(Skipped(error.filename, f"a folder that cannot be read ({error.strerror})"))

    seen: set[tuple[int, int]] = set()
    pending = [os.fspath(top)]
    for start in pending:
        for folder, folders, names in os.walk(start, onerror=unreadable):
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                folders.clear()
                continue
            seen.add((status.st_dev, status.st_ino))
            folders[:] = sorted(name for name in folders if not os.path.isdir(os.path.join(folder, name, MANIFESTS)))
            pending += [path for name in folders if os.path.islink(path := os.path.join(folder, name))]
            yield folder, sorted(names)


def read(path) -> list[dict]:
    """All records of a file, in its order. Raises RecordError for a file, or the first line, that cannot be taken."""
    return list(iterate(path))


def skipped_for(path, error: RecordError) -> Skipped:
    """A file that was refused; its reason names the line."""
    why = str(error).removeprefix(f"{path}:").lstrip()
    why = re.sub(r"\A(\d+): ", r"line \1: ", why)
    newer = re.search(r"another schema \('(isthmus[.]record/[0-9]+)'\)", why)
    return Skipped(str(path), why, newer[1] if newer else "")


def check(path, *, tables: bool = False) -> tuple[list[int] | None, Skipped | None]:
    """The signature of a file of which every line is a record, or why not; with `tables`, those beside it, too."""
    collecting = gc.isenabled()
    gc.disable()  # records have no cycles, and it would look at each of them
    try:
        before = signature(path)
        for number, line, whole in _lines(pathlib.Path(path)):
            if validate.good(line, tables=not tables):
                continue
            record = validate.line(line, where=f"{path}:{number}", last=not whole)
            for table in record["tables"] if tables else ():
                table_path(path, table)
    except OSError as error:
        return None, Skipped(str(path), error.strerror or str(error))
    except RecordError as error:
        return None, skipped_for(path, error)
    finally:
        if collecting:
            gc.enable()
    return before, None


_ALONE = 1 << 25  # bytes that are checked faster than other processes start


@contextlib.contextmanager
def checker(paths, processes: int | None = None):
    """A function that applies another to paths, in several processes where that pays; use it before threads start."""
    size = sum(os.path.getsize(path) * (10 if path.endswith(".gz") else 1) for path in paths if os.path.exists(path))
    processes = processes or min(len(os.sched_getaffinity(0)), 8)
    if size < _ALONE or processes < 2 or len(paths) < 2:
        yield map
        return
    # Forked: another way of starting would run a script that has no `if __name__ == "__main__"` once more.
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        pool.submit(int).result()  # they start now
        yield functools.partial(pool.map, chunksize=max(1, min(8, len(paths) // (4 * processes))))


def read_files(paths, asked=None) -> tuple[list[dict], int]:
    """Records of files and folders for a command, their texts printable, and its exit code.

    What cannot be taken is named before anything else; `asked` are the command's arguments. Raises Error where that
    leaves no record.
    """
    cases, absent, total = [], [], 0
    seen = copies.Seen()
    for path in paths:
        files, skipped = find(path)
        total += len(files) + len(skipped)
        absent += skipped
        for file in files:
            bad: list[RecordError] = []
            records = [spelt(record) for _, record in sound_lines(file, bad)]
            skipped_here = [in_part(file, bad, len(records))] if bad else []
            absent += skipped_here
            if not any(each.newer for each in skipped_here):
                cases += [record for record in records if not seen.is_copy(record, file)]
    if not cases:
        if absent:
            raise Error(nothing_taken(paths, absent))
        raise Error(no_record(paths))
    say_absent(absent, total, asked)
    copies.say(seen.pairs)
    places.name_hosts_of(cases)
    return cases, with_absence(PASSED, absent)


def no_record(paths) -> str:
    """Why there is none where every file was read: a sentence that says what to do."""
    where = ", ".join(map(str, paths))
    if all(map(os.path.isfile, paths)):
        return f"{where}: no record in {'it' if len(paths) == 1 else 'them'}; name files that isthmus-bench wrote"
    return (
        f"{where}: no record in any .jsonl or .jsonl.gz file; run isthmus-bench with --record, or name another folder"
    )


def nothing_taken(paths, absent: list[Skipped]) -> str:
    """Why there is no record at all, where files were found: a sentence that names the first, and what to do."""
    first = f"{absent[0].path}: {absent[0].why}"
    advice = "" if "--resume" in absent[0].why else "; name files that isthmus-bench wrote"
    if len(absent) == 1:
        return first + advice
    where = ", ".join(map(str, paths))
    return f"{where}: none of {len(absent)} files holds records that can be read (the first, {first}){advice}"


_NAMED = 10


def say_absent(absent: list[Skipped], total: int, asked=None) -> None:
    """Names what could not be read on stderr, and counts it, first of all, where people read it.

    `asked` are the arguments of the command whose output follows.
    """
    for each in absent[:_NAMED]:
        done = "used in part" if each.has_part else "skipped"
        print(f"{done} {shorten(printable(each.path))}: {printable(each.why)}", file=sys.stderr)
    in_part = any(each.has_part for each in absent)
    skipped = "skipped or used in part" if in_part else "skipped"
    if len(absent) > _NAMED:
        print(f"{skipped} {counted(len(absent) - _NAMED, 'more file')}", file=sys.stderr)
    if absent:
        print(f"{len(absent)} of {counted(total, 'file')} {skipped}", file=sys.stderr)
        if asked is not None and _for_people(asked):
            told = fold(
                f"{len(absent)} of {counted(total, 'file')} could not be read{' whole' if in_part else ''}, the first "
                f"{shorten(printable(absent[0].path))}; what follows lacks {'the rest' if in_part else 'their jobs'}, "
                "so it cannot pass"
            )
            print("\n".join(told))


def _for_people(asked) -> bool:
    """Whether a command's output is text for people, rather than a list or table for a program."""
    if getattr(asked, "drain", False):
        return False
    if hasattr(asked, "format"):
        return asked.format in (None, "text")
    return getattr(asked, "output", None) != "-"


# --- tables beside a record file ---


def table_path(record_path, table: dict) -> pathlib.Path:
    """Where the side file lies that an entry of a record's `tables` names, if it is there and as it was written."""
    path = pathlib.Path(record_path).parent / table["file"]
    named = f"{path}: the table {table['name']!r} of {pathlib.Path(record_path).name}"
    if pathlib.PurePosixPath(table["file"]).is_absolute() or ".." in pathlib.PurePosixPath(table["file"]).parts:
        raise RecordError(f"{named} would lie outside of the record's folder; do not trust this record")
    try:
        digest = inputs.sha256(path)
    except FileNotFoundError:
        raise RecordError(f"{named} is not there; keep a record file and its folder of tables together") from None
    except OSError as error:
        raise RecordError(f"{named} cannot be read ({error.strerror or error})") from None
    if digest != table["sha256"]:
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
        with open_file(path) as raw, io.TextIOWrapper(gzip.GzipFile(fileobj=raw), "utf-8", newline="") as file:
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
