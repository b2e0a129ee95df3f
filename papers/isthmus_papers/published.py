"""Figures that papers' texts state, beside ours.

The files are CSV: `id`, `figure`, `place` (section or page), `machine`, `what`, `low`, `high` (the same where empty),
`unit` (s, B/s, 1/s, 1), `neutral` (the value that means "no difference", 1 of a ratio) and `expect`, what is compared:

    value     the figure itself, and where it is another, on which side of `neutral`
    more, less, equal, at most
              a statement without a figure, of a ratio to `neutral`
    context   of that hardware or those programs alone: it stands beside ours and is not judged
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import pathlib

from isthmus import Error, inputs, units
from isthmus.statistics import spread

#: Two figures within SAME are the same. Where `neutral` says what no effect is, two effects are the same within EFFECT
#: of theirs or CLOSE, and one within NEUTRAL is none.
SAME, EFFECT, CLOSE, NEUTRAL = 0.10, 0.25, 0.03, 0.05
EXPECT = ("value", "more", "less", "equal", "at most", "context")
UNITS = ("s", "B/s", "1/s", "1")
#: What a comparison comes to, the best first.
VERDICTS = ("holds", "same direction", "no effect here", "another value", "the opposite", "not judged", "no record")
_FIELDS = ("id", "figure", "place", "machine", "what", "low", "high", "unit", "neutral", "expect")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One line of a file."""

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
    """One figure of theirs and ours."""

    theirs: Figure
    ours: float | None
    verdict: str


def load(path) -> dict[str, Figure]:
    """Figures by id. Raises Error, with the line, for a file that is none of these."""
    path = pathlib.Path(path)
    found: dict[str, Figure] = {}
    try:
        reader = csv.DictReader(io.StringIO(inputs.read_small(path).decode(), newline=""), strict=True)
        if tuple(reader.fieldnames or ()) != _FIELDS:
            raise Error(f"{path}: no figures of a paper; the first line is {','.join(_FIELDS)}")
        for row in reader:
            each = _figure(row, f"{path}:{reader.line_num}")
            if each.id in found:
                raise Error(f"{path}:{reader.line_num}: {each.id!r} stands twice")
            found[each.id] = each
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Error(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return found


def _figure(row: dict, where: str) -> Figure:
    if None in row or None in row.values():
        raise Error(f"{where}: {len(_FIELDS)} values are wanted")
    numbers: dict[str, float | None] = {}
    for name in ("low", "high", "neutral"):
        try:
            numbers[name] = float(row[name]) if row[name] else None
        except ValueError:
            numbers[name] = math.nan
        value = numbers[name]
        if value is not None and not math.isfinite(value):
            raise Error(f"{where}: {name} is {row[name]!r}, no number")
    each = Figure(**(row | numbers))
    if each.expect not in EXPECT:
        raise Error(f"{where}: expect is {each.expect!r}; choose from {', '.join(EXPECT)}")
    if each.unit not in UNITS:
        raise Error(f"{where}: the unit is {each.unit!r}; choose from {', '.join(UNITS)}")
    if each.expect == "value" and each.low is None:
        raise Error(f"{where}: a value is expected, and there is none")
    if each.expect not in ("value", "context") and each.neutral is None:
        raise Error(f"{where}: {each.expect} than what? neutral is empty")
    if each.high is not None and (each.low is None or each.high < each.low):
        raise Error(f"{where}: high is below low; exchange them, or leave high empty")
    return each


def _side(value: float, neutral: float) -> int:
    """On which side of neutral a value is: -1, 1, or 0 where it makes no difference."""
    if abs(value - neutral) <= NEUTRAL * (abs(neutral) or 1):
        return 0
    return 1 if value > neutral else -1


def judge(theirs: Figure, ours: float | None) -> str:
    """What the comparison comes to, one of VERDICTS."""
    if ours is None or not math.isfinite(ours):
        return "no record"
    if theirs.expect == "context":
        return "not judged"
    if theirs.expect == "value":
        return _judge_value(theirs, ours)
    neutral = theirs.neutral
    assert neutral is not None  # load() asks for it
    if theirs.expect == "equal":
        return "holds" if abs(ours / neutral - 1) <= SAME else "another value"
    if theirs.expect == "at most":
        return "holds" if ours <= neutral * (1 + NEUTRAL) else "the opposite"
    side = _side(ours, neutral)
    if side == (1 if theirs.expect == "more" else -1):
        return "holds"
    return "no effect here" if side == 0 else "the opposite"


def _judge_value(theirs: Figure, ours: float) -> str:
    """Of a figure that the paper states."""
    low = theirs.low
    assert low is not None  # load() asks for it
    high = low if theirs.high is None else theirs.high
    if theirs.neutral is None:
        return "holds" if low * (1 - SAME) <= ours <= high * (1 + SAME) else "another value"
    effect = max(abs(low - theirs.neutral), abs(high - theirs.neutral))
    room = max(EFFECT * effect, CLOSE)
    if low - room <= ours <= high + room:
        return "holds"
    wanted, side = _side((low + high) / 2, theirs.neutral), _side(ours, theirs.neutral)
    if side == wanted:
        return "same direction"
    return "no effect here" if side == 0 else "another value" if wanted == 0 else "the opposite"


def beside(figures: dict[str, Figure], ours: dict[str, float | None]) -> list[Row]:
    """A row for each figure that `ours` names, in their order. Raises Error for a name that no figure has."""
    unknown = sorted(set(ours) - set(figures))
    if unknown:
        raise Error(f"no published figure is called {unknown[0]!r}")
    return [Row(each, ours[name], judge(each, ours[name])) for name, each in figures.items() if name in ours]


def markdown(rows: list[Row]) -> str:
    """A table: theirs, ours, and what that comes to."""
    lines = ["| figure | what | theirs | ours | |", "|---|---|---|---|---|"]
    for row in rows:
        each, ours = row.theirs, units.quantity(row.ours, row.theirs.unit)
        sure = spread.percent(row.ours, getattr(row.ours, "spread", None))
        lines.append(
            f"| {each.figure}, {each.place} | {each.what} | {each.text()} ({each.machine}) "
            f"| {f'{ours} {sure}'.strip()} | {row.verdict} |"
        )
    return "\n".join([*lines, "", MEANING])


MEANING = (
    f"*holds*: within {SAME:.0%} of the paper's figure or range; of a ratio with a value that means no difference, an "
    f"effect within {EFFECT:.0%} of theirs (or within {CLOSE}); of a statement without a figure, on the side that it "
    f"names. *same direction*: on that side, with another figure. *no effect here*: within {NEUTRAL:.0%} of no "
    "difference. Ours stands with its interval: over jobs where there are several, else of the one job."
)


def sentence(rows: list[Row]) -> str:
    """Where they and we agree and where not, in words, from the rows."""
    counts = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    judged = len(rows) - len(counts["no record"]) - len(counts["not judged"])
    if not judged:
        parts = ["Nothing here can be judged"]
    else:
        parts = [f"Of {judged} statements that can be compared, {len(counts['holds'])} hold here"]
        if counts["same direction"]:
            parts.append(f"{len(counts['same direction'])} more point the same way, with another figure")
    text = "; ".join(parts) + "."
    differ = [row for verdict in ("no effect here", "another value", "the opposite") for row in counts[verdict]]
    if differ:
        differences = "; ".join(
            f"{row.theirs.what} ({row.theirs.text()}, here {units.quantity(row.ours, row.theirs.unit)}: {row.verdict})"
            for row in differ
        )
        text += f" We do not agree on {differences}."
    elif judged:
        text += " None contradicts."
    for verdict, words in (
        ("not judged", "only stand beside each other, being of that hardware or those programs"),
        ("no record", "have no record here yet"),
    ):
        if counts[verdict]:
            text += f" {len(counts[verdict])} figures {words}."
    return text
