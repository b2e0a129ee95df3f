"""Series of a case and metric over jobs: selection of jobs, their values, and labels of series."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import functools
import json
import math
import re
import sys
from typing import Any

import numpy as np

from isthmus import Error, spelling, units
from isthmus.grouping import components, grouped
from isthmus.records import fields, measurements, places, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import rank_test

# Columns that a selection such as driver=570 may name; it may also name uvm.PARAMETER and environment.VARIABLE.
FIELDS = (*measurements.FINGERPRINT, "system", "partition", "node", "job", "file", "dirty")

# SQL condition for values that count: measured, verified and valid.
COUNTS = f"NOT invalid AND median IS NOT NULL AND error IS NULL AND skipped IS NULL AND verify IN {fields.VERIFIED}"

# SQL condition for fields.failure(): a case that failed, is wrong, or was not verified. Skipped cases need no
# verification.
FAILED = f"(error IS NOT NULL OR verify = 'fail' OR (skipped IS NULL AND verify NOT IN {fields.VERIFIED}))"

_SHARED = {"node": "#", "job": "@"}  # sign after a name that several nodes (records.places) or jobs share

_DATE = r"\d{4}-\d{2}-\d{2}(?:T[\d:]+)?"


def condition(text: str) -> str:
    """Returns SQL for a selection FIELD=VALUE,….

    VALUE is a complete value, its beginning up to a point, or a pattern with *. A day (2026-11-21) or a period
    (2026-11-01..2026-11-08, the end excluded, either end optional) may be written instead of FIELD=VALUE. Raises Error
    for anything else.
    """
    terms = []
    for part in text.split(","):
        part = part.strip()
        field, equals, value = part.partition("=")
        if equals and not value.strip():
            raise Error(f"{spelling.shorten(part, 60)!r} lacks its value; write {spelling.shorten(field, 40)}=VALUE")
        if stretch := re.fullmatch(rf"({_DATE})?\.\.({_DATE})?", part):
            terms += [f"time >= {selection.moment(stretch[1])}"] if stretch[1] else []
            terms += [f"time < {selection.moment(stretch[2])}"] if stretch[2] else []
        elif re.fullmatch(_DATE, part):
            start = selection.moment(part)
            length = "INTERVAL 1 DAY" if "T" not in part else "INTERVAL 1 MINUTE"
            terms.append(f"(time >= {start} AND time < {start} + {length})")
        elif equals and field in FIELDS:
            of_field = _equals(f'"{field}"::VARCHAR', value, (".", *_SHARED.get(field, "")))
            terms.append(places.or_also_called(of_field, _equals("name", value)) if field == "node" else of_field)
        elif equals and field.partition(".")[0] in measurements.OBJECTS and "." in field:
            column, _, name = field.partition(".")
            terms.append(_equals(f"json_extract_string({column}, {literal(_json_path(name))})", value))
        else:
            near = spelling.did_you_mean(field, FIELDS) if equals else ""
            if near:
                raise Error(f"{spelling.shorten(part, 60)!r} selects nothing{near}")
            known = ", ".join(FIELDS)
            raise Error(
                f"{spelling.shorten(part, 60)!r} selects nothing; write FIELD=VALUE, a day or a stretch FROM..TO; "
                f"FIELD is one of {known}, uvm.PARAMETER, environment.VARIABLE"
            )
    return "(" + (" AND ".join(terms) or "true") + ")"


def _json_path(name: str) -> str:
    if not re.fullmatch(r"\w+", name):
        raise Error(f"{spelling.shorten(name, 40)!r} is not the name of a module parameter or variable")
    return f'$."{name}"'


def _equals(column: str, value: str, ends: tuple[str, ...] = (".",)) -> str:
    """Returns SQL for columns that equal a value or begin with it and one of `ends`.

    In this way, the name of a node or job selects all that share it.
    """
    if "*" in value:
        return f"coalesce({column} GLOB {literal(value)}, false)"
    longer = " OR ".join(f"starts_with({column}, {literal(value + end)})" for end in ends)
    return f"coalesce({column} = {literal(value)} OR {longer}, false)"


def axes_of(text: str | None) -> dict[str, Any]:
    """Returns the text of the column `axes` as a dictionary; empty if the text is not a JSON object."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# --- values per job ---


@dataclasses.dataclass(frozen=True)
class Job:
    """Values of a job in a series. A job counts once, regardless of its GPUs, nodes, processes and repetitions."""

    name: str  # column `job` of the store: the scheduler's number with the system's name, or the run
    places: dict[tuple[str, str], float]  # (node, GPUs) → median there
    boots: frozenset[tuple[str, str | None]] = frozenset()  # (node, boot) pairs; the boot is None if unknown
    time: datetime.datetime | None = None  # time of its first record

    @property
    def value(self) -> float:
        """Mean over the job's GPUs and nodes, since a median would hide one slow GPU of eight."""
        return float(np.mean(list(self.places.values())))

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted({node for node, _ in self.places}))


@dataclasses.dataclass
class Series:
    """Jobs of a series, grouped by side and ordered by time."""

    key: tuple  # values of measurements.SERIES
    better: str | None
    mode: str | None
    sides: dict[str, list[Job]]

    @property
    def metric(self) -> str:
        return self.key[measurements.SERIES.index("metric")]

    @property
    def unit(self) -> str:
        return self.key[measurements.SERIES.index("unit")]

    @property
    def workload(self) -> str:
        return self.key[measurements.SERIES.index("workload")]

    @property
    def case(self) -> dict[str, Any]:
        """Identity of the series for output.of_cases(): `axes` as a dictionary, the rest of the key, and the mode."""
        return dict(zip(measurements.SERIES, self.key)) | {"mode": self.mode, "axes": self.axes}

    @functools.cached_property
    def axes(self) -> dict[str, Any]:
        return axes_of(self.key[measurements.SERIES.index("axes")])

    def of(self, side: str) -> list[Job]:
        return self.sides.get(side, [])

    def jobs(self, side: str) -> int:
        return len(self.of(side))

    def all(self, side: str) -> np.ndarray:
        """Returns one value per job, in shape (jobs,)."""
        return np.array([job.value for job in self.of(side)])

    def by_node(self, side: str) -> dict[tuple[str, ...], np.ndarray]:
        """Returns one value per job, grouped by the nodes on which jobs ran."""
        return _arrays((job.nodes, job.value) for job in self.of(side))

    def by_place(self, side: str) -> dict[frozenset, np.ndarray]:
        """Returns one value per job, grouped by the nodes and GPUs on which jobs ran."""
        return _arrays((frozenset(job.places), job.value) for job in self.of(side))


def _arrays(pairs) -> dict:
    return {name: np.array(values, float) for name, values in grouped(pairs).items()}


def jobs_of(rows) -> list[Job]:
    """Makes jobs, ordered by time, from rows (job, node, gpus, boot, time, value), one row per place of a job."""
    jobs = [
        Job(
            name,
            {(node, gpus): float(value) for _, node, gpus, _, _, value in places},
            frozenset((node, boot) for _, node, _, boot, _, _ in places),
            min(place[4] for place in places),
        )
        for name, places in grouped((row[0], row) for row in rows).items()
    ]
    return sorted(jobs, key=lambda job: (job.time, job.name))


def load(opened: store.Store, side: str) -> list[Series]:
    """Loads all series, sorted by key; `side` is SQL for the side of a row, or null for rows of neither side.

    A job counts once: see Job.
    """
    names = measurements.SERIES_COLUMNS
    rows = opened.sql(
        f"SELECT {names}, side, any_value(better), any_value(mode), job, node, gpus, any_value(boot), min(time), "
        f"median(median) FROM (SELECT *, {side} AS side FROM measurements) "
        f"WHERE side IS NOT NULL AND metric IS NOT NULL AND {COUNTS} "
        f"GROUP BY {names}, node, gpus, side, job ORDER BY {names}, side, job, node, gpus"
    ).fetchall()
    found: dict[tuple, Series] = {}
    places: dict[tuple, dict[str, list]] = {}
    width = len(measurements.SERIES)
    for row in rows:
        key, (where, better, mode, *place) = row[:width], row[width:]
        found.setdefault(key, Series(key, better, mode, {}))
        places.setdefault(key, {}).setdefault(where, []).append(place)
    for key, sides in places.items():
        found[key].sides = {where: jobs_of(of_side) for where, of_side in sides.items()}
    return list(found.values())


def per_series(opened: store.Store, expression: str, condition: str) -> dict[tuple, Any]:
    """Evaluates an SQL expression for each series over its measurements that count and fulfil a condition."""
    names = measurements.SERIES_COLUMNS
    rows = opened.sql(
        f"SELECT {names}, {expression} FROM measurements "
        f"WHERE ({condition}) AND metric IS NOT NULL AND {COUNTS} GROUP BY {names}"
    ).fetchall()
    return {row[:-1]: row[-1] for row in rows}


@dataclasses.dataclass(frozen=True)
class Uncounted:
    """Numbers of cases whose figures do not count, for each reason; a failed case does not also count as invalid."""

    cases: int = 0  # number of all cases
    failed: int = 0
    wrong: int = 0
    unverified: int = 0
    invalid: int = 0

    @property
    def bad(self) -> int:
        """Number of cases that fulfil FAILED. Invalid cases are not included, since they are not the system's fault."""
        return self.failed + self.wrong + self.unverified

    @property
    def words(self) -> str:
        """Text such as "of 56 cases 3 failed, 28 wrong"; empty if every case counts."""
        kinds = {"failed": self.failed, "wrong": self.wrong, "not verified": self.unverified, "invalid": self.invalid}
        found = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
        return f"of {spelling.counted(self.cases, 'case')} {found}" if found else ""

    def say(self, name: str) -> None:
        """Prints on stderr which cases the figures of `name` leave out."""
        if self.words:
            print(f"{spelling.printable(name)}: {self.words}; none of these counts", file=sys.stderr)


def uncounted(opened: store.Store, condition: str = "true", table: str = "measurements") -> Uncounted:
    """Counts the cases whose figures do not count, among the records of a table that fulfil an SQL condition."""
    [row] = opened.sql(
        "SELECT count(*), count(*) FILTER (error IS NOT NULL), count(*) FILTER (error IS NULL AND verify = 'fail'), "
        f"count(*) FILTER ({FAILED} AND error IS NULL AND verify <> 'fail'), "
        f"count(*) FILTER (invalid AND NOT {FAILED}) FROM {table} WHERE metric_index = 0 AND ({condition})"
    ).fetchall()
    return Uncounted(*row)


def apart(jobs: list[Job]) -> dict[tuple[str, ...], list[float]]:
    """Returns the values of jobs, grouped by nodes; nodes with a common job count as one."""
    labels = components([frozenset(job.nodes) for job in jobs])
    return {
        tuple(sorted({node for job in members for node in job.nodes})): [job.value for job in members]
        for members in grouped(zip(labels, jobs)).values()
    }


def boots(series: Series, side: str) -> list[np.ndarray]:
    """Returns the means of a side's known boots, grouped by nodes; as logarithms if all values are above zero."""
    jobs = [job for job in series.of(side) if job.boots and all(boot is not None for _, boot in job.boots)]
    values = np.array([job.value for job in jobs])
    values = np.log(values) if has_ratios(series, (side,)) else values
    members = grouped((label, i) for i, label in enumerate(components([job.boots for job in jobs])))
    means = grouped(
        (tuple(sorted({node for i in those for node in jobs[i].nodes})), float(values[those].mean()))
        for those in members.values()
    )
    return [np.array(each) for each in means.values()]


# --- names ---


_COUNTS = ("ranks", "version")  # fields whose values are meaningless without their names


def labels(all_series: list[Series]) -> dict[tuple, str]:
    """Returns a label for each series: workload, differences from other series of the workload, and metric."""
    seen: dict[str, dict[str, set]] = collections.defaultdict(lambda: collections.defaultdict(set))
    parts = {}
    for series in all_series:
        key = series.case
        fields = {"mode": series.mode or "/".join(filter(None, (key["placement"], key["staging"])))}
        fields |= {name: key[name] for name in ("size", "preset", "ranks", "version")}
        fields |= {f"{name}=": value for name, value in key["axes"].items()}
        parts[series.key] = fields
        for name, value in fields.items():
            seen[key["workload"]][name].add(str(value))
    result = {}
    for series in all_series:
        words = [series.workload]
        for name, value in parts[series.key].items():
            if value in (None, "") or (len(seen[series.workload][name]) < 2 and name not in ("mode", "size", "bytes=")):
                continue
            if name == "bytes=" and isinstance(value, int):
                value = units.byte_text(value)
            words.append(
                f"{name}{value}" if name.endswith("=") else f"{name}={value}" if name in _COUNTS else str(value)
            )
        result[series.key] = spelling.printable(" ".join([*words, series.metric]))
    return result


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def has_ratios(series: Series, sides) -> bool:
    """Returns whether ratios of the series' values are meaningful, because all values at all places are above zero."""
    return all(value > 0 for side in sides for job in series.of(side) for value in job.places.values())


def noisy_places(series: Series, side: str, tests: int = 1) -> dict[frozenset, float]:
    """Returns the standard deviations, as in spread(), of places that are noisier than others (rank_test.noisier())."""
    own = series.by_place(side)
    groups = _groups(series, side)
    return {list(own)[at]: rank_test.spread([groups[at]]) for at in rank_test.noisier(groups, tests)}


def _groups(series: Series, side: str) -> list[np.ndarray]:
    """Returns the values of a side, grouped by place; as logarithms if all are above zero."""
    own = list(series.by_place(side).values())
    return [np.log(x) for x in own] if has_ratios(series, (side,)) else own


def spread(series: Series, sides) -> float:
    """Returns the standard deviation between jobs of a place (of logarithms if values are above 0); NaN if unknown."""
    found = rank_test.spread([group for side in sides for group in _groups(series, side)])
    return 0.0 if math.isclose(found, 0, abs_tol=1e-15) else found
