"""Nodes and GPUs that are worse than their equals, with the reason for each, and a list that a scheduler can take.

Equal are those with the same CPU and GPU model in the same partition. A node counts with the median of its jobs, and
is an outlier in a metric when it is worse than the median of its equals by an absolute floor (3%), and by more
standard deviations between them (robust, from the MAD) than chance gives to any node in any metric in one session of
twenty; or when it is worse by 20% and 5 such deviations.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from statistics import NormalDist

import numpy as np

from isthmus import cli, records, regress, series, statistics, store, table, units

FLOOR = 0.03
GROSS, GROSS_Z = 0.20, 5.0
FEWEST = 4  # equals, the node itself included


@dataclasses.dataclass
class Reason:
    """Why one node, or one GPU of it, is an outlier."""

    node: str
    gpus: str
    label: str
    unit: str
    value: float
    usual: float  # the median of the equals
    worse: float  # share
    z: float
    jobs: int
    equals: int


def threshold(equals: int, tests: int) -> float:
    """Standard deviations, as the MAD of so many equals tells them, that chance passes in 5% of sessions of `tests`.

    The MAD is worth 37% as many values as a standard deviation, so its quotients follow Student's t of that many
    degrees; t from the normal quantile by Wallace's approximation (1959).
    """
    degrees = max(0.3675 * (equals - 1), 0.5)
    z = NormalDist().inv_cdf(1 - statistics.SESSION / max(tests, 1))
    exponent = (z * (8 * degrees + 3) / (8 * degrees + 1)) ** 2 / degrees
    return math.sqrt(degrees * math.expm1(min(exponent, 700)))


def _usual(values: np.ndarray) -> tuple[float, float]:
    middle = float(np.median(values))
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def outliers(opened: store.Store, *, floor: float = FLOOR) -> tuple[list[Reason], int, int]:
    """Reasons, the worst first; how many nodes and how many series were compared."""
    names = store.SERIES_COLUMNS
    rows = opened.sql(
        f"SELECT {names}, device, cpu, partition, system, node, gpus, median(value), count(*), any_value(better), "
        f"any_value(mode) FROM (SELECT {names}, device, cpu, partition, system, node, gpus, job, any_value(better) AS "
        f"better, any_value(mode) AS mode, median(median) AS value FROM measurements WHERE metric IS NOT NULL AND "
        f"{series.COUNTS} GROUP BY ALL) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    width = len(store.SERIES)
    groups: dict[tuple, list[tuple]] = {}
    modes = {}
    for row in rows:
        *_, better, mode = row
        if better is not None:
            groups.setdefault(row[: width + 4], []).append(row[width + 4 :])
            modes[row[:width]] = mode
    labels = series.labels([series.Series(key, None, mode, {}) for key, mode in modes.items()])
    groups = {key: found for key, found in groups.items() if len(found) >= FEWEST}
    tests = sum(map(len, groups.values()))
    reasons = []
    for key, found in groups.items():
        values = np.array([row[2] for row in found], float)
        if not (values > 0).all():
            continue
        sign = 1 if found[0][4] == "higher" else -1
        logs = sign * np.log(values)
        middle, deviation = _usual(logs)
        limit = threshold(len(found), tests)
        for row, value in zip(found, logs):
            worse = 1 - math.exp(value - middle)
            z = (middle - value) / max(deviation, 1e-9)
            if worse >= floor and (z >= limit or (worse >= GROSS and z >= GROSS_Z)):
                node, gpus, figure, jobs = row[:4]
                usual = math.exp(sign * middle)
                reasons.append(
                    Reason(node, gpus, labels[key[:width]], dict(zip(store.SERIES, key))["unit"], figure, usual, worse,
                           z, jobs, len(found))
                )  # fmt: skip
    reasons.sort(key=lambda reason: (-reason.worse, reason.node, reason.gpus, reason.label))
    return reasons, len({row[width + 4] for row in rows}), len(groups)


def names(reasons: list[Reason]) -> list[str]:
    """Names of the nodes as a scheduler's command takes them; what is no host's name is left out, aloud."""
    found = sorted({reason.node for reason in reasons})
    good = [name for name in found if records.is_node_name(name)]
    for name in set(found) - set(good):
        print(f"{records.printable(name)!r} is no name for a scheduler; left out of the list", file=sys.stderr)
    return good


_SHOWN = 5


def text(reasons: list[Reason], nodes: int, metrics: int) -> str:
    lines = []
    for node in dict.fromkeys(reason.node for reason in reasons):
        own = [reason for reason in reasons if reason.node == node]
        lines.append(f"{records.printable(node)}: worse than its equals in {len(own)} series")
        for reason in own[:_SHOWN]:
            gpu = f" on {records.printable(reason.gpus)}" if reason.gpus else ""
            once = ", seen in one job only" if reason.jobs == 1 else ""
            lines.append(
                f"  {reason.worse:.1%} worse ({table.quantity(reason.value, reason.unit)}, usual "
                f"{table.quantity(reason.usual, reason.unit)}, z={reason.z:.1f} among {reason.equals}{once}): "
                f"{reason.label}{gpu}"
            )
        if len(own) > _SHOWN:
            lines.append(f"  … and {len(own) - _SHOWN} more")
    lines.append(
        f"{len({reason.node for reason in reasons})} of {nodes} nodes are outliers; "
        f"{metrics} series with {FEWEST} equals or more"
    )
    return "\n".join(lines)


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus nodes results --workload 'transfer/*'\n"
        "  isthmus nodes results --list | xargs -r -I{} scontrol update state=drain reason=isthmus nodename={}\n\n"
        "exit codes: 0 no outlier; 1 some; 2 bad input; 3 no series has as many as 4 equal nodes or GPUs"
    )
    store.add_arguments(parser)
    parser.add_argument(
        "--floor", type=units.share, default=FLOOR, metavar="SHARE", help="smallest that is told (0.03)"
    )
    parser.add_argument("--list", action="store_true", help="only the nodes' names, separated by commas")


def run(asked) -> int:
    with store.from_arguments(asked, wanted=regress.WANTED) as opened:
        reasons, nodes, metrics = outliers(opened, floor=asked.floor)
    if asked.list:
        if found := names(reasons):  # nothing, not an empty line: a command must not be given an empty name
            print(",".join(found))
    else:
        print(text(reasons, nodes, metrics))
    if not metrics:
        return cli.UNDECIDED
    return cli.FOUND if reasons else cli.PASSED
