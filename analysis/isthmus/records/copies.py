"""Copies of records, as a backup of a folder inside it has: a record counts once, wherever else it stands.

Copies agree in _IDENTITY and in their first metric's median. No two measurements do: a process measures each case once.
The one with the shortest path counts. Within a compacted table each file keeps its own copy,
so that a file may be removed.
"""

from __future__ import annotations

import collections
import json
import sys

from isthmus import spelling

#: Columns of `measurements` that copies share, and where a record has what makes each.
_IDENTITY = {
    "run_id": "run.id", "process": "run.process", "time": "run.time", "system": "run.system", "node": "run.node",
    "job": "run.job", "boot": "host.boot_id", "gpus": "devices.uuid", "workload": "workload", "version": "version",
    "placement": "placement", "staging": "staging", "mode": "mode", "size": "size", "preset": "preset",
    "axes": "axes", "ranks": "ranks.count", "emulated": "emulated", "profiler": "profiler",
    "verify": "verify.status", "inputs": "verify.inputs", "checksums": "verify.checksums", "skipped": "skipped",
    "error": "error",
}  # fmt: skip
#: Columns that telling copies apart needs.
WANTED = (*_IDENTITY, "file", "metric", "median")
_KEY = f"hash({', '.join(_IDENTITY)})"

Pairs = dict[tuple[str, str], int]  # by the file that counts and the other: records that stand in both


def identity(record: dict) -> tuple:
    """What no other measurement has: _IDENTITY, and the first metric."""
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
    """Records that were read, by a command that reads them one by one."""

    def __init__(self) -> None:
        self._files: dict[tuple, str] = {}
        self.pairs: Pairs = collections.Counter()

    def is_copy(self, record: dict, file) -> bool:
        """Whether the record was seen before; it is counted in `pairs` then."""
        before = len(self._files)
        first = self._files.setdefault(identity(record), str(file))
        if len(self._files) > before:
            return False
        self.pairs[first, str(file)] += 1
        return True


def drop_repeated(connection) -> Pairs:
    """Keeps one of the rows of `cases` that are copies in one file."""
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
    """SQL: the rows of a view without those of copies, and without `_source`, its column that numbers `folders`.

    Files of a source are named from its folder; "" stands for one whose files are named as they are.
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
    """A sentence on stderr: how many records stand in several files, and in which."""
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
    """The end of a path says more than its beginning."""
    return spelling.printable(file if len(file) <= 80 else f"…{file[-79:]}")
