"""Selection of records for advice: measured on one GPU, without a profiler, and with physically possible figures."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import glob
import json
import math
import shlex
import statistics
import sys
from collections.abc import Callable, Container

from isthmus import Error
from isthmus.records import fields, reading, selection
from isthmus.spelling import counted, shorten
from isthmus.tables import output


def _device(name: str) -> Callable[[dict], object]:
    return lambda case: case["devices"][0].get(name) if case["devices"] else None


def _state(name: str) -> Callable[[dict], object]:
    return lambda case: ((case["devices"][0].get("state") or {}) if case["devices"] else {}).get(name)


def _run(name: str) -> Callable[[dict], object]:
    return lambda case: case["run"].get(name)


#: Facts that identify the kind of GPU that advice is for. MACHINE lists those of a machine.
GPU: dict[str, Callable[[dict], object]] = {
    "device": _device("name"), "driver": _device("driver"), "mig": _state("mig"),
    "power_limit": _state("power_limit_w"),
}  # fmt: skip
MACHINE = {"system": _run("system"), "cpu": lambda case: case["host"].get("cpu"), **GPU}
#: Fields that --where and --without accept.
FIELDS = {**MACHINE, "partition": _run("partition"), "node": _run("node"), "gpu": _device("uuid")}


def add_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the arguments that all topics have: the records, which `what` describes, and the output's format."""
    parser.add_argument("records", nargs="+", metavar="DIR", help=f"folders or files of one kind of {what}")
    known = f"FIELD is one of {', '.join(FIELDS)}"
    parser.add_argument("--where", metavar="FIELD=PATTERN,…", action="append", default=[],
                        help=f"use only records with all of these: {known} (may be repeated)")  # fmt: skip
    parser.add_argument("--without", metavar="FIELD=PATTERN,…", action="append", default=[],
                        help="leave out records with all of these (may be repeated)")  # fmt: skip
    parser.add_argument("--emulated", action="store_true", help="include emulated records, whose times mean nothing")
    output.add_arguments(parser)


def chosen(cases: list[dict], asked: argparse.Namespace) -> list[dict]:
    """Applies --where and --without. Raises Error if no record matches a selection."""
    for option, texts in (("--where", asked.where), ("--without", asked.without)):
        for text in texts:
            wanted = selection.patterns(option, text, tuple(FIELDS))
            found = [case for case in cases if _meets(case, wanted)]
            if not found:
                raise _unmet(option, text, wanted, cases)
            cases = found if option == "--where" else [case for case in cases if not _meets(case, wanted)]
    return cases


def _text(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _meets(case: dict, wanted: dict[str, str]) -> bool:
    return all(fnmatch.fnmatchcase(_text(FIELDS[field](case)), pattern) for field, pattern in wanted.items())


def _unmet(option: str, text: str, wanted: dict[str, str], cases: list[dict]) -> Error:
    known = {field: sorted({_text(FIELDS[field](case)) for case in cases} - {""}) for field in wanted}
    there = "; ".join(f"{field} is {' or '.join(values[:6]) or 'in no record'}" for field, values in known.items())
    return Error(f"no record matches {option} {shorten(text, 60)!r}; {there}")


def read(asked: argparse.Namespace, wanted: Callable[[dict], bool] = bool) -> tuple[list[dict], int]:
    """Loads the plausible records that the arguments name and `wanted` accepts; returns them and the exit code.

    Prints the number of implausible records on stderr.
    """
    cases, status = reading.read_files(asked.records, asked)
    cases = fields.that_count(chosen(cases, asked), emulated=asked.emulated)
    cases = [case for case in cases if wanted(case) and not case["profiler"] and len(case["devices"]) == 1]
    kept = [case for case in cases if plausible(case)]
    if len(kept) < len(cases):
        print(
            f"{counted(len(cases) - len(kept), 'record')} left out: no machine can have their axes and figures",
            file=sys.stderr,
        )
    return kept, status


def unlike(cases: list[dict], what: str = "machine") -> tuple[str, list[str]] | None:
    """Returns the first fact of the machine, or GPU, that has several known values in the records, and its values."""
    for field, of in (MACHINE if what == "machine" else GPU).items():
        values = sorted({_text(of(case)) for case in cases} - {""})
        if len(values) > 1:
            return field, values
    return None


#: Metrics that advice learns from.
LEARNT = {
    "time", "alloc", "free", "host_alloc", "host_touch", "device_alloc", "in", "kernel", "out", "rate",
    "kernel_flop_rate",
}  # fmt: skip
#: Factors by which a node's or GPU's figures may differ from the others' before it is refused, and before it is noted.
REFUSED, NOTED = 1.5, 1.2


@dataclasses.dataclass(frozen=True)
class Apart:
    """Node or GPU whose measurements of the same points differ from those of other nodes or GPUs."""

    factor: float  # ratio of the figures, above 1
    field: str  # "node" or "gpu": the field that distinguishes it from the others
    value: str
    label: str

    @property
    def words(self) -> str:
        return f"{self.label} differs by a factor of {self.factor:.3g} between {self.field} {self.value} and the others"

    @property
    def choice(self) -> str:
        chosen = shlex.quote(f"{self.field}={glob.escape(self.value)}")
        return f"choose it with --where {chosen}, or leave it out with --without {chosen}"


def farthest(cases: list[dict], learnt: Container[str] = LEARNT) -> Apart | None:
    """Returns the node or GPU that differs most from the others in one metric of a workload, over common points.

    A point is one case. A node or GPU differs in a point if most of its samples are beyond most of the others' samples.
    """
    points: dict[tuple, dict[tuple[str, str], list[dict]]] = {}
    for case in cases:
        place = (_text(FIELDS["node"](case)), _text(FIELDS["gpu"](case)))
        fields = ("placement", "staging", "mode", "size", "preset", "version")
        key = (case["workload"], *(case.get(name) for name in fields), json.dumps(case["axes"], sort_keys=True))
        for metric in case["metrics"]:
            if metric["median"] and metric["name"] in learnt:
                points.setdefault((*key, metric["name"]), {}).setdefault(place, []).append(metric)
    off: dict[tuple[str, tuple[str, str]], list[float]] = {}
    several = {place[0] for by_place in points.values() for place in by_place}
    for (workload, *_, name), by_place in points.items():
        figures = {place: _figures(metrics) for place, metrics in by_place.items()}
        for place in figures if len(figures) > 1 else ():
            off.setdefault((f"{workload} {name}", place), []).append(_off(figures, place))
    if not off:
        return None
    (label, (node, gpu)), far = max(off.items(), key=lambda item: (abs(statistics.median(item[1])), item[0]))
    field, value = ("node", node) if len(several) > 1 else ("gpu", gpu)
    return Apart(math.exp(abs(statistics.median(far))), field, value, label)


def _figures(metrics: list[dict]) -> tuple[float, float, float]:
    """Returns the median of the medians, and the 10th and 90th percentiles of all valid samples."""
    samples = sorted(s for m in metrics for i, s in enumerate(m["samples"]) if i not in (m.get("invalid") or ()))
    middle = statistics.median(m["median"] for m in metrics)
    tenth = len(samples) // 10
    return middle, min([middle, *samples[tenth : tenth + 1]]), max([middle, *samples[len(samples) - tenth - 1 :][:1]])


def _off(figures: dict[tuple[str, str], tuple[float, float, float]], place: tuple[str, str]) -> float:
    """Returns the logarithm of a place's figure divided by the others' figure; 0 if their samples overlap."""
    own, low, high = figures[place]
    others = [each for other, each in figures.items() if other != place]
    usual, lowest, highest = (statistics.median(each[i] for each in others) for i in range(3))
    return math.log(own / usual) if own > 0 < usual and (low > highest or high < lowest) else 0.0


def refuse_unlike_places(cases: list[dict], used: tuple[str, ...] = ("",), learnt: Container[str] = LEARNT) -> None:
    """Raises Error if nodes or GPUs measured very different figures; a line on stderr notes smaller differences.

    `used` contains prefixes of the workloads that the advice learns from; `learnt` contains the metrics.
    """
    apart = farthest([case for case in cases if counts(case) and case["workload"].startswith(used)], learnt)
    if apart and apart.factor >= REFUSED:
        raise Error(f"advice is for one kind of machine, but {apart.words}, more than {REFUSED:g}; {apart.choice}")
    if apart and apart.factor >= NOTED:
        print(f"note: {apart.words}; the advice is for all of them together: {apart.choice}", file=sys.stderr)


def refuse_several_kinds(cases: list[dict], what: str = "machine") -> None:
    """Raises Error if the records are of different kinds of machine, or of GPU."""
    if found := unlike(cases, what):
        field, values = found
        raise Error(
            f"advice is for one kind of {what}, but these records have {len(values)} values of {field} "
            f"({', '.join(values[:4])}{', …' if len(values) > 4 else ''}); choose one with --where "
            f"{field}={shlex.quote(glob.escape(values[0]))}, or leave some out with --without"
        )


def medians(case: dict) -> dict[str, float]:
    """Returns the medians of all metrics that have one."""
    return {name: m["median"] for name, m in fields.metrics(case).items() if m["median"] is not None}


def counts(case: dict) -> bool:
    """Returns whether a record has verified figures of a GPU."""
    return not case["skipped"] and not fields.failure(case) and bool(case["devices"])


_NUMBERS = ("bytes", "n", "iterations", "blocks")
_NEEDED = {  # axes that a workload must have, keyed by the prefix of its name
    "transfer/": ("bytes",), "driver/alloc": ("bytes", "allocator"), "alloc/": ("bytes",),
    "reference/device_copy": ("bytes",), "reference/sgemm": ("n",),
}  # fmt: skip
_MOST = {"s": 1e9, "B/s": 1e21, "FLOP/s": 1e24}
_DIFFERENCES = ("turn_cost",)  # metrics that are differences of times, so they may be negative


def plausible(case: dict) -> bool:
    """Returns whether axes and figures are physically possible; otherwise results might not be finite."""
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
