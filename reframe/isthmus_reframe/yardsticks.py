"""Readers of the output of nvbandwidth, BabelStream and the OSU micro-benchmarks, and comparison with our figures.

The formats are those of nvbandwidth 0.8 (`--json`, json_output.cpp), BabelStream 5.0 (`--csv`, main.cpp) and OSU
Micro-Benchmarks 7.5 (tables of osu_bw and osu_latency).
"""

import csv
import json
import math
import typing

#: Largest relative difference between two programs that agree on a figure.
AGREE = 0.01


class YardstickError(ValueError):
    """Error for output that a successful program would not print. Its text is one sentence that states what is
    wrong."""


class Same(typing.NamedTuple):
    """Figure that both programs report."""

    theirs: str  #: name of the figure in the other program
    workload: str
    metric: str
    best: bool = False  #: true if the other program reports its best sample, false if it reports a typical one


def nvbandwidth(text: str) -> dict[str, float]:
    """Returns the B/s of each test case for GPU 0; copies to a peer are those to GPU 1. Raises YardstickError."""
    try:
        cases = json.loads(text[text.index("{") :])["nvbandwidth"]["testcases"]
        found = {case["name"]: _first_cell(case) for case in cases if case["status"] == "Passed"}
        other = [
            f"{case['name']}: {case.get('error') or case['status']}" for case in cases if case["name"] not in found
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise YardstickError(f"nvbandwidth printed no JSON of test cases: {_beginning(text)}") from None
    if other:
        raise YardstickError(f"nvbandwidth gives no figure for {other[0]}")
    return found


def _first_cell(case: dict) -> float:
    """Returns the first value of a matrix, which has N/A for pairs that are not measured."""
    cells = [cell for row in case["bandwidth_matrix"] for cell in row if cell != "N/A"]
    return float(cells[0]) * 1e9


def babelstream(text: str) -> dict[str, float]:
    """Returns the B/s of each kernel in its best run, not counting the first run. Raises YardstickError."""
    lines = text.splitlines()
    head = next((number for number, line in enumerate(lines) if line.startswith("function,")), None)
    if head is None:
        raise YardstickError(f"BabelStream printed no table of functions: {_beginning(text)}")
    try:
        rows = list(csv.DictReader(lines[head:]))
        return {row["function"]: float(row["max_mbytes_per_sec"]) * 1e6 for row in rows}
    except (ValueError, KeyError, TypeError):
        raise YardstickError(f"a row of BabelStream's table is not as expected: {_beginning(lines[-1])}") from None


def osu(text: str) -> dict[str, float]:
    """Returns the "bandwidth" in B/s or the "latency" in s, whichever the text has, for the last size. Raises
    YardstickError."""
    found, kind = {}, None
    scale = {
        "Bandwidth (MB/s)": ("bandwidth", 1e6),
        "Latency (us)": ("latency", 1e-6),
        "Avg Latency(us)": ("latency", 1e-6),
    }
    for line in text.splitlines():
        if line.startswith("# Size"):
            kind = next((value for words, value in scale.items() if words in line), None)
        elif kind and (words := line.split()) and words[0].isdigit():
            try:
                found[kind[0]] = float(words[1]) * kind[1]
            except (ValueError, IndexError):
                raise YardstickError(f"a row of OSU's table is not as expected: {_beginning(line)}") from None
    if not found:
        raise YardstickError(f"OSU's program printed no table of sizes: {_beginning(text)}")
    return found


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    return repr(words[:80]) if words else "nothing"


def apart(ours: float, theirs: list[float]) -> float:
    """Returns the relative difference of our figure from the range of theirs, measured before and after; 0 within it.

    >>> apart(103.0, [99.0, 100.0]), apart(99.5, [99.0, 100.0])
    (0.03, 0.0)
    """
    low, high = min(theirs), max(theirs)
    return round(max(ours / high - 1, 1 - ours / low, 0.0), 9)


def disagreement(same: Same, name: str, ours: float, theirs: list[float]) -> str | None:
    """Returns one sentence on how our figure and theirs disagree, or None if they agree."""
    said = " and ".join(f"{value:.4g}" for value in theirs)
    if not all(math.isfinite(value) and value > 0 for value in [ours, *theirs]):
        return f"{same.metric} of {same.workload} is {ours:.4g}, {name}'s {same.theirs} {said}: no figures to compare"
    if max(theirs) / min(theirs) - 1 > AGREE:
        return f"{name}'s {same.theirs} is {said}, before and after: it does not agree with itself; look for other work"
    share = apart(ours, theirs)
    if share <= AGREE:
        return None
    return (
        f"{same.metric} of {same.workload} is {ours:.4g}, {name}'s {same.theirs} {said} before and after: "
        f"{share:.1%} apart, but only {AGREE:.0%} is allowed"
    )
