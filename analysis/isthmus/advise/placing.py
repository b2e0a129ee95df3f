"""Ranks placements and stagings for a program's buffers by time: `isthmus advise placement RECORDS…`.

The machine is described by its records: copies, prefetches and page faults (transfer/*), allocation (driver/alloc and
alloc/*), the best rates of memory and arithmetic (reference/*), and the phases of the microbenchmarks. The program is
declared, or taken from one of its records.

    isthmus advise placement DIR --program in=4GiB out=4GiB flops=2.1e9
        [touched=8GiB flops_per_shared=1 reuse=1 passes=10 allocations=3
        buffers=4GiB blocks=0 order=random]
    isthmus advise placement DIR --program FILE.toml
        the same keys in a file
    isthmus advise placement DIR --like RECORD.jsonl
        the program of the first record in this file that has phases
    isthmus advise placement DIR --check
        prediction errors: every microbenchmark is predicted from the others

in, out          bytes to the GPU and back in each pass
touched          bytes that the kernel reads and writes (in + out)
flops            number of floating-point operations of one kernel
flops_per_shared flops per access to shared memory
reuse            number of kernels for each transfer
passes           number of transfers for each allocation
allocations      number of buffers that are allocated and freed
buffers          total bytes of these buffers (in + out)
blocks           number of thread blocks of the kernel; 0 means as many as fill the device
order            order of the kernel's accesses: sequential, or random within a tile
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics

from isthmus import Error, spelling, units
from isthmus.advise import measured
from isthmus.advise.footprint import declared, footprint_of, of_program
from isthmus.advise.machine import USED, Machine, Prediction
from isthmus.advise.measured import medians
from isthmus.advise.placing_check import Check, check, table_of_check
from isthmus.records import load
from isthmus.tables import output


def _best(ranked: list[Prediction]) -> list[Prediction]:
    """Returns the best staging of each placement."""
    best: dict[str, Prediction] = {}
    for each in ranked:
        best.setdefault(each.placement, each)
    return list(best.values())


def reasons(machine: Machine, ranked: list[Prediction]) -> list[str]:
    """Returns sentences that explain the ranking."""
    best = ranked[0]
    footprint = best.footprint
    parts = {
        "allocating, touching and freeing": best.allocation,
        "copies": footprint.passes * (best.phases["in"] + best.phases["out"]),
        "kernels": footprint.passes * footprint.reuse * best.phases["kernel"],
    }
    largest = max(parts, key=parts.__getitem__)
    lines = [f"{best.placement} with {best.staging} staging: {parts[largest] / sum(parts.values()):.0%} is {largest}"]
    kernels = [
        f"{p.staging} {units.quantity(p.phases['kernel'], 's')}" for p in ranked if p.placement == best.placement
    ]
    lines.append(f"kernel by staging, {best.placement}: {', '.join(kernels)}")
    by = {each.placement: each for each in _best(ranked)}
    if {"pinned", "pageable"} <= by.keys():
        saved = sum(by["pageable"].phases[x] - by["pinned"].phases[x] for x in ("in", "out"))
        locking = by["pinned"].allocation - by["pageable"].allocation
        if saved > 0 and locking > 0:
            lines.append(
                f"page-locking costs {units.quantity(locking, 's')} more than plain memory and saves "
                f"{units.quantity(saved, 's')} per pass: it pays off from {math.ceil(locking / saved)} passes on"
            )
    seconds = [machine.kernel(footprint, staging) for staging in ("async", "direct")]
    if {"async", "direct"} <= set(machine.stagings(footprint)) and seconds[0] and seconds[1]:
        ratio = seconds[0] / seconds[1]
        alike = [kernel for kernel in machine.kernels if kernel.full == machine.full(footprint)]
        a, b = ({k.workload: k.slowdown for k in alike if k.staging == staging} for staging in ("async", "direct"))
        seen = [a[w] / b[w] for w in a if w in b]
        lines.append(
            f"asynchronous staging: measured kernels took {min(seen):.2f} to {max(seen):.2f} of direct staging's time, "
            f"and similar kernels {ratio:.2f}"
        )
    if footprint.buffers > machine.memory:
        lines.append("the buffers do not fit in device memory, so only placements that need less are listed")
    return lines


_RANKED = {
    "placement": "VARCHAR", "staging": "VARCHAR", "total": "DOUBLE", "allocation": "DOUBLE", "in": "DOUBLE",
    "kernel": "DOUBLE", "out": "DOUBLE", "checked_records": "BIGINT", "median_error": "DOUBLE",
}  # fmt: skip


def _ranked_row(each: Prediction, found: Check | None) -> dict:
    misses = [m for m in found.misses if m.what == "wall" and m.placement == each.placement] if found else []
    off = statistics.median(abs(miss.relative) for miss in misses) if misses else None
    return {"placement": each.placement, "staging": each.staging, "total": each.total, "allocation": each.allocation,
            "in": each.phases["in"], "kernel": each.phases["kernel"], "out": each.phases["out"],
            "checked_records": len(misses), "median_error": off}  # fmt: skip


def table_of(machine: Machine, ranked: list[Prediction], found: Check | None, head: str = "") -> output.Table:
    """Makes the table of the ranking in seconds, the fastest first. Raises Error if nothing can be predicted."""
    if not ranked:
        raise Error(
            "nothing can be predicted: no placement has records that show how its data moves, or nothing fits; measure "
            "transfer/*"
        )
    shown = _best(ranked)
    rows = [_ranked_row(each, found) for each in shown]
    columns = [output.Column("placement"), output.Column("staging", right=False), output.Column("total"),
               output.Column("±"), *(output.Column(name) for name in ("allocate", "in", "kernel", "out")),
               output.Column("checked by")]  # fmt: skip
    cells = []
    for row in rows:
        off = "?" if row["median_error"] is None else f"{row['median_error']:.0%}"
        seconds = [
            units.quantity(row[name], "s") if row[name] else "-" for name in ("allocation", "in", "kernel", "out")
        ]
        known = spelling.counted(row["checked_records"], "record") if row["checked_records"] else "none"
        cells.append([row["placement"], row["staging"], units.quantity(row["total"], "s"), off, *seconds, known])
    f = shown[0].footprint
    lines = [head] if head else []
    lines += output.fold(f"{machine.name}: expected seconds, fastest first")
    lines += output.lay_out(columns, cells)
    lines += output.fold(
        "±: median error when each of that placement's records is predicted from the others; ?: it has no record, so "
        "only transfers and calls are known."
    )
    lines += output.fold(f"total: {f.passes:g} passes of in, {f.reuse:g} kernels and out, plus one allocation")
    lines += [line for reason in reasons(machine, ranked) for line in output.fold(reason)]
    return output.Table(_RANKED, rows, "\n".join(lines))


# --- the command --------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--program", nargs="+", metavar=("K=V", "…"), help="a declared program, or a TOML file that declares one"
    )
    what.add_argument("--like", metavar="FILE", help="the program of the first record of this file that has phases")
    what.add_argument("--check", action="store_true", help="compare predictions with measurements")
    parser.add_argument("--passes", type=units.times, metavar="N", help="with --like: transfers for each allocation")
    measured.add_arguments(parser, "machine")


def run(asked: argparse.Namespace) -> int:
    if asked.passes and not asked.like:
        raise Error("--passes changes only the program of --like; declare passes=N with --program")
    program = declared(asked.program) if asked.program else None  # parsed first, because reading records takes a while
    cases, status = measured.read(asked)
    machine = Machine(cases)
    measured.refuse_unlike_places(cases, USED)
    found = check(cases)
    if asked.check:
        output.write(asked, table_of_check(found))
        return status
    kernels, head = None, ""
    if program is not None:
        footprint = program
    else:
        like = next((case for case in load.read(asked.like) if of_program(case)), None)
        if like is None:
            raise Error(f"{asked.like}: no record has the phases of a program")
        if unlike := measured.unlike([*cases, like]):
            field, values = unlike
            raise Error(
                f"{asked.like}: {field} differs from that of the machine ({' and '.join(values[:4])}), so its "
                "kernel's time does not apply; name a record of this machine, or declare the program with --program"
            )
        apart = measured.farthest([*filter(measured.counts, cases), like], {"kernel"})
        if apart and apart.factor >= measured.REFUSED:
            raise Error(
                f"{asked.like}: {apart.words}, so its kernel's time does not apply to this machine; name a record of "
                "this machine, or declare the program with --program"
            )
        footprint, known = footprint_of(like), medians(like)["kernel"]
        if asked.passes:
            footprint = dataclasses.replace(footprint, passes=asked.passes)
        of = machine.kernel(footprint, like["staging"])
        estimates = {staging: machine.kernel(footprint, staging) for staging in machine.stagings(footprint)}
        kernels = {staging: known * each / of for staging, each in estimates.items() if each} if of else None
        head = f"like {spelling.printable(like['workload'])} {like['size'] or ''}: kernel {units.quantity(known, 's')}"
    output.write(asked, table_of(machine, machine.rank(footprint, kernels), found, head))
    return status
