"""Plots of the report for Plotly: each has a title, a note on what it leaves out, traces and a layout.

Each bar or dot shows exactly one series: its name contains everything in which the series differs from the others. If a
plot shows only some of the series, its note says how many. Whiskers are the intervals of isthmus.statistics.spread.
"""

from __future__ import annotations

import collections
import html
import math
import textwrap
from collections.abc import Iterable

from isthmus import spelling, units
from isthmus.statistics import series, spread
from isthmus.tables import matrix

_PHASES = ("in", "kernel", "out")
_LINES, _DOTS, _BARS = 24, 60, 90  # maximum numbers of lines, dots and bars that are shown
_PAGE = 930  # maximum height of a plot in pixels; a higher plot would be squeezed on paper, so it is split
_MOST_OF_LINEAR = 20  # maximum ratio of the largest to the smallest value on a linear axis
_ROW = 18  # pixels per line of text
_LINE, _NARROW = 14, 50  # pixels per line of small text, and letters of small text that fit on a telephone
#: Fields, besides axes, that distinguish series of one workload.
VARIANT = ("version", "placement", "staging", "size", "preset")


def label(text) -> str:
    """Returns a plot's text, escaped because Plotly interprets some tags, which records may contain."""
    return html.escape(spelling.printable(text))


def figure(title: str, note: str, data: list[dict], **layout) -> dict:
    return {"title": title, "note": note, "data": data, "layout": layout}


def cut(shown: int, of: int, what: str) -> str:
    """Returns a sentence that states how many are shown, or an empty string if all are."""
    return f"{shown} of {of} {what} are shown; `isthmus table` has all." if shown < of else ""


def at_commonest(rows: list[dict]) -> tuple[list[dict], str]:
    """Returns the rows that have the commonest value of everything except the size, and a note that names these values.

    Each value is chosen among the rows that earlier choices kept, so that some rows always remain. Each route and size
    then has at most one row.
    """
    names = sorted({axis for row in rows for axis in row["axes"]} - {"bytes"})
    before, chosen = len(rows), {}
    for name in (*VARIANT, *names):
        counts = collections.Counter(_value(row, name) for row in rows if _value(row, name) is not None)
        if len(counts) + any(_value(row, name) is None for row in rows) < 2:
            continue
        if name in VARIANT:  # absence of a value counts as a value
            counts = collections.Counter(_value(row, name) for row in rows)
        # Rows without a preset are preferred.
        commonest = max(counts, key=lambda value: (name == "preset" and value is None, counts[value], str(value)))
        if name in VARIANT:
            kept = [row for row in rows if _value(row, name) == commonest]
        else:
            kept = [row for row in rows if _value(row, name) in (commonest, None)]
        if len(kept) < len(rows):
            chosen[name] = commonest
        rows = kept
    if not chosen:
        return rows, ""
    words = ", ".join(f"{name}={value if value is not None else 'none'}" for name, value in chosen.items())
    return rows, f"Only figures at the commonest values ({words}); `isthmus table` has {before - len(rows)} others."


def _value(row: dict, name: str):
    return row[name] if name in VARIANT else row["axes"].get(name)


def routes(rows: list[dict]) -> dict[tuple[str, str, str, str], list[dict]]:
    """Groups the rates and latencies of workloads with routes by (family, initiator, metric, unit)."""
    groups: dict[tuple[str, str, str, str], list[dict]] = collections.defaultdict(list)
    for row in rows:
        route = matrix.route(row["workload"])
        if route and row["metric"] in ("rate", "latency"):
            groups[route["family"], route["initiator"], row["metric"], row["unit"]].append(row)
    return groups


def by_size(rows: list[dict]) -> list[dict]:
    """Returns plots of rates or latencies over size, one for each family and initiator with at least three sizes."""
    plots = []
    for (family, initiator, metric, unit), members in sorted(routes(rows).items()):
        members, note = at_commonest([row for row in members if "bytes" in row["axes"] and row["value"] > 0])
        lines: dict[str, dict[int, dict]] = collections.defaultdict(dict)
        for row in members:
            route = matrix.route(row["workload"])
            assert route is not None
            lines[f"{route['start']} → {route['end']}"][row["axes"]["bytes"]] = row
        lines = {name: points for name, points in lines.items() if len(points) > 2}
        if not lines:
            continue
        shown = dict(list(lines.items())[:_LINES])
        values = [row["value"] for points in shown.values() for row in points.values()]
        wide = max(values) > _MOST_OF_LINEAR * min(values)
        factor, shown_unit = (1.0, "") if wide else units.scale_of(max(values), unit)
        data = [_line(name, points, factor) for name, points in shown.items()]
        y: dict = {"automargin": True}
        y |= _decades(values, unit) if wide else {"rangemode": "tozero", "title": {"text": shown_unit}}
        notes = [note, cut(len(shown), len(lines), "lines")]
        x = {"type": "log", "automargin": True} | _sizes([size for points in shown.values() for size in points])
        title = f"{family}/{initiator}: {metric} by size"
        height = 420 + _ROW * math.ceil(len(shown) / 4)
        plots.append(figure(title, " ".join(filter(None, notes)), data, xaxis=x, yaxis=y, height=height))
    return plots


def _decades(values: list[float], unit: str) -> dict:
    """Returns a logarithmic axis for values above 0, with ticks at 1, 2 and 5 of each decade.

    If there are five decades or more, each has only the tick at 1.
    """
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low < 5 else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [units.short(tick, unit) for tick in ticks]}


def _sizes(found: list[int]) -> dict:
    """Returns the ticks of an axis of sizes in bytes."""
    chosen = sorted(set(found))
    chosen = chosen[:: math.ceil(len(chosen) / 12)]
    return {"tickvals": chosen, "ticktext": [units.byte_text(size) for size in chosen]}


def _line(name: str, points: dict[int, dict], factor: float) -> dict:
    sizes = sorted(points)
    values = [points[size]["value"] for size in sizes]
    spreads = [points[size]["spread"] for size in sizes]
    texts = [
        f"{units.byte_text(size)}: {units.quantity(value, points[size]['unit'])} {spread.percent(value, each)}"
        for size, value, each in zip(sizes, values, spreads, strict=True)
    ]
    return {
        "type": "scatter", "mode": "lines+markers", "name": label(name), "x": sizes,
        "y": [value / factor for value in values], "error_y": spread.whiskers(values, spreads, factor),
        "text": texts, "hovertemplate": "%{text}",
    }  # fmt: skip


def _mode(row: dict) -> str:
    return row["mode"] or "/".join(filter(None, (row["placement"], row["staging"])))


def modes(rows: list[dict]) -> list[dict]:
    """Returns plots of copy in, kernel and copy out for each size; each workload has a panel with its own axes."""
    sizes: dict[str, dict[tuple, dict[str, dict]]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    presets: collections.Counter = collections.Counter()
    for row in rows:
        if row["placement"] and row["metric"] in _PHASES and row["size"]:
            if row["preset"] is not None:
                presets[row["size"]] += row["metric"] == "kernel"
                continue
            key = (row["workload"], _mode(row), row["version"], tuple(sorted(row["axes"].items())))
            sizes[row["size"]][key][row["metric"]] = row
    plots = []
    for size, found in sizes.items():
        whole = {key: phases for key, phases in found.items() if len(phases) == len(_PHASES)}
        if len({key[1] for key in whole}) < 2:
            continue
        keys = sorted(whole, key=lambda key: (key[0], key[1], key[2], str(key[3])))
        notes = [cut(min(len(keys), _BARS), len(keys), "bars")]
        notes += [f"{presets[size]} cases of presets are in `isthmus table`."] if presets[size] else []
        notes += ["Each panel has its own axis."]
        pages = _pages(keys[:_BARS])
        for number, page in enumerate(pages, 1):
            title = f"Modes at {size}: copies in, kernel, copies out{_part(number, len(pages))}"
            data, layout = _panels({key: whole[key] for key in page})
            plots.append(figure(title, " ".join(filter(None, notes)), data, barmode="stack", **layout))
    return plots


def _part(number: int, of: int) -> str:
    return f" ({number} of {of})" if of > 1 else ""


def _pages(keys: list[tuple]) -> list[list[tuple]]:
    """Groups the bars into pages; each page has as many whole workloads as fit on it."""
    pages: list[list[tuple]] = []
    for workload in dict.fromkeys(key[0] for key in keys):
        own = [key for key in keys if key[0] == workload]
        together = [*pages[-1], *own] if pages else own
        if pages and _height(together) <= _PAGE:
            pages[-1] = together
        else:
            pages.append(own)
    return pages


def _height(keys: Iterable[tuple]) -> int:
    keys = list(keys)
    return _ROW * len(keys) + 62 * len({key[0] for key in keys}) + 60


def _bar_names(keys: list[tuple]) -> dict[tuple, str]:
    """Returns the names of bars: the mode, and the version and axes in which bars of the same mode differ."""
    names = {}
    for key in keys:
        alike = [other for other in keys if other[:2] == key[:2]]
        words = [key[1]]
        if len({other[2] for other in alike}) > 1:
            words.append(f"version {key[2]}")
        for axis, value in key[3]:
            if len({dict(other[3]).get(axis) for other in alike}) > 1:
                words.append(f"{axis}={value}")
        names[key] = " ".join(words)
    return names


def _panels(bars: dict[tuple, dict[str, dict]]) -> tuple[list[dict], dict]:
    """Returns the traces and layout of one panel per workload, one below the other."""
    names = _bar_names(list(bars))
    workloads = list(dict.fromkeys(key[0] for key in bars))
    counts = [sum(key[0] == workload for key in bars) for workload in workloads]
    height = _height(bars)
    data: list[dict] = []
    layout: dict = {"height": height, "annotations": [], "bargap": 0.15}
    top = 1.0
    for number, (workload, count) in enumerate(zip(workloads, counts, strict=True), 1):
        suffix = "" if number == 1 else str(number)
        bottom = top - _ROW * count / (height - 60)
        layout[f"yaxis{suffix}"] = {
            "domain": [max(bottom, 0), top], "automargin": True, "autorange": "reversed", "anchor": f"x{suffix}",
        }  # fmt: skip
        layout[f"xaxis{suffix}"] = {
            "anchor": f"y{suffix}",
            "ticksuffix": "s",
            "tickformat": ".3s",
            "rangemode": "tozero",
        }
        layout["annotations"].append({
            "text": label(workload), "xref": "paper", "yref": "paper", "x": 0, "y": top, "yanchor": "bottom",
            "xanchor": "left", "showarrow": False, "font": {"size": 13},
        })  # fmt: skip
        own = {key: phases for key, phases in bars.items() if key[0] == workload}
        for index, phase in enumerate(_PHASES):
            found = [phases[phase] for phases in own.values()]
            values = [row["value"] for row in found]
            data.append({
                "type": "bar", "orientation": "h", "name": phase, "legendgroup": phase, "showlegend": number == 1,
                "x": values, "y": [label(names[key]) for key in own], "xaxis": f"x{suffix}", "yaxis": f"y{suffix}",
                "marker": {"color": ("#0072B2", "#009E73", "#E69F00")[index]},
                "error_x": spread.whiskers(values, [row["spread"] for row in found]),
                "text": [spread.percent(row["value"], row["spread"]) for row in found], "textposition": "none",
                "hovertemplate": "%{x:.3s}s %{text} " + phase,
            })  # fmt: skip
        top = bottom - 62 / (height - 60)
    return data, layout


def limits(rows: list[dict]) -> list[dict]:
    """Returns plots of each rate's share of its limit, with one dot per series at its best size.

    Low and doubtful figures come first, then those farthest from their limits.
    """
    best: dict[tuple, dict] = {}
    for row in rows:
        if row["share"] and row["metric"].endswith("rate"):
            axes = tuple(sorted((axis, value) for axis, value in row["axes"].items() if axis != "bytes"))
            names = [row[name] for name in ("workload", "metric", *VARIANT) if name != "size"]
            key = (*names, axes)
            if key not in best or row["share"] > best[key]["share"]:
                best[key] = row
    ordered = sorted(best.values(), key=lambda row: (not row["low"], not row["doubt"], row["share"], row["label"]))
    shown = ordered[:_DOTS]
    names = [
        textwrap.wrap(f"{name}: {row['doubt']}" if row["doubt"] else name, _NARROW)
        for name, row in zip(labels(shown), shown, strict=True)
    ]
    note = cut(len(shown), len(ordered), "series (low and doubtful ones first, then those furthest from their limits)")
    step = (_PAGE - 150) // (_ROW + _LINE * max(map(len, names), default=1))
    parts = range(0, len(shown), step)
    return [
        _dots(shown[first : first + step], names[first : first + step], note, _part(number, len(parts)))
        for number, first in enumerate(parts, 1)
    ]


def _dots(shown: list[dict], names: list[list[str]], note: str, part: str) -> dict:
    """Returns a plot of the shares of the series, the first on top.

    Names are above the dots, since a telephone's screen has no room next to them.
    """
    whiskers = [each["share"] * (spread.relative(each["value"], each["spread"]) or 0) for each in shown]
    texts = [
        f"{units.quantity(r['value'], r['unit'])} {spread.percent(r['value'], r['spread'])} "
        f"of {r['source'] or 'its limit'}"
        for r in shown
    ]
    colours = ["#D55E00" if each["low"] else "#E69F00" if each["doubt"] else "#0072B2" for each in shown]
    heights = [_ROW + _LINE * len(name) for name in names]
    tops = [sum(heights[:i]) for i in range(len(heights))]
    data = [
        {
            "type": "scatter", "mode": "markers", "x": [each["share"] for each in shown],
            "y": [top + height - _ROW / 2 for top, height in zip(tops, heights, strict=True)],
            "error_x": {"type": "data", "array": whiskers, "thickness": 1, "width": 3, "color": "#888888"},
            "marker": {"color": colours},
            "text": [label(text) for text in texts], "hovertemplate": "%{x:.0%}: %{text}",
        }
    ]  # fmt: skip
    captions = [
        {
            "text": "<br>".join(map(label, name)), "xref": "paper", "x": 0, "xanchor": "left", "y": top,
            "align": "left", "yanchor": "top", "showarrow": False, "font": {"size": 11},
        }
        for name, top in zip(names, tops, strict=True)
    ]  # fmt: skip
    high = max(1.05, *(each["share"] + w for each, w in zip(shown, whiskers, strict=True)))
    x = {"title": {"text": "share of the limit"}, "tickformat": ".0%", "range": [0, high * 1.02]}
    y = {"visible": False, "range": [sum(heights), 0], "fixedrange": True}
    title = f"Share of the hardware's limit{part}"
    return figure(title, note, data, xaxis=x, yaxis=y, annotations=captions, height=110 + sum(heights),
                  margin={"t": 10, "r": 10, "l": 10, "b": 60})  # fmt: skip


def labels(rows: list[dict]) -> list[str]:
    """Returns names of the rows that contain only what distinguishes them from each other."""
    found = series.labels([series.Series(row["key"], None, row["mode"], {}) for row in rows])
    return [found[row["key"]] for row in rows]


def _arithmetic(rows: list[dict]) -> dict[tuple, dict[str, dict]]:
    """Returns the rates of bytes and of operations of each case that has both."""
    rates: dict[tuple, dict[str, dict]] = collections.defaultdict(dict)
    for row in rows:
        if row["metric"] in ("kernel_rate", "kernel_flop_rate") and row["value"] > 0:
            names = (row["workload"], _mode(row), row["size"] or "", str(row["axes"]), row["preset"], row["version"])
            rates[names][row["metric"]] = row
    return {key: found for key, found in rates.items() if len(found) == 2}


def _kernels(size: str, found: list[dict[str, dict]]) -> dict:
    """Returns dots for the kernels of one size."""
    flops = [each["kernel_flop_rate"] for each in found]
    values = [row["value"] for row in flops]
    return {
        "type": "scatter", "mode": "markers", "name": label(size or "other"),
        "x": [each["kernel_flop_rate"]["value"] / each["kernel_rate"]["value"] for each in found],
        "y": values, "error_y": spread.whiskers(values, [row["spread"] for row in flops]),
        "text": [label(row["label"]) for row in flops],
        "hovertemplate": "%{text}: %{y:.3s}FLOP/s at %{x:.3g} FLOP/byte",
    }  # fmt: skip


def roofline(rows: list[dict], memory: float | None, arithmetic: float | None) -> list[dict]:
    """Returns a roofline plot: kernels' FLOP/s over FLOP/byte, with the limits of memory (B/s) and arithmetic (FLOP/s).

    Returns an empty list if no kernel has both rates, or a limit is unknown.
    """
    points = _arithmetic(rows)
    if not points or not memory or not arithmetic:
        return []
    sizes = dict.fromkeys(key[2] for key in points)
    data = [_kernels(size, [found for key, found in points.items() if key[2] == size]) for size in sizes]
    low = min(min(trace["x"]) for trace in data) / 2
    high = max(max(max(trace["x"]) for trace in data) * 2, 2 * arithmetic / memory)
    roof = sorted([low, arithmetic / memory, high])
    data.append(
        {"type": "scatter", "mode": "lines", "name": "limit", "x": roof, "hoverinfo": "skip",
         "y": [min(arithmetic, memory * x) for x in roof], "line": {"color": "#888", "dash": "dash"}}
    )  # fmt: skip
    x = {"type": "log", "title": {"text": "FLOP/byte"}, "automargin": True}
    y = {"type": "log", "title": {"text": "FLOP/s"}, "tickformat": ".2s", "automargin": True}
    return [figure("Roofline: kernels under memory and arithmetic", "", data, xaxis=x, yaxis=y)]
