"""What is known from earlier: baselines, which are jobs kept under a name, and what `isthmus noise` wrote."""

from __future__ import annotations

import json
import math
import pathlib
import re

from isthmus import Error, inputs, spelling
from isthmus.records import measurements, old_names, store
from isthmus.statistics import series
from isthmus.tables import output
from isthmus.verdicts.judging import Boots

_MOST = 64 * inputs.MIB  # 1,000,000 jobs, 100,000 series


def _baseline_path(folder, name: str) -> pathlib.Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise Error(f"{spelling.shorten(name, 40)!r} is no name for a baseline; use letters, digits, points and dashes")
    return pathlib.Path(folder) / "baselines" / f"{name}.json"


def save_baseline(opened: store.Store, folder, name: str, condition: str) -> int:
    """Keeps the jobs that fulfil a condition under a name; returns how many. A name is given once."""
    jobs = [
        row[0] for row in opened.sql(f"SELECT DISTINCT job FROM measurements WHERE {condition} ORDER BY job").fetchall()
    ]
    if not jobs:
        raise Error("no job is what was asked for, so there is no baseline to keep")
    path = _baseline_path(folder, name)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise Error(f"{path.parent}: {error.strerror}") from None
    try:
        output.write_whole(path, json.dumps({"made": series.now(), "jobs": jobs}, indent=1).encode(), once=True)
    except FileExistsError:
        raise Error(f"the baseline {name} is there already ({path}); choose another name or remove it") from None
    return len(jobs)


def load_baseline(folder, name: str) -> list[str]:
    path = _baseline_path(folder, name)
    try:
        jobs = inputs.json_of(inputs.read_small(path, _MOST))["jobs"]
        if not (jobs and all(isinstance(job, str) for job in jobs)):
            raise ValueError("no jobs")
    except FileNotFoundError:
        known = sorted(each.stem for each in path.parent.glob("*.json"))
        there = f"there is {', '.join(known)}" if known else "none is there"
        raise Error(f"no baseline {name} in {path.parent}; {there}") from None
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(getattr(error, "strerror", None) or error))
        raise Error(f"{path}: no baseline ({why}); remove it, and keep the jobs anew with --save-baseline") from None
    return jobs


def present(opened: store.Store, jobs: list[str]) -> int:
    """How many of these jobs have records, whichever of them were asked for."""
    [[count]] = opened.sql(
        f"SELECT count(DISTINCT job) FROM everything WHERE job IN ({', '.join(map(measurements.literal, jobs))})"
    ).fetchall()
    return count


AXES = "axes_json"  # column of what `isthmus noise` writes: with CASE and the unit it makes the key of a series


def _deviation(value) -> float:
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{value} is no deviation")
    return float(value)


def _key(entry) -> tuple:
    """The key of a series, with the names of this version."""
    workload, axes = entry["workload"], entry[AXES]
    converted = {
        "workload": old_names.workload(workload) if isinstance(workload, str) else workload,
        "axes": old_names.axes_text(workload, axes) if isinstance(axes, str) else axes,
    }
    return tuple(converted[name] if name in converted else entry[name] for name in measurements.SERIES)


def load_noise(path) -> tuple[dict[tuple, float], dict[tuple, Boots]]:
    """By series, of a file that `isthmus noise -o FILE.json` wrote: standard deviations between jobs, and how far boots
    differ, where several were seen on a node. Raises Error."""
    try:
        entries = inputs.json_of(inputs.read_small(path, _MOST))
        if not (isinstance(entries, list) and entries):
            raise ValueError("no series")
        between = {_key(entry): _deviation(entry["between"]) for entry in entries}
        boots = {
            _key(entry): Boots(_deviation(entry["boots"]), int(entry["boots_freedom"]))
            for entry in entries
            if entry.get("boots") is not None
        }
        return between, boots
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (AttributeError, RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(error), 60)
        raise Error(f"{path}: not what `isthmus noise -o FILE.json` writes ({why})") from None
