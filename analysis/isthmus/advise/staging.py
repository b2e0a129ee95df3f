"""Tests if static properties of a kernel predict that asynchronous copies pay: `isthmus advise staging RECORDS…`.

Each kernel of at least 20 µs with records in direct and in asynchronous staging poses one question: do asynchronous
copies make it at least 3% shorter? Rules answer it from what is known before the asynchronous version is written:
registers, occupancy and launch (from records), flops per byte (declared), and the instructions of the compiled kernel
(scripts/instruction-mix). A rule learns its thresholds from the other workloads. Its hit rate is the mean over all
workloads, each left out in turn and counted once regardless of its number of records.

    isthmus advise staging DIR
        the rules, their hit rates, and the answer
    isthmus advise staging DIR --format csv
        the same with every kernel and its figures
    isthmus advise staging DIR --instructions FILE
        the same, with the output of scripts/instruction-mix from FILE

picked           for each workload, the rule that hits best among the other workloads: shows what following this table
                 would have been worth
time lost        excess of the kernel time over that of the better staging, mean over the workloads
"""

from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
import io
import math
import pathlib
import re
import statistics
from collections.abc import Callable, Sequence

import numpy as np

from isthmus import Error, inputs, spelling
from isthmus.advise import measured
from isthmus.tables import output

PAPERS = "flops per shared access, and shared accesses (the paper's)"  # name of the paper's rule
PAYS = 0.97  # largest ratio of asynchronous to direct time that justifies writing an asynchronous version
RELIABLE = 0.8  # minimum hit rate of a reliable rule, which must also be above that of constant answers
DEFAULT = "instructions.csv"
#: Placements whose kernels read device memory; the first of them that was measured in both stagings is used.
RESIDENT = ("pinned", "pool", "pageable")
LAUNCH = {
    "registers": "registers per thread",
    "occupancy": "occupancy",
    "blocks": "blocks per multiprocessor",
    "flops_per_byte": "flops per byte",
}  # features from records
MIX = {
    "flops_per_shared": "flops per shared access",
    "shared": "shared accesses",
    "global": "global accesses",
    "barriers": "barriers",
    "integer": "integer instructions",
}  # features from machine code; shares of all instructions, except the first
SHORTEST = 20e-6  # seconds; shorter kernels measure only their launch
_RIDGE = 1.0


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Kernel in direct staging, with its static features and the effect of asynchronous copies on its time."""

    workload: str
    where: str  # size or preset, and the axes that distinguish it from the workload's other kernels
    name: str
    features: dict[str, float]
    ratio: float  # kernel time in asynchronous staging divided by that in direct staging

    @property
    def pays(self) -> bool:
        return self.ratio <= PAYS


# --- features from records and machine code ---


def load_mix(path: str | pathlib.Path) -> dict[str, list[dict]]:
    """Loads the rows that scripts/instruction-mix wrote, keyed by kernel name; `arguments` are template arguments.

    Raises Error if the file cannot be read or used.
    """
    path = pathlib.Path(path)
    found: dict[str, list[dict]] = collections.defaultdict(list)
    try:
        reader = csv.DictReader(io.StringIO(inputs.read_small(path).decode(), newline=""), strict=True)
        if len(set(reader.fieldnames or ())) < len(reader.fieldnames or ()):
            raise ValueError  # a column occurs twice
        for row in reader:
            kernel = row.pop("kernel")
            row.pop("architecture")
            numbers: dict = {name: float(value) for name, value in row.items()}
            if not all(map(math.isfinite, numbers.values())) or not numbers["instructions"] > 0:
                raise ValueError
            base, _, arguments = kernel.partition("<")
            found[base].append(numbers | {"arguments": arguments.rstrip(">").split(",")})
            for needed in ("registers", "flops", "shared", "global", "barrier", "integer"):
                numbers[needed]
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (KeyError, ValueError, TypeError, csv.Error):
        raise Error(f"{path}: not written by scripts/instruction-mix, or damaged; generate it again") from None
    return dict(found)


def mix_of(kernel: dict, axes: dict, mix: dict[str, list[dict]]) -> dict[str, float] | None:
    """Returns the mean instruction mix of the compiled variants that may be a record's kernel in direct staging.

    A variant matches if it has the kernel's name, or has the name among its arguments. Of these, the variants with the
    same number of registers are used if there are any; of those, the variants with the same tile if there are any.
    Returns None if no variant matches.
    """
    name = kernel["name"]
    rows = mix.get(name) or mix.get(f"{name}_staged") or [
        row for each in mix.values() for row in each if name.lower() in map(str.lower, row["arguments"])
    ]  # fmt: skip
    rows = [row for row in rows if row["arguments"][0] == "0"]  # 0 is direct staging
    for fits in (
        lambda row: row["registers"] == kernel["registers"],
        lambda row: any(re.fullmatch(rf"(Tile)?{re.escape(str(axes.get('tile')))}u?", a) for a in row["arguments"]),
    ):
        rows = [row for row in rows if fits(row)] or rows
    if not rows:
        return None

    def mean(value: Callable[[dict], float]) -> float:
        return statistics.fmean(map(value, rows))

    return {
        "flops_per_shared": mean(lambda row: row["flops"] / max(row["shared"], 1)),
        "shared": mean(lambda row: row["shared"] / row["instructions"]),
        "global": mean(lambda row: row["global"] / row["instructions"]),
        "barriers": mean(lambda row: row["barrier"] / row["instructions"]),
        "integer": mean(lambda row: row["integer"] / row["instructions"]),
    }


def main_kernel(case: dict, mix: dict[str, list[dict]] | None) -> dict | None:
    """Returns the kernel of a record that takes longest in total, of those in the machine code if there are any.

    Returns None if the record has no kernel with registers and occupancy. A program's other kernels do not stage data.
    """
    own = [k for k in case["kernels"] if k["registers"] is not None and k["occupancy"] is not None]
    if mix is not None:
        own = [k for k in own if mix_of(k, case["axes"], mix)] or own
    return max(own, key=lambda k: (k.get("seconds") or 0) * k.get("launches", 1), default=None)


def features_of(case: dict, kernel: dict, mix: dict[str, list[dict]] | None) -> dict[str, float] | None:
    """Returns a kernel's static features (see LAUNCH and MIX), or None if the machine code lacks this kernel."""
    found = measured.medians(case)
    moved = (kernel.get("bytes_read") or 0) + (kernel.get("bytes_written") or 0)
    intensity = (kernel.get("flops") or 0) / moved if moved else 0.0
    if not moved and found.get("kernel_rate"):
        intensity = found.get("kernel_flop_rate", 0.0) / found["kernel_rate"]
    device = case["devices"][0]
    blocks = math.prod(kernel["grid"]) if kernel.get("grid") else case["axes"].get("blocks", 0)
    # If blocks is 0, the kernel launches as many blocks as fill the device.
    share = min(1.0, blocks / (device.get("multiprocessors") or 1)) if blocks else 1.0
    features = {"registers": kernel["registers"], "occupancy": kernel["occupancy"], "blocks": share}
    features["flops_per_byte"] = intensity
    if mix is None:
        return features
    counted = mix_of(kernel, case["axes"], mix)
    return None if counted is None else features | counted


def kernels_of(cases: list[dict], mix: dict[str, list[dict]] | None) -> tuple[list[Kernel], int]:
    """Returns all kernels that were measured in both stagings, and the number of those that the machine code lacks."""
    groups: dict[tuple, dict[tuple, list[dict]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for case in cases:
        if case["placement"] in RESIDENT and case["staging"] in ("direct", "async") and not case["fallback"]:
            axes = tuple(sorted((name, str(value)) for name, value in case["axes"].items()))
            key = (case["workload"], case["size"], case["preset"], axes)
            groups[key][case["placement"], case["staging"]].append(case)
    found, lacking = [], 0
    for (workload, size, preset, axes), members in groups.items():
        place = next((p for p in RESIDENT if {(p, "direct"), (p, "async")} <= members.keys()), None)
        if place is None:
            continue
        direct = members[place, "direct"]
        seconds = {
            way: statistics.median(measured.medians(case).get("kernel", math.nan) for case in members[place, way])
            for way in ("direct", "async")
        }
        kernel = main_kernel(direct[-1], mix)
        if kernel is None or not seconds["direct"] >= SHORTEST or not seconds["async"] > 0:
            continue
        features = features_of(direct[-1], kernel, mix)
        if features is None:
            lacking += 1
            continue
        shown = {"blocks", "threads", "shared_bytes"} if preset else set()
        more = [f"{name}={value}" for name, value in axes if name in shown and value != "0"]
        where = " ".join([str(preset or size), *more])
        found.append(Kernel(workload, where, kernel["name"], features, seconds["async"] / seconds["direct"]))
    return found, lacking


# --- rules ---

#: Learnt rule: a function that decides from features whether asynchronous copies pay, and words for when they do.
Fitted = tuple[Callable[[dict[str, float]], bool], str]


@dataclasses.dataclass(frozen=True)
class Rule:
    name: str
    fit: Callable[[Sequence[Kernel]], Fitted]


def weights(kernels: Sequence[Kernel]) -> np.ndarray:
    """Returns weights for the kernels such that each workload has a total weight of 1."""
    count = collections.Counter(each.workload for each in kernels)
    return np.array([1 / count[each.workload] for each in kernels])


def _cuts(values: np.ndarray) -> np.ndarray:
    """Returns candidate thresholds: one below all values and one between any two neighbouring values."""
    there = np.unique(values)
    return np.concatenate([[-math.inf], (there[1:] + there[:-1]) / 2])


def _threshold(name: str, words: str) -> Rule:
    """Makes a rule that asynchronous copies pay above, or below, a threshold of one feature."""

    def fit(kernels: Sequence[Kernel]) -> Fitted:
        values = np.array([each.features[name] for each in kernels])
        pays, weight = np.array([each.pays for each in kernels]), weights(kernels)
        cuts = _cuts(values)
        above = values > cuts[:, None]
        wrong = np.stack([((above ^ pays) * weight).sum(axis=1), ((~above ^ pays) * weight).sum(axis=1)])
        side, index = np.unravel_index(int(np.argmin(wrong.round(9))), wrong.shape)
        cut = float(cuts[index])
        if math.isinf(cut):
            return (lambda features: side == 0), "always" if side == 0 else "never"
        return (lambda features: (features[name] > cut) == (side == 0)), f"{'>' if side == 0 else '≤'} {cut:.3g}"

    return Rule(words, fit)


def _both_high(a: str, b: str, name: str) -> Rule:
    """Makes a rule that asynchronous copies pay if two features are high, as in section 5.1.1 of the paper."""

    def fit(kernels: Sequence[Kernel]) -> Fitted:
        first, second = (np.array([each.features[name] for each in kernels]) for name in (a, b))
        pays, weight = np.array([each.pays for each in kernels]), weights(kernels)
        cuts = _cuts(first), _cuts(second)
        above = first > cuts[0][:, None], second > cuts[1][:, None]
        wrong = (((above[0][:, None, :] & above[1][None, :, :]) ^ pays) * weight).sum(axis=2).round(9)
        x, y = np.unravel_index(int(np.argmin(wrong)), wrong.shape)
        low, other = float(cuts[0][x]), float(cuts[1][y])
        words = " and ".join(f"> {cut:.3g}" for cut in (low, other) if not math.isinf(cut)) or "always"
        return (lambda f: f[a] > low and f[b] > other), words

    return Rule(name, fit)


def _linear(names: Sequence[str], words: str) -> Rule:
    """Makes a rule from ridge regression of the ratio's logarithm on the logarithms of all features."""

    def fit(kernels: Sequence[Kernel]) -> Fitted:
        def raw(features: dict[str, float]) -> np.ndarray:
            return np.array([math.log2(1e-3 + features[name]) for name in names])

        points = np.stack([raw(each.features) for each in kernels])
        target = np.array([math.log(each.ratio) for each in kernels])
        weight = weights(kernels)
        middle, spread = points.mean(axis=0), points.std(axis=0)
        spread[spread == 0] = 1
        x = np.column_stack([np.ones(len(kernels)), (points - middle) / spread])
        penalty = np.diag([0.0, *[_RIDGE] * len(names)])
        factors = np.linalg.solve(x.T @ (weight[:, None] * x) + penalty, x.T @ (weight * target))

        def says(features: dict[str, float]) -> bool:
            return float(factors[0] + factors[1:] @ ((raw(features) - middle) / spread)) <= math.log(PAYS)

        most = sorted(zip(np.abs(factors[1:]), names, factors[1:], strict=True), reverse=True)[:2]
        return says, "mostly " + ", ".join(f"{'less' if f > 0 else 'more'} {name}" for _, name, f in most)

    return Rule(words, fit)


ALWAYS = Rule("always asynchronous", lambda kernels: ((lambda features: True), ""))
NEVER = Rule("never asynchronous", lambda kernels: ((lambda features: False), ""))


def rules_for(kernels: Sequence[Kernel]) -> list[Rule]:
    """Returns the rules that use only features that the kernels have."""
    there = kernels[0].features
    names = {name: words for name, words in (LAUNCH | MIX).items() if name in there}
    rules = [_threshold(name, words) for name, words in names.items()]
    if "flops_per_shared" in there:
        rules.append(_both_high("flops_per_shared", "shared", PAPERS))
    return [*rules, _linear(list(names), "linear model of all these")]


# --- hit rates ---


@dataclasses.dataclass(frozen=True)
class Rate:
    """Hit rate and time lost of one rule, as means over the workloads."""

    name: str
    hits: float
    lost: float
    when: str


def _without(kernels: Sequence[Kernel], workload: str) -> list[Kernel]:
    return [each for each in kernels if each.workload != workload]


def _judge(kernels: Sequence[Kernel], says: Callable[[Kernel], bool]) -> tuple[float, float]:
    weight, answers = weights(kernels), [says(each) for each in kernels]
    ratios = np.array([each.ratio for each in kernels])
    hits = np.array([answer == each.pays for answer, each in zip(answers, kernels, strict=True)])
    lost = np.where(answers, ratios, 1.0) / np.minimum(ratios, 1.0) - 1
    return float((hits * weight).sum() / weight.sum()), float((lost * weight).sum() / weight.sum())


def left_out(rule: Rule, kernels: Sequence[Kernel]) -> tuple[float, float]:
    """Returns a rule's hit rate and time lost when it is applied to each workload after learning from the others."""
    learnt = {name: rule.fit(_without(kernels, name))[0] for name in {each.workload for each in kernels}}
    return _judge(kernels, lambda each: learnt[each.workload](each.features))


def picked(kernels: Sequence[Kernel]) -> tuple[float, float]:
    """Returns the hit rate and time lost of using, for each workload, the rule that hits best among the others.

    Constant answers are among the rules.
    """
    learnt = {}
    for name in {each.workload for each in kernels}:
        others = _without(kernels, name)
        best = max([NEVER, ALWAYS, *rules_for(kernels)], key=lambda rule: round(left_out(rule, others)[0], 9))
        learnt[name] = best.fit(others)[0]
    return _judge(kernels, lambda each: learnt[each.workload](each.features))


@dataclasses.dataclass(frozen=True)
class Findings:
    """Hit rates of all rules on a machine's records."""

    machine: str
    kernels: list[Kernel]
    rates: list[Rate]  # constant answers come first
    picked: Rate

    @property
    def workloads(self) -> list[str]:
        return sorted({each.workload for each in self.kernels})

    @property
    def constant(self) -> Rate:
        """Better of the two constant answers."""
        return max(self.rates[:2], key=lambda rate: rate.hits)

    @property
    def reliable(self) -> bool:
        return self.picked.hits >= RELIABLE and self.picked.hits > self.constant.hits


def find(cases: list[dict], mix: dict[str, list[dict]] | None) -> tuple[Findings, int]:
    """Returns the rules' rates, and the number of kernels that the machine code lacks.

    Raises Error if the records are of several kinds of GPU or of too few workloads.
    """
    measured.refuse_several_kinds(cases, "GPU")
    measured.refuse_unlike_places(cases, learnt={"kernel"})
    kernels, lacking = kernels_of(cases, mix)
    if len({each.workload for each in kernels}) < 3:
        raise Error(
            "fewer than three workloads were measured in direct and in asynchronous staging, so no rule can be "
            "tested on a workload that it was not fitted to; run 'microbench/*' and 'apps/*' with --mode pm,pm_async"
        )
    rates = []
    for rule in (ALWAYS, NEVER, *rules_for(kernels)):
        rates.append(Rate(rule.name, *left_out(rule, kernels), rule.fit(kernels)[1]))
    return Findings(cases[0]["devices"][0]["name"], kernels, rates, Rate("picked", *picked(kernels), "")), lacking


def answer(found: Findings) -> str:
    """Answers the question that section 6 of the paper leaves open."""
    best, constant, count = found.picked, found.constant, len(found.workloads)
    figures = f"{best.hits:.0%} of {count} workloads, and “{constant.name}” in {constant.hits:.0%}"
    if found.reliable:
        return f"Yes: the rule picked from the other workloads is right in {figures}."
    return (
        f"No, not reliably: the rule picked from the other workloads is right in {figures}. Measure both; following "
        f"“{constant.name}” loses {constant.lost:.1%} of kernel time, and following the rules loses {best.lost:.1%}."
    )


# --- the command ---

_COLUMNS = {
    "kind": "VARCHAR", "name": "VARCHAR", "workload": "VARCHAR", "case": "VARCHAR", "hits": "DOUBLE", "lost": "DOUBLE",
    "when": "VARCHAR", "ratio": "DOUBLE", **dict.fromkeys([*LAUNCH, *MIX], "DOUBLE"),
}  # fmt: skip


def table_of(found: Findings) -> output.Table:
    """Makes a table of the rules with their rates, and of every kernel."""
    rules = (*found.rates, found.picked)
    rows: list[dict] = [
        {"kind": "rule", "name": rate.name, "hits": rate.hits, "lost": rate.lost, "when": rate.when or None}
        for rate in rules
    ]
    paying = {name: [k.pays for k in found.kernels if k.workload == name] for name in found.workloads}
    some = sum(any(each) for each in paying.values())
    lines = output.fold(
        f"{found.machine}: {len(found.kernels)} kernels of {len(paying)} workloads, in direct and in asynchronous "
        f"staging. Asynchronous copies save {1 - PAYS:.0%} or more of a kernel's time in {some} workloads, in "
        f"{sum(all(each) for each in paying.values())} of them for every kernel."
    )
    columns = [output.Column("pays by", right=False), output.Column("hits"), output.Column("time lost"),
               output.Column("when", right=False)]  # fmt: skip
    cells = [[rate.name, f"{rate.hits:.0%}", f"{rate.lost:.1%}", rate.when] for rate in rules]
    lines += output.lay_out(columns, cells)
    lines += output.fold(
        "hits: share of workloads that the rule gets right after learning from the others; time lost: compared with "
        "the better staging; picked: the rule with the most hits among the other workloads. Accesses, barriers and "
        "integer instructions are shares of all instructions; one in a loop counts ten times as much as one outside."
    )
    if "flops_per_shared" not in found.kernels[0].features:
        lines += output.fold(f"No instruction mix: {DEFAULT} is not in these folders (scripts/instruction-mix).")
    lines += output.fold(answer(found))
    rows += [
        {"kind": "kernel", "name": each.name, "workload": each.workload, "case": each.where, "ratio": each.ratio,
         **each.features} for each in sorted(found.kernels, key=lambda each: (each.workload, each.ratio))
    ]  # fmt: skip
    return output.Table(_COLUMNS, rows, "\n".join(lines))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--instructions", metavar="FILE", help=f"output of scripts/instruction-mix (default: DIR/{DEFAULT})"
    )
    measured.add_arguments(parser, "GPU")


def _mix_for(asked: argparse.Namespace) -> dict[str, list[dict]] | None:
    if asked.instructions:
        return load_mix(asked.instructions)
    there = [path for folder in asked.records if (path := pathlib.Path(folder) / DEFAULT).is_file()]
    if len(there) > 1:
        raise Error(f"{there[0]} and {there[1]} come from two builds; choose one with --instructions")
    return load_mix(there[0]) if there else None


def run(asked: argparse.Namespace) -> int:
    mix = _mix_for(asked)
    cases, status = measured.read(asked, measured.counts)
    if not cases:
        raise Error(
            "these files have no valid record of a single GPU, so nothing can be learnt; run 'microbench/*' and "
            "'apps/*' with --mode pm,pm_async"
        )
    found, lacking = find(cases, mix)
    notes = (
        [f"{spelling.counted(lacking, 'kernel')} left out: the instruction mix has no kernel of that name"]
        if lacking
        else []
    )
    table = table_of(found)
    output.write(asked, dataclasses.replace(table, text="\n".join([*notes, table.text]), notes=notes))
    return status
