"""Selection of records: options of commands that read the table of records, and opening of the selected records."""

from __future__ import annotations

import datetime
import glob
from collections.abc import Iterator

from isthmus import Error, spelling
from isthmus.records import agreement, fields, places
from isthmus.records.measurements import COLUMNS, literal
from isthmus.records.store import Store, open_store, stranger


def add_arguments(parser) -> None:
    """Adds the arguments for paths and the options that select records."""
    parser.add_argument("paths", nargs="+", metavar="DIR", help="folder with record files, or a file")
    add_selection(parser)


def add_selection(parser) -> None:
    group = parser.add_argument_group("which records")
    group.add_argument("--workload", metavar="PATTERN", action="append", help="such as 'transfer/*' (may be repeated)")
    group.add_argument("--metric", metavar="NAME", action="append", help="such as rate (may be repeated)")
    group.add_argument("--system", metavar="NAME", help="only records of this system")
    group.add_argument(
        "--since", metavar="DATE",
        help="from this day (2026-11-21, UTC) or time (2026-11-21T14:00) on; nodes and drift still name things that "
        "have only earlier records",
    )  # fmt: skip
    group.add_argument("--until", metavar="DATE", help="before this day or time")
    group.add_argument(
        "--without", metavar="FIELD=PATTERN,…", action="append",
        help="leave out records with all of these, such as node=n7 or 'workload=transfer/*,metric=time', for instance "
        "because they are gone on purpose (may be repeated)",
    )  # fmt: skip
    group.add_argument("--emulated", action="store_true", help="include emulated records, whose times mean nothing")
    group.add_argument("--profiled", action="store_true", help="include profiled runs")


def moment(text: str) -> str:
    """Returns a day or time as SQL. Raises Error if the text is neither."""
    try:
        return f"TIMESTAMP {literal(datetime.datetime.fromisoformat(text).isoformat(sep=' '))}"
    except ValueError:
        raise Error(f"{spelling.shorten(text, 40)!r} is not a date; write 2026-11-21 or 2026-11-21T14:00") from None


def _any_of(column: str, patterns) -> str:
    return "(" + " OR ".join(f"{column} GLOB {literal(pattern)}" for pattern in patterns) + ")"


#: Fields that --without supports.
WITHOUT = (
    "system", "partition", "node", "gpus", "job", "workload", "metric", "placement", "staging", "size", "preset",
)  # fmt: skip


def patterns(option: str, text: str, fields: tuple[str, ...]) -> dict[str, str]:
    """Parses a value FIELD=PATTERN,… of an option into patterns keyed by field. Raises Error if it is invalid."""
    found = {}
    for part in text.split(","):
        field, equals, pattern = part.strip().partition("=")
        if field not in fields or not equals or not pattern:
            meant = "" if field in fields else spelling.did_you_mean(field, fields)
            raise Error(
                f"{option} {spelling.shorten(part, 60)!r} selects nothing{meant}; write FIELD=PATTERN, where FIELD is "
                f"one of {', '.join(fields)}"
            )
        if field in found:
            raise Error(f"{option} {spelling.shorten(text, 60)!r} names {field} twice; keep one")
        found[field] = pattern
    return found


def left_out(text: str) -> dict[str, str]:
    """Parses a value of --without into patterns keyed by field. Raises Error if it is invalid."""
    found = patterns("--without", text, WITHOUT)
    # Patterns of GPUs match anywhere, since a case may have used several GPUs, whose names are joined by a plus.
    return {field: f"*{pattern}*" if field == "gpus" else pattern for field, pattern in found.items()}


#: Names of the options that add_selection() adds.
_OPTIONS = ("workload", "metric", "system", "since", "until", "without", "emulated", "profiled")


def refuse_unused(asked, used) -> None:
    """Raises Error if an option that selects records was given although no records are read."""
    for option in _OPTIONS:
        if option not in used and getattr(asked, option):
            raise Error(f"--{option} chooses records, but none are named; name their folder (DIR), or leave it out")


def _all_of(those: dict[str, str]) -> str:
    """Returns the condition of one value of --without as SQL."""
    return " AND ".join(_matches(field, literal(pattern)) for field, pattern in those.items())


def _matches(field: str, pattern: str) -> str:
    if field == "node":
        return places.or_also_called(f"coalesce(node GLOB {pattern}, false)", f"name GLOB {pattern}")
    return f'coalesce("{field}" GLOB {pattern}, false)'


class _LeftOut:
    """Values of --without, each of which must leave out a record in at least one of the folders that are read."""

    def __init__(self, asked):
        self.all = {text: left_out(text) for text in getattr(asked, "without", None) or ()}
        self._idle = dict(self.all)  # values that no record has matched so far
        self._known: dict[tuple[str, str], dict[str, bool]] = {}

    def look_at(self, opened: Store) -> None:
        for text, those in [*self._idle.items()]:
            if opened.has(_all_of(those)):
                del self._idle[text]
            for each in those.items():
                self._known.setdefault(each, {}).update(opened.known(*each))

    def refuse_idle(self, paths) -> None:
        """Raises Error for the first value that left out no record."""
        for text, those in self._idle.items():
            for each in those.items():
                if not any(self._known[each].values()):
                    raise stranger(paths, each[0], each[1], self._known[each])
            where = ", ".join(map(str, paths))
            raise Error(f"{where}: no record has all of {spelling.shorten(text, 80)}; correct --without, or drop it")


def each_folder(asked, *, wanted=COLUMNS) -> Iterator[Store]:
    """Yields a store for each folder that a command names, like those of from_arguments().

    Each store is closed before the next is opened. A value of --without must leave out records in only one folder.
    """
    without = _LeftOut(asked)
    for path in asked.paths:
        with _opened(asked, [path], wanted, without) as opened:
            without.look_at(opened)
            _say(opened, asked, agreeing=False)
            yield opened
    without.refuse_idle(asked.paths)


def from_arguments(asked, *, paths=None, wanted=COLUMNS, agreeing: bool = False) -> Store:
    """Returns the store of the records that the options of add_selection() select.

    Reports left-out records and results that disagree on stderr. With `agreeing`, raises Error if records state
    different results for the same inputs.
    """
    paths, without = paths or asked.paths, _LeftOut(asked)
    opened = _opened(asked, paths, wanted, without)
    try:
        without.look_at(opened)
        without.refuse_idle(paths)
        _say(opened, asked, agreeing=agreeing)
    except BaseException:
        opened.close()
        raise
    return opened


def _opened(asked, paths, wanted, without: _LeftOut) -> Store:
    where = []
    if asked.workload:
        where.append(_any_of("workload", asked.workload))
    if asked.system:
        where.append(f"system = {literal(asked.system)}")
    if asked.until:
        where.append(f"time < {moment(asked.until)}")
    metric = [_any_of("metric", asked.metric)] if asked.metric else []
    for those in without.all.values():
        (metric if "metric" in those else where).append(f"NOT ({_all_of(those)})")
    fields = {field for those in without.all.values() for field in those}
    return open_store(
        paths,
        wanted={*wanted, *agreement.RESULTS, "system", "metric", *fields},
        emulated=asked.emulated,
        profiled=asked.profiled,
        where=" AND ".join(where) or "true",
        since=f"time >= {moment(asked.since)}" if asked.since else "true",
        metric=" AND ".join(metric) or "true",
        timely=True,
        named=[
            *(("workload", pattern) for pattern in asked.workload or ()),
            *(("metric", pattern) for pattern in asked.metric or ()),
            *(("system", glob.escape(name)) for name in [asked.system] if name),
        ],
    )


def _say(opened: Store, asked, *, agreeing: bool) -> None:
    """Reports on stderr what was left out of a store, and which of its results disagree."""
    asked.absent = [*getattr(asked, "absent", []), *opened.skipped]  # isthmus.cli derives the exit code from it
    say_left_out(opened, asked)
    places.say_names(opened.other_names)
    opened.results = agreement.results(opened.sql)
    wrong = agreement.disagreements(opened.results)
    if wrong and agreeing:
        raise Error(f"{wrong[0]}; {len(wrong) - 1} more such results" if len(wrong) > 1 else wrong[0])
    agreement.say_disagreements(wrong)


def say_left_out(store: Store, asked=None) -> None:
    """Reports on stderr which files could not be read, and how many records were left out and why."""
    store.say_absent(asked)
    for kind, count in store.left_out.items():
        fields.say_left_out(count, kind)
    fields.say_invalid(store.invalid)
