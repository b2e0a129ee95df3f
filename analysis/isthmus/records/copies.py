"""Copies of records, as in a backup inside the folder that it backs up: each record counts once.

Copies agree in _IDENTITY and in the median of their first metric. No two measurements do, since a process measures each
case once. The copy with the shortest path counts. Within a compacted table each file keeps its own copy, so that a file
may be removed.
"""

from __future__ import annotations

import collections
import json
import sys

from isthmus import spelling

#: Columns of `measurements` in which copies agree, each with the path of its source in a record.
_IDENTITY = {
    "run_id": "run.id", "process": "run.process", "time": "run.time", "system": "run.system", "node": "run.node",
    "job": "run.job", "boot": "host.boot_id", "gpus": "devices.uuid", "workload": "workload", "version": "version",
    "placement": "placement", "staging": "staging", "mode": "mode", "size": "size", "preset": "preset",
    "axes": "axes", "ranks": "ranks.count", "emulated": "emulated", "profiler": "profiler",
    "verify": "verify.status", "inputs": "verify.inputs", "checksums": "verify.checksums", "skipped": "skipped",
    "error": "error",
}  # fmt: skip
#: Columns that are needed to recognise copies.
WANTED = (*_IDENTITY, "file", "metric", "median")
_KEY = f"hash({', '.join(_IDENTITY)})"

Pairs = dict[tuple[str, str], int]  # (file that counts, other file) → number of records in both


def identity(record: dict) -> tuple:
    """Returns a record's _IDENTITY and first metric, which together no other measurement has."""
    metrics = record["metrics"]
    first = (metrics[0]["name"], metrics[0]["median"]) if metrics else ()
    return *(_hashable(_at(record, path)) for path in _IDENTITY.values()), *first


def _at(record: dict, path: str):
    name, _, inner = path.partition(".")
    found = record.get(name)
    if isinstance(found, list):
        return tuple(each.get(inner) for each in found)
    return (found or {}).get(inner) if inner else found


def _hashable(found):
    return json.dumps(found, sort_keys=True) if isinstance(found, dict) else found


class Seen:
    """Records seen so far by a command that reads them one by one."""

    def __init__(self) -> None:
        self._files: dict[tuple, str] = {}
        self.pairs: Pairs = collections.Counter()

    def is_copy(self, record: dict, file) -> bool:
        """Returns whether the record was seen before, and if so counts it in `pairs`."""
        before = len(self._files)
        first = self._files.setdefault(identity(record), str(file))
        if len(self._files) > before:
            return False
        self.pairs[first, str(file)] += 1
        return True


def drop_repeated(connection) -> Pairs:
    """Deletes repeated rows of `cases` within one file, and returns how many each file had."""
    key = f"file, {_KEY}, metrics[1].name, metrics[1].median"
    [(surplus,)] = connection.execute(f"SELECT count(*) - count(DISTINCT hash({key})) FROM cases").fetchall()
    if not surplus:
        return {}
    numbered = f"SELECT rowid AS row, file, row_number() OVER (PARTITION BY {key} ORDER BY rowid) AS n FROM cases"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE repeated AS SELECT row, file FROM ({numbered}) WHERE n > 1")
    found = connection.execute("SELECT file, count(*) FROM repeated GROUP BY file ORDER BY file").fetchall()
    connection.execute("DELETE FROM cases WHERE rowid IN (SELECT row FROM repeated)")
    return {(file, file): count for file, count in found}


def without(connection, view: str, folders: list[str]) -> tuple[str, Pairs]:
    """Returns SQL for the rows of a view without copies, and the pairs of files with copies.

    The SQL leaves out `_source`, which is an index into `folders`. Names of a source's files are relative to its
    folder, and complete where that is "".
    """
    firsts = f"FROM {view} WHERE metric_index = 0"
    all_columns = f"SELECT * EXCLUDE (_source) FROM {view}"
    [(surplus,)] = connection.execute(
        f"SELECT count(*) - count(DISTINCT hash({_KEY}, metric, median)) {firsts}"
    ).fetchall()
    if not surplus:
        return all_columns, {}
    same = f"PARTITION BY {_KEY}, metric, median ORDER BY _source, len(file), file"
    connection.execute(
        f"CREATE TABLE numbered AS SELECT {_KEY} AS key, _source AS source, file, row_number() OVER own AS n, "
        f"first_value(_source) OVER own AS of_source, first_value(file) OVER own AS of_file {firsts} "
        f"WINDOW own AS ({same})"
    )
    # A file is left whole where it has another measurement of the same key, which is no copy.
    connection.execute(
        "CREATE TABLE copies AS FROM numbered a WHERE n > 1 AND NOT EXISTS (FROM numbered b "
        "WHERE b.n = 1 AND b.source = a.source AND b.file = a.file AND b.key = a.key)"
    )
    rows = connection.execute(
        "SELECT of_source, of_file, source, file, count(*) FROM copies GROUP BY ALL ORDER BY ALL"
    ).fetchall()

    def place(source: int, file: str) -> str:
        return f"{folders[source]}/{file}" if folders[source] else file

    pairs = {(place(of, first), place(source, file)): count for of, first, source, file, count in rows}
    kept = f"NOT EXISTS (FROM copies c WHERE c.source = {view}._source AND c.file = {view}.file AND c.key = {_KEY})"
    return f"{all_columns} WHERE {kept}", pairs


def say(pairs: Pairs) -> None:
    """Prints one sentence on stderr: how many records are in several files, and in which."""
    total = sum(pairs.values())
    if not total:
        return
    (first, other), *more = pairs
    where = f"twice in {_name(first)}" if first == other else f"in two files ({_name(first)}, {_name(other)})"
    if more:
        where = f"in several files (as in {_name(first)} and {_name(other)})"
    verbs = ("stands", "counts") if total == 1 else ("stand", "count")
    print(f"{spelling.counted(total, 'record')} {verbs[0]} {where} and {verbs[1]} once", file=sys.stderr)


def _name(file: str) -> str:
    """Returns a file's name for a message, cut at the beginning, since the end of a path says more."""
    return spelling.printable(file if len(file) <= 80 else f"…{file[-79:]}")
