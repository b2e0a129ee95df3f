"""Changes that nobody announced: where in time a metric of a node moved, and what changed in the fingerprint there.

Each series of a node and GPU is searched for a change point by Pettitt's rank test (1979), then its parts, until
nothing is found; p is adjusted for all series. Slow drift is found too, as one or more points.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from isthmus import cli, records, regress, series, statistics, store

FEWEST = 5  # jobs on either side of a change point
_DRAWS = 100_000


@dataclasses.dataclass
class Change:
    """A change point of one series on one node and GPU."""

    label: str
    node: str
    gpus: str
    before: str  # the last job of before, and the first of after, with their times
    after: str
    size: float  # a share of the median before, or a difference
    ratio: bool
    q: float
    differences: list[str]  # what else changed there


@functools.lru_cache(maxsize=128)
def _null(n: int) -> np.ndarray:
    """The statistic of random orders of n values, sorted."""
    chance = np.random.default_rng(n)
    drawn = []
    for _ in range(10):
        ranks = chance.permuted(np.tile(np.arange(1, n + 1), (_DRAWS // 10, 1)), axis=1)
        drawn.append(_statistic(ranks).max(axis=-1))
    return np.sort(np.concatenate(drawn))


def _drawn_length(n: int) -> int:
    """The length whose null distribution stands for n: n itself, for long ones up to 9% more, which is cautious."""
    step = 1 << max(0, n.bit_length() - 5)
    return -(-n // step) * step


def _statistic(ranks: np.ndarray) -> np.ndarray:
    """For each place FEWEST … n − FEWEST, how many standard deviations the ranks before it are from the mean."""
    n = ranks.shape[-1]
    places = np.arange(1, n + 1)
    sums = np.abs(2 * np.cumsum(ranks, axis=-1) - places * (n + 1))
    deviations = np.sqrt(places * np.maximum(n - places, 1) * (n + 1) / 3)
    return (sums / deviations)[..., FEWEST - 1 : n - FEWEST]


def change_point(values: np.ndarray) -> tuple[int, float] | None:
    """How many values come before the likeliest change, and its p; None below 2 × FEWEST values."""
    n = len(values)
    if n < 2 * FEWEST:
        return None
    ranks = (
        np.searchsorted(np.sort(values), values, "left") + np.searchsorted(np.sort(values), values, "right") + 1
    ) / 2
    found = _statistic(ranks)
    place = int(np.argmax(found))
    larger = _DRAWS - np.searchsorted(_null(_drawn_length(n)), found[place] - 1e-9)
    return place + FEWEST, float((larger + 1) / (_DRAWS + 1))


def _segments(values: np.ndarray, first: int = 0) -> list[tuple[int, int, int, float]]:
    """(start, change, end, p) of the whole, and of its parts where the whole has one below ALPHA."""
    found = change_point(values)
    if not found:
        return []
    place, p = found
    result = [(first, first + place, first + len(values), p)]
    if p <= statistics.ALPHA:
        result += _segments(values[:place], first) + _segments(values[place:], first + place)
    return result


def search(opened: store.Store) -> tuple[list[Change], int]:
    """Change points over the history, the surest first, and how many series of nodes were searched."""
    names = store.SERIES_COLUMNS
    rows = opened.sql(
        f"SELECT {names}, node, gpus, job, min(time) AS first, median(median), any_value(mode) FROM measurements "
        f"WHERE metric IS NOT NULL AND {series.COUNTS} GROUP BY {names}, node, gpus, job "
        f"ORDER BY {names}, node, gpus, first, job"
    ).fetchall()
    width = len(store.SERIES)
    histories: dict[tuple, list[tuple]] = {}
    for row in rows:
        histories.setdefault(row[: width + 2], []).append(row[width + 2 :])
    every = [
        series.Series(key, None, mode, {})
        for key, mode in {key[:width]: v[0][3] for key, v in histories.items()}.items()
    ]
    labels = series.labels(every)
    candidates, searched = [], 0
    for key, jobs in histories.items():
        values = np.array([job[2] for job in jobs], float)
        found = _segments(values)
        searched += bool(found)
        candidates += [(key, jobs, values, *each) for each in found]
    if not candidates:
        return [], searched
    q = statistics.adjusted(np.array([each[-1] for each in candidates]))
    changes = []
    for (key, jobs, values, start, place, end, p), adjusted in zip(candidates, q):
        if p > statistics.ALPHA or adjusted > statistics.SESSION:
            continue
        before, after = values[start:place], values[place:end]
        ratio = bool((values[start:end] > 0).all())
        a, b = float(np.median(before)), float(np.median(after))
        size = b / a - 1 if ratio else b - a
        if ratio and abs(size) < regress.FLOOR:
            continue
        node, gpus = key[width:]
        parts = [[job[0] for job in jobs[i:j]] for i, j in ((start, place), (place, end))]
        told = [f"{records.printable(jobs[i][0])} of {jobs[i][1]:%Y-%m-%d %H:%M}" for i in (place - 1, place)]
        changes.append(
            Change(
                labels[key[:width]], node, gpus, *told, size, ratio, float(adjusted), _differences(opened, node, parts)
            )
        )
    return sorted(changes, key=lambda change: (change.q, -abs(change.size), change.label, change.node)), searched


def _differences(opened: store.Store, node: str, parts: list[list[str]]) -> list[str]:
    """Fields of the fingerprint that differ between the last jobs before and the first ones after, on that node."""
    near = (parts[0][-FEWEST:], parts[1][:FEWEST])
    fields = [name for name in store.FINGERPRINT if name != "uvm"]
    lists = ", ".join(f'list_sort(list(DISTINCT "{name}"::VARCHAR)) AS "{name}"' for name in fields)
    values = []
    for jobs in near:
        wanted = ", ".join(map(store.literal, jobs))
        values.append(
            opened.rows(f"SELECT {lists} FROM measurements WHERE node = {store.literal(node)} AND job IN ({wanted})")[0]
        )
    return [name for name in fields if values[0][name] != values[1][name]]


def text(changes: list[Change], searched: int) -> str:
    lines = []
    for change in changes:
        size = f"{change.size:+.1%}" if change.ratio else f"{change.size:+.3g}"
        lines.append(f"{size:>8}  {change.label} on {records.printable(change.node)}  q={change.q:.2g}")
        lines.append(f"{'':>8}  between job {change.before} and {change.after}")
        if change.differences:
            lines.append(f"{'':>8}  changed there: {', '.join(change.differences)}")
    lines.append(f"{len(changes)} changes in {searched} series of nodes with at least {2 * FEWEST} jobs")
    return "\n".join(lines)


def add_arguments(parser) -> None:
    parser.epilog = (
        "example: isthmus drift results --workload 'transfer/*' --since 2026-10-01 (exit code 1: changes found)"
    )
    store.add_arguments(parser)


def run(asked) -> int:
    with store.from_arguments(asked, wanted=regress.WANTED) as opened:
        changes, searched = search(opened)
    print(text(changes, searched))
    if not searched:
        return cli.UNDECIDED
    return cli.FOUND if changes else cli.PASSED
