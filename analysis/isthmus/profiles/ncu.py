"""Reader of Nsight Compute's report, from its raw page as CSV."""

from __future__ import annotations

import collections
import csv
import itertools
import pathlib
from collections.abc import Iterator

from isthmus.profiles import admissions
from isthmus.profiles.numerals import Numerals
from isthmus.profiles.profile import Profile, ProfileError, lines_of, whole

LAUNCHES = 200  # maximum number of launches that are profiled, since ncu repeats each many times
# Metrics to request, with our names for them. Nsight Compute's names are from its table of nvprof's metrics.
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
# Units in which values are whole numbers.
_COUNTED = ("inst", "cycle", "sector", "register/thread", "byte", "byte/block", "request")


def read(path: pathlib.Path) -> Profile:
    """Reads the raw page of Nsight Compute (`ncu --import FILE --csv --page raw`); lines before the page are skipped.

    The file is read twice, so that memory does not grow with it; the first time shows how its numbers are written.
    """
    profile = Profile("ncu")
    page = _Page(path, profile)
    _leave_out(profile, page.header)
    place = {name: i for i, name in enumerate(page.header)}
    columns = [i for metric in METRICS if (i := place.get(metric))]
    numerals = Numerals(row[i] for row in page.rows() for i in columns if i < len(row))
    units = dict(zip(page.header, page.units))
    weighted: dict[str, float] = {}
    unread: set[str] = set()
    number = 0
    lacking: collections.Counter[str] = collections.Counter()
    for number, row in enumerate(page.rows(), 1):
        where = f"{path.name}, kernel {number}"
        if len(row) != len(page.header):
            raise ProfileError(f"{where}: {len(row)} columns of {len(page.header)}: the file is cut short")
        values = _values(profile, {name: row[i] for name, i in place.items()}, units, numerals, where, unread)
        lacking.update(metric for metric in METRICS if metric in place and metric not in values)
        _add_kernel(profile, row[place["Kernel Name"]], values, weighted, where)
    _conclude(profile, weighted, number)
    unread |= {metric for metric, launches in lacking.items() if launches < number}
    _measure(profile, [metric for metric in METRICS if metric in place and not lacking[metric]])
    for metric in unread:  # a sum over the other launches would be too low
        profile.counters.pop(METRICS[metric], None)
        for kernel in profile.kernels.values():
            if METRICS[metric] == "seconds":
                kernel.seconds = 0.0
    return profile


def _measure(profile: Profile, metrics: list[str]) -> None:
    """Marks the metrics that every launch has as measured."""
    for metric in metrics:
        called = METRICS[metric]
        of_kernels = called in ("registers", "shared_bytes", "seconds")
        profile.measure(metric, "kernels" if of_kernels else "counters", called)


class _Page:
    """Table of a file: names of columns, their units, and rows, which are read from the file at each use."""

    def __init__(self, path: pathlib.Path, profile: Profile):
        self.path, self.profile, self.start = path, profile, 0
        no_kernels = False
        for line in self._lines():
            if '"Kernel Name"' in line and '"ID"' in line:
                break
            self.start += 1
            no_kernels |= "No kernels were profiled" in line
        else:
            why = "no kernel was profiled" if no_kernels else "no table in it"
            raise ProfileError(f"{path.name}: {why}")
        table = self._table()
        self.header, self.units = next(table, []), next(table, [])
        if not self.units:
            raise ProfileError(f"{path.name}: cut short, or not CSV (no line of units)")

    def _lines(self) -> Iterator[str]:
        for line in lines_of(self.path):
            if "ERR_NVGPUCTRPERM" in line:
                raise ProfileError(f"{self.path.name}: {PERMISSION}")
            if line.startswith("==WARNING=="):
                admissions.say(self.profile, self.path, line, note=line.strip())
            elif line.startswith("==ERROR=="):
                admissions.say(self.profile, self.path, line, "Error")
            yield line

    def _table(self) -> Iterator[list[str]]:
        try:
            yield from csv.reader(itertools.islice(self._lines(), self.start, None), strict=True)
        except csv.Error as error:
            raise ProfileError(f"{self.path.name}: cut short, or not CSV ({error})") from None

    def rows(self) -> Iterator[list[str]]:
        """Yields one row per launch, without ncu's messages, and stops at a second table."""
        for row in itertools.islice(self._table(), 2, None):
            if "ID" in row and "Kernel Name" in row:
                self.profile.lack(
                    f"{self.path.name} has a second table, which is not read; write each report's table to its own file"
                )
                return
            if row and not row[0].startswith("=="):
                yield row


def _leave_out(profile: Profile, header: list[str]) -> None:
    """Counts the metrics that are not used for any figure, for a note."""
    for name in header:
        if "__" in name and name not in METRICS:
            profile.leave_out(name)


def _values(
    profile: Profile, row: dict[str, str], units: dict[str, str], numerals: Numerals, where: str, unread: set[str]
) -> dict[str, float]:
    """Returns the metrics of a launch in base units; unreadable metrics are left out and counted for a note."""
    values = {}
    for metric in METRICS:
        text = row.get(metric, "").strip()
        unit = units.get(metric, "")
        if metric not in row:
            continue
        if text in ("", "n/a", "(!) n/a", "nan"):
            profile.leave_out(f"{metric}, which was not available")
        elif unit not in _UNITS:
            profile.leave_out(f"{metric} in {unit!r}, an unknown unit")
        else:
            try:
                values[metric] = numerals.number(text, where, whole=unit in _COUNTED) * _UNITS[unit]
            except ProfileError as error:
                profile.leave_out(f"{metric} ({error})")
                unread.add(metric)
    return values


def _conclude(profile: Profile, weighted: dict[str, float], rows: int) -> None:
    """Sets the counters that are means over all kernels, and notes the limit on launches."""
    cycles = profile.counters.get("cycles")
    for name, total in weighted.items():
        profile.counters[name] = total / cycles if cycles else total / max(1, rows)
    if sum(kernel.count for kernel in profile.kernels.values()) == LAUNCHES:
        profile.limit(f"only the first {LAUNCHES} launches were counted, as -S profiler=ncu requests")


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
        elif called.startswith("stall_"):  # ratios are averaged, weighted by cycles
            weighted[called] = weighted.get(called, 0.0) + value * cycles
        else:
            factor = _FLOPS.get(metric, 1)
            profile.add_counter(called, factor * value)


PERMISSION = (
    "the driver lets only administrators read counters (ERR_NVGPUCTRPERM); an administrator can set "
    "NVreg_RestrictProfilingToAdminUsers=0 for the module nvidia"
)
