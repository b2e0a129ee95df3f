"""Finds changes that were not announced: when a metric moved, on which nodes, and what else changed there.

Each series of a node and GPU is watched from its first job to its last, and so are each node over all its metrics, each
metric over all nodes, and everything together. Searching again after every job does not raise more false alarms,
because the evidence for a change is an e-process: its reciprocal is a p-value at any time. p is adjusted for everything
that is watched. The correlation between consecutive jobs is measured and removed first. Single jobs that are far off
are outliers: they are named, but do not affect the noise or the level. A level that moves gradually is a creep. A
collapse far beyond all earlier values is reported at its first job. The share of failed cases is also watched, and so
are nodes, GPUs and series that vanish or appear on only half of the days.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from isthmus import exits, spelling
from isthmus.grouping import grouped
from isthmus.records import measurements, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import change_points, rank_test, series
from isthmus.statistics.change_points import FEWEST
from isthmus.tables import output
from isthmus.verdicts import comparison, environment, histories, missing
from isthmus.verdicts.histories import FLOOR, History

_FAILING = 0.05  # noise added to shares of failed cases, which are mostly 0, so that one failure is not a change


# --- search ---


@dataclasses.dataclass
class Change:
    """Change point of a series on one node and GPU, or of several series together."""

    label: str
    node: str  # empty for all nodes
    gpus: str
    before: str  # last job before the change, with its time
    after: str  # first job after the change, with its time
    # Share of the earlier median, or a difference; for several series, the share by which they improved.
    size: float | None  # None if the series vanished
    ratio: bool
    q: float | None
    differences: list[str] = dataclasses.field(default_factory=list)  # fields of the fingerprint that changed there
    window: tuple = ()  # earliest and latest time at which the change may have happened
    together: int = 1  # number of series that it represents
    near: tuple[Sequence[str], Sequence[str]] = ((), ())  # jobs just before and just after the change
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # series.Series.case of a single series
    low: float | None = None  # lower end of the 95% interval of the size
    high: float | None = None
    better: bool | None = None  # None if neither direction is better
    as_one: bool = True  # false if the mean of several series moved although most of them did not
    creeps: bool = False  # true if the level moved gradually, from `before` to `after`
    left: tuple[int, int] = (0, 0)  # numbers of days with the series since it vanished, and of all days since then

    @property
    def order(self) -> tuple:
        """Sort key that puts the surest change first."""
        return (self.q or 0.0, -self.together, -abs(self.size or 0.0), self.label, self.node)


@dataclasses.dataclass
class Outlier:
    """Job whose figures are far from those of the jobs around it, in one or several series of a node."""

    label: str
    node: str
    gpus: str
    job: str  # name and time of the job
    time: datetime.datetime
    size: float  # deviation from its neighbours' median, as a share or a difference
    ratio: bool
    sign: int
    together: int = 1  # number of series in which the job is an outlier
    last: bool = False  # true if no later jobs show whether it is an outlier or a change
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # series.Series.case


@dataclasses.dataclass
class Found:
    """Results of a search."""

    changes: list[Change]
    outliers: list[Outlier]
    searched: int  # number of histories of single measured series that were searched
    nodes: int = 0
    days: tuple[datetime.date, ...] = ()  # days on which any of these series was measured, ascending


def find(every: list[series.Series], failing: Sequence[series.Series] = ()) -> Found:
    """Finds changes and outliers of side A; returns the surest changes and the farthest outliers first.

    `failing` contains shares of failed cases, each of which is watched separately.
    """
    single, shares = histories.of_series(every), histories.of_series([*failing])
    pooled = histories.pooled(single) if single else []
    if single:
        histories.allow(single, pooled)
    for history in shares:
        history.added = _FAILING
        history.alike = change_points.allowance(history.autocorrelation(), len(history.jobs))
    watched = [*single, *pooled, *shares]
    candidates = [(history, *each) for history in watched for each in _segments(history)]
    q = rank_test.adjusted(np.array([p for *_, p in candidates]))
    changes = [
        _change(history, start, place, end, creeps, float(adjusted))
        for (history, start, place, end, creeps, p), adjusted in zip(candidates, q)
        if p <= rank_test.ALPHA and adjusted <= rank_test.SESSION
    ]
    kept = _without_averages(sorted((change for change in changes if change), key=lambda change: change.order))
    nodes = {history.node for history in single}
    days = sorted({time.date() for history in single for time in history.times})
    return Found(kept, _outliers(single, kept), len(single), len(nodes), tuple(days))


def _without_averages(changes: list[Change]) -> list[Change]:
    """Drops changes of a mean over several series if one of these series changed and is named separately."""
    parts = [change for change in changes if change.as_one]

    def has_parts(whole: Change) -> bool:
        return any(
            whole.node in ("", part.node) and part.window[0] <= whole.window[1] and whole.window[0] <= part.window[1]
            for part in parts
        )  # fmt: skip

    return [change for change in changes if change.as_one or not has_parts(change)]


def _segments(history: History) -> list[tuple[int, int, int, bool, float]]:
    """Returns (start, change, end, creeps, p) for the whole history and for the part after each step."""
    result: list[tuple[int, int, int, bool, float]] = []
    start, count = 0, len(history.values)
    while True:
        kept = history.kept[history.kept >= start] - start
        found = change_points.change_point(history.watched[start:], history.alike, quiet=history.quiet, kept=kept)
        if not found:
            break
        place, p = start + found[0], found[1]
        creep = None
        if p <= rank_test.ALPHA:
            creep = change_points.creep_start(history.watched[kept + start], history.days[kept + start])
        if creep is not None:
            result.append((start, int(kept[creep]) + start, count, True, p))
            break
        result.append((start, place, count, False, p))
        if p > rank_test.ALPHA or place <= start:
            break
        start = place
    for i, (_, place, *_, p) in enumerate(result[1:]):
        if p <= rank_test.ALPHA:
            result[i] = (*result[i][:2], place, *result[i][3:])
    return result


def _change(history: History, start: int, place: int, end: int, creeps: bool, q: float) -> Change | None:
    times, jobs = history.times, history.jobs
    until = times[end] if end < len(times) else None
    stretch = histories.Stretch(times[start], times[place], until, creeps)
    size = history.size(stretch)
    ratio = history.ratio or bool(history.parts)
    if not math.isfinite(size.estimate) or (ratio and abs(size.estimate) < FLOOR):
        return None
    ends = (place, end - 1) if creeps else (place - 1, place)
    before, after = (_job_in_words(times[i], jobs[i]) for i in ends)
    window = (
        (times[place], times[end - 1]) if creeps else (times[max(place - 3, start)], times[min(place + 2, end - 1)])
    )
    near = (jobs[start : max(place, 1)][-FEWEST:], (jobs[place:end][-FEWEST:] if creeps else jobs[place:end][:FEWEST]))
    together = sum(len(part.parts) or 1 for part in history.parts) or 1
    return Change(
        history.label, history.node, history.gpus, before, after, size.estimate, ratio, q, window=window,
        together=together, near=near, case=history.case, low=size.low, high=size.high,
        better=(size.estimate > 0) == (history.sign > 0) if history.sign else None, creeps=creeps,
        as_one=history.moved_as_one(stretch),
    )  # fmt: skip


def _outliers(single: list[History], changes: list[Change]) -> list[Outlier]:
    """Returns the farthest outlier of each job and node, with the number of outliers; leaves out jobs of a change."""
    begun = {(change.node, job) for change in changes for job in change.near[1]}
    found = []
    for history in single:
        far = change_points.from_neighbours(history.values)
        for i in np.flatnonzero(history.outliers):
            if (history.node, history.jobs[i]) in begun:
                continue
            size = math.expm1(far[i]) if history.ratio else float(far[i])
            last = bool(history.outliers[i:].all())
            job = _job_in_words(history.times[i], history.jobs[i])
            place = (history.label, history.node, history.gpus, job, history.times[i])
            found.append(Outlier(*place, size, history.ratio, history.sign, last=last, case=history.case))
    result = []
    for those in grouped(((each.node, each.job), each) for each in found).values():
        farthest = max(those, key=lambda each: (each.ratio, abs(each.size)))
        result.append(dataclasses.replace(farthest, together=len(those)))
    return sorted(result, key=lambda each: (-each.together, -each.ratio, -abs(each.size), each.job))


def _gone(opened: store.Store, every: list[series.Series], earlier: store.Store | None) -> list[Change]:
    """Returns nodes, GPUs and series that are no longer measured, or only on half of the days, as changes without size.

    `earlier` is the history without --since. Anything that is gone in it is included if it has no record since --since.
    """
    changes = _vanished(every, missing.gone(opened, every))
    if earlier:
        ever = series.load(earlier, "'A'")
        cells = missing.cells(opened, every)
        before = [
            each
            for each in missing.gone(earlier, ever)
            if (each.place, each.series and missing.but_version(each.series)) not in cells
        ]
        changes += _vanished(ever, before)
    return sorted(changes, key=lambda change: (bool(change.case["workload"]), -change.together, change.order))


def _vanished(every: list[series.Series], gone: list[missing.Gone]) -> list[Change]:
    labels = series.labels(every)
    changes = []
    for each in gone:
        ends = (each.had[-1], each.since[0])
        before, after = (_job_in_words(*job) for job in ends)
        near = ([name for _, name in each.had[-FEWEST:]], [name for _, name in each.since[:FEWEST]])
        if not each.series and not each.place[1]:
            near = ([], [])  # a node that is gone has no later jobs to compare
        label = labels[each.series.key] if each.series else "all that it measured"
        changes.append(
            Change(
                label, *each.place, before, after, None, False, None, window=tuple(time for time, _ in ends), near=near,
                together=each.together, case=each.series.case if each.series else dict.fromkeys(output.CASE),
                left=each.days,
            )
        )  # fmt: skip
    return changes


def _failing(opened: store.Store) -> list[series.Series]:
    """Returns the shares of failed and of skipped cases of each job.

    Jobs with less than half of the usual number of cases are retries and are left out.
    """
    rows = opened.sql(
        "SELECT job, node, gpus, count(*) FILTER (metric_index = 0) AS cases FROM measurements GROUP BY ALL"
    ).fetchall()
    usual = {place: median(cases) for place, cases in grouped((row[1:3], row[3]) for row in rows).items()}
    few = {(job, (node, gpus)) for job, node, gpus, cases in rows if 2 * cases < usual[node, gpus]}
    found = []
    for each, _ in environment.health(opened, "'A'", ["failed_cases", "skipped_cases"]):
        places = [{p: share for p, share in job.places.items() if (job.name, p) not in few} for job in each.of("A")]
        jobs = [dataclasses.replace(job, places=of) for job, of in zip(each.of("A"), places) if of]
        found.append(dataclasses.replace(each, sides={"A": jobs}))
    return [each for each in found if each.of("A") and each.all("A").any()]


def search(opened: store.Store) -> Found:
    """Finds changes over the history, including other changes at the same time, and outliers; see find()."""
    every, earlier = series.load(opened, "'A'"), opened.earlier()
    found = find(every, _failing(opened))
    found.changes = _gone(opened, every, earlier) + found.changes
    known: dict[tuple, list[str]] = {}  # cache, since many series change at the same time
    for change in found.changes:
        where = (change.node, *map(tuple, change.near))
        if not all(change.near):
            continue
        if where not in known:
            known[where] = _differences(earlier or opened, change.node, change.near)
        change.differences = known[where]
    return found


def _job_in_words(time, job: str) -> str:
    return f"{spelling.printable(job)} of {time:%Y-%m-%d %H:%M}"


def _differences(opened: store.Store, node: str, near: tuple[Sequence[str], Sequence[str]]) -> list[str]:
    """Returns the fields of the fingerprint that differ on a node between the jobs just before and after a change."""
    fields = [name for name in measurements.FINGERPRINT if name != "uvm" and (node or name != "boot")]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in fields)
    where = f"node = {literal(node)} AND " if node else ""
    before, after = (
        opened.rows(f"SELECT {lists} FROM measurements WHERE {where}job IN ({', '.join(map(literal, jobs))})")[0]
        for jobs in near
    )
    return [name for name in fields if before[name] != after[name]]


# --- output ---

_SHOWN = 5
_LONG_GAP = 7  # minimum number of days without a job for which a gap is reported
_LONGEST_ANSWER = 10  # maximum number of lines
_ANSWERED = 3  # maximum number of events in the answer


def events(changes: list[Change]) -> list[list[Change]]:
    """Groups changes that happened at the same time; each group begins with the change that represents most series."""
    left, found = list(changes), []
    while left:
        seed = left[0]
        same = [
            c for c in left if c.window[0] <= seed.window[1] and seed.window[0] <= c.window[1] and _alike(c, seed)
        ]  # fmt: skip
        left = [c for c in left if not any(c is each for each in same)]
        found.append(sorted(same, key=lambda c: (-c.together, c.order)))
    return sorted(found, key=lambda event: _order(event[0]))


def _alike(one: Change, other: Change) -> bool:
    """Returns whether two changes have the same direction and kind, so that they can be one event."""
    return _direction(one) == _direction(other) and one.creeps == other.creeps


_DIRECTIONS = ("gone", "worse", "changed", "better")


def _direction(change: Change) -> str:
    if change.size is None:
        return "gone"
    better = (change.size > 0) if change.together > 1 else change.better
    return "changed" if better is None else "better" if better else "worse"


def _order(change: Change) -> tuple:
    """Returns a key that sorts by importance: series that are gone, then those that got worse, the largest first."""
    size = abs(change.size or 0.0) if change.ratio else 0.0
    return (_DIRECTIONS.index(_direction(change)), bool(change.case.get("workload")), -size, change.order)


def _size(change: Change) -> str:
    if change.size is None:
        has, of = change.left
        return f"except for {has} of {of} days" if has else f"for {of} days"
    form = "{:+.1%}" if change.ratio else "{:+.3g}"
    ends = [change.low, change.high]
    known = all(end is not None and math.isfinite(end) and abs(end) < 1e3 for end in ends)
    return form.format(change.size) + (f" [{', '.join(map(form.format, ends))}]" if known else "")


def _place(node: str, gpus: str) -> str:
    node, gpus = map(spelling.printable, (node, gpus))
    return f"on {node}{', ' if gpus else ''}{gpus}" if node else "on all nodes"


def _which(change: Change) -> str:
    """Returns the names of the series and its place."""
    more = f" and {change.together - 1} more" if change.size is None and change.together > 1 else ""
    return f"{change.label}{more} {_place(change.node, change.gpus)}"


def _sentence(change: Change) -> str:
    """Returns a sentence on a change: direction, size, place, time and certainty."""
    what = " ".join(filter(None, [_direction(change), _size(change)]))
    sure = f" (q={change.q:.2g})" if change.q is not None else ""
    when = f"gradually since {change.before}" if change.creeps else f"since {change.after}"
    if change.size is None:
        when = f"after {change.before}"
    return f"{what}: {_which(change)}, {when}{sure}"


def _when(days: Sequence[datetime.date]) -> str:
    """Describes on which days there were jobs, and the longest gap between them if it is long; empty for less than two
    days."""
    if len(days) < 2:
        return ""
    whole = (days[-1] - days[0]).days + 1
    said = f"measured on {len(days)} of {whole} days from {days[0]} to {days[-1]}"
    gap, since = max(((after - before).days - 1, before) for before, after in itertools.pairwise(days))
    return f"{said}; on no node for {gap} days after {since}" if gap >= _LONG_GAP else said


def answer(found: Found) -> list[str]:
    """Returns the answer in at most ten lines: series that are gone, worse or better; place, time and certainty."""
    every = events(found.changes)
    counts = {name: sum(_direction(event[0]) == name for event in every) for name in _DIRECTIONS}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no change"
    outliers = f"; {spelling.counted(len(found.outliers), 'outlier')}" if found.outliers else ""
    searched = f"{found.searched} series of nodes with more than {FEWEST} jobs"
    lines = output.fold(f"{told}{outliers}, in {searched}")
    for event in every[:_ANSWERED]:
        more = f", and {len(event) - 1} more with it" if len(event) > 1 else ""
        lines += _at_most(output.fold(f"{_sentence(event[0])}{more}"), 3)
    when = output.fold(_when(found.days))
    return lines + when if len(lines) + len(when) <= _LONGEST_ANSWER else lines


def _at_most(lines: list[str], count: int) -> list[str]:
    return lines if len(lines) <= count else [*lines[: count - 1], f"{lines[count - 1]}…"]


def text(found: Found) -> str:
    """Returns the answer, then each event with other changes at that time, then the outliers."""
    lines = []
    for event in events(found.changes):
        first = event[0]
        lines += ["", _sentence(first)]
        if first.creeps:
            lines.append(f"  from job {first.before} to {first.after}")
        elif all(first.near):
            lines.append(f"  between job {first.before} and {first.after}")
        if first.differences:
            lines.append(f"  changed there: {', '.join(first.differences)}")
        for change in event[1 : _SHOWN + 1]:
            lines.append(f"  with it {' '.join(filter(None, [_size(change), _which(change)]))}")
        if len(event) > _SHOWN + 1:
            lines.append(f"  … and {len(event) - _SHOWN - 1} more")
    lines += ["", *_outlier_lines(found.outliers)] if found.outliers else []
    return "\n".join([*answer(found), *(part for line in lines for part in output.fold(line) or [""])])


def _outlier_lines(outliers: list[Outlier]) -> list[str]:
    lines = ["outliers: single jobs far from their neighbors, which do not affect any level"]
    for each in outliers[:_SHOWN]:
        size = f"{each.size:+.1%}" if each.ratio else f"{each.size:+.3g}"
        better = {0: ""}.get(each.sign, " better" if each.size * each.sign > 0 else " worse")
        more = f" and {each.together - 1} more series" if each.together > 1 else ""
        last = "; the next jobs show whether it stays" if each.last else ""
        lines.append(f"  {size}{better}: {each.label}{more} {_place(each.node, each.gpus)}, job {each.job}{last}")
    return lines + ([f"  … and {len(outliers) - _SHOWN} more"] if len(outliers) > _SHOWN else [])


_COLUMNS = {
    "unit": "VARCHAR", "event": "BIGINT", "direction": "VARCHAR", "series": "VARCHAR", "together": "BIGINT",
    "node": "VARCHAR", "on_gpus": "VARCHAR", "ratio": "BOOLEAN", "change": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE",
    "creeps": "BOOLEAN", "q": "DOUBLE", "before": "VARCHAR", "after": "VARCHAR", "earliest": "TIMESTAMP",
    "latest": "TIMESTAMP", "changed_too": "VARCHAR[]",
}  # fmt: skip


def table_of(found: Found) -> output.Table:
    """Makes a table with a row for each change, in the order of events, and then for each outlier.

    Outliers have no event, and changes of several series together have no case.
    """
    rows = [
        {"axes": {}} | each.case | {
            "event": number, "direction": _direction(each), "series": each.label, "together": each.together,
            "node": each.node or None, "on_gpus": each.gpus or None, "ratio": each.ratio, "change": each.size,
            "low": each.low, "high": each.high, "creeps": each.creeps, "q": each.q, "before": each.before,
            "after": each.after, "earliest": each.window[0], "latest": each.window[1], "changed_too": each.differences,
        } for number, event in enumerate(events(found.changes), 1) for each in event
    ]  # fmt: skip
    rows += [
        {"axes": {}} | each.case | {
            "direction": "outlier", "series": each.label, "together": each.together, "node": each.node or None,
            "on_gpus": each.gpus or None, "ratio": each.ratio, "change": each.size, "after": each.job,
            "earliest": each.time, "latest": each.time,
        } for each in found.outliers
    ]  # fmt: skip
    return output.of_cases(rows, _COLUMNS, text(found), answer(found)[:1])


def add_arguments(parser) -> None:
    parser.epilog = (
        "example: isthmus drift results --workload 'transfer/*' --since 2026-10-01\n\n"
        "exit codes: 0 nothing changed, though single jobs may be outliers; 1 something changed or is gone; 2 bad\n"
        "input; 3 no series has more than 5 jobs on a node"
    )
    selection.add_arguments(parser)
    output.add_arguments(parser)


def run(asked) -> int:
    with selection.from_arguments(asked, wanted=comparison.WANTED) as opened:
        found = search(opened)
    output.write(asked, table_of(found))
    if found.changes:
        return exits.FOUND
    return exits.PASSED if found.searched else exits.UNDECIDED
