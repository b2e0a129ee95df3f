"""perf stat: its CSV, as perf-stat(1) has it."""

from __future__ import annotations

import pathlib
import re

from isthmus.profiles.profile import Profile, ProfileError, real, text_of

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
    """The CSV of `perf stat -x ';'`: value; unit; event; time it was counted; share of the time; …"""
    profile = Profile("perf")
    lacking = []
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(";")
        if len(fields) < 3:
            raise ProfileError(f"{path.name}, line {number}: no line of `perf stat -x ';'`, or cut short")
        value, unit, event = fields[:3]
        event = re.sub(r":[a-zA-Z]+$", "", event.strip())
        if value.startswith("<"):
            lacking.append(event)
            continue
        if not event:
            continue  # a derived figure on a line of its own
        if unit not in _UNITS:
            raise ProfileError(f"{path.name}: {event} is in {unit!r}, which is not known")
        counted = real(value.replace(",", "."), f"{path.name}, line {number}") * _UNITS[unit]
        called = _CALLED.get(event, event)
        if called == "cpu_page_faults":
            profile.page_faults["cpu"] = profile.page_faults.get("cpu", 0) + round(counted)
        else:
            profile.add_counter(called, counted)
        share = fields[4].strip() if len(fields) > 4 else ""
        if share and real(share, f"{path.name}, line {number}") < 99.9:
            profile.notes.append(f"{event} was counted {share}% of the time only")
    if lacking:
        profile.notes.append(f"not supported here: {', '.join(dict.fromkeys(lacking))}")
    return profile
