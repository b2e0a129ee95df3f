"""Accuracy of predicted placements: every program in the records is predicted from the other programs."""

from __future__ import annotations

import collections
import dataclasses
import statistics

from isthmus import Error
from isthmus.advise.footprint import PREFIX, footprint_of, of_program
from isthmus.advise.machine import DATA_PATHS, Machine
from isthmus.advise.measured import medians
from isthmus.tables import output


@dataclasses.dataclass(frozen=True)
class Miss:
    """Measured and predicted seconds of one record."""

    workload: str
    size: str
    placement: str
    staging: str
    what: str
    measured: float
    predicted: float

    @property
    def relative(self) -> float:
        return self.predicted / self.measured - 1


@dataclasses.dataclass
class Check:
    """Prediction errors of all programs in the records, each predicted from the other programs."""

    misses: list[Miss]
    losses: dict[str, list[tuple[str, float]]]  # (case, time lost relative to the best), keyed by what was picked


def _measured(case: dict) -> dict[str, float]:
    found = medians(case)
    parts = {"paper_total": sum(found.get(name, 0.0) for name in ("device_alloc", "in", "kernel", "out"))}
    parts["wall"] = found.get("wall", parts["paper_total"])
    return parts | {name: found[name] for name in ("in", "kernel", "out") if name in found}


def _group(case: dict) -> tuple:
    """Returns the key that records of the same program, size and geometry have in common."""
    return (case["workload"], case["size"], case["preset"], tuple(sorted(case["axes"].items())))


def check(cases: list[dict]) -> Check:
    """Predicts every program in the records, as declared and as profiled, from the machine without that workload.

    The kernel time of a declared program is unknown. That of a profiled program is known in direct staging or, without
    a record of direct staging, in the staging of its first record.
    """
    groups = collections.defaultdict(list)
    for case in cases:
        if case["workload"].startswith(PREFIX) and of_program(case) and case["placement"] in DATA_PATHS:
            groups[_group(case)].append(case)
    machines = {workload: Machine(cases, without=workload) for workload in {key[0] for key in groups}}
    result = Check([], collections.defaultdict(list))
    for key, members in groups.items():
        machine, predicted = machines[key[0]], []
        known = next((c for c in members if c["staging"] == "direct"), members[0])
        for case in members:
            footprint = footprint_of(case)
            declared = machine.predict(footprint, case["placement"], case["staging"])
            own, other = (machine.kernel(footprint, staging) for staging in (case["staging"], known["staging"]))
            if declared is None or own is None or other is None:
                continue
            kernel = medians(known)["kernel"] * own / other
            profiled = machine.predict(footprint, case["placement"], case["staging"], kernel)
            assert profiled is not None  # since `declared` is not None, the placement's copies are known
            predicted.append((case, declared, profiled))
            measured, place = _measured(case), (case["placement"], case["staging"])
            for what, seconds in (
                ("in", declared.phases["in"]), ("out", declared.phases["out"]), ("kernel", declared.phases["kernel"]),
                ("declared", declared.paper_total), ("profiled", profiled.paper_total), ("wall", profiled.total),
            ):  # fmt: skip
                of = measured.get({"declared": "paper_total", "profiled": "paper_total"}.get(what, what))
                if of:
                    result.misses.append(Miss(key[0], str(key[1]), *place, what, of, seconds))
        _lose(result, key, predicted)
    return result


def _lose(result: Check, key: tuple, predicted: list) -> None:
    """Adds the time lost by picking the best prediction instead of the best measurement, for one program's records."""
    name = f"{key[0].removeprefix(PREFIX)} {key[2] or key[1] or ''}".strip()
    for what, measure, value in (
        ("placement", "paper_total", lambda p: p.paper_total),
        ("placement with allocation", "wall", lambda p: p.total),
    ):
        direct = [(case, each) for case, _, each in predicted if case["staging"] == "direct"]
        if len({case["placement"] for case, _ in direct}) > 1:
            picked = min(direct, key=lambda pair: value(pair[1]))[0]
            best = min(_measured(case)[measure] for case, _ in direct)
            result.losses[what].append((name, _measured(picked)[measure] / best - 1))
    pinned = [(case, each) for case, each, _ in predicted if case["placement"] == "pinned"]
    if len({case["staging"] for case, _ in pinned}) > 1:
        picked = min(pinned, key=lambda pair: pair[1].phases["kernel"])[0]
        best = min(_measured(case)["kernel"] for case, _ in pinned)
        result.losses["staging"].append((name, _measured(picked)["kernel"] / best - 1))


WORDS = {
    "in": "copies in", "out": "copies out", "kernel": "kernel, declared", "declared": "total, declared",
    "profiled": "total, profiled", "wall": "wall, profiled",
}  # fmt: skip


#: Columns of line_of_errors().
ERRORS = [output.Column("predicted"), output.Column("records"), output.Column("median error"),
          output.Column("in 15%"), output.Column("in 30%"), output.Column("worst", right=False)]  # fmt: skip


def _within(off: list[float], limit: float) -> str:
    return f"{sum(x <= limit for x in off) / len(off):.0%}"


def line_of_errors(words: str, misses: list[Miss]) -> list[str]:
    off = sorted(abs(miss.relative) for miss in misses)
    worst = max(misses, key=lambda miss: abs(miss.relative))
    name = f"{worst.relative:+.0%} {worst.workload.removeprefix(PREFIX)} {worst.size} {worst.placement}"
    return [words, str(len(off)), f"{statistics.median(off):.0%}", _within(off, 0.15), _within(off, 0.30), name]


def _checked(found: Check) -> list[str]:
    by_what = {what: [miss for miss in found.misses if miss.what == what] for what in WORDS}
    lines = output.lay_out(ERRORS, [line_of_errors(WORDS[w], misses) for w, misses in by_what.items() if misses])
    for what, losses in found.losses.items():
        good = sum(loss <= 0.05 for _, loss in losses)
        name, worst = max(losses, key=lambda pair: pair[1])
        worst_text = f"; worst {worst:+.0%}, {name}" if worst > 0.05 else ""
        lines += output.fold(f"{what} picked within 5% of the best: {good} of {len(losses)}{worst_text}")
    return lines + output.fold(
        "Each program is predicted from the records of the others. total: kernel, copies and device allocation; "
        "wall: with page-locking, first touch and frees. median error: half of the records are off by less."
    )


def table_of_check(found: Check) -> output.Table:
    """Makes a table of prediction errors and of the time lost by picking by prediction, with a row per prediction."""
    if not found.misses:
        raise Error("no record of a microbenchmark, so predictions cannot be checked")
    rows = [
        {"workload": miss.workload, "metric": miss.what, "placement": miss.placement, "staging": miss.staging,
         "size": miss.size, "axes": {}, "unit": "s", "measured": miss.measured, "predicted": miss.predicted,
         "relative": miss.relative} for miss in found.misses
    ]  # fmt: skip
    more = {"unit": "VARCHAR", "measured": "DOUBLE", "predicted": "DOUBLE", "relative": "DOUBLE"}
    return output.of_cases(rows, more, "\n".join(_checked(found)))
