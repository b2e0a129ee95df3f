"""Amounts and shares as people write and read them."""

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
    """A number of at least 0, of bytes also as 16GiB. Raises ValueError."""
    unit = next((unit for unit in _BYTES if text.endswith(unit)), "")
    value = float(text.removesuffix(unit)) * _BYTES.get(unit, 1)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{text!r} is no amount")
    return value


def byte_text(count: int) -> str:
    """A number of bytes as an axis has it: 64KiB, 3MiB, 1000."""
    names = ["", *_BYTES]
    unit = 0
    while count and count % 1024 == 0 and unit + 1 < len(names):
        count //= 1024
        unit += 1
    return f"{count}{names[unit]}"


def no_margin(value: float) -> str:
    """Why a number is no margin, which is a fraction: 5 is meant as 5%, and is 500%; empty where it can be one.

    Options and files share this rule: a margin of 1 or more lets everything pass.
    """
    size = abs(value)
    return f"{size:g}% is written {value / 100:g}" if size >= 1 else ""


def share(text: str) -> float:
    """The type of an option that takes a share above 0 and below 1: 0.03 or 3%."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 < value < 1:
            return value
        if not text.endswith("%") and 1 <= value < 100:
            raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1; {no_margin(value)} or {value:g}%")
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1; write 0.03 or 3%")


def count(text: str) -> int:
    """The type of an option that takes a number of things: 1 or more."""
    if not re.fullmatch("[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def times(text: str) -> float:
    """The type of an option that says how often: 1 or more, also 2.5 on average."""
    try:
        value = amount(text)
        if value >= 1:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")


#: What options with these types have in common: `add_argument("--step", **units.SHARE, help=…)`.
SHARE: dict[str, Any] = {"type": share, "metavar": "SHARE"}
COUNT: dict[str, Any] = {"type": count, "metavar": "N"}


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """What a value is divided by to be shown, and the unit that it then has: (1e9, "GB/s"); of unit 1 none, (1, "").

    What would round up to the next prefix counts as that. Seconds have no multiples: 12000 s, not 12 ks. What is
    counted by the second has no parts: 0.4 /s, not 400 m/s, which are metres per second.
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
    """Three digits and a prefix, as isthmus-bench spells them, too: 1.23 ms, 55.4 GB/s, 5.00 M/s; a bare number of
    unit 1; "-" for None. src/harness/program/table.cpp has the same; tests/quantities.csv is held to both."""
    if value is None:
        return "-"
    factor, shown = scale_of(value, unit)
    scaled = value / factor
    if unit == "1" or abs(scaled) < 0.9995:
        return f"{scaled:.3g} {shown}".rstrip()
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{digits}f} {shown}"


def short(value: float, unit: str) -> str:
    """A round value for the tick of an axis: 5 GB/s; a bare number of unit 1."""
    factor, shown = scale_of(value, unit)
    scaled = value / factor
    return f"{scaled:.{6 if unit == '1' or abs(scaled) >= 1000 else 3}g} {shown}".rstrip()
