"""Plots for notebooks with matplotlib: curves, bars, stacked bars, boxes and matrices of figures with their units.

Every function draws into given axes, accepts plain dictionaries, and adds a legend if there is more than one series.
Values with an interval (isthmus.tables.readings.Value) get whiskers; plain numbers do not. Colours are Okabe and Ito's,
which colour-blind people can tell apart.
"""

from __future__ import annotations

import math

import matplotlib
import matplotlib.figure
import matplotlib.pyplot as pyplot
import matplotlib.ticker

from isthmus import units
from isthmus.statistics import spread
from isthmus.tables import matrix, readings

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999999", "#000000")
_MARKERS = "osD^vPX*"
_STYLE = {
    "figure.dpi": 80,
    "savefig.dpi": 80,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "isthmus",
}


def panels(columns: int = 1, *, rows: int = 1, width: float = 10.0, height: float = 3.6):
    """Returns a figure and a list of its axes, row by row; `width` and the `height` of one row are in inches."""
    matplotlib.rcParams.update(_STYLE)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width, height * rows), squeeze=False, layout="constrained")
    return figure, list(axes.flat)


def _quantities(axis, unit: str, minor: bool = False) -> None:
    """Labels an axis with SI prefixes: 10 GB/s."""

    def text(value, _):
        factor, shown = units.scale_of(value, unit)
        return f"{value / factor:g} {shown}".rstrip()

    (axis.set_minor_formatter if minor else axis.set_major_formatter)(matplotlib.ticker.FuncFormatter(text))


_QUANTITY = {"B/s": "rate", "s": "time", "1/s": "rate", "B": "bytes"}
_LABELLED = 16  # maximum number of bars that are labelled with their values
_LETTER = 0.008  # width of a letter in inches, per point of font size


def _values_axis(axes, unit: str) -> None:
    """Sets up the y axis: ticks with SI prefixes and unit, and the quantity's name, if the unit has one."""
    _quantities(axes.yaxis, unit)
    axes.set_ylabel(_QUANTITY.get(unit, ""))


def _fits(axes, texts, places: float, size: float) -> bool:
    """Returns whether texts of a font size fit next to each other at `places` positions along the x axis."""
    inches = axes.figure.get_figwidth() * axes.get_position().width
    return max(map(len, texts), default=0) * _LETTER * size <= inches / max(places, 1)


def _name_groups(axes, names) -> None:
    """Labels each group with its name; names are slanted if they would otherwise touch."""
    lying = _fits(axes, [max(name.split("\n"), key=len) for name in names], len(names), 9)
    axes.set_xticks(range(len(names)), list(names), **({} if lying else {"rotation": 30, "ha": "right"}))


def _powers_axis(axis, values, of_bytes: bool) -> None:
    """Labels a logarithmic axis of sizes or counts, with a tick for each value, or for some of many values."""
    chosen = sorted(set(values))
    chosen = chosen[:: math.ceil(len(chosen) / 8)] if chosen else []
    axis.set_ticks(chosen, [units.byte_text(int(value)) if of_bytes else f"{value:g}" for value in chosen])
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


def whiskers(values) -> list[list[float]]:
    """Returns the lengths of the whiskers below and above each value for matplotlib; 0 if a value has no interval."""
    ends = [readings.ends(value) for value in values]
    return [
        [max(float(v) - low, 0) for v, (low, _) in zip(values, ends, strict=True)],
        [max(high - float(v), 0) for v, (_, high) in zip(values, ends, strict=True)],
    ]


_WHISKERS = {"elinewidth": 0.8, "capsize": 2, "ecolor": "#333333"}


def stated(axes, points: dict[float, tuple[float, float]], *, label: str = "the paper") -> None:
    """Draws a paper's figures at their x positions, each as a hollow diamond, with a line if the figure is a range."""
    for index, (x, (low, high)) in enumerate(points.items()):
        axes.plot([x, x], [low, high], color="black", linewidth=3, alpha=0.4)
        axes.plot(
            [x], [math.sqrt(low * high) if low > 0 else (low + high) / 2], "D", markersize=6, markerfacecolor="none",
            color="black", label=None if index else label, linestyle="none",
        )  # fmt: skip
    if points:
        axes.legend()


_COMPARISON = (
    "our figure over the paper's; blue: agrees, green: same direction, orange: contradicts,\n"
    "hollow: undecided or not judged, gray: the paper's range"
)
_DECIDED = {"agrees": 0, "same direction": 2, "contradicts": 3}


def comparison(axes, rows, *, title: str = _COMPARISON) -> None:
    """Draws a line for each compared figure (published.Row): our figure and its whisker, divided by the paper's figure.

    The paper's range is grey. A hollow marker means that our interval cannot decide, or that the figure is not judged
    because it is specific to the paper's hardware.
    """
    shown = [row for row in rows if row.ours is not None and row.theirs.low is not None and row.theirs.low > 0]
    shown = [row for row in shown if float(row.ours) > 0][::-1]
    for y, row in enumerate(shown):
        high = row.theirs.low if row.theirs.high is None else row.theirs.high
        middle = math.sqrt(row.theirs.low * high)
        axes.plot([row.theirs.low / middle, high / middle], [y, y], color="#bbbbbb", linewidth=6, solid_capstyle="butt")
        low, top = readings.ends(row.ours)
        value = float(row.ours) / middle
        is_decided = row.verdict in _DECIDED
        colour = COLOURS[_DECIDED.get(row.verdict, 6)]
        axes.errorbar(
            [value], [y], xerr=[[max(value - low / middle, 0)], [max(top / middle - value, 0)]], marker="o",
            markersize=5, color=colour, markerfacecolor=colour if is_decided else "none", elinewidth=1, capsize=3,
        )  # fmt: skip
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    _quantities(axes.xaxis, "1")
    low, high = axes.get_xlim()
    if high < 30 * low:
        _quantities(axes.xaxis, "1", minor=True)
    else:
        axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.tick_params(axis="x", which="both", labelsize=7)
    _lines_of_text(axes, [f"{row.theirs.what} ({row.theirs.text()})" for row in shown], title)
    axes.set_ylim(-0.7, max(len(shown) - 0.3, 0.7))


def _legend(axes, count: int) -> None:
    if count > 1:
        axes.legend()


def curves(
    axes, lines: dict[str, dict[float, float]], unit: str, *, title: str = "", log: bool = False, x: str = "bytes"
) -> None:
    """Draws a line per name over sizes in bytes, or over counts of the things that `x` names."""
    for index, (name, points) in enumerate(lines.items()):
        axes.errorbar(
            list(points), [float(value) for value in points.values()], yerr=whiskers(list(points.values())), label=name,
            color=COLOURS[index % len(COLOURS)], marker=_MARKERS[index % len(_MARKERS)], markersize=4, elinewidth=0.8,
            capsize=2,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    _powers_axis(axes.xaxis, [place for points in lines.values() for place in points], "bytes" in x.split())
    axes.set_xlabel(x)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    _values_axis(axes, unit)
    axes.set_title(title, loc="left")
    _legend(axes, len(lines))


def _of_bar(value: float) -> str:
    """Returns the label of a bar for a value without a unit: 0.93, 2.1, 114."""
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:.0f}"


def bars(
    axes,
    groups: dict[str, dict[str, float]],
    unit: str,
    *,
    title: str = "",
    log: bool = False,
    line: float | None = None,
) -> None:
    """Draws a group of bars per name, with one bar per key; `line` is the y value of a horizontal line across all."""
    names = _names(groups)
    labels = {
        key: {name: _of_bar(of[key]) if unit == "1" else units.quantity(of[key], unit)
              for name, of in groups.items() if key in of}
        for key in names
    }  # fmt: skip
    texts = [text for of in labels.values() for text in of.values()]
    labelled = len(names) * len(groups) <= _LABELLED
    upright = labelled and not _fits(axes, texts, len(groups) * len(names) * 1.25, 7)
    for name, places, heights, width, colour in _grouped(groups):
        drawn = axes.bar(
            places, [float(h) for h in heights], width, label=name, color=colour, yerr=whiskers(heights),
            error_kw=_WHISKERS,
        )  # fmt: skip
        if labelled:
            rotation = {"padding": 3, "rotation": 90} if upright else {"padding": 1}
            axes.bar_label(drawn, list(labels[name].values()), fontsize=7, **rotation)
    _name_groups(axes, list(groups))
    if line is not None:
        axes.axhline(line, color="black", linewidth=0.8, linestyle="--")
    if log:
        axes.set_yscale("log")
    _values_axis(axes, unit)
    axes.grid(axis="x", visible=False)
    axes.margins(
        y=0.1
        + 0.07 * (len(names) if len(names) > 1 else 0)
        + (0.3 if upright and texts[:1] and len(texts) <= _LABELLED else 0)
    )
    axes.set_title(title, loc="left")
    _legend(axes, len(names))


def stacked(axes, rows: dict[str, dict[str, float]], unit: str, *, title: str = "", legend: bool = True) -> None:
    """Draws a stacked bar per name, with the first part at the bottom."""
    parts = list(dict.fromkeys(part for row in rows.values() for part in row))
    bottoms = [0.0] * len(rows)
    for index, part in enumerate(parts):
        heights = [row.get(part, 0.0) for row in rows.values()]
        axes.bar(
            range(len(rows)), [float(h) for h in heights], 0.75, bottom=bottoms, label=part,
            color=COLOURS[index % len(COLOURS)], yerr=whiskers(heights), error_kw=_WHISKERS,
        )  # fmt: skip
        bottoms = [a + float(b) for a, b in zip(bottoms, heights, strict=True)]
    axes.set_xticks(range(len(rows)), list(rows), rotation=90 if max(map(len, rows), default=0) > 6 else 0)
    _values_axis(axes, unit)
    axes.grid(axis="x", visible=False)
    axes.set_title(title, loc="left")
    if legend and len(parts) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def boxes(axes, samples: dict[str, list[float]], unit: str, *, title: str = "") -> None:
    """Draws a box per name: median, quartiles, and every sample beyond the whiskers."""
    positions = list(range(1, len(samples) + 1))  # older versions of matplotlib lack tick_labels
    axes.boxplot(
        list(samples.values()), positions=positions, widths=0.6, flierprops={"markersize": 3},
        medianprops={"color": COLOURS[3]},
    )  # fmt: skip
    axes.set_xticks(positions, list(samples))
    _values_axis(axes, unit)
    axes.set_title(title, loc="left")


def ratios(axes, found: dict[str, float], *, title: str = "") -> None:
    """Draws a bar per name from 1 to its ratio, the largest on top; the colour shows whether it is above or below 1."""
    ordered = sorted(found.items(), key=lambda item: item[1])
    axes.barh(
        range(len(ordered)), [float(value) - 1 for _, value in ordered], left=1,
        xerr=whiskers([value for _, value in ordered]), error_kw=_WHISKERS,
        color=[COLOURS[0] if value >= 1 else COLOURS[3] for _, value in ordered],
    )  # fmt: skip
    axes.set_xscale("log")
    _quantities(axes.xaxis, "1")
    _quantities(axes.xaxis, "1", minor=True)
    axes.tick_params(axis="x", which="minor", labelsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    _lines_of_text(axes, [name for name, _ in ordered], title)


def _names(groups: dict[str, dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(key for group in groups.values() for key in group))


def _grouped(groups: dict[str, dict[str, float]]):
    """Yields, for each key, the positions, lengths, width and colour of its bars."""
    names = _names(groups)
    width = 0.8 / max(len(names), 1)
    for index, name in enumerate(names):
        of_name = [(place, group[name]) for place, group in enumerate(groups.values()) if name in group]
        places = [place + (index - (len(names) - 1) / 2) * width for place, _ in of_name]
        yield name, places, [value for _, value in of_name], width, COLOURS[index % len(COLOURS)]


def lying(axes, groups: dict[str, dict[str, float]], *, title: str = "") -> None:
    """Draws groups of horizontal bars, one bar per key, so that names may be long; the last group is on top."""
    for name, places, values, width, colour in _grouped(groups):
        axes.barh(
            places, [float(v) for v in values], width, label=name, color=colour, xerr=whiskers(values),
            error_kw=_WHISKERS,
        )  # fmt: skip
    _legend(axes, len(_names(groups)))
    _lines_of_text(axes, list(groups), title)


def _lines_of_text(axes, names: list[str], title: str) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.grid(axis="y", visible=False)
    axes.margins(y=0.01)
    axes.set_title(title, loc="left")


def heat(axes, cells: dict[tuple[str, str], float], unit: str, *, title: str = "", corner: str = "from \\ to") -> None:
    """Draws a matrix of figures; the keys of `cells` are (row, column)."""
    if not cells:
        return
    rows, columns = matrix.sides(cells)
    values = [[cells.get((row, column), math.nan) for column in columns] for row in rows]
    axes.imshow(values, cmap="Blues", vmin=0, aspect="auto")
    top = max((v for row in values for v in row if not math.isnan(v)), default=1)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if not math.isnan(value):
                text = units.quantity(value, unit)
                if share := spread.percent(float(value), getattr(value, "spread", None)):
                    text += f"\n{share}"
                axes.text(j, i, text, ha="center", va="center", color="white" if value > 0.6 * top else "black")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_title(f"{title} ({corner})", loc="left")
    axes.grid(visible=False)
