"""Systems side by side: each metric's value, its share of the hardware's limit, and the ratio with its interval.

Each DIR is a system, the first the one that the others are divided by; with --by FIELD, one folder is split by a field
of the fingerprint (system, device, driver, …), and records without it are left out. The interval is of the jobs that
were run: it says how sure the ratio of these nodes is, and where four nodes or more were measured on both sides, that
of such nodes.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from typing import Any

import numpy as np

from isthmus import Error, exits, spelling, units
from isthmus.groups import grouped
from isthmus.records import agreement, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import rank_test, series, spread
from isthmus.statistics.series import Series, Uncounted
from isthmus.tables import output
from isthmus.verdicts import surroundings, two_sides

WANTED = (
    *two_sides.WANTED,
    *surroundings.HOSTS,
    "share",
    "limit_value",
    "mad",
    "within_low",
    "within_high",
    "n_samples",
)
_NODES = 4  # with as many on both sides, the node is the unit


@dataclasses.dataclass
class System:
    """What one system measured."""

    name: str
    series: dict[tuple, Series]
    shares: dict[tuple, float]
    # What the only job of a series says of itself.
    alone: dict[tuple, spread.Spread | None] = dataclasses.field(default_factory=dict)
    # How fast its hosts were when programs began; no figure of the system, so no part of a score.
    hosts: dict[tuple, Series] = dataclasses.field(default_factory=dict)
    uncounted: Uncounted = dataclasses.field(default_factory=Uncounted)

    def of(self, key: tuple) -> Series | None:
        return self.series.get(key) or self.hosts.get(key)


@dataclasses.dataclass
class Cell:
    """One system's figure of a series; ratio and interval against the first system's, above 1 is a larger value."""

    value: float
    share: float | None
    jobs: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    interval: spread.Spread | None = None  # of the value


def _alone(opened: store.Store, side: str) -> dict[tuple, spread.Spread | None]:
    """Of each series: the range of its records, or what its only record says of itself."""
    expressions = {
        "medians": "list(median)", "low": "any_value(within_low)", "high": "any_value(within_high)",
        "mad": "any_value(mad)", "samples": "min(n_samples - n_invalid)",
    }  # fmt: skip
    fields = ", ".join(f"{name} := {expression}" for name, expression in expressions.items())
    result: dict[tuple, spread.Spread | None] = {}
    for key, of in series.per_series(opened, f"struct_pack({fields})", f"({side}) = 'A'").items():
        alone = spread.of_record(of["medians"][0], (of["low"], of["high"]), of["mad"], of["samples"])
        result[key] = spread.of_jobs([of["medians"]], alone)
    return result


def _load(opened: store.Store, side: str, name: str) -> System:
    every = series.load(opened, side)
    shares = series.per_series(opened, "median(share)", f"({side}) = 'A'")
    hosts = {each.key: each for each in surroundings.hosts(opened, side)}
    without = series.uncounted(opened, f"({side}) = 'A'")
    return System(name, {each.key: each for each in every}, shares, _alone(opened, side), hosts, without)


def load(asked) -> list[System]:
    """The systems that a command line names; refuses fewer than two.

    Names on stderr what does not count. What failed, is wrong or disagrees is in `asked.doubts`, for the exit code.
    """
    doubts: list[str] = []
    if asked.by:
        if asked.by not in series.FIELDS:
            meant = spelling.did_you_mean(asked.by, series.FIELDS) or f"; choose from {', '.join(series.FIELDS)}"
            raise Error(f"--by {asked.by} is no field{meant}")
        with selection.from_arguments(asked, wanted=WANTED) as opened:
            column = f'"{asked.by}"::VARCHAR'
            records = _records_by(opened, column)
            lacking = records.pop("", 0)
            if len(records) < 2:
                raise Error(_why_not_two(asked.by, records, lacking))
            if lacking:
                print(f"{spelling.counted(lacking, 'record')} without {asked.by} left out", file=sys.stderr)
            systems = [_load(opened, f"CASE WHEN {column} = {literal(v)} THEN 'A' END", v) for v in records]
            doubts += agreement.disagreements(opened.results)
    else:
        systems, results, said = [], [], set()
        for path, name in zip(asked.paths, _names(asked.paths)):
            with selection.from_arguments(asked, paths=[path], wanted=WANTED) as opened:
                systems.append(_load(opened, "'A'", name))
                results += opened.results
                said.update(agreement.disagreements(opened.results))
        doubts += agreement.disagreements(results)
        agreement.say_disagreements([each for each in doubts if each not in said])
        if len(systems) < 2:
            raise Error(
                "comparing needs two systems, but one folder was named; name another folder, or a field for --by"
            )
    for system in systems:
        system.uncounted.say(system.name)
    asked.doubts = doubts + [system.uncounted.words for system in systems if system.uncounted.bad]
    return systems


def _records_by(opened: store.Store, column: str) -> dict[str, int]:
    """How many records have each value of a column, empty for none; without values that have nothing that was asked."""
    asked = f"metric IS NOT NULL OR skipped IS NOT NULL OR {series.FAILED}"
    rows = opened.sql(
        f"SELECT coalesce({column}, '') AS value, count(*) FILTER (metric_index = 0) FROM measurements GROUP BY value "
        f"HAVING bool_or({asked}) ORDER BY value"
    )
    return dict(rows.fetchall())


def _why_not_two(field: str, records: dict[str, int], lacking: int) -> str:
    """Records split by a field: what there is instead of two values."""
    there = f"no record has {field}"
    if records:
        [(value, count)] = records.items()
        some = f"{spelling.counted(count, 'record')}, and {lacking} without it"
        there = f"{field} is {value} in {some if lacking else 'all records that were asked for'}"
    return f"comparing needs two systems, but {there}; name another folder, or another field for --by"


def _names(paths) -> list[str]:
    """Names of folders, as short as they tell them apart."""
    for length in range(1, 20):
        names = ["/".join(pathlib.Path(path).resolve().parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise Error("a folder is named twice; name each system once")


def _per_unit(each: series.Series) -> tuple[np.ndarray, np.ndarray]:
    """Values per job, and per node."""
    return each.all("A"), np.array([np.median(values) for values in series.apart(each.of("A")).values()])


def cells(systems: list[System], key: tuple) -> list[Cell | None]:
    """A cell for each system that has the series."""
    row: list[Cell | None] = []
    for system in systems:
        found = system.of(key)
        if found is None:
            row.append(None)
            continue
        jobs, nodes = _per_unit(found)
        cell = Cell(float(np.median(jobs)), system.shares.get(key), len(jobs))
        cell.interval = spread.over_jobs(jobs.tolist()) if len(jobs) > 1 else system.alone.get(key)
        first = systems[0].of(key)
        if first is not None and found is not first:
            a_jobs, a_nodes = _per_unit(first)
            a, b = (a_nodes, nodes) if min(len(a_nodes), len(nodes)) >= _NODES else (a_jobs, jobs)
            if (a > 0).all() and (b > 0).all():
                compared = rank_test.compare([(np.log(a), np.log(b))])
                cell.ratio = math.exp(compared.estimate)
                if math.isfinite(compared.low):
                    cell.low, cell.high = math.exp(compared.low), math.exp(compared.high)
        row.append(cell)
    return row


def _three_digits(ratio: float) -> str:
    return f"{ratio:#.3g}".rstrip(".")


def _cells_of(cell: Cell | None, unit: str) -> list[str]:
    """Of a line of the text: value, how sure it is, share, ratio and its interval."""
    if cell is None:
        return ["-", "", "", "", ""]
    texts = [units.quantity(cell.value, unit), spread.percent(cell.value, cell.interval)]
    texts.append(f"{cell.share:.0%}" if cell.share else "")
    if cell.ratio is None:
        return [*texts, "", ""]
    interval = (
        "?" if cell.low is None or cell.high is None else f"[{_three_digits(cell.low)}, {_three_digits(cell.high)}]"
    )
    return [*texts, f"×{_three_digits(cell.ratio)}", interval]


_COLUMNS = {
    "unit": "VARCHAR", "series": "VARCHAR", "system": "VARCHAR", "value": "DOUBLE", "value_low": "DOUBLE",
    "value_high": "DOUBLE", "interval": "VARCHAR", "share": "DOUBLE", "jobs": "BIGINT", "reference": "VARCHAR",
    "ratio": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE",
}  # fmt: skip


def table_of(systems: list[System]) -> output.Table:
    """A row for each series of each system. Raises Error where no two systems have one in common."""
    measured = {key: each for system in systems for key, each in system.series.items()}
    every = measured | {key: each for system in systems for key, each in system.hosts.items()}
    names = series.labels(list(every.values()))
    found = {key: cells(systems, key) for key in sorted(every, key=lambda key: (key not in measured, names[key]))}
    shared = {key: row for key, row in found.items() if sum(cell is not None for cell in row) > 1}
    if not set(shared) & set(measured):
        bad = "; ".join(f"{system.name}: {system.uncounted.words}" for system in systems if system.uncounted.bad)
        if bad:
            raise Error(f"no series that counts is in two systems ({bad}); mend what fails there, and measure it again")
        raise Error("no series is in two systems: they measured different workloads, versions or parameters")
    rows: list[dict[str, Any]] = []
    for key, row in found.items():
        for system, cell in zip(systems, row):
            if cell is not None:
                named = {"series": names[key], "system": system.name, "reference": systems[0].name}
                sure = spread.fields(cell.interval)
                ends = {"value_low": sure["low"], "value_high": sure["high"], "interval": sure["interval"]}
                rows.append(every[key].case | named | dataclasses.asdict(cell) | ends)
    return output.of_cases(rows, _COLUMNS, text(systems, shared, names, {key: every[key] for key in shared}))


_SHOWN = [
    output.Column("metric"), output.Column("system", right=False), output.Column("value"), output.Column("±", drop=1),
    output.Column("of", drop=2), output.Column("ratio"), output.Column("95%"),
]  # fmt: skip


def text(
    systems: list[System], rows: dict[tuple, list[Cell | None]], names: dict[tuple, str], of: dict[tuple, Series]
) -> str:
    """Below each case a line for each metric and system, of what two systems have; then what only one has."""
    by_case = grouped(
        (names[key].removesuffix(f" {spelling.printable(of[key].metric)}"), (of[key], row)) for key, row in rows.items()
    )
    shown: list[list[str] | str] = []
    for case, members in by_case.items():
        shown.append(case)
        for each, row in members:
            metrics = [each.metric, *[""] * (len(systems) - 1)]  # said once
            shown += [
                [metric, system.name, *_cells_of(cell, each.unit)]
                for metric, system, cell in zip(metrics, systems, row)
            ]
    lines = output.lay_out(_SHOWN, shown)
    lines += ["", *output.fold(spread.MEANING.replace(" (j=1)", ""))]
    lines += output.fold(
        f"of: the share of its limit. ratio: to {systems[0].name}. 95%: the ratio's interval over jobs; ?: fewer than "
        "4 jobs of each."
    )
    for system in systems:
        alone = [key for key in system.series if sum(key in other.series for other in systems) == 1]
        if alone:
            lines += output.fold(f"only in {system.name}: {len(alone)} series, such as {names[min(alone, key=str)]}")
    return "\n".join(lines)


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus compare old-system new-system\n  isthmus compare results --by device\n\n"
        "exit codes: 0 every case was verified; 2 bad input; 3 cases of a system failed or are wrong, results of the\n"
        "same inputs disagree, or files could not be read"
    )
    selection.add_arguments(parser)
    parser.add_argument("--by", metavar="FIELD", help="split the records by this field instead of by folder")
    output.add_arguments(parser)


def run(asked) -> int:
    output.write(asked, table_of(load(asked)))
    return exits.PASSED
