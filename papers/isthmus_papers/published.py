"""Comparison of figures that the papers' texts state with ours.

The files are CSV with the columns `id`, `figure`, `place` (section or page), `machine`, `what`, `low`, `high` (equal to
`low` if empty), `unit` (s, B/s, 1/s, 1), `neutral` (the value that means "no difference", 1 for a ratio) and `expect`,
the kind of comparison:

  value     the figures are compared
  more, less, equal, at most
             a statement without a figure, about a ratio to `neutral`
  context   specific to the paper's hardware or programs: shown next to ours and not judged

Figures are compared by the logarithms of their ratios, so that a time and the speed-up that is its inverse have the
same verdict, and by our interval, so that a figure too uncertain to decide is not called equal.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import pathlib

from isthmus import Error, inputs, spelling, units
from isthmus.statistics import spread
from isthmus.tables import readings

#: Margins, as ratios. A figure without `neutral` agrees if it differs by at most SAME. With `neutral`, it agrees if it
#: differs by at most EFFECT of the logarithm of the paper's ratio to `neutral`, or by at most CLOSE. A published ratio
#: within NEUTRAL of `neutral` states that there is no difference.
SAME, EFFECT, CLOSE, NEUTRAL = 0.10, 0.25, 0.03, 0.05
#: Minimum half-width of our interval, as a ratio, for a figure of one process: processes differ by more than the
#: samples within one.
ONE_PROCESS = 0.05
EXPECT = ("value", "more", "less", "equal", "at most", "context")
UNITS = ("s", "B/s", "1/s", "1")
#: Verdicts on a comparison, best first.
VERDICTS = ("agrees", "same direction", "cannot tell", "contradicts", "not judged", "no record")
_FIELDS = ("id", "figure", "place", "machine", "what", "low", "high", "unit", "neutral", "expect")


@dataclasses.dataclass(frozen=True)
class Figure:
    """Published figure: one line of a file."""

    id: str
    figure: str
    place: str
    machine: str
    what: str
    low: float | None
    high: float | None
    unit: str
    neutral: float | None
    expect: str

    def text(self) -> str:
        if self.low is None:
            words = {"more": ">", "less": "<", "equal": "≈", "at most": "≤"}
            return f"{words[self.expect]} {self.neutral:g}" if self.expect in words else "-"
        if self.high in (None, self.low):
            return units.quantity(self.low, self.unit)
        return f"{units.quantity(self.low, self.unit)} to {units.quantity(self.high, self.unit)}"


@dataclasses.dataclass(frozen=True)
class Row:
    """Published figure together with ours."""

    theirs: Figure
    ours: float | None
    verdict: str


def load(path) -> dict[str, Figure]:
    """Returns the figures of a file, keyed by id. Raises Error, which names the line, if the file has the wrong
    format."""
    path = pathlib.Path(path)
    found: dict[str, Figure] = {}
    try:
        reader = csv.DictReader(io.StringIO(inputs.read_small(path).decode(), newline=""), strict=True)
        if tuple(reader.fieldnames or ()) != _FIELDS:
            raise Error(f"{path}: not the figures of a paper; the first line is {','.join(_FIELDS)}")
        for row in reader:
            each = _figure(row, f"{path}:{reader.line_num}")
            if each.id in found:
                raise Error(f"{path}:{reader.line_num}: {each.id!r} appears twice")
            found[each.id] = each
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Error(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return found


def _figure(row: dict, where: str) -> Figure:
    if None in row or None in row.values():
        raise Error(f"{where}: {len(_FIELDS)} values are expected")
    numbers: dict[str, float | None] = {}
    for name in ("low", "high", "neutral"):
        try:
            numbers[name] = float(row[name]) if row[name] else None
        except ValueError:
            numbers[name] = math.nan
        value = numbers[name]
        if value is not None and not math.isfinite(value):
            raise Error(f"{where}: {name} is {row[name]!r}, not a number")
    each = Figure(**(row | numbers))
    if each.expect not in EXPECT:
        raise Error(f"{where}: expect is {each.expect!r}; choose from {', '.join(EXPECT)}")
    if each.unit not in UNITS:
        raise Error(f"{where}: the unit is {each.unit!r}; choose from {', '.join(UNITS)}")
    if each.expect == "value" and (each.low is None or each.low <= 0):
        raise Error(f"{where}: a value is expected, and low is {'empty' if each.low is None else 'not above zero'}")
    if each.neutral is not None and each.neutral <= 0:
        raise Error(f"{where}: neutral is not above zero; ratios are compared by their logarithms")
    if each.expect not in ("value", "context") and each.neutral is None:
        raise Error(f"{where}: {each.expect} than what? neutral is empty")
    if each.high is not None and (each.low is None or each.high < each.low):
        raise Error(f"{where}: high is below low; exchange them, or leave high empty")
    return each


def _interval(ours: float) -> tuple[float, float, float]:
    """Returns the logarithms of our figure and of the ends of its interval. A figure of zero has the logarithm -inf."""

    def log(value: float) -> float:
        return math.log(value) if value > 0 else -math.inf

    low, high = readings.ends(ours)
    sure = getattr(ours, "spread", None)
    if sure is None or sure.kind in ("within", "samples"):
        low, high = min(low, float(ours) / (1 + ONE_PROCESS)), max(high, float(ours) * (1 + ONE_PROCESS))
    return log(float(ours)), log(low), log(high)


@dataclasses.dataclass(frozen=True)
class _Statement:
    """Statement of a published figure, as logarithms: a range that agrees within a margin, and the sides of it that
    have the same direction."""

    low: float
    high: float
    margin: float
    side: tuple[float, float] | None = None  # range of the values with the same direction

    def verdict(self, ours: float) -> str:
        value, low, high = _interval(ours)
        near = self.low - self.margin <= value <= self.high + self.margin
        if near and self.low - 2 * self.margin <= low and high <= self.high + 2 * self.margin:
            return "agrees"
        if self.side is None:
            return "contradicts" if high < self.low - self.margin or low > self.high + self.margin else "cannot tell"
        least, most = self.side
        if least < low and high < most:
            return "same direction"
        return "contradicts" if high <= least or low >= most else "cannot tell"


def _statement(theirs: Figure) -> _Statement:
    """Returns what a figure that is not `context` states."""
    if theirs.neutral is None:
        low, high = _logarithms(theirs, 1)
        return _Statement(low, high, math.log(1 + SAME))
    if theirs.expect == "value":
        low, high = _logarithms(theirs, theirs.neutral)
        nearest = 0 if low <= 0 <= high else min(abs(low), abs(high))
        shift, margin = math.log(theirs.neutral), max(EFFECT * nearest, math.log(1 + CLOSE))
        side = (shift, math.inf) if low + high > 0 else (-math.inf, shift)
        is_neutral = nearest <= math.log(1 + NEUTRAL)
        return _Statement(shift + low, shift + high, margin, None if is_neutral else side)
    neutral, room = math.log(theirs.neutral), math.log(1 + NEUTRAL)
    return {
        "equal": _Statement(neutral, neutral, math.log(1 + SAME)),
        "at most": _Statement(-math.inf, neutral, room),
        "more": _Statement(neutral, math.inf, 0),
        "less": _Statement(-math.inf, neutral, 0),
    }[theirs.expect]


def _logarithms(theirs: Figure, neutral: float) -> tuple[float, float]:
    assert theirs.low is not None  # load() requires it
    high = theirs.low if theirs.high is None else theirs.high
    return math.log(theirs.low / neutral), math.log(high / neutral)


def judge(theirs: Figure, ours: float | None) -> str:
    """Returns the verdict on the comparison, one of VERDICTS. Our figure may be a readings.Value with an interval."""
    if theirs.expect == "context":
        return "not judged"
    if ours is None or not math.isfinite(ours):
        return "no record"
    return _statement(theirs).verdict(ours)


def compared(figures: dict[str, Figure], ours: dict[str, float | None]) -> Comparison:
    """Returns a row for each published figure that `ours` names, in the order of `figures`. Raises Error for an unknown
    name."""
    unknown = sorted(set(ours) - set(figures))
    if unknown:
        raise Error(f"no published figure is called {unknown[0]!r}")
    return Comparison(Row(each, ours[name], judge(each, ours[name])) for name, each in figures.items() if name in ours)


def markdown(rows: list[Row]) -> str:
    """Returns a Markdown table of the papers' figures, ours and the verdicts."""
    lines = ["| figure | what | theirs | ours | |", "|---|---|---|---|---|"]
    for row in rows:
        each, ours = row.theirs, units.quantity(row.ours, row.theirs.unit)
        sure = spread.percent(row.ours, getattr(row.ours, "spread", None))
        lines.append(
            f"| {each.figure}, {each.place} | {each.what} | {each.text()} ({each.machine}) "
            f"| {f'{ours} {sure}'.strip()} | {row.verdict} |"
        )
    return "\n".join([*lines, "", MEANING])


#: MIME type of the verdicts in a notebook's output, as an object of stated value → verdict (exhibits.verdicts_of).
MIME = "application/vnd.isthmus.verdicts+json"


class Comparison(list[Row]):
    """Rows that a notebook shows as a table; papers/exhibits reads their verdicts."""

    def _repr_mimebundle_(self, **_kinds) -> dict:
        verdicts = {row.theirs.id: row.verdict for row in self}
        return {"text/plain": sentence(self), "text/markdown": markdown(self), MIME: verdicts}


MEANING = (
    f"*agrees*: within {SAME:.0%} of the paper's figure or range; for a ratio with a value that means no difference, "
    f"the logarithm of our effect is within {EFFECT:.0%} of theirs (or the ratio within {CLOSE:.0%}); for a statement "
    "without a figure, on the side that it names; and our interval allows nothing else. *same direction*: our whole "
    "interval is on their side of no difference, but the figure is another. *contradicts*: our whole interval is "
    "outside theirs and not on their side of no difference. *cannot tell*: our interval allows more than one of "
    "these. Our figure is given with its interval: over jobs where there are several, else over processes; that of one "
    f"process counts as ±{ONE_PROCESS:.0%} at least."
)


def sentence(rows: list[Row]) -> str:
    """Returns a text on which of the rows agree and which do not."""
    counts = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    judged = len(rows) - len(counts["no record"]) - len(counts["not judged"])
    if not judged:
        text = "Nothing here can be judged."
    else:
        listed = [words.format(len(counts[verdict])) for verdict, words in _COUNTED.items() if counts[verdict]]
        most = ", ".join(listed[:-1])
        text = f"Of {spelling.counted(judged, 'statement')}, ours {f'{most} and {listed[-1]}' if most else listed[0]}."
    if counts["contradicts"]:
        differences = "; ".join(
            f"{row.theirs.what} ({row.theirs.text()}, here {units.quantity(row.ours, row.theirs.unit)})"
            for row in counts["contradicts"]
        )
        text += f" Contradicted: {differences}."
    elif judged:
        text += " None is contradicted."
    for verdict, verb, words in (
        ("not judged", "are", "specific to the paper's hardware or programs, and not judged"),
        ("no record", "have", "no record here yet"),
    ):
        if number := len(counts[verdict]):
            text += f" {spelling.counted(number, 'figure', verb)} {words}."
    return text


_COUNTED = {
    "agrees": "agree with {}", "same direction": "have the same direction as {}", "cannot tell": "cannot decide {}",
    "contradicts": "contradict {}",
}  # fmt: skip
