"""Changes that were not announced: where in time a metric moved, on which nodes, and what else changed there.

Each series of a node and GPU is watched from its first job to its last; so is each node over all its metrics, each
metric over all nodes, and everything together. Looking again after every job raises no more false alarms: the evidence
for a change is an e-process, whose reciprocal is a p-value at any time, and p is adjusted for all that is watched.
What jobs have in common with the job before them is measured, and taken out first. A collapse far beyond anything seen
before is reported at its first job. Watched, too, are the share of cases that fail, and series that vanish.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from isthmus import exits, spelling
from isthmus.groups import grouped
from isthmus.records import measurements, selection, store
from isthmus.records.measurements import literal
from isthmus.statistics import rank_test, series
from isthmus.tables import output
from isthmus.verdicts import absent, surroundings, two_sides

FEWEST = 5  # jobs before a change
FLOOR = 0.01  # a smaller change is of no interest
_PRIOR = 9.0  # variance of the steps that are looked for, in variances between jobs
_CUT = 3.0  # standard deviations beyond which a job weighs no more
_KNOWN = 3.0  # degrees of freedom for which the spread of all neighbours stands, beside that of the jobs so far
_LOOKS = 400  # of a long history's ends, evenly spread
_MOST_ALIKE = 0.95  # autocorrelation that is allowed for at most
_MARGIN = 0.8  # standard errors (1 / √jobs) that are added to a measured autocorrelation
_FAILING = 0.05  # noise that is added to shares of failed cases, most of which are 0: one that fails once is no change
_QUIET = 1e-4  # noise below this share is taken as this share: identical values are no certainty


# --- one history ---


def _weights(count: int) -> np.ndarray:
    """Shares of the permitted errors for the 1st, 2nd, … place of a change; those of all places, for ever, sum to 1."""
    places = np.arange(2, count + 2)
    return 1 / (2.1098 * places * np.log(places) ** 2)


def _standard(values: np.ndarray, quiet: float) -> np.ndarray:
    """Values in robust standard deviations of neighbours from the median, cut at _CUT."""
    steps = np.abs(np.diff(values))
    scale = max(float(np.median(steps)) / 0.9539, float(np.quantile(steps, 0.9)) / 2.326, quiet)
    return np.clip((values - np.median(values)) / scale, -_CUT, _CUT)


def autocorrelation(z: np.ndarray) -> float:
    """Of a job with the next one, from distances of one and two jobs, in which a step shows but once or twice."""
    if len(z) < 4:
        return 0.0
    one, two = np.diff(z) ** 2, (z[2:] - z[:-2]) ** 2
    cut = 9 * max(float(np.median(one)) / 0.4549, 1e-12)
    return float(np.minimum(two, cut).mean() / max(np.minimum(one, cut).mean(), 1e-12) - 1)


def log_evidence(z: np.ndarray, alike: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of E[end, place]: the evidence in the jobs before `end` that the level changed at `place`.

    `z` (n,) are values in about standard deviations, `alike` their autocorrelation. Returns E (ends, places) and the
    ends, both ascending. E is the likelihood ratio of a step with a normal prior to none, invariant to the unknown
    level (Pérez-Ortiz et al., E-statistics, group invariance and anytime-valid testing, Annals of Statistics 2024), of
    values freed of their autocorrelation (Prais and Winsten): for normal noise a martingale under "no change".
    """
    n = len(z)
    first = math.sqrt(1 - alike**2)
    y = np.concatenate([[first * z[0]], z[1:] - alike * z[:-1]])
    c = np.concatenate([[first], np.full(n - 1, 1 - alike)])
    sums = [np.concatenate([[0.0], np.cumsum(each)]) for each in (y * y, y * c, c * c, y)]
    ends = np.unique(np.linspace(min(FEWEST + 1, n), n, min(_LOOKS, max(n - FEWEST, 1))).astype(int))
    places = np.arange(FEWEST, n)
    yy, yc, cc = (each[ends, None] for each in sums[:3])
    after = ends[:, None] - places - 1
    dy = y[places] + (1 - alike) * (sums[3][ends, None] - sums[3][places + 1])
    dc = c[places] + (1 - alike) ** 2 * after
    dd = 1 + (1 - alike) ** 2 * after
    precision = np.maximum(dd - dc**2 / cc, 1e-12)
    between = (dy - dc * yc / cc) ** 2 / precision
    rest = np.maximum(yy - yc**2 / cc, 0) + _KNOWN * (1 - alike**2)
    found = _PRIOR * precision
    evidence = -0.5 * np.log1p(found) - (ends[:, None] - 1 + _KNOWN) / 2 * np.log1p(
        -found / (1 + found) * np.minimum(between / rest, 1)
    )
    return np.where(after >= 0, evidence, -np.inf), ends


def _sudden(values: np.ndarray, quiet: float) -> tuple[int, float]:
    """Place and p of a collapse: all jobs since are far beyond all before, even for noise with heavy tails.

    The tails are those of Student's t with 5 degrees; p is for all places at which one may ever be looked for.
    """
    best = (len(values), 1.0)
    weights = _weights(len(values))
    for place in range(max(FEWEST, len(values) - 2 * FEWEST), len(values)):
        before, after = values[:place], values[place:]
        middle = float(np.median(before))
        farthest = float(np.abs(before - middle).max())
        scale = max(1.4826 * float(np.median(np.abs(before - middle))), farthest / 3, quiet)
        shifts = after - middle
        if abs(np.sign(shifts).sum()) < len(shifts):
            continue
        t = float(np.abs(shifts).min()) / (scale * math.sqrt(1 + 1 / place))
        if t > 9:
            p = rank_test.student_p(t, 5) / weights[place - FEWEST]
            best = min(best, (place, max(p, 1e-300)), key=lambda each: each[1])
    return best


def change_point(values: np.ndarray, alike: float | None = None, *, quiet: float = _QUIET) -> tuple[int, float] | None:
    """How many jobs come before the likeliest change, and its p, which holds however often one looks.

    `alike` is the autocorrelation to allow for, else it is measured, with a margin for its error. None below 6 jobs.
    """
    if len(values) <= FEWEST:
        return None
    z = _standard(values, quiet)
    if alike is None:
        alike = allowance(autocorrelation(z), len(z))
    evidence, ends = log_evidence(z, alike)
    weighted = evidence + np.log(_weights(evidence.shape[1]))
    peak = weighted.max(axis=1)
    total = peak + np.log(np.exp(weighted - peak[:, None]).sum(axis=1))
    seen = int(np.argmax(total >= min(float(total.max()), math.log(1 / rank_test.ALPHA))))
    later = int(np.searchsorted(ends, ends[seen] + FEWEST, "right")) - 1
    place = FEWEST + int(np.argmax(weighted[later]))
    p = min(1.0, math.exp(-float(total.max())))
    sudden, p_sudden = _sudden(values, quiet)
    if p_sudden < p:
        return sudden, min(1.0, 2 * p_sudden)
    return place, min(1.0, 2 * p)


def allowance(measured: float, jobs: float) -> float:
    """The autocorrelation to allow for, given one that was measured over so many jobs, with a margin for its error."""
    return min(max(measured + _MARGIN / math.sqrt(jobs), 0.0), _MOST_ALIKE)


# --- all histories ---


@dataclasses.dataclass
class Change:
    """A change point of one series on one node and GPU, or of several together."""

    label: str
    node: str  # empty for all nodes
    gpus: str
    before: str  # the last job of before, and the first of after, with their times
    after: str
    # A share of the median before, or a difference; of several series, a share by which they got better.
    size: float | None  # None where the series vanished
    ratio: bool
    q: float | None
    differences: list[str] = dataclasses.field(default_factory=list)  # what else changed there
    window: tuple = ()  # times that hold the place
    together: int = 1  # series that it stands for
    near: tuple[Sequence[str], Sequence[str]] = ((), ())  # jobs just before and just after
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # of a single series: series.Series.case

    @property
    def order(self) -> tuple:
        """The surest first."""
        return (self.q or 0.0, -self.together, -abs(self.size or 0.0), self.label, self.node)


@dataclasses.dataclass
class _History:
    """Jobs of one series in one place, in the order of time; of several series, means of what is comparable."""

    label: str
    node: str
    gpus: str
    jobs: list[str]
    times: list
    values: np.ndarray
    sign: int  # 1 where higher is better, -1 where lower is; 0 where neither is
    ratio: bool
    parts: list[_History] = dataclasses.field(default_factory=list)
    alike: float = 0.0
    variance: float = 0.0  # of a mean of several, in variances of one
    case: dict[str, Any] = dataclasses.field(default_factory=dict)  # series.Series.case, where it is of one
    added: float = 0.0  # standard deviation of noise that `watched` has beyond `values`

    @property
    def quiet(self) -> float:
        return _QUIET if self.ratio or self.parts else _QUIET * max(float(np.abs(self.values).max()), 1e-300)

    @property
    def watched(self) -> np.ndarray:
        """Values as they are searched; the noise is the same each time, and for the same jobs of a longer history."""
        if not self.added:
            return self.values
        return self.values + self.added * np.random.default_rng(0).standard_normal(len(self.values))

    @property
    def z(self) -> np.ndarray:
        return self.values if self.parts else _standard(self.watched, self.quiet)

    def size(self, times) -> float:
        """What changed at a time, from a start to an end."""
        start, place, end = times
        if self.parts:
            return float(np.median([size for part in self.parts if math.isfinite(size := part._better(times))] or [0]))
        inside = [start <= time and (end is None or time < end) for time in self.times]
        before = self.values[[i for i, time in enumerate(self.times) if inside[i] and time < place]]
        after = self.values[[i for i, time in enumerate(self.times) if inside[i] and time >= place]]
        if not (len(before) and len(after)):
            return math.nan
        shift = float(np.median(after) - np.median(before))
        return math.expm1(shift) if self.ratio else shift

    def _better(self, times) -> float:
        size = self.size(times)
        return size if self.sign >= 0 else 1 / (1 + size) - 1


def _histories(every: list[series.Series]) -> list[_History]:
    labels = series.labels(every)
    found = []
    for each in every:
        places = grouped(
            (place, (job.time, job.name, value)) for job in each.of("A") for place, value in job.places.items()
        )
        sign = {"higher": 1, "lower": -1}.get(each.better or "", 0)
        for (node, gpus), jobs in places.items():
            jobs.sort(key=lambda job: job[:2])
            values = np.array([value for *_, value in jobs], float)
            ratio = bool((values > 0).all())
            found.append(
                _History(
                    labels[each.key], node, gpus, [name for _, name, _ in jobs], [time for time, *_ in jobs],
                    np.log(values) if ratio else values, sign, ratio, case=each.case,
                )
            )  # fmt: skip
    return [history for history in found if len(history.jobs) > FEWEST]


def _mean_of_jobs(parts: list[_History], label: str, node: str) -> _History | None:
    """Series of one node together: each job's mean, of jobs that have half of the series at least."""
    values = grouped(
        ((time, job), part.sign * z) for part in parts for time, job, z in zip(part.times, part.jobs, part.z)
    )
    merged: dict[str, list] = {}
    for (time, job), those in values.items():
        known = merged.setdefault(job, [time, []])
        known[0] = min(known[0], time)
        known[1] += those
    kept = sorted((time, job, those) for job, (time, those) in merged.items() if 2 * len(those) >= len(parts))
    return _together(kept, parts, label, node)


def _mean_of_turns(parts: list[_History], label: str) -> _History | None:
    """Histories of several nodes together: means over stretches of time in which each node has about one job."""
    turns = int(np.median([len(part.jobs) for part in parts]))
    every = sorted(
        (time, job, part.sign * float(z)) for part in parts for time, job, z in zip(part.times, part.jobs, part.z)
    )
    kept = []
    for stretch in np.array_split(np.arange(len(every)), max(turns, 1)):
        if len(stretch):
            kept.append((*every[stretch[0]][:2], [every[i][2] for i in stretch]))
    return _together(kept, parts, label, "")


def _together(kept: list[tuple], parts: list[_History], label: str, node: str) -> _History | None:
    if len(kept) <= FEWEST:
        return None
    means = np.array([np.mean(those) for *_, those in kept])
    quiet = 1e-3  # of a standard deviation of one series
    z = _standard(means, quiet)
    jobs, times = [job for _, job, _ in kept], [time for time, *_ in kept]
    return _History(label, node, "", jobs, times, z, 1, False, parts, variance=float(np.var(means)))


def _pooled(single: list[_History]) -> list[_History]:
    """What is watched beside each series: each node over its series, each series over its nodes, and all of it."""
    judged = [history for history in single if history.sign]
    nodes = grouped((history.node, history) for history in judged)
    labels = grouped((history.label, history) for history in judged)
    means = [_mean_of_jobs(p, f"{len(p)} series together", node) for node, p in nodes.items() if len(p) > 1]
    of_nodes = [history for history in means if history]
    of_labels = [_mean_of_turns(p, label) for label, p in labels.items() if len({h.node for h in p}) > 1]
    everything = []
    if len(of_nodes) > 1:
        everything = [_mean_of_turns(of_nodes, f"{len(labels)} series together")]
    return [history for history in [*of_nodes, *of_labels, *everything] if history]


def _allow(single: list[_History], pooled: list[_History]) -> None:
    """Sets how alike neighbouring jobs are taken to be: what all series say, and each where they differ.

    Series that go up and down together say it only once: the spread of their mean says how many they count as.
    """
    measured = np.array([autocorrelation(history.z) for history in single])
    jobs = np.array([len(history.jobs) for history in single], float)
    common = float(np.median(measured))
    alone = [history for history in pooled if history.node]
    shares = [_independent(history) for history in alone] or [1.0]
    worth = float(np.sum(shares)) * float(np.median(jobs))
    noise = 2 / jobs
    differ = max(float(np.var(measured)) - float(noise.mean()), 0.0) if len(single) > 2 else 0.0
    own = differ / (differ + noise)
    for history, value, weight, count in zip(single, measured, own, jobs):
        effective = 1 / ((1 - weight) / worth + weight / count)
        history.alike = allowance(common + weight * (value - common), max(effective, count))
    for history in pooled:
        at_least = max(common, autocorrelation(history.z))
        history.alike = allowance(at_least, len(history.jobs))


def _independent(history: _History) -> float:
    """How many independent series a mean of several is worth."""
    own = float(np.mean([np.var(part.z) for part in history.parts]))
    return max(1.0, min(len(history.parts), own / max(history.variance, 1e-9)))


def find(every: list[series.Series], failing: Sequence[series.Series] = ()) -> tuple[list[Change], int]:
    """Change points of side A, the surest first, and how many histories of measured single series were searched.

    `failing` are shares of cases that failed, each watched for itself.
    """
    single, shares = _histories(every), _histories([*failing])
    pooled = _pooled(single) if single else []
    if single:
        _allow(single, pooled)
    for history in shares:
        history.added = _FAILING
        history.alike = allowance(autocorrelation(history.z), len(history.jobs))
    watched = [*single, *pooled, *shares]
    candidates = [(history, *each) for history in watched for each in _segments(history)]
    q = rank_test.adjusted(np.array([p for *_, p in candidates]))
    changes = [
        _change(history, start, place, end, float(adjusted))
        for (history, start, place, end, p), adjusted in zip(candidates, q)
        if p <= rank_test.ALPHA and adjusted <= rank_test.SESSION
    ]
    kept = [change for change in changes if change]
    return sorted(kept, key=lambda change: change.order), len(single)


def _vanished(opened: store.Store, every: list[series.Series]) -> list[Change]:
    """Series that a node or its GPUs do not measure any more, as changes without a size."""
    labels = series.labels(every)
    changes = []
    for each in absent.gone(opened, every):
        ends = (each.had[-1], each.since[0])
        before, after = (_job_in_words(*job) for job in ends)
        near = ([name for _, name in each.had[-FEWEST:]], [name for _, name in each.since[:FEWEST]])
        window, of = tuple(time for time, _ in ends), each.series
        changes.append(
            Change(labels[of.key], each.node, each.gpus, before, after, None, False, None, [], window, 1, near, of.case)
        )
    return sorted(changes, key=lambda change: change.order)


def _failing(opened: store.Store) -> list[series.Series]:
    """Shares of failed cases by job, without jobs that ran less than half of what is usual there: retries of a few."""
    rows = opened.sql(
        "SELECT job, node, gpus, count(*) FILTER (metric_index = 0) AS cases FROM measurements GROUP BY ALL"
    ).fetchall()
    usual = {place: median(cases) for place, cases in grouped((row[1:3], row[3]) for row in rows).items()}
    few = {(job, (node, gpus)) for job, node, gpus, cases in rows if 2 * cases < usual[node, gpus]}
    found = []
    for each, _ in surroundings.health(opened, "'A'", ["failed_cases"]):
        places = [{p: share for p, share in job.places.items() if (job.name, p) not in few} for job in each.of("A")]
        jobs = [dataclasses.replace(job, places=of) for job, of in zip(each.of("A"), places) if of]
        found.append(dataclasses.replace(each, sides={"A": jobs}))
    return [each for each in found if each.of("A") and each.all("A").any()]


def search(opened: store.Store) -> tuple[list[Change], int]:
    """Change points over the history with what else changed there; see find()."""
    every = series.load(opened, "'A'")
    changes, searched = find(every, _failing(opened))
    changes = _vanished(opened, every) + changes
    known: dict[tuple, list[str]] = {}  # many series change at one place in time
    for change in changes:
        where = (change.node, *map(tuple, change.near))
        if where not in known:
            known[where] = _differences(opened, change.node, change.near)
        change.differences = known[where]
    return changes, searched


def _segments(history: _History) -> list[tuple[int, int, int, float]]:
    """(start, change, end, p) of the whole, and of what is after a change where there is one below ALPHA."""
    result: list[tuple[int, int, int, float]] = []
    start = 0
    while found := change_point(history.watched[start:], history.alike, quiet=history.quiet):
        place, p = start + found[0], found[1]
        result.append((start, place, len(history.values), p))
        if p > rank_test.ALPHA or place <= start:
            break
        start = place
    for i, (_, place, _, p) in enumerate(result[1:]):
        if p <= rank_test.ALPHA:
            result[i] = (*result[i][:2], place, result[i][3])
    return result


def _job_in_words(time, job: str) -> str:
    return f"{spelling.printable(job)} of {time:%Y-%m-%d %H:%M}"


def _change(history: _History, start: int, place: int, end: int, q: float) -> Change | None:
    times = history.times
    until = times[end] if end < len(times) else None
    size = history.size((times[start], times[place], until))
    ratio = history.ratio or bool(history.parts)
    if not math.isfinite(size) or (ratio and abs(size) < FLOOR):
        return None
    before, after = (_job_in_words(times[i], history.jobs[i]) for i in (place - 1, place))
    window = (times[max(place - 3, start)], times[min(place + 2, end - 1)])
    together = sum(len(part.parts) or 1 for part in history.parts) or 1
    near = (history.jobs[start:place][-FEWEST:], history.jobs[place:end][:FEWEST])
    place_of = (history.label, history.node, history.gpus)
    return Change(*place_of, before, after, size, ratio, q, [], window, together, near, history.case)


def _differences(opened: store.Store, node: str, near: tuple[Sequence[str], Sequence[str]]) -> list[str]:
    """Fields of the fingerprint that differ between the last jobs before and the first ones after, on that node."""
    fields = [name for name in measurements.FINGERPRINT if name != "uvm" and (node or name != "boot")]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in fields)
    where = f"node = {literal(node)} AND " if node else ""
    before, after = (
        opened.rows(f"SELECT {lists} FROM measurements WHERE {where}job IN ({', '.join(map(literal, jobs))})")[0]
        for jobs in near
    )
    return [name for name in fields if before[name] != after[name]]


# --- what a person reads ---

_SHOWN = 5


def events(changes: list[Change]) -> list[list[Change]]:
    """Changes at one place in time, the one first that stands for most series, or else the surest."""
    left, found = list(changes), []
    while left:
        seed = left[0]
        same = [c for c in left if c.window[0] <= seed.window[1] and seed.window[0] <= c.window[1]]
        left = [c for c in left if c not in same]
        found.append(sorted(same, key=lambda c: (-c.together, c.order)))
    return found


def _size(change: Change) -> str:
    if change.size is None:
        return "gone"
    return f"{change.size:+.1%}" if change.ratio else f"{change.size:+.3g}"


def _which(change: Change) -> str:
    """The series, where, and how sure."""
    where = f"on {spelling.printable(change.node)}" if change.node else "on all nodes"
    if change.size is None and change.gpus:
        where += f", {spelling.printable(change.gpus)}"
    return f"{change.label} {where}" + ("" if change.q is None else f"  q={change.q:.2g}")


def text(changes: list[Change], searched: int) -> str:
    lines = []
    found = events(changes)
    for event in found:
        first = event[0]
        better = (" better" if (first.size or 0) > 0 else " worse") if first.together > 1 else ""
        lines.append(f"{_size(first):>8}{better}  {_which(first)}")
        lines.append(f"{'':>8}  between job {first.before} and {first.after}")
        if first.differences:
            lines.append(f"{'':>8}  changed there: {', '.join(first.differences)}")
        for change in event[1 : _SHOWN + 1]:
            lines.append(f"{'':>8}  with it {_size(change)}  {_which(change)}")
        if len(event) > _SHOWN + 1:
            lines.append(f"{'':>8}  … and {len(event) - _SHOWN - 1} more")
    return "\n".join([*output.fold_each(lines, indent=" " * 10), *output.fold(_summary(found, searched))])


def _summary(found: list[list[Change]], searched: int) -> str:
    changes = sum(map(len, found))
    found_there = f"{spelling.counted(len(found), 'event')}, {spelling.counted(changes, 'change')}"
    return f"{found_there}, in {searched} series of nodes with more than {FEWEST} jobs"


_COLUMNS = {
    "unit": "VARCHAR", "event": "BIGINT", "series": "VARCHAR", "together": "BIGINT", "node": "VARCHAR",
    "on_gpus": "VARCHAR", "ratio": "BOOLEAN", "change": "DOUBLE", "q": "DOUBLE", "before": "VARCHAR",
    "after": "VARCHAR", "earliest": "TIMESTAMP", "latest": "TIMESTAMP", "changed_too": "VARCHAR[]",
}  # fmt: skip


def table_of(changes: list[Change], searched: int) -> output.Table:
    """A row for each change, in the order of events; those of several series together have no case."""
    found = events(changes)
    rows = [
        {"axes": {}} | each.case | {
            "event": number, "series": each.label, "together": each.together, "node": each.node or None,
            "on_gpus": each.gpus or None, "ratio": each.ratio, "change": each.size, "q": each.q,
            "before": each.before, "after": each.after, "earliest": each.window[0], "latest": each.window[1],
            "changed_too": each.differences,
        } for number, event in enumerate(found, 1) for each in event
    ]  # fmt: skip
    return output.of_cases(rows, _COLUMNS, text(changes, searched), [_summary(found, searched)])


def add_arguments(parser) -> None:
    parser.epilog = (
        "example: isthmus drift results --workload 'transfer/*' --since 2026-10-01 (exit code 1: changes found)"
    )
    selection.add_arguments(parser)
    output.add_arguments(parser)


def run(asked) -> int:
    with selection.from_arguments(asked, wanted=two_sides.WANTED) as opened:
        changes, searched = search(opened)
    output.write(asked, table_of(changes, searched))
    if changes:
        return exits.FOUND
    return exits.PASSED if searched else exits.UNDECIDED
