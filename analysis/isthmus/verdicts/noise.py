"""Measures how much each metric varies from job to job if nothing changes, and what that means for a comparison.

Give it jobs of one state of the machine (an A/A run): ten or more per node, over some days. With -o FILE.json it writes
the file that `isthmus regress --noise` and `isthmus trial plan --noise` read.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from isthmus import Error, exits, spelling, units
from isthmus.grouping import grouped
from isthmus.records import measurements, selection, store
from isthmus.statistics import rank_test, series
from isthmus.tables import output
from isthmus.verdicts import baselines, comparison, judging, missing, outlying

_NAMED = 3  # maximum number of noisy places that are named
FEWEST = 5  # number of jobs of one node below which the noise is a guess


@dataclasses.dataclass
class Noise:
    """Noise of one series, as shares of its value if all values are above zero, otherwise in its unit."""

    series: series.Series
    label: str
    jobs: int
    nodes: int
    size: float | None  # largest absolute value, if some values are zero or below; None if the noise is a share
    between: float  # standard deviation between jobs of a node and GPU
    within: float  # standard deviation between samples of a job, as a share; NaN if it is meaningless
    boots: judging.Boots | None  # spread between boots of a node, if a node has several
    needed: int | None  # jobs per side that find the requested step on the noisiest node
    usual: int | None  # jobs per side that find the requested step on the other nodes
    noisy: dict[str, float]  # standard deviations of nodes and GPUs that vary more than the others, the worst first

    @property
    def worst(self) -> float:
        """Standard deviation between jobs at the noisiest place that a comparison may include."""
        return max(self.between, *self.noisy.values()) if self.noisy else self.between

    @property
    def margin(self) -> float:
        return judging.margin(self.between, judging.FLOOR * (self.size or 1))


def measure(
    opened: store.Store, *, condition: str = "true", step: float = 0.03, metrics: int | None = None
) -> list[Noise]:
    """Measures the noise of every series of the jobs that fulfil a condition; returns the noisiest first."""
    side = f"CASE WHEN {condition} THEN 'A' END"
    every = [each for each in series.load(opened, side) if any(len(v) > 1 for v in each.by_place("A").values())]
    names = series.labels(every)
    within = series.per_series(opened, "median(1.4826 * mad / abs(median))", f"({condition}) AND median <> 0")
    result = []
    for each in every:
        between = series.spread(each, ("A",))
        size = None if series.has_ratios(each, ("A",)) else float(np.max(np.abs(each.all("A"))))
        change = math.log1p(step) if size is None else step * size
        noisy = _noisy(each, len(every))
        needed, usual = (
            rank_test.jobs_needed(change / sd, metrics=metrics or len(every)) if 0 < sd < math.inf else None
            for sd in (max([between, *noisy.values()]), between)
        )
        means = series.boots(each, "A")
        freedom = sum(len(x) - 1 for x in means)
        squares = sum(float(((x - x.mean()) ** 2).sum()) for x in means)
        boots = judging.Boots(math.sqrt(squares / freedom), freedom) if freedom else None
        nodes = {node for job in each.of("A") for node in job.nodes}
        result.append(
            Noise(
                each, names[each.key], each.jobs("A"), len(nodes), size, between,
                within.get(each.key) or math.nan if size is None else math.nan, boots, needed, usual, noisy,
            )
        )  # fmt: skip
    return sorted(result, key=lambda noise: (-noise.worst / (noise.size or 1), noise.label))


def _noisy(each: series.Series, tests: int) -> dict[str, float]:
    """Returns the names of nodes and GPUs that vary more from job to job on side A than the others."""
    found = series.noisy_places(each, "A", tests)
    named = {" and ".join(map(missing.in_words, sorted(where))): sd for where, sd in found.items()}
    return dict(sorted(named.items(), key=lambda item: -item[1]))


def mixed(opened: store.Store, condition: str) -> list[str]:
    """Returns the fields of the fingerprint that changed on a node, so that the jobs are not an A/A run."""
    fields = [name for name in measurements.FINGERPRINT if name not in ("boot", *measurements.OBJECTS, "device")]
    counts = ", ".join(f'count(DISTINCT nullif("{name}"::VARCHAR, \'\')) AS "{name}"' for name in fields)
    # Nodes may differ from each other, but each must stay the same.
    rows = opened.rows(f"SELECT node, gpus, {counts} FROM measurements WHERE {condition} GROUP BY node, gpus")
    return [name for name in fields if any(row[name] > 1 for row in rows)]


def _shown_of(noise: Noise, value: float) -> str:
    if not math.isfinite(value):
        return "-"
    if noise.size is not None:
        return units.quantity(value, noise.series.unit)
    digits = 2 if value < 0.09995 else 1 if value < 0.9995 else 0
    return f"{value:.{digits}%}"


def text(found: list[Noise], *, step: float, metrics: int, shown: int) -> str:
    heads = ("between", "boots", "within", "±delta", "jobs", "nodes", "needed")
    columns = [output.Column("series", right=False), *map(output.Column, heads)]
    rows = [
        [noise.label, *(_shown_of(noise, value) for value in (
            noise.between, noise.boots.spread if noise.boots else math.nan, noise.within, noise.margin)),
         str(noise.jobs), str(noise.nodes), str(noise.needed or "-")]
        for noise in found[:shown]
    ]  # fmt: skip
    lines = output.lay_out(columns, rows)
    if len(found) > shown:
        lines.append(f"… {len(found) - shown} quieter series (--all)")
    lines += output.fold(
        "between: standard deviation between jobs of a node; boots: between the means of its boots; within: between "
        "samples of a job; ±delta: the margin; needed: jobs a side on the noisiest node to find a step of "
        f"{step:.0%} in one of {spelling.counted(metrics, 'metric')} in 90% of cases. Figures are shares of the value. "
        "For a series with values at or below zero, they are in its unit, and the step is a share of the largest value."
    )
    return "\n".join([*lines, *_summary(found)])


def _stray(found: list[Noise]) -> list[str]:
    """Returns a note on jobs far from the others of their node, since they are not noise and hide changes."""
    said, job = outlying.stray_in_words([(noise.series, noise.label) for noise in found])
    if not said:
        return []
    return output.fold(f"note: {said}, which makes the noise larger; leave it out with --without job={job}")


def _unlike_places(found: list[Noise]) -> list[str]:
    """Returns notes on the noisiest nodes and GPUs, each with its worst series."""
    by = grouped((where, noise) for noise in found if noise.needed != noise.usual for where in noise.noisy)
    ordered = sorted(by.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = []
    for where, those in ordered[:_NAMED]:
        worst = max(those, key=lambda noise: noise.noisy[where] / (noise.size or 1))
        own, usual = (_shown_of(worst, value) for value in (worst.noisy[where], worst.between))
        lines += output.fold(
            f"note: {where} is noisier than the others in {len(those)} series, such as {worst.label}: {own} between "
            f"jobs, where all have {usual}; a comparison there needs {spelling.counted(worst.needed or 0, 'job')} a "
            f"side, elsewhere {worst.usual or 'fewer'}"
        )
    more = len(ordered) - _NAMED
    return lines + ([f"note: {spelling.counted(more, 'more place', 'are')} noisier"] if more > 0 else [])


def _summary(found: list[Noise]) -> list[str]:
    lines = _stray(found) + _unlike_places(found)
    needed = sorted(noise.needed for noise in found if noise.needed)
    if needed:
        most = needed[min(len(needed) - 1, math.ceil(0.9 * len(needed)) - 1)]
        lines.append(f"{spelling.counted(most, 'job')} a side on one node suffice for 90% of {len(found)} series")
    few = sum(noise.jobs < FEWEST * noise.nodes for noise in found)
    if few:
        lines.append(f"{few} series have fewer than {FEWEST} jobs per node, so their noise is a guess; run more")
    return lines


_COLUMNS = {
    "unit": "VARCHAR", "series": "VARCHAR", "between": "DOUBLE", "boots": "DOUBLE", "boots_freedom": "BIGINT",
    "within": "DOUBLE", "margin": "DOUBLE", "jobs": "BIGINT", "nodes": "BIGINT", "needed": "BIGINT", "worst": "DOUBLE",
    "noisy": "VARCHAR",
    baselines.AXES: "VARCHAR",
}  # fmt: skip


def _row(noise: Noise) -> dict[str, Any]:
    """Returns a row for baselines.load_noise()."""
    boots = noise.boots
    return noise.series.case | {
        "series": noise.label, "between": noise.between, "boots": boots and boots.spread,
        "boots_freedom": boots and boots.freedom, "within": noise.within, "margin": noise.margin,
        "jobs": noise.jobs, "nodes": noise.nodes, "needed": noise.needed,
        "worst": noise.worst, "noisy": ", ".join(noise.noisy) or None,
        baselines.AXES: noise.series.key[measurements.SERIES.index("axes")],
    }  # fmt: skip


def add_arguments(parser) -> None:
    parser.epilog = "example: isthmus noise results --from driver=570 -o noise.json"
    selection.add_arguments(parser)
    parser.add_argument("--from", dest="a", metavar="WHAT", help="which jobs: FIELD=VALUE,… or a day or FROM..TO")
    parser.add_argument("--step", **units.SHARE, default=0.03, help="the change to find (0.03)")
    parser.add_argument("--metrics", **units.COUNT, help="metrics of a session (default: all in the records)")
    parser.add_argument("--all", action="store_true", help="show every series")
    output.add_arguments(parser)


def run(asked) -> int:
    condition = series.condition(asked.a) if asked.a else "true"
    with selection.from_arguments(asked, wanted=(*comparison.WANTED, "mad")) as opened:
        if asked.a:
            comparison.check_some(opened, condition, "--from selects no job", asked.a)
        found = measure(opened, condition=condition, step=asked.step, metrics=asked.metrics)
        if not found:
            raise Error("no series has two jobs on one node and GPU, so nothing is known of its noise; run more jobs")
        unlike = mixed(opened, condition)
    shown = text(found, step=asked.step, metrics=asked.metrics or len(found), shown=len(found) if asked.all else 20)
    notes = _summary(found)
    if unlike:
        note = f"note: not one state of the machine: {', '.join(unlike)} changed on a node; narrow it with --from"
        shown, notes = f"{shown}\n{note}", [*notes, note]
    output.write(asked, output.of_cases([_row(noise) for noise in found], _COLUMNS, shown, notes))
    return exits.PASSED
