"""Copies of records, for instance in a backup inside the folder that it backs up: each record counts once.

Copies agree in _IDENTITY and in the median of their first metric. Two measurements never agree in these, since a
process measures each case once. The copy with the shortest path counts. In a compacted table the copies of all files
are kept, so that a file may be removed.
"""

from __future__ import annotations

import collections
import json
import sys

from isthmus import spelling

#: Columns of `measurements` in which copies agree, each with the path of the corresponding field in a record.
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
    """Returns a record's _IDENTITY and its first metric's name and median, which together identify a measurement."""
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
    """Records that a command, which reads them one by one, has seen so far."""

    def __init__(self) -> None:
        self._files: dict[tuple, str] = {}
        self.pairs: Pairs = collections.Counter()

    def is_copy(self, record: dict, file) -> bool:
        """Returns whether the record was seen before; if so, counts it in `pairs`."""
        before = len(self._files)
        first = self._files.setdefault(identity(record), str(file))
        if len(self._files) > before:
            return False
        self.pairs[first, str(file)] += 1
        return True


def drop_repeated(connection) -> Pairs:
    """Deletes repeated rows of the same file from `cases`; returns the number of repeated rows in each file."""
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

    The rows have no column `_source`, which in the view is an index into `folders`. The names of a source's files are
    relative to its folder, and complete if the folder is "".
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
    # Rows are removed by file and key, so all rows of a key stay in a file if one of them is not a copy.
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


def elsewhere(connection, before: str, now: str, files: list[str]) -> dict[str, str]:
    """Returns those of `files` whose records are all in other files, each with one of these other files.

    `before` is SQL for the rows of all files at the time when `files` existed; `now` is SQL for the rows of the other
    files.
    """
    keys = f"SELECT file, hash({_KEY}, metric, median) AS key FROM"
    found = connection.execute(
        f"WITH gone AS ({keys} ({before}) WHERE metric_index = 0 AND list_contains(?, file)), "
        f"present AS (SELECT key, min(file) AS file FROM ({keys} ({now}) WHERE metric_index = 0) GROUP BY key) "
        "SELECT gone.file, min(present.file) FROM gone LEFT JOIN present USING (key) GROUP BY gone.file "
        "HAVING count(*) = count(present.file) ORDER BY gone.file",
        [files],
    )
    return dict(found.fetchall())


def say(pairs: Pairs) -> None:
    """Prints a sentence on stderr that states how many records are in several files, and names two of the files."""
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
    """Returns a file's name for a message, shortened at the beginning, since the end of a path is more informative."""
    return spelling.printable(file if len(file) <= 80 else f"…{file[-79:]}")
