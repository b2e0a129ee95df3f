"""Common form of a profiler's output: kernels, copies, migrations, page faults, API calls, counters."""

from __future__ import annotations

import array
import contextlib
import dataclasses
import hashlib
import heapq
import math
import os
import pathlib
from collections.abc import Iterator

from isthmus import Error, inputs, spelling

#: Prefix of the metrics in a record that come from a profiler's figures.
PROFILED = "profiled_"


class ProfileError(Error):
    """Error for a profiler's output that cannot be read; states which file and why."""


_NAMED = 12  # maximum number of kinds of left-out rows that a note names
_MOST_NOTES = 100
_MOST_LACKING = 20
#: Maximum number of names of a kind that are distinguished, since a program may name a million ranges, one per step.
MOST_NAMES = 10_000
FURTHER = "(further names)"  # name under which kernels, phases or calls beyond the maximum are added up
_LONGEST_NAME = 4096


@dataclasses.dataclass
class Kernel:
    count: int = 0
    seconds: float = 0.0
    registers: int | None = None
    shared_bytes: int | None = None

    def add(self, other: Kernel) -> None:
        """Adds launches of the same kernel."""
        self.count += other.count
        self.seconds += other.seconds
        self.registers = other.registers if self.registers is None else max(self.registers, other.registers or 0)
        self.shared_bytes = other.shared_bytes if self.shared_bytes is None else self.shared_bytes


@dataclasses.dataclass
class Moved:
    count: int = 0
    bytes: float | None = None  # None if the profiler reports no sizes
    seconds: float = 0.0
    unsized: int = 0  # number of those counted whose sizes are unknown

    def add(self, bytes_: float | None, seconds: float, count: int = 1, unsized: int = 0) -> None:
        self.count += count
        self.seconds += seconds
        self.unsized += count if bytes_ is None else unsized
        if bytes_ is not None:
            self.bytes = (self.bytes or 0) + bytes_

    @property
    def whole_bytes(self) -> float | None:
        """Number of bytes if all sizes are known, otherwise None."""
        return None if self.unsized else self.bytes


class Spans:
    """Begins and ends in seconds, stored in only 16 bytes per pair because a long run has millions of pairs."""

    def __init__(self) -> None:
        self.begins, self.ends = array.array("d"), array.array("d")

    def add(self, begin: float, end: float) -> None:
        self.begins.append(begin)
        self.ends.append(end)

    def in_order(self) -> Iterator[tuple[float, float]]:
        """Returns an iterator over the pairs in order of their begins, in which profilers usually write them."""
        begins = self.begins
        if all(begins[i - 1] <= begins[i] for i in range(1, len(begins))):
            return zip(begins, self.ends)
        order = array.array("q", sorted(range(len(begins)), key=begins.__getitem__))
        return ((begins[i], self.ends[i]) for i in order)


@dataclasses.dataclass(frozen=True)
class Ranks:
    """MPI ranks that a report names, and the minimum number of ranks in the run, or 0 if it is unknown."""

    numbers: set[int] = dataclasses.field(default_factory=set)
    count: int = 0


KINDS = ("h2d", "d2h", "d2d", "h2h", "p2p", "other")  # kinds of copies and migrations
#: Figure of a profile: a field and a key in this field, or "" for the whole field.
Figure = tuple[str, str]


@dataclasses.dataclass
class Profile:
    """Everything that a profiler measured in a run, over all ranks and processes."""

    tool: str
    kernels: dict[str, Kernel] = dataclasses.field(default_factory=dict)
    copies: dict[str, Moved] = dataclasses.field(default_factory=dict)  # keyed by one of KINDS
    migrations: dict[str, Moved] = dataclasses.field(default_factory=dict)
    page_faults: dict[str, int] = dataclasses.field(default_factory=dict)  # keyed by "gpu" and "cpu"
    api_calls: dict[str, int] = dataclasses.field(default_factory=dict)
    phases: dict[str, Moved] = dataclasses.field(default_factory=dict)  # ranges that the program names
    counters: dict[str, float] = dataclasses.field(default_factory=dict)  # sums over kernels, in base units
    # Number of launches for which each counter was read.
    counted: dict[str, int] = dataclasses.field(default_factory=dict)
    spans: dict[str, Spans] = dataclasses.field(default_factory=dict)  # keyed by one of KINDS, or "kernel"
    busy: list[tuple[float, float, float]] = dataclasses.field(default_factory=list)  # seconds as busy() returns them
    notes: list[str] = dataclasses.field(default_factory=list)
    # Number of rows of each kind that the reader does not use.
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)
    files: list[str] = dataclasses.field(default_factory=list)
    ranks: Ranks = dataclasses.field(default_factory=Ranks)
    # Reasons why these figures do not cover the whole run.
    missing: list[str] = dataclasses.field(default_factory=list)
    limits: list[str] = dataclasses.field(default_factory=list)  # limits on what the profiler was told to count
    #: Figures that were measured here and should be in every report of the run, keyed by the profiler's name for them
    #: (see coverage.py).
    measured: dict[str, Figure] = dataclasses.field(default_factory=dict)
    withheld: set[Figure] = dataclasses.field(default_factory=set)  # figures that are missing in some report of the run

    def name_in(self, field: str, name: str) -> str:
        """Returns the name under which a figure is stored: `name`, or FURTHER if this field has MOST_NAMES names."""
        names = getattr(self, field)
        if name in names:
            return name
        if len(name) > _LONGEST_NAME:
            digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
            name = f"{name[: _LONGEST_NAME - 20]}… #{digest}"
        return name if name in names or len(names) < MOST_NAMES else FURTHER

    def kernel(self, name: str) -> Kernel:
        return self.kernels.setdefault(self.name_in("kernels", name), Kernel())

    def add_kernel(self, name: str, span: tuple[float, float]) -> Kernel:
        """Adds one launch of a kernel; `span` is its begin and end in seconds."""
        kernel = self.kernel(name)
        kernel.count += 1
        kernel.seconds += span[1] - span[0]
        self.add_span("kernel", span)
        return kernel

    def add_copy(self, kind: str, bytes_: float | None, span: tuple[float, float]) -> None:
        self.copies.setdefault(kind, Moved()).add(bytes_, span[1] - span[0])
        self.add_span(kind, span)

    def add_span(self, kind: str, span: tuple[float, float]) -> None:
        """Adds a period in which work of this kind ran."""
        self.spans.setdefault(kind, Spans()).add(*span)

    def add_phase(self, name: str, span: tuple[float, float]) -> None:
        self.phases.setdefault(self.name_in("phases", name), Moved()).add(None, span[1] - span[0])

    def add_call(self, name: str, count: int = 1) -> None:
        name = self.name_in("api_calls", name)
        self.api_calls[name] = self.api_calls.get(name, 0) + count

    def add_counter(self, name: str, value: float) -> None:
        """Adds to a counter. Names beyond MOST_NAMES are left out, since their sum would be meaningless."""
        if (name := self.name_in("counters", name)) == FURTHER:
            self.leave_out(f"counters beyond the first {MOST_NAMES}")
        else:
            self.counters[name] = self.counters.get(name, 0.0) + value

    def count_launch(self, counter: str, count: int = 1) -> None:
        """Counts launches for which a counter was read."""
        counter = self.name_in("counted", counter)
        self.counted[counter] = self.counted.get(counter, 0) + count

    def measure(self, what: str, field: str, key: str = "") -> None:
        """Marks `what` as measured in this report, unless its figure was left out."""
        if field == "kernels" or not key or key in getattr(self, field):
            self.measured[what] = (field, key)

    def note(self, sentence: str) -> None:
        """Adds a note unless it was added before. At most _MOST_NOTES are kept, since every line may cause one."""
        sentence = spelling.shorten(sentence, 300)
        if sentence not in self.notes and len(self.notes) <= _MOST_NOTES:
            self.notes.append(sentence if len(self.notes) < _MOST_NOTES else "more such notes were left out")

    def lack(self, why: str) -> None:
        """Adds a reason why these figures do not cover the whole run, once; at most _MOST_LACKING reasons are kept."""
        if len(self.missing) <= _MOST_LACKING:
            self.missing = _few([*self.missing, f"not the whole run: {why}"])

    def limit(self, sentence: str) -> None:
        """Adds a limit on what the profiler was told to count, unless it was added before."""
        if sentence not in self.limits and len(self.limits) < _MOST_NOTES:
            self.limits.append(sentence)

    def leave_out(self, what: str, rows: int = 1) -> None:
        """Counts rows of kind `what` that are not used, for a note."""
        if rows:
            what = self.name_in("left_out", what)
            self.left_out[what] = self.left_out.get(what, 0) + rows

    def all_notes(self) -> list[str]:
        """Returns all notes, beginning with what is missing and ending with what was left out."""
        first = [*self.missing, *self.limits, *self._further_names(), *self.notes]
        if not self.left_out:
            return first
        most = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
        names = ", ".join(
            f"{spelling.shorten(name, 120)} ({spelling.counted(rows, 'row')})" for name, rows in most[:_NAMED]
        )
        more = f" and {len(most) - _NAMED} others" if len(most) > _NAMED else ""
        return [*first, f"left out, since no figure here comes from it: {names}{more}"]

    def _further_names(self) -> list[str]:
        """Returns a sentence for each field with more than MOST_NAMES names."""
        counts = {
            "launches of kernels": self.kernels[FURTHER].count if FURTHER in self.kernels else 0,
            "phases": self.phases[FURTHER].count if FURTHER in self.phases else 0,
            "API calls": self.api_calls.get(FURTHER, 0),
        }
        return [
            f"{count} {what} are added up as {FURTHER}, since they come after the first {MOST_NAMES} names"
            for what, count in counts.items()
            if count
        ]

    def empty(self) -> bool:
        seen = (self.kernels, self.copies, self.migrations, self.page_faults, self.api_calls, self.counters)
        return not any(seen)


def _few(sentences: list[str]) -> list[str]:
    """Returns each sentence once, at most _MOST_LACKING of them."""
    once = list(dict.fromkeys(sentences))
    more = ["not the whole run: more such reasons were left out"] if len(once) > _MOST_LACKING else []
    return once[:_MOST_LACKING] + more


def added(a: Profile, b: Profile) -> Profile:
    """Returns the sum of two parts of a run; parts are ranks, processes, or tables of one process."""
    result = dataclasses.replace(a)
    for field in ("copies", "migrations", "phases"):
        setattr(result, field, {key: dataclasses.replace(moved) for key, moved in getattr(a, field).items()})
        for key, moved in getattr(b, field).items():
            one = getattr(result, field).setdefault(result.name_in(field, key), Moved())
            one.add(moved.bytes, moved.seconds, moved.count, moved.unsized)
    result.kernels = {name: dataclasses.replace(kernel) for name, kernel in a.kernels.items()}
    for name, kernel in b.kernels.items():
        result.kernel(name).add(kernel)
    _add_counts(result, a, b)
    result.busy = a.busy + b.busy + ([busy(b.spans)] if b.spans else [])
    result.notes = list(dict.fromkeys([*a.notes, *b.notes]))
    result.measured = a.measured | b.measured
    result.withheld = a.withheld | b.withheld
    result.ranks = Ranks(a.ranks.numbers | b.ranks.numbers, max(a.ranks.count, b.ranks.count))
    result.missing = _few([*a.missing, *b.missing])
    result.limits = list(dict.fromkeys([*a.limits, *b.limits]))
    result.spans = {}
    return result


def _add_counts(result: Profile, a: Profile, b: Profile) -> None:
    """Sets each count of the result to the sum of the two parts' counts."""
    for field in ("page_faults", "api_calls", "counters", "counted", "left_out"):
        setattr(result, field, dict(getattr(a, field)))
    for field, add in (("api_calls", result.add_call), ("counters", result.add_counter),
                       ("counted", result.count_launch), ("left_out", result.leave_out)):  # fmt: skip
        for name, count in getattr(b, field).items():
            if name.startswith("stall_"):  # stalls are ratios; all others are counts
                getattr(result, field)[name] = max(getattr(result, field).get(name, 0), count)
            else:
                add(name, count)
    for who, faults in b.page_faults.items():
        result.page_faults[who] = result.page_faults.get(who, 0) + faults


def _covered(spans: Iterator[tuple[float, float]]) -> float:
    """Returns the seconds that spans cover together; spans must be in order of their begins."""
    total, until = 0.0, -math.inf
    for begin, end in spans:
        if end > until:
            total += end - max(begin, until)
            until = end
    return total


def busy(spans: dict[str, Spans]) -> tuple[float, float, float]:
    """Returns the seconds in which anything ran, and the sum and the maximum of the seconds in which each kind ran."""
    alone = [_covered(each.in_order()) for each in spans.values()]
    return _covered(heapq.merge(*(each.in_order() for each in spans.values()))), sum(alone), max(alone)


# --- contents of files ---


def whole(value, where: str) -> int:
    number = real(value, where)
    if number != int(number):
        raise ProfileError(f"{where}: {value!r} is not a whole number")
    return int(number)


def real(value, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ProfileError(f"{where}: {spelling.shorten(repr(value), 40)} is not a number") from None
    if not math.isfinite(number):
        raise ProfileError(f"{where}: {value!r} is not a number")
    return number


MOST_OF_TRACE = 1024 * inputs.MIB  # limit for files read line by line; a trace of a long run has hundreds of MiB
MOST_OF_JSON = 128 * inputs.MIB  # limit for files read as a whole, which needs about five times as much memory
_LONGEST_LINE = 4 * inputs.MIB


@contextlib.contextmanager
def _readable(path: pathlib.Path):
    """Turns errors that occur while a file is read into ProfileError."""
    try:
        yield
    except UnicodeDecodeError:
        raise ProfileError(f"{path.name}: not UTF-8, so not what the profiler writes") from None
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None


def text_of(path: pathlib.Path, most: int = MOST_OF_JSON) -> str:
    """Reads a whole file, for formats that cannot be read line by line."""
    with _readable(path):
        return inputs.read_small(path, most).decode()


def lines_of(path: pathlib.Path, profile: Profile | None = None) -> Iterator[str]:
    """Yields the lines of a file including their line ends, one at a time, so that memory does not grow with the file.

    If the last line has no line end, its last figure may be cut short: raises ProfileError after it, or, with
    `profile`, adds this to the profile as missing.
    """
    with _readable(path), inputs.open_file(path) as file:
        read = 0
        size = os.fstat(file.fileno()).st_size
        while line := file.readline(_LONGEST_LINE + 1):
            read += len(line)
            if max(read, size) > MOST_OF_TRACE:
                raise ProfileError(f"{path}: larger than {MOST_OF_TRACE // inputs.MIB} MiB, the limit for this file")
            if len(line) > _LONGEST_LINE:
                raise ProfileError(f"{path.name}: a line is longer than {_LONGEST_LINE // inputs.MIB} MiB, "
                                   "so not what the profiler writes")  # fmt: skip
            yield line.decode()
            if not line.endswith(b"\n"):
                why = f"{path.name} is cut short: its last line has no end; write it again"
                if profile is None:
                    raise ProfileError(why)
                profile.lack(why)


def span_of(row: dict, where: str) -> tuple[float, float]:
    """Returns the begin and end of a row, in seconds. Raises ProfileError if the end is before the begin."""
    begin, end = real(row["start"], where), real(row["end"], where)
    if end < begin:
        raise ProfileError(f"{where}: something ends before it begins")
    return begin * 1e-9, end * 1e-9
