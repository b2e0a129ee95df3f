"""Table `measurements`, which has a row for each metric of each record: its columns and the SQL for them.

Times are in seconds, rates in B/s, sizes in bytes. A record without a metric (skipped, failed) has one row. `tables`
names the tables next to a record. Their `file` is relative to the same folder as the record's `file`: the working
folder for raw records, the folder that was compacted for compacted ones.
"""

from __future__ import annotations

import glob
import re

from isthmus.records import copies, doubts, fields, jobs, withheld

# Fields that are read from each record, with their types; the reader skips all other fields. A dictionary is an object,
# and a dictionary in a list is a list of objects. Only those fields of objects that a query needs are read.
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
        "stolen_share": "DOUBLE",
    },
    "devices": [{
        "name": "VARCHAR", "uuid": "VARCHAR", "pci_bus": "VARCHAR", "arch": "VARCHAR", "driver": "VARCHAR",
        "runtime": "VARCHAR", "memory_bandwidth": "DOUBLE", "fp32_rate": "DOUBLE",
        "pcie": "STRUCT(gen BIGINT, width BIGINT)", "links": "VARCHAR[]", "state": _STATE, "state_after": _STATE,
    }],
    "ranks": {"count": "BIGINT", "library": "VARCHAR"},
    "host": {
        "cpu": "VARCHAR", "kernel": "VARCHAR", "os": "VARCHAR", "cores": "BIGINT", "memory_bytes": "BIGINT",
        "numa_nodes": "BIGINT", "numa_balancing": "BOOLEAN", "thp": "VARCHAR", "governor": "VARCHAR",
        "iommu": "VARCHAR", "boot_id": "VARCHAR", "uvm_parameters": "JSON",
        "speed": "STRUCT(integer_rate DOUBLE, touch_rate DOUBLE, copy_rate DOUBLE)",
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
        "name": "VARCHAR", "unit": "VARCHAR", "better": "VARCHAR", "timer": "VARCHAR", "direction": "VARCHAR",
        "bytes_moved": "DOUBLE", "stop": "VARCHAR", "samples": "DOUBLE[]", "invalid": "BIGINT[]", "median": "DOUBLE",
        "mad": "DOUBLE", "within_job": "DOUBLE[]", "autocorrelation": "DOUBLE",
        "limit": 'STRUCT("value" DOUBLE, source VARCHAR)', "share": "DOUBLE",
    }],
    "submission": "VARCHAR",
    "host_turns": "BIGINT",
    "tables": [{"name": "VARCHAR", "columns": "VARCHAR[]", "file": "VARCHAR", "rows": "BIGINT", "sha256": "VARCHAR"}],
    "verify": {"status": "VARCHAR", "inputs": "VARCHAR", "checksums": "JSON"},
    "warnings": [{"code": "VARCHAR", "message": "VARCHAR", "samples": "BIGINT[]"}],
    "skipped": "VARCHAR",
    "error": "VARCHAR",
}  # fmt: skip

# SQL for whether fields.invalidating() would return any warnings.
_INVALID = (
    "len(warnings) > 0 AND len(list_filter(warnings, lambda w: w.samples IS NULL AND "
    f"w.code IN {fields.INVALIDATING} AND (w.code <> '{fields.FOREIGN}' OR ranks IS NULL))) > 0"
)


def _of_all(expression: str) -> str:
    """Returns SQL for the distinct values of an expression over a record's devices `d`, sorted and joined by +."""
    one = re.sub(r"\bd\.", "devices[1].", expression)  # a lambda takes four times as long
    several = f"array_to_string(list_sort(list_distinct(list_transform(devices, lambda d: {expression}))), '+')"
    return f"CASE WHEN len(devices) = 1 THEN coalesce({one}, '') ELSE {several} END"


def tables_with(file: str) -> str:
    """Returns SQL for a record's list of tables, in which the SQL expression `file` replaces each table's file."""
    return (
        "list_transform(coalesce(tables, []), lambda t: struct_pack(name := t.name, columns := t.columns, "
        f"file := {file}, rows := t.rows, sha256 := t.sha256))"
    )


# Fields of the fingerprint, which may explain differences between figures, in the order in which they are named.
FINGERPRINT = {
    "device": _of_all("d.name"),
    "arch": _of_all("d.arch"),
    "driver": _of_all("d.driver"),
    "runtime": _of_all("d.runtime"),
    "vbios": _of_all("d.state.vbios"),
    "gsp_firmware": _of_all("d.state.gsp_firmware"),
    # The generation falls when the link is idle, so the highest sampled value is the one that the case had.
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
# Fields of the fingerprint that are JSON objects; a single module parameter or variable is addressed as uvm.NAME or
# environment.NAME.
OBJECTS = ("uvm", "environment")
_CASE = {
    "file": "filename",
    "system": "coalesce(run.system, '')",
    "partition": "coalesce(run.partition, '')",
    "node": "run.node",
    "gpus": _of_all("d.uuid"),
    "slots": _of_all("d.uuid || '@' || d.pci_bus"),  # records.places uses them to distinguish hosts with the same name
    "job": jobs.ID,  # unit of experiment; records.jobs distinguishes jobs with the same id
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
    "invalid": _INVALID,
    "memory_bandwidth": "list_min(list_transform(devices, lambda d: d.memory_bandwidth))",
    "fp32_rate": "list_min(list_transform(devices, lambda d: d.fp32_rate))",
    # Measured speed of the host. It varies, so it is not part of the fingerprint.
    "integer_rate": "host.speed.integer_rate",
    "touch_rate": "host.speed.touch_rate",
    "copy_rate": "host.speed.copy_rate",
    "stolen_share": "run.stolen_share",
    "throttle": _of_all("array_to_string(d.state_after.throttle, ',')"),
    # Counted since the process began, so the largest count in its records is the total.
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
    "moved": "coalesce(m.bytes_moved, TRY_CAST(axes->>'bytes' AS DOUBLE))",
    "doubts": "m.doubts",
}
COLUMNS = (*_CASE, *FINGERPRINT, "metric_index", *_METRIC)
# Columns that define a series: same case, same metric. Each comparison decides whether node and GPU must also agree.
SERIES = (
    "workload", "version", "placement", "staging", "size", "preset", "axes", "ranks", "metric", "unit",
)  # fmt: skip
#: SQL list of the columns SERIES.
SERIES_COLUMNS = ", ".join(f'"{name}"' for name in SERIES)


def literal(text: object) -> str:
    """Returns a string as an SQL literal; doubling quotes is DuckDB's only escape."""
    return "'" + str(text).replace("'", "''") + "'"


def list_of(paths) -> str:
    """Returns SQL for a list of paths, escaped because DuckDB treats each as a pattern."""
    return "[" + ", ".join(literal(glob.escape(str(path))) for path in paths) + "]"


def _read_columns(used: str) -> dict[str, str]:
    """Returns the columns to read and their DuckDB types, limited to fields that the expressions `used` name."""
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
    return " ".join([*columns_of(wanted).values(), *metric, _metrics(wanted)])


def _metrics(wanted) -> str:
    """Returns SQL for the list of a record's metrics, including each metric's doubts if column `doubts` is wanted."""
    metrics = withheld.sql_metrics()
    if "doubts" not in wanted:
        return metrics
    return f"list_transform({metrics}, lambda m: struct_insert(m, doubts := {doubts.sql()}))"


def _selected(columns: dict) -> str:
    return ", ".join(f'{expression} AS "{name}"' for name, expression in columns.items())


def columns_of(wanted) -> dict[str, str]:
    """Returns those columns of a record that are wanted or needed to recognise copies, with their SQL."""
    needed = copies.WANTED
    return {name: expression for name, expression in {**_CASE, **FINGERPRINT}.items() if name in {*wanted, *needed}}


def cases_of(paths, wanted) -> str:
    """Returns SQL that reads raw files into a row per record, with the record's metrics as the list `metrics`."""
    columns = ", ".join(f"{name}: {literal(kind)}" for name, kind in _read_columns(_expressions(wanted)).items())
    return (
        f"SELECT {_selected(columns_of(wanted))}, {_metrics(wanted)} AS metrics FROM read_json({list_of(paths)}, "
        f"format = 'newline_delimited', columns = {{{columns}}}, filename = true, auto_detect = false)"
    )


def flat(cases: str, wanted) -> str:
    """Returns SQL for a row per metric of each record in `cases`, and one row for a record without metrics."""
    names = ", ".join(f'"{name}"' for name in columns_of(wanted))
    metric = {name: expression for name, expression in _METRIC.items() if name in wanted}
    return (
        f"SELECT {names}, metric_index{', ' if metric else ''}{_selected(metric)} FROM (SELECT *, "
        "unnest(CASE WHEN len(metrics) > 0 THEN metrics ELSE [NULL] END) AS m, "
        f"unnest(CASE WHEN len(metrics) > 0 THEN range(len(metrics)) ELSE [0] END) AS metric_index FROM {cases})"
    )


def of_metrics(condition: str, wanted) -> str:
    """Returns SQL for all columns; the columns of a metric are null if it does not meet the condition."""
    if condition == "true":
        return "*"
    names = ", ".join(f'CASE WHEN {condition} THEN "{name}" END AS "{name}"' for name in _METRIC if name in wanted)
    return f"* REPLACE ({names})"


def nothing(wanted) -> str:
    """Returns SQL for an empty table with the columns of `cases`."""
    columns = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in _read_columns(_expressions(wanted)).items())
    selected = f"{_selected(columns_of(wanted))}, {_metrics(wanted)} AS metrics"
    return f"SELECT {selected} FROM (SELECT {columns}, NULL::VARCHAR AS filename) WHERE false"
