"""Figures and tables of the papers that the records show: papers/exhibits.md, written by papers/exhibits.

`load(path)` reads the table of exhibits (papers/data/published/exhibits.yaml, whose head describes its format), and
`page()` compares it with the records of some folders. A part is present if every combination that it names has a valid
figure. An exhibit is reproduced in full only if it also meets four rules (`rules()`): one host has all of its cases,
each case has enough processes and samples, a figure draws it, and every value that the paper states about it is judged.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from isthmus import Error, spelling
from isthmus.records import store
from isthmus.references import lookup
from isthmus.statistics import series
from isthmus.tables import output, readings
from isthmus_papers import published

#: Verdict on each stated value, keyed by its id.
Verdicts = Mapping[str, str]
#: Verdicts on an exhibit, best first.
VERDICTS = ("in full", "as far as possible", "in part", "not yet", "impossible here")
_FIELDS = (*output.CASE, "device")
_KINDS = ("records", "missing", "impossible")
_RULES = {"any_host": str, "processes": int, "samples": int, "drawn": str}
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
    """Figure or table of a paper, with the rules that hold for it."""

    name: str
    what: str
    parts: tuple[Part, ...]
    notebook: str | None = None
    any_host: str = ""  # why its cases may come from different hosts
    processes: int = 1  # minimum number of processes per case
    samples: int = 1  # minimum number of valid samples per case, over its processes
    drawn: str = ""  # figure of `isthmus figure` or section of the notebook, with the axes of the paper


@dataclasses.dataclass(frozen=True)
class Paper:
    name: str
    title: str
    exhibits: tuple[Exhibit, ...]
    stated: str = ""  # stem of the file in papers/data/published with the values that it states


@dataclasses.dataclass(frozen=True)
class Behind:
    """Records that one host has of a case or of several: the fewest processes and samples, the days, and the files."""

    processes: int
    samples: int
    first: date | None
    last: date | None
    files: frozenset[str]

    @classmethod
    def all_of(cls, several: Iterable[Behind]) -> Behind:
        """Returns what is behind several cases together."""
        each = list(several)
        days = [day for one in each for day in (one.first, one.last) if day]
        return cls(
            min((one.processes for one in each), default=0), min((one.samples for one in each), default=0),
            min(days, default=None), max(days, default=None), frozenset().union(*(one.files for one in each)),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Found:
    """Coverage of a part: how many of its combinations have figures, which figures are missing, and which hosts have
    each combination."""

    part: Part
    there: int
    of: int
    lacking: str
    cases: tuple[dict[str, Any], ...] = ()  # fields, axes and metric of each case without a figure
    behind: tuple[dict[str, Behind], ...] = ()  # of each combination with figures, by host

    @property
    def whole(self) -> bool:
        return self.part.kind == "records" and self.there == self.of

    @property
    def hosts(self) -> set[str]:
        """Hosts that have every combination that has figures."""
        return set.intersection(*map(set, self.behind)) if self.behind else set()

    def on(self, hosts: set[str]) -> Behind:
        """Returns what is behind the part on those of `hosts` that have most of each combination."""
        chosen = []
        for by_host in self.behind:
            of = [by_host[host] for host in sorted(hosts & set(by_host))] or list(by_host.values())
            chosen.append(max(of, key=lambda each: (each.processes, each.samples)))
        return Behind.all_of(chosen)

    @property
    def files(self) -> frozenset[str]:
        """A few files that together contain everything that is present."""
        return _few([set().union(*(each.files for each in by_host.values())) for by_host in self.behind])


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
    _refuse_unknown(read, ("name", "title", "exhibits", "notebook", "stated"), str(read["name"]))
    exhibits = []
    for each in read["exhibits"]:
        name = f"{read['name']}, {each['exhibit']}"
        _refuse_unknown(each, ("exhibit", "what", "parts", "notebook", *_RULES), name)
        parts = tuple(_part(part, name) for part in each["parts"])
        if not parts:
            raise Error(f"{name}: no part; say what it shows")
        notebook = each.get("notebook", read.get("notebook"))
        rules = {rule: kind(each[rule]) for rule, kind in _RULES.items() if rule in each}
        exhibits.append(Exhibit(each["exhibit"], each["what"], parts, notebook, **rules))
    names = [exhibit.name for exhibit in exhibits]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Error(f"{read['name']}: {twice} appears twice")
    return Paper(read["name"], read["title"], tuple(exhibits), read.get("stated", ""))


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
    """Returns the fields and axes of each series on each host: the host (`_host`), the numbers of processes and valid
    samples (`_processes`, `_samples`), the first and last day (`_first`, `_last`), and the files that contain it
    (`_files`)."""
    wanted = {
        *_FIELDS, "axes", "job", "process", "profiler", "median", "invalid", "error", "skipped", "verify", "node",
        "time", "file", "samples", "n_samples", "n_invalid", "tables",
    }  # fmt: skip
    with store.open_store(paths, wanted=wanted, profiled=True) as opened:
        names = ", ".join(f'"{name}"' for name in _FIELDS)
        rows = opened.rows(
            f"SELECT {names}, axes, node AS _host, count(DISTINCT (job, process)) AS _processes, "
            "sum(n_samples - n_invalid)::BIGINT AS _samples, min(time)::DATE AS _first, max(time)::DATE AS _last, "
            f"list_distinct(list(file)) AS _files "
            f"FROM (SELECT * REPLACE (unnest(CASE WHEN {_HAS_EVERY_BATCH} THEN [metric, '{EVERY_BATCH}'] "
            f"ELSE [metric] END) AS metric) FROM measurements) WHERE metric IS NOT NULL AND {series.COUNTS} "
            f"AND (profiler IS NULL OR starts_with(metric, '{_PROFILED}') OR (profiler = '{_WATCHED}' AND "
            f"({_OF_WATCHING}))) GROUP BY {names}, axes, node"
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
    near = [row for row in rows if row["_processes"] >= part.runs]
    for name, value in single:
        near = _fitting(near, name, value)
    there: list[dict[str, Any]] = []
    lacking: list[dict[str, Any]] = []
    behind: list[dict[str, Behind]] = []
    for pairs, fitting in _combinations(near, list(several.items())):
        (there if fitting else lacking).append(pairs)
        if fitting:
            behind.append(_by_host(fitting))
    cases = tuple(dict(single) | pairs for pairs in lacking)
    return Found(part, len(there), len(there) + len(lacking), _summary(there, lacking, several), cases, tuple(behind))


def _by_host(rows: list[dict[str, Any]]) -> dict[str, Behind]:
    """Returns, for each host, what it has of a case: of its series, the one with most processes and samples."""
    found: dict[str, Behind] = {}
    for row in rows:
        files = frozenset("/".join(pathlib.PurePath(file).parts[-2:]) for file in row["_files"])
        each = Behind(row["_processes"], row["_samples"] or 0, row["_first"], row["_last"], files)
        last = found.get(row["_host"])
        if last is None or (each.processes, each.samples) > (last.processes, last.samples):
            found[row["_host"]] = each
    return found


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


@dataclasses.dataclass(frozen=True)
class Rule:
    """Rule for an exhibit: whether it is met, and a text on what is behind the exhibit or what it lacks."""

    met: bool
    text: str


def rules(exhibit: Exhibit, found: list[Found], stated: list[published.Figure], judged: Verdicts) -> list[Rule]:
    """Returns the four rules for an exhibit with at least one record. `stated` are the values that its paper states
    about it, and `judged` the verdicts of its notebook."""
    parts = [each for each in found if each.behind]
    alone = set.intersection(*(each.hosts for each in parts))
    hosts = alone or set().union(*(by_host for each in parts for by_host in each.behind))
    if alone:
        # Of the hosts that have everything, the one with most processes and samples, then the last one.
        of = {host: Behind.all_of(each.on({host}) for each in parts) for host in alone}
        host = max(of, key=lambda each: (of[each].processes, of[each].samples, str(of[each].last), str(each)))
        behind, hosts = of[host], {host}
    else:
        behind = Behind.all_of(each.on(hosts) for each in parts)
    files = sorted(behind.files if alone else set().union(*(each.files for each in parts)))
    days = " to ".join(dict.fromkeys(str(day) for day in (behind.first, behind.last)))
    named = f"host {next(iter(hosts))}" if alone else f"{len(hosts)} hosts"
    if not alone:
        named += f", as {exhibit.any_host}" if exhibit.any_host else ", none of which has all of these cases"
    return [
        Rule(bool(alone or exhibit.any_host), f"{named}; {days}; from {', '.join(f'`{file}`' for file in files)}"),
        _enough(exhibit, behind),
        Rule(bool(exhibit.drawn), f"drawn by `{exhibit.drawn}`" if exhibit.drawn else "not drawn on the paper's axes"),
        _judged(stated, judged),
    ]


def _enough(exhibit: Exhibit, behind: Behind) -> Rule:
    met = behind.processes >= exhibit.processes and behind.samples >= exhibit.samples
    text = f"at least {_counts(behind.processes, behind.samples)} per case"
    return Rule(met, text if met else f"{text}; {_counts(exhibit.processes, exhibit.samples)} are required")


def _counts(processes: int, samples: int) -> str:
    return f"{processes} process{'' if processes == 1 else 'es'} and {spelling.counted(samples, 'sample')}"


def _judged(stated: list[published.Figure], judged: Verdicts) -> Rule:
    if not stated:
        return Rule(True, "the text states no figure")
    verdicts = [judged.get(each.id, "no record") for each in stated]
    counts = collections.Counter(verdicts)
    lacking = [each.id for each, verdict in zip(stated, verdicts, strict=True) if verdict == "no record"]
    text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in published.VERDICTS if counts[verdict])
    return Rule(not lacking, f"stated: {text}" + (f" ({', '.join(lacking)})" if lacking else ""))


def verdicts_of(notebook: pathlib.Path) -> Verdicts:
    """Returns the verdicts in the outputs of a notebook. Raises Error if it cannot be read or has not been run."""
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise Error(f"{notebook}: not a notebook ({error}); run scripts/notebooks {notebook.stem}") from None
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    return {name: verdict for each in data for name, verdict in each.get(published.MIME, {}).items()}


def verdict(found: list[Found], kept: Iterable[Rule] = ()) -> str:
    """Returns the verdict on an exhibit, one of VERDICTS, given the rules that hold for it."""
    could = [each for each in found if each.part.kind != "impossible"]
    if not could:
        return "impossible here"
    if all(each.whole for each in could) and all(rule.met for rule in kept):
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


@dataclasses.dataclass(frozen=True)
class Sources:
    """Sources of the page in addition to the table of exhibits: the rows of measured(), the values that each
    paper states, and the verdicts of each notebook."""

    rows: list[dict[str, Any]]
    stated: Mapping[str, Mapping[str, published.Figure]] = dataclasses.field(default_factory=dict)
    judged: Mapping[str, Verdicts] = dataclasses.field(default_factory=dict)

    def rules(self, paper: Paper, exhibit: Exhibit, found: list[Found]) -> list[Rule]:
        """Returns the rules for an exhibit; none if no record shows any of it."""
        if not any(each.behind for each in found):
            return []
        number = exhibit.name.removeprefix("Figure ")
        stated = [each for each in self.stated.get(paper.stated, {}).values() if each.figure.rstrip("abcdef") == number]
        return rules(exhibit, found, stated, self.judged.get(exhibit.notebook or "", {}))


def read_sources(papers: list[Paper], rows: list[dict[str, Any]], root: pathlib.Path) -> Sources:
    """Returns the sources of the page; `root` is the folder papers/."""
    stated = {each.stated: published.load(root / f"data/published/{each.stated}.csv") for each in papers if each.stated}
    names = sorted({exhibit.notebook for paper in papers for exhibit in paper.exhibits if exhibit.notebook})
    return Sources(rows, stated, {name: verdicts_of(root / f"notebooks/{name}.ipynb") for name in names})


def _table(paper: Paper, sources: Sources) -> tuple[list[str], list[str]]:
    """Returns a paper's table as lines of Markdown, and the verdicts on its exhibits."""
    lines = [
        f"## {paper.title}", "", "| exhibit | what it shows | here | parts | behind it |", "|---|---|---|---|---|"
    ]  # fmt: skip
    verdicts = []
    for exhibit in paper.exhibits:
        found = [find(part, sources.rows) for part in exhibit.parts]
        kept = sources.rules(paper, exhibit, found)
        verdicts.append(verdict(found, kept))
        drawn = exhibit.notebook and verdicts[-1] in VERDICTS[:3]
        where = f"[{verdicts[-1]}](notebooks/{exhibit.notebook}.ipynb)" if drawn else verdicts[-1]
        parts = "<br>".join(_said(each) for each in found)
        behind = [f"{'✓' if rule.met else '✗'} {rule.text}" for rule in kept]
        cells = [exhibit.name, _cell(exhibit.what), where, _cell(parts), _cell("<br>".join(behind))]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""], verdicts


HEAD = """# What is reproduced of the papers

For readers of the papers who want to know which of their figures and tables Isthmus has repeated, from which records,
and what is missing. `papers/exhibits` makes this page from the committed records ([`papers/data`](data/README.md)), the
table of exhibits ([`exhibits.yaml`](data/published/exhibits.yaml)) and the notebooks; a test fails if it is stale.

- **in full**: every part was measured here (✓), and the exhibit meets four rules. One host has all of its cases. Each
  case has as many processes and samples as the table of exhibits requires. A figure draws it on the axes of the paper.
  Every value that the paper's text states about it is judged.
- **as far as possible**: the same for everything that can be measured here; the rest is impossible here, with the
  reason.
- **in part**: some parts were not measured (✗, ◐), or a rule is not met (✗), each with what is missing. [The
  records' page](data/README.md) has the commands that made the files that a row names.
- **not yet**: nothing was measured, although it could be. `papers/exhibits --missing` prints the commands.
- **impossible here**: the hardware, software or data that it needs is not available here; the reason is next to it.

`isthmus figure NAME RECORDS -o FILE` draws a figure of the notebooks from any records; `--list` has the names. The
kernels ran on NVIDIA H100 and H200 hosts and on a CPU-only machine; each record names its machine.
"""


def page(papers: list[Paper], sources: Sources) -> str:
    """Returns the page as Markdown."""
    tables = [_table(paper, sources) for paper in papers]
    counts = [[verdicts.count(verdict) for verdict in VERDICTS] for _, verdicts in tables]
    lines = [HEAD, f"| paper | exhibits | {' | '.join(VERDICTS)} |", "|---|" + "---:|" * (len(VERDICTS) + 1)]
    for paper, row in zip(papers, counts, strict=True):
        lines.append(f"| {_cell(paper.name)} | {sum(row)} | {' | '.join(map(str, row))} |")
    total = [sum(column) for column in zip(*counts, strict=True)]
    lines += [f"| **all** | **{sum(total)}** | " + " | ".join(f"**{count}**" for count in total) + " |", ""]
    for table, _ in tables:
        lines += table
    return "\n".join(lines).rstrip("\n") + "\n"
