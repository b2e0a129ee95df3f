"""Parts of a comparison that changed differently: a node, a GPU or some jobs. They exclude the verdict "equivalent"."""

from __future__ import annotations

import math

import numpy as np

from isthmus import spelling
from isthmus.statistics import design, parts, rank_test, series
from isthmus.verdicts.judging import Part, Result, is_worse, logs_of

SESSION = 0.02  # share of sessions, over all metrics, in which a part is reported as different although none is
DOUBT = 0.01  # p of a part, corrected for the number of places, at or below which a series is not "equivalent"
_FEW = 0.1  # p of a tail at or below which a series is not "equivalent"
_NAMED = 3  # maximum number of places that are named


def _place(place: tuple[str, str]) -> str:
    node, gpus = place
    return f"{gpus} of {node}" if gpus else node


def _scaled(value: float, ratio: bool) -> float:
    return math.expm1(value) if ratio and math.isfinite(value) else value


def _margins(result: Result) -> tuple[float, float]:
    """Returns the upward and downward margins, as logarithms if the result is a ratio."""
    assert result.delta is not None
    up = math.log1p(result.delta) if result.ratio else result.delta
    return up, -up


def layout_of(a: list[series.Job], b: list[series.Job], plan: design.Design) -> parts.Layout | None:
    return parts.layout(a, b, plan.units_of_jobs(), plan.clusters_of_jobs(), boots=plan.unit == "boot")


def places(each: series.Series, result: Result, plan: design.Design) -> list[Part]:
    """Returns places of a series that changed differently from their peers: see of_places()."""
    a, b = each.of("A"), each.of("B")
    layout = layout_of(a, b, plan)
    if layout is None:
        return []
    figures = np.array([value for job in (*a, *b) for value in job.places.values()])
    return of_places(layout, parts.compare(layout, parts.entries(layout, figures, result.ratio)), result)


def of_places(layout: parts.Layout, found: parts.Places, result: Result) -> list[Part]:
    """Returns places whose change differs from their peers' by more than the margin and more than chance explains."""
    p = np.minimum(1.0, found.p() * len(layout.places))
    up, down = _margins(result)
    result_parts = []
    for i in np.flatnonzero((p <= DOUBT) & ((found.more > up) | (found.more < down))).tolist():
        low, high = parts.interval(layout, found, i)
        beyond = (low > up and found.own[i] > up) or (high < down and found.own[i] < down)
        far = abs(found.t[i]) >= parts.LEAST if found.replicated[i] else p[i] <= parts.ALPHA
        result_parts.append(
            Part(
                _place(layout.places[i]), _scaled(float(found.more[i]), result.ratio), _scaled(low, result.ratio),
                _scaled(high, result.ratio), float(p[i]), own=_scaled(float(found.own[i]), result.ratio),
                enough=bool(beyond and far),
            )
        )  # fmt: skip
    return result_parts


def tail(each: series.Series, result: Result, plan: design.Design, sigma: float) -> Part | None:
    """Returns jobs of B that are far worse than usual at their place, if A has fewer of them: see tail_of().

    Returns None if neither direction is better.
    """
    if each.better is None:
        return None
    logs = np.concatenate([logs_of(each.all(side), result.ratio) for side in ("A", "B")])
    return tail_of(logs, result, plan, sigma, below=each.better == "higher")


def tail_of(values: np.ndarray, result: Result, plan: design.Design, sigma: float, *, below: bool) -> Part | None:
    """Returns jobs of B that are far below (or far above) the usual value at their place, if A has fewer such jobs.

    Returns None if A has as many or more, if they are a majority of B's jobs, if `sigma` is not finite, or if nodes are
    compared. Jobs of one boot, or of one night of all nodes, count once, because what happened to them happened once.
    """
    if not (sigma >= 0 and math.isfinite(sigma)) or plan.unit == "node":
        return None
    far = parts.far_from_usual(plan, values, _margins(result)[0] + parts.OUTLIER * sigma, below)
    if len(far[1]) <= len(far[0]) or 2 * len(far[1]) > plan.jobs[1]:  # a majority is not a tail
        return None
    events = plan.units_of_jobs() if plan.unit == "boot" else plan.clusters_of_jobs()
    count = [len({events[i] for i in jobs}) for jobs in far]
    of = [len({events[i] for i in jobs}) for jobs in plan.jobs_of_sides()]
    p = parts.excess((count[0], count[1]), (of[0], of[1]))
    if count[1] < 2 or p > _FEW:
        p = 1.0
    size = _scaled(parts.median_away(plan, values, far[1]), result.ratio)
    where = f"{len(far[1])} of {plan.jobs[1]} jobs"
    return Part(where, size, None, None, p, own=size, enough=p <= rank_test.ALPHA and not result.barred)


def settle(results: list[Result]) -> None:
    """Corrects the p of parts for the number of series, and changes the verdicts that the parts contradict."""
    least = np.array([min((part.p for part in result.parts), default=1.0) for result in results])
    factors = rank_test.adjusted(least) / np.maximum(least, 1e-300)
    for result, factor in zip(results, factors):
        for part in result.parts:
            part.q = min(1.0, part.p * float(factor))
            part.sure = part.enough and part.q <= SESSION
        _apply(result)


def _apply(result: Result) -> None:
    result.parts = [part for part in result.parts if part.low is None or part.q <= rank_test.SESSION]
    if any(part.sure for part in result.parts if part.low is not None):
        result.parts = [part for part in result.parts if part.low is not None]  # these places explain the tail
    sure = [part for part in result.parts if part.sure]
    unnamed = result.barred.startswith("not identifiable: boots")
    if any(is_worse(part.own, result.better) for part in sure) and not unnamed:
        result.verdict, result.reason = "regressed", ""
        result.advice, result.more = "", None
    elif sure and result.verdict in ("equivalent", "changed-but-small") and not unnamed:
        result.verdict = "changed" if result.better is None else "improved"
    elif result.verdict in ("equivalent", "changed-but-small") and (doubt := [p for p in result.parts if p.p < 1]):
        result.verdict = "inconclusive"
        result.reason = f"unlike the others: {in_words(result, doubt)}"


def in_words(result: Result, found: list[Part] | None = None) -> str:
    """Describes parts, such as "n3 -50.1%", with intervals; first those that decide the verdict, the largest first."""
    every = result.parts if found is None else found
    found = sorted(every, key=lambda part: (not result.bears_out(part.own), -abs(part.estimate)))
    said = []
    for part in found[:_NAMED]:
        words = f"{spelling.printable(part.where)} {_figure(part.own, result)}"
        if part.low is not None and part.high is not None:
            words += f" ([{_figure(part.low, result)}, {_figure(part.high, result)}] from the others)"
        said.append(words)
    more = len(found) - _NAMED
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")


def _figure(value: float, result: Result) -> str:
    if not math.isfinite(value):
        return "-∞" if value < 0 else "∞"
    return f"{value:+.1%}" if result.ratio else f"{value:+.3g} {result.unit}".removesuffix(" 1").rstrip()
