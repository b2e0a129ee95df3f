"""Medians of cases in record files, selected by case, metric and axis; for notebooks and models.

`Readings.value()` returns one figure, and `Readings.by()` one per value of an axis. Both refuse to mix cases that
differ in anything that the selection does not name. Values are medians over jobs, in the record's units (s, B/s,
bytes).
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
import os
import statistics

from isthmus import Error, spelling
from isthmus.grouping import grouped
from isthmus.records import measurements, store
from isthmus.statistics import series, spread
from isthmus.statistics.spread import Spread
from isthmus.tables import output

WANTED = (
    *measurements.SERIES, "mode", "better", "median", "mad", "samples", "invalid", "error", "skipped", "verify", "node",
    "share", "device", "cpu", "job", "driver", "within_low", "within_high", "n_samples", "n_invalid",
)  # fmt: skip
#: SQL for whether a profiler counted a metric. Times under a profiler are not those of the program.
COUNTED = "starts_with(metric, 'profiled_')"
#: Names that a selection may use in addition to the axes of a case.
FIELDS = ("workload", "metric", "mode", "placement", "staging", "size", "preset", "ranks", "device", "cpu")


#: Columns of frame() after those of the case and its axes, with their DuckDB types.
MORE = {
    "unit": "VARCHAR", "value": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "interval": "VARCHAR",
    "samples": "DOUBLE[]", "share": "DOUBLE", "better": "VARCHAR", "job": "VARCHAR", "run_id": "VARCHAR",
    "time": "TIMESTAMP", "system": "VARCHAR", "partition": "VARCHAR", "node": "VARCHAR", "device": "VARCHAR",
    "gpus": "VARCHAR", "driver": "VARCHAR", "cpu": "VARCHAR", "cores": "BIGINT", "kernel": "VARCHAR",
    "boot": "VARCHAR", "git": "VARCHAR", "emulated": "BOOLEAN", "invalid": "BOOLEAN", "verify": "VARCHAR",
    "skipped": "VARCHAR", "error": "VARCHAR", "warnings": "VARCHAR[]", "doubts": "VARCHAR[]",
    "file": "VARCHAR",
}  # fmt: skip
_COMPUTED = {"value": "median", "low": "within_low", "high": "within_high", "interval": "mad"}


def rows_of(paths, *, emulated: bool = False, everything: bool = False) -> output.Table:
    """Returns a table for isthmus.frame(), with a row for each metric, including its interval within the record."""
    columns = [name for name in (*output.CASE, *MORE) if name not in _COMPUTED]
    wanted = {*WANTED, *columns, *_COMPUTED.values(), "axes", "n_samples", "n_invalid"}
    with store.open_store(paths, wanted=wanted, emulated=emulated, profiled=everything) as opened:
        opened.say_absent()
        names = ", ".join(f'"{name}"' for name in (*columns, *_COMPUTED.values(), "axes"))
        rows = opened.rows(
            f"SELECT {names}, n_samples - n_invalid AS valid FROM measurements "
            f"WHERE {'true' if everything else f'metric IS NOT NULL AND {series.COUNTS}'} ORDER BY ALL"
        )
    for row in rows:
        row["axes"], row["value"] = json.loads(row.get("axes") or "{}"), row.pop("median")
        within = (row["within_low"], row["within_high"])
        is_measured = row["value"] is not None
        row |= spread.fields(spread.of_record(row["value"], within, row["mad"], row["valid"]) if is_measured else None)
    return output.of_cases(rows, MORE, "")


class Value(float):
    """Figure with its interval `spread`, which plots draw; it behaves like a plain number everywhere else.

    Sums, products of non-negative values, and ratios of positive values have the widest possible interval. That is
    conservative, since the minimum of one value and the maximum of the other seldom occur together.
    """

    spread: Spread | None

    def __new__(cls, value: float, sure: Spread | None = None):
        made = super().__new__(cls, value)
        made.spread = sure
        return made

    def _with(self, value: float, low: float, high: float, other) -> Value:
        sides = [each for each in (self.spread, getattr(other, "spread", None)) if each]
        if not sides or not (math.isfinite(low) and math.isfinite(high)):
            return Value(value)
        fewest = min(sides, key=lambda each: each.jobs)
        return Value(value, Spread(min(low, value), max(high, value), fewest.kind, fewest.jobs))

    def __truediv__(self, other):
        (a, b), (c, d) = ends(self), ends(other)
        positive = a > 0 and c > 0
        low, high = (a / d, b / c) if positive else (math.nan, math.nan)
        return self._with(float(self) / float(other), low, high, other)

    def __rtruediv__(self, other):
        return Value(other).__truediv__(self)

    def __add__(self, other):
        (a, b), (c, d) = ends(self), ends(other)
        return self._with(float(self) + float(other), a + c, b + d, other)

    __radd__ = __add__

    def __mul__(self, other):
        (a, b), (c, d) = ends(self), ends(other)
        positive = a >= 0 and c >= 0
        low, high = (a * c, b * d) if positive else (math.nan, math.nan)
        return self._with(float(self) * float(other), low, high, other)

    __rmul__ = __mul__


def ends(value: float) -> tuple[float, float]:
    """Returns the ends of a Value's interval, or the value twice if it has none."""
    return spread.ends(float(value), getattr(value, "spread", None))


@dataclasses.dataclass(frozen=True)
class Reading:
    """Metric of a record: its case, median, and samples in the order in which they were measured."""

    case: dict
    axes: dict
    median: float
    samples: list[float]
    share: float | None
    job: str = ""
    alone: spread.Spread | None = None  # interval within the record

    def get(self, name: str):
        return self.axes[name] if name in self.axes else self.case.get(name)


class Readings:
    """Set of readings from files or folders, with methods for selections and medians; see the module."""

    def __init__(self, found: list[Reading]):
        self.found = found

    def __len__(self) -> int:
        return len(self.found)

    def where(self, **wanted) -> Readings:
        """Returns the readings with these fields and axes.

        A text may be a pattern with *, and a list means any of its values.
        """
        return self._of([each for each in self.found if all(matches(each.get(k), v) for k, v in wanted.items())])

    def _of(self, found: list[Reading]) -> Readings:
        return Readings(found)

    def values(self, name: str) -> list:
        """Returns the distinct values of a field or axis, sorted."""
        found = {each.get(name) for each in self.found} - {None}
        return sorted(found, key=lambda value: (isinstance(value, str), value))

    def by(self, axis: str, **wanted) -> dict:
        """Returns the median for each value of a field or axis, sorted by this value.

        Raises Error if anything else varies.
        """
        chosen = self.where(**wanted)
        return {
            value: Readings([each for each in chosen.found if each.get(axis) == value])._one(f"{axis}={value}", wanted)
            for value in chosen.values(axis)
        }

    def value(self, **wanted) -> float | None:
        """Returns the median of one case, or None if it was not measured. Raises Error if several cases match."""
        chosen = self.where(**wanted)
        return chosen._one("", wanted) if len(chosen) else None

    def share(self, **wanted) -> float | None:
        """Returns the median over the records of the share of the limit, or None if no record has a share."""
        shares = [each.share for each in self.where(**wanted).found if each.share is not None]
        return statistics.median(shares) if shares else None

    def samples(self, **wanted) -> list[float]:
        """Returns all samples of one case. Raises Error if several cases match."""
        chosen = self.where(**wanted)
        chosen._alike("", wanted)
        return [value for each in chosen.found for value in each.samples]

    def differing(self) -> list[str]:
        """Returns the fields and axes in which the cases differ, sorted."""
        names = sorted({name for each in self.found for name in (*FIELDS, *each.axes)} - {"device", "cpu"})
        return [n for n in names if len({str(each.get(n)) for each in self.found}) > 1]

    def _one(self, where: str, wanted: dict) -> Value:
        self._alike(where, wanted)
        jobs = grouped((each.job, each.median) for each in self.found)
        value = statistics.median(map(statistics.median, jobs.values()))
        return Value(value, spread.of_jobs(list(jobs.values()), self.found[0].alone))

    def _alike(self, where: str, wanted: dict) -> None:
        if several := self.differing():
            asked = ", ".join(f"{name}={value}" for name, value in wanted.items())
            raise Error(f"{asked}{', ' if where else ''}{where} means several cases: {', '.join(several)} differ")


def matches(value, wanted) -> bool:
    """Returns whether a value matches `wanted`; a text may be a pattern with *, and a list means any of its values."""
    if isinstance(wanted, (list, tuple, set)):
        return any(matches(value, each) for each in wanted)
    if isinstance(wanted, str) and isinstance(value, str):
        return fnmatch.fnmatchcase(value, wanted)
    return value == wanted


#: Names of environment variables: one contains a folder that notebooks read instead of the committed records, the other
#: a condition that records must fulfil.
DATA, WHERE = "ISTHMUS_DATA", "ISTHMUS_WHERE"


def example(*paths, profiled: bool = False) -> Readings:
    """Returns readings from the committed files, or from the folder that scripts/notebooks --data names."""
    folder = os.environ.get(DATA)
    if not folder:
        return load(*paths, profiled=profiled)
    chosen = os.environ.get(WHERE)
    return load(folder, profiled=profiled, where=series.condition(chosen) if chosen else "true")


def load(*paths, emulated: bool = False, profiled: bool = False, where: str = "true") -> Readings:
    """Returns the readings in files and folders that count, that is, verified, valid and from real hardware.

    With `emulated`, emulated readings also count. With `profiled`, only metrics that a profiler counted are returned.
    `where` is an SQL condition over the table of records. Raises Error if there are no such readings.
    """
    wanted = WANTED if where == "true" else (*WANTED, *series.FIELDS)
    opened = store.open_store(paths, wanted=wanted, emulated=emulated, profiled=profiled, where=where)
    with opened:
        opened.say_absent()
        found = of_store(opened, where=COUNTED if profiled else "true")
    if not found:
        raise Error(f"{spelling.shorten(', '.join(map(str, paths)))}: no record has a figure that counts")
    return Readings(found)


def of_store(opened: store.Store, table: str = "measurements", where: str = "true") -> list[Reading]:
    """Returns the readings in a table or view of a store that was opened with WANTED."""
    rows = opened.rows(
        f"SELECT {', '.join(f'{chr(34)}{name}{chr(34)}' for name in dict.fromkeys((*FIELDS, 'unit', 'axes')))}, "
        "median, samples, share, job, within_low, within_high, mad, n_samples - n_invalid AS valid "
        f"FROM {table} WHERE metric IS NOT NULL AND {series.COUNTS} AND {where} "
        "ORDER BY workload, axes, metric, median"
    )
    found = []
    for row in rows:
        axes = json.loads(row.pop("axes") or "{}")
        median, samples, share, job = (row.pop(name) for name in ("median", "samples", "share", "job"))
        low, high, mad, valid = (row.pop(name) for name in ("within_low", "within_high", "mad", "valid"))
        alone = spread.of_record(median, (low, high), mad, valid)
        found.append(Reading(row, axes, median, samples or [], share, job, alone))
    return found
