"""Medians of record files with their intervals: `isthmus table FILE…`, with 80 columns, or as json, csv or parquet.

A figure is the median over the jobs of a case on equal machines. `--view levels` derives cache levels from latencies of
several sizes; `--view accounting` shows how much of an allocation memory counters show.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
from typing import Any

from isthmus import options, spelling
from isthmus.grouping import grouped
from isthmus.records import doubts, fields, hardware, jobs, reading
from isthmus.statistics import spread
from isthmus.tables import matrix, output
from isthmus.tables.output import Column
from isthmus.units import quantity

_SIZES = ("tiny", "small", "medium", "large", "super", "mega")
_MODES = ("baseline", "async", "uvm", "uvm_async", "pm", "pm_async")
# Heading, metric, and order in which columns are dropped for lack of room (0 for never). "together" is the time of all
# three phases if they are queued without synchronisation between them.
_COLUMNS = (
    ("in", "in", 0), ("kernel", "kernel", 0), ("out", "out", 0), ("together", "overlapped", 2), ("wall", "wall", 3),
    ("in rate", "in_rate", 1),
)  # fmt: skip
#: Views that --view accepts; each is a module with view(cases).
VIEWS = {
    "levels": "cache levels from latencies of several sizes",
    "accounting": "how much of an allocation memory counters show",
}
#: Columns of a row after those of the case, with their DuckDB types.
MORE = {
    "unit": "VARCHAR", "value": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "interval": "VARCHAR", "jobs": "BIGINT",
    "records": "BIGINT", "share": "DOUBLE", "doubts": "VARCHAR", "outcome": "VARCHAR", "machine": "VARCHAR",
    "system": "VARCHAR", "device": "VARCHAR", "gpus": "BIGINT", "cpu": "VARCHAR", "cores": "BIGINT",
    "emulated": "BOOLEAN",
}  # fmt: skip


_SKIPPED = "skipped: "


@dataclasses.dataclass
class Case:
    """Records of a case on equal machines, with the values of each metric."""

    machine: hardware.Machine
    title: str  # name of the machine
    of: dict  # first record
    records: list[dict] = dataclasses.field(default_factory=list)
    metrics: dict[str, tuple[str, spread.Values]] = dataclasses.field(default_factory=dict)  # metric → unit and values
    figures: dict[str, list[doubts.Figure]] = dataclasses.field(default_factory=dict)  # metric → (record, metric) pairs

    @property
    def mode(self) -> str:
        return self.of.get("mode") or "/".join(filter(None, (self.of["placement"], self.of["staging"])))

    @property
    def jobs(self) -> int:
        return len({jobs.id_of(each) for each in self.records})

    def doubt(self, metric: str) -> str:
        """Returns the doubts about the figure of a metric, in words; empty without doubts."""
        return doubts.say_of_equals(self.figures.get(metric, []))

    @property
    def outcome(self) -> str | None:
        """Reason why all, or some, records lack figures; None if all have figures."""
        found = [why for why in map(_outcome, self.records) if why]
        if not found:
            return None
        return found[0] if len(found) == len(self.records) else f"{len(found)} of {len(self.records)} {found[0]}"

    @property
    def is_skipped(self) -> bool:
        """True if every record was skipped."""
        return (self.outcome or "").startswith(_SKIPPED)


def _outcome(record: dict) -> str | None:
    if why := fields.failure(record):
        return f"FAILED: {why}"
    return f"{_SKIPPED}{record['skipped']}" if record["skipped"] else None


def gather(found: list[dict]) -> list[Case]:
    """Groups records by machine and case, in the order in which they are shown."""
    machines = hardware.machines({hardware.facts(record) for record in found})
    titles = hardware.titles(list(dict.fromkeys(machines.values())))
    cases: dict[tuple, Case] = {}
    for record in found:
        machine = machines[hardware.facts(record)]
        names = ("workload", "version", "placement", "staging", "mode", "size", "preset", "emulated")
        axes = tuple(sorted((name, str(value)) for name, value in record["axes"].items()))
        key = (machine, *(record.get(name) for name in names), record.get("ranks", {}).get("count"), axes)
        case = cases.setdefault(key, Case(machine, titles[machine], record))
        case.records.append(record)
        if _outcome(record) is not None:
            continue
        for name, metric in fields.metrics(record).items():
            unit, values = case.metrics.setdefault(name, (metric["unit"], spread.Values()))
            if metric["median"] is not None and unit == metric["unit"]:
                values.add(record, metric)
                case.figures.setdefault(name, []).append((record, metric))

    def place(names: tuple[str, ...], name: str | None) -> int:
        return names.index(name) if name in names else len(names)

    return sorted(
        cases.values(),
        key=lambda c: (place(_SIZES, c.of["size"]), c.of["workload"], place(_MODES, c.of.get("mode"))),
    )


def varied(cases: list[Case], names: tuple[str, ...] = ()) -> list[str]:
    """Returns how each case differs from others of its workload, such as " device,4096".

    Axes and the fields `names` are compared.
    """
    seen: dict[str, dict[str, set[str]]] = {}
    values = [{name: case.of[name] for name in names} | dict(sorted(fields.axes(case.of).items())) for case in cases]
    for case, own in zip(cases, values, strict=True):
        alike = seen.setdefault(case.of["workload"], {})
        for name, value in own.items():
            alike.setdefault(name, set()).add(str(value))
    words = [
        [str(v) for name, v in own.items() if v is not None and len(seen[case.of["workload"]][name]) > 1]
        for case, own in zip(cases, values, strict=True)
    ]
    return [" " + ",".join(each) if each else "" for each in words]


def _phases(cases: list[Case]) -> list[str]:
    """Returns a table with two lines for each case that has phases: the phases' times, and below them the intervals."""
    columns = [
        Column("workload"),
        Column("mode", right=False),
        *(Column(head, drop=drop) for head, _, drop in _COLUMNS),
    ]
    columns += [Column("of", drop=4), Column("j")]
    rows: list[list[str] | str] = []
    notes: list[str] = []
    for case, differs in zip(cases, varied(cases, ("version", "preset")), strict=True):
        name = case.of["workload"].removeprefix("microbench/") + differs
        if case.outcome and not case.is_skipped:
            notes += output.fold(f"{name} {case.mode}: {case.outcome}")
        if not any(values.jobs for _, values in case.metrics.values()):
            continue
        found = [case.metrics.get(metric) for _, metric, _ in _COLUMNS]
        share = next((case.metrics[m][1].share for m in ("in_rate", "in") if m in case.metrics), None)
        texts = [
            quantity(values.value, unit) if values else "-" for unit, values in (each or ("", None) for each in found)
        ]
        rows.append([name, case.mode, *texts, f"{share:.0%}" if share else "-", str(case.jobs)])
        below = [values.percent() if values else "" for _, values in (each or ("", None) for each in found)]
        rows += [["", "", *below, "", ""]] if any(below) else []
        rows += output.notes_of({head: case.doubt(metric) for head, metric, _ in _COLUMNS})
    return (output.lay_out(columns, rows) if rows else []) + notes


def _readings(cases: list[Case]) -> list[str]:
    """Returns a table with a line per metric, for cases that have other metrics than phases, such as reference/*."""
    columns = [Column("workload"), Column("size", right=False, drop=1), Column("metric", right=False), Column("median"),
               Column("±"), Column("of", drop=2), Column("j")]  # fmt: skip
    rows: list[list[str] | str] = []
    notes: list[str] = []
    for case, differs in zip(cases, varied(cases, ("version", "preset")), strict=True):
        name = case.of["workload"] + differs
        if case.outcome and not case.is_skipped:
            notes += output.fold(f"{name}: {case.outcome}")
        for metric, (unit, values) in case.metrics.items():
            share = f"{values.share:.0%}" if values.share else "-"
            rows.append([name, case.of["size"] or "-", metric, quantity(values.value, unit),
                         values.percent().removeprefix("±"), share, str(len(values.jobs))])  # fmt: skip
            if doubt := case.doubt(metric):
                rows.append(output.Note(doubt))
    return (output.lay_out(columns, rows) if rows else []) + notes


def _of_machine(cases: list[Case]) -> list[str]:
    """Returns the lines of all tables of a machine."""
    lines = []
    phased = [case for case in cases if case.of["placement"]]
    for size in dict.fromkeys(case.of["size"] for case in phased):
        members = [case for case in phased if case.of["size"] == size]
        lines += ["", *output.fold(f"size {size}, {cases[0].title}"), *_phases(members)]
    others = [case for case in cases if not case.of["placement"] and not matrix.route(case.of["workload"])]
    if others:
        lines += ["", *output.fold(cases[0].title), *_readings(others)]
    routed = [case for case in cases if not case.of["placement"] and matrix.route(case.of["workload"])]
    if routed:
        found = [record for case in routed for record in case.records]
        lines += ["", *output.fold(cases[0].title), *matrix.matrices(found)]
    return lines


def table(found: list[dict]) -> str:
    """Returns the text for people: rows grouped by machine, size, workload and mode, then doubts about figures."""
    cases = gather(found)
    lines: list[str] = []
    for machine in dict.fromkeys(case.machine for case in cases):
        lines += _of_machine([case for case in cases if case.machine == machine])
    lines += _skipped(cases)
    if any(values.spread for case in cases for _, values in case.metrics.values()):
        lines += ["", *output.fold(spread.MEANING + " j: jobs.")]
    if any(record["emulated"] for record in found):
        lines += ["", "Emulated: no GPU ran. Results were verified; device times mean nothing."]
    return "\n".join([*lines, *_warnings(found)])


def _skipped(cases: list[Case]) -> list[str]:
    """Returns lines with the number of skipped cases and, for each reason, their number and names."""
    skipped = [case for case in cases if case.is_skipped]
    if not skipped:
        return []
    lines = ["", f"Skipped: {len(skipped)} of {spelling.counted(len(cases), 'case')}"]
    names = varied(cases, ("version", "preset"))
    named = {id(case): f"{case.of['workload']}{name}" for case, name in zip(cases, names, strict=True)}
    reasons = grouped(((case.outcome or "").removeprefix(_SKIPPED), named[id(case)]) for case in skipped)
    for reason, members in sorted(reasons.items(), key=lambda each: -len(each[1])):
        few = [*dict.fromkeys(members)][:3]
        more = " and others" if len(set(members)) > len(few) else ""
        lines += output.fold(f"{len(members):>4} × {reason} ({', '.join(few)}{more})")
    return lines


def _warnings(found: list[dict]) -> list[str]:
    warnings = grouped((each["code"], each["message"]) for record in found for each in record["warnings"])
    lines = []
    for code, messages in sorted(warnings.items()):
        lines += output.fold(f"Warning {code} in {len(messages)} of {len(found)} records: {messages[0]}")
    return lines


def rows_of(cases: list[Case]) -> list[dict[str, Any]]:
    """Returns the rows for programs: one per metric of a case, and one for a case without metrics."""
    rows = []
    for case in cases:
        of, machine = case.of, case.machine
        common = {name: of.get(name) for name in output.CASE} | {
            "ranks": of.get("ranks", {}).get("count"), "axes": of["axes"], "records": len(case.records),
            "outcome": case.outcome, "machine": case.title, "system": machine.system, "device": machine.device or None,
            "gpus": machine.gpus, "cpu": machine.cpu, "cores": machine.cores, "emulated": of["emulated"],
        }  # fmt: skip
        for name, (unit, values) in case.metrics.items():
            rows.append(common | spread.fields(values.spread) | {
                "metric": name, "unit": unit, "value": values.value, "share": values.share, "jobs": len(values.jobs),
                "doubts": case.doubt(name) or None,
            })  # fmt: skip
        if not case.metrics:
            rows.append(common | {"jobs": case.jobs})
    return rows


# --- the command ---


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "examples:\n  isthmus table results\n  isthmus table results --format csv -o results.csv\n"
        "  isthmus table latency.jsonl --view levels"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="record files, or folders of them")
    words = "; ".join(f"{name}: {what}" for name, what in VIEWS.items())
    parser.add_argument("--view", choices=VIEWS, help=f"another view: {words}")
    parser.add_argument(
        "--emulated", action="store_true", help="with --view: include emulated records, whose times mean nothing"
    )
    output.add_arguments(parser)


def run(asked: argparse.Namespace) -> int:
    if not asked.view:
        options.refuse_idle({"--emulated": asked.emulated}, "with --view; the plain table has emulated records anyway")
    found, status = reading.read_files(asked.files, asked)
    if asked.view:
        view = importlib.import_module(f"isthmus.tables.{asked.view}")
        shown = view.view(fields.that_count(found, emulated=asked.emulated))
    elif output.chosen_format(asked) == "text":
        shown = output.Table({}, [], table(found))
    else:
        shown = output.of_cases(rows_of(gather(found)), MORE, "")
    output.write(asked, shown)
    return status
