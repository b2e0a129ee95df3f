"""Spread of a figure: an interval over jobs, or the spread within a single job.

The unit is the job (docs/statistics.md): samples of one job agree with each other far better than with the next job's.
Therefore intervals over jobs and within a job have different names in `Spread.kind`:

    jobs      6 jobs or more: the 95% interval of their median by order statistics, exact for any distribution
    range     2 to 5 jobs: the smallest and the largest value
    process   one job with several records or processes: the smallest and the largest of their values
    within    one record of 10 samples or more: its `within_job`, a 95% interval of the median
    samples   one record of fewer samples: its median absolute deviation to either side
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics

from isthmus.records import jobs

#: Explanation of ±, printed below a table.
MEANING = (
    "±: half the interval over the median: 95% over 6 jobs or more, else the range of the jobs; "
    "for one job (j=1) its own interval."
)
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Spread:
    """Interval in the unit of the figure, with its kind and the number of jobs."""

    low: float
    high: float
    kind: str
    jobs: int


@functools.lru_cache(maxsize=1024)
def _drop(n: int) -> int | None:
    """Returns how many of n sorted values to omit at each end for a 95% interval of the median; None if n < 6."""
    tail, left = 0.5**n, None
    cumulated = 0.0
    for k in range(n // 2):
        cumulated += tail * math.comb(n, k) if n < 1000 else math.exp(math.log(math.comb(n, k)) - n * math.log(2))
        if 2 * cumulated > 1 - CONFIDENCE:
            break
        left = k
    return left


def over_jobs(values: list[float]) -> Spread | None:
    """Returns the spread over jobs, given one value per job; None for fewer than two jobs."""
    ordered, n = sorted(values), len(values)
    if n < 2:
        return None
    drop = _drop(n)
    if drop is None:
        return Spread(ordered[0], ordered[-1], "range", n)
    return Spread(ordered[drop], ordered[n - 1 - drop], "jobs", n)


def of_record(
    median: float, within: tuple[float | None, float | None] | None, mad: float | None, samples: int | None
) -> Spread | None:
    """Returns the spread of one record: its interval, or its median absolute deviation; None for a single sample."""
    low, high = within or (None, None)
    if low is not None and high is not None:
        return Spread(low, high, "within", 1)
    if mad is not None and samples and samples > 1:
        return Spread(median - mad, median + mad, "samples", 1)
    return None


def of_jobs(jobs: list[list[float]], alone: Spread | None) -> Spread | None:
    """Returns the spread over each job's records; `alone` is the result of of_record() if there is only one record."""
    if len(jobs) > 1:
        return over_jobs([statistics.median(values) for values in jobs])
    if jobs and len(jobs[0]) > 1:
        return Spread(min(jobs[0]), max(jobs[0]), "process", 1)
    return alone


def fields(spread: Spread | None) -> dict[str, float | str | None]:
    """Returns the columns of a table for an interval: low, high and kind; null without an interval."""
    low, high, kind = (spread.low, spread.high, spread.kind) if spread else (None, None, None)
    return {"low": low, "high": high, "interval": kind}


def ends(value: float, spread: Spread | None) -> tuple[float, float]:
    """Returns both ends of the interval, or the value twice without an interval."""
    return (spread.low, spread.high) if spread else (value, value)


def relative(value: float | None, spread: Spread | None) -> float | None:
    """Returns half the interval's width divided by the value; None without an interval, or if the value is zero."""
    if value is None or spread is None or value == 0:
        return None
    return (spread.high - spread.low) / 2 / abs(value)


def percent(value: float | None, spread: Spread | None) -> str:
    """Returns text such as ±0.3%; empty without an interval."""
    share = relative(value, spread)
    if share is None:
        return ""
    return f"±{share:.0%}" if share >= 0.0995 else f"±{100 * share:.1f}%" if share >= 0.0005 else "±<0.1%"


def whiskers(values: list[float], spreads: list[Spread | None], factor: float = 1) -> dict:
    """Returns Plotly's error bars, in multiples of `factor`; their length is 0 for values without an interval."""
    above = [(s.high - v) / factor if s else 0 for v, s in zip(values, spreads, strict=True)]
    below = [(v - s.low) / factor if s else 0 for v, s in zip(values, spreads, strict=True)]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1, "width": 3}


class Values:
    """Values of a metric in the records of a case, grouped by job, with their spread."""

    def __init__(self) -> None:
        self.jobs: dict[str, list[float]] = {}
        self.shares: list[float] = []
        self._alone: Spread | None = None

    def add(self, case: dict, metric: dict) -> None:
        """Adds a metric of a record; it must have a median."""
        self.jobs.setdefault(jobs.id_of(case), []).append(metric["median"])
        valid = len(metric["samples"]) - len(metric.get("invalid") or [])
        self._alone = of_record(metric["median"], metric.get("within_job"), metric.get("mad"), valid)
        if metric.get("share") is not None:
            self.shares.append(metric["share"])

    @property
    def value(self) -> float | None:
        """Median over jobs of each job's median."""
        return statistics.median(map(statistics.median, self.jobs.values())) if self.jobs else None

    @property
    def share(self) -> float | None:
        return statistics.median(self.shares) if self.shares else None

    @property
    def spread(self) -> Spread | None:
        return of_jobs(list(self.jobs.values()), self._alone)

    def percent(self) -> str:
        return percent(self.value, self.spread)
