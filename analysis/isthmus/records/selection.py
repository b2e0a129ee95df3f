"""Which records are meant: the options of commands that read the table of records, and the store that they ask for."""

from __future__ import annotations

import datetime
import glob

from isthmus import Error, spelling
from isthmus.records import agreement, content, old_names
from isthmus.records.measurements import COLUMNS, literal
from isthmus.records.store import Store, open_store


def add_arguments(parser) -> None:
    """Options that say which records are meant."""
    parser.add_argument("paths", nargs="+", metavar="DIR", help="folder with record files, or a file")
    add_selection(parser)


def add_selection(parser) -> None:
    group = parser.add_argument_group("which records")
    group.add_argument("--workload", metavar="PATTERN", action="append", help="such as 'transfer/*' (may be repeated)")
    group.add_argument("--metric", metavar="NAME", action="append", help="such as rate (may be repeated)")
    group.add_argument("--system", metavar="NAME", help="of this system only")
    group.add_argument("--since", metavar="DATE", help="from this day on (UTC), 2026-11-21, or time, 2026-11-21T14:00")
    group.add_argument("--until", metavar="DATE", help="before this day or time")
    group.add_argument(
        "--without", metavar="FIELD=PATTERN,…", action="append",
        help="no records with all of these, as node=n7 or 'workload=transfer/*,metric=time': what is gone on purpose "
        "(may be repeated)",
    )  # fmt: skip
    group.add_argument("--emulated", action="store_true", help="emulated records, too: their times mean nothing")
    group.add_argument("--profiled", action="store_true", help="profiled runs, too")


def moment(text: str) -> str:
    """A day or time as SQL; refuses what is neither."""
    try:
        return f"TIMESTAMP {literal(datetime.datetime.fromisoformat(text).isoformat(sep=' '))}"
    except ValueError:
        raise Error(f"{spelling.shorten(text, 40)!r} is no date; write 2026-11-21 or 2026-11-21T14:00") from None


def _any_of(column: str, patterns) -> str:
    return "(" + " OR ".join(f"{column} GLOB {literal(pattern)}" for pattern in patterns) + ")"


#: Fields that --without knows.
WITHOUT = (
    "system", "partition", "node", "gpus", "job", "workload", "metric", "placement", "staging", "size", "preset",
)  # fmt: skip


def left_out(text: str) -> dict[str, str]:
    """Patterns by field, of one --without. Raises Error for what is none."""
    found = {}
    for part in text.split(","):
        field, equals, pattern = part.strip().partition("=")
        if field not in WITHOUT or not equals or not pattern:
            raise Error(
                f"--without {spelling.shorten(part, 60)!r} leaves out nothing{spelling.did_you_mean(field, WITHOUT)}; "
                f"write FIELD=PATTERN, FIELD is one of {', '.join(WITHOUT)}"
            )
        # A case may have used several GPUs: their names are joined by a plus.
        found[field] = f"*{pattern}*" if field == "gpus" else pattern
    return found


#: Options of add_selection().
_OPTIONS = ("workload", "metric", "system", "since", "until", "without", "emulated", "profiled")


def refuse_unused(asked, used) -> None:
    """Raises Error for an option that would choose nothing, where no records are read."""
    for option in _OPTIONS:
        if option not in used and getattr(asked, option):
            raise Error(f"--{option} chooses records, and none are named; name their folder (DIR), or leave it out")


def refuse_old_names(patterns) -> None:
    """Raises Error for a workload's name of an earlier version."""
    for pattern in patterns:
        if (new := old_names.pattern(pattern)) != pattern:
            raise Error(f"{spelling.shorten(pattern, 80)!r} is an earlier version's name; write {new!r}")


def from_arguments(asked, *, paths=None, wanted=COLUMNS, agreeing: bool = False) -> Store:
    """The store that the options of add_selection() ask for; names on stderr what was left out, and what disagrees.

    With `agreeing`, raises Error for records that state different results of the same inputs.
    """
    where = []
    if asked.workload:
        refuse_old_names(asked.workload)
        where.append(_any_of("workload", asked.workload))
    if asked.system:
        where.append(f"system = {literal(asked.system)}")
    if asked.since:
        where.append(f"time >= {moment(asked.since)}")
    if asked.until:
        where.append(f"time < {moment(asked.until)}")
    metric = [_any_of("metric", asked.metric)] if asked.metric else []
    without = [left_out(text) for text in getattr(asked, "without", None) or ()]
    for those in without:
        every = " AND ".join(f'coalesce("{field}" GLOB {literal(pattern)}, false)' for field, pattern in those.items())
        (metric if "metric" in those else where).append(f"NOT ({every})")
    wanted = {*wanted, *agreement.RESULTS, "system", "metric", *(field for those in without for field in those)}
    store = open_store(
        paths or asked.paths,
        wanted=wanted,
        emulated=asked.emulated,
        profiled=asked.profiled,
        where=" AND ".join(where) or "true",
        metric=" AND ".join(metric) or "true",
        named=[
            *(("workload", pattern) for pattern in asked.workload or ()),
            *(("metric", pattern) for pattern in asked.metric or ()),
            *(("system", glob.escape(name)) for name in [asked.system] if name),
            *(field for those in without if paths is None for field in those.items()),
        ],
    )
    asked.absent = [*getattr(asked, "absent", []), *store.skipped]  # for the exit code: isthmus.cli
    say_left_out(store, asked)
    store.results = agreement.results(store.sql)
    wrong = agreement.disagreements(store.results)
    if wrong and agreeing:
        store.close()
        raise Error(f"{wrong[0]}; {len(wrong) - 1} more such results" if len(wrong) > 1 else wrong[0])
    agreement.say_disagreements(wrong)
    return store


def say_left_out(store: Store, asked=None) -> None:
    """The same, and how many records were left out, and why."""
    store.say_absent(asked)
    for kind, count in store.left_out.items():
        content.say_left_out(count, kind)
    content.say_spoilt(store.spoilt)
