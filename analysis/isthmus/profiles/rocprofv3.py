"""Reader of rocprofv3's CSV files, JSON, and rocpd databases."""

from __future__ import annotations

import csv
import json
import pathlib
from collections.abc import Callable, Iterator

from isthmus import spelling
from isthmus.profiles.database import Database
from isthmus.profiles.profile import Profile, ProfileError, lines_of, real, span_of, text_of, whole

_COPY = {"HOST_TO_DEVICE": "h2d", "DEVICE_TO_HOST": "d2h", "DEVICE_TO_DEVICE": "d2d", "HOST_TO_HOST": "h2h"}
#: Counters to request, with our names for them. Each belongs to a different block of the chip, so one pass reads all.
COUNTERS = {
    "SQ_INSTS_VALU": "arithmetic_instructions",
    "SQ_INSTS_SALU": "control_instructions",
    "SQ_INSTS_LDS": "shared_accesses",
    "SQ_BUSY_CYCLES": "cycles",
    "TCP_UTCL1_TRANSLATION_MISS_sum": "tlb_misses",
}


def read(path: pathlib.Path) -> Profile:
    """Reads one output of rocprofv3: a CSV file, recognised by its name's ending, a JSON file, or a rocpd database."""
    profile = Profile("rocprofv3")
    if path.suffix == ".db":
        _database(profile, path)
    elif path.suffix == ".json":
        _json(profile, path)
    else:
        ending = next(filter(path.name.endswith, CSV), None)
        if ending is None:
            raise ProfileError(f"{path.name}: not a known output of rocprofv3")
        wanted, add = CSV[ending]
        for row in _rows(path, wanted):
            add(profile, row, path.name)
    return profile


# --- all formats ---


def _span(row: dict, where: str) -> tuple[float, float]:
    return span_of({"start": row["start_timestamp"], "end": row["end_timestamp"]}, where)


def _kernel(profile: Profile, name, span, vgprs, accumulation, shared, where: str) -> None:
    kernel = profile.add_kernel(str(name), span)
    profile.measure("times of kernels", "kernels")
    if vgprs not in (None, ""):
        kernel.registers = whole(vgprs, where) + whole(accumulation or 0, where)
    if shared not in (None, ""):
        kernel.shared_bytes = whole(shared, where)


def _copy(profile: Profile, direction, moved, span, where: str) -> None:
    kind = next((short for long, short in _COPY.items() if str(direction).upper().endswith(long)), "other")
    profile.add_copy(kind, None if moved in (None, "") else real(moved, where), span)


def _counter(profile: Profile, name, value, where: str) -> None:
    called = COUNTERS.get(str(name), str(name))
    profile.add_counter(called, real(value, where))
    profile.measure(called, "counters", called)


# --- CSV ---


def _rows(path: pathlib.Path, wanted: tuple[str, ...]) -> Iterator[dict]:
    """Yields rows of a CSV file, keyed by column name in lower case, because versions differ in case.

    Raises ProfileError if one of the columns `wanted` is missing; other columns may be present.
    """
    rows = csv.reader(lines_of(path), strict=True)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        if not header:
            raise ProfileError(f"{path.name}: empty")
        lacking = [name for name in wanted if name not in header]
        if lacking:
            raise ProfileError(f"{path.name}: no column {lacking[0]!r}, so not what rocprofv3 writes")
        for number, row in enumerate(rows, 2):
            if len(row) != len(header):
                where = f"{path.name}, line {number}"
                raise ProfileError(f"{where}: {len(row)} columns of {len(header)}: the file is cut short")
            yield dict(zip(header, row))
    except csv.Error as error:
        raise ProfileError(f"{path.name}: cut short, or not CSV ({error})") from None


def _kernel_row(profile: Profile, row: dict, where: str) -> None:
    shared = row.get("lds_block_size", row.get("group_segment_size"))
    vgprs = row.get("vgpr_count"), row.get("accum_vgpr_count")
    _kernel(profile, row["kernel_name"], _span(row, where), *vgprs, shared, where)


def _copy_row(profile: Profile, row: dict, where: str) -> None:
    _copy(profile, row["direction"], row.get("bytes", row.get("size")), _span(row, where), where)


def _counter_row(profile: Profile, row: dict, where: str) -> None:
    _counter(profile, row["counter_name"], row["counter_value"], where)
    profile.count_launch(row["counter_name"])
    if row.get("vgpr_count"):
        accumulation = whole(row.get("accum_vgpr_count") or 0, where)
        profile.kernel(row["kernel_name"]).registers = whole(row["vgpr_count"], where) + accumulation


_TIMES = ("start_timestamp", "end_timestamp")
#: Required columns, and the function that adds a row to the profile, keyed by the ending of a file's name.
CSV: dict[str, tuple[tuple[str, ...], Callable[[Profile, dict, str], None]]] = {
    "kernel_trace.csv": (("kernel_name", *_TIMES), _kernel_row),
    "memory_copy_trace.csv": (("direction", *_TIMES), _copy_row),
    "hip_api_trace.csv": (("function",), lambda profile, row, where: profile.add_call(row["function"])),
    "marker_api_trace.csv": (
        ("function", *_TIMES), lambda profile, row, where: profile.add_phase(row["function"], _span(row, where)),
    ),
    "counter_collection.csv": (("kernel_name", "counter_name", "counter_value"), _counter_row),
}  # fmt: skip


# --- rocpd ---


_READ = frozenset(("rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region", "rocpd_string", "rocpd_pmc_event"))
#: Prefixes of tables without events; they contain names, facts of the machine, and data that several events share.
_NO_EVENTS = (
    "rocpd_info_",
    "rocpd_metadata",
    "rocpd_track",
    "rocpd_event",
    "rocpd_arg",
    "rocpd_sample",
    "rocpd_timestamp",
)


def _database(profile: Profile, path: pathlib.Path) -> None:
    """Reads every process of the database; each has separate numbers for names and kernels."""
    with Database(path) as database:
        if not any(database.has(f"rocpd_kernel_dispatch{suffix}") for suffix in database.suffixes or [""]):
            raise ProfileError(f"{path.name}: no rocpd_kernel_dispatch, so not a rocpd database")
        for suffix in database.suffixes:
            _process(profile, database, suffix)
        for table, rows in database.unread(_READ, _NO_EVENTS).items():
            if table.startswith("rocpd_"):  # names without this prefix are views of these tables
                profile.leave_out(table, rows)


def _process(profile: Profile, database: Database, suffix: str) -> None:
    """Reads the tables of one process."""

    def rows(table: str, *columns: str) -> Iterator[dict]:
        return database.rows(f"rocpd_{table}{suffix}", columns)

    where = database.path.name
    strings = database.texts(f"rocpd_string{suffix}", "id", "string")
    columns = ("id", "kernel_name", "display_name", "arch_vgpr_count", "accum_vgpr_count")
    symbols = {row["id"]: row for row in rows("info_kernel_symbol", *columns)}
    for row in rows("kernel_dispatch", "start", "end", "kernel_id", "group_segment_size"):
        symbol = symbols.get(row["kernel_id"], {})
        name = symbol.get("display_name") or symbol.get("kernel_name") or "(unnamed)"
        vgprs = symbol.get("arch_vgpr_count"), symbol.get("accum_vgpr_count")
        _kernel(profile, name, span_of(row, where), *vgprs, row["group_segment_size"], where)
    for row in rows("memory_copy", "start", "end", "name_id", "size"):
        _copy(profile, strings.get(row["name_id"]), row["size"], span_of(row, where), where)
    for row in rows("region", "start", "end", "name_id"):
        name = strings.get(row["name_id"], "(unnamed)")
        if name.startswith(("hip", "hsa_")):
            profile.add_call(name)
        else:
            profile.add_phase(name, span_of(row, where))
    counters = {row["id"]: row["name"] for row in rows("info_pmc", "id", "name")}
    last: dict = {}  # last event of each counter; an event has several rows of a counter, one per part of the chip
    for row in rows("pmc_event", "pmc_id", "value", "event_id"):
        name = counters.get(row["pmc_id"], "(unnamed)")
        _counter(profile, name, row["value"], where)
        if last.get(name) != row["event_id"]:
            profile.count_launch(str(name))
            last[name] = row["event_id"]


# --- JSON ---


def _json(profile: Profile, path: pathlib.Path) -> None:
    """Reads JSON output, in which events have numbers instead of names; kernel_symbols and strings have the names."""
    try:
        tools = json.loads(_text(path))["rocprofiler-sdk-tool"]
        for tool in tools if isinstance(tools, list) else [tools]:
            _json_tool(profile, tool, path.name)
    except ProfileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {spelling.shorten(str(error), 60)}"
        raise ProfileError(f"{path.name}: not JSON of rocprofv3, or cut short ({why})") from None


def _text(path: pathlib.Path) -> str:
    try:
        return text_of(path)
    except ProfileError as error:
        hint = "; let rocprofv3 write csv or rocpd (--output-format)" if "larger than" in str(error) else ""
        raise ProfileError(f"{error}{hint}") from None


def _json_tool(profile: Profile, tool: dict, where: str) -> None:
    """Reads one process's trace."""
    buffers, names = tool.get("buffer_records") or {}, _operations(tool)
    symbols = {s["kernel_id"]: s for s in tool.get("kernel_symbols") or []}
    for row in buffers.get("kernel_dispatch") or []:
        info = row["dispatch_info"]
        symbol = symbols.get(info["kernel_id"], {})
        name = symbol.get("formatted_kernel_name") or symbol.get("kernel_name") or "(unnamed)"
        vgprs = symbol.get("arch_vgpr_count"), symbol.get("accum_vgpr_count")
        _kernel(profile, name, _span(row, where), *vgprs, info.get("group_segment_size"), where)
    for row in buffers.get("memory_copy") or []:
        direction = names.get((row.get("kind"), row.get("operation")), "")
        _copy(profile, direction, row.get("bytes"), _span(row, where), where)
    for row in buffers.get("hip_api") or []:
        profile.add_call(names.get((row.get("kind"), row.get("operation")), "(unnamed)"))
    records = tool.get("callback_records") or {}
    for where_from, known in ((buffers, ("kernel_dispatch", "memory_copy", "hip_api", "names")),
                              (records, ("counter_collection", "names"))):  # fmt: skip
        for name, rows in where_from.items():
            if name not in known and isinstance(rows, list):
                profile.leave_out(str(name), len(rows))
    counters = {c["id"]["handle"]: c["name"] for c in tool.get("counters") or []}
    for row in records.get("counter_collection") or []:
        profile.count_launch("")
        for record in row.get("records") or []:
            _counter(profile, counters.get(record["counter_id"]["handle"], "(unnamed)"), record["value"], where)


def _operations(tool: dict) -> dict[tuple, str]:
    """Returns the names of operations keyed by (kind, operation), from the nested lists in strings.buffer_records."""
    names = {}
    for place, kind in enumerate((tool.get("strings") or {}).get("buffer_records") or []):
        for number, operation in enumerate(kind.get("operations") or []):
            names[(place, number)] = operation
    return names
