"""References for a site's figures: `update` makes them from records, `check` lists figures without one.

`update` prints the changes as a diff for a person to read; --write applies them. Bounds are as wide as jobs on a
machine in one state vary, so that all figures of a night together raise a stated number of false alarms. A reference
needs at least 8 jobs, which should be spread over several days. docs/references.md explains files and bounds.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import os
import pathlib
import re
import sys

from isthmus import Error, exits, inputs, spelling, units
from isthmus.records import selection
from isthmus.references import bounds, generation, lookup, measured, site_tree
from isthmus.statistics import series
from isthmus.tables import output
from isthmus.verdicts import outlying

FALSE_ALARMS = 0.1  # default number of false alarms per night, over all figures together


def _places(site: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders that contain a site's references, given the site's folder."""
    return lookup.folders(site / "reframe.py")


def _entries(site: pathlib.Path, opened: set[pathlib.Path] | None = None) -> tuple[lookup.Entry, ...]:
    """Returns a site's references, given the site's folder; adds the files that it reads to `opened`."""
    return lookup.load(*_places(site), opened=opened)


def _own_entries(site: pathlib.Path) -> list[lookup.Entry]:
    """Returns the site's references that were written by people rather than by `update`."""
    return [entry for entry in _entries(site) if not entry.path.name.startswith(measured.PREFIX)]


def update(asked) -> int:
    if asked.write and asked.emulated:
        raise Error("emulated times mean nothing, so they make no references; leave --emulated out")
    if not 0 < asked.false_alarms <= 10:
        raise Error("--false-alarms must be above 0 and at most 10 per night")
    folder = site_tree.site_folder(asked.site) / "references"
    known = {partition.name for partition in site_tree.partitions(folder.parent)}
    own = _own_entries(folder.parent)
    condition = series.condition(asked.a) if asked.a else "true"
    with selection.from_arguments(asked, wanted=generation.WANTED) as opened:
        made = generation.make(
            opened, condition=condition, alarms=asked.false_alarms, metrics=asked.metrics, runs=asked.runs,
            own=own,
        )  # fmt: skip
    if strange := sorted(set(made.trees) - known):
        raise Error(f"the records are of partition {strange[0]!r}; {asked.site} has {', '.join(sorted(known))}")
    changed = 0
    for partition, tree in sorted(made.trees.items()):
        path = folder / f"{measured.PREFIX}{re.sub(r'[^A-Za-z0-9._-]', '_', partition)}.yaml"
        after = measured.merged(path, tree, made.fingerprints)
        before = inputs.read_small(path).decode() if path.exists() else ""
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
            folder.mkdir(parents=True, exist_ok=True)
            output.deliver(after, str(path), updates=True)
    _say(made, asked, changed)
    return exits.PASSED


def _say(made: generation.Made, asked, changed: int) -> None:
    say = [
        f"{spelling.counted(made.bounds, 'bound')}: {asked.false_alarms:g} false alarms per night among "
        f"{asked.metrics or made.figures} figures that are measured "
        f"{'once' if asked.runs == 1 else f'{asked.runs} times'}"
    ]
    if made.few:
        say.append(
            f"{len(made.few)} series have fewer than {bounds.FEWEST} jobs, so they get no reference, such as "
            f"{next(iter(made.few))}"
        )
    for why in sorted(set(made.left.values())):
        which = [label for label, reason in made.left.items() if reason == why]
        say.append(f"{len(which)} series get no reference, because each {why}, such as {which[0]}")
    say += outlying.in_words(made.out)
    if made.wide:
        label, loss = max(made.wide.items(), key=lambda each: each[1])
        say.append(
            f"{spelling.counted(len(made.wide), 'bound', 'are')} so wide that a loss of {generation.WIDE:.0%} "
            f"would pass; for {label} even a loss of {loss:.0%} would. Either these jobs were run in several states of "
            "the machine, or there are too few of them: `isthmus drift` and `isthmus nodes` show which, and --from "
            "selects jobs"
        )
    if made.one_day:
        say.append(f"{made.one_day} series have all jobs on one day, which makes noise look small; spread them")
    if not changed:
        say.append("nothing would change")
    elif not asked.write:
        say.append("nothing is written; read the diff, then add --write")
    print("\n".join(say), file=sys.stderr)


# --- check ---


def check(asked) -> int:
    if not asked.paths:
        selection.refuse_unused(asked, ("workload", "metric"))
    folder = site_tree.site_folder(asked.site)
    opened: set[pathlib.Path] = set()
    entries = _entries(folder, opened)
    catalogue = _catalogue(asked.catalogue)
    problems = [
        *lookup.problems(entries, catalogue), *lookup.idle(entries, site_tree.partitions(folder)),
        *lookup.never_read(_places(folder), opened),
    ]  # fmt: skip
    missing = _missing_of_records(asked, entries) if asked.paths else 0  # first, since it reports unreadable files
    for line in output.fold_each(problems):
        print(line)
    held = [entry for entry in entries if entry.metrics]
    print(f"{len(held)} entries with references, {len(entries) - len(held)} with shares of limits")
    if not asked.paths:
        missing = _missing_of_catalogue(asked, folder, entries, _selected(asked, catalogue))
    return exits.FOUND if problems or missing else exits.PASSED


def _catalogue(path) -> dict:
    path = pathlib.Path(path or site_tree.OWN / "reframe/checks/catalogue.json")
    try:
        catalogue = inputs.json_of(inputs.read_small(path))
        return {key: catalogue[key] for key in ("sizes", "modes", "workloads")}
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        why = spelling.shorten(str(getattr(error, "strerror", None) or error))
        raise Error(f"{path}: no catalogue of workloads ({why}); name one with --catalogue") from None


def _selected(asked, catalogue: dict) -> list[dict]:
    """Returns the workloads of the catalogue that --workload and --metric select.

    Raises Error if an option selects none.
    """
    workloads = catalogue["workloads"]
    if asked.workload:
        for pattern in asked.workload:
            if not any(fnmatch.fnmatchcase(each["name"], pattern) for each in workloads):
                raise Error(
                    f"{spelling.shorten(pattern, 80)!r} is not a workload of the catalogue, which lacks those that "
                    "differ between machines; name a folder with records of it (DIR)"
                )
        workloads = [each for each in workloads if _fits(each["name"], asked.workload)]
    for pattern in asked.metric or ():
        if not any(_may_report(each, [pattern]) for each in workloads):
            raise Error(
                f"{spelling.shorten(pattern, 80)!r} is not a metric of these workloads; write one that they report"
            )
    return [each for each in workloads if not asked.metric or _may_report(each, asked.metric)]


def _fits(name: str, patterns) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _may_report(workload: dict, patterns) -> bool:
    """Returns whether a workload reports a metric that matches one of the patterns, or its metrics are unknown."""
    reported = lookup.reported(workload)
    return reported is None or any(_fits(name, patterns) for name in reported)


def _missing_of_catalogue(asked, folder, entries, workloads: list[dict]) -> int:
    """Prints the catalogue's workloads without a reference for each partition, and returns their number.

    With --metric, only references for matching metrics count.
    """
    missing = 0
    held = [e for e in entries if any(not asked.metric or _fits(name, asked.metric) for name in e.metrics)]
    chosen = "selected workloads" if asked.workload or asked.metric else "workloads of the catalogue"
    for partition in site_tree.partitions(folder):
        archs = [{"arch": arch} for arch in (*partition.archs, "")] if partition.is_known else [{}]
        known = [{"partition": partition.name, **arch} for arch in archs]
        without = [
            workload["name"]
            for workload in workloads
            if not any(entry.holds({**each, "workload": workload["name"]}) for entry in held for each in known)
        ]
        missing += len(without)
        total = len(workloads)
        print(f"{partition.name}: {total - len(without)} of {total} {chosen} have a reference")
        for name in without:
            print(f"  none: {name}")
    return missing


def _missing_of_records(asked, entries) -> int:
    """Prints the figures of these records without a reference for each workload, and returns their number.

    Marks figures that have at least a bound from the share of their limit.
    """
    fields = ("workload", "version", "mode", "placement", "staging", "size", "preset", "ranks", *measured.KEYS)
    with selection.from_arguments(asked, wanted=generation.WANTED) as opened:
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
            where = partition or "(no partition)"
            print("\n".join(output.fold(f"{where}: {workload}: {without} of {total} figures have none: {shown}")))
    print(f"{len(rows) - missing} of {spelling.counted(len(rows), 'figure', 'have')} a reference")
    return missing


# --- the command ---


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples: isthmus references update results --site generic --from 2026-11-01.. --metric '*_rate'\n"
        "          isthmus references check --site generic\n"
        "exit codes: 0 done, or every figure has one; 1 some have none, or some can never apply; 2 bad input"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    does = {
        "update": "make references from kept records",
        "check": "list figures without a reference, and references that cannot apply",
    }
    for name, text in does.items():
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("--site", required=True, help="the site's folder in site-configs/, or a path")
        if name == "update":
            selection.add_arguments(action)
            action.add_argument("--from", dest="a", metavar="WHAT", help="which jobs: FIELD=VALUE,…, a day or FROM..TO")
            action.add_argument(
                "--false-alarms", type=float, default=FALSE_ALARMS, metavar="N",
                help=f"false alarms per night, over all figures ({FALSE_ALARMS})",
            )  # fmt: skip
            action.add_argument("--metrics", **units.COUNT, help="number of figures of a night (default: those found)")
            action.add_argument("--runs", **units.COUNT, default=1, help="how often a night measures each (1)")
            action.add_argument("--write", action="store_true", help="apply the diff")
        else:
            action.add_argument("paths", nargs="*", metavar="DIR", help="records whose figures are looked up")
            selection.add_selection(action)
            action.add_argument("--catalogue", metavar="FILE", help="list of workloads (default: this tree's)")


def run(asked) -> int:
    return update(asked) if asked.action == "update" else check(asked)
