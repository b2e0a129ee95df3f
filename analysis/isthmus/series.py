"""Series: the same case and metric, over jobs. Which jobs are meant, what they say, and how a series is called."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import json
import math
import re

import numpy as np

from isthmus import Error, matrix, records, statistics, store

# Columns that a selection such as driver=570 may name, beside uvm.PARAMETER and environment.VARIABLE.
FIELDS = (*store.FINGERPRINT, "system", "partition", "node", "job", "file", "dirty")

# A value that counts: measured, verified, and spoilt by nothing.
COUNTS = "NOT spoilt AND median IS NOT NULL AND error IS NULL AND skipped IS NULL AND verify <> 'fail'"

_DATE = r"\d{4}-\d{2}-\d{2}(?:T[\d:]+)?"


def condition(text: str) -> str:
    """A selection as SQL: FIELD=VALUE,…; a value is the whole, the beginning up to a point, or a pattern with *.

    A day (2026-11-21) or a stretch of time (2026-11-01..2026-11-08, the end excluded, either left out) may stand for a
    FIELD=VALUE. Raises Error for what is neither.
    """
    terms = []
    for part in text.split(","):
        part = part.strip()
        field, equals, value = part.partition("=")
        if stretch := re.fullmatch(rf"({_DATE})?\.\.({_DATE})?", part):
            terms += [f"time >= {store.moment(stretch[1])}"] if stretch[1] else []
            terms += [f"time < {store.moment(stretch[2])}"] if stretch[2] else []
        elif re.fullmatch(_DATE, part):
            start = store.moment(part)
            length = "INTERVAL 1 DAY" if "T" not in part else "INTERVAL 1 MINUTE"
            terms.append(f"(time >= {start} AND time < {start} + {length})")
        elif equals and field in FIELDS:
            terms.append(_equals(f'"{field}"::VARCHAR', value))
        elif equals and field.partition(".")[0] in store.OBJECTS and "." in field:
            column, _, name = field.partition(".")
            terms.append(_equals(f"json_extract_string({column}, {store.literal(_json_path(name))})", value))
        else:
            known = ", ".join(FIELDS)
            raise Error(
                f"{records.shorten(part, 60)!r} selects nothing; write FIELD=VALUE, a day or a stretch FROM..TO; "
                f"FIELD is one of {known}, uvm.PARAMETER, environment.VARIABLE"
            )
    return "(" + (" AND ".join(terms) or "true") + ")"


def _json_path(name: str) -> str:
    if not re.fullmatch(r"\w+", name):
        raise Error(f"{records.shorten(name, 40)!r} is no name of a module parameter or variable")
    return f'$."{name}"'


def _equals(column: str, value: str) -> str:
    if "*" in value:
        return f"coalesce({column} GLOB {store.literal(value)}, false)"
    return f"coalesce({column} = {store.literal(value)} OR starts_with({column}, {store.literal(value + '.')}), false)"


# --- values per job ---


@dataclasses.dataclass
class Series:
    """Values of one series: by side, then by (node, GPUs), one per job."""

    key: tuple  # values of store.SERIES
    better: str | None
    mode: str | None
    values: dict[str, dict[tuple[str, str], list[float]]]

    @property
    def metric(self) -> str:
        return self.key[store.SERIES.index("metric")]

    @property
    def unit(self) -> str:
        return self.key[store.SERIES.index("unit")]

    @property
    def workload(self) -> str:
        return self.key[store.SERIES.index("workload")]

    def jobs(self, side: str) -> int:
        return sum(map(len, self.values.get(side, {}).values()))

    def all(self, side: str) -> np.ndarray:
        return np.array([v for group in self.values.get(side, {}).values() for v in group])


def load(opened: store.Store, side: str) -> list[Series]:
    """All series, sorted by key; `side` is SQL that names the side of a row, or null for neither.

    A job counts once: with the median of its records and processes.
    """
    names = store.SERIES_COLUMNS
    rows = opened.sql(
        f"SELECT {names}, node, gpus, side, any_value(better), any_value(mode), job, median(median) AS value "
        f"FROM (SELECT *, {side} AS side FROM measurements) "
        f"WHERE side IS NOT NULL AND metric IS NOT NULL AND {COUNTS} "
        f"GROUP BY {names}, node, gpus, side, job ORDER BY {names}, side, node, gpus, job"
    ).fetchall()
    found: dict[tuple, Series] = {}
    width = len(store.SERIES)
    for row in rows:
        key, (node, gpus, where, better, mode, _, value) = row[:width], row[width:]
        series = found.setdefault(key, Series(key, better, mode, {}))
        series.values.setdefault(where, {}).setdefault((node, gpus), []).append(value)
    return list(found.values())


def per_series(opened: store.Store, expression: str, condition: str) -> dict[tuple, float]:
    """An SQL expression over the measurements that count and fulfil a condition, by the series' key."""
    names = store.SERIES_COLUMNS
    rows = opened.sql(
        f"SELECT {names}, {expression} FROM measurements "
        f"WHERE ({condition}) AND metric IS NOT NULL AND {COUNTS} GROUP BY {names}"
    ).fetchall()
    return {row[:-1]: row[-1] for row in rows}


def strata(series: Series, a: str, b: str) -> tuple[list[tuple[np.ndarray, np.ndarray]], str]:
    """Values of both sides by stratum, and what a stratum is.

    The same node and GPU where most jobs can be paired so, else the same node. Where the sides share no node, the node
    is the unit: jobs of one node would all carry its own difference.
    """
    by_gpu = _paired(series.values.get(a, {}), series.values.get(b, {}))
    by_node = _paired(*(_by_node(series.values.get(side, {})) for side in (a, b)))
    if _jobs(by_gpu) >= 0.8 * _jobs(by_node) and by_gpu:
        return by_gpu, "GPU"
    if by_node:
        return by_node, "node"
    sides = [_by_node(series.values.get(side, {})) for side in (a, b)]
    return [tuple(np.array([np.median(v) for v in side.values()]) for side in sides)], "unpaired"


def _by_node(groups: dict[tuple[str, str], list[float]]) -> dict[str, list[float]]:
    merged: dict[str, list[float]] = {}
    for (node, _), values in groups.items():
        merged.setdefault(node, []).extend(values)
    return merged


def _paired(a: dict, b: dict) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.array(a[key], float), np.array(b[key], float)) for key in a if key in b]


def _jobs(pairs) -> int:
    return sum(len(x) + len(y) for x, y in pairs)


def as_ratio(pairs) -> bool:
    """Whether factors mean something: every value is above zero."""
    return all((x > 0).all() for pair in pairs for x in pair)


# --- names ---


def labels(all_series: list[Series]) -> dict[tuple, str]:
    """A name for each series: what tells it from the others of its workload, then the metric."""
    seen: dict[str, dict[str, set]] = collections.defaultdict(lambda: collections.defaultdict(set))
    parts = {}
    for series in all_series:
        key = dict(zip(store.SERIES, series.key))
        try:
            axes = json.loads(key["axes"] or "{}")
        except ValueError:
            axes = {}
        told = {"mode": series.mode or "/".join(filter(None, (key["placement"], key["staging"])))}
        told |= {name: key[name] for name in ("size", "preset", "ranks", "version")}
        told |= {f"{name}=": value for name, value in axes.items()}
        parts[series.key] = told
        for name, value in told.items():
            seen[key["workload"]][name].add(str(value))
    result = {}
    for series in all_series:
        words = [series.workload]
        for name, value in parts[series.key].items():
            if value in (None, "") or (len(seen[series.workload][name]) < 2 and name not in ("mode", "size", "bytes=")):
                continue
            if name == "bytes=" and isinstance(value, int):
                value = matrix.byte_text(value)
            words.append(
                f"{name}{value}" if name.endswith("=") else f"{name}={value}" if name == "ranks" else str(value)
            )
        result[series.key] = records.printable(" ".join([*words, series.metric]))
    return result


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def within(series: Series, side: str) -> list[np.ndarray]:
    """Values of a side by node and GPU, as logarithms where they are all above zero."""
    groups = [np.array(values, float) for values in series.values.get(side, {}).values()]
    return [np.log(x) for x in groups] if all((x > 0).all() for x in groups) else groups


def spread(series: Series, sides) -> float:
    """Standard deviation between jobs of a node and GPU, of logarithms where values are above zero; NaN if unknown."""
    groups = [group for side in sides for group in within(series, side)]
    found = statistics.spread(groups)
    return 0.0 if math.isclose(found, 0, abs_tol=1e-15) else found
