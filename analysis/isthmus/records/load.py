"""Reading of record files: JSON Lines written by isthmus-bench, one case per line; .gz files are decompressed.

A line that is not a record is left out; the other lines count, and the file is reported as used in part, with the line
and the reason. Nothing is dropped silently, and no command passes with such a file, so a crashed run cannot be mistaken
for a shorter, better one. A file with another version of the record is refused completely. Data that is too long for a
line is in tables next to the file: see read_table().
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
import itertools
import math
import multiprocessing
import os
import pathlib
import re
import signal
import stat
import sys
import zlib

from isthmus import Error, inputs, streams
from isthmus.inputs import no_file, open_file
from isthmus.records import validate
from isthmus.records.validate import RecordError
from isthmus.spelling import counted, fold, printable, shorten

_LONGEST = 1 << 23  # maximum bytes of a line; DuckDB needs twice as much memory
_ENDLESS = 1 << 26  # bytes after which reading of a line without an end, and of the rest of the file, is given up
_MOST_BAD = 10_000  # number of lines that are not records after which the rest of a file is not read
#: Reason for skipping an empty file, since isthmus-bench creates the file before its first case ends.
EMPTY = "has no record, because its run was killed before its first case ended, or is still running"
MANIFESTS = "manifests"  # folder that marks a compacted table and states from which files its parts were made

# --- files ---


@dataclasses.dataclass
class Skipped:
    """File or folder that was not read, or only in part, and why."""

    path: str
    why: str
    newer: str = ""  # schema of its records, if that is another version of the record
    has_part: bool = False  # true if its valid records were read


def _no_name(path: str) -> str | None:
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return "its name is not UTF-8; rename it"
    return None


def signature(path) -> list[int]:
    """Returns a file's size in bytes, time of the last change in ns, and inode.

    An edit changes at least one of these, unless it follows another edit immediately.
    """
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def parse(line: str, *, where: str, last: bool = False) -> dict:
    """Parses the record in a line; `where` names the line in errors, and `last` means that it may have been cut short.

    Raises RecordError for a line that is not a record.
    """
    return validate.line(line.encode("utf-8", "surrogatepass"), where=where, last=last)


def lines(path: pathlib.Path, bad: list[RecordError] | None = None):
    """Yields each line of a file as (number, bytes without the line end, whether it had a line end).

    Raises RecordError if the file cannot be read or is empty, and for a line that is too long. With `bad`, the error
    for such a line is added to `bad` instead, and reading continues.
    """
    try:
        with open_file(path) as raw, gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw as file:
            number = 0
            while line := file.readline(_LONGEST + 1):
                number += 1
                if len(line) > _LONGEST:
                    error = RecordError(f"{path}:{number}: longer than {_LONGEST >> 20} MiB, so not a record")
                    if bad is None:
                        raise error
                    bad.append(error)
                    size = len(line)
                    while line and not line.endswith(b"\n"):
                        line = file.readline(_LONGEST)
                        size += len(line)
                        if size > _ENDLESS:
                            why = f"{_ENDLESS >> 20} MiB without an end, so it and what follows is not read"
                            bad[-1] = RecordError(f"{path}:{number}: {why}")
                            return
                    continue
                # Only \n ends a line, since a record's strings may contain U+2028.
                whole = line.endswith(b"\n")
                yield number, line[:-1] if whole else line, whole
            if not number:
                raise RecordError(f"{path}: {EMPTY}")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{path}: not written by gzip, or cut short ({error})") from None
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}") from None


def iterate(path):
    """Yields the records of a file in order. Raises RecordError if the file or one of its lines is invalid."""
    path = pathlib.Path(path)
    for number, line, whole in lines(path):
        yield validate.line(line, where=f"{path}:{number}", last=not whole)


def sound_lines(path, bad: list[RecordError]):
    """Yields each line of a file that is a record, without its line end, together with the parsed record.

    Adds the errors of other lines to `bad`. Reading stops after _MOST_BAD errors.
    """
    path = pathlib.Path(path)
    try:
        for number, line, whole in lines(path, bad):
            if len(bad) >= _MOST_BAD:
                return
            if not line.strip():
                bad.append(RecordError(f"{path}:{number}: an empty line, so not a record"))
                continue
            try:
                record = validate.line(line, where=f"{path}:{number}", last=not whole)
            except RecordError as error:
                bad.append(error)
                continue
            yield line, record
    except RecordError as error:
        bad.append(error)


def in_part(path, bad: list[RecordError], records: int) -> Skipped:
    """Returns the report for a file with the errors `bad` and this number of valid records.

    A file with another version of the record is not used in part; `Skipped.newer` names that version.
    """
    reasons = (skipped_for(path, error) for error in bad)
    first = next(reasons)
    said = first if first.newer else next((reason for reason in reasons if reason.newer), first)
    rest = ", and the lines after these are not read" if len(bad) >= _MOST_BAD else ""
    more = f" (and {counted(len(bad) - 1, 'more line')}{rest})" if len(bad) > 1 else ""
    return dataclasses.replace(said, why=said.why + more, has_part=bool(records) and not said.newer)


def find(path, tables: list[str] | None = None) -> tuple[list[str], list[Skipped]]:
    """Returns the record files in a folder and its subfolders, in order, and everything that could not be examined.

    If the path is a file, it is returned regardless of its name. The folders of compacted tables are added to `tables`.
    Raises Error if the file or folder does not exist or cannot be read.
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
    for folder, names in walk(path, skipped, tables=tables):
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


def without_files(path, files: list[str], skipped: list[Skipped]) -> list[Skipped]:
    """Returns a report for a folder, one of several that a user named, if nothing was found in it."""
    if files or skipped:
        return []
    return [Skipped(str(path), "a folder without any .jsonl or .jsonl.gz file; leave it out, or name another")]


_MANIFEST = re.compile(rb'\s*\{\s*"files"\s*:')  # beginning of a manifest that `isthmus compact` wrote
_MANIFEST_HEAD = 64  # number of bytes of a file that are compared with _MANIFEST
_ENDINGS = (".jsonl", ".jsonl.gz")
_MOST_ROWS = 1_000_000  # maximum number of rows of a table; isthmus-bench writes at most 65,536
_LOOKED_AT = 2000  # number of files with other names whose contents are examined; later, only JSON-like names are


def _passed_over(file: str, *, any_name: bool) -> str | None:
    """Returns what to report about a file that is not read because of its name: that it is a dangling link, or that it
    seems to contain records; None for any other file."""
    name = os.path.basename(file).lower()
    if os.path.islink(file) and not os.path.exists(file):
        return inputs.DANGLING
    looked_at = any_name or name.endswith((".json", ".ndjson", ".json.gz"))
    if ".jsonl" in name and inputs.packer(name) not in (None, "gzip"):
        return inputs.unread_because(name, ".jsonl", ", or compress it with gzip instead")
    form = _form_of_records(file) if looked_at else None
    if form == inputs.DOCUMENT:
        return (
            "not read, since it does not have one record per line; write one per line to a file that ends in .jsonl "
            "(with `jq -c .`, or `jq -c '.[]'` for an array)"
        )
    if form or ".jsonl" in name:
        return "not read under this name; rename it to end in .jsonl, or in .jsonl.gz if it is compressed"
    return None


def _form_of_records(file: str) -> str | None:
    """Returns inputs.form_of_records(), except None for a manifest, which names the schema but contains no records."""
    form = inputs.form_of_records(file)
    return None if form and _MANIFEST.match(inputs.first_bytes(file, _MANIFEST_HEAD)) else form


def manifests(folder) -> list[pathlib.Path]:
    """Returns the manifests of a compacted folder in the order of their numbers, the oldest first.

    Raises OSError if their folder is unreadable.
    """
    place = pathlib.Path(folder, MANIFESTS)
    try:
        names = os.listdir(place)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(place / name for name in names if re.fullmatch(r"[0-9].*[.]json", name))


def is_table(folder) -> bool:
    """Returns whether a folder is a compacted table: it has a readable manifest with the right name and beginning."""
    with contextlib.suppress(OSError):  # walk() reports the error
        return any(_MANIFEST.match(inputs.first_bytes(path, _MANIFEST_HEAD)) for path in manifests(folder))
    return False


def walk(top, skipped: list[Skipped], *, compacted: bool = False, links: bool = True, tables: list[str] | None = None):
    """Yields each folder, `top` first, and the sorted names of its files; compacted tables only if `compacted`.

    Links to folders are followed after everything that is reachable without them, unless `links` is false. Each folder
    is entered once. Four kinds of folders are not entered and are added to `skipped`: links to a folder above, file
    systems that show the system's state (/proc), folders behind links beyond _MOST_BEHIND_LINKS, and folders that
    cannot be read, for instance because their path is longer than the system allows. Depth is not limited otherwise. A
    compacted table that is left out is added to `tables`, and record files inside it are added to `skipped`.
    """
    walker = _Walk(skipped, links)
    left_out = [] if tables is None else tables
    yield from walker.below(os.fspath(top), None if compacted else left_out)
    for table in left_out:
        walker.name_strays(table)


def strays(table) -> list[Skipped]:
    """Returns the record files in a compacted table, where they are never read, and folders that cannot be examined."""
    walker = _Walk([], links=True)
    walker.name_strays(os.fspath(table))
    return walker.skipped


class _Walk:
    """State of walk(): the folders that it has entered, and those that it reports as skipped."""

    def __init__(self, skipped: list[Skipped], links: bool) -> None:
        self.skipped = skipped
        self._links = links
        self._seen: set[tuple[int, int]] = set()
        self._left = _MOST_BEHIND_LINKS  # number of folders still allowed; negative after the excess was reported
        self._state = _shows_state()

    def name_strays(self, table: str) -> None:
        why = f"not read, because only the parts of the compacted table {table} count; move it out of there"
        for folder, names in self.below(table, None):
            for file in (os.path.join(folder, name) for name in names):
                if ".jsonl" in os.path.basename(file).lower() or _form_of_records(file):
                    self.skipped.append(Skipped(file, why))

    def below(self, top: str, tables: list[str] | None):
        """Yields folders that were not entered before, and their files.

        Adds compacted tables to `tables` instead of entering them, unless `tables` is None.
        """
        starts = [(top, False)]
        for start, behind_link in starts:
            pending = [start]
            while pending:
                folder = pending.pop()
                try:
                    status = os.stat(folder)
                    if (status.st_dev, status.st_ino) in self._seen:
                        continue
                    why = self._closed(status) or (behind_link and folder == start and _leads_above(folder, top))
                    if not why and behind_link and self._is_spent(start):
                        return
                    if not why:
                        self._seen.add((status.st_dev, status.st_ino))
                        folders, names = _listed(folder)
                except OSError as error:
                    why = f"a folder that cannot be read ({error.strerror})"
                if why:
                    self.skipped.append(Skipped(folder, why))
                    continue
                below = [(os.path.join(folder, name), is_link) for name, is_link in folders]
                if tables is not None:
                    here = {path for path, _ in below if is_table(path)}
                    tables += sorted(here)
                    below = [each for each in below if each[0] not in here]
                starts += [each for each in below if each[1] and self._links]
                pending += [path for path, is_link in reversed(below) if not is_link]
                yield folder, names

    def _closed(self, status: os.stat_result) -> str | None:
        """Returns why a folder's file system must not be entered, or None if it may be."""
        kind = self._state.get(status.st_dev)
        return kind and f"it is in {kind}, which shows the system's state and has no records; remove it, or its link"

    def _is_spent(self, link: str) -> bool:
        """Counts a folder behind this link; returns whether there are too many, and reports that the first time."""
        self._left -= 1
        if self._left == -1:
            why = (
                f"more than {_MOST_BEHIND_LINKS} folders are behind links, so the rest of this one, and other links, "
                "are not followed; name the folders that they lead to"
            )
            self.skipped.append(Skipped(link, why))
        return self._left < 0


_MOST_BEHIND_LINKS = 10_000  # maximum number of folders behind links, since a link may lead to a whole machine
_OF_STATE = {"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "devpts", "devtmpfs",
             "mqueue", "bpf", "pstore", "efivarfs", "selinuxfs", "binfmt_misc", "fusectl"}  # fmt: skip


def _shows_state() -> dict[int, str]:
    """Returns the device and kind of each file system that only shows the system's state; its files may be endless."""
    found = {}
    with contextlib.suppress(OSError, ValueError), open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            mount, _, what = line.decode(errors="replace").partition(" - ")
            kind = what.split(" ")[0]
            if kind in _OF_STATE:
                major, minor = map(int, mount.split(" ")[2].split(":"))
                found[os.makedev(major, minor)] = kind
    return found


def _leads_above(link: str, top: str) -> str | None:
    """Returns why a link to a folder is not followed if `top` or the link is inside that folder; None if neither is."""
    target = os.path.realpath(link)
    if not any(is_below(place, target) for place in (os.path.realpath(top), os.path.realpath(os.path.dirname(link)))):
        return None
    return f"a link to {target}, a folder above it, so it is not followed; remove it, or name that folder"


def is_below(path: str, folder: str) -> bool:
    """Returns whether a path is this folder or inside it; both are real paths."""
    return os.path.commonpath([path, folder]) == folder


def _listed(folder: str) -> tuple[list[tuple[str, bool]], list[str]]:
    """Returns the sorted names of a folder's subfolders, each with whether it is a link, and those of its files."""
    folders, names = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = False
            with contextlib.suppress(OSError):  # a link to itself
                is_folder = entry.is_dir()
            if is_folder:
                folders.append((entry.name, entry.is_symlink()))
            else:
                names.append(entry.name)
    return sorted(folders), sorted(names)


def read(path) -> list[dict]:
    """Returns all records of a file in order.

    Raises RecordError if the file cannot be read, or for its first invalid line.
    """
    return list(iterate(path))


def skipped_for(path, error: RecordError) -> Skipped:
    """Returns the report for a file that is skipped because of an error, with the line's number in the reason."""
    why = str(error).removeprefix(f"{path}:").removeprefix(f"{pathlib.Path(path)}:").lstrip()
    why = re.sub(r"\A(\d+): ", r"line \1: ", why)
    newer = re.search(r"another schema \('(isthmus[.]record/[0-9]+)'\)", why)
    return Skipped(str(path), why, newer[1] if newer else "")


def check(path, *, tables: bool = False) -> tuple[list[int] | None, Skipped | None]:
    """Returns (signature, None) for a file in which every line is a record, or (None, reason) for any other file.

    With `tables`, the tables next to the file are also checked.
    """
    collecting = gc.isenabled()
    gc.disable()  # records have no cycles, and the collector would visit each of them
    try:
        before = signature(path)
        for number, line, whole in lines(pathlib.Path(path)):
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


_ALONE = 1 << 25  # number of bytes that this process checks faster than it could start other processes


@contextlib.contextmanager
def checker(paths, processes: int | None = None):
    """Provides a function like map() that uses several processes if that is faster; enter it before starting threads.

    The processes end when this one does, even if it is killed. If one of them is killed, or none can be started, this
    process does the rest.
    """
    size = sum(os.path.getsize(path) * (10 if path.endswith(".gz") else 1) for path in paths if os.path.exists(path))
    processes = processes or min(len(os.sched_getaffinity(0)), 8)
    if size < _ALONE or processes < 2 or len(paths) < 2:
        yield map
        return
    # Processes are forked, since other start methods would run a script without `if __name__ == "__main__"` again.
    with concurrent.futures.ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), _end_with, (os.getpid(), _process_control())
    ) as pool:
        chunk = max(1, min(8, len(paths) // (4 * processes)))
        try:
            pool.submit(int).result()  # starts the processes
        except (OSError, concurrent.futures.BrokenExecutor):  # such as under `ulimit -u`
            yield map
        else:
            yield functools.partial(_apply, pool, chunk)


def _apply(pool, chunk: int, function, paths):
    """Yields the result of `function` for each path, in order, computed by a pool until one of its processes dies."""
    paths, done = list(paths), 0
    try:
        for result in pool.map(function, paths, chunksize=chunk):
            done += 1
            yield result
    except concurrent.futures.BrokenExecutor:
        print(
            "a process that checked records was killed, perhaps for lack of memory; the rest is checked in one process",
            file=sys.stderr,
        )
        yield from map(function, paths[done:])


_PARENT_ENDS = 1  # PR_SET_PDEATHSIG of prctl()


def _process_control():
    """Returns the C library's prctl(), which must be looked up before a fork; None on systems that lack it."""
    import ctypes  # imported here because most commands start no process

    return getattr(ctypes.CDLL(None), "prctl", None)


def _end_with(parent: int, control) -> None:
    """Makes the system end this process when its parent ends, since it would otherwise wait for work forever."""
    if control is not None:
        control(_PARENT_ENDS, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before prctl() was called
        os._exit(1)


def no_record(paths) -> str:
    """Returns a sentence that states why there are no records although every file was read, and what to do."""
    where = ", ".join(map(str, paths))
    if all(map(os.path.isfile, paths)):
        return f"{where}: no record in {'it' if len(paths) == 1 else 'them'}; name files that isthmus-bench wrote"
    return (
        f"{where}: no record in any .jsonl or .jsonl.gz file; run isthmus-bench with --record, or name another folder"
    )


def nothing_taken(paths, absent: list[Skipped]) -> str:
    """Returns a sentence that states why no file contains a record, and what to do; it names the first file."""
    first = f"{absent[0].path}: {absent[0].why}"
    advice = "" if "--resume" in absent[0].why or EMPTY in absent[0].why else "; name files that isthmus-bench wrote"
    if len(absent) == 1:
        return first + advice
    where = ", ".join(map(str, paths))
    return f"{where}: none of {len(absent)} files contains readable records (the first, {first}){advice}"


_NAMED = 10


def say_absent(absent: list[Skipped], total: int, asked=None) -> None:
    """Prints the names and number of the files that were not read, or only in part, on stderr.

    If the output is text for people, it begins with the number. `asked` contains the arguments of the command.
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
                f"{shorten(printable(absent[0].path))}; the following lacks {'the rest' if in_part else 'their jobs'}, "
                "so it cannot pass"
            )
            print("\n".join(told))


def _for_people(asked) -> bool:
    """Returns whether a command's output is text for people rather than a list or table for a program."""
    if getattr(asked, "drain", False):
        return False
    if hasattr(asked, "format"):
        return asked.format in (None, "text")
    where = getattr(asked, "output", None)
    return where is None or streams.descriptor(where) is None


# --- tables next to a record file ---


def table_path(record_path, table: dict) -> pathlib.Path:
    """Returns the path of the file that an entry of a record's `tables` names.

    Raises RecordError if the file is missing, unreadable, outside the record's folder, or altered since it was written.
    """
    path = pathlib.Path(record_path).parent / table["file"]
    named = f"{path}: the table {table['name']!r} of {pathlib.Path(record_path).name}"
    if pathlib.PurePosixPath(table["file"]).is_absolute() or ".." in pathlib.PurePosixPath(table["file"]).parts:
        raise RecordError(f"{named} would be outside the record's folder; do not trust this record")
    try:
        digest = inputs.sha256(path)
    except FileNotFoundError:
        raise RecordError(f"{named} is missing; keep a record file and its folder of tables together") from None
    except OSError as error:
        raise RecordError(f"{named} cannot be read ({error.strerror or error})") from None
    if digest != table["sha256"]:
        raise RecordError(f"{named} has been altered since it was written (its SHA-256 differs); measure again")
    return path


def read_table(record_path, record: dict, name: str) -> list[dict[str, float | None]]:
    """Returns the rows of a record's table, keyed by column; an empty cell is None.

    `record_path` is the file from which the record was read. Raises RecordError, with one sentence, if the table is
    missing, altered, or does not match the record.
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
            if found[0]["rows"] > _MOST_ROWS:
                raise ValueError(f"it has {found[0]['rows']} rows, but at most {_MOST_ROWS} are read")
            first = itertools.islice(lines, found[0]["rows"] + 1)  # a compressed file may be endless
            rows = [dict(zip(columns, map(_number, line), strict=True)) for line in first]
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
        raise ValueError(f"{shorten(text, 40)} is not a finite number")
    return value
