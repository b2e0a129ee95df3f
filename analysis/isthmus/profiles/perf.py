"""Reader of perf stat's CSV, which perf-stat(1) describes."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

from isthmus.profiles import admissions
from isthmus.profiles.numerals import Numerals
from isthmus.profiles.profile import MOST_NAMES, Profile, ProfileError, lines_of

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
_LETTERS = "[ukhGHIpPSDWebR]+"  # perf-list(1), "Event modifiers"
#: Events with modifiers: cycles:u and cpu_core/cycles:u/, as well as cpu_core/cycles/u.
_MODIFIER = re.compile(rf"(?P<name>.+):(?P<letters>{_LETTERS})(?P<end>/?)")
_MODIFIER_OF_UNIT = re.compile(rf"(?P<name>[^/]+/.*)(?P<end>/)(?P<letters>{_LETTERS})")
#: Modifiers that restrict counting to a mode; without any of them, all modes are counted.
_MODES = {"u": "in user mode", "k": "in the kernel", "h": "in the hypervisor", "G": "in guests", "H": "on the host"}
_BEGIN = "# started on"  # first line that perf writes for each run
_UNITS = {"": 1, "msec": 1e-3, "sec": 1, "usec": 1e-6, "ns": 1e-9}


def read(path: pathlib.Path) -> Profile:
    """Reads the CSV of `perf stat -x ';'`: value; unit; event; time for which it was counted; share of the time; …

    With `-r`, the deviation between runs comes before the time. An unreadable line affects only its own figure, and a
    note names it. Raises ProfileError if no line can be read.
    """
    profile = Profile("perf")
    rows = _lines(path, profile)
    numerals = Numerals(field for _, fields in rows for i, field in enumerate(fields) if i in (0, 4, 5, 6))
    lacking: dict[str, dict[str, None]] = {}
    parts: dict[str, list[str]] = {}
    seen: dict[str, list[set[str]]] = {}
    means: list[str] = []
    first: str | None = None
    for number, fields in _lines(path, profile):
        if len(fields) < 3 and admissions.admits(fields[0]):
            admissions.say(profile, path, fields[0])
            continue
        deviation = fields.pop(3) if _has_deviation(fields) else None
        try:
            _add_line(profile, fields, numerals, f"{path.name}, line {number}", lacking, parts, seen)
            if deviation is not None and not fields[0].startswith("<"):
                means.append(f"{fields[2].strip()} ({deviation.strip()})")
        except _Unknown as error:
            first = first or str(error)
            profile.note(f"left out: {error}")
        except ProfileError as error:
            first = first or str(error)
            profile.lack(f"left out: {error}")
    if first and profile.empty() and not lacking:
        raise ProfileError(first)
    for why, names in lacking.items():
        profile.note(f"{why}: {', '.join(names)}")
    if means:
        profile.note(f"means of several runs (perf stat -r), with their deviation: {', '.join(dict.fromkeys(means))}")
    for where, events in parts.items():
        profile.limit(f"counted only {where}, not in all modes: {', '.join(dict.fromkeys(events))}; "
                      "kernel.perf_event_paranoid limits what perf may count")  # fmt: skip
    return profile


class _Unknown(ProfileError):
    """Error for a line that is not used for any figure."""


def _lines(path: pathlib.Path, profile: Profile) -> Iterator[tuple[int, list[str]]]:
    """Yields the number and fields of each line that is not a comment, and stops at a second run."""
    begun = False
    for number, line in enumerate(lines_of(path, profile), 1):
        if line.startswith(_BEGIN):
            if begun:
                profile.lack(f"{path.name} has a second run, which is not read, as perf stat --append writes it; write "
                             "each run to its own file")  # fmt: skip
                return
            begun = True
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip("\r\n").split(";")


def _has_deviation(fields: list[str]) -> bool:
    return len(fields) > 3 and fields[3].rstrip().endswith("%")


def _without_modifier(event: str) -> tuple[str, str]:
    """Returns an event without its modifiers, and the letters of these modifiers."""
    found = _MODIFIER.fullmatch(event) or _MODIFIER_OF_UNIT.fullmatch(event)
    return (found["name"] + found["end"], found["letters"]) if found else (event, "")


def _lack(event: str, value: str, lacking: dict[str, dict[str, None]]) -> None:
    """Adds an event that was not counted to `lacking`, keyed by the reason."""
    why = (
        "not supported here"
        if "support" in value
        else "never counted, because the run was too short or other events were counted"
    )
    events = lacking.setdefault(why, {})
    if len(events) < MOST_NAMES:
        events[event] = None


def _check_number(called: str, seen: dict[str, list[set[str]]], where: str) -> None:
    if called not in seen and len(seen) >= MOST_NAMES:
        raise _Unknown(f"{where}: events beyond the first {MOST_NAMES} are not counted")


def _add_line(profile: Profile, fields: list[str], numerals: Numerals, where: str,
              lacking: dict[str, dict[str, None]], parts: dict[str, list[str]],
              seen: dict[str, list[set[str]]]) -> None:  # fmt: skip
    """Adds the figure of a line to the profile.

    `lacking` contains the events that were not counted, keyed by reason. `parts` contains the events that were counted
    only in some modes, keyed by these modes. `seen` contains the modes in which each figure was counted so far.
    """
    if len(fields) < 3:
        raise ProfileError(f"{where}: not a line of `perf stat -x ';'`, or cut short")
    value, unit, event = fields[:3]
    event = event.strip()
    event, letters = _without_modifier(event)
    if value.startswith("<"):
        _lack(event, value, lacking)
        return
    if not event and value.strip():
        raise ProfileError(f"{where}: a time or a processor comes before the figures, as perf stat -I and -A write "
                           "them; run it without these options")  # fmt: skip
    if not event:
        return  # a separate line with a figure that perf derives from others
    if unit not in _UNITS:
        raise _Unknown(f"{where}: {event} is in {unit!r}, an unknown unit")
    modes = [_MODES[letter] for letter in letters if letter in _MODES]
    time = fields[3].strip() if len(fields) > 3 else ""
    if time and not time.isdecimal():
        raise ProfileError(f"{where}: {time!r} is where the time for which {event} was counted should be, as perf "
                           "stat -G writes groups; run it without -G")  # fmt: skip
    called = _CALLED.get(event, event)
    _check_number(called, seen, where)
    counted = numerals.number(value, f"{where} ({event})", whole=not unit) * _UNITS[unit]
    earlier = seen.setdefault(called, [])
    if any(not modes or not other or other & set(modes) for other in earlier):
        raise ProfileError(
            f"{where}: {event} was counted before in this file; write each run to its own file, and "
            "request each event once"
        )
    earlier.append(set(modes))
    if modes:
        parts.setdefault(" and ".join(modes), []).append(event)
    if called == "cpu_page_faults":
        profile.page_faults["cpu"] = profile.page_faults.get("cpu", 0) + round(counted)
        figure = ("page_faults", "cpu")
    else:
        profile.add_counter(called, counted)
        figure = ("counters", called)
    profile.measure(" ".join([called, *sorted(modes)]), *figure)
    share = fields[4].strip() if len(fields) > 4 else ""
    if share and numerals.number(share, where) < 99.9:
        profile.limit(f"{event} was counted for only {share}% of the time; its figure is perf's estimate")
