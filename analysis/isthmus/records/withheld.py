"""Figures that a record's samples do not support and that are never shown: `overlap` if there is little to overlap.

overlap is (sum of the phases - time of all together) / (sum of the phases - longest phase). If the error of the
dividend is large compared with the divisor, the quotient is meaningless. isthmus-bench omits such figures (report.cpp
has the same rule), but older records contain them. docs/method.md gives the reasons for the constants.
"""

from __future__ import annotations

import math

#: Maximum error of an overlap that is shown, as a share of the time that could overlap.
MOST_ERROR = 0.1
#: Share by which two measurements of the same phase differ, regardless of the scatter within each.
_BETWEEN_READINGS = 0.01
_TICKS = {"event": 0.5e-6, "clock": 0.1e-6, "none": 0.0}  # resolution of each timer in seconds
_PHASES = ("in", "kernel", "out")
_READINGS = (*_PHASES, "overlapped")


def _error(metric: dict) -> float:
    """Returns a metric's error in seconds, at least half its interval; infinity for one sample without an interval."""
    within, samples = metric.get("within_job"), metric["samples"]
    if within:
        scatter = (within[1] - within[0]) / 2
    elif len(samples) > 1:
        scatter = (max(samples) - min(samples)) / 2
    else:
        return math.inf
    return max(scatter, _BETWEEN_READINGS * metric["median"], _TICKS[metric["timer"]])


def has_unsure_overlap(metrics: list[dict]) -> bool:
    """Returns whether a record contains an overlap that its samples do not support."""
    if not any(metric["name"] == "overlap" for metric in metrics):
        return False
    found = {each["name"]: each for each in metrics if each["name"] in _READINGS and each["median"] is not None}
    phases = [found[name]["median"] for name in _PHASES if name in found]
    hidden = sum(phases) - max(phases, default=0.0)
    return "overlapped" not in found or math.hypot(*map(_error, found.values())) > MOST_ERROR * hidden


def without_unsure(record: dict) -> dict:
    """Returns the record without figures that its samples do not support."""
    if not has_unsure_overlap(record["metrics"]):
        return record
    return {**record, "metrics": [metric for metric in record["metrics"] if metric["name"] != "overlap"]}


def _sql_error() -> str:
    ticks = " ".join(f"WHEN '{timer}' THEN {tick}" for timer, tick in _TICKS.items())
    return (
        "greatest(CASE WHEN m.within_job IS NOT NULL THEN (m.within_job[2] - m.within_job[1]) / 2 "
        "WHEN len(m.samples) > 1 THEN (list_max(m.samples) - list_min(m.samples)) / 2 ELSE 'inf'::DOUBLE END, "
        f"{_BETWEEN_READINGS} * m.median, CASE m.timer {ticks} END)"
    )


def _sql_list(names: tuple[str, ...], expression: str) -> str:
    return (
        f"list_transform(list_filter(metrics, lambda m: m.name IN {names} AND m.median IS NOT NULL), "
        f"lambda m: {expression})"
    )


def sql_metrics() -> str:
    """Returns SQL for a record's list `metrics` without figures that its samples do not support."""
    phases = _sql_list(_PHASES, "m.median")
    error = f"sqrt(list_sum({_sql_list(_READINGS, f'power({_sql_error()}, 2)')}))"
    together = "len(list_filter(metrics, lambda m: m.name = 'overlapped' AND m.median IS NOT NULL)) > 0"
    sure = f"{together} AND {error} <= {MOST_ERROR} * (list_sum({phases}) - list_max({phases}))"
    return (
        "CASE WHEN len(list_filter(metrics, lambda m: m.name = 'overlap')) = 0 THEN metrics "
        f"WHEN coalesce({sure}, false) THEN metrics ELSE list_filter(metrics, lambda m: m.name <> 'overlap') END"
    )
