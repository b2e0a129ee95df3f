"""Figures and tables of the papers that the records show: papers/exhibits.md, written by papers/exhibits.

`load(path)` reads the table of exhibits (papers/data/published/exhibits.yaml, whose head describes its format), and
`page()` compares it with the records of some folders. A part is present if every combination that it names has a valid
figure.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from isthmus import Error, spelling
from isthmus.records import store
from isthmus.references import lookup
from isthmus.statistics import series
from isthmus.tables import output, readings

#: Verdicts on an exhibit, best first.
VERDICTS = ("in full", "as far as possible", "in part", "not yet", "impossible here")
_FIELDS = (*output.CASE, "device")
_KINDS = ("records", "missing", "impossible")
_PROFILED = "profiled_"
#: Observer of runs that read the driver's event queue, and SQL that selects their metrics. Times of such runs are shown
#: as observed times.
_WATCHED, _OF_WATCHING = "uvm", "starts_with(metric, 'uvm_') OR starts_with(workload, 'faults/')"
#: Name of a metric that stands for a complete table of batches: it has a row for every batch of the record's first
#: samples, with what moved in the batch. A truncated table has fewer rows than the record counts batches.
EVERY_BATCH = "uvm_every_batch"
_HAS_EVERY_BATCH = (
    "metric = 'uvm_batches' AND n_invalid = 0 AND len(list_filter(tables, lambda t: t.name = 'uvm_batches' "
    "AND list_contains(t.columns, 'transfer') AND list_contains([list_sum(samples[1:1]), list_sum(samples[1:2]), "
    "list_sum(samples[1:3])], t.rows::DOUBLE))) > 0"
)


@dataclasses.dataclass(frozen=True)
class Part:
    """Part of an exhibit: the records that would show it, or why there are no such records."""

    what: str
    kind: str  # one of _KINDS
    why: str = ""
    wanted: tuple[tuple[str, tuple], ...] = ()  # field or axis, with the values that must all be present
    runs: int = 1  # number of separate processes, in one job or several


@dataclasses.dataclass(frozen=True)
class Exhibit:
    name: str
    what: str
    parts: tuple[Part, ...]
    notebook: str | None


@dataclasses.dataclass(frozen=True)
class Paper:
    name: str
    title: str
    exhibits: tuple[Exhibit, ...]


@dataclasses.dataclass(frozen=True)
class Found:
    """Coverage of a part: how many of its combinations have figures, and which figures are missing."""

    part: Part
    there: int
    of: int
    lacking: str
    files: frozenset[str] = frozenset()  # a few files that together contain everything that is present
    cases: tuple[dict[str, Any], ...] = ()  # fields, axes and metric of each case without a figure

    @property
    def whole(self) -> bool:
        return self.part.kind == "records" and self.there == self.of


# --- the table ---


def load(path) -> list[Paper]:
    """Returns the papers in a file. Raises Error, which names the exhibit, if the file has the wrong format."""
    path = pathlib.Path(path)
    try:
        read = lookup.read_yaml(path)
        papers = [_paper(each) for each in read["papers"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise Error(f"{path}: not a table of exhibits ({error}); see the head of papers/data/published") from None
    if not papers:
        raise Error(f"{path}: no paper in it, as in a file that was cut short; see the head of papers/data/published")
    return papers


def _refuse_unknown(read: dict[str, Any], known: Iterable[str], where: str) -> None:
    if unknown := [key for key in read if key not in known]:
        raise Error(f"{where}: {unknown[0]!r} is not known here{spelling.did_you_mean(unknown[0], known)}")


def _paper(read: dict[str, Any]) -> Paper:
    _refuse_unknown(read, ("name", "title", "exhibits", "notebook"), str(read["name"]))
    exhibits = []
    for each in read["exhibits"]:
        name = f"{read['name']}, {each['exhibit']}"
        _refuse_unknown(each, ("exhibit", "what", "parts", "notebook"), name)
        parts = tuple(_part(part, name) for part in each["parts"])
        if not parts:
            raise Error(f"{name}: no part; say what it shows")
        exhibits.append(Exhibit(each["exhibit"], each["what"], parts, each.get("notebook", read.get("notebook"))))
    names = [exhibit.name for exhibit in exhibits]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Error(f"{read['name']}: {twice} appears twice")
    return Paper(read["name"], read["title"], tuple(exhibits))


def _part(read: dict[str, Any], name: str) -> Part:
    kinds = [kind for kind in _KINDS if kind in read]
    unknown = sorted(set(read) - {"what", "runs", *_KINDS})
    if len(kinds) != 1 or unknown:
        raise Error(f"{name}: a part has `what` and one of {', '.join(_KINDS)}{'; not ' if unknown else ''}"
                    f"{', '.join(unknown)}")  # fmt: skip
    [kind] = kinds
    if kind != "records":
        return Part(read["what"], kind, str(read[kind]))
    wanted = {field: tuple(value) if isinstance(value, list) else (value,) for field, value in read[kind].items()}
    if not {"workload", "metric"} <= set(wanted):
        raise Error(f"{name}: records are chosen by workload and metric at least")
    return Part(read["what"], kind, "", tuple(wanted.items()), int(read.get("runs", 1)))


# --- the records ---


def measured(paths) -> list[dict[str, Any]]:
    """Returns the fields and axes of each series, with the number of its runs (`_runs`) and the files that contain it
    (`_files`)."""
    wanted = {
        *_FIELDS,
        "axes",
        "job",
        "process",
        "profiler",
        "median",
        "invalid",
        "error",
        "skipped",
        "verify",
        "node",
        "file",
        "samples",
        "n_invalid",
        "tables",
    }
    with store.open_store(paths, wanted=wanted, profiled=True) as opened:
        names = ", ".join(f'"{name}"' for name in _FIELDS)
        rows = opened.rows(
            f"SELECT {names}, axes, count(DISTINCT (job, process)) AS _runs, list_distinct(list(file)) AS _files "
            f"FROM (SELECT * REPLACE (unnest(CASE WHEN {_HAS_EVERY_BATCH} THEN [metric, '{EVERY_BATCH}'] "
            f"ELSE [metric] END) AS metric) FROM measurements) WHERE metric IS NOT NULL AND {series.COUNTS} "
            f"AND (profiler IS NULL OR starts_with(metric, '{_PROFILED}') OR (profiler = '{_WATCHED}' AND "
            f"({_OF_WATCHING}))) GROUP BY {names}, axes"
        )
    return [json.loads(row["axes"] or "{}") | row for row in rows]


def _fitting(rows: list[dict[str, Any]], name: str, wanted) -> list[dict[str, Any]]:
    """Returns the rows whose field matches `wanted`. There are few values and many rows, so each value is tested only
    once."""
    fits = {value: readings.matches(value, wanted) for value in {row.get(name) for row in rows}}
    return [row for row in rows if fits[row.get(name)]]


def _combinations(rows: list[dict[str, Any]], several: list[tuple[str, tuple]]) -> Iterator[tuple[dict, list]]:
    """Yields every combination of the values of some fields, with the rows that have these values."""
    if not several:
        yield {}, rows
        return
    (name, values), *others = several
    for value in values:
        for pairs, fitting in _combinations(_fitting(rows, name, value), others):
            yield {name: value} | pairs, fitting


def find(part: Part, rows: list[dict[str, Any]]) -> Found:
    """Returns the coverage of a part by the rows of measured()."""
    if part.kind != "records":
        return Found(part, 0, 0, part.why)
    single = [(name, values[0]) for name, values in part.wanted if len(values) == 1]
    several = {name: values for name, values in part.wanted if len(values) > 1}
    near = [row for row in rows if row["_runs"] >= part.runs]
    for name, value in single:
        near = _fitting(near, name, value)
    there: list[dict[str, Any]] = []
    lacking: list[dict[str, Any]] = []
    files: list[set[str]] = []
    for pairs, fitting in _combinations(near, list(several.items())):
        (there if fitting else lacking).append(pairs)
        files.append({"/".join(pathlib.PurePath(file).parts[-2:]) for row in fitting for file in row["_files"]})
    cases = tuple(dict(single) | pairs for pairs in lacking)
    return Found(part, len(there), len(there) + len(lacking), _summary(there, lacking, several), _few(files), cases)


def _few(files: list[set[str]]) -> frozenset[str]:
    """Returns a small selection of files, with a file for each combination that has files. Files that cover most
    combinations are selected first."""
    chosen = set()
    left = [each for each in files if each]
    while left:
        having = collections.Counter(itertools.chain(*left))
        best = max(having, key=lambda file: (having[file], file))
        chosen.add(best)
        left = [each for each in left if best not in each]
    return frozenset(chosen)


def _summary(there: list[dict[str, Any]], lacking: list[dict[str, Any]], several: dict[str, tuple]) -> str:
    """Returns a text on what is lacking: first the values without any figure, then other combinations."""
    if not there or not lacking:
        return ""
    some = _occurring(several, there)
    none = {name: [value for value in several[name] if value not in some[name]] for name in several}
    said = [_values(name, values) for name, values in none.items() if values]
    rest = [pairs for pairs in lacking if all(pairs[name] in some[name] for name in pairs)]
    if rest:
        left = _occurring(some, rest)
        exact = len(rest) == math.prod(map(len, left.values()))
        # A field is omitted if combinations are lacking at all its values, because listing these says nothing.
        named = [_values(name, values) for name, values in left.items() if len(values) < len(some[name])]
        words = " with ".join(named) or "the others"
        said.append(words if exact else f"some of {words}")
    return "; ".join(said)


def _occurring(values: Mapping[str, Iterable], combinations: list[dict[str, Any]]) -> dict[str, list]:
    """Returns, for each field, the values that at least one of the combinations has."""
    return {
        name: [value for value in those if any(pairs[name] == value for pairs in combinations)]
        for name, those in values.items()
    }


def _values(name: str, values: list) -> str:
    return f"{name} {', '.join(map(str, values[:4]))}{', …' if values[4:] else ''}"


def verdict(found: list[Found]) -> str:
    """Returns the verdict on an exhibit, one of VERDICTS."""
    could = [each for each in found if each.part.kind != "impossible"]
    if not could:
        return "impossible here"
    if all(each.whole for each in could):
        return "in full" if len(could) == len(found) else "as far as possible"
    return "in part" if any(each.there for each in found) else "not yet"


# --- the page ---


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


def _said(found: Found) -> str:
    part = found.part
    if part.kind != "records":
        return f"✗ {part.what}: {'impossible: ' if part.kind == 'impossible' else ''}{found.lacking}"
    runs = f", {part.runs} runs each" if part.runs > 1 else ""
    if found.whole:
        return f"✓ {part.what}{f' ({found.of} cases{runs})' if found.of > 1 else ''}"
    if not found.there:
        return f"✗ {part.what}: no record{f' of {part.runs} runs' if part.runs > 1 else ''}"
    return f"◐ {part.what}: {found.there} of {found.of} cases{runs}; no record of {found.lacking}"


def _table(paper: Paper, rows: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Returns a paper's table as lines of Markdown, and the verdicts on its exhibits."""
    lines = [f"## {paper.title}", "", "| exhibit | what it shows | here | |", "|---|---|---|---|"]
    verdicts = []
    for exhibit in paper.exhibits:
        found = [find(part, rows) for part in exhibit.parts]
        verdicts.append(verdict(found))
        drawn = exhibit.notebook and verdicts[-1] in VERDICTS[:3]
        where = f"[{verdicts[-1]}](notebooks/{exhibit.notebook}.ipynb)" if drawn else verdicts[-1]
        parts = "<br>".join(_said(each) for each in found)
        if files := sorted(set().union(*(each.files for each in found))):
            parts += f"<br>from {', '.join(f'`{file}`' for file in files)}"
        lines.append(f"| {exhibit.name} | {_cell(exhibit.what)} | {where} | {_cell(parts)} |")
    return [*lines, ""], verdicts


HEAD = """# What is reproduced of the papers

For readers of the papers who want to know which of their figures and tables Isthmus has repeated, from which records,
and what is missing. `papers/exhibits` makes this page from the committed records ([`papers/data`](data/README.md)) and
the table of exhibits ([`exhibits.yaml`](data/published/exhibits.yaml)); a test fails if it is stale.

- **in full**: every part was measured here.
- **as far as possible**: what can be measured here was measured; the rest is impossible here, with the reason.
- **in part**: some parts were measured (✓) and some were not (✗, ◐), each with what is missing. The files that have the
  records come last in a row; [their page](data/README.md) has the commands that made them.
- **not yet**: nothing was measured, although it could be. `papers/exhibits --missing` prints the commands.
- **impossible here**: the hardware, software or data that it needs is not available here; the reason is next to it.

`isthmus figure NAME RECORDS -o FILE` draws a figure of the notebooks from any records; `--list` has the names. The
kernels ran on NVIDIA H100 and H200 hosts and on a CPU-only machine; each record names its machine.
"""


def page(papers: list[Paper], rows: list[dict[str, Any]]) -> str:
    """Returns the page as Markdown."""
    tables = [_table(paper, rows) for paper in papers]
    counts = [[verdicts.count(verdict) for verdict in VERDICTS] for _, verdicts in tables]
    lines = [HEAD, f"| paper | exhibits | {' | '.join(VERDICTS)} |", "|---|" + "---:|" * (len(VERDICTS) + 1)]
    for paper, row in zip(papers, counts, strict=True):
        lines.append(f"| {_cell(paper.name)} | {sum(row)} | {' | '.join(map(str, row))} |")
    total = [sum(column) for column in zip(*counts, strict=True)]
    lines += [f"| **all** | **{sum(total)}** | " + " | ".join(f"**{count}**" for count in total) + " |", ""]
    for table, _ in tables:
        lines += table
    return "\n".join(lines).rstrip("\n") + "\n"
