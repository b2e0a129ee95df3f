"""Memory counters, and how much of an allocation they show: `isthmus table FILE… --view accounting`, 80 columns.

A cell shows a counter in accounting/* records: first after the call that allocates, then after every page was touched.
If jobs disagree, it shows the smallest and the largest value. A counter agrees with an allocation if it shows all of
the allocation's bytes after every page was touched.
"""

from __future__ import annotations

from typing import Any

from isthmus import Error
from isthmus.grouping import grouped
from isthmus.records import doubts, fields
from isthmus.statistics import spread
from isthmus.tables import output

_NEARLY = 0.1  # share of the requested bytes; counters with a smaller error count as exact
_HEADS = {
    "meminfo_free": "MemFree",
    "meminfo_available": "MemAvail",
    "meminfo_anon_huge": "AnonHuge",
    "node_free": "node",
    "nodes_free": "nodes",
    "status_rss": "VmRSS",
    "rollup_rss": "Rss",
    "rollup_pss": "Pss",
    "mapping_rss": "mapping",
    "device_free": "device",
    "driver_used": "driver",
}  # fmt: skip


def word(share: float) -> str:
    """Returns a share of the requested bytes in words: "all", "-" for nothing, or a percentage."""
    if abs(share - 1) < _NEARLY:
        return "all"
    if abs(share) < _NEARLY:
        return "-"
    return f"{share:.0%}"


def readings(case: dict) -> dict[str, tuple[float, float]]:
    """Returns the shares that each counter shows after allocating and after touching, in the record's order."""
    medians = {name: metric["median"] for name, metric in fields.metrics(case).items()}
    names = [name.removesuffix("_allocated") for name in medians if name.endswith("_allocated")]
    return {
        name: (medians[f"{name}_allocated"], medians[f"{name}_touched"])
        for name in names
        if None not in (medians[f"{name}_allocated"], medians.get(f"{name}_touched"))
    }


def _label(case: dict) -> str:
    _, way, maker = case["workload"].split("/")
    touch = case["axes"].get("touch")
    extra = "" if case["axes"].get("pages", "standard") == "standard" else f" {case['axes']['pages']}"
    if maker == "cpu":
        return f"{way}{extra}"
    return f"{way}{extra} {maker}" + (f"/{touch}" if touch else "")


Counters = dict[str, tuple[spread.Values, spread.Values]]  # counter → values after allocating, values after touching


def _merged(cases: list[dict]) -> dict[str, tuple[dict, Counters]]:
    """Returns, for each label, the first record and the values of each counter over jobs."""
    rows: dict[str, tuple[dict, Counters]] = {}
    for case in cases:
        _, counters = rows.setdefault(_label(case), (case, {}))
        metrics = fields.metrics(case)
        for name in readings(case):
            values = counters.setdefault(name, (spread.Values(), spread.Values()))
            for each, stage in zip(values, ("allocated", "touched"), strict=True):
                each.add(case, metrics[f"{name}_{stage}"])
    return rows


def _said(values: spread.Values) -> str:
    """Returns a value as one word, or as two if jobs, or processes of one job, disagree."""
    value, sure = values.value, values.spread
    assert value is not None
    if sure and sure.kind in ("jobs", "range", "process") and word(sure.low) != word(sure.high):
        return f"{word(sure.low)}…{word(sure.high)}"
    return word(value)


def _sees_all(values: spread.Values) -> bool:
    return values.value is not None and abs(values.value - 1) < _NEARLY


def _column(found: Counters, counters: list[str]) -> list[str]:
    """Returns the cells of one allocation; the last cell shows how many counters differ."""
    cells = [f"{_said(found[name][0])} → {_said(found[name][1])}" if name in found else "unknown" for name in counters]
    differ = sum(not _sees_all(touched) for name, (_, touched) in found.items() if name != "meminfo_anon_huge")
    return [*cells, "agree" if differ == 0 else f"{differ} differ"]


def _doubts(cases: list[dict]) -> dict[tuple[str, str], str]:
    """Returns the doubts about counters' figures, keyed by label and counter."""
    found: dict[tuple[str, str], list[doubts.Doubt]] = {}
    for case in cases:
        metrics = fields.metrics(case)
        for name in readings(case):
            said = [doubts.of_record(case, metrics[f"{name}_{stage}"]) for stage in ("allocated", "touched")]
            found.setdefault((_label(case), name), []).append(max(said, key=lambda each: len(each.codes)))
    return {key: doubts.say(each) for key, each in found.items()}


def _notes(found: dict[tuple[str, str], str]) -> list[str]:
    """Returns the lines below the table, one per doubt, with the figures that it concerns."""
    by_text = grouped((text, f"{label} {_HEADS.get(name, name)}") for (label, name), text in found.items() if text)
    return output.fold_each(
        f"{'all figures' if len(names) == len(found) else ', '.join(names)}: {text}" for text, names in by_text.items()
    )


MORE = {
    "counter": "VARCHAR", "allocated": "DOUBLE", "allocated_low": "DOUBLE", "allocated_high": "DOUBLE",
    "touched": "DOUBLE", "touched_low": "DOUBLE", "touched_high": "DOUBLE", "agrees": "BOOLEAN", "jobs": "BIGINT",
    "doubts": "VARCHAR",
}  # fmt: skip


def _ends(name: str, values: spread.Values) -> dict[str, Any]:
    sure = values.spread
    return {name: values.value, f"{name}_low": sure.low if sure else None, f"{name}_high": sure.high if sure else None}


def view(cases: list[dict]) -> output.Table:
    """Returns a table of counters (down) and allocations (across).

    Cells are shares of the requested bytes, 'allocated → touched'. Raises Error if no record has readings of counters.
    """
    cases = [case for case in cases if case["workload"].startswith("accounting/") and readings(case)]
    if not cases:
        raise Error("no record has readings of memory counters; run 'accounting/*'")
    merged = _merged(cases)
    names = [name for name in _HEADS if any(name in found for _, found in merged.values())]
    lines = ["what each counter sees: after allocating → after touching (-: nothing)", ""]
    columns = [_column(found, names) for _, found in merged.values()]
    heads = [*(_HEADS[name] for name in names), ""]
    doubtful = _doubts(cases)
    lines += output.grid("", heads, list(merged), [list(row) for row in zip(*columns, strict=True)])
    lines += _notes(doubtful)
    rows = [
        {name: case.get(name) for name in output.CASE}
        | {"metric": counter, "ranks": None, "axes": case["axes"], "counter": _HEADS.get(counter, counter)}
        | _ends("allocated", allocated) | _ends("touched", touched)
        | {"agrees": _sees_all(touched), "jobs": len(touched.jobs), "doubts": doubtful[label, counter] or None}
        for label, (case, found) in merged.items() for counter, (allocated, touched) in found.items()
    ]  # fmt: skip
    return output.of_cases(rows, MORE, "\n".join(lines))
