"""Making of references from stored records: groups of jobs on a machine in one state, and bounds for each series."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re

from isthmus import Error, spelling
from isthmus.profiles import as_record, profile
from isthmus.records import measurements, store
from isthmus.records.measurements import literal
from isthmus.references import bounds, lookup, measured
from isthmus.statistics import series
from isthmus.verdicts import outlying

# Fields of the fingerprint in which the jobs of one reference must agree. Other fields are keys of the file, differ
# even between equal nodes (memory, VBIOS), fall when a link is idle (pcie_gen), or change with each build (git).
_ONE = (
    "device", "runtime", "gsp_firmware", "pcie_width", "links", "ecc", "mig", "persistence", "compute_mode",
    "power_limit", "cpu", "cores", "kernel", "os", "governor", "iommu", "thp", "numa_nodes", "numa_balancing",
    "uvm", "environment", "flags", "code", "mpi",
)  # fmt: skip
WANTED = (
    *measurements.SERIES, *measured.KEYS, *_ONE, "mode", "better", "median", "node", "gpus", "boot", "job", "invalid",
    "error", "skipped", "verify", "system", "time", "profiler", "vbios", "share",
)  # fmt: skip


def groups_of(opened: store.Store, condition: str) -> list[dict]:
    """Returns the combinations of partition, architecture, driver and compiler of the jobs.

    Raises Error if records are of several systems or have no partition.
    """
    rows = opened.rows(
        f"SELECT DISTINCT {', '.join(measured.KEYS)}, system FROM measurements WHERE {condition} AND {series.COUNTS} "
        "AND metric IS NOT NULL ORDER BY ALL"
    )
    systems = sorted({row["system"] for row in rows})
    if len(systems) > 1:
        names = ", ".join(name or "one without a name" for name in systems)
        raise Error(f"the records are of several systems ({names}); choose one with --system")
    if any(not row["partition"] for row in rows):
        raise Error("some records name no partition, so no reference can apply; use the records of ReFrame sessions")
    return [{key: row[key] or "" for key in measured.KEYS} for row in rows]


def within(group: dict) -> str:
    return " AND ".join(f"coalesce({key}::VARCHAR, '') = {literal(value)}" for key, value in group.items())


def _settings(text: str) -> str:
    """Returns a runtime's variables as text, without those that differ between jobs of the same environment."""
    settings = {
        name: value
        for name, value in (json.loads(text) or {}).items()
        if not name.endswith(("_VISIBLE_DEVICES", "_PIPE_DIRECTORY"))
    }
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def fingerprint(opened: store.Store, condition: str, group: dict) -> dict:
    """Returns the fields of _ONE, in which all jobs of a group agree. Raises Error if they differ in one."""
    lists = ", ".join(f'list_sort(list(DISTINCT nullif("{name}"::VARCHAR, \'\'))) AS "{name}"' for name in _ONE)
    (row,) = opened.rows(f"SELECT {lists} FROM measurements WHERE {condition} AND {within(group)} AND {series.COUNTS}")
    found = {}
    for name in _ONE:
        values = [value for value in row[name] or [] if value is not None]
        if name == "environment":
            values = sorted({_settings(value) or "none set" for value in values})
        if name == "uvm":  # has sixty parameters, so only their hash is shown
            values = [hashlib.sha256(value.encode()).hexdigest()[:8] for value in values]
        if len(values) > 1:
            shown = " and ".join(spelling.shorten(spelling.printable(value), 40) for value in values[:2])
            field = f"{name}.NAME" if name in measurements.OBJECTS else name
            choice = f"choose with --from {field}=…, or days"
            called = ", ".join(filter(None, group.values()))
            raise Error(f"jobs of {called} differ in {name} ({shown}): they are not from one machine; {choice}")
        if values:
            found[name] = values[0]
    return found


# --- references ---


@dataclasses.dataclass
class Made:
    """References made from records, and series without a reference."""

    trees: dict[str, dict] = dataclasses.field(default_factory=dict)  # partition → keys → cases
    fingerprints: dict[str, dict] = dataclasses.field(default_factory=dict)
    few: dict[str, int] = dataclasses.field(default_factory=dict)  # series with too few jobs → number of jobs
    left: dict[str, str] = dataclasses.field(default_factory=dict)  # other series without a reference → reason
    out: list[tuple[outlying.Outlying, str]] = dataclasses.field(default_factory=list)  # each with a series' label
    wide: dict[str, float] = dataclasses.field(default_factory=dict)  # series → loss above WIDE that its bound allows
    one_day: int = 0
    bounds: int = 0
    figures: int = 0


@dataclasses.dataclass(frozen=True)
class _Figure:
    """Series with enough jobs for a reference."""

    each: series.Series
    label: str
    group: dict
    profiler: str
    fingerprint: str
    without: tuple[str, ...]  # nodes, GPUs and jobs that were left out
    occurring: dict[str, set]  # field of _OPTIONAL → its values in all cases of the workload


_OPTIONAL = ("placement", "staging", "size", "preset", "ranks")


def _entry(figure: _Figure) -> dict:
    """Returns the selectors of a series, without optional fields that no case of the workload uses."""
    key = dict(zip(measurements.SERIES, figure.each.key))
    entry = {
        "workload": re.escape(key["workload"]).replace(r"\-", "-").replace(r"\.", "[.]"),
        "version": key["version"],
    }
    for field in _OPTIONAL:
        if figure.occurring[field] != {None}:
            entry[field] = (key[field] or 1) if field == "ranks" else key[field]
    if figure.profiler:
        entry["profiler"] = figure.profiler
    axes = json.loads(key["axes"] or "{}")
    return entry | ({"axes": axes} if axes else {})


def _figures(opened: store.Store, made: Made, condition: str, group: dict, profiler: str) -> list[_Figure]:
    """Returns the series of a group that have enough jobs.

    Adds the group's fingerprint and the series with too few jobs to `made`.
    """
    wanted = f"{condition} AND {within(group)} AND coalesce(profiler, '') = {literal(profiler)}"
    every = series.load(opened, f"CASE WHEN {wanted} THEN 'A' END")
    if profiler:
        every = [each for each in every if as_record.is_held(each.metric, each.unit)]
    else:
        every = [each for each in every if not each.metric.startswith(profile.PROFILED)]
    names = series.labels(every)
    every, without = _without_outlying(opened, made, every, names, wanted)
    enough = [each for each in every if each.jobs("A") >= bounds.FEWEST]
    made.few |= {names[each.key]: each.jobs("A") for each in every if each.jobs("A") < bounds.FEWEST}
    if not enough:
        return []
    alike = fingerprint(opened, wanted, group)
    name = hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()[:8]
    made.fingerprints[name] = alike
    days = series.per_series(opened, "count(DISTINCT time::DATE)", wanted)
    made.one_day += sum(days.get(each.key) == 1 for each in enough)
    occurring: dict[str, dict[str, set]] = {}
    for each in every:
        for field in _OPTIONAL:
            values = occurring.setdefault(each.workload, {}).setdefault(field, set())
            values.add(each.key[measurements.SERIES.index(field)])
    return [
        _Figure(each, names[each.key], group, profiler, name, without[each.key], occurring[each.workload])
        for each in enough
    ]


def _without_outlying(
    opened: store.Store, made: Made, every: list[series.Series], names: dict[tuple, str], wanted: str
) -> tuple[list[series.Series], dict[tuple, tuple[str, ...]]]:
    """Returns the series without outlying nodes, GPUs and jobs, and the names of what was left out of each series.

    Profilers' counts vary for other reasons, so outlying jobs are not removed from them.
    """
    places = outlying.Places(opened, wanted)
    left, without = [], {}
    for each in every:
        counted = each.metric.startswith(profile.PROFILED)
        kept, found = outlying.without(each, places, jobs_too=not counted)
        left.append(kept)
        without[each.key] = tuple(said.name for said in found)
        made.out += [(said, names[each.key]) for said in found]
    return left, without


WIDE = 0.30  # allowed loss above which a bound is suspect: jobs on a machine in one state vary less


def _loss(each: series.Series, reference: bounds.Reference) -> float:
    """Returns the largest loss of speed that is still within the bounds; 0 if neither side is better."""
    if each.better == "higher":
        return -(reference.lower or 0.0)
    return 1 - 1 / (1 + (reference.upper or 0.0)) if each.better == "lower" else 0.0


def _hold(made: Made, figure: _Figure, tail: float, own, today: str) -> None:
    """Adds the bound of a figure to `made`, or the reason for having none."""
    each, group = figure.each, figure.group
    reference = bounds.of(each, tail)
    if isinstance(reference, str):
        made.left[figure.label] = reference
        return
    entry = _entry(figure)
    key = dict(zip(measurements.SERIES, each.key))
    case = {field: str(key.get(field) or "") for field in measured.CASE}
    case |= {**group, "ranks": str(key["ranks"] or 1), "mode": each.mode or "", "profiler": figure.profiler}
    if each.metric in lookup.find(own, case, entry.get("axes", {})):
        made.left[figure.label] = "is given by another file of the site"
        return
    bound = dataclasses.asdict(reference)
    bound |= {"interval": list(reference.interval), "date": today, "fingerprint": figure.fingerprint}
    bound |= {"left_out": ", ".join(figure.without)} if figure.without else {}
    if (loss := _loss(each, reference)) > WIDE:
        made.wide[figure.label] = loss
    keys = tuple(measured.exactly(group[key]) for key in measured.KEYS)
    cases = made.trees.setdefault(group["partition"], {}).setdefault(keys, {})
    cases.setdefault(measured.case_key(entry), {**entry, "metrics": {}})["metrics"][each.metric] = bound
    made.bounds += 1


def make(opened: store.Store, *, condition: str, alarms: float, metrics: int | None, runs: int, own=()) -> Made:
    """Makes references from all jobs that fulfil a condition.

    `alarms` is the number of false alarms per night over all figures; `metrics` is the number of these figures
    (default: those found), each of which is measured `runs` times. Figures with bounds in the entries `own` are left
    out. Raises Error if no series has enough jobs, or if `alarms` is out of range.
    """
    made = Made()
    groups = groups_of(opened, condition)
    profilers = [row[0] for row in opened.sql(
        f"SELECT DISTINCT coalesce(profiler, '') FROM measurements WHERE {condition} ORDER BY 1"
    ).fetchall()]  # fmt: skip
    figures = [
        figure for group in groups for profiler in profilers
        for figure in _figures(opened, made, condition, group, profiler)
    ]  # fmt: skip
    if not figures:
        most = max(made.few.values(), default=0)
        without = f" without {made.out[0][0].name} and its like, which differ from the others" if made.out else ""
        raise Error(
            f"no series has {bounds.FEWEST} jobs of one state of the machine{without} (at most {most}); run more"
        )
    # A figure that was measured with several drivers or compilers counts once, since a night has only one of each.
    made.figures = len({(figure.group["partition"], figure.profiler, figure.each.key) for figure in figures})
    tail = alarms / ((metrics or made.figures) * runs)
    if not 1e-8 <= tail <= 0.25:
        raise Error(f"{alarms:g} false alarms per night are {tail:.2g} per figure; choose 1e-8 to 0.25 per figure")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    for figure in figures:
        _hold(made, figure, tail, own, today)
    return made
