"""perf stat: its CSV, as perf-stat(1) has it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

from isthmus.profiles.numerals import Numerals
from isthmus.profiles.profile import Profile, ProfileError, lines_of

_CALLED = {
    "page-faults": "cpu_page_faults", "faults": "cpu_page_faults", "minor-faults": "cpu_minor_faults",
    "major-faults": "cpu_major_faults", "dTLB-load-misses": "tlb_misses", "instructions": "instructions",
    "cycles": "cycles", "LLC-load-misses": "llc_misses", "context-switches": "context_switches",
    "cpu-migrations": "cpu_migrations", "task-clock": "cpu_seconds",
}  # fmt: skip
EVENTS = (
    "page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations", "task-clock",
    "dTLB-load-misses", "instructions", "cycles", "LLC-load-misses",
)  # fmt: skip
_UNITS = {"": 1, "msec": 1e-3, "sec": 1, "usec": 1e-6, "ns": 1e-9}


def read(path: pathlib.Path) -> Profile:
    """The CSV of `perf stat -x ';'`: value; unit; event; time it was counted; share of the time; …

    A line that cannot be read costs its own figure only: a note says which. Raises ProfileError where none can be read.
    """
    profile = Profile("perf")
    numerals = Numerals(field for _, fields in _lines(path) for i, field in enumerate(fields) if i in (0, 4, 5))
    lacking: dict[str, None] = {}
    first: str | None = None
    for number, fields in _lines(path):
        try:
            _add_line(profile, fields, numerals, f"{path.name}, line {number}", lacking)
        except ProfileError as error:
            first = first or str(error)
            profile.note(f"left out: {error}")
    if first and profile.empty() and not lacking:
        raise ProfileError(first)
    if lacking:
        profile.notes.append(f"not supported here: {', '.join(lacking)}")
    return profile


def _lines(path: pathlib.Path) -> Iterator[tuple[int, list[str]]]:
    """Numbers and fields of lines that are no comment."""
    for number, line in enumerate(lines_of(path), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip("\r\n").split(";")


def _add_line(profile: Profile, fields: list[str], numerals: Numerals, where: str, lacking: dict[str, None]) -> None:
    if len(fields) < 3:
        raise ProfileError(f"{where}: no line of `perf stat -x ';'`, or cut short")
    value, unit, event = fields[:3]
    event = re.sub(r":[a-zA-Z]+$", "", event.strip())
    if value.startswith("<"):
        lacking[event] = None
        return
    if not event:
        return  # a figure that perf derives from others, on a line of its own
    if unit not in _UNITS:
        raise ProfileError(f"{where}: {event} is in {unit!r}, which is not known")
    counted = numerals.number(value, f"{where} ({event})", whole=not unit) * _UNITS[unit]
    called = _CALLED.get(event, event)
    if called == "cpu_page_faults":
        profile.page_faults["cpu"] = profile.page_faults.get("cpu", 0) + round(counted)
    else:
        profile.add_counter(called, counted)
    share = fields[4].strip() if len(fields) > 4 else ""
    if share and numerals.number(share, where) < 99.9:
        profile.note(f"{event} was counted {share}% of the time only")
