"""Earlier results: baselines, which are jobs stored under a name, and the output of `isthmus noise`."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import pathlib
import re
from typing import NamedTuple

from isthmus import Error, inputs, spelling
from isthmus.grouping import grouped
from isthmus.records import jobs, measurements, store
from isthmus.statistics import series
from isthmus.tables import output
from isthmus.verdicts.judging import Boots

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_MOST = 64 * inputs.MIB  # maximum size of a file, enough for 1,000,000 jobs or 100,000 series


def _baseline_path(folder, name: str) -> pathlib.Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise Error(f"{spelling.shorten(name, 40)!r} cannot name a baseline; use letters, digits, points and dashes")
    return pathlib.Path(folder) / "baselines" / f"{name}.json"


def save_baseline(opened: store.Store, folder, name: str, condition: str) -> int:
    """Stores the jobs that fulfil a condition under a name; returns their number. Raises Error if the name exists."""
    began = dict(
        opened.sql(
            f"SELECT job, strftime(min(time), '{_TIME}') FROM measurements WHERE {condition} GROUP BY job ORDER BY job"
        ).fetchall()
    )
    if not began:
        raise Error("no job matches, so there is no baseline to save")
    path = _baseline_path(folder, name)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise Error(f"{path.parent}: {error.strerror}") from None
    try:
        kept = {"made": series.now(), "jobs": list(began), "began": list(began.values())}
        output.write_whole(path, json.dumps(kept, indent=1).encode(), once=True)
    except FileExistsError:
        raise Error(f"the baseline {name} already exists ({path}); choose another name or remove it") from None
    return len(began)


@dataclasses.dataclass(frozen=True)
class Kept:
    """Job of a baseline."""

    name: str
    latest: datetime.datetime  # latest time at which the job can have begun
    is_exact: bool  # true if the job began exactly at this time


def load_baseline(folder, name: str) -> list[Kept]:
    path = _baseline_path(folder, name)
    known = [each.removesuffix(".json") for each in inputs.names_in(path.parent) if each.endswith(".json")]
    if name not in known:
        there = f"there is {', '.join(known)}" if known else "none is there"
        raise Error(f"no baseline {name} in {path.parent}; {there}")
    try:
        content = inputs.json_of(inputs.read_small(path, _MOST))
        names, began = content["jobs"], content.get("began")
        if not (names and all(isinstance(job, str) for job in names)):
            raise ValueError("no jobs")
        if began is not None and len(began) != len(names):
            raise ValueError("not every job has a time")
        times = [datetime.datetime.strptime(text, _TIME) for text in began or [content["made"]] * len(names)]
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(getattr(error, "strerror", None) or error))
        raise Error(
            f"{path}: not a baseline ({why}); remove it, and save the jobs again with --save-baseline"
        ) from None
    return [Kept(job, time, began is not None) for job, time in zip(names, times)]


def present(opened: store.Store, kept: list[Kept]) -> list[str]:
    """Returns the names of these jobs in the records; jobs without records are left out.

    Schedulers reuse ids, so a job is recognised by its id and time. Raises Error if a job's time is unknown and several
    jobs had its id.
    """
    ids = ", ".join({measurements.literal(jobs.plain(each.name)) for each in kept})
    rows = opened.sql(
        f"SELECT job, min(time), max(time) FROM everything WHERE {jobs.PLAIN} IN ({ids}) GROUP BY job ORDER BY ALL"
    ).fetchall()
    spans = grouped((jobs.plain(job), (job, first, last)) for job, first, last in rows)
    found = []
    for each in kept:
        after = each.latest + (jobs.MOST if each.is_exact else jobs.RESTARTED)
        fitting = [
            (abs(first - each.latest), job)
            for job, first, last in spans.get(jobs.plain(each.name), [])
            if first <= after and not (each.is_exact and last < each.latest - jobs.MOST)
        ]
        if len(fitting) > 1 and not each.is_exact:
            names = spelling.shorten(", ".join(spelling.printable(job) for _, job in fitting), 80)
            raise Error(
                f"the baseline's job {spelling.printable(each.name)} is one of {len(fitting)} that had this id "
                f"({names}), and the baseline does not say which; save the jobs again with --save-baseline"
            )
        found += [min(fitting)[1]] if fitting else []
    return found


AXES = "axes_json"  # column of the output of `isthmus noise`; together with CASE and the unit, it identifies a series


def _deviation(value) -> float:
    if not 0 <= float(value) < math.inf:
        raise ValueError(f"{value} is not a deviation")
    return float(value)


def _key(entry) -> tuple:
    """Returns the key of an entry's series."""
    return tuple(entry[AXES if name == "axes" else name] for name in measurements.SERIES)


class Noise(NamedTuple):
    """Noise of an earlier history, for each series."""

    between: dict[tuple, float]  # standard deviation between jobs
    boots: dict[tuple, Boots]  # spread between boots, if a node had several boots
    worst: dict[tuple, float]  # standard deviation between jobs at the noisiest place


def load_noise(path) -> Noise:
    """Loads noise from a file that `isthmus noise -o FILE.json` wrote. Raises Error for any other file."""
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
        worst = {
            _key(entry): max(_deviation(entry["between"]), _deviation(entry.get("worst") or 0)) for entry in entries
        }
        return Noise(between, boots, worst)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from None
    except (AttributeError, RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(error), 60)
        raise Error(f"{path}: not written by `isthmus noise -o FILE.json` ({why})") from None
