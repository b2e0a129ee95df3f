"""Nsight Compute: the raw page of its report as CSV."""

from __future__ import annotations

import csv
import io
import pathlib

from isthmus import spelling
from isthmus.profiles.numerals import Numerals
from isthmus.profiles.profile import MOST_OF_TRACE, Profile, ProfileError, text_of, whole

LAUNCHES = 200  # that are counted; each is run again and again
# Metrics that are asked for, and what they are here. Names as in Nsight Compute's table of nvprof's metrics.
_FLOPS = {
    **{f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": times
       for op, times in (("fadd", 1), ("fmul", 1), ("ffma", 2), ("dadd", 1), ("dmul", 1), ("dfma", 2))}
}  # fmt: skip
METRICS = {
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
_COUNTED = ("inst", "cycle", "sector", "register/thread", "byte", "byte/block", "request")  # units without fractions


def read(path: pathlib.Path) -> Profile:
    """The raw page of Nsight Compute: `ncu --import FILE --csv --page raw`. Lines of others before it are left out."""
    text = text_of(path, MOST_OF_TRACE)
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
    profile.notes = [spelling.shorten(line.strip(), 200) for line in lines[:start] if line.startswith("==WARNING==")]
    place = {name: i for i, name in enumerate(header)}
    _leave_out(profile, header)
    rows = [row for row in rows if row and not row[0].startswith("==")]
    numerals = Numerals(row[i] for row in rows for metric in METRICS if (i := place.get(metric)) and i < len(row))
    weighted: dict[str, float] = {}
    unread: set[str] = set()
    for number, row in enumerate(rows, 1):
        where = f"{path.name}, kernel {number}"
        if len(row) != len(header):
            raise ProfileError(f"{where}: {len(row)} columns of {len(header)}: the file is cut short")
        values = _values(
            profile, {name: row[i] for name, i in place.items()}, dict(zip(header, units)), numerals, where, unread
        )
        _add_kernel(profile, row[place["Kernel Name"]], values, weighted, where)
    _conclude(profile, weighted, len(rows))
    for metric in unread:  # a sum over the other launches would be too low
        profile.counters.pop(METRICS[metric], None)
        for kernel in profile.kernels.values():
            if METRICS[metric] == "seconds":
                kernel.seconds = 0.0
    return profile


def _leave_out(profile: Profile, header: list[str]) -> None:
    """Notes the metrics that no figure comes from."""
    for name in header:
        if "__" in name and name not in METRICS:
            profile.leave_out(name)


def _values(
    profile: Profile, row: dict[str, str], units: dict[str, str], numerals: Numerals, where: str, unread: set[str]
) -> dict[str, float]:
    """The metrics of a launch in base units; what cannot be read is left out, and counted for a note."""
    values = {}
    for metric in METRICS:
        text = row.get(metric, "").strip()
        unit = units.get(metric, "")
        if metric not in row:
            continue
        if text in ("", "n/a", "(!) n/a", "nan"):
            profile.leave_out(f"{metric}, which was not available")
        elif unit not in _UNITS:
            profile.leave_out(f"{metric} in {unit!r}, a unit that is not known")
        else:
            try:
                values[metric] = numerals.number(text, where, whole=unit in _COUNTED) * _UNITS[unit]
            except ProfileError as error:
                profile.leave_out(f"{metric} ({error})")
                unread.add(metric)
    return values


def _conclude(profile: Profile, weighted: dict[str, float], rows: int) -> None:
    """What all kernels together say."""
    cycles = profile.counters.get("cycles")
    for name, total in weighted.items():
        profile.counters[name] = total / cycles if cycles else total / max(1, rows)
    if sum(kernel.count for kernel in profile.kernels.values()) >= LAUNCHES:
        profile.notes.append(f"only the first {LAUNCHES} launches were counted")


def _add_kernel(profile: Profile, name: str, values: dict, weighted: dict[str, float], where: str) -> None:
    kernel = profile.kernel(name)
    kernel.count += 1
    cycles = values.get("sm__cycles_elapsed.max", 1)
    for metric, value in values.items():
        called = METRICS[metric]
        if called == "registers":
            kernel.registers = whole(value, where)
        elif called == "shared_bytes":
            kernel.shared_bytes = round(value)
        elif called == "seconds":
            kernel.seconds += value
        elif called.startswith("stall_"):  # ratios: averaged by cycles
            weighted[called] = weighted.get(called, 0.0) + value * cycles
        else:
            factor = _FLOPS.get(metric, 1)
            profile.add_counter(called, factor * value)


PERMISSION = (
    "the driver lets only administrators read counters (ERR_NVGPUCTRPERM); an administrator can set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the module nvidia"
)
