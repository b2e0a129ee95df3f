"""Ranks the methods of getting a large array to the GPU: `isthmus advise paging RECORDS…`.

The methods are copying it whole, streaming it, reading it in place, the driver's page faults, and paging by the GPU.
Their costs are learnt from paging/pattern records of the machine (docs/paging.md has the sweep). The program is
declared by the amounts that it reads:

    isthmus advise paging DIR --program bytes=4GiB touched=50000
        [page=4KiB use=128 passes=4 room=1GiB order=in_order fetches=120000]
    isthmus advise paging DIR --check
        prediction errors: half of the patterns is predicted from the
        other half, and programs (records of apps/* in placements pinned,
        mapped, paged, …) from all patterns

bytes    bytes of the array, in host memory
page     bytes of a page (4KiB)
touched  number of pages that are read, at least in part (all)
use      bytes that are read of a touched page (the whole page)
passes   how often all of this is read (1)
room     bytes of device memory available for the array (enough)
order    order of the touched pages: scattered, or in_order, which can be streamed if all are touched
fetches  number of pages that arrived when the program was paged, if counted (the minimum)
"""

from __future__ import annotations

import argparse
import math

from isthmus import Error, spelling, units
from isthmus.advise import measured
from isthmus.advise.methods import COUNTS, WAYS, Map, Program, impossible
from isthmus.advise.paging_check import NO_PATTERN, check, learn, multiprocessors_of, points_of, table_of_check
from isthmus.tables import output

_KEYS = ("bytes", "page", "touched", "use", "passes", "room", "fetches")


def declared(words: list[str]) -> Program:
    """Parses `bytes=4GiB touched=50000 …`. Raises Error."""
    given: dict[str, float] = {}
    in_order = False
    for word in words:
        key, _, value = word.partition("=")
        if key == "order" and value in ("in_order", "scattered"):
            in_order = value == "in_order"
            continue
        try:
            if key not in _KEYS or key in given:
                raise ValueError
            given[key] = units.amount(value)
            if given[key] <= 0:
                raise ValueError
        except ValueError:
            raise Error(
                f"{spelling.printable(spelling.shorten(word, 60))!r} is not understood; a program is "
                f"{' '.join(f'{key}=N' for key in _KEYS)} order=in_order|scattered, with N above 0: 3, 2e9 or 4GiB"
            ) from None
    if "bytes" not in given:
        raise Error("a program reads an array; declare bytes=BYTES")
    size, page = given["bytes"], given.get("page", 4096.0)
    pages = math.ceil(size / page)
    touched = given.get("touched", pages)
    if touched > pages:
        raise Error(f"touched={touched:g} pages are more than the array's {pages}; declare fewer, or a smaller page")
    passes, fetches = given.get("passes", 1.0), given.get("fetches")
    if passes < 1:
        raise Error(f"passes is {passes:g}; the minimum is 1")
    if fetches is not None and fetches < touched:
        raise Error(
            f"fetches={fetches:.15g} is less than the {touched:.15g} pages that are touched, and each arrives at least "
            "once; declare the number that was counted, or touched=N"
        )
    room = given.get("room", size)
    # Below 1 if the array does not fit: it cannot be copied whole then, even if all touched pages fit.
    share = 1.0 if room >= size else min(room / (touched * page), 1 - 1e-9)
    return Program(size, page, touched, min(given.get("use", page), page), passes, share, in_order, fetches)


def costs_of(machine: Map) -> list[str]:
    """Returns lines with the cost per unit of each amount."""
    lines = []
    for way, cost in machine.costs.items():
        said = [
            f"{units.quantity(seconds, 's')} {COUNTS[name]}" if name in COUNTS
            else f"{name.replace('_', ' ')} {units.quantity(1 / seconds, 'B/s')}"
            for name, seconds in cost.each.items() if seconds > 0
        ]  # fmt: skip
        lines += output.fold(f"{way}: {', '.join(said)}")
    return lines


_RANKED = {"way": "VARCHAR", "seconds": "DOUBLE", "largest": "VARCHAR", "of_largest": "DOUBLE"}


def table_of(machine: Map, program: Program) -> output.Table:
    """Makes a table of the possible methods and their seconds, the fastest first. Raises Error if none was measured."""
    rows, cells = [], []
    for way, seconds in machine.rank(program):
        parts = machine.parts(program, way)
        largest = max(parts, key=parts.__getitem__)
        rows.append({"way": way, "seconds": seconds, "largest": largest, "of_largest": parts[largest]})
        cells.append(
            [way, units.quantity(seconds, "s"), f"{largest.replace('_', ' ')} {units.quantity(parts[largest], 's')}"]
        )
    if not rows:
        raise Error("no method that this program can use was measured; measure the sweep in docs/paging.md")
    columns = [output.Column("way"), output.Column("expected"), output.Column("most of it", right=False)]
    lines = output.lay_out(columns, cells)
    ranked, reasons = {row["way"] for row in rows}, impossible(program)
    for way in WAYS:
        if way not in ranked:
            lines.append(f"not {way}: {reasons.get(way, 'these records have no pattern that uses it')}")
    return output.Table(_RANKED, rows, "\n".join([*lines, *costs_of(machine)]))


# --- the command ---


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", nargs="+", metavar="KEY=VALUE", help="a declared program")
    what.add_argument("--check", action="store_true", help="compare predictions with measurements")
    measured.add_arguments(parser, "machine, with paging/pattern")


def run(asked: argparse.Namespace) -> int:
    program = None if asked.check else declared(asked.program)  # parsed first, because reading records takes a while
    cases, status = measured.read(asked)
    cases = [case for case in cases if measured.counts(case)]
    if program is None:
        output.write(asked, table_of_check(check(cases)))
        return status
    measured.refuse_several_kinds(cases)
    measured.refuse_unlike_places(cases, ("paging/pattern",))
    points = points_of(cases)
    if not points:
        raise Error(NO_PATTERN)
    output.write(asked, table_of(learn(points, multiprocessors_of(cases)), program))
    return status
