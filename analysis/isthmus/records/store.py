"""One table of all records of a folder, by DuckDB: raw record files, compacted ones, or both.

`open_store(paths)` gives a Store whose view `measurements` has one row per metric of a record, and one row without a
metric for a record that has none (skipped, failed). Columns are named in COLUMNS; times are in seconds, rates in B/s,
sizes in bytes. Emulated and profiled records are left out unless asked for.

`tables` names the tables beside a record, each `file` from where `file` of the record starts: the working folder for
raw records, the folder that was compacted for compacted ones.

A file of which a line is no record is skipped as a whole, named once, and counted, whether it is read raw or compacted:
records/validate.py judges both. So is a file that is gone since it was compacted, or changes while it is read. What
was skipped changes the exit code of every command: isthmus.exits.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile
from time import time_ns

import duckdb

from isthmus import Error, spelling
from isthmus.records import content, load, validate
from isthmus.records.load import Skipped

COMPACTED = "compacted"  # the folder inside a folder of records where `isthmus compact` keeps its table
_MEMORY = "1500MB"  # DuckDB's own limit; what is larger goes to temporary files
_THREADS = 8  # at most: each has buffers of its own, and login nodes are shared

# What is read of each record; everything else in it is passed over by the reader. A dictionary is an object, or, in a
# list, the objects of a list, of which only the fields are read that a query needs.
_STATE = (
    "STRUCT(pcie STRUCT(gen BIGINT, width BIGINT), ecc BOOLEAN, ecc_uncorrected BIGINT, xids BIGINT[], mig BOOLEAN, "
    "persistence BOOLEAN, compute_mode VARCHAR, gsp_firmware VARCHAR, vbios VARCHAR, power_limit_w DOUBLE, "
    "throttle VARCHAR[])"
)
_READ: dict[str, str | dict[str, str] | list[dict[str, str]]] = {
    "schema": "VARCHAR",
    "run": {
        "id": "VARCHAR", "time": "VARCHAR", "git": "VARCHAR", "dirty": "BOOLEAN", "system": "VARCHAR",
        "partition": "VARCHAR", "node": "VARCHAR", "job": "VARCHAR", "process": "BIGINT", "environment": "JSON",
    },
    "devices": [{
        "name": "VARCHAR", "uuid": "VARCHAR", "arch": "VARCHAR", "driver": "VARCHAR", "runtime": "VARCHAR",
        "memory_bandwidth": "DOUBLE", "fp32_rate": "DOUBLE", "pcie": "STRUCT(gen BIGINT, width BIGINT)",
        "links": "VARCHAR[]", "state": _STATE, "state_after": _STATE,
    }],
    "ranks": {"count": "BIGINT", "library": "VARCHAR"},
    "host": {
        "cpu": "VARCHAR", "kernel": "VARCHAR", "os": "VARCHAR", "cores": "BIGINT", "memory_bytes": "BIGINT",
        "numa_nodes": "BIGINT", "numa_balancing": "BOOLEAN", "thp": "VARCHAR", "governor": "VARCHAR",
        "iommu": "VARCHAR", "boot_id": "VARCHAR", "uvm_parameters": "JSON",
    },
    "build": {"compiler": "VARCHAR", "flags": "VARCHAR", "code": "VARCHAR", "package": "VARCHAR"},
    "emulated": "BOOLEAN",
    "profiler": "VARCHAR",
    "workload": "VARCHAR",
    "version": "BIGINT",
    "placement": "VARCHAR",
    "staging": "VARCHAR",
    "mode": "VARCHAR",
    "fallback": "VARCHAR",
    "size": "VARCHAR",
    "preset": "VARCHAR",
    "axes": "JSON",
    "metrics": [{
        "name": "VARCHAR", "unit": "VARCHAR", "better": "VARCHAR", "direction": "VARCHAR", "samples": "DOUBLE[]",
        "invalid": "BIGINT[]", "median": "DOUBLE", "mad": "DOUBLE", "within_job": "DOUBLE[]",
        "autocorrelation": "DOUBLE", "limit": 'STRUCT("value" DOUBLE, source VARCHAR)', "share": "DOUBLE",
    }],
    "submission": "VARCHAR",
    "host_turns": "BIGINT",
    "tables": [{"name": "VARCHAR", "columns": "VARCHAR[]", "file": "VARCHAR", "rows": "BIGINT", "sha256": "VARCHAR"}],
    "verify": {"status": "VARCHAR", "inputs": "VARCHAR", "checksums": "JSON"},
    "warnings": [{"code": "VARCHAR", "samples": "BIGINT[]"}],
    "skipped": "VARCHAR",
    "error": "VARCHAR",
}  # fmt: skip

# What content.spoiling() says.
_SPOILT = (
    "len(warnings) > 0 AND len(list_filter(warnings, lambda w: w.samples IS NULL AND "
    f"w.code IN {content.SPOILING} AND (w.code <> '{content.FOREIGN}' OR ranks IS NULL))) > 0"
)


def _of_all(expression: str) -> str:
    """What the devices d of a record have, each once, joined; one value where they are alike."""
    one = re.sub(r"\bd\.", "devices[1].", expression)  # lambdas cost four times as much
    several = f"array_to_string(list_sort(list_distinct(list_transform(devices, lambda d: {expression}))), '+')"
    return f"CASE WHEN len(devices) = 1 THEN coalesce({one}, '') ELSE {several} END"


def tables_with(file: str) -> str:
    """SQL: a record's tables t, each with another `file`."""
    return (
        "list_transform(coalesce(tables, []), lambda t: struct_pack(name := t.name, columns := t.columns, "
        f"file := {file}, rows := t.rows, sha256 := t.sha256))"
    )


# Fields of the fingerprint, in the order in which a difference is told: what stands beside a figure and may explain it.
FINGERPRINT = {
    "device": _of_all("d.name"),
    "arch": _of_all("d.arch"),
    "driver": _of_all("d.driver"),
    "runtime": _of_all("d.runtime"),
    "vbios": _of_all("d.state.vbios"),
    "gsp_firmware": _of_all("d.state.gsp_firmware"),
    # The generation falls when the link idles: the higher of the readings is what the case had.
    "pcie_gen": "list_min(list_transform(devices, lambda d: greatest(d.state.pcie.gen, d.state_after.pcie.gen, "
    "d.pcie.gen)))",
    "pcie_width": "list_min(list_transform(devices, lambda d: coalesce(d.state_after.pcie.width, d.state.pcie.width, "
    "d.pcie.width)))",
    "links": "list_min(list_transform(devices, lambda d: len(d.links)))",
    "ecc": _of_all("d.state.ecc::VARCHAR"),
    "mig": _of_all("d.state.mig::VARCHAR"),
    "persistence": _of_all("d.state.persistence::VARCHAR"),
    "compute_mode": _of_all("d.state.compute_mode"),
    "power_limit": "list_min(list_transform(devices, lambda d: d.state.power_limit_w))",
    "cpu": "host.cpu",
    "cores": "host.cores",
    "memory": "host.memory_bytes",
    "kernel": "host.kernel",
    "os": "host.os",
    "governor": "host.governor",
    "iommu": "host.iommu",
    "thp": "host.thp",
    "numa_nodes": "host.numa_nodes",
    "numa_balancing": "host.numa_balancing::VARCHAR",
    "uvm": "host.uvm_parameters::VARCHAR",
    "environment": "run.environment::VARCHAR",
    "boot": "host.boot_id",
    "git": "run.git",
    "compiler": "build.compiler",
    "flags": "build.flags",
    "code": "build.code",
    "package": "build.package",
    "mpi": "ranks.library",
}
# Of these, JSON objects; one parameter of the module, or one variable, is asked for as uvm.NAME or environment.NAME.
OBJECTS = ("uvm", "environment")
_CASE = {
    "file": "filename",
    "system": "coalesce(run.system, '')",
    "partition": "coalesce(run.partition, '')",
    "node": "run.node",
    "gpus": _of_all("d.uuid"),
    # The unit of experiment. Job numbers are a scheduler's own, so two systems may have the same one.
    "job": "coalesce(coalesce(run.system || '#', '') || run.job, run.id)",
    "run_id": "run.id",
    "process": "run.process",
    "time": "strptime(run.time, '%Y-%m-%dT%H:%M:%SZ')",
    "dirty": "run.dirty",
    "workload": "workload",
    "version": "version",
    "placement": "placement",
    "staging": "staging",
    "mode": "mode",
    "fallback": "fallback",
    "submission": "submission",
    "host_turns": "host_turns",
    "size": "size",
    "preset": "preset",
    "axes": "axes::VARCHAR",
    "ranks": "ranks.count",
    "emulated": "emulated",
    "profiler": "profiler",
    "verify": "verify.status",
    "inputs": "verify.inputs",
    "checksums": "verify.checksums::VARCHAR",
    "skipped": "skipped",
    "error": "error",
    "tables": tables_with("regexp_extract(filename, '^(.*/)?') || t.file"),
    "warnings": "CASE WHEN len(warnings) > 0 THEN list_sort(list_distinct(list_transform(warnings, lambda w: w.code))) "
    "ELSE [] END",
    "spoilt": _SPOILT,
    "memory_bandwidth": "list_min(list_transform(devices, lambda d: d.memory_bandwidth))",
    "fp32_rate": "list_min(list_transform(devices, lambda d: d.fp32_rate))",
    "throttle": _of_all("array_to_string(d.state_after.throttle, ',')"),
    # Since the process began: the most of its records is what came up in all of them.
    "xids": "list_max(list_transform(devices, lambda d: len(d.state_after.xids)))",
    "ecc_uncorrected": "list_max(list_transform(devices, lambda d: d.state_after.ecc_uncorrected))",
}
_METRIC = {
    "metric": "m.name",
    "unit": "m.unit",
    "better": "m.better",
    "direction": "m.direction",
    "median": "m.median",
    "mad": "m.mad",
    "samples": "m.samples",
    "n_samples": "len(m.samples)",
    "n_invalid": 'coalesce(len(m."invalid"), 0)',
    "within_low": "m.within_job[1]",
    "within_high": "m.within_job[2]",
    "autocorrelation": "m.autocorrelation",
    "limit_value": 'm."limit"."value"',
    "limit_source": 'm."limit".source',
    "share": "m.share",
}
COLUMNS = (*_CASE, *FINGERPRINT, "metric_index", *_METRIC)
# Same case, same metric: what may be compared. The node and the GPU are left to the comparison.
SERIES = (
    "workload", "version", "placement", "staging", "size", "preset", "axes", "ranks", "metric", "unit",
)  # fmt: skip
#: The same, for SQL.
SERIES_COLUMNS = ", ".join(f'"{name}"' for name in SERIES)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a record says that a case computed; those of one `case` must have one checksum."""

    case: tuple  # workload, version, inputs, buffer
    checksum: str
    record: str


@dataclasses.dataclass
class Store:
    """The table `measurements`, and what is not in it."""

    connection: duckdb.DuckDBPyConnection
    _folder: tempfile.TemporaryDirectory
    files: int  # that were read
    skipped: list[Skipped]
    left_out: dict[str, int]  # records that were not asked for: emulated, profiled
    spoilt: int  # records of which no figure counts, where the column is wanted
    results: list[Result] = dataclasses.field(default_factory=list)  # for from_arguments(): what records computed

    def sql(self, query: str, parameters=()) -> duckdb.DuckDBPyConnection:
        """Runs a query over `measurements`; parameters stand for its question marks."""
        try:
            return self.connection.execute(query, parameters)
        except duckdb.Error as error:
            raise Error(f"the records cannot be read ({_first_line(error)})") from None

    def rows(self, query: str, parameters=()) -> list[dict]:
        """The result of a query as dictionaries by column."""
        result = self.sql(query, parameters)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row)) for row in result.fetchall()]

    def close(self) -> None:
        self.connection.close()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _first_line(error: Exception) -> str:
    return spelling.shorten(str(error).splitlines()[0].removeprefix("IO Error: "))


def literal(text: object) -> str:
    """A string as SQL; DuckDB knows no escapes but the doubled quote."""
    return "'" + str(text).replace("'", "''") + "'"


def _exact(path) -> str:
    """A path as a DuckDB pattern that means only itself."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _list(paths) -> str:
    return "[" + ", ".join(literal(_exact(path)) for path in paths) + "]"


def _read_columns(used: str) -> dict[str, str]:
    """Columns and their types as DuckDB reads them, with the fields whose names stand in the expressions `used`."""
    words = set(re.findall(r"\w+", used))
    columns = {}
    for name, kind in _READ.items():
        fields = kind[0] if isinstance(kind, list) else kind
        if isinstance(fields, dict):
            needed = {field: own for field, own in fields.items() if field in words} or dict(
                [next(iter(fields.items()))]
            )
            kind_of = f"STRUCT({', '.join(f'{chr(34)}{field}{chr(34)} {own}' for field, own in needed.items())})"
            columns[name] = kind_of + ("[]" if isinstance(kind, list) else "")
        else:
            columns[name] = fields
    return columns


def _expressions(wanted) -> str:
    metric = [expression for name, expression in _METRIC.items() if name in wanted]
    return " ".join([*_columns(wanted).values(), *metric, "metrics.name"])


def _reader(paths, wanted=()) -> str:
    columns = ", ".join(f"{name}: {literal(kind)}" for name, kind in _read_columns(_expressions(wanted)).items())
    return (
        f"read_json({_list(paths)}, format = 'newline_delimited', columns = {{{columns}}}, "
        "filename = true, auto_detect = false)"
    )


def _selected(columns: dict) -> str:
    return ", ".join(f'{expression} AS "{name}"' for name, expression in columns.items())


def _columns(wanted) -> dict[str, str]:
    """Of a record's own columns, those that are wanted or needed to judge it."""
    needed = {"file", "run_id", "node", "time", "workload", "version", "emulated", "profiler", "axes", "verify"}
    return {name: expression for name, expression in {**_CASE, **FINGERPRINT}.items() if name in {*wanted, *needed}}


def _cases(paths, wanted) -> str:
    """SQL that reads raw files: a row per record, its metrics as a list `metrics`."""
    return f"SELECT {_selected(_columns(wanted))}, metrics FROM {_reader(paths, wanted)}"


def flat(cases: str, wanted) -> str:
    """SQL that gives each metric of `cases` a row of its own, and a record without one row."""
    names = ", ".join(f'"{name}"' for name in _columns(wanted))
    metric = {name: expression for name, expression in _METRIC.items() if name in wanted}
    return (
        f"SELECT {names}, metric_index{', ' if metric else ''}{_selected(metric)} FROM (SELECT *, "
        "unnest(CASE WHEN len(metrics) > 0 THEN metrics ELSE [NULL] END) AS m, "
        f"unnest(CASE WHEN len(metrics) > 0 THEN range(len(metrics)) ELSE [0] END) AS metric_index FROM {cases})"
    )


def _take(connection, paths: list[str], wanted) -> list[Skipped]:
    """Adds the records of files to `cases`; a file that stops DuckDB is found by halves and skipped."""
    if not paths:
        return []
    try:
        connection.execute(f"INSERT INTO cases {_cases(paths, wanted)}")
        return []
    except (duckdb.Error, UnicodeError, RuntimeError) as error:
        if len(paths) == 1:
            return [Skipped(paths[0], _first_line(error))]
    middle = len(paths) // 2
    return _take(connection, paths[:middle], wanted) + _take(connection, paths[middle:], wanted)


def read_raw(connection, files: dict[str, list[int]], wanted=COLUMNS) -> list[Skipped]:
    """Reads files that were checked, by their signatures then, into the table `cases` and says which were skipped."""
    connection.execute(f"CREATE OR REPLACE TABLE cases AS {_nothing(wanted)}")
    skipped = _take(connection, list(files), wanted)
    left = {each.path for each in skipped}
    for path, signature in files.items():
        try:
            alike = load.signature(path) == signature
        except OSError:
            alike = False
        if not alike and path not in left:
            skipped.append(Skipped(path, "changed while it was read: a job still writes it; ask again later"))
            connection.execute("DELETE FROM cases WHERE file = ?", [path])
    return skipped


def _nothing(wanted) -> str:
    """The columns of `cases` without a row."""
    columns = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in _read_columns(_expressions(wanted)).items())
    selected = f"{_selected(_columns(wanted))}, metrics"
    return f"SELECT {selected} FROM (SELECT {columns}, NULL::VARCHAR AS filename) WHERE false"


# --- compacted tables ---


@dataclasses.dataclass
class Compacted:
    """What the manifests of a compacted folder say."""

    folder: pathlib.Path
    files: dict[str, list]  # bytes, time, inode and SHA-256 of each source file, as they were when it was last taken
    parts: list[str]
    outdated: list[tuple[str, str]]  # (part, file): rows that a later part has anew, or whose file is gone


_AT_ONCE = 2_000_000_000  # ns: an edit so soon after the last one may leave the time of a file as it was


def entry(path, signature: list[int]) -> list:
    """What a manifest keeps of a file of this signature. The time is null where another edit may have had the same."""
    with load.open_file(path) as file:
        digest = hashlib.file_digest(file, "sha256") if sys.version_info >= (3, 11) else hashlib.sha256(file.read())
    size, changed, inode = signature
    return [size, changed if time_ns() - changed > _AT_ONCE else None, inode, digest.hexdigest()]


def seal(path) -> list:
    """What a manifest keeps of a part, which nobody writes again; unchanged() takes it."""
    signature = load.signature(path)
    return [*signature, entry(path, signature)[3]]


def unchanged(path, known: list) -> bool:
    """Whether a file is as its entry in a manifest has it; where only time or inode differ, its hash tells."""
    try:
        size, *when = load.signature(path)
        return size == known[0] and (when == known[1:3] or entry(path, [size, *when])[3] == known[3])
    except OSError:
        return False


def manifests(folder) -> list[pathlib.Path]:
    """Manifests of a compacted folder, oldest first; their names count up."""
    return sorted((pathlib.Path(folder) / load.MANIFESTS).glob("[0-9]*.json"))


def _manifest(path: pathlib.Path) -> tuple[dict[str, list], dict[str, list], list[str]]:
    """Files, parts with their seals, and files that are gone, of a manifest."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        files, gone = dict(manifest["files"]), list(manifest.get("gone", ()))
        parts = manifest["parts"]
        if isinstance(parts, list):  # an earlier version's, without seals
            parts = {name: [] for name in parts}
        parts = dict(parts)
        if not all(isinstance(name, str) for name in (*files, *parts, *gone)):
            raise TypeError("a name is no text")
        written = manifest["columns"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Error(f"{path}: no manifest of a compacted table ({error}); remove it and compact again") from None
    known = [*files.values(), *parts.values()]
    if written != list(COLUMNS) or not all(isinstance(each, list) and len(each) == 4 for each in known):
        raise Error(f"{path.parents[1]}: compacted by another version of Isthmus; remove this folder and compact again")
    for part in parts:
        if pathlib.PurePosixPath(part).is_absolute() or ".." in pathlib.PurePosixPath(part).parts:
            raise Error(f"{path.parents[1]}: a manifest names a part outside of it ({spelling.shorten(part)})")
    return files, parts, gone


def compacted(folder) -> Compacted | None:
    """The compacted table in this folder, or None where there is none."""
    folder = pathlib.Path(folder)
    result = Compacted(folder, {}, [], [])
    held: dict[str, list[list[str]]] = {}  # by file: the parts of each version of it
    seals: dict[str, list] = {}
    found = manifests(folder)
    for path in found:
        files, parts, gone = _manifest(path)
        for file, known in files.items():
            held.setdefault(file, []).append(list(parts))
            result.files[file] = known
        for file in gone:
            held.setdefault(file, []).append([])
            result.files.pop(file, None)
        seals |= parts
    for file, versions in held.items():
        older = {part for parts in versions[:-1] for part in parts} - set(versions[-1])
        result.outdated += [(part, file) for part in sorted(older)]
    result.parts = list(seals)
    for part, known in seals.items():
        if not (folder / part).is_file():
            raise Error(f"{folder / part}: a part of the compacted table is gone; remove the folder and compact again")
        if not unchanged(folder / part, known):
            raise Error(
                f"{folder / part}: this part of the compacted table was altered since it was written (its SHA-256 is "
                "another); remove the folder and compact again"
            )
    return result if found else None


def parts(table: Compacted, changed: list[str], wanted) -> str:
    """SQL over the parts, without what is newer elsewhere; `changed` are files to be read raw instead."""
    names = ", ".join(f'"{name}"' for name in COLUMNS if name in {*_columns(wanted), "metric_index", *wanted})
    paths = _list(table.folder / part for part in table.parts)
    query = f"SELECT {names} FROM read_parquet({paths}, filename = '_part', hive_partitioning = false)"
    without = []
    if changed:
        without.append(f"file NOT IN ({', '.join(map(literal, changed))})")
    if table.outdated:
        pairs = ", ".join(f"({literal(table.folder / part)}, {literal(file)})" for part, file in table.outdated)
        without.append(f"(_part, file) NOT IN ({pairs})")
    return query + (" WHERE " + " AND ".join(without) if without else "")


def hidden(path: str, skipped: list[Skipped]) -> bool:
    """Whether a file may well be there, in or as something that could not be looked at."""
    return any(path == each.path or path.startswith(each.path + os.sep) for each in skipped)


@dataclasses.dataclass
class _Sources:
    """Of some paths: raw files that no compacted table has as they are now, and what cannot be read.

    Beside each table stand the files that are not read from it.
    """

    raw: list[str] = dataclasses.field(default_factory=list)
    tables: list[tuple[Compacted, list[str]]] = dataclasses.field(default_factory=list)
    skipped: list[Skipped] = dataclasses.field(default_factory=list)

    def add(self, path) -> None:
        if table := compacted(path):
            self.tables.append((table, []))
            return
        files, skipped = load.find(path)
        self.skipped += skipped
        if table := compacted(pathlib.Path(path) / COMPACTED):
            files = self._newer(table, path, files, skipped)
        self.raw += [file for file in files if file not in self.raw]

    def _newer(self, table: Compacted, path, files: list[str], skipped: list[Skipped]) -> list[str]:
        """Takes the table that lies in a folder; returns those of the folder's files that are not in it as they are."""
        present, known = {os.path.relpath(file, path): file for file in files}, table.files
        if known and not present:
            raise Error(
                f"{path}: all {len(known)} files that were compacted are gone; name {table.folder} to read what it has"
            )
        changed = [name for name in known if name not in present or not unchanged(present[name], known[name])]
        self.tables.append((table, changed))
        for name in changed:
            gone = os.path.join(path, name)
            if name not in present and not hidden(gone, skipped):
                self.skipped.append(Skipped(gone, "compacted before, and gone since; `isthmus compact` forgets it"))
        return [file for name, file in present.items() if name not in known or name in changed]


def connect() -> tuple[duckdb.DuckDBPyConnection, tempfile.TemporaryDirectory]:
    """A DuckDB in memory that may spill into a folder of its own, and has no way to the network."""
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


def open_store(paths, *, wanted=COLUMNS, emulated=False, profiled=False, where: str = "true") -> Store:
    """Opens folders and files as one table.

    `wanted` names the columns that will be asked for: raw files are read faster for fewer. `where` is SQL over them.
    Raises Error where there is no record.
    """
    sources = _Sources()
    for path in paths:
        sources.add(path)
    raw, tables, skipped = sources.raw, sources.tables, list(sources.skipped)
    with load.checker(raw) as apply:
        checked = list(zip(raw, apply(load.check, raw)))
    skipped += [why for _, (_, why) in checked if why]
    _refuse_newer(skipped)
    connection, folder = connect()
    try:
        skipped += read_raw(connection, {path: signature for path, (signature, why) in checked if not why}, wanted)
        query = " UNION ALL BY NAME ".join(
            ([flat("cases", wanted)] if raw or not tables else [])
            + [parts(table, changed, wanted) for table, changed in tables]
        )
        connection.execute(f"CREATE VIEW everything AS {query}")
        kept = ["true" if emulated else "NOT emulated", "true" if profiled else "profiler IS NULL", f"({where})"]
        connection.execute(f"CREATE VIEW measurements AS SELECT * FROM everything WHERE {' AND '.join(kept)}")
        [(total, dropped_emulated, dropped_profiled, found, spoilt)] = connection.execute(
            "SELECT count(*) FILTER (metric_index = 0), count(*) FILTER (metric_index = 0 AND emulated), "
            "count(*) FILTER (metric_index = 0 AND NOT emulated AND profiler IS NOT NULL), "
            f"count(*) FILTER ({' AND '.join(kept)}), count(*) FILTER (metric_index = 0 AND {' AND '.join(kept)} AND "
            f"{'spoilt' if 'spoilt' in wanted else 'false'}) FROM everything"
        ).fetchall()
    except BaseException as error:
        connection.close()
        folder.cleanup()
        if isinstance(error, duckdb.Error):
            raise Error(f"the records cannot be read ({_first_line(error)})") from None
        raise
    left_out = {"emulated": 0 if emulated else dropped_emulated, "profiled": 0 if profiled else dropped_profiled}
    left_out = {kind: count for kind, count in left_out.items() if count}
    files = len(raw) + len(sources.skipped) + sum(len(table.files) - len(changed) for table, changed in tables)
    store = Store(connection, folder, files, skipped, left_out, spoilt)
    if not found:
        store.close()
        raise Error(_why_nothing(paths, total, left_out, skipped))
    return store


def _refuse_newer(skipped: list[Skipped]) -> None:
    newer = [each for each in skipped if each.newer]
    if newer:
        raise Error(
            f"{len(newer)} files are of another version of the record, the first {newer[0].path} ({newer[0].newer}); "
            f"this Isthmus reads {validate.SCHEMA} and earlier: use the one that wrote them, or name a folder without "
            "them"
        )


def _why_nothing(paths, total: int, left_out: dict[str, int], skipped: list[Skipped]) -> str:
    where = ", ".join(map(str, paths))
    if skipped and not total:
        first = f"{skipped[0].path}: {skipped[0].why}"
        return f"{where}: none of {len(skipped)} files holds records that can be read (the first, {first})"
    if left_out and sum(left_out.values()) == total:
        kinds = " or ".join(left_out)
        options = " and ".join(f"--{kind}" for kind in left_out)
        return f"{where}: all {total} records are {kinds}; {options} takes them, but their times mean little"
    if total:
        return f"{where}: none of {total} records is what was asked for"
    return f"{where}: {load.NO_RECORD}"


# --- results that must be the same ---

RESULTS = ("file", "time", "workload", "version", "placement", "staging", "inputs", "checksums", "verify", "error")


def results(sql) -> list[Result]:
    """What the records of `measurements` computed, each result with one record; `sql` runs a query over RESULTS.

    A case that failed is known to be wrong and says nothing of others.
    """
    found = []
    for *case, checksums, file, time, placement, staging in sql(
        "SELECT DISTINCT ON (workload, version, inputs, checksums) workload, version, inputs, checksums, file, time, "
        "placement, staging FROM measurements WHERE inputs IS NOT NULL AND checksums IS NOT NULL AND verify <> 'fail' "
        "AND error IS NULL ORDER BY time, file, placement, staging, checksums"
    ).fetchall():
        record = f"{file} ({placement or 'no placement'}, {staging or 'no staging'}, {time:%Y-%m-%dT%H:%M:%SZ})"
        stated = json.loads(checksums)
        if isinstance(stated, dict):
            found += [Result((*case, buffer), str(checksum), record) for buffer, checksum in stated.items()]
    return found


def disagreements(found: list[Result]) -> list[str]:
    """A sentence for each result that two records state differently, naming both."""
    first: dict[tuple, Result] = {}
    said: dict[tuple, str] = {}
    for result in found:
        other = first.setdefault(result.case, result)
        if other.checksum != result.checksum and result.case not in said:
            workload, version, inputs, buffer = (spelling.printable(spelling.shorten(str(x), 80)) for x in result.case)
            said[result.case] = (
                f"{spelling.printable(other.record)} and {spelling.printable(result.record)} disagree: {workload} "
                f"(version {version}) computed another {buffer} from the same inputs ({inputs}); one of them is "
                "wrong, or the workload changed without a new version"
            )
    return list(said.values())


# --- for commands ---


def add_arguments(parser) -> None:
    """Options that say which records are meant."""
    parser.add_argument("paths", nargs="+", metavar="DIR", help="folder with record files, or a file")
    add_selection(parser)


def add_selection(parser) -> None:
    group = parser.add_argument_group("which records")
    group.add_argument("--workload", metavar="PATTERN", action="append", help="such as 'transfer/*' (may be repeated)")
    group.add_argument("--metric", metavar="NAME", action="append", help="such as rate (may be repeated)")
    group.add_argument("--system", metavar="NAME", help="of this system only")
    group.add_argument("--since", metavar="DATE", help="from this day on (UTC), 2026-11-21, or time, 2026-11-21T14:00")
    group.add_argument("--until", metavar="DATE", help="before this day or time")
    group.add_argument("--emulated", action="store_true", help="emulated records, too: their times mean nothing")
    group.add_argument("--profiled", action="store_true", help="profiled runs, too")


def moment(text: str) -> str:
    """A day or time as SQL; refuses what is neither."""
    try:
        return f"TIMESTAMP {literal(datetime.datetime.fromisoformat(text).isoformat(sep=' '))}"
    except ValueError:
        raise Error(f"{spelling.shorten(text, 40)!r} is no date; write 2026-11-21 or 2026-11-21T14:00") from None


def _any_of(column: str, patterns) -> str:
    return "(" + " OR ".join(f"{column} GLOB {literal(pattern)}" for pattern in patterns) + ")"


def from_arguments(asked, *, paths=None, wanted=COLUMNS, agreeing: bool = False) -> Store:
    """The store that the options of add_selection() ask for; names on stderr what was left out, and what disagrees.

    With `agreeing`, raises Error for records that state different results of the same inputs.
    """
    where = []
    if asked.workload:
        where.append(_any_of("workload", asked.workload))
    if asked.metric:
        where.append("(metric IS NULL OR " + _any_of("metric", asked.metric) + ")")
    if asked.system:
        where.append(f"system = {literal(asked.system)}")
    if asked.since:
        where.append(f"time >= {moment(asked.since)}")
    if asked.until:
        where.append(f"time < {moment(asked.until)}")
    wanted = {*wanted, *RESULTS, "system", "metric"}
    store = open_store(
        paths or asked.paths,
        wanted=wanted,
        emulated=asked.emulated,
        profiled=asked.profiled,
        where=" AND ".join(where) or "true",
    )
    asked.absent = [*getattr(asked, "absent", []), *store.skipped]  # for the exit code: isthmus.cli
    say_left_out(store, asked)
    store.results = results(store.sql)
    wrong = disagreements(store.results)
    if wrong and agreeing:
        store.close()
        raise Error(f"{wrong[0]}; {len(wrong) - 1} more such results" if len(wrong) > 1 else wrong[0])
    say_disagreements(wrong)
    return store


_NAMED = 10


def say_skipped(store: Store, asked=None) -> None:
    """Names what was skipped: load.say_absent()."""
    load.say_absent(store.skipped, store.files, asked)


def say_disagreements(sentences: list[str]) -> None:
    for sentence in sentences[:_NAMED]:
        print(sentence, file=sys.stderr)
    if len(sentences) > _NAMED:
        print(f"{len(sentences) - _NAMED} more results disagree", file=sys.stderr)


def say_left_out(store: Store, asked=None) -> None:
    """The same, and how many records were left out, and why."""
    say_skipped(store, asked)
    for kind, count in store.left_out.items():
        print(f"{count} {kind} records left out; --{kind} takes them", file=sys.stderr)
    content.say_spoilt(store.spoilt)
