"""Records as advice takes them: of one GPU, measured without a profiler, with figures that a machine can have given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from isthmus.records import content, load
from isthmus.spelling import counted
from isthmus.tables import output


def add_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """What every topic asks for: `what` it learns from, and how the advice is written."""
    parser.add_argument("records", nargs="+", metavar="DIR", help=f"folders or files of one kind of {what}")
    parser.add_argument("--emulated", action="store_true", help="emulated records, too: their times mean nothing")
    output.add_arguments(parser)


def read(asked: argparse.Namespace, wanted: Callable[[dict], bool] = bool) -> tuple[list[dict], int]:
    """The records that the arguments name, that are `wanted` and plausible, and the command's exit code.

    A line on stderr counts those that no machine can have measured.
    """
    cases, status = load.read_files(asked.records, asked)
    cases = content.that_count(cases, emulated=asked.emulated)
    cases = [case for case in cases if wanted(case) and not case["profiler"] and len(case["devices"]) == 1]
    kept = [case for case in cases if plausible(case)]
    if len(kept) < len(cases):
        print(
            f"{counted(len(cases) - len(kept), 'record')} left out: no machine has such axes and figures",
            file=sys.stderr,
        )
    return kept, status


def medians(case: dict) -> dict[str, float]:
    """Of all metrics that have one."""
    return {name: m["median"] for name, m in content.metrics(case).items() if m["median"] is not None}


def counts(case: dict) -> bool:
    """Whether a record has verified figures of a GPU."""
    return not case["skipped"] and not content.failure(case) and bool(case["devices"])


_NUMBERS = ("bytes", "n", "iterations", "blocks")
_NEEDED = {  # axes, by the beginning of a workload's name
    "transfer/": ("bytes",), "driver/alloc": ("bytes", "allocator"), "alloc/": ("bytes",),
    "reference/device_copy": ("bytes",), "reference/sgemm": ("n",),
}  # fmt: skip
_MOST = {"s": 1e9, "B/s": 1e21, "FLOP/s": 1e24}
_DIFFERENCES = ("turn_cost",)  # below zero where what is taken away was measured longer


def plausible(case: dict) -> bool:
    """Whether a machine can have given these axes and figures; what is reckoned from others is not finite."""
    axes, workload = case["axes"], case["workload"]
    sizes = [axes[name] for name in _NUMBERS if name in axes]
    if not all(isinstance(size, int) and 0 <= size < 1 << 60 for size in sizes):
        return False
    if any(workload.startswith(begin) and not axes.keys() >= {*needed} for begin, needed in _NEEDED.items()):
        return False
    for metric in case["metrics"]:
        value, above = metric["median"], metric["name"] in ("kernel", "kernel_rate", "rate", "kernel_flop_rate")
        if value is not None and metric["unit"] in _MOST:
            size = abs(value) if metric["name"] in _DIFFERENCES else value
            if not 0 <= size < _MOST[metric["unit"]]:
                return False
        if (above and value == 0) or not (metric.get("bytes_needed") or 0) < _MOST["B/s"]:
            return False
    return True
