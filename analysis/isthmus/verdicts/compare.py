"""Compares systems: each metric's value, its share of the hardware's limit, and its ratio with an interval.

Each DIR is a system, and ratios are relative to the first one. With --by FIELD, one folder is split by a field of the
fingerprint (system, device, driver, …), and records without that field are left out. Ratios compare means over nodes,
and a node's figure is the mean over its boots. The 95% interval applies to such nodes; for a single node, it applies
only to that node. Figures of one boot, or of one night of several nodes, have no interval, because they do not show how
much boots and nights differ.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import sys
from typing import Any

import numpy as np

from isthmus import Error, exits, spelling
from isthmus.grouping import grouped
from isthmus.records import agreement, doubts, measurements, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import rank_test, series, spread
from isthmus.statistics.series import Job, Series, Uncounted
from isthmus.tables import output
from isthmus.verdicts import clusters, comparison, environment, judging, outlying, side_by_side, uneven

WANTED = (
    *comparison.WANTED,
    *environment.HOSTS,
    "share",
    "limit_value",
    "mad",
    "within_low",
    "within_high",
    *doubts.ROW,
)
EQUAL_LOW, EQUAL_HIGH = 1 / (1 + judging.FLOOR), 1 + judging.FLOOR  # ratios between these are of no interest


@dataclasses.dataclass
class System:
    """Everything that was measured on a system."""

    name: str
    series: dict[tuple, Series]
    shares: dict[tuple, float]
    # Spread of series with only one job, from the records of this job.
    alone: dict[tuple, spread.Spread | None] = dataclasses.field(default_factory=dict)
    # Speed of the hosts when programs began. It is not a figure of the system, so it is not part of a score.
    hosts: dict[tuple, Series] = dataclasses.field(default_factory=dict)
    uncounted: Uncounted = dataclasses.field(default_factory=Uncounted)
    # Reasons in the system's records to doubt the figure of a series, in words.
    doubts: dict[tuple, str] = dataclasses.field(default_factory=dict)
    facts: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # field of the fingerprint → its values
    ran: uneven.Ran = dataclasses.field(default_factory=uneven.Ran)
    lacking: list[str] = dataclasses.field(default_factory=list)  # sentences on nodes and GPUs without figures
    slow: str = ""  # nodes and GPUs that are slower than their equals, in words
    skipped: str = ""  # number of skipped cases and the most frequent reason, in words

    @functools.cached_property
    def idle(self) -> list[uneven.Place]:
        """Nodes that ran cases but have no figure that counts."""
        return uneven.without_figures(self.ran, [*self.series.values(), *self.hosts.values()])

    @functools.cached_property
    def occasions(self) -> dict[str, Any]:
        """Occasion of each job, keyed by job name; an occasion is a night, or the time after a restart of all nodes."""
        return clusters.occasions(self._jobs())

    @functools.cached_property
    def nodes(self) -> set[str]:
        return {node for each in self.series.values() for job in each.of("A") for node in job.nodes}

    @functools.cached_property
    def versions(self) -> dict[str, set]:
        """Measured versions of each workload."""
        found: dict[str, set] = {}
        for each in self.series.values():
            found.setdefault(each.workload, set()).add(each.case["version"])
        return found

    def _jobs(self) -> list[Job]:
        """Returns one Job for each job name, with all nodes on which it ran and the time of its first record."""
        found: dict[str, list[Job]] = {}
        for each in (*self.series.values(), *self.hosts.values()):
            for job in each.of("A"):
                found.setdefault(job.name, []).append(job)
        return [
            Job(
                name,
                {place: value for part in parts for place, value in part.places.items()},
                frozenset().union(*(part.boots for part in parts)),
                min((part.time for part in parts if part.time), default=None),
            )
            for name, parts in found.items()
        ]

    def of(self, key: tuple) -> Series | None:
        return self.series.get(key) or self.hosts.get(key)


@dataclasses.dataclass
class Cell:
    """Figure of a series on one system, with its ratio to the first system's figure; above 1 if it is larger.

    The verdict is "better" or "worse", "other" (different, and neither direction is better), "equal", or "unsure". It
    is empty without a ratio.
    """

    value: float
    share: float | None
    jobs: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    interval: spread.Spread | None = None  # spread of the value
    nodes: int | None = None
    boots: int | None = None
    p: float = 1.0
    verdict: str = ""
    better: bool | None = None  # true if the ratio is an improvement; None if neither direction is better
    reason: str = ""  # key of clusters.MEANING that explains why there is no interval
    single: bool = False  # true if either system has a single node, so that the interval applies only to this node
    doubts: str = ""  # reasons in the records to doubt the value


def _alone(opened: store.Store, side: str) -> dict[tuple, spread.Spread | None]:
    """Returns the spread of each series: the range of its records, or the spread within its only record."""
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
    hosts = {each.key: each for each in environment.hosts(opened, side)}
    without = series.uncounted(opened, f"({side}) = 'A'")
    own = {each.key: each for each in every}
    return System(
        name, own, shares, _alone(opened, side), hosts, without, _doubts(opened, side), _facts(opened, side),
        uneven.ran(opened, side), slow=outlying.slow_in_words(opened, f"({side}) = 'A'"),
        skipped=_skipped(opened, side),
    )  # fmt: skip


def _skipped(opened: store.Store, side: str) -> str:
    """Returns text such as "skipped 3 of 6 cases, most as: needs 4 GiB"; empty if every case ran."""
    [(skipped, cases, why)] = opened.sql(
        f"SELECT count(skipped), count(*), mode(skipped) FROM measurements WHERE metric_index = 0 AND ({side}) = 'A'"
    ).fetchall()
    if not skipped:
        return ""
    reason = spelling.shorten(spelling.printable(why), 80)
    return f"skipped {skipped} of {spelling.counted(cases, 'case')}, {'most ' if skipped > 1 else ''}because: {reason}"


_FACTS = tuple(
    name for name in ("driver", "git", "runtime", "compiler", "flags", "code", *measurements.FINGERPRINT)
    if name not in ("boot", "device", "arch", *measurements.OBJECTS)
)  # fmt: skip


def _facts(opened: store.Store, side: str) -> dict[str, list[str]]:
    """Returns the values of each field of the fingerprint in a system's records, the most informative fields first."""
    names = [*dict.fromkeys(_FACTS)]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in names)
    [row] = opened.rows(f"SELECT {lists} FROM measurements WHERE ({side}) = 'A'")
    return {name: [value for value in row[name] or [] if value not in (None, "")] for name in names}


def _doubts(opened: store.Store, side: str) -> dict[tuple, str]:
    """Returns, for each series, the reasons in its records to doubt its figure.

    Records with the same device and CPU are equals.
    """
    fields = f"struct_pack(kind := device || ',' || cpu, row := {doubts.ROW_STRUCT})"
    found = {}
    for key, rows in series.per_series(opened, f"list({fields})", f"({side}) = 'A'").items():
        kinds = grouped((each["kind"], each["row"]) for each in rows)
        if said := doubts.say([each for equals in kinds.values() for each in doubts.of_rows(equals)]):
            found[key] = said
    return found


def load(asked) -> list[System]:
    """Loads the systems that a command line names. Raises Error if there are fewer than two.

    Prints on stderr which cases do not count. Adds failed, wrong and disagreeing cases to `asked.doubts`, which
    determines the exit code.
    """
    disagreeing: list[str] = []
    if asked.by:
        if asked.by not in series.FIELDS:
            meant = spelling.did_you_mean(asked.by, series.FIELDS) or f"; choose from {', '.join(series.FIELDS)}"
            raise Error(f"--by {asked.by} is not a field{meant}")
        with selection.from_arguments(asked, wanted=WANTED) as opened:
            column = f'"{asked.by}"::VARCHAR'
            records = _records_by(opened, column)
            lacking = records.pop("", 0)
            if len(records) < 2:
                raise Error(_why_not_two(asked.by, records, lacking))
            if lacking:
                print(f"{spelling.counted(lacking, 'record')} without {asked.by} left out", file=sys.stderr)
            systems = [_load(opened, f"CASE WHEN {column} = {literal(v)} THEN 'A' END", v) for v in records]
            disagreeing += agreement.disagreements(opened.results)
    else:
        systems, results, said = [], [], set()
        for opened, name in zip(selection.each_folder(asked, wanted=WANTED), _names(asked.paths), strict=True):
            systems.append(_load(opened, "'A'", name))
            results += opened.results
            said.update(agreement.disagreements(opened.results))
        disagreeing += agreement.disagreements(results)
        agreement.say_disagreements([each for each in disagreeing if each not in said])
        if len(systems) < 2:
            raise Error(
                "comparing needs two systems, but one folder was named; name another folder, or a field for --by"
            )
    for system in systems:
        system.uncounted.say(system.name)
        if system.slow:
            note = f"{spelling.printable(system.name)}: {system.slow}; its figures include them (see `isthmus nodes`)"
            print(note, file=sys.stderr)
    _set_lacking(systems)
    asked.doubts = disagreeing + [system.uncounted.words for system in systems if system.uncounted.bad]
    asked.doubts += [sentence for system in systems for sentence in system.lacking]
    return systems


def _set_lacking(systems: list[System]) -> None:
    """Adds nodes without figures, and nodes and GPUs on which only other systems ran, to each system's `lacking`."""
    ran_by = [system.ran for system in systems]
    for at, system in enumerate(systems):
        name = spelling.printable(system.name)
        if none := system.idle:
            system.lacking.append(f"{name} has no figure on {uneven.places_in_words(none)}, where cases ran")
        if gone := uneven.only_in(at, ran_by):
            system.lacking.append(f"{name} did not run on {uneven.places_in_words(gone)}, but others here did")


def _doubt_uneven(systems: list[System], shared: dict[tuple, str]) -> list[str]:
    """Adds doubts to figures that some nodes and GPUs of a system lack; returns these doubts as sentences.

    `shared` maps the keys of the compared series to their labels.
    """
    sentences: list[str] = []
    ran_by, every = [system.ran for system in systems], [system.series for system in systems]
    for at, system in enumerate(systems):
        short = {key: uneven.lacks(key, at, every, ran_by) - set(system.idle) for key in shared if key in system.series}
        for key, places in short.items():
            if places:
                said = f"lacking on {uneven.places_in_words(sorted(places))}"
                system.doubts[key] = "; ".join(filter(None, (system.doubts.get(key), said)))
        found = uneven.in_words(system.name, short, shared)
        system.lacking += found
        sentences += found
    return sentences


def _records_by(opened: store.Store, column: str) -> dict[str, int]:
    """Returns the number of records for each value of a column; the key is "" for records without a value.

    A value is left out if none of its records has a requested metric, a skip or a failure.
    """
    asked = f"metric IS NOT NULL OR skipped IS NOT NULL OR {series.FAILED}"
    rows = opened.sql(
        f"SELECT coalesce({column}, '') AS value, count(*) FILTER (metric_index = 0) FROM measurements GROUP BY value "
        f"HAVING bool_or({asked}) ORDER BY value"
    )
    return dict(rows.fetchall())


def _why_not_two(field: str, records: dict[str, int], lacking: int) -> str:
    """Explains why splitting records by a field did not give two systems."""
    there = f"no record has {field}"
    if records:
        [(value, count)] = records.items()
        some = f"{spelling.counted(count, 'record')}, and {lacking} without it"
        there = f"{field} is {value} in {some if lacking else 'all selected records'}"
    return f"comparing needs two systems, but {there}; name another folder, or another field for --by"


def _names(paths) -> list[str]:
    """Returns the shortest endings of the folders' paths that distinguish them."""
    for length in range(1, 20):
        names = ["/".join(pathlib.Path(path).resolve().parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise Error("a folder is named twice; name each system once")


# --- figures of a series ---


def cells(systems: list[System], key: tuple) -> list[Cell | None]:
    """Returns a cell for each system, or None for systems that lack the series."""
    row: list[Cell | None] = []
    first = systems[0].of(key)
    reference = _estimate(systems[0], first) if first else None
    for system in systems:
        found = system.of(key)
        if found is None:
            row.append(None)
            continue
        jobs = found.all("A")
        own = reference if found is first else _estimate(system, found)
        cell = Cell(float(np.median(jobs)), system.shares.get(key), len(jobs))
        cell.interval = spread.over_jobs(jobs.tolist()) if len(jobs) > 1 else system.alone.get(key)
        cell.doubts = system.doubts.get(key, "")
        if own is not None:
            cell.nodes, cell.boots = own.nodes, own.boots
        if own is not None and reference is not None and found is not first:
            _set_ratio(cell, own, reference, found.better)
        row.append(cell)
    return row


def _estimate(system: System, found: Series) -> clusters.Estimate | None:
    """Estimates the mean of the logarithms and its variance; returns None if a value is not above zero."""
    if not series.has_ratios(found, ("A",)):
        return None
    return clusters.estimate([clusters.cells(found.of("A"), system.occasions)], [1.0])


def _set_ratio(cell: Cell, own: clusters.Estimate, reference: clusters.Estimate, better: str | None) -> None:
    difference = float(own.logs[0] - reference.logs[0])
    half = clusters.half(own, reference)
    cell.ratio, cell.p = _exp(difference), clusters.p_value(difference, own, reference)
    cell.reason = own.reason or reference.reason
    cell.single = 1 in (own.nodes, reference.nodes)
    if math.isfinite(half):
        cell.low, cell.high = _exp(difference - half), _exp(difference + half)
    cell.verdict = "unsure"
    if cell.low is not None and cell.high is not None and cell.low >= EQUAL_LOW and cell.high <= EQUAL_HIGH:
        cell.verdict = "equal"
    cell.better = {"higher": cell.ratio > 1, "lower": cell.ratio < 1}.get(better or "")


def _exp(value: float) -> float:
    return math.exp(min(value, 700))


def _decide(rows: dict[tuple, list[Cell | None]], systems: int) -> None:
    """Sets the verdict of each significant difference; significance is corrected for the system's number of series."""
    for at in range(1, systems):
        found = [row[at] for row in rows.values()]
        judged = [cell for cell in found if cell is not None and cell.ratio is not None and cell.verdict != "equal"]
        adjusted = rank_test.adjusted(np.array([cell.p for cell in judged] or [1.0]))
        for cell, q in zip(judged, adjusted):
            if cell.low is not None and q <= rank_test.SESSION and cell.p <= rank_test.SESSION:
                cell.verdict = "other" if cell.better is None else "better" if cell.better else "worse"


# --- rows for programs ---

_COLUMNS = {
    "unit": "VARCHAR", "series": "VARCHAR", "system": "VARCHAR", "value": "DOUBLE", "value_low": "DOUBLE",
    "value_high": "DOUBLE", "interval": "VARCHAR", "share": "DOUBLE", "jobs": "BIGINT", "nodes": "BIGINT",
    "boots": "BIGINT", "reference": "VARCHAR", "ratio": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE",
    "verdict": "VARCHAR", "reason": "VARCHAR", "doubts": "VARCHAR",
}  # fmt: skip


def table_of(systems: list[System], *, everything: bool = False) -> output.Table:
    """Makes a table with a row for each series of each system. Raises Error if no two systems share a series."""
    measured = {key: each for system in systems for key, each in system.series.items()}
    every = measured | {key: each for system in systems for key, each in system.hosts.items()}
    names = series.labels(list(every.values()))
    found = {key: cells(systems, key) for key in sorted(every, key=lambda key: (key not in measured, names[key]))}
    shared = {key: row for key, row in found.items() if sum(cell is not None for cell in row) > 1}
    if not set(shared) & set(measured):
        raise Error(_nothing_shared(systems))
    _decide({key: row for key, row in shared.items() if key in measured}, len(systems))
    rows: list[dict[str, Any]] = []
    for key, row in found.items():
        for system, cell in zip(systems, row):
            if cell is not None:
                named = {"series": names[key], "system": system.name, "reference": systems[0].name}
                sure = spread.fields(cell.interval)
                ends = {"value_low": sure["low"], "value_high": sure["high"], "interval": sure["interval"]}
                ends |= {"verdict": cell.verdict or None, "reason": cell.reason or None, "doubts": cell.doubts or None}
                rows.append(every[key].case | named | dataclasses.asdict(cell) | ends)
    text, answer = side_by_side.text(systems, shared, names, {key: every[key] for key in shared}, everything)
    return output.of_cases(rows, _COLUMNS, text, answer)


def _nothing_shared(systems: list[System]) -> str:
    bad = "; ".join(f"{system.name}: {system.uncounted.words}" for system in systems if system.uncounted.words)
    if any(not system.series for system in systems) and bad:
        return f"no series that counts is in two systems ({bad}); fix what fails there, and measure it again"
    versions = side_by_side.versions(systems)
    if versions:
        return f"no series is in two systems: {versions[0]}; measure both with the same Isthmus"
    return "no series is in two systems: they measured different workloads, versions or parameters"


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus compare old-system new-system\n  isthmus compare results --by device\n\n"
        "exit codes: 0 every case that ran was verified; 2 bad input; 3 cases of a system failed or are wrong,\n"
        "results of the same inputs disagree, nodes or GPUs lack figures that others of their system have, or files\n"
        "could not be read"
    )
    selection.add_arguments(parser)
    parser.add_argument("--by", metavar="FIELD", help="split the records by this field instead of by folder")
    parser.add_argument("--all", action="store_true", help="list every series")
    output.add_arguments(parser)


def run(asked) -> int:
    systems = load(asked)
    every = {key: each for system in systems for key, each in system.series.items()}
    shared = {key for key in every if sum(key in system.series for system in systems) > 1}
    labels = series.labels(list(every.values()))
    asked.doubts += _doubt_uneven(systems, {key: label for key, label in labels.items() if key in shared})
    output.write(asked, table_of(systems, everything=asked.all))
    return exits.PASSED
