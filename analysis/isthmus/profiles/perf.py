"""perf stat: its CSV, as perf-stat(1) has it."""

from __future__ import annotations

import pathlib
import re

from isthmus import spelling
from isthmus.profiles.numerals import Numerals
from isthmus.profiles.profile import Profile, ProfileError, text_of

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
    lines = [
        (number, line.split(";")) for number, line in enumerate(text_of(path).splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]  # fmt: skip
    numerals = Numerals(field for _, fields in lines for i, field in enumerate(fields) if i in (0, 4, 5))
    lacking: list[str] = []
    refused: list[str] = []
    for number, fields in lines:
        try:
            _add_line(profile, fields, numerals, f"{path.name}, line {number}", lacking)
        except ProfileError as error:
            refused.append(str(error))
    if refused and profile.empty() and not lacking:
        raise ProfileError(refused[0])
    profile.notes += [f"left out: {spelling.shorten(why, 300)}" for why in refused]
    if lacking:
        profile.notes.append(f"not supported here: {', '.join(dict.fromkeys(lacking))}")
    return profile


def _add_line(profile: Profile, fields: list[str], numerals: Numerals, where: str, lacking: list[str]) -> None:
    if len(fields) < 3:
        raise ProfileError(f"{where}: no line of `perf stat -x ';'`, or cut short")
    value, unit, event = fields[:3]
    event = re.sub(r":[a-zA-Z]+$", "", event.strip())
    if value.startswith("<"):
        lacking.append(event)
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
        profile.notes.append(f"{event} was counted {share}% of the time only")
