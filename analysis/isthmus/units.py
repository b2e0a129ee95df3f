"""Units, amounts and shares as people read and write them."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any

_PREFIXES = [
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
    (1e-12, "p"),
]


_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def amount(text: str) -> float:
    """Parses a number of at least 0, which may be a size such as 16GiB. Raises ValueError for anything else."""
    unit = next((unit for unit in _BYTES if text.endswith(unit)), "")
    value = float(text.removesuffix(unit)) * _BYTES.get(unit, 1)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{text!r} is not an amount")
    return value


def byte_text(count: int) -> str:
    """Returns a number of bytes in the notation of axis values: 64KiB, 3MiB, 1000."""
    names = ["", *_BYTES]
    unit = 0
    while count and count % 1024 == 0 and unit + 1 < len(names):
        count //= 1024
        unit += 1
    return f"{count}{names[unit]}"


def no_margin(value: float) -> str:
    """Returns why a number cannot be a margin, or an empty string if it can.

    A margin is a fraction: 5 is 500%, probably meant as 5%. Options and files share this rule, because a margin of 1
    or more lets everything pass.
    """
    size = abs(value)
    return f"{size:g}% is written {value / 100:g}" if size >= 1 else ""


def share(text: str) -> float:
    """Parses an option's share, above 0 and below 1, written 0.03 or 3%. Raises ArgumentTypeError."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 < value < 1:
            return value
        if not text.endswith("%") and 1 <= value < 100:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a share between 0 and 1; {no_margin(value)} or {value:g}%"
            )
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0 and 1; write 0.03 or 3%")


def count(text: str) -> int:
    """Parses an option's whole number of 1 or more. Raises ArgumentTypeError."""
    if not re.fullmatch("[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def times(text: str) -> float:
    """Parses an option's number of times: 1 or more, and not necessarily whole, since it may be an average.

    Raises ArgumentTypeError.
    """
    try:
        value = amount(text)
        if value >= 1:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")


#: Keyword arguments for options of these types: `add_argument("--step", **units.SHARE, help=…)`.
SHARE: dict[str, Any] = {"type": share, "metavar": "SHARE"}
COUNT: dict[str, Any] = {"type": count, "metavar": "N"}


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """Returns the divisor for showing a value, and the unit after division: (1e9, "GB/s"); (1, "") for unit 1.

    A value that would round up to the next prefix gets that prefix. Seconds have no larger prefix: 12000 s, not 12 ks.
    Counts per second have no smaller prefix: 0.4 /s, not 400 m/s, which would be metres per second.
    """
    if unit == "1":
        return 1, ""
    shown = unit.removeprefix("1") if unit == "1/s" else unit
    for factor, prefix in _PREFIXES:
        allowed = factor <= 1 if unit == "s" else factor >= 1 if unit == "1/s" else True
        if allowed and abs(value) >= factor * 0.9995:
            return factor, f"{prefix}{shown}"
    return 1, shown  # zero, or below every prefix


def quantity(value: float | None, unit: str) -> str:
    """Returns a value with three digits and a prefix: 1.23 ms, 55.4 GB/s, 5.00 M/s.

    Values of unit 1 are bare numbers; None becomes "-". src/harness/program/table.cpp does the same, and
    tests/quantities.csv tests both.
    """
    if value is None:
        return "-"
    factor, shown = scale_of(value, unit)
    scaled = value / factor
    if unit == "1" or abs(scaled) < 0.9995:
        return f"{scaled:.3g} {shown}".rstrip()
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{digits}f} {shown}"


def short(value: float, unit: str) -> str:
    """Returns the label of an axis tick, such as 5 GB/s; a bare number for unit 1."""
    factor, shown = scale_of(value, unit)
    scaled = value / factor
    return f"{scaled:.{6 if unit == '1' or abs(scaled) >= 1000 else 3}g} {shown}".rstrip()
