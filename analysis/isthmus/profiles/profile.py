"""What profilers wrote, in one form: kernels, copies, migrations, page faults, API calls, counters.

`read(tool, folder)` takes what `-S profiler=TOOL` left beside a record (one set of files per rank) and gives a Profile;
`amend(records, profile)` writes it into the records of that run. `isthmus profile TOOL FOLDER` prints it, of any run of
a profiler. docs/profiling.md says which figure comes from where.
Sources: NVIDIA's export schema of Nsight Systems, the raw page of Nsight Compute, rocprofv3's csv, json and rocpd
outputs, perf-stat(1)'s CSV, and src/trace/cupti_counts.cpp.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import pathlib
import re
import sqlite3
import textwrap
from collections.abc import Callable
from typing import Any

from isthmus import Error, exits, spelling
from isthmus.tables import output

#: Metrics of a record that a profiler's figures become begin so.
PROFILED = "profiled_"

TOOLS = ("nsys", "ncu", "rocprofv3", "cupti", "perf")


class ProfileError(Error):
    """A profiler's output that cannot be taken; says which file and why."""


@dataclasses.dataclass
class Kernel:
    count: int = 0
    seconds: float = 0.0
    registers: int | None = None
    shared_bytes: int | None = None


@dataclasses.dataclass
class Moved:
    count: int = 0
    bytes: float | None = None  # null where the profiler tells none
    seconds: float = 0.0

    def add(self, bytes_: float | None, seconds: float, count: int = 1) -> None:
        self.count += count
        self.seconds += seconds
        if bytes_ is not None:
            self.bytes = (self.bytes or 0) + bytes_


@dataclasses.dataclass
class Profile:
    """What one profiler saw of one run, all ranks and processes together."""

    tool: str
    kernels: dict[str, Kernel] = dataclasses.field(default_factory=dict)
    copies: dict[str, Moved] = dataclasses.field(default_factory=dict)  # h2d, d2h, d2d, h2h, p2p, other
    migrations: dict[str, Moved] = dataclasses.field(default_factory=dict)
    page_faults: dict[str, int] = dataclasses.field(default_factory=dict)  # gpu, cpu
    api_calls: dict[str, int] = dataclasses.field(default_factory=dict)
    phases: dict[str, Moved] = dataclasses.field(default_factory=dict)  # ranges that the program names
    counters: dict[str, float] = dataclasses.field(default_factory=dict)  # summed over kernels, in base units
    spans: list[tuple[str, float, float]] = dataclasses.field(default_factory=list)  # kind, begin, end in seconds
    busy: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)  # anything, added, longest
    notes: list[str] = dataclasses.field(default_factory=list)
    files: list[str] = dataclasses.field(default_factory=list)

    def kernel(self, name: str) -> Kernel:
        return self.kernels.setdefault(name, Kernel())

    def empty(self) -> bool:
        seen = (self.kernels, self.copies, self.migrations, self.page_faults, self.api_calls, self.counters)
        return not any(seen)


def _whole(value, where: str) -> int:
    number = _real(value, where)
    if number != int(number):
        raise ProfileError(f"{where}: {value!r} is no whole number")
    return int(number)


def _real(value, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ProfileError(f"{where}: {spelling.shorten(repr(value), 40)} is no number") from None
    if not math.isfinite(number):
        raise ProfileError(f"{where}: {value!r} is no number")
    return number


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ProfileError(f"{path.name}: not UTF-8, so not what the profiler writes") from None
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None


# --- databases ---


class _Database:
    """Tables of an SQLite file that may be absent or lack columns; every value is given as it stands."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            self.connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            self.connection.execute("PRAGMA query_only = 1")
            names = self.connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')").fetchall()
        except sqlite3.Error as error:
            raise ProfileError(f"{path.name}: no SQLite database, or cut short ({error})") from None
        self.tables = [name for (name,) in names]

    def close(self):
        self.connection.close()

    def table(self, name: str) -> str | None:
        """This table, or the one that has a suffix of the process behind its name, as rocpd's have."""
        if name in self.tables:
            return name
        return next((t for t in self.tables if re.fullmatch(re.escape(name) + r"_[0-9a-f_]{8,}", t)), None)

    def rows(self, name: str, columns) -> list[dict]:
        """The columns of a table that it has, null for those it lacks; none where there is no such table."""
        table = self.table(name)
        if table is None:
            return []
        quoted = output.identifier(table)
        try:
            there = {row[1] for row in self.connection.execute(f"PRAGMA table_info({quoted})")}
            selected = ", ".join(f'"{c}"' if c in there else "NULL" for c in columns)
            found = self.connection.execute(f"SELECT {selected} FROM {quoted}").fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise ProfileError(f"{self.path.name}: {name} cannot be read, cut short perhaps ({error})") from None
        return [dict(zip(columns, row)) for row in found]


def _span(row: dict, where: str) -> tuple[float, float]:
    """Begin and end in seconds."""
    begin, end = _real(row["start"], where), _real(row["end"], where)
    if end < begin:
        raise ProfileError(f"{where}: something ends before it begins")
    return begin * 1e-9, end * 1e-9


# --- nsys ---

_NSYS_COPY = {1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 9: "h2h", 10: "p2p"}
_NSYS_MIGRATION = {11: "h2d", 12: "d2h", 13: "d2d"}


def read_nsys(path: pathlib.Path) -> Profile:
    """An SQLite export of Nsight Systems: `nsys profile --export=sqlite` or `nsys export --type=sqlite`."""
    profile, database = Profile("nsys"), _Database(path)
    try:
        strings = {row["id"]: row["value"] for row in database.rows("StringIds", ("id", "value"))}
        if not strings:
            raise ProfileError(f"{path.name}: no StringIds, so not an export of Nsight Systems")
        _nsys_device(profile, database, strings)
        for row in database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", ("nameId",)):
            name = re.sub(r"_v\d+$", "", str(strings.get(row["nameId"], "(unnamed)")))
            profile.api_calls[name] = profile.api_calls.get(name, 0) + 1
        faults = database.rows("CUDA_UM_GPU_PAGE_FAULT_EVENTS", ("numberOfPageFaults",))
        if faults or database.table("CUDA_UM_GPU_PAGE_FAULT_EVENTS"):
            profile.page_faults["gpu"] = sum(_whole(f["numberOfPageFaults"] or 1, path.name) for f in faults)
        if database.table("CUDA_UM_CPU_PAGE_FAULT_EVENTS"):
            profile.page_faults["cpu"] = len(database.rows("CUDA_UM_CPU_PAGE_FAULT_EVENTS", ("start",)))
        for row in database.rows("NVTX_EVENTS", ("start", "end", "text", "textId")):
            phase = row["text"] or strings.get(row["textId"])
            if phase and row["end"] is not None:
                begin, end = _span(row, f"{path.name}, NVTX_EVENTS")
                profile.phases.setdefault(str(phase), Moved()).add(None, end - begin)
    finally:
        database.close()
    return profile


def _nsys_device(profile: Profile, database: _Database, strings: dict) -> None:
    columns = ("start", "end", "shortName", "demangledName", "registersPerThread", "staticSharedMemory",
               "dynamicSharedMemory")  # fmt: skip
    where = database.path.name
    for row in database.rows("CUPTI_ACTIVITY_KIND_KERNEL", columns):
        begin, end = _span(row, where)
        kernel = profile.kernel(str(strings.get(row["shortName"]) or strings.get(row["demangledName"]) or "(unnamed)"))
        kernel.count += 1
        kernel.seconds += end - begin
        if row["registersPerThread"] is not None:
            kernel.registers = _whole(row["registersPerThread"], where)
        if row["staticSharedMemory"] is not None:
            kernel.shared_bytes = _whole(row["staticSharedMemory"], where) + _whole(
                row["dynamicSharedMemory"] or 0, where
            )
        profile.spans.append(("kernel", begin, end))
    for row in database.rows("CUPTI_ACTIVITY_KIND_MEMCPY", ("start", "end", "bytes", "copyKind")):
        begin, end = _span(row, where)
        moved = None if row["bytes"] is None else _real(row["bytes"], where)
        if row["copyKind"] in _NSYS_MIGRATION:
            profile.migrations.setdefault(_NSYS_MIGRATION[row["copyKind"]], Moved()).add(moved, end - begin)
            continue
        kind = _NSYS_COPY.get(row["copyKind"], "other")
        profile.copies.setdefault(kind, Moved()).add(moved, end - begin)
        profile.spans.append((kind, begin, end))


# --- ncu ---

# Metrics that are asked for, and what they are here. Names as in Nsight Compute's table of nvprof's metrics.
_FLOPS = {
    **{f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": times
       for op, times in (("fadd", 1), ("fmul", 1), ("ffma", 2), ("dadd", 1), ("dmul", 1), ("dfma", 2))}
}  # fmt: skip
NCU_METRICS = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block": "shared_bytes",
    "gpu__time_duration.sum": "seconds",
    "sm__cycles_elapsed.max": "cycles",
    "smsp__inst_executed.sum": "instructions",
    "smsp__sass_thread_inst_executed_op_control_pred_on.sum": "control_instructions",
    "smsp__sass_thread_inst_executed_op_memory_pred_on.sum": "memory_instructions",
    "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum": "fp32_instructions",
    "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum": "fp64_instructions",
    "smsp__sass_thread_inst_executed_op_integer_pred_on.sum": "integer_instructions",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "shared_accesses",
    "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum": "global_load_bytes",
    "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum": "global_store_bytes",
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_write_bytes",
    "lts__t_sectors.sum": "l2_sectors",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "stall_memory_dependency",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio": "stall_pipe_busy",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "stall_barrier",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio": "stall_shared_memory",
    **dict.fromkeys(_FLOPS, "flops"),
}
_UNITS = {
    "": 1, "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1,
    "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12, "inst": 1, "cycle": 1, "sector": 1,
    "register/thread": 1, "byte/block": 1, "Kbyte/block": 1e3, "warp": 1, "request": 1, "inst/warp": 1,
}  # fmt: skip


def read_ncu(path: pathlib.Path) -> Profile:
    """The raw page of Nsight Compute: `ncu --import FILE --csv --page raw`. Lines of others before it are left out."""
    text = _text(path)
    if "ERR_NVGPUCTRPERM" in text:
        raise ProfileError(f"{path.name}: {PERMISSION}")
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if '"Kernel Name"' in line and '"ID"' in line), None)
    if start is None:
        why = "no kernel was profiled" if "No kernels were profiled" in text else "no table in it"
        raise ProfileError(f"{path.name}: {why}")
    try:
        header, units, *rows = csv.reader(io.StringIO("".join(lines[start:])), strict=True)
    except (csv.Error, ValueError) as error:
        raise ProfileError(f"{path.name}: cut short, or no CSV ({error})") from None
    profile = Profile("ncu")
    place = {name: i for i, name in enumerate(header)}
    weighted: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        where = f"{path.name}, kernel {number}"
        if not row or row[0].startswith("=="):
            continue
        if len(row) != len(header):
            raise ProfileError(f"{where}: {len(row)} columns of {len(header)}: the file is cut short")
        values = {}
        for metric in NCU_METRICS:
            if metric not in place or row[place[metric]].strip() in ("", "n/a", "(!) n/a", "nan"):
                continue
            unit = units[place[metric]] if place[metric] < len(units) else ""
            if unit not in _UNITS:
                raise ProfileError(f"{path.name}: {metric} is in {unit!r}, which is not known")
            # Thousands are grouped in some locales.
            values[metric] = _real(row[place[metric]].replace(",", ""), where) * _UNITS[unit]
        _ncu_kernel(profile, row[place["Kernel Name"]], values, weighted, where)
    cycles = profile.counters.get("cycles")
    for name, total in weighted.items():
        profile.counters[name] = total / cycles if cycles else total / max(1, len(rows))
    return profile


def _ncu_kernel(profile: Profile, name: str, values: dict, weighted: dict[str, float], where: str) -> None:
    kernel = profile.kernel(name)
    kernel.count += 1
    cycles = values.get("sm__cycles_elapsed.max", 1)
    for metric, value in values.items():
        called = NCU_METRICS[metric]
        if called == "registers":
            kernel.registers = _whole(value, where)
        elif called == "shared_bytes":
            kernel.shared_bytes = round(value)
        elif called == "seconds":
            kernel.seconds += value
        elif called.startswith("stall_"):  # ratios: averaged by cycles
            weighted[called] = weighted.get(called, 0.0) + value * cycles
        else:
            factor = _FLOPS.get(metric, 1)
            profile.counters[called] = profile.counters.get(called, 0.0) + factor * value


PERMISSION = (
    "the driver lets only administrators read counters (ERR_NVGPUCTRPERM); an administrator can set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the module nvidia"
)


# --- rocprofv3 ---

_ROCM_COPY = {"HOST_TO_DEVICE": "h2d", "DEVICE_TO_HOST": "d2h", "DEVICE_TO_DEVICE": "d2d", "HOST_TO_HOST": "h2h"}


def _rocm_direction(text) -> str:
    return next((short for long, short in _ROCM_COPY.items() if str(text).upper().endswith(long)), "other")


def read_rocprofv3(path: pathlib.Path) -> Profile:
    """One output of rocprofv3: a CSV file by its name's end, a JSON file, or a rocpd database."""
    if path.suffix == ".db":
        return _read_rocpd(path)
    if path.suffix == ".json":
        return _read_rocprof_json(path)
    for ending, reader in _ROCM_CSV.items():
        if path.name.endswith(ending):
            return reader(path)
    raise ProfileError(f"{path.name}: no output of rocprofv3 that is known")


def _rocm_rows(path: pathlib.Path, wanted: tuple[str, ...]) -> list[dict]:
    """Rows of a CSV file by the column's name in small letters; versions differ in case. Other columns may be there."""
    try:
        rows = list(csv.reader(io.StringIO(_text(path)), strict=True))
    except csv.Error as error:
        raise ProfileError(f"{path.name}: cut short, or no CSV ({error})") from None
    if not rows:
        raise ProfileError(f"{path.name}: empty")
    header = [name.strip().lower() for name in rows[0]]
    lacking = [name for name in wanted if name not in header]
    if lacking:
        raise ProfileError(f"{path.name}: no column {lacking[0]!r}, so not what rocprofv3 writes")
    result = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise ProfileError(
                f"{path.name}, line {number}: {len(row)} columns of {len(header)}: the file is cut short"
            )
        result.append(dict(zip(header, row)))
    return result


def _rocm_span(row: dict, where: str) -> tuple[float, float]:
    return _span({"start": row["start_timestamp"], "end": row["end_timestamp"]}, where)


def _rocm_kernel(profile: Profile, name, span, vgprs, accumulation, shared, where: str) -> None:
    kernel = profile.kernel(str(name))
    kernel.count += 1
    kernel.seconds += span[1] - span[0]
    if vgprs not in (None, ""):
        kernel.registers = _whole(vgprs, where) + _whole(accumulation or 0, where)
    if shared not in (None, ""):
        kernel.shared_bytes = _whole(shared, where)
    profile.spans.append(("kernel", *span))


def _kernel_trace(path: pathlib.Path) -> Profile:
    profile = Profile("rocprofv3")
    for row in _rocm_rows(path, ("kernel_name", "start_timestamp", "end_timestamp")):
        shared = row.get("lds_block_size", row.get("group_segment_size"))
        _rocm_kernel(
            profile, row["kernel_name"], _rocm_span(row, path.name), row.get("vgpr_count"),
            row.get("accum_vgpr_count"), shared, path.name,
        )  # fmt: skip
    return profile


def _copy_trace(path: pathlib.Path) -> Profile:
    profile = Profile("rocprofv3")
    for row in _rocm_rows(path, ("direction", "start_timestamp", "end_timestamp")):
        begin, end = _rocm_span(row, path.name)
        kind = _rocm_direction(row["direction"])
        moved = row.get("bytes", row.get("size"))
        profile.copies.setdefault(kind, Moved()).add(_real(moved, path.name) if moved else None, end - begin)
        profile.spans.append((kind, begin, end))
    return profile


def _api_trace(path: pathlib.Path) -> Profile:
    profile = Profile("rocprofv3")
    for row in _rocm_rows(path, ("function",)):
        profile.api_calls[row["function"]] = profile.api_calls.get(row["function"], 0) + 1
    return profile


def _marker_trace(path: pathlib.Path) -> Profile:
    profile = Profile("rocprofv3")
    for row in _rocm_rows(path, ("function", "start_timestamp", "end_timestamp")):
        begin, end = _rocm_span(row, path.name)
        profile.phases.setdefault(row["function"], Moved()).add(None, end - begin)
    return profile


def _counter_collection(path: pathlib.Path) -> Profile:
    profile = Profile("rocprofv3")
    for row in _rocm_rows(path, ("kernel_name", "counter_name", "counter_value")):
        _rocm_counter(profile, row["counter_name"], row["counter_value"], path.name)
        if row.get("vgpr_count"):
            kernel = profile.kernel(row["kernel_name"])
            kernel.registers = _whole(row["vgpr_count"], path.name) + _whole(
                row.get("accum_vgpr_count") or 0, path.name
            )
    return profile


def _rocm_counter(profile: Profile, name, value, where: str) -> None:
    called = ROCM_COUNTERS.get(str(name), str(name))
    profile.counters[called] = profile.counters.get(called, 0.0) + _real(value, where)


#: Counters that are asked for, and what they are here; each is of another block of the chip, so one pass reads them.
ROCM_COUNTERS = {
    "SQ_INSTS_VALU": "arithmetic_instructions",
    "SQ_INSTS_SALU": "control_instructions",
    "SQ_INSTS_LDS": "shared_accesses",
    "SQ_BUSY_CYCLES": "cycles",
    "TCP_UTCL1_TRANSLATION_MISS_sum": "tlb_misses",
}

_ROCM_CSV = {
    "kernel_trace.csv": _kernel_trace,
    "memory_copy_trace.csv": _copy_trace,
    "hip_api_trace.csv": _api_trace,
    "marker_api_trace.csv": _marker_trace,
    "counter_collection.csv": _counter_collection,
}


def _read_rocpd(path: pathlib.Path) -> Profile:
    profile, database = Profile("rocprofv3"), _Database(path)
    try:
        if database.table("rocpd_kernel_dispatch") is None:
            raise ProfileError(f"{path.name}: no rocpd_kernel_dispatch, so not a rocpd database")
        strings = {row["id"]: row["string"] for row in database.rows("rocpd_string", ("id", "string"))}
        columns = ("id", "kernel_name", "display_name", "arch_vgpr_count", "accum_vgpr_count")
        symbols = {row["id"]: row for row in database.rows("rocpd_info_kernel_symbol", columns)}
        dispatches = ("start", "end", "kernel_id", "group_segment_size")
        for row in database.rows("rocpd_kernel_dispatch", dispatches):
            symbol = symbols.get(row["kernel_id"], {})
            name = symbol.get("display_name") or symbol.get("kernel_name") or "(unnamed)"
            _rocm_kernel(
                profile, name, _span(row, path.name), symbol.get("arch_vgpr_count"), symbol.get("accum_vgpr_count"),
                row["group_segment_size"], path.name,
            )  # fmt: skip
        for row in database.rows("rocpd_memory_copy", ("start", "end", "name_id", "size")):
            begin, end = _span(row, path.name)
            kind = _rocm_direction(strings.get(row["name_id"], ""))
            moved = None if row["size"] is None else _real(row["size"], path.name)
            profile.copies.setdefault(kind, Moved()).add(moved, end - begin)
            profile.spans.append((kind, begin, end))
        for row in database.rows("rocpd_region", ("start", "end", "name_id")):
            name = str(strings.get(row["name_id"], "(unnamed)"))
            if name.startswith(("hip", "hsa_")):
                profile.api_calls[name] = profile.api_calls.get(name, 0) + 1
            else:
                begin, end = _span(row, path.name)
                profile.phases.setdefault(name, Moved()).add(None, end - begin)
        counters = {row["id"]: row["name"] for row in database.rows("rocpd_info_pmc", ("id", "name"))}
        for row in database.rows("rocpd_pmc_event", ("pmc_id", "value")):
            _rocm_counter(profile, counters.get(row["pmc_id"], "(unnamed)"), row["value"], path.name)
    finally:
        database.close()
    return profile


def _read_rocprof_json(path: pathlib.Path) -> Profile:
    """The JSON of rocprofv3: tables of numbers, and names in kernel_symbols and strings."""
    profile = Profile("rocprofv3")
    try:
        content = json.loads(_text(path))
        tools = content["rocprofiler-sdk-tool"]
        for tool in tools if isinstance(tools, list) else [tools]:
            buffers, names = tool.get("buffer_records") or {}, _rocm_operations(tool)
            _json_kernels(profile, tool, buffers.get("kernel_dispatch") or [], path.name)
            _json_copies(profile, names, buffers.get("memory_copy") or [], path.name)
            for row in buffers.get("hip_api") or []:
                name = names.get((row.get("kind"), row.get("operation")), "(unnamed)")
                profile.api_calls[name] = profile.api_calls.get(name, 0) + 1
            _json_counters(profile, tool, path.name)
    except ProfileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {spelling.shorten(str(error), 60)}"
        raise ProfileError(f"{path.name}: no JSON of rocprofv3, or cut short ({why})") from None
    return profile


def _json_kernels(profile: Profile, tool: dict, rows: list[dict], where: str) -> None:
    symbols = {s["kernel_id"]: s for s in tool.get("kernel_symbols") or []}
    for row in rows:
        info = row["dispatch_info"]
        symbol = symbols.get(info["kernel_id"], {})
        name = symbol.get("formatted_kernel_name") or symbol.get("kernel_name") or "(unnamed)"
        span = _span({"start": row["start_timestamp"], "end": row["end_timestamp"]}, where)
        _rocm_kernel(
            profile, name, span, symbol.get("arch_vgpr_count"), symbol.get("accum_vgpr_count"),
            info.get("group_segment_size"), where,
        )  # fmt: skip


def _json_copies(profile: Profile, names: dict[tuple, str], rows: list[dict], where: str) -> None:
    for row in rows:
        begin, end = _span({"start": row["start_timestamp"], "end": row["end_timestamp"]}, where)
        kind = _rocm_direction(names.get((row.get("kind"), row.get("operation")), ""))
        moved = row.get("bytes")
        profile.copies.setdefault(kind, Moved()).add(None if moved is None else _real(moved, where), end - begin)
        profile.spans.append((kind, begin, end))


def _json_counters(profile: Profile, tool: dict, where: str) -> None:
    ids = {c["id"]["handle"]: c["name"] for c in tool.get("counters") or []}
    for row in (tool.get("callback_records") or {}).get("counter_collection") or []:
        for record in row.get("records") or []:
            _rocm_counter(profile, ids.get(record["counter_id"]["handle"], "(unnamed)"), record["value"], where)


def _rocm_operations(tool: dict) -> dict[tuple, str]:
    """Names of (kind, operation), as strings.buffer_records lists them: a kind's place, then its operations'."""
    names = {}
    for place, kind in enumerate((tool.get("strings") or {}).get("buffer_records") or []):
        for number, operation in enumerate(kind.get("operations") or []):
            names[(place, number)] = operation
    return names


# --- perf ---

_PERF = {
    "page-faults": "cpu_page_faults", "faults": "cpu_page_faults", "minor-faults": "cpu_minor_faults",
    "major-faults": "cpu_major_faults", "dTLB-load-misses": "tlb_misses", "instructions": "instructions",
    "cycles": "cycles", "LLC-load-misses": "llc_misses", "context-switches": "context_switches",
    "cpu-migrations": "cpu_migrations", "task-clock": "cpu_seconds",
}  # fmt: skip
PERF_EVENTS = (
    "page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations", "task-clock",
    "dTLB-load-misses", "instructions", "cycles", "LLC-load-misses",
)  # fmt: skip
_PERF_UNITS = {"": 1, "msec": 1e-3, "sec": 1, "usec": 1e-6, "ns": 1e-9}


def read_perf(path: pathlib.Path) -> Profile:
    """The CSV of `perf stat -x ';'`: value; unit; event; time it was counted; share of the time; …"""
    profile = Profile("perf")
    lacking = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(";")
        if len(fields) < 3:
            raise ProfileError(f"{path.name}, line {number}: no line of `perf stat -x ';'`, or cut short")
        value, unit, event = fields[:3]
        event = re.sub(r":[a-zA-Z]+$", "", event.strip())
        if value.startswith("<"):
            lacking.append(event)
            continue
        if not event:
            continue  # a derived figure on a line of its own
        if unit not in _PERF_UNITS:
            raise ProfileError(f"{path.name}: {event} is in {unit!r}, which is not known")
        counted = _real(value.replace(",", "."), f"{path.name}, line {number}") * _PERF_UNITS[unit]
        called = _PERF.get(event, event)
        if called == "cpu_page_faults":
            profile.page_faults["cpu"] = profile.page_faults.get("cpu", 0) + round(counted)
        else:
            profile.counters[called] = profile.counters.get(called, 0.0) + counted
        share = fields[4].strip() if len(fields) > 4 else ""
        if share and _real(share, f"{path.name}, line {number}") < 99.9:
            profile.notes.append(f"{event} was counted {share}% of the time only")
    if lacking:
        profile.notes.append(f"not supported here: {', '.join(dict.fromkeys(lacking))}")
    return profile


# --- cupti ---


def read_cupti(path: pathlib.Path) -> Profile:
    """What libisthmus-cupti wrote of one process."""
    profile = Profile("cupti")
    try:
        content = json.loads(_text(path))
        if not isinstance(content, dict) or content.get("schema") != "isthmus.cupti/1":
            raise ProfileError(f"{path.name}: not what libisthmus-cupti writes")
        for name, kernel in content["kernels"].items():
            profile.kernels[name] = Kernel(
                _whole(kernel["count"], path.name), _real(kernel["nanoseconds"], path.name) * 1e-9,
                _whole(kernel["registers"], path.name), _whole(kernel["shared_bytes"], path.name),
            )  # fmt: skip
        for where, into in (("copies", profile.copies), ("migrations", profile.migrations)):
            for kind, moved in content[where].items():
                into.setdefault(kind, Moved()).add(
                    _real(moved["bytes"], path.name), _real(moved["nanoseconds"], path.name) * 1e-9,
                    _whole(moved["count"], path.name),
                )  # fmt: skip
        profile.page_faults = {who: _whole(content[f"{who}_page_faults"], path.name) for who in ("gpu", "cpu")}
        profile.api_calls = {name: _whole(n, path.name) for name, n in content["runtime_calls"].items()}
        busy, total, longest = (
            _real(content[f"{kind}_nanoseconds"], path.name) * 1e-9 for kind in ("busy", "added", "longest")
        )
        profile.busy = [(busy, total, longest)]
        profile.notes = [str(error) for error in content["errors"]]
        if _whole(content["dropped"], path.name):
            profile.notes.append(f"{content['dropped']} activities were dropped, so counts are too low")
    except ProfileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProfileError(f"{path.name}: cut short, or not what libisthmus-cupti writes ({error})") from None
    if not profile.api_calls and not profile.kernels:
        reason = f" ({profile.notes[0]})" if profile.notes else ""
        raise ProfileError(f"{path.name}: CUPTI saw nothing{reason}")
    return profile


# --- a run ---

_READERS: dict[str, tuple[Callable[[pathlib.Path], Profile], list[tuple[str, ...]]]] = {
    "nsys": (read_nsys, [("*.sqlite",)]),
    "ncu": (read_ncu, [("*.csv",)]),
    "rocprofv3": (read_rocprofv3, [("*.db",), ("*.json",), tuple(f"*{ending}" for ending in _ROCM_CSV)]),
    "perf": (read_perf, [("*.perf",)]),
    "cupti": (read_cupti, [("*.json",)]),
}


def files(tool: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """What of a folder is to be read; of rocprofv3's formats the fullest that is there, since they say the same."""
    for patterns in _READERS[tool][1]:
        found = sorted({path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()})
        if found:
            return found
    return []


def read(tool: str, folder: pathlib.Path) -> Profile:
    """All that a profiler left in a folder, added up. Raises ProfileError where that is nothing."""
    if tool not in TOOLS:
        raise ProfileError(f"{tool!r} is no profiler that is known; choose from {', '.join(TOOLS)}")
    whole = Profile(tool)
    found = files(tool, folder)
    if not found:
        if tool == "nsys" and any(folder.rglob("*.qdstrm")):
            raise ProfileError(
                "nsys left a *.qdstrm only, since it found no importer; use an Nsight Systems that was installed whole"
            )
        raise ProfileError(f"{tool} left no {' nor '.join(patterns[0] for patterns in _READERS[tool][1])}")
    for path in found:
        whole = added(whole, _READERS[tool][0](path))
    if whole.empty():
        raise ProfileError(f"{tool} saw nothing")
    whole.files = [str(path.relative_to(folder)) for path in found]
    return whole


def added(a: Profile, b: Profile) -> Profile:
    """Two parts of a run as one: ranks, processes, or tables of one process."""
    result = dataclasses.replace(a)
    for field in ("copies", "migrations", "phases"):
        merged = {key: dataclasses.replace(moved) for key, moved in getattr(a, field).items()}
        for key, moved in getattr(b, field).items():
            merged.setdefault(key, Moved()).add(moved.bytes, moved.seconds, moved.count)
        setattr(result, field, merged)
    result.kernels = {name: dataclasses.replace(kernel) for name, kernel in a.kernels.items()}
    for name, kernel in b.kernels.items():
        one = result.kernel(name)
        one.count += kernel.count
        one.seconds += kernel.seconds
        one.registers = kernel.registers if one.registers is None else max(one.registers, kernel.registers or 0)
        one.shared_bytes = kernel.shared_bytes if one.shared_bytes is None else one.shared_bytes
    for field in ("page_faults", "api_calls", "counters"):
        merged = dict(getattr(a, field))
        for key, value in getattr(b, field).items():
            # Stalls are ratios; all else counts.
            merged[key] = max(merged.get(key, 0), value) if key.startswith("stall_") else merged.get(key, 0) + value
        setattr(result, field, merged)
    result.busy = a.busy + b.busy + ([_busy(b.spans)] if b.spans else [])
    result.notes = list(dict.fromkeys([*a.notes, *b.notes]))
    result.spans = []
    return result


# --- figures ---


def _covered(spans) -> float:
    total, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        if end > until:
            total += end - max(begin, until)
            until = end
    return total


def _busy(spans) -> tuple[float, float, float]:
    """Seconds in which anything ran; those of each kind by itself, added; the longest of these."""
    kinds: dict[str, list] = {}
    for kind, begin, end in spans:
        kinds.setdefault(kind, []).append((begin, end))
    alone = [_covered(each) for each in kinds.values()]
    return _covered((begin, end) for _, begin, end in spans), sum(alone), max(alone)


def overlap(profile: Profile) -> float | None:
    """How much of what could run beside something else did: 0 nothing, 1 all but the longest kind; null if unknown."""
    parts = [*profile.busy, *([_busy(profile.spans)] if profile.spans else [])]
    hidden = sum(added_ - busy for busy, added_, _ in parts)
    could = sum(added_ - longest for _, added_, longest in parts)
    return hidden / could if could > 0 else None


def figures(profile: Profile) -> dict[str, tuple[float, str]]:
    """What becomes a metric of the record, by name without its prefix: (value, unit). Counts have the unit 1 or B."""
    registers = [kernel.registers for kernel in profile.kernels.values() if kernel.registers is not None]
    seconds = sum(kernel.seconds for kernel in profile.kernels.values()) or None
    found: dict[str, tuple[float | None, str]] = {
        "kernels": (sum(kernel.count for kernel in profile.kernels.values()) or None, "1"),
        "registers": (max(registers, default=None), "1"),
        "kernel_time": (seconds, "s"),
        "api_calls": (sum(profile.api_calls.values()) or None, "1"),
        "overlap": (overlap(profile), "1"),
    }
    for kind, moved in profile.copies.items():
        found[f"{kind}_copies"] = (moved.count, "1")
        found[f"{kind}_bytes"] = (moved.bytes, "B")
    for kind, moved in profile.migrations.items():
        found[f"migrated_{kind}_bytes"] = (moved.bytes, "B")
    for who, count in profile.page_faults.items():
        found[f"{who}_page_faults"] = (count, "1")
    found |= _counted(profile.counters, seconds)
    return {name: (float(value), unit) for name, (value, unit) in found.items() if value is not None}


def _counted(counters: dict[str, float], seconds: float | None) -> dict[str, tuple[float | None, str]]:
    """Counters, and ratios of them; `seconds` are those of all kernels."""
    found: dict[str, tuple[float | None, str]] = {
        name: (counters[name], "B" if name.endswith("_bytes") else "1") for name in COUNTED if name in counters
    }
    accesses, flops, cycles = (counters.get(name) for name in ("shared_accesses", "flops", "cycles"))
    if accesses and flops is not None:
        found["flops_per_shared_access"] = (flops / accesses, "1")
    if accesses is not None and cycles:
        found["shared_accesses_per_cycle"] = (accesses / cycles, "1")
    for name in ("stall_memory_dependency", "stall_pipe_busy", "stall_barrier", "stall_shared_memory"):
        found[name] = (counters.get(name), "1")
    if seconds and "global_load_bytes" in counters:
        total = counters["global_load_bytes"] + counters.get("global_store_bytes", 0)
        found["global_rate"] = (total / seconds, "B/s")
    return found


#: Counters that are told as they are.
COUNTED = (
    "instructions", "control_instructions", "memory_instructions", "arithmetic_instructions", "fp32_instructions",
    "fp64_instructions", "integer_instructions", "flops", "shared_accesses", "global_load_bytes", "global_store_bytes",
    "dram_read_bytes", "dram_write_bytes", "l2_sectors", "tlb_misses", "llc_misses", "cpu_minor_faults",
    "cpu_major_faults",
)  # fmt: skip
#: Figures of a profile that hang on time or on what else ran: held to no reference.
_UNHELD = ("overlap", "shared_accesses_per_cycle", "cost")


def is_held(name: str, unit: str) -> bool:
    """Whether a metric of a profiled run may be held to a reference: counts, and ratios of counts."""
    plain = name.removeprefix(PROFILED)
    counted = unit in ("1", "B") and not plain.startswith("stall_") and plain not in _UNHELD
    return name.startswith(PROFILED) and counted


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.9g}")


def summary(profile: Profile, *, ratio: float | None, scope: str) -> dict:
    """The field `profile` of a record."""

    def moved(each: dict[str, Moved]) -> dict:
        return {
            kind: {"count": m.count, "bytes": m.bytes, "seconds": _rounded(m.seconds)}
            for kind, m in sorted(each.items())
        }

    kernels = sorted(profile.kernels.items(), key=lambda item: (-item[1].seconds, item[0]))
    return {
        "tool": profile.tool,
        "scope": scope,
        "wall_ratio": ratio,
        "kernels": [
            {"name": spelling.shorten(name, 200), **dataclasses.asdict(k), "seconds": _rounded(k.seconds)}
            for name, k in kernels[:_KERNELS]
        ],
        "copies": moved(profile.copies),
        "migrations": moved(profile.migrations),
        "page_faults": dict(sorted(profile.page_faults.items())),
        "api_calls": dict(sorted(profile.api_calls.items())),
        "phases": {
            name: {"count": m.count, "seconds": _rounded(m.seconds)} for name, m in sorted(profile.phases.items())
        },
        "counters": dict(sorted(profile.counters.items())),
        "overlap": overlap(profile),
        "notes": profile.notes,
        "files": profile.files,
    }


_KERNELS = 50  # of a record, by time


def amend(cases: list[dict], profile: Profile, *, unprofiled: list[dict]) -> list[dict]:
    """Records of a profiled run with what the profiler saw; `unprofiled` are those of the same run without it.

    A profiler sees a whole run. Where that is one case, its figures are metrics of the case, called profiled_…, and may
    be held to references; where it is several, they stand in `profile` of each, with the scope `run`.
    """

    def walls(records_):
        return [case["run"].get("wall") for case in records_]

    ratio = None
    if unprofiled and len(unprofiled) == len(cases) and all(walls(cases)) and all(walls(unprofiled)):
        ratio = sum(walls(cases)) / sum(walls(unprofiled))
    scope = "case" if len(cases) == 1 else "run"
    told = summary(profile, ratio=ratio, scope=scope)
    amended = []
    for case in cases:
        case = {**case, "profile": told}
        if scope == "case" and not case["skipped"] and not case["error"]:
            values = figures(profile) | ({"cost": (ratio, "1")} if ratio else {})
            case["metrics"] = case["metrics"] + [_metric(name, *value) for name, value in values.items()]
        amended.append(case)
    return amended


def _metric(name: str, value: float, unit: str) -> dict:
    return {
        "name": PROFILED + name, "unit": unit, "better": None, "timer": "none", "samples": [value],
        "median": value, "stop": "single", "warmups": 0, "limit": None, "limit_reason": "seen by a profiler",
        "share": None,
    }  # fmt: skip


# --- the command ---


_COLUMNS = {
    "kind": "VARCHAR", "name": "VARCHAR", "value": "DOUBLE", "unit": "VARCHAR", "count": "BIGINT",
    "registers": "BIGINT",
}  # fmt: skip


def table(seen: Profile) -> output.Table:
    """Figures, kernels and named phases, the longest first; the text has _KERNELS of the kernels."""
    figure_rows = [{"kind": "figure", "name": n, "value": v, "unit": u} for n, (v, u) in figures(seen).items()]
    kernels = sorted(seen.kernels.items(), key=lambda item: -item[1].seconds)
    phases = sorted(seen.phases.items(), key=lambda item: -item[1].seconds)
    rows: list[dict[str, Any]] = [
        *figure_rows,
        *({"kind": "kernel", "name": name, "value": kernel.seconds, "unit": "s", "count": kernel.count,
           "registers": kernel.registers} for name, kernel in kernels),
        *({"kind": "phase", "name": name, "value": moved.seconds, "unit": "s", "count": moved.count}
          for name, moved in phases),
    ]  # fmt: skip
    lines = [
        f"{row['name']:<28} {row['value']:>16.9g} {row['unit'] if row['unit'] != '1' else ''}".rstrip()
        for row in figure_rows
    ]
    for name, kernel in kernels[:_KERNELS]:
        lines += _named(
            f"kernel {kernel.count:>6} × {kernel.registers or '-':>3} registers {kernel.seconds:>10.6f} s", name
        )
    if kernels[_KERNELS:]:
        lines.append(f"{len(kernels) - _KERNELS} shorter kernels left out; --format csv has them")
    for name, moved in phases:
        lines += _named(f"phase  {moved.count:>6} × {moved.seconds:>25.6f} s", name)
    lines += [line for note in seen.notes for line in output.fold(f"note: {note}")]
    return output.Table(_COLUMNS, rows, "\n".join(lines))


def _named(head: str, name: str) -> list[str]:
    """A line with a name at its end, which may be long: it goes on below."""
    text = spelling.printable(spelling.shorten(name, 160))
    room = output.WIDTH - len(head) - 2
    first, *more = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
    return [f"{head}  {first}", *(" " * (len(head) + 2) + line for line in more)]


def add_arguments(parser) -> None:
    parser.epilog = f"example: isthmus profile nsys results/NAME.profile\n{exits.EXIT_CODES}"
    parser.add_argument("tool", choices=TOOLS, help="who wrote it")
    parser.add_argument("folder", type=pathlib.Path, help="with its output: an SQLite export, the raw page as CSV, …")
    output.add_arguments(parser)


def run(asked) -> int:
    if not asked.folder.is_dir():
        raise ProfileError(f"{asked.folder}: no such folder")
    output.write(asked, table(read(asked.tool, asked.folder)))
    return exits.PASSED
