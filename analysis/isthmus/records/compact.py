"""Checks record files and keeps them as one compacted table (Parquet), which commands that compare read by themselves.

The table lies in DIR/compacted, by family of workloads and month. The files stay as they are. Each is checked once, by
the record's schema, and what lies beside it by its hash; run it again, and only what is new or has grown is taken. It
can be interrupted at any moment, and several may run at once: a part counts only when its manifest is there, and
manifests are written once. Records that state other results for the same inputs are named, and the exit code is 1.
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

from isthmus import Error, spelling, units
from isthmus.records import agreement, compacted, copies, load, measurements, store, validate
from isthmus.records.measurements import literal

_BATCH = 1 << 29  # bytes of raw files that are taken at a time


class Taken(typing.TypedDict):
    """What compacting did."""

    files: int
    records: int
    before: int  # files that were taken earlier
    gone: int
    replaced: list[str]  # files that no longer begin with what was taken of them
    skipped: list[load.Skipped]
    disagreements: list[str]


def _check(path: str) -> tuple[list[int] | None, load.Skipped | None, list | None]:
    """What load.check() says of a file and of the tables beside it, and its entry in a manifest."""
    signature, why = load.check(path, tables=True)
    if signature is None:
        return None, why, None
    try:
        return signature, None, compacted.entry(path, signature)
    except OSError as error:
        return None, load.Skipped(path, error.strerror or str(error)), None


def _batches(files: list[str]):
    """Files in their order, about _BATCH bytes at a time; packed ones count tenfold, as what they unpack to."""
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
    """Adds a manifest under the next free number; a link fails where another writer took that number."""
    source = compacted.source_of(root, folder)
    manifest = {**manifest, "source": source, "columns": measurements.COLUMNS, "schema": validate.SCHEMA}
    directory = folder / load.MANIFESTS
    name = directory / f"{uuid.uuid4().hex}.tmp"  # for all who may read the folder, unlike those of tempfile
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
    """Writes the table `cases` as parts called `name`, one a family and month; returns them, relative to `folder`,
    with their seals."""
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
    """Of the files that were found: paths of those to be taken, and of those among them that replace what was `done`;
    and names of those that were `done` and are gone."""
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
    """The system's word for what is wrong, which DuckDB's message has at its end, behind names of its own files."""
    said = str(error)
    known = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EIO)
    return next((os.strerror(code) for code in known if os.strerror(code) in said), spelling.shorten(said))


def _take(connection, folder: pathlib.Path, root: pathlib.Path, checked: dict) -> tuple[int, int, list[load.Skipped]]:
    """Compacts files, by path what _check() says of each. Returns how many files and records, and what was skipped."""
    good = {path: signature for path, (signature, why, _) in checked.items() if signature and not why}
    skipped = [why for _, why, _ in checked.values() if why] + store.read_raw(connection, good)
    copies.say(copies.drop_repeated(connection))
    left = {each.path for each in skipped}
    taken = {os.path.relpath(path, root): entry for path, (_, _, entry) in checked.items() if path not in left}
    [(count,)] = connection.execute("SELECT count(*) FROM cases").fetchall()
    if taken:
        name = uuid.uuid4().hex  # whoever else compacts the same files has parts of their own
        try:
            parts = _write_parts(connection, folder, root, name) if count else {}
            _write_manifest(folder, root, {"files": taken, "parts": parts})
        except BaseException:
            for part in folder.glob(f"*/*/{name}_*.parquet"):
                part.unlink(missing_ok=True)
            raise
    return len(taken), count, skipped


def _tables_left_out(met: list[str], folder: pathlib.Path, root: pathlib.Path, found: list[str]) -> list[load.Skipped]:
    """Other compacted tables in a folder that have records which its table will not have."""
    others = [each for each in met if os.path.realpath(each) != os.path.realpath(folder)]
    elsewhere, skipped = compacted.unread(others, [root], found)
    why = "a compacted table of {}, whose records this one does not get; compact that folder, or move the table away"
    return [*skipped, *(load.Skipped(str(table.folder), why.format(source)) for table, source in elsewhere)]


def _present(folder: pathlib.Path, root: pathlib.Path) -> compacted.Compacted | None:
    """The table that is in this folder before. Raises Error where it is made of another one than `root`, and where
    records lie in its place."""
    present = compacted.find(folder)
    if present and present.source and present.source != compacted.source_of(root, folder):
        whose = folder.resolve().parent if present.source == ".." else present.source
        raise Error(
            f"{folder}: this table is made of {whose}, not of {root}; name another folder with -o, or remove it"
        )
    if not present and os.path.isdir(folder) and (own := load.strays(folder)):
        raise Error(
            f"{folder}: has records of its own, as {own[0].path}, which nobody would read in a compacted table; name "
            "another folder with -o"
        )
    return present


def compact(root, folder=None, *, processes: int | None = None, say=lambda text: None) -> Taken:
    """Brings the compacted table of `root` up to date.

    Raises Error where the folder is no folder of records, and where the table is made of another one: files are known
    by their names below it.
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
        "files": 0, "records": 0, "before": len(found) - len(new), "gone": len(gone),
        "replaced": replaced,
        "skipped": unreadable + _tables_left_out(met, folder, root, found),
        "disagreements": [],
    }  # fmt: skip
    with load.checker(new, processes) as apply:
        connection, temporary = store.connect()
        try:
            if gone:
                _write_manifest(folder, root, {"files": {}, "parts": {}, "gone": gone})
            for batch in _batches(new):
                files, count, skipped = _take(connection, folder, root, dict(zip(batch, apply(_check, batch))))
                result["files"] += files
                result["records"] += count
                result["skipped"] += skipped
                say(f"{spelling.counted(result['files'], 'file')}, {spelling.counted(result['records'], 'record')}")
            table = compacted.find(folder)
            if table and table.parts:
                connection.execute(f"CREATE VIEW measurements AS {compacted.parts(table, [], agreement.RESULTS)}")
                result["disagreements"] = agreement.disagreements(agreement.results(connection.execute))
        except (duckdb.Error, OSError) as error:
            why = _reason(error)
            raise Error(
                f"{folder}: cannot be written ({why}); no record is lost: mend that, and run it again"
            ) from None
        finally:
            connection.close()
            temporary.cleanup()
    return result


def add_arguments(parser) -> None:
    parser.epilog = "example: isthmus compact $ISTHMUS_RESULTS && isthmus nodes $ISTHMUS_RESULTS"
    parser.add_argument("folder", metavar="DIR", help="folder with record files")
    parser.add_argument("-o", "--output", metavar="DIR", help="another place for the table than DIR/compacted")
    parser.add_argument("--processes", **units.COUNT, help="that check files (default: one per core, 8 at most)")


def run(asked) -> int:
    started = time.monotonic()
    progress = (lambda text: print(text, file=sys.stderr)) if sys.stderr.isatty() else (lambda text: None)
    result = compact(asked.folder, asked.output, processes=asked.processes, say=progress)
    load.say_absent(result["skipped"], result["files"] + result["before"] + len(result["skipped"]))
    gone = f"{spelling.counted(result['gone'], 'file', 'are')} gone, records and all; " if result["gone"] else ""
    agreement.say_disagreements(result["disagreements"])
    for path in result["replaced"]:
        print(f"replaced {path}: {compacted.REPLACED.partition(' (')[0]}", file=sys.stderr)
    print(
        f"{spelling.counted(result['records'], 'record')} of {spelling.counted(result['files'], 'file')} taken in "
        f"{time.monotonic() - started:.1f} s; {gone}{spelling.counted(result['before'], 'file', 'were')} taken before; "
        f"{len(result['skipped'])} skipped"
    )
    return 1 if result["skipped"] or result["disagreements"] or result["replaced"] else 0
