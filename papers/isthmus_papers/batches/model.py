"""Model of the driver's cost of a batch of page faults, per driver version: service = a·faults + b·blocks served +
c·bytes moved + d·first visits of a block + e·pages that the host had mapped + f·pieces of range groups.

It is fitted by least squares over the batches of traces (*.uvm) and of records with tables of `--observe uvm`. For the
intervals, whole jobs or traces are resampled, because batches of one job agree with each other far better than with
those of another job. For validation, each pattern (program and axes except the size) is left out in turn and predicted
from the others. A coefficient that the batches cannot separate from others is not printed; the output names the others.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import re
from typing import NamedTuple

import numpy

from isthmus import Error, exits, spelling, units
from isthmus.grouping import grouped
from isthmus.records import load
from isthmus.statistics import rank_test
from isthmus.tables import output
from isthmus_papers.batches import sampling
from isthmus_papers.batches.sampling import TERMS, Sample

_ALIKE = 1e-3  # a term is separable if earlier terms leave more than this share of its squares unexplained
_NOTICED = 0.05  # an inseparable term is named together with each term that explains more than this share of it
_DRAWS, _SEED = 2000, 1
_JOBS = 6  # minimum number of jobs for an interval
_CONFIDENCE = 0.95
UNITS = {
    "faults": "s/fault", "blocks": "s/block", "bytes": "s/B", "first_visits": "s/visit", "host_pages": "s/page",
    "pieces": "s/piece",
}  # fmt: skip
_PATTERNS = 30  # maximum number of patterns in the printed report
_SIMPLE = ("faults/regular ", "faults/random ", "faults/strided ")  # patterns that predict the kernels of programs


# --- one fit ---


class Identified(NamedTuple):
    """Terms that get a coefficient, and for each the terms that cannot be separated from it."""

    kept: list[int]
    absent: list[int]  # terms that are 0 in all batches
    together: dict[int, list[int]]


def identify(gram: numpy.ndarray) -> Identified:
    """Determines which terms can be separated, from the products of their columns. Each term is compared with those
    before it in TERMS."""
    scale = numpy.sqrt(numpy.diag(gram))
    kept: list[int] = []
    absent, together = [], collections.defaultdict(set)
    scaled, _ = _scaled(gram, list(range(len(gram))))
    for term in range(len(gram)):
        if scale[term] == 0:
            absent.append(term)
            continue
        shares = numpy.zeros(0)
        left = 1.0
        if kept:
            shares = numpy.linalg.solve(scaled[numpy.ix_(kept, kept)], scaled[kept, term])
            left = 1.0 - float(shares @ scaled[kept, term])
        if left > _ALIKE:
            kept.append(term)
            continue
        for other, share in zip(kept, shares):
            if abs(share) > _NOTICED:
                together[term].add(other)
                together[other].add(term)
    return Identified(kept, absent, {term: sorted(others) for term, others in together.items()})


def _scaled(gram: numpy.ndarray, kept: list[int]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Returns the products of the kept columns after scaling each column to length 1, and the columns' lengths (1 for a
    column of zeros). Accepts one Gram matrix or many."""
    scale = numpy.sqrt(numpy.einsum("...ii->...i", gram))[..., kept]
    scale = numpy.where(scale > 0, scale, 1.0)
    return gram[..., kept, :][..., kept] / (scale[..., :, None] * scale[..., None, :]), scale


def _solve(gram: numpy.ndarray, product: numpy.ndarray, kept: list[int]) -> numpy.ndarray:
    """Returns the coefficients of the kept terms, and zeros for other terms. Accepts one Gram matrix or many."""
    small, scale = _scaled(gram, kept)
    solved = numpy.linalg.solve(small, (product[..., kept] / scale)[..., None])[..., 0] / scale
    whole = numpy.zeros(product.shape)
    whole[..., kept] = solved
    return whole


def _identifiable(gram: numpy.ndarray, kept: list[int]) -> numpy.ndarray:
    """Returns a mask of the draws that still allow separating the kept terms."""
    small, _ = _scaled(gram, kept)
    has = (numpy.einsum("...ii->...i", small) > 0).all(axis=-1)
    return has & (numpy.linalg.eigvalsh(small)[..., 0] > _ALIKE / 10)


@dataclasses.dataclass
class LeftOut:
    """Pattern that was left out and predicted from the others."""

    pattern: str
    batches: int
    measured: float  # seconds of service, in total
    predicted: float
    explained: float | None  # share of the variance within the pattern
    note: str = ""


class Kernel(NamedTuple):
    """Kernel of a program in managed memory, predicted from the simple patterns."""

    pattern: str
    unit: str
    batches: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


@dataclasses.dataclass
class Fit:
    """Fitted model of one driver version."""

    driver: str
    batches: int
    jobs: int
    found: Identified
    values: numpy.ndarray
    low: numpy.ndarray | None  # bounds of the 95% intervals; None if there are too few jobs
    high: numpy.ndarray | None
    why_no_interval: str
    explained: float  # share of the variance of the batches' service
    rest: float  # mean seconds per batch that the terms do not explain
    left: list[LeftOut]
    explained_left: float | None  # share of the variance of all left-out patterns together
    sizes: list[tuple[int, int, float, float]]  # bytes per move, number of batches, their service and transfer times
    error: numpy.ndarray | None = None  # standard error of each value
    kernels: list[Kernel] = dataclasses.field(default_factory=list)

    def status(self, term: int) -> str:
        if term in self.found.absent:
            return "absent"
        return "together" if term in self.found.together else "identified"

    def partners(self, term: int) -> str:
        return ", ".join(TERMS[other] for other in self.found.together.get(term, []))


class _Sums(NamedTuple):
    gram: numpy.ndarray  # one matrix per group
    product: numpy.ndarray
    names: list[str]


def _sums(samples: list[Sample], name: str) -> _Sums:
    """Returns the products of the columns with each other and with the service, for each group of samples with the same
    value of the field `name`."""
    groups = grouped((getattr(sample, name), sample) for sample in samples)
    gram = [sum(each.features.T @ each.features for each in members) for members in groups.values()]
    product = [sum(each.features.T @ each.service for each in members) for members in groups.values()]
    return _Sums(numpy.array(gram), numpy.array(product), list(groups))


def _intervals(by_job: _Sums, found: Identified, values: numpy.ndarray):
    """Returns standard errors from resampling the jobs with replacement, and an empty string; if there are none, None
    and the reason."""
    jobs = len(by_job.names)
    if jobs < _JOBS:
        return None, f"intervals need {_JOBS} jobs or traces, but there {'is' if jobs == 1 else 'are'} {jobs}"
    chance = numpy.random.default_rng(_SEED)
    times = chance.multinomial(jobs, numpy.full(jobs, 1 / jobs), _DRAWS).astype("f8")
    gram = numpy.tensordot(times, by_job.gram, 1)
    usable = _identifiable(gram, found.kept)
    if usable.mean() < 0.95:
        return (
            None,
            "no intervals, since only a few jobs separate some coefficients: measure such patterns in more jobs",
        )
    drawn = _solve(gram[usable], (times @ by_job.product)[usable], found.kept)
    return drawn.std(axis=0, ddof=1) * numpy.sqrt(jobs / (jobs - 1)), ""


def _leave_out(samples: list[Sample]) -> tuple[list[LeftOut], float | None]:
    """Predicts each pattern from the others. Also returns the explained share of the variance of all of them."""
    by_pattern = _sums(samples, "pattern")
    if len(by_pattern.names) < 2:
        return [], None
    left, wrong, service = [], [], []
    for number, pattern in enumerate(by_pattern.names):
        rest = numpy.arange(len(by_pattern.names)) != number
        gram, product = by_pattern.gram[rest].sum(axis=0), by_pattern.product[rest].sum(axis=0)
        found = identify(gram)
        own = [sample for sample in samples if sample.pattern == pattern]
        features = numpy.concatenate([sample.features for sample in own])
        measured = numpy.concatenate([sample.service for sample in own])
        only_here = [TERMS[term] for term in found.absent if features[:, term].any()]
        if only_here or not found.kept:
            note = f"not predicted: no other pattern has {', '.join(only_here) or 'any term'}"
            left.append(LeftOut(pattern, len(measured), float(measured.sum()), float("nan"), None, note))
            continue
        predicted = features @ _solve(gram, product, found.kept)
        explained = _explained(measured, measured - predicted)
        left.append(LeftOut(pattern, len(measured), float(measured.sum()), float(predicted.sum()), explained))
        wrong.append(measured - predicted)
        service.append(measured)
    total = _explained(numpy.concatenate(service), numpy.concatenate(wrong)) if service else None
    return left, total


def _kernels(samples: list[Sample]) -> list[Kernel]:
    """Predicts the kernels of programs: the service of each batch with the coefficients of the simple patterns, plus
    their mean time between batches. Work of the kernel while no batch is served is neglected."""
    simple = [each for each in samples if each.pattern.startswith(_SIMPLE)]
    programs = [each for each in samples if each.kernel and not each.pattern.startswith(_SIMPLE)]
    if not simple or not programs:
        return []
    sums = _sums(simple, "driver")
    gram, product = sums.gram.sum(axis=0), sums.product.sum(axis=0)
    found = identify(gram)
    values = _solve(gram, product, found.kept)
    gaps = sum(len(each.service) - 1 for each in simple)
    between = sum(each.between for each in simple) / max(gaps, 1)
    return [
        Kernel(
            each.pattern, each.unit, len(each.service), float(each.kernel or 0),
            float((each.features @ values).sum()) + between * (len(each.service) - 1),
        )
        for each in programs
    ]  # fmt: skip


def _explained(measured: numpy.ndarray, wrong: numpy.ndarray) -> float | None:
    about = float(((measured - measured.mean()) ** 2).sum())
    return 1 - float((wrong**2).sum()) / about if about > 0 else None


def _by_size(samples: list[Sample]) -> list[tuple[int, int, float, float]]:
    """Returns service and transfer times of batches, grouped by the mean size of a batch's moves, rounded to powers of
    two, as in GPUVM's Figure 2."""
    size = numpy.concatenate([each.features[:, TERMS.index("bytes")] for each in samples])
    moves, service, transfer = (
        numpy.concatenate([getattr(each, name) for each in samples]) for name in ("moves", "service", "transfer")
    )
    known = (moves > 0) & (transfer > 0) & (size > 0)
    power = numpy.round(numpy.log2(size[known] / moves[known])).astype("i8")
    return [
        (1 << int(each), int((power == each).sum()), float(service[known][power == each].sum()),
         float(transfer[known][power == each].sum()))
        for each in numpy.unique(power)
    ]  # fmt: skip


def fit(driver: str, samples: list[Sample]) -> Fit:
    """Returns the model fitted to the samples of one driver, all of which must have batches."""
    by_job = _sums(samples, "unit")
    gram, product = by_job.gram.sum(axis=0), by_job.product.sum(axis=0)
    found = identify(gram)
    values = _solve(gram, product, found.kept) if found.kept else numpy.zeros(len(TERMS))
    error, why = _intervals(by_job, found, values) if found.kept else (None, "no term occurs")
    width = None if error is None else error * rank_test.student_quantile((1 - _CONFIDENCE) / 2, len(by_job.names) - 1)
    features = numpy.concatenate([sample.features for sample in samples])
    service = numpy.concatenate([sample.service for sample in samples])
    wrong = service - features @ values
    left, explained_left = _leave_out(samples)
    return Fit(
        driver, len(service), len(by_job.names), found, values, None if width is None else values - width,
        None if width is None else values + width, why, _explained(service, wrong) or 0.0, float(wrong.mean()), left,
        explained_left, _by_size(samples), error, _kernels(samples),
    )  # fmt: skip


def fits(samples: list[Sample]) -> list[Fit]:
    """Returns one fit per driver version, in the order of the versions."""
    groups = grouped((sample.driver, sample) for sample in samples if len(sample.service))
    order = sorted(groups, key=lambda name: ([int(part) for part in re.findall(r"\d+", name)], name))
    return [fit(driver, groups[driver]) for driver in order]


# --- from driver to driver ---


@dataclasses.dataclass
class Cost:
    """Coefficient with two drivers. `ratio` and its interval are B over A, with 95% confidence over all terms."""

    term: str  # name of the term, or of several that the batches of neither side can separate
    status: str  # changed, alike, unknown
    a: float | None = None
    b: float | None = None
    unit: str = ""
    difference: tuple[float, float] = (math.nan, math.nan)  # interval of b - a
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


def _bounds(a: float, b: float, errors: tuple[float, float], quantile: float) -> tuple[float, float] | None:
    """Returns the interval of b / a by Fieller's theorem, or None if it is unbounded. It excludes 1 if, and only if,
    the interval of b - a excludes 0."""
    weight = (quantile * errors[0] / a) ** 2
    if a <= 0 or weight >= 1:
        return None
    ratio = b / a
    half = quantile / a * math.sqrt((1 - weight) * errors[1] ** 2 + (ratio * errors[0]) ** 2)
    return (ratio - half) / (1 - weight), (ratio + half) / (1 - weight)


def _unclear(term: int, fits: tuple[Fit, Fit]) -> str:
    """Returns why a term's coefficients on both sides describe different things, or an empty string if they are
    comparable."""
    title = TERMS[term]
    for fit in fits:
        if fit.status(term) == "absent":
            return f"no batch with {fit.driver} has any {title}"
        if fit.status(term) == "together" and term not in fit.found.kept:
            return f"the batches with {fit.driver} cannot distinguish it from {fit.partners(term)}"
    if fits[0].partners(term) != fits[1].partners(term):
        return "it goes together with different terms on the two sides"
    return ""


def costs(before: Fit, after: Fit, comparisons: int = 1) -> list[Cost]:
    """Returns the cost of each term, provided that both fits have intervals. The confidence holds for all terms of all
    `comparisons` together."""
    if before.error is None or after.error is None:
        return []
    quantile = rank_test.student_quantile(
        (1 - _CONFIDENCE) / 2 / len(TERMS) / comparisons, min(before.jobs, after.jobs) - 1
    )
    found = []
    for term, title in enumerate(TERMS):
        if why := _unclear(term, (before, after)):
            found.append(Cost(title, "unknown", why=why))
            continue
        partners = before.partners(term)
        a, b = float(before.values[term]), float(after.values[term])
        errors = float(before.error[term]), float(after.error[term])
        width = quantile * math.hypot(*errors)
        status, difference = "changed" if abs(b - a) > width else "alike", (b - a - width, b - a + width)
        cost = Cost(" and ".join(filter(None, (title, partners))), status, a, b, UNITS[title], difference)
        bounds = _bounds(a, b, errors, quantile)
        if bounds is None:
            cost.why = f"its value with {before.driver} is not known to differ from 0, so the ratio has no bounds"
            cost.status = status if status == "changed" else "unknown"
        else:
            cost.ratio, (cost.low, cost.high) = b / a, bounds
        found.append(cost)
    return found


def changes(found: list[Fit]) -> tuple[list[tuple[str, str, Cost]], list[str]]:
    """Returns the costs that differ between each driver and the next, each with the names of the two drivers, and
    sentences on what could not be compared."""
    pairs = list(itertools.pairwise(found))
    named, notes = [], []
    for before, after in pairs:
        name = f"{before.driver} and {after.driver}"
        compared = costs(before, after, len(pairs))
        notes += [] if compared else [f"{name} are not compared, because one has no intervals"]
        notes += [f"{name} are not compared in {each.term}: {each.why}" for each in compared if each.a is None]
        named += [(before.driver, after.driver, each) for each in compared if each.status == "changed"]
    return named, notes


# --- for people and programs ---


def quantity(value: float, unit: str) -> str:
    """Returns a quantity in one of UNITS as text."""
    return f"{units.quantity(value, 's')}{unit.removeprefix('s')}"


def _quantity(value: float, term: str) -> str:
    return quantity(value, UNITS[term])


def _coefficient_lines(found: Fit) -> list[str]:
    columns = [output.Column("term", right=False), output.Column("coefficient"), output.Column("95%")]
    rows, said = [], []
    for term, title in enumerate(TERMS):
        status = found.status(term)
        if status == "identified":
            sure = "-"
            if found.low is not None and found.high is not None:
                sure = f"[{_quantity(found.low[term], title)}, {_quantity(found.high[term], title)}]"
            rows.append([title, _quantity(float(found.values[term]), title), sure])
            if found.values[term] < 0:
                said.append(
                    f"{title} is estimated below 0, which is impossible: these batches do not determine it well."
                )
            continue
        rows.append([title, "not identifiable" if status == "together" else "not there", "-"])
        if status == "absent":
            said.append(f"{title}: no batch has any, so nothing is known about its coefficient.")
        elif term in found.found.kept:
            value = _quantity(float(found.values[term]), title)
            said.append(
                f"{title} goes together with {found.partners(term)} in these batches: {value} is of all of them."
            )
        else:
            said.append(
                f"{title} cannot be distinguished from {found.partners(term)}: measure patterns in which they differ."
            )
    lines = output.lay_out(columns, rows)
    for sentence in [*said, *([f"{found.why_no_interval}."] if found.why_no_interval else [])]:
        lines += output.fold(sentence)
    return lines


def _left_lines(found: Fit) -> list[str]:
    if not found.left:
        return output.fold("There is only one pattern, so none can be left out and predicted; measure others as well.")
    columns = [
        output.Column(h, right=i > 0) for i, h in enumerate(("left out", "batches", "measured", "error", "explained"))
    ]
    rows = []
    for each in sorted(found.left, key=lambda each: -each.batches)[:_PATTERNS]:
        error = "-" if each.note else f"{each.predicted / each.measured - 1:+.1%}" if each.measured else "-"
        explained = "-" if each.explained is None else f"{each.explained:.1%}"
        rows.append([each.pattern, str(each.batches), units.quantity(each.measured, "s"), error, explained])
    lines = ["", *output.lay_out(columns, rows)]
    lines += [line for each in found.left if each.note for line in output.fold(f"{each.pattern}: {each.note}.")]
    if found.explained_left is not None:
        lines += output.fold(
            f"Patterns left out: {found.explained_left:.1%} of the variance of their batches explained."
        )
    return lines


def _kernel_lines(found: Fit) -> list[str]:
    if not found.kernels:
        return []
    columns = [output.Column(h, right=i > 0) for i, h in enumerate(("kernel", "batches", "measured", "error"))]
    rows = [
        [each.pattern, str(each.batches), units.quantity(each.measured, "s"), f"{each.error:+.1%}"]
        for each in found.kernels
    ]
    middle = numpy.median([abs(each.error) for each in found.kernels])
    said = f"Kernels predicted from the simple patterns: the median of {len(rows)} errors is {middle:.1%}."
    return ["", *output.lay_out(columns, rows), *output.fold(said)]


def _text(found: list[Fit], named: list[tuple[str, str, Cost]], notes: list[str], left_out: list[str]) -> str:
    lines: list[str] = []
    for each in found:
        jobs = spelling.counted(each.jobs, "job")
        lines += [*output.fold(f"driver {each.driver}: {each.batches} batches of {jobs}"), *_coefficient_lines(each)]
        lines += output.fold(
            f"{each.explained:.1%} of the variance is explained; no term explains {units.quantity(each.rest, 's')} a "
            "batch."
        )
        lines += _left_lines(each)
        lines += _kernel_lines(each)
        if each.sizes:
            columns = [output.Column(h) for h in ("mean move", "batches", "service", "transfer", "service/transfer")]
            rows = [
                [units.byte_text(size), str(count), units.quantity(service, "s"), units.quantity(moved, "s"),
                 f"{service / moved:.2f}"]
                for size, count, service, moved in each.sizes
            ]  # fmt: skip
            lines += ["", *output.lay_out(columns, rows)]
        lines.append("")
    for before, after, cost in named:
        assert cost.a is not None and cost.b is not None  # otherwise it would not count as changed
        a, b, low, high = (quantity(value, cost.unit) for value in (cost.a, cost.b, *cost.difference))
        lines += output.fold(
            f"{cost.term} changed from driver {before} to {after}: {a} to {b} "
            f"(difference [{low}, {high}], 95% over all comparisons)"
        )
    compared = len(found) > 1 and any(each.error is not None for each in found)
    if compared and not named:
        lines.append("No coefficient is known to differ between drivers.")
    lines += [line for note in notes for line in output.fold(note)]
    if left_out:
        lines += output.fold(f"{len(left_out)} left out, the first: {left_out[0]}")
    return "\n".join(lines).rstrip("\n")


_COLUMNS = {
    "driver": "VARCHAR", "says": "VARCHAR", "term": "VARCHAR", "status": "VARCHAR", "value": "DOUBLE",
    "unit": "VARCHAR", "low": "DOUBLE", "high": "DOUBLE", "together": "VARCHAR", "pattern": "VARCHAR",
    "bytes": "BIGINT", "batches": "BIGINT", "jobs": "BIGINT", "measured": "DOUBLE", "predicted": "DOUBLE",
    "explained": "DOUBLE", "service": "DOUBLE", "transfer": "DOUBLE", "note": "VARCHAR",
}  # fmt: skip


def _rows_of_fit(found: Fit) -> list[dict]:
    rows: list[dict] = []
    for term, title in enumerate(TERMS):
        status = found.status(term)
        row = {"says": "coefficient", "term": title, "status": status, "unit": UNITS[title]}
        if status == "identified":
            row |= {"value": found.values[term]}
            if found.low is not None and found.high is not None:
                row |= {"low": found.low[term], "high": found.high[term]}
        elif status == "together":
            row |= {"together": found.partners(term)}
        rows.append(row | {"batches": found.batches, "jobs": found.jobs, "note": found.why_no_interval or None})
    rows.append({
        "says": "fit", "explained": found.explained, "value": found.rest, "unit": "s", "batches": found.batches,
        "jobs": found.jobs,
    })  # fmt: skip
    for each in found.left:
        rows.append({
            "says": "left out", "pattern": each.pattern, "batches": each.batches, "measured": each.measured,
            "predicted": each.predicted, "explained": each.explained, "note": each.note or None,
        })  # fmt: skip
    if found.explained_left is not None:
        rows.append({"says": "left out", "explained": found.explained_left, "note": "all patterns"})
    for kernel in found.kernels:
        rows.append({
            "says": "kernel", "pattern": kernel.pattern, "batches": kernel.batches, "measured": kernel.measured,
            "predicted": kernel.predicted, "note": f"job {kernel.unit}",
        })  # fmt: skip
    for size, count, service, moved in found.sizes:
        rows.append({"says": "size", "bytes": size, "batches": count, "service": service, "transfer": moved,
                     "value": service / moved, "unit": "1"})  # fmt: skip
    return [{"driver": found.driver} | row for row in rows]


def _rows(found: list[Fit], named: list[tuple[str, str, Cost]]) -> list[dict]:
    rows = [row for each in found for row in _rows_of_fit(each)]
    for before, after, each in named:
        low, high = each.difference
        rows.append({
            "driver": after, "says": "change", "term": each.term, "unit": each.unit, "value": (low + high) / 2,
            "low": low, "high": high, "note": f"against {before}",
        })  # fmt: skip
    return rows


# --- the command ---


def add_arguments(parser) -> None:
    parser.add_argument("files", nargs="+", metavar="RECORDS", help="record files, traces (*.uvm), or folders of them")
    parser.add_argument("--emulated", action="store_true", help="include emulated records, whose times mean nothing")
    output.add_arguments(parser)


def run(asked) -> int:
    absent: list[load.Skipped] = []
    samples, left_out, total = sampling.read(asked.files, emulated=asked.emulated, absent=absent)
    found = fits(samples)
    if not found:
        why = f"{absent[0].path}: {absent[0].why}" if absent else left_out[0] if left_out else ""
        where = ", ".join(map(str, asked.files))
        raise Error(
            f"no batch of page faults is in {where}"
            + (f" ({why})" if why else "; name traces (*.uvm) or records with tables of --observe uvm")
        )
    load.say_absent(absent, total, asked)
    named, notes = changes(found)
    shown = output.Table(_COLUMNS, _rows(found, named), _text(found, named, notes, left_out), notes)
    output.write(asked, shown)
    is_known = any(each.status(term) == "identified" for each in found for term in range(len(TERMS)))
    return exits.with_absence(exits.PASSED if is_known else exits.UNDECIDED, absent)
