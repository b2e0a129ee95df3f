"""Checks record files and stores their records in one compacted table (Parquet), which is quicker to read.

The table is in DIR/compacted, split by family of workloads and by month. The record files are not changed. Records are
checked against the schema, and the tables next to a record file against their hashes. A second run reads only files
that are new or have grown. A run may be interrupted at any moment, and several may run at once: a part counts only when
a manifest names it, and manifests are written once. Exit code 1: files were skipped or replaced, or records state
different results for the same inputs; each is named. Exit code 3: files that existed in an earlier run are gone, and
with them records that no other file has; the table no longer has these records.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import sys
import tempfile
import time
import typing
import uuid

import duckdb

from isthmus import Error, exits, spelling, units
from isthmus.records import agreement, compacted, copies, load, measurements, store, validate
from isthmus.records.measurements import literal

_BATCH = 1 << 29  # bytes of raw files that are read at a time


class Taken(typing.TypedDict):
    """Summary of one run of compact()."""

    files: int
    records: int
    before: int  # number of files that an earlier run compacted
    gone: list[str]  # names of missing files with records that no other file has
    moved: dict[str, str]  # name of a missing file whose records are all in other files → one of these files
    replaced: list[str]  # files that no longer begin with the content that was compacted
    skipped: list[load.Skipped]
    disagreements: list[str]


def _check(path: str) -> tuple[list[int] | None, load.Skipped | None, list | None]:
    """Returns the result of load.check() for a file and the tables next to it, and the file's entry in a manifest."""
    signature, why = load.check(path, tables=True)
    if signature is None:
        return None, why, None
    try:
        return signature, None, compacted.entry(path, signature)
    except OSError as error:
        return None, load.Skipped(path, error.strerror or str(error)), None


def _batches(files: list[str]):
    """Yields the files in order, in batches of about _BATCH bytes.

    Compressed files count tenfold, since they are larger when decompressed.
    """
    batch, size = [], 0
    for path in files:
        batch.append(path)
        size += (os.path.getsize(path) if os.path.exists(path) else 0) * (10 if path.endswith(".gz") else 1)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_manifest(folder: pathlib.Path, root: pathlib.Path, manifest: dict) -> None:
    """Writes a manifest under the next free number; creating the link fails if another writer took that number."""
    source = compacted.source_of(root, folder)
    manifest = {**manifest, "source": source, "columns": measurements.COLUMNS, "schema": validate.SCHEMA}
    directory = folder / load.MANIFESTS
    name = directory / f"{uuid.uuid4().hex}.tmp"  # readable by all who may read the folder, unlike tempfile's files
    with name.open("x", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    try:
        while True:
            present = load.manifests(folder)
            number = int(present[-1].stem) + 1 if present else 1
            try:
                os.link(name, directory / f"{number:08d}.json")
                return
            except FileExistsError:
                continue
    finally:
        name.unlink()


def _write_parts(connection, folder: pathlib.Path, root: pathlib.Path, name: str) -> dict[str, list]:
    """Writes the table `cases` as parts called `name`, one per family and month.

    Returns the parts' paths relative to `folder`, each with its seal.
    """
    relative = f"file[{len(str(root)) + 2}:]"
    tables = measurements.tables_with(f"t.{relative}")
    table = measurements.flat("cases", measurements.COLUMNS)
    parts = {}
    with tempfile.TemporaryDirectory(dir=folder, prefix="unfinished-") as unfinished:
        connection.execute(
            f"COPY (SELECT * REPLACE ({relative} AS file, {tables} AS tables), split_part(workload, '/', 1) AS family, "
            f"strftime(time, '%Y-%m') AS month FROM ({table}) ORDER BY family, month, workload, metric, axes, time) "
            f"TO {literal(unfinished)} (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (family, month), "
            f"OVERWRITE_OR_IGNORE, FILENAME_PATTERN '{name}_{{i}}')"
        )
        for path in sorted(pathlib.Path(unfinished).rglob("*.parquet")):
            part = path.relative_to(unfinished)
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, folder / part)
            parts[str(part)] = compacted.seal(folder / part)
    return parts


def _changes(root, found: list[str], unreadable, done: dict[str, list]) -> tuple[list[str], list[str], list[str]]:
    """Returns the paths of files to compact, of those that replace earlier files, and the names of files that are gone.

    `found` contains the paths of all files; `done` contains the manifest entries of the compacted files, keyed by name.
    """
    names = {os.path.relpath(path, root): path for path in found}
    gone = sorted(name for name in set(done) - set(names) if not compacted.hidden(os.path.join(root, name), unreadable))
    new = [path for name, path in names.items() if name not in done or not compacted.unchanged(path, done[name])]
    replaced = [
        path
        for path in new
        if (name := os.path.relpath(path, root)) in done and not compacted.has_grown(path, done[name])
    ]
    return new, replaced, gone


def _reason(error: Exception) -> str:
    """Returns the system's text for an error; DuckDB's message has it at the end, after names of DuckDB's own files."""
    said = str(error)
    known = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EIO)
    return next((os.strerror(code) for code in known if os.strerror(code) in said), spelling.shorten(said))


def _take(connection, folder: pathlib.Path, root: pathlib.Path, checked: dict) -> tuple[int, int, list[load.Skipped]]:
    """Compacts files; `checked` contains the result of _check() for each path.

    Returns the numbers of compacted files and records, and the skipped files.
    """
    good = {path: signature for path, (signature, why, _) in checked.items() if signature and not why}
    skipped = [why for _, why, _ in checked.values() if why] + store.read_raw(connection, good)
    copies.say(copies.drop_repeated(connection))
    left = {each.path for each in skipped}
    taken = {os.path.relpath(path, root): entry for path, (_, _, entry) in checked.items() if path not in left}
    [(count,)] = connection.execute("SELECT count(*) FROM cases").fetchall()
    if taken:
        name = uuid.uuid4().hex  # unique, since another process that compacts the same files writes separate parts
        try:
            parts = _write_parts(connection, folder, root, name) if count else {}
            _write_manifest(folder, root, {"files": taken, "parts": parts})
        except BaseException:
            for part in folder.glob(f"*/*/{name}_*.parquet"):
                part.unlink(missing_ok=True)
            raise
    return len(taken), count, skipped


def _tables_left_out(met: list[str], folder: pathlib.Path, root: pathlib.Path, found: list[str]) -> list[load.Skipped]:
    """Returns other compacted tables in the folder `root` with records that the table in `folder` will not have."""
    others = [each for each in met if os.path.realpath(each) != os.path.realpath(folder)]
    elsewhere, skipped = compacted.unread(others, [root], found)
    why = "a compacted table of {}, whose records are not added to this one; compact that folder, or move the table"
    return [*skipped, *(load.Skipped(str(table.folder), why.format(source)) for table, source in elsewhere)]


def _moved(connection, before: compacted.Compacted, folder: pathlib.Path, gone: list[str]) -> dict[str, str]:
    """Returns those of the missing files whose records are all in other files, each with one of these other files.

    `before` is the table in `folder` as it was before this run.
    """
    now = compacted.find(folder) or before
    then, others = compacted.parts(before, [], copies.WANTED), compacted.parts(now, gone, copies.WANTED)
    return copies.elsewhere(connection, then, others, gone)


def _present(folder: pathlib.Path, root: pathlib.Path) -> compacted.Compacted | None:
    """Returns the table that already exists in this folder, or None.

    Raises Error if that table was made from a folder other than `root`, or if the folder contains record files.
    """
    present = compacted.find(folder)
    if present and present.source and present.source != compacted.source_of(root, folder):
        whose = folder.resolve().parent if present.source == ".." else present.source
        raise Error(
            f"{folder}: this table was made from {whose}, not from {root}; name another folder with -o, or remove it"
        )
    if not present and os.path.isdir(folder) and (own := load.strays(folder)):
        raise Error(
            f"{folder}: contains record files, such as {own[0].path}, which would not be read in a compacted table; "
            "name another folder with -o"
        )
    return present


def compact(root, folder=None, *, processes: int | None = None, say=lambda text: None) -> Taken:
    """Brings the compacted table of `root` up to date.

    `folder` is the table's folder, by default COMPACTED in `root`; `processes` is the number of processes that check
    files; `say` receives a line of progress after each batch. Raises Error if `root` is not a folder or has no records,
    if the table was made from another folder (files are identified by their paths below it), or if the table cannot be
    written.
    """
    root = pathlib.Path(root)
    if not root.is_dir():
        raise Error(f"{root}: no such folder; name one with record files")
    folder = pathlib.Path(folder) if folder else root / compacted.COMPACTED
    present = _present(folder, root)
    met: list[str] = []
    found, unreadable = load.find(root, met)
    if not found and not present:
        if unreadable:
            raise Error(f"{unreadable[0].path}: {unreadable[0].why}")
        raise Error(load.no_record([root]))
    try:
        (folder / load.MANIFESTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"{folder}: {error.strerror}") from None
    new, replaced, gone = _changes(root, found, unreadable, present.files if present else {})
    result: Taken = {
        "files": 0, "records": 0, "before": len(found) - len(new), "gone": [], "moved": {},
        "replaced": replaced,
        "skipped": unreadable + _tables_left_out(met, folder, root, found),
        "disagreements": [],
    }  # fmt: skip
    with load.checker(new, processes) as apply:
        connection, temporary = store.connect()
        try:
            for batch in _batches(new):
                files, count, skipped = _take(connection, folder, root, dict(zip(batch, apply(_check, batch))))
                result["files"] += files
                result["records"] += count
                result["skipped"] += skipped
                say(f"{spelling.counted(result['files'], 'file')}, {spelling.counted(result['records'], 'record')}")
            if present and gone:  # after all parts are written, so that a run after an interrupted one reports them
                result["moved"] = _moved(connection, present, folder, gone)
                result["gone"] = [name for name in gone if name not in result["moved"]]
                _write_manifest(folder, root, {"files": {}, "parts": {}, "gone": gone})
            table = compacted.find(folder)
            if table and table.parts:
                connection.execute(f"CREATE VIEW measurements AS {compacted.parts(table, [], agreement.RESULTS)}")
                result["disagreements"] = agreement.disagreements(agreement.results(connection.execute))
        except (duckdb.Error, OSError) as error:
            why = _reason(error)
            raise Error(
                f"{folder}: cannot be written ({why}); no record is lost: correct that, and run the command again"
            ) from None
        finally:
            connection.close()
            temporary.cleanup()
    return result


def add_arguments(parser) -> None:
    parser.epilog = "example: isthmus compact $ISTHMUS_RESULTS && isthmus nodes $ISTHMUS_RESULTS"
    parser.add_argument("folder", metavar="DIR", help="folder with record files")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for the table (default: DIR/compacted)")
    parser.add_argument("--processes", **units.COUNT, help="processes for checking (default: one per core, at most 8)")


def run(asked) -> int:
    started = time.monotonic()
    progress = (lambda text: print(text, file=sys.stderr)) if sys.stderr.isatty() else (lambda text: None)
    result = compact(asked.folder, asked.output, processes=asked.processes, say=progress)
    load.say_absent(result["skipped"], result["files"] + result["before"] + len(result["skipped"]))
    agreement.say_disagreements(result["disagreements"])
    for path in result["replaced"]:
        print(f"replaced {path}: {compacted.REPLACED}", file=sys.stderr)
    print(
        f"{spelling.counted(result['records'], 'record')} of {spelling.counted(result['files'], 'file')} compacted "
        f"in {time.monotonic() - started:.1f} s; {_of_gone(result)}"
        f"{spelling.counted(result['before'], 'file', 'were')} compacted before; {len(result['skipped'])} skipped"
    )
    found = result["skipped"] or result["disagreements"] or result["replaced"]
    return exits.with_absence(exits.FOUND if found else exits.PASSED, result["gone"])


def _of_gone(result: Taken) -> str:
    """Returns the part of the answer about files that are gone; empty if there are none."""
    said = ""
    if moved := result["moved"]:
        name, other = next(iter(moved.items()))
        said += (
            f"{spelling.counted(len(moved), 'file', 'are')} renamed or compressed, since all records are in other "
            f"files (of {spelling.printable(name)} in {spelling.printable(other)}); "
        )
    if gone := result["gone"]:
        named = f"{spelling.printable(gone[0])}{', …' if gone[1:] else ''}"
        said += f"{spelling.counted(len(gone), 'file', 'are')} gone with their records ({named}); "
    return said
