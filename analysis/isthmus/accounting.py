"""What counters of memory see of an allocation: `isthmus accounting FILE…`, 80 columns.

Each cell says what accounting/* records have of one counter: after the call that allocates, and after every page was
touched. A counter agrees with the allocation when it sees all of it once it is touched.
"""

from __future__ import annotations

import argparse
import statistics

from isthmus import Error, records

_NEARLY = 0.1  # a counter that is off by less than this share of what was asked says so much
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
    """What a share of the bytes asked for means: all, none, or how much."""
    if abs(share - 1) < _NEARLY:
        return "all"
    if abs(share) < _NEARLY:
        return "-"
    return f"{share:.0%}"


def readings(case: dict) -> dict[str, tuple[float, float]]:
    """Shares seen after allocating and after touching, by counter, in the record's order."""
    medians = {name: metric["median"] for name, metric in records.metrics(case).items()}
    names = [name.removesuffix("_allocated") for name in medians if name.endswith("_allocated")]
    return {
        name: (medians[f"{name}_allocated"], medians[f"{name}_touched"])
        for name in names
        if None not in (medians[f"{name}_allocated"], medians.get(f"{name}_touched"))
    }


def agrees(case: dict) -> dict[str, bool]:
    """Whether each counter sees all of the memory once it is touched."""
    return {name: abs(touched - 1) < _NEARLY for name, (_, touched) in readings(case).items()}


def _label(case: dict) -> str:
    _, way, maker = case["workload"].split("/")
    toucher = case["axes"].get("touch")
    extra = "" if case["axes"].get("pages", "standard") == "standard" else f" {case['axes']['pages']}"
    if maker == "cpu":
        return f"{way}{extra}"
    return f"{way}{extra} {maker}" + (f"/{toucher}" if toucher else "")


def _merged(cases: list[dict]) -> dict[str, dict[str, tuple[float, float]]]:
    """Rows by label; several records of one are summed up by their medians."""
    rows: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for case in cases:
        rows.setdefault(_label(case), []).append(readings(case))
    merged = {}
    for label, several in rows.items():
        names = dict.fromkeys(name for each in several for name in each)
        merged[label] = {
            name: tuple(statistics.median(each[name][i] for each in several if name in each) for i in (0, 1))
            for name in names
        }
    return merged


def table(cases: list[dict]) -> str:
    """Counters down, allocations across: 'allocated→touched'."""
    rows = _merged(cases)
    counters = [name for name in _HEADS if any(name in row for row in rows.values())]
    lines = ["what each counter sees: after allocating → after touching (-: nothing)", ""]
    width, first, labels = 80, 0, list(rows)
    head = max(len(_HEADS[name]) for name in counters)
    cells = {
        label: {
            name: f"{word(row[name][0])} → {word(row[name][1])}" if name in row else "not told" for name in counters
        }
        for label, row in rows.items()
    }
    while first < len(labels):
        last, used = first, head
        while last < len(labels):
            column = max(len(labels[last]), *(len(cells[labels[last]][name]) for name in counters)) + 2
            if last > first and used + column > width:
                break
            used, last = used + column, last + 1
        shown = labels[first:last]
        widths = [max(len(label), *(len(cells[label][name]) for name in counters)) + 2 for label in shown]
        lines.append(" " * head + "".join(f"{label:>{size}}" for label, size in zip(shown, widths, strict=True)))
        for name in counters:
            texts = "".join(f"{cells[label][name]:>{size}}" for label, size in zip(shown, widths, strict=True))
            lines.append(f"{_HEADS[name]:<{head}}{texts}")
        missing = [
            sum(
                abs(touched - 1) >= _NEARLY for name, (_, touched) in rows[label].items() if name != "meminfo_anon_huge"
            )
            for label in shown
        ]
        verdicts = ["agree" if count == 0 else f"{count} differ" for count in missing]
        lines.append(f"{'':<{head}}" + "".join(f"{text:>{size}}" for text, size in zip(verdicts, widths, strict=True)))
        lines.append("")
        first = last
    return "\n".join(lines[:-1])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example: isthmus-bench run 'accounting/*' --record r.jsonl && isthmus accounting r.jsonl"
    parser.add_argument("files", nargs="+", metavar="FILE", help="record files, or folders of them")
    parser.add_argument("--emulated", action="store_true", help="emulated records, too: no driver made that memory")


def run(asked: argparse.Namespace) -> int:
    cases, status = records.read_files(asked.files, asked)
    cases = [case for case in cases if case["workload"].startswith("accounting/") and readings(case)]
    cases = records.that_count(cases, emulated=asked.emulated)
    if not cases:
        raise Error("no record says what counters see: run 'accounting/*'")
    print(table(cases))
    return status
