"""DuckDB table of all records of a folder, from raw record files, compacted tables, or both.

`open_store(paths)` returns a Store whose view `measurements` has the columns of measurements.COLUMNS. Emulated and
profiled records are left out unless requested; the view `watched` always contains those of `--observe uvm`. Each record
keeps its row with metric_index 0 regardless of the selected metrics, so that cases can be counted by these rows.

A file with lines that are not records (records/validate.py decides) is used in part: it is reported once, with the
first such line, and is not compacted. A file that is gone since it was compacted, or that changes while it is read, is
skipped completely. Both change the exit code of every command: see isthmus.exits.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import pathlib
import tempfile

import duckdb

from isthmus import Error, spelling
from isthmus.records import agreement, compacted, copies, jobs, load, measurements, places, validate
from isthmus.records.load import Skipped

_MEMORY = "1500MB"  # limit on DuckDB's memory; data beyond it is written to temporary files
#: Types of errors that a query raises; text that is not UTF-8 raises others than duckdb.Error.
_FAILURES = (duckdb.Error, UnicodeError, RuntimeError)
_THREADS = 8  # maximum number of threads, since each needs its own buffers and login nodes are shared


@dataclasses.dataclass
class Store:
    """Table `measurements`, and information about what was left out of it."""

    connection: duckdb.DuckDBPyConnection
    _folder: tempfile.TemporaryDirectory
    files: int  # number of files, including skipped ones
    skipped: list[Skipped]
    left_out: dict[str, int]  # number of records of each kind (emulated, profiled) that was not requested
    invalid: int  # number of records without a valid figure; 0 unless the column `invalid` is wanted
    names: dict[str, str]  # host → node name that it shares with other hosts (records.places)
    other_names: dict[str, list[str]]  # host → its other node names
    has_earlier: bool  # true if `since` may have left out records
    in_two_files: copies.Pairs = dataclasses.field(default_factory=dict)  # numbers of records that are in several files
    results: list[agreement.Result] = dataclasses.field(default_factory=list)  # set only by from_arguments()

    def sql(self, query: str, parameters=()) -> duckdb.DuckDBPyConnection:
        """Runs a query over `measurements`, with parameters for its question marks. Raises Error if it fails."""
        try:
            return self.connection.execute(query, parameters)
        except _FAILURES as error:
            raise Error(_why_unread(error)) from None

    def rows(self, query: str, parameters=()) -> list[dict]:
        """Returns the rows of a query's result as dictionaries keyed by column. Raises Error if the query fails."""
        result = self.sql(query, parameters)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row)) for row in result.fetchall()]

    def known(self, column: str, pattern: str) -> dict[str, bool]:
        """Returns all names in a column, regardless of the selection, each with whether the pattern matches it."""
        return _known(self.connection, column, pattern)

    def has(self, condition: str) -> bool:
        """Returns whether any record, regardless of the selection, fulfils a condition over the wanted columns."""
        return bool(self.sql(f"SELECT 1 FROM everything WHERE {condition} LIMIT 1").fetchall())

    def earlier(self) -> Store | None:
        """Returns this selection without its limit `since`, or None if it has no such limit.

        Closing this store also closes the returned one.
        """
        if not self.has_earlier:
            return None
        cursor = self.connection.cursor()
        cursor.execute("SET search_path = 'earlier,main'")
        return dataclasses.replace(self, connection=cursor)

    def say_absent(self, asked=None) -> None:
        """Reports which files could not be read, as load.say_absent() does, and which records are in several files."""
        load.say_absent(self.skipped, self.files, asked)
        copies.say(self.in_two_files)

    def close(self) -> None:
        self.connection.close()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _first_line(error: Exception) -> str:
    return spelling.shorten(str(error).splitlines()[0].removeprefix("IO Error: "))


def _why_unread(error: Exception) -> str:
    if isinstance(error, duckdb.Error):
        return f"the records cannot be read ({_first_line(error)})"
    return "the records cannot be searched for text that is not UTF-8, as all records are"


# --- raw files ---


def _take(connection, paths: list[str], wanted) -> list[Skipped]:
    """Adds the records of files to `cases`. If a file makes DuckDB fail, finds it by bisection and skips it."""
    if not paths:
        return []
    try:
        connection.execute(f"INSERT INTO cases {measurements.cases_of(paths, wanted)}")
        return []
    except _FAILURES as error:
        if len(paths) == 1:
            return [Skipped(paths[0], _first_line(error))]
    middle = len(paths) // 2
    return _take(connection, paths[:middle], wanted) + _take(connection, paths[middle:], wanted)


def read_raw(connection, files: dict[str, list[int]], wanted=measurements.COLUMNS) -> list[Skipped]:
    """Reads files into the table `cases` and returns those that were skipped.

    `files` contains the signature that each file had when it was checked.
    """
    connection.execute(f"CREATE OR REPLACE TABLE cases AS {measurements.nothing(wanted)}")
    skipped = _take(connection, list(files), wanted)
    left = {each.path for each in skipped}
    for path, signature in files.items():
        try:
            alike = load.signature(path) == signature
        except OSError:
            alike = False
        if not alike and path not in left:
            skipped.append(Skipped(path, "changed while it was read: a job is still writing it; try again later"))
            connection.execute("DELETE FROM cases WHERE file = ?", [path])
    return skipped


def _read_in_part(connection, refused: list[Skipped], folder: str, wanted) -> list[Skipped]:
    """Adds the valid lines of refused files to `cases`; returns a report for each file."""
    result = []
    for number, why in enumerate(refused):
        bad: list[validate.RecordError] = []
        records, copy = 0, os.path.join(folder, f"part-{number}.jsonl")
        with open(copy, "wb") as file:
            for line, _ in load.sound_lines(why.path, bad):
                file.write(line + b"\n")
                records += 1
        said = load.in_part(why.path, bad, records) if bad else why
        if said.has_part and not (failed := _take(connection, [copy], wanted)):
            connection.execute("UPDATE cases SET file = ? WHERE file = ?", [why.path, copy])
        elif said.has_part:
            said = dataclasses.replace(failed[0], path=why.path)
        os.unlink(copy)
        result.append(said)
    return result


# --- opening ---


@dataclasses.dataclass
class _Sources:
    """Sources of records below some paths: compacted tables, and raw files whose current content is not in these.

    `tables` pairs each table with the files whose rows in it are not used.
    """

    raw: list[str] = dataclasses.field(default_factory=list)
    tables: list[tuple[compacted.Compacted, list[str]]] = dataclasses.field(default_factory=list)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)
    _met: list[str] = dataclasses.field(default_factory=list)  # compacted tables found inside folders that are read
    _found: list[str] = dataclasses.field(default_factory=list)  # record files found inside these folders
    _tops: list[str] = dataclasses.field(default_factory=list)

    def add(self, path, *, among_others: bool = False) -> None:
        if table := compacted.find(path):
            self.tables.append((table, []))
            self.skipped += load.strays(path) + compacted.unnamed(table)
            return
        met: list[str] = []
        files, skipped = load.find(path, met)
        self._tops.append(path)
        self._met += met
        self._found += files
        self.skipped += skipped
        if table := compacted.find(pathlib.Path(path) / compacted.COMPACTED):
            files = self._newer(table, path, files, skipped)
        elif among_others and not met:
            self.skipped += load.without_files(path, files, skipped)
        self.raw += [file for file in files if file not in self.raw]

    def add_tables_met(self) -> None:
        """Adds tables found inside these folders that were made from other folders, whose records are nowhere else."""
        named = {os.path.realpath(table.folder) for table, _ in self.tables}
        met = [folder for folder in self._met if os.path.realpath(folder) not in named]
        elsewhere, skipped = compacted.unread(met, self._tops, self._found)
        self.tables += [(table, []) for table, _ in elsewhere]
        self.skipped += skipped

    def _newer(self, table: compacted.Compacted, path, files: list[str], skipped: list[Skipped]) -> list[str]:
        """Adds the table in a folder; returns the folder's files whose current content is not in the table."""
        present, known = {os.path.relpath(file, path): file for file in files}, table.files
        if known and not present:
            raise Error(
                f"{path}: all {len(known)} files that were compacted are gone; name {table.folder} to read what it has"
            )
        changed = compacted.changed(table, present)
        self.tables.append((table, changed))
        self.skipped += compacted.lost(table, path, present, changed, skipped)
        return [file for name, file in present.items() if name not in known or name in changed]


def connect() -> tuple[duckdb.DuckDBPyConnection, tempfile.TemporaryDirectory]:
    """Returns an in-memory DuckDB and its temporary folder.

    The database may write temporary data into that folder, and does not access the network.
    """
    folder = tempfile.TemporaryDirectory(prefix="isthmus-")
    connection = duckdb.connect(
        config={
            "memory_limit": _MEMORY,
            "threads": min(os.cpu_count() or 1, _THREADS),
            "temp_directory": folder.name,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    return connection, folder


def open_store(
    paths,
    *,
    wanted=measurements.COLUMNS,
    emulated=False,
    profiled=False,
    where: str = "true",
    since: str = "true",
    metric: str = "true",
    named=(),
    timely: bool = False,
) -> Store:
    """Opens folders and files as one table.

    `wanted` names the columns that will be queried; reading raw files is faster with fewer columns. `where` is SQL over
    these columns that selects records; so is `since`, which Store.earlier() ignores. `metric` is SQL that selects
    metrics without changing the number of records. `named` contains the (column, pattern) pairs that a user wrote.
    `timely` leaves out and reports records with impossible times, for callers that sort records by time. Raises Error
    if one of these patterns matches no record, or if there are no records.
    """
    tells_hosts = "node" in wanted
    wanted = {*wanted, *copies.WANTED, *(places.WANTED if tells_hosts else ())}
    sources = _Sources()
    for path in paths:
        sources.add(path, among_others=len(paths) > 1)
    sources.add_tables_met()
    raw, tables, skipped = sources.raw, sources.tables, list(sources.skipped)
    with load.checker(raw) as apply:
        checked = list(zip(raw, apply(load.check, raw)))
    refused = [why for _, (_, why) in checked if why]
    _refuse_newer(refused)
    connection, folder = connect()
    try:
        skipped += read_raw(connection, {path: signature for path, (signature, why) in checked if not why}, wanted)
        skipped += _read_in_part(connection, refused, folder.name, wanted)
        repeated = copies.drop_repeated(connection)
        queries = [measurements.flat("cases", wanted), *(compacted.parts(*each, wanted) for each in tables)]
        numbered = [f"SELECT *, {number} AS _source FROM ({query})" for number, query in enumerate(queries)]
        connection.execute(f"CREATE VIEW with_copies AS {' UNION ALL BY NAME '.join(numbered)}")
        folders = ["", *(os.path.normpath(table.folder / (table.source or "")) for table, _ in tables)]
        once, found_twice = copies.without(connection, "with_copies", folders)
        connection.execute(f"CREATE VIEW as_recorded AS {once}")
        hosts = places.name_hosts(connection, "as_recorded", wanted=tells_hosts)
        connection.execute(
            f"CREATE VIEW with_hosts AS {places.with_hosts('as_recorded') if hosts.of else 'FROM as_recorded'}"
        )
        reused = jobs.name_jobs(connection, "with_hosts")
        connection.execute(
            f"CREATE VIEW everything AS {jobs.with_names('with_hosts') if reused else 'FROM with_hosts'}"
        )
        kept = ["true" if emulated else "NOT emulated", "true" if profiled else "profiler IS NULL", f"({where})"]
        kept[2] += f" AND ({since})"
        if timely:
            possible = _possible()
            skipped += _untimely(connection, " AND ".join(kept), possible)
            kept[2] += f" AND {possible}"
            where += f" AND {possible}"
        columns = measurements.of_metrics(metric, wanted)
        connection.execute(
            f"CREATE VIEW measurements AS SELECT {columns} FROM everything "
            f"WHERE {' AND '.join(kept)} AND (metric_index = 0 OR ({metric}))"
        )
        if since != "true":
            connection.execute("CREATE SCHEMA earlier")
            connection.execute(
                f"CREATE VIEW earlier.measurements AS SELECT {columns} FROM everything "
                f"WHERE {kept[0]} AND {kept[1]} AND ({where}) AND (metric_index = 0 OR ({metric}))"
            )
        asked = "true" if metric == "true" else f"(metric IS NULL OR ({metric}))"
        watched = " AND ".join([kept[0], "profiler = 'uvm'", kept[2], asked])
        connection.execute(f"CREATE VIEW watched AS SELECT * FROM everything WHERE {watched}")
        [(total, dropped_emulated, dropped_profiled, found, invalid)] = connection.execute(
            "SELECT count(*) FILTER (metric_index = 0), count(*) FILTER (metric_index = 0 AND emulated), "
            "count(*) FILTER (metric_index = 0 AND NOT emulated AND profiler IS NOT NULL), "
            f"count(*) FILTER ({' AND '.join([*kept, asked])}), "
            f"count(*) FILTER (metric_index = 0 AND {' AND '.join(kept)} AND "
            f"{'invalid' if 'invalid' in wanted else 'false'}) FROM everything"
        ).fetchall()
        for column, pattern in named if total else ():
            if not any((known := _known(connection, column, pattern)).values()):
                raise stranger(paths, column, pattern, known)
    except BaseException as error:
        connection.close()
        folder.cleanup()
        if isinstance(error, _FAILURES):
            raise Error(_why_unread(error)) from None
        raise
    left_out = {"emulated": 0 if emulated else dropped_emulated, "profiled": 0 if profiled else dropped_profiled}
    left_out = {kind: count for kind, count in left_out.items() if count}
    files = len(raw) + len(sources.skipped) + sum(len(table.files) - len(changed) for table, changed in tables)
    in_two_files = {**repeated, **found_twice}
    store = Store(
        connection, folder, files, skipped, left_out, invalid, hosts.shared, hosts.others, since != "true", in_two_files
    )
    if not found:
        store.close()
        raise Error(_why_nothing(paths, total, left_out, skipped))
    return store


def _possible() -> str:
    """Returns SQL for whether a record's time is possible: not before 2020, and at most a day ahead of this clock."""
    latest = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    return f"time BETWEEN TIMESTAMP '2020-01-01' AND TIMESTAMP '{latest:%Y-%m-%d %H:%M:%S}'"


def _untimely(connection, kept: str, possible: str) -> list[Skipped]:
    """Returns a report for each file that has records with impossible times."""
    found = connection.execute(
        f"SELECT file, count(*), strftime(min(time), '%Y-%m-%d') FROM everything "
        f"WHERE metric_index = 0 AND {kept} AND NOT ({possible}) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return [
        Skipped(
            file,
            f"{spelling.counted(count, 'record')} with an impossible time, such as {time}, so their order is "
            "unknown; set the clock of that node, and correct or remove them",
            has_part=True,
        )
        for file, count, time in found
    ]


def _known(connection, column: str, pattern: str) -> dict[str, bool]:
    """Returns all names in a column, regardless of the selection, each with whether the pattern matches it."""
    glob = f"name GLOB {measurements.literal(pattern)}"
    other_names = f" UNION SELECT name, {glob} FROM also_called" if column == "node" else ""
    found = connection.execute(
        f"SELECT DISTINCT \"{column}\" AS name, {glob} FROM everything WHERE name <> ''{other_names} ORDER BY name"
    )
    return dict(found.fetchall())


def stranger(paths, column: str, pattern: str, known) -> Error:
    """Returns the error for a pattern that matches no record, with some of the existing names."""
    few = f"; there is {', '.join([*known][:6])}{', …' if len(known) > 6 else ''}" if known else f", nor any {column}"
    return Error(
        f"{', '.join(map(str, paths))}: no record has the {column} {spelling.shorten(pattern, 60)!r}"
        f"{spelling.did_you_mean(pattern, known) or few}"
    )


def _refuse_newer(skipped: list[Skipped]) -> None:
    newer = [each for each in skipped if each.newer]
    if newer:
        files = spelling.counted(len(newer), "file", "are")
        raise Error(
            f"{files} of another version of the record, the first {newer[0].path} ({newer[0].newer}); this Isthmus "
            f"reads {validate.SCHEMA}: use the one that wrote them, or name a folder without them"
        )


def _why_nothing(paths, total: int, left_out: dict[str, int], skipped: list[Skipped]) -> str:
    where = ", ".join(map(str, paths))
    if skipped and not total:
        return load.nothing_taken(paths, skipped)
    if left_out and sum(left_out.values()) == total:
        kinds = " or ".join(left_out)
        options = " and ".join(f"--{kind}" for kind in left_out)
        records = "the only record is" if total == 1 else f"all {total} records are"
        return f"{where}: {records} {kinds}; with {options} they are included, but their times mean little"
    if total:
        records = "the only record is not" if total == 1 else f"none of {total} records is"
        return f"{where}: {records} selected"
    return load.no_record(paths)
