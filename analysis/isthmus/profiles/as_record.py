"""Conversion of a profile to metrics and the field `profile` of a record; docs/profiling.md states their sources."""

from __future__ import annotations

import dataclasses

from isthmus import spelling
from isthmus.profiles.profile import FURTHER, PROFILED, Moved, Profile, busy


def overlap(profile: Profile) -> float | None:
    """Returns the time that overlapped as a share of the time that could overlap; None if unknown.

    0 means that nothing overlapped; 1 means that everything overlapped with the kind of work that took longest.
    """
    parts = [*profile.busy, *([busy(profile.spans)] if profile.spans else [])]
    hidden = sum(added - any_ for any_, added, _ in parts)
    could = sum(added - longest for _, added, longest in parts)
    return hidden / could if could > 0 else None


def figures(profile: Profile) -> dict[str, tuple[float, str]]:
    """Returns the figures that become metrics, as (value, unit) keyed by name without prefix.

    Counts have the unit 1 or B.
    """
    registers = [kernel.registers for kernel in profile.kernels.values() if kernel.registers is not None]
    seconds = sum(kernel.seconds for kernel in profile.kernels.values()) or None
    graphs = profile.counters.get("graph_seconds")
    found: dict[str, tuple[float | None, str]] = {
        "kernels": (sum(kernel.count for kernel in profile.kernels.values()) or None, "1"),
        "registers": (max(registers, default=None), "1"),
        "kernel_time": (seconds, "s"),
        "graph_time": (graphs, "s"),
        "api_calls": (sum(profile.api_calls.values()) or None, "1"),
        "overlap": (overlap(profile), "1"),
    }
    for kind, moved in profile.copies.items():
        found[f"{kind}_copies"] = (moved.count, "1")
        found[f"{kind}_bytes"] = (moved.whole_bytes, "B")
    for kind, moved in profile.migrations.items():
        found[f"migrated_{kind}_bytes"] = (moved.whole_bytes, "B")
    for who, count in profile.page_faults.items():
        found[f"{who}_page_faults"] = (count, "1")
    found |= _counted(profile.counters, seconds)
    return {name: (float(value), unit) for name, (value, unit) in found.items() if value is not None}


def _counted(counters: dict[str, float], seconds: float | None) -> dict[str, tuple[float | None, str]]:
    """Returns counters and ratios of counters; `seconds` is the time of all kernels."""
    found: dict[str, tuple[float | None, str]] = {
        name: (counters[name], "B" if name.endswith("_bytes") else "1") for name in COUNTED if name in counters
    }
    accesses, flops, cycles = (counters.get(name) for name in ("shared_accesses", "flops", "cycles"))
    if accesses and flops is not None:
        found["flops_per_shared_access"] = (flops / accesses, "1")
    if accesses is not None and cycles:
        found["shared_accesses_per_cycle"] = (accesses / cycles, "1")
    for name in ("stall_memory_dependency", "stall_pipe_busy", "stall_barrier", "stall_shared_memory"):
        found[name] = (counters.get(name), "1")
    loaded, stored = (counters.get(f"global_{way}_bytes") for way in ("load", "store"))
    if seconds and loaded is not None and stored is not None:
        found["global_rate"] = ((loaded + stored) / seconds, "B/s")
    return found


#: Counters that are copied unchanged into a record.
COUNTED = (
    "instructions", "control_instructions", "memory_instructions", "arithmetic_instructions", "fp32_instructions",
    "fp64_instructions", "integer_instructions", "flops", "shared_accesses", "global_load_bytes", "global_store_bytes",
    "dram_read_bytes", "dram_write_bytes", "l2_sectors", "tlb_misses", "llc_misses", "cpu_minor_faults",
    "cpu_major_faults", "graph_launches",
)  # fmt: skip
#: Figures of a profile that depend on time or on other load, and therefore have no reference.
_UNHELD = ("overlap", "shared_accesses_per_cycle", "cost")


def is_held(name: str, unit: str) -> bool:
    """Returns whether a metric of a profiled run may have a reference, because it is a count or a ratio of counts."""
    plain = name.removeprefix(PROFILED)
    counted = unit in ("1", "B") and not plain.startswith("stall_") and plain not in _UNHELD
    return name.startswith(PROFILED) and counted


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.9g}")


def longest(phases: dict[str, Moved], most: int) -> dict[str, Moved]:
    """Returns the `most` longest phases; all others are added up as FURTHER."""
    in_order = sorted(phases.items(), key=lambda item: (item[0] == FURTHER, -item[1].seconds, item[0]))
    found = dict(in_order[:most])
    for _, moved in in_order[most:]:
        found.setdefault(FURTHER, Moved()).add(None, moved.seconds, moved.count)
    return found


def _most_frequent(calls: dict[str, int]) -> dict[str, int]:
    """Returns the NAMES most frequent calls; all others are added up as FURTHER."""
    in_order = sorted(calls.items(), key=lambda item: (item[0] == FURTHER, -item[1], item[0]))
    rest = sum(count for _, count in in_order[NAMES:])
    return dict(in_order[:NAMES]) | ({FURTHER: rest} if rest else {})


def summary(profile: Profile, *, ratio: float | None, scope: str) -> dict:
    """Returns the field `profile` of a record."""

    def moved(each: dict[str, Moved]) -> dict:
        return {
            kind: {"count": m.count, "bytes": m.whole_bytes, "seconds": _rounded(m.seconds)}
            for kind, m in sorted(each.items())
        }

    kernels = sorted(profile.kernels.items(), key=lambda item: (-item[1].seconds, item[0]))
    return {
        "tool": profile.tool,
        "scope": scope,
        "wall_ratio": ratio,
        "kernels": [
            {"name": spelling.shorten(name, 200), **dataclasses.asdict(k), "seconds": _rounded(k.seconds)}
            for name, k in kernels[:KERNELS]
        ],
        "copies": moved(profile.copies),
        "migrations": moved(profile.migrations),
        "page_faults": dict(sorted(profile.page_faults.items())),
        "api_calls": dict(sorted(_most_frequent(profile.api_calls).items())),
        "phases": {
            name: {"count": m.count, "seconds": _rounded(m.seconds)}
            for name, m in sorted(longest(profile.phases, NAMES).items())
        },
        "counters": dict(sorted(profile.counters.items())[:NAMES]),
        "overlap": overlap(profile),
        "notes": [*profile.all_notes(), *_shortened(profile)],
        "files": profile.files,
    }


def _shortened(profile: Profile) -> list[str]:
    """Returns a note for each field of which a record contains only some names."""
    names = {
        "kernels": (len(profile.kernels), KERNELS),
        "phases": (len(profile.phases), NAMES),
        "API calls": (len(profile.api_calls), NAMES),
        "counters": (len(profile.counters), NAMES),
    }
    return [
        f"only {most} of {count} names of {what} are listed; isthmus profile --format csv has more"
        for what, (count, most) in names.items()
        if count > most
    ]


KERNELS = 50  # maximum number of kernels in a record; those that take longest are kept
NAMES = 200  # maximum number of phases, of calls and of counters in a record


def amend(cases: list[dict], profile: Profile, *, unprofiled: list[dict]) -> list[dict]:
    """Returns the records of a profiled run, with the profiler's figures added.

    `unprofiled` contains records of the same run without the profiler. A profiler measures a whole run. If the run has
    one case, its figures become metrics of that case, called profiled_…, and may have references. If the run has
    several cases, figures are only in the field `profile` of each, with the scope `run`.
    """

    def walls(records_):
        return [case["run"].get("wall") for case in records_]

    ratio = None
    if unprofiled and len(unprofiled) == len(cases) and all(walls(cases)) and all(walls(unprofiled)):
        ratio = sum(walls(cases)) / sum(walls(unprofiled))
    scope = "case" if len(cases) == 1 else "run"
    summed = summary(profile, ratio=ratio, scope=scope)
    amended = []
    for case in cases:
        case = {**case, "profile": summed}
        if scope == "case" and not case["skipped"] and not case["error"]:
            values = figures(profile) | ({"cost": (ratio, "1")} if ratio else {})
            case["metrics"] = case["metrics"] + [_metric(name, *value) for name, value in values.items()]
        amended.append(case)
    return amended


def _metric(name: str, value: float, unit: str) -> dict:
    return {
        "name": PROFILED + name, "unit": unit, "better": None, "timer": "none", "samples": [value],
        "median": value, "stop": "single", "warmups": 0, "limit": None, "limit_reason": "seen by a profiler",
        "share": None,
    }  # fmt: skip
