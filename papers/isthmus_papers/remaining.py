"""Commands that would measure the papers' exhibits that the records lack: papers/exhibits --missing.

A case consists of the fields of a record that an exhibit names. Cases that differ in one field are merged into one
command, so that there are few commands. Each size keeps a separate command, because sizes differ in duration.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable
from typing import Any

from isthmus_papers import exhibits

_OPTIONS = ("mode", "placement", "staging", "size", "preset")
#: Number of samples, keyed by the first word of a workload's name. For other workloads the program decides.
_SAMPLES = {"microbench": 5, "apps": 5, "interjob": 5, "faults": 3}
_LONG_SAMPLES = 3
_TWO_GPUS = re.compile(r"gpu[1-9]|peers|relay")
_OBSERVERS = ("", "uvm", "uvm_brief")  # each covers those before it; the last one's tables are small enough to keep
_PROFILERS = {"profiled_cpu_page_faults": "perf", "profiled_gpu_page_faults": "nsys"}  # ncu counts all others


@dataclasses.dataclass(frozen=True)
class _How:
    """Requirements of a case in addition to its fields."""

    profiler: str = ""
    observer: str = ""
    runs: int = 1

    def covers(self, other: _How) -> bool:
        same = self.profiler == other.profiler and _OBSERVERS.index(self.observer) >= _OBSERVERS.index(other.observer)
        return same and self.runs >= other.runs


@dataclasses.dataclass
class Command:
    """Command that measures all combinations of the values in `fields`."""

    how: _How
    fields: dict[str, tuple]
    shows: list[str]

    @property
    def needs_two_gpus(self) -> bool:
        return any(_TWO_GPUS.search(str(value)) for values in self.fields.values() for value in values)

    @property
    def text(self) -> str:
        words = ["isthmus-bench", "run", *self.fields["workload"]]
        for name in _OPTIONS:
            if name in self.fields:
                words += [f"--{name}", ",".join(self.fields[name])]
        for axis, values in self.fields.items():
            if axis != "workload" and axis not in _OPTIONS:
                words += ["--set", f"{axis}={','.join(map(str, values))}"]
        if self.how.observer:
            words += ["--observe", self.how.observer]
        if self.how.runs > 1:
            words += ["--processes", str(self.how.runs)]
        if samples := self._samples():
            words += ["--samples", str(samples)]
        return shlex.join(words)

    def _samples(self) -> int | None:
        if self.how.profiler or self.how.runs > 1:
            return 1
        families = {name.split("/")[0] for name in self.fields["workload"]}
        if not families <= set(_SAMPLES):
            return None
        long = self.fields.get("size") == ("mega",) or self.fields.get("scale") == (27,)
        return min(_SAMPLES[family] for family in families) if not long else _LONG_SAMPLES


def _how(case: dict[str, Any], runs: int) -> _How:
    metric = case["metric"]
    profiler = _PROFILERS.get(metric, "ncu") if metric.startswith("profiled_") else ""
    observer = "uvm_brief" if metric == exhibits.EVERY_BATCH else "uvm" if metric.startswith("uvm_") else ""
    return _How(profiler, observer, runs)


def _needed(papers: Iterable[exhibits.Paper], rows: list[dict[str, Any]]) -> dict[tuple[_How, frozenset], list[str]]:
    """Returns each case that the records lack, with the exhibits that need it. A more specific case replaces the cases
    that it covers."""
    wanted: dict[tuple[_How, frozenset], list[str]] = {}
    for paper in papers:
        for exhibit in paper.exhibits:
            for part in exhibit.parts:
                for case in exhibits.find(part, rows).cases:
                    fields = frozenset((name, value) for name, value in case.items() if name != "metric")
                    shows = wanted.setdefault((_how(case, part.runs), fields), [])
                    if (name := f"{paper.name} {exhibit.name}") not in shows:
                        shows.append(name)
    kept = {}
    for (how, fields), shows in wanted.items():
        others = (each for each in wanted if each != (how, fields))
        more = [each for each in others if each[1] >= fields and each[0].covers(how)]
        if not more:
            kept[how, fields] = shows
        for each in more:
            wanted[each] += [name for name in shows if name not in wanted[each]]
    return kept


def _unmeasured(papers: Iterable[exhibits.Paper]) -> list[str]:
    """Returns the reasons why exhibits cannot be measured by a command. Each reason appears once, together with its
    exhibits."""
    found: dict[str, dict[str, None]] = {}
    for paper in papers:
        for exhibit in paper.exhibits:
            for part in exhibit.parts:
                if part.kind != "records":
                    why = "impossible here, " if part.kind == "impossible" else ""
                    found.setdefault(f"{part.what}: {why}{part.why}", {})[f"{paper.name} {exhibit.name}"] = None
    return [f"# {', '.join(shows)}: {what}" for what, shows in found.items()]


def _merged(commands: list[Command], name: str) -> list[Command]:
    """Returns the commands after merging those that differ only in the values of the field `name`."""
    made: dict[tuple, Command] = {}
    for each in commands:
        rest = frozenset((field, values) for field, values in each.fields.items() if field != name)
        found = made.setdefault((each.how, name in each.fields, rest), each)
        if found is not each:
            found.fields[name] = tuple(dict.fromkeys(found.fields[name] + each.fields[name]))
            found.shows += [exhibit for exhibit in each.shows if exhibit not in found.shows]
    return list(made.values())


def commands(papers: list[exhibits.Paper], rows: list[dict[str, Any]]) -> list[Command]:
    """Returns a small number of commands that measure every case that the rows of exhibits.measured() lack."""
    order = {"workload": 0, **{name: place for place, name in enumerate(_OPTIONS, 1)}}
    made = []
    for (how, fields), shows in _needed(papers, rows).items():
        ordered = sorted(fields, key=lambda pair: (order.get(pair[0], len(order)), pair[0]))
        made.append(Command(how, {name: (value,) for name, value in ordered}, list(shows)))
    axes = dict.fromkeys(name for each in made for name in each.fields if name not in order)
    for name in [*axes, "staging", "placement", "mode", "workload"]:
        made = _merged(made, name)
    places = [f"{paper.name} {exhibit.name}" for paper in papers for exhibit in paper.exhibits]
    for each in made:
        each.shows.sort(key=places.index)
    return made


def script(papers: list[exhibits.Paper], rows: list[dict[str, Any]]) -> str:
    """Returns the commands as text for a shell. Commands that need several GPUs or a profiler come last and are
    commented out."""
    made = commands(papers, rows)
    lines = ["# What the records lack of the papers' exhibits (papers/exhibits --missing)."]
    plain = [each for each in made if not each.how.profiler]
    for head, several in (("", False), ("Needs two GPUs:", True)):
        chosen = [each for each in plain if each.needs_two_gpus == several]
        lines += ["", f"# {head}"] if head and chosen else []
        for each in chosen:
            lines += ["", f"# {', '.join(each.shows)}", each.text]
    for profiler in sorted({each.how.profiler for each in made} - {""}):
        lines += ["", f"# Needs {profiler}, a run for each case: scripts/run-checks -S profiler={profiler}",
                  "# (docs/profiling.md). The cases:"]  # fmt: skip
        for each in made:
            if each.how.profiler == profiler:
                lines += ["#", f"# {', '.join(each.shows)}", f"#   {each.text}"]
    return "\n".join([*lines, "", "# No command measures:", *_unmeasured(papers)]) + "\n"
