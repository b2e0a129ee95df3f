"""References: what a site's figures are held to. `update` makes them from kept records, `check` says what has none.

`update` prints what would change as a diff; a person reads it, and --write applies it. A bound is as wide as jobs of
one state of the machine vary, so that all figures of a night together raise a stated number of false alarms. A
reference needs 8 jobs or more; spread them over some days. docs/references.md explains files and bounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import difflib
import functools
import hashlib
import json
import math
import os
import pathlib
import re
import sys

import numpy as np
import yaml

from isthmus import Error, exits, spelling, units
from isthmus.profiles import as_record, profile
from isthmus.records import measurements, selection, store
from isthmus.records.measurements import literal
from isthmus.references import lookup, site_tree
from isthmus.statistics import rank_test, series
from isthmus.verdicts import regress

FEWEST = 8  # jobs of a reference
FALSE_ALARMS = 0.1  # of all figures of a night together
_MEASURED = "measured-"  # files that this command writes begin so
_KEYS = ("partition", "arch", "driver", "compiler")  # levels of such a file, as its $index says
# What identifies an entry below them.
_CASE = ("workload", "version", "placement", "staging", "size", "preset", "ranks", "profiler")
# Fields of the fingerprint that must not differ among the jobs of one reference. The others are keys, differ by nature
# between equal nodes (memory, VBIOS), sleep with an idle link (pcie_gen), or come with each build (git).
_ONE = (
    "device", "runtime", "gsp_firmware", "pcie_width", "links", "ecc", "mig", "persistence", "compute_mode",
    "power_limit", "cpu", "cores", "kernel", "os", "governor", "iommu", "thp", "numa_nodes", "numa_balancing",
    "uvm", "environment", "flags", "code", "mpi",
)  # fmt: skip
_WANTED = (
    *measurements.SERIES, *_KEYS, *_ONE, "mode", "better", "median", "node", "gpus", "boot", "job", "spoilt", "error",
    "skipped", "verify", "system", "time", "profiler", "vbios", "share",
)  # fmt: skip


# --- places ---


def site_folder(site: str) -> pathlib.Path:
    """site-configs/<site>, or the folder that is named. Raises Error for what is neither."""
    named = pathlib.Path(site)
    if os.sep in site or site in (".", ".."):
        if (named / "reframe.py").is_file():
            return named
        raise Error(f"{site}: no reframe.py in there, so it is no site's folder")
    homes = [pathlib.Path(__file__).resolve().parents[3] / "site-configs", pathlib.Path("site-configs").resolve()]
    for home in homes:
        if (home / site / "reframe.py").is_file():
            return home / site
    there = sorted({path.parent.name for home in homes for path in home.glob("*/reframe.py")})
    hint = spelling.did_you_mean(site, there)
    raise Error(f"{spelling.shorten(site, 40)!r} is no site; there are {', '.join(there) or 'none'}{hint}")


def partitions(folder: pathlib.Path) -> list[dict]:
    """Partitions of a site's reframe.py: {name, arch}, arch null where no GPU is stated."""
    found = []
    try:
        for system in site_tree.load(folder / "reframe.py")["systems"]:
            for partition in system["partitions"]:
                archs = [d.get("arch") for d in partition.get("devices", []) if d.get("type") == "gpu"]
                found.append({"name": partition["name"], "arch": next(filter(None, archs), None)})
    except (AttributeError, KeyError, TypeError) as error:
        raise Error(f"{folder / 'reframe.py'}: no configuration ({type(error).__name__}: {error})") from None
    return found


# --- bounds ---


@dataclasses.dataclass(frozen=True)
class Reference:
    """What one metric was in so many jobs; tolerances are fractions of the value, None is open."""

    value: float
    lower: float | None
    upper: float | None
    unit: str
    n: int
    nodes: int
    interval: tuple[float, float]


def bounds(each: series.Series, tail: float, floor: float = regress.FLOOR) -> Reference | str:
    """The reference of a series (side A), or why there can be none.

    One more job like these is outside by chance with probability `tail`: on the bad side where one is better, else on
    both sides together. Never tighter than the worst of these jobs, nor than `floor` for times and rates.
    """
    values, nodes = each.all("A"), series.apart(each.of("A"))
    of = functools.partial(Reference, unit=each.unit, n=len(values), nodes=len(nodes))
    counted = each.metric.startswith(profile.PROFILED)
    if np.all(values == values[0]) and (counted or each.better is None):
        value = float(values[0])
        return of(value, 0.0, 0.0, interval=(value, value))
    if not (values > 0).all():
        return "can be zero or negative, so a fraction of it means nothing"
    found = rank_test.predict([np.log(x) for x in nodes.values()])
    both = counted or each.better is None
    distance = found.distance(tail / 2 if both else tail)
    extremes = found.mean - float(np.log(values.min())), float(np.log(values.max())) - found.mean
    floor = 0.0 if counted else floor
    # Six digits are written, so leave the last of them room; near -1 they say little of what is left, so round outward.
    lower, upper = (max(distance, extreme * 1.00001, math.log1p(floor)) for extreme in extremes)
    half = found.mean_spread * rank_test.student_quantile((1 - rank_test.CONFIDENCE) / 2, found.freedom)
    return of(
        math.exp(found.mean),
        math.floor(math.expm1(-lower) * 1e6) / 1e6 if both or each.better == "higher" else None,
        math.expm1(upper) if both or each.better == "lower" else None,
        interval=(math.exp(found.mean - half), math.exp(found.mean + half)),
    )


# --- groups of jobs ---


def groups_of(opened: store.Store, condition: str) -> list[dict]:
    """Which partitions, architectures, drivers and compilers the jobs are of. Raises Error for several systems."""
    rows = opened.rows(
        f"SELECT DISTINCT {', '.join(_KEYS)}, system FROM measurements WHERE {condition} AND {series.COUNTS} "
        "AND metric IS NOT NULL ORDER BY ALL"
    )
    systems = sorted({row["system"] for row in rows})
    if len(systems) > 1:
        names = ", ".join(name or "one without a name" for name in systems)
        raise Error(f"the records are of several systems ({names}); choose one with --system")
    if any(not row["partition"] for row in rows):
        raise Error("some records name no partition, so nothing can be chosen by it; take those of ReFrame's sessions")
    return [{key: row[key] or "" for key in _KEYS} for row in rows]


def within(group: dict) -> str:
    return " AND ".join(f"coalesce({key}::VARCHAR, '') = {literal(value)}" for key, value in group.items())


def _called(group: dict) -> str:
    return ", ".join(filter(None, group.values()))


def _settings(text: str) -> str:
    """Variables of a runtime that are no matter of which job it was."""
    settings = {
        name: value
        for name, value in (json.loads(text) or {}).items()
        if not name.endswith(("_VISIBLE_DEVICES", "_PIPE_DIRECTORY"))
    }
    return " ".join(f"{name}={value}" for name, value in sorted(settings.items()))


def fingerprint(opened: store.Store, condition: str, group: dict) -> dict:
    """The fields that all jobs of a group share. Raises Error for one in which they differ."""
    lists = ", ".join(f'list_sort(list(DISTINCT nullif("{name}"::VARCHAR, \'\'))) AS "{name}"' for name in _ONE)
    (row,) = opened.rows(f"SELECT {lists} FROM measurements WHERE {condition} AND {within(group)} AND {series.COUNTS}")
    found = {}
    for name in _ONE:
        values = [value for value in row[name] or [] if value is not None]
        if name == "environment":
            values = sorted({_settings(value) or "none set" for value in values})
        if name == "uvm":  # sixty parameters: their hash
            values = [hashlib.sha256(value.encode()).hexdigest()[:8] for value in values]
        if len(values) > 1:
            shown = " and ".join(spelling.shorten(spelling.printable(value), 40) for value in values[:2])
            field = f"{name}.NAME" if name in measurements.OBJECTS else name
            choice = f"choose with --from {field}=…, or days"
            raise Error(f"jobs of {_called(group)} differ in {name} ({shown}): they are of no one machine; {choice}")
        if values:
            found[name] = values[0]
    return found


# --- files ---


def _case_key(entry: dict) -> tuple:
    axes = json.dumps(entry.get("axes", {}), sort_keys=True)
    return (*(str(entry.get(field, "")) for field in _CASE), axes)


def read_measured(path: pathlib.Path) -> tuple[dict, dict]:
    """Entries of a file of ours by keys and case, and its fingerprints. Raises Error for another's file."""
    if not path.exists():
        return {}, {}
    lookup.load_file(path)  # every mistake in it has its sentence there
    content = lookup.read_yaml(path)
    if not isinstance(content, dict) or content.get("$index") != list(_KEYS):
        raise Error(f"{path}: not written by `isthmus references update`; rename it, this name is for those that are")
    tree: dict[tuple, dict] = {}

    def walk(level, keys):
        if len(keys) < len(_KEYS):
            for key, below in (level or {}).items():
                walk(below, (*keys, "" if key is None else str(key)))
            return
        for entry in level or []:
            if "metrics" not in entry:
                raise Error(f"{path}: only entries with metrics stand in here; write others into a file of your own")
            tree.setdefault(keys, {})[_case_key(entry)] = entry

    walk({key: value for key, value in content.items() if not key.startswith("$")}, ())
    return tree, dict(content.get("$fingerprints") or {})


def _word(value) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        text = f"{value:.6g}"
        return text if re.search("[.e]", text) else text + ".0"
    if not isinstance(value, str):
        return json.dumps(value)
    if re.fullmatch(r"[A-Za-z][\w/.-]{2,}|s|B/s|B|W|Hz", value, re.ASCII) and yaml.safe_load(value) == value:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _name(key: str) -> str:
    """The name of a metric, an axis or a part of the fingerprint; YAML takes `no` and `on` for something else."""
    plain = re.fullmatch(r"[A-Za-z_][\w.-]*", key, re.ASCII) and yaml.safe_load(key) == key
    return key if plain else _word(key) if _word(key) != key else f'"{key}"'


def _flow(mapping: dict) -> str:
    def text(value):
        if isinstance(value, list):
            return f"[{', '.join(map(_word, value))}]"
        return _word(str(value) if isinstance(value, datetime.date) else value)

    return "{" + ", ".join(f"{_name(key)}: {text(value)}" for key, value in mapping.items()) + "}"


def render(tree: dict, fingerprints: dict) -> str:
    """The file: the same references give the same text."""
    used = {
        str(bound["fingerprint"])
        for cases in tree.values() for entry in cases.values() for bound in entry["metrics"].values()
        if isinstance(bound, dict) and "fingerprint" in bound
    }  # fmt: skip
    lines = [
        "# Written by `isthmus references update` from kept records, reviewed by a person; docs/references.md.",
        "# By hand, write other files beside this one.",
        f"$index: [{', '.join(_KEYS)}]",
        "$fingerprints:" + ("" if used else " {}"),
    ]
    for name in sorted(used & set(map(str, fingerprints))):
        lines.append(f"  {_word(name)}: {_flow(fingerprints[name])}")
    shown: tuple = ()
    for keys in sorted(tree):
        same = next((i for i, (a, b) in enumerate(zip(shown, keys)) if a != b), len(shown))
        for depth in range(same, len(keys)):
            lines.append(f"{'  ' * depth}{_word(keys[depth])}:")
        shown = keys
        indent = "  " * len(keys)
        for _, entry in sorted(tree[keys].items()):
            first = True
            for field in (*_CASE, "axes"):
                if field in entry:
                    value = entry[field]
                    text = _flow(dict(sorted(value.items()))) if field == "axes" else _word(value)
                    lines.append(f"{indent}{'- ' if first else '  '}{field}: {text}")
                    first = False
            lines.append(f"{indent}  metrics:")
            for metric, bound in sorted(entry["metrics"].items()):
                text = _flow(bound) if isinstance(bound, dict) else f"[{', '.join(map(_word, bound))}]"
                lines.append(f"{indent}    {_name(metric)}: {text}")
    return "\n".join(lines) + "\n"


def _exactly(text: str) -> str:
    """The regular expression of just this text, with as few backslashes as can be."""
    return re.sub(r"[.*+?{}|()$]", lambda match: f"[{match[0]}]", re.sub(r"([\\^\[\]])", r"\\\1", text))


# --- update ---


@dataclasses.dataclass
class Made:
    """What the records give: references by keys, and what got none."""

    trees: dict[str, dict] = dataclasses.field(default_factory=dict)  # by partition
    fingerprints: dict[str, dict] = dataclasses.field(default_factory=dict)
    few: dict[str, int] = dataclasses.field(default_factory=dict)  # series that have too few jobs, and how many
    left: dict[str, str] = dataclasses.field(default_factory=dict)  # other series, and why
    one_day: int = 0
    bounds: int = 0
    figures: int = 0


@dataclasses.dataclass(frozen=True)
class _Figure:
    """A series that has enough jobs for a reference."""

    each: series.Series
    label: str
    group: dict
    profiler: str
    fingerprint: str
    told: dict[str, set]  # what the cases of its workload have in the fields of _OPTIONAL


_OPTIONAL = ("placement", "staging", "size", "preset", "ranks")


def _entry(figure: _Figure) -> dict:
    """Selectors of a series; a field that no case of the workload has is left out."""
    key = dict(zip(measurements.SERIES, figure.each.key))
    entry = {
        "workload": re.escape(key["workload"]).replace(r"\-", "-").replace(r"\.", "[.]"),
        "version": key["version"],
    }
    for field in _OPTIONAL:
        if figure.told[field] != {None}:
            entry[field] = (key[field] or 1) if field == "ranks" else key[field]
    if figure.profiler:
        entry["profiler"] = figure.profiler
    axes = json.loads(key["axes"] or "{}")
    return entry | ({"axes": axes} if axes else {})


def _may_be_held(each: series.Series, profiler: str) -> bool:
    """Of profiled runs only counts."""
    if profiler:
        return as_record.is_held(each.metric, each.unit)
    return not each.metric.startswith(profile.PROFILED)


def _figures(opened: store.Store, made: Made, condition: str, group: dict, profiler: str) -> list[_Figure]:
    """The series of a group that have enough jobs; `made` takes what they share, and the series that have not."""
    wanted = f"{condition} AND {within(group)} AND coalesce(profiler, '') = {literal(profiler)}"
    every = series.load(opened, f"CASE WHEN {wanted} THEN 'A' END")
    every = [each for each in every if _may_be_held(each, profiler)]
    enough = [each for each in every if each.jobs("A") >= FEWEST]
    names = series.labels(every)
    made.few |= {names[each.key]: each.jobs("A") for each in every if each.jobs("A") < FEWEST}
    if not enough:
        return []
    alike = fingerprint(opened, wanted, group)
    name = hashlib.sha256(json.dumps(alike, sort_keys=True).encode()).hexdigest()[:8]
    made.fingerprints[name] = alike
    days = series.per_series(opened, "count(DISTINCT time::DATE)", wanted)
    made.one_day += sum(days.get(each.key) == 1 for each in enough)
    told: dict[str, dict[str, set]] = {}
    for each in every:
        for field in _OPTIONAL:
            values = told.setdefault(each.workload, {}).setdefault(field, set())
            values.add(each.key[measurements.SERIES.index(field)])
    return [_Figure(each, names[each.key], group, profiler, name, told[each.workload]) for each in enough]


def _hold(made: Made, figure: _Figure, tail: float, own, today: str) -> None:
    """Adds the bound of a figure to `made`, or why it gets none."""
    each, group = figure.each, figure.group
    reference = bounds(each, tail)
    if isinstance(reference, str):
        made.left[figure.label] = reference
        return
    entry = _entry(figure)
    key = dict(zip(measurements.SERIES, each.key))
    case = {field: str(key.get(field) or "") for field in _CASE}
    case |= {**group, "ranks": str(key["ranks"] or 1), "mode": each.mode or "", "profiler": figure.profiler}
    if each.metric in lookup.find(own, case, entry.get("axes", {})):
        made.left[figure.label] = "is held by another file of the site"
        return
    bound = dataclasses.asdict(reference)
    bound |= {"interval": list(reference.interval), "date": today, "fingerprint": figure.fingerprint}
    keys = tuple(_exactly(group[key]) for key in _KEYS)
    cases = made.trees.setdefault(group["partition"], {}).setdefault(keys, {})
    cases.setdefault(_case_key(entry), {**entry, "metrics": {}})["metrics"][each.metric] = bound
    made.bounds += 1


def make(opened: store.Store, *, condition: str, alarms: float, metrics: int | None, runs: int, own=()) -> Made:
    """References from all jobs that fulfil a condition. Raises Error where no series has enough of them."""
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
        raise Error(f"no series has {FEWEST} jobs of one state of the machine (the most is {most}); run more")
    # A night has one driver and compiler, whichever; a figure that was measured with several counts once.
    made.figures = len({(figure.group["partition"], figure.profiler, figure.each.key) for figure in figures})
    tail = alarms / ((metrics or made.figures) * runs)
    if not 1e-8 <= tail <= 0.25:
        raise Error(f"{alarms:g} false alarms a night are {tail:.2g} a figure; choose between 1e-8 and 0.25 a figure")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    for figure in figures:
        _hold(made, figure, tail, own, today)
    return made


def merged(path: pathlib.Path, tree: dict, fingerprints: dict) -> str:
    """The text of a file with these references in it; what is there of other cases and metrics stays."""
    old, known = read_measured(path)
    for keys, cases in tree.items():
        for key, entry in cases.items():
            before = old.setdefault(keys, {}).setdefault(key, {**entry, "metrics": {}})
            before["metrics"] = {**before["metrics"], **entry["metrics"]}
    return render(old, {**known, **fingerprints})


def _own_entries(folder: pathlib.Path) -> list[lookup.Entry]:
    """References of the site that people wrote."""
    return [
        entry
        for path in sorted(folder.glob("*.yaml"))
        if not path.name.startswith(_MEASURED)
        for entry in lookup.load_file(path)
    ]


def update(asked) -> int:
    if asked.write and asked.emulated:
        raise Error("emulated times mean nothing, so they make no references; leave --emulated out")
    if not 0 < asked.false_alarms <= 10:
        raise Error("--false-alarms is above 0 and at most 10 a night")
    folder = site_folder(asked.site) / "references"
    known = {partition["name"] for partition in partitions(folder.parent)}
    condition = series.condition(asked.a) if asked.a else "true"
    with selection.from_arguments(asked, wanted=_WANTED) as opened:
        made = make(
            opened, condition=condition, alarms=asked.false_alarms, metrics=asked.metrics, runs=asked.runs,
            own=_own_entries(folder),
        )  # fmt: skip
    if strange := sorted(set(made.trees) - known):
        raise Error(f"the records are of partition {strange[0]!r}; {asked.site} has {', '.join(sorted(known))}")
    changed = 0
    for partition, tree in sorted(made.trees.items()):
        path = folder / f"{_MEASURED}{re.sub(r'[^A-Za-z0-9._-]', '_', partition)}.yaml"
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = merged(path, tree, made.fingerprints)
        shown = os.path.relpath(path)
        difference = list(
            difflib.unified_diff(
                before.splitlines(keepends=True), after.splitlines(keepends=True),
                shown if before else "/dev/null", shown,
            )
        )  # fmt: skip
        sys.stdout.writelines(difference)
        changed += bool(difference)
        if asked.write and difference:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                aside = path.with_name(f".{path.name}.part")
                aside.write_text(after, encoding="utf-8")
                aside.replace(path)
            except OSError as error:
                raise Error(f"{path}: {error.strerror}") from None
    _say(made, asked, changed)
    return exits.PASSED


def _say(made: Made, asked, changed: int) -> None:
    say = [
        f"{made.bounds} bounds: {asked.false_alarms:g} false alarms a night among {asked.metrics or made.figures} "
        f"figures that are measured {'once' if asked.runs == 1 else f'{asked.runs} times'}"
    ]
    if made.few:
        say.append(f"{len(made.few)} series have fewer than {FEWEST} jobs and get none, such as {next(iter(made.few))}")
    for why in sorted(set(made.left.values())):
        which = [label for label, reason in made.left.items() if reason == why]
        say.append(f"{len(which)} series get none, each {why}, such as {which[0]}")
    if made.one_day:
        say.append(f"{made.one_day} series have all jobs on one day, which makes noise look small; spread them")
    if not changed:
        say.append("nothing would change")
    elif not asked.write:
        say.append("nothing is written; read the diff, then add --write")
    print("\n".join(say), file=sys.stderr)


# --- check ---


def check(asked) -> int:
    folder = site_folder(asked.site)
    entries = lookup.load(folder / "references")
    catalogue = _catalogue(asked.catalogue)
    told = lookup.problems(entries, catalogue)
    missing = _missing_of_records(asked, entries) if asked.paths else 0  # first, as it names what cannot be read
    for problem in told:
        print(problem)
    held = [entry for entry in entries if entry.metrics]
    print(f"{len(held)} entries with references, {len(entries) - len(held)} with shares of limits")
    if not asked.paths:
        missing = _missing_of_catalogue(folder, entries, catalogue)
    return exits.FOUND if told or missing else exits.PASSED


def _catalogue(path) -> dict:
    path = pathlib.Path(path or pathlib.Path(__file__).resolve().parents[3] / "reframe/checks/catalogue.json")
    try:
        catalogue = json.loads(path.read_text(encoding="utf-8"))
        return {key: catalogue[key] for key in ("sizes", "modes", "workloads")}
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        raise Error(f"{path}: no catalogue of workloads ({error}); name one with --catalogue") from None


def _missing_of_catalogue(folder, entries, catalogue) -> int:
    """Workloads of the catalogue that no entry holds, by partition."""
    missing = 0
    for partition in partitions(folder):
        known = {"partition": partition["name"]} | ({"arch": partition["arch"]} if partition["arch"] else {})
        without = [
            workload["name"]
            for workload in catalogue["workloads"]
            if not any(entry.metrics and entry.holds({**known, "workload": workload["name"]}) for entry in entries)
        ]
        missing += len(without)
        total = len(catalogue["workloads"])
        print(f"{partition['name']}: {total - len(without)} of {total} workloads of the catalogue have a reference")
        for name in without:
            print(f"  none: {name}")
    return missing


def _missing_of_records(asked, entries) -> int:
    """Figures of these records that no reference holds, by workload; a limit that bounds some is told."""
    fields = ("workload", "version", "mode", "placement", "staging", "size", "preset", "ranks", *_KEYS)
    with selection.from_arguments(asked, wanted=_WANTED) as opened:
        rows = opened.rows(
            f"SELECT {', '.join(fields)}, axes, metric, profiler, any_value(share) AS share FROM measurements "
            f"WHERE metric IS NOT NULL AND better IS NOT NULL AND {series.COUNTS} "
            f"GROUP BY {', '.join(fields)}, axes, metric, profiler ORDER BY ALL"
        )
    counted: dict[tuple[str, str], list] = {}
    for row in rows:
        case = {field: "" if row[field] is None else str(row[field]) for field in (*fields, "profiler")}
        case["ranks"] = case["ranks"] or "1"
        found = lookup.find(entries, case, json.loads(row["axes"] or "{}"))
        total = counted.setdefault((row["partition"], row["workload"]), [0, 0, set()])
        total[0] += 1
        if row["metric"] not in found:
            total[1] += 1
            total[2].add(row["metric"] + (" (bounded by a limit)" if row["share"] is not None else ""))
    missing = 0
    for (partition, workload), (total, without, names) in sorted(counted.items()):
        if without:
            missing += without
            shown = ", ".join(sorted(names)[:4]) + (" …" if len(names) > 4 else "")
            where = spelling.printable(partition) or "(no partition)"
            print(f"{where}: {workload}: {without} of {total} figures have none: {shown}")
    print(f"{len(rows) - missing} of {len(rows)} figures have a reference")
    return missing


# --- the command ---


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples: isthmus references update results --site generic --from 2026-11-01.. --metric '*_rate'\n"
        "          isthmus references check --site generic\n"
        "exit codes: 0 done, or all have one; 1 something has none, or cannot hold; 2 bad input, nothing was done"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    does = {"update": "make references from kept records", "check": "say what has none, and what cannot hold"}
    for name, text in does.items():
        action = actions.add_parser(name, help=text, description=text, formatter_class=argparse.HelpFormatter)
        action.add_argument("--site", required=True, help="its folder in site-configs/, or a path")
        if name == "update":
            selection.add_arguments(action)
            action.add_argument("--from", dest="a", metavar="WHAT", help="which jobs: FIELD=VALUE,…, a day or FROM..TO")
            action.add_argument(
                "--false-alarms", type=float, default=FALSE_ALARMS, metavar="N",
                help=f"a night, of all figures together ({FALSE_ALARMS})",
            )  # fmt: skip
            action.add_argument(
                "--metrics", type=units.count, metavar="N", help="figures of a night (default: those found)"
            )
            action.add_argument(
                "--runs", type=units.count, default=1, metavar="N", help="how often a night measures each (1)"
            )
            action.add_argument("--write", action="store_true", help="apply the diff")
        else:
            action.add_argument("paths", nargs="*", metavar="DIR", help="records whose figures are asked for")
            selection.add_selection(action)
            action.add_argument("--catalogue", metavar="FILE", help="list of workloads (of this tree)")


def run(asked) -> int:
    return update(asked) if asked.action == "update" else check(asked)
