"""Other differences between two sides, and the state of the machine during their jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from isthmus import spelling
from isthmus.records import measurements, store
from isthmus.statistics import series

# State of the machine during a job, compared like metrics: name → better direction, margin, SQL. The margin is the
# largest difference of no interest.
_HEALTH = {
    "invalid_samples": ("lower", 0.01, "coalesce(sum(CASE WHEN invalid THEN n_samples ELSE n_invalid END)"
                        " / nullif(sum(n_samples), 0), 0)"),
    "failed_cases": ("lower", 0.01, f"count(*) FILTER (metric_index = 0 AND {series.FAILED})"
                     " / nullif(count(*) FILTER (metric_index = 0 AND skipped IS NULL), 0)"),
    "skipped_cases": ("lower", 0.01, "avg((skipped IS NOT NULL)::INTEGER) FILTER (metric_index = 0)"),
    "pcie_generation": ("higher", 0, "min(pcie_gen)"),
    "pcie_lanes": ("higher", 0, "min(pcie_width)"),
    "gpu_links": ("higher", 0, "min(links)"),
    "ecc_uncorrected": ("lower", 0, "max(ecc_uncorrected)"),
    "xid_errors": ("lower", 0, "max(xids)"),
}  # fmt: skip

# Speed of a host, measured when a program starts, and the share of time that the hypervisor took from it. Maps a name
# to its better direction, unit, and largest difference of no interest (a share of the value; for stolen_share a
# difference). These figures explain why other figures differ between hosts. They have no verdict, because probes of a
# few ms may vary more than hosts do.
HOSTS = {
    "integer_rate": ("higher", "1/s", 0.03), "touch_rate": ("higher", "B/s", 0.1), "copy_rate": ("higher", "B/s", 0.1),
    "stolen_share": ("lower", "1", 0.01),
}  # fmt: skip


def health(opened: store.Store, side: str, names: Iterable[str] = _HEALTH) -> list[tuple[series.Series, float]]:
    """Returns the series of _HEALTH that have values on side A, each with its largest difference of no interest."""
    expressions = {name: _HEALTH[name][2] for name in names}
    result = []
    for name, jobs in _of_machine(opened, side, expressions).items():
        better, floor, _ = _HEALTH[name]
        if jobs.get("A"):
            result.append((series.Series(_key(name, "1"), better, None, jobs), floor))
    return result


def hosts(opened: store.Store, side: str) -> list[series.Series]:
    """Returns the series of HOSTS that have values, with the jobs of each side."""
    found = _of_machine(opened, side, {name: f"median({name})" for name in HOSTS})
    result = []
    for name, jobs in found.items():
        better, unit, _ = HOSTS[name]
        if jobs:
            result.append(series.Series(_key(name, unit), better, None, jobs))
    return result


def _key(metric: str, unit: str) -> tuple:
    return tuple({"workload": "machine", "metric": metric, "unit": unit}.get(column) for column in measurements.SERIES)


def _of_machine(opened: store.Store, side: str, expressions: dict[str, str]) -> dict[str, dict[str, list[series.Job]]]:
    """Returns, for each name and side, the jobs for which the name's SQL has a value, with that value."""
    columns = ", ".join(f"{expression} AS {name}" for name, expression in expressions.items())
    rows = opened.rows(
        f"SELECT side, node, gpus, job, any_value(boot) AS boot, min(time) AS time, {columns} "
        f"FROM (SELECT *, {side} AS side FROM measurements) "
        "WHERE side IS NOT NULL GROUP BY side, node, gpus, job ORDER BY ALL"
    )
    result = {}
    for name in expressions:
        places: dict[str, list[tuple]] = {}
        for row in rows:
            if row[name] is not None:
                place = (row["job"], row["node"], row["gpus"], row["boot"], row["time"], row[name])
                places.setdefault(row["side"], []).append(place)
        result[name] = {where: series.jobs_of(of_side) for where, of_side in places.items()}
    return result


_NOT_SAID = ["not said"]  # used as the values of B for a field that only A reports


def differences(opened: store.Store, side: str, asked: str) -> tuple[dict, list[str]]:
    """Returns the fields of the fingerprint, except requested ones, that differ between sides, and notes on reboots."""
    asked_fields = set(re.findall(r"(?:^|,)\s*([\w.]+)=", asked))
    with_side = f"(SELECT *, {side} AS side FROM measurements) WHERE side IS NOT NULL"
    fields = [name for name in measurements.FINGERPRINT if name not in ("boot", *measurements.OBJECTS)]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in fields)
    by_side = {row["side"]: row for row in opened.rows(f"SELECT side, {lists} FROM {with_side} GROUP BY side")}
    found: dict[str, tuple] = {}
    for name in fields:
        values = [[value for value in by_side[s][name] or [] if value not in (None, "")] for s in ("A", "B")]
        if name not in asked_fields and values[0] and values[0] != values[1]:
            found[name] = (values[0], values[1] or _NOT_SAID)
    for column in measurements.OBJECTS:
        found |= _of_settings(opened, with_side, column, asked_fields)
    return found, _reboots(opened, with_side)


def _of_settings(opened: store.Store, with_side: str, column: str, asked_fields: set[str]) -> dict[str, tuple]:
    """Returns the settings that differ between the sides; `column` is one of measurements.OBJECTS."""
    objects: dict[str, list[dict]] = {"A": [], "B": []}
    for where, text in opened.sql(f"SELECT DISTINCT side, {column} FROM {with_side}").fetchall():
        if text is not None:
            objects[where].append(json.loads(text) or {})
    if not (objects["A"] and objects["B"]):
        return {column: (["known"], _NOT_SAID)} if objects["A"] else {}
    # An unset variable counts as a setting; a parameter that a module lacks does not.
    silent = {None} if column == "uvm" else set()
    names = {name for those in objects.values() for each in those for name in each}
    found = {}
    for name in sorted(names - {each.removeprefix(f"{column}.") for each in asked_fields}):
        values = [{each.get(name) for each in objects[s]} - silent for s in ("A", "B")]
        if values[0] and values[0] != values[1]:
            a, b = (sorted("unset" if value is None else str(value) for value in each) for each in values)
            found[f"{column}.{name}"] = (a, b or _NOT_SAID)
    return found


_NAMED = 5


def _named(names: list[str]) -> str:
    return ", ".join(map(spelling.printable, names[:_NAMED])) + (" …" if len(names) > _NAMED else "")


def _reboots(opened: store.Store, with_side: str) -> list[str]:
    """Returns a sentence if the records do not state when some nodes of both sides were started, and one if nodes were
    restarted between A and B, unless jobs of A show the effect of a restart on each of these nodes."""
    boots: dict[str, dict[str, set[str]]] = {}
    for where, node, boot in opened.sql(f"SELECT DISTINCT side, node, boot FROM {with_side}").fetchall():
        boots.setdefault(node, {}).setdefault(where, set()).update({boot} - {None})
    both = {node: sides for node, sides in boots.items() if len(sides) == 2}
    shared = {node: sides for node, sides in both.items() if all(sides.values())}
    silent = sorted({*both} - {*shared})
    which = " and ".join(side for side in ("A", "B") if any(not both[node][side] for node in silent))
    unsaid = f"the records of {which} do not say when {_named(silent)} was started: a reboot may be part of the change"
    sentences = [unsaid] if silent else []
    rebooted = [node for node, sides in sorted(shared.items()) if not sides["A"] & sides["B"]]
    controlled = [node for node in rebooted if len(shared[node]["A"]) > 1]
    if not rebooted or len(controlled) == len(rebooted):
        return sentences
    return [
        *sentences,
        f"{spelling.counted(len(rebooted), 'node', 'were')} rebooted between A and B ({_named(rebooted)}), which alone "
        "may explain a change; as a control, measure A, reboot the nodes, and measure A again",
    ]
