"""Pictures of a trace of page faults, for Plotly (figures/charts.py), and a sketch for a terminal.

A picture has at most a few tens of thousands of cells or points, regardless of the number of events.
"""

from __future__ import annotations

import numpy

from isthmus import units
from isthmus.faults.tracefile import BLOCK, CAUSES, Batches, Events, Spans, batch_of_moves, signed, transfers
from isthmus.figures.charts import figure

_BINS, _ROWS, _COLUMNS, _POINTS = 240, 128, 240, 1500
_COLOURS = {
    "fault": "#0072B2",
    "prefetcher": "#56B4E9",
    "asked": "#009E73",
    "eviction": "#D55E00",
    "access counter": "#CC79A7",
}
_WAYS = ("to GPUs", "to the host", "from GPU to GPU")
_TO_AND_FRO = [[0, "#D55E00"], [0.4999, "#F2C9A8"], [0.5001, "#B3D7EE"], [1, "#0072B2"]]
_SHADES = " ·░▒▓█"
_SPARK = " ▁▂▃▄▅▆▇█"


# --- time ---


def window(events: Events) -> tuple[int, int, int]:
    """Returns the begin and length (ns) of the period with all events except a few strays, and the number of strays.

    At each end, up to one event in a thousand may be far from the others, for example after a clock jumped. Such events
    are counted but not drawn.
    """
    times = [signed(each) for each in (events.faults["time"], events.cpu_faults["time"], events.moves["begin"])]
    found = numpy.sort(numpy.concatenate(times))
    if not len(found):
        return 0, 1, 0
    rank = len(found) // 1000
    low, high = int(found[rank]), int(found[-1 - rank])
    near = found[(found >= low - (high - low)) & (found <= high + (high - low))] if rank else found
    return int(near[0]), max(int(near[-1] - near[0]), 1), len(found) - len(near)


def _bins(times: numpy.ndarray, begin: int, length: int, count: int) -> numpy.ndarray:
    """Returns the bin of each time, or -1 for times outside the period."""
    since = signed(times) - begin
    place = numpy.minimum(since / (length + 1) * count, count - 1).astype("i8")
    return numpy.where((since >= 0) & (since <= length), place, -1)


def _sum(bins: numpy.ndarray, count: int, weights=None) -> numpy.ndarray:
    ok = bins >= 0
    return numpy.bincount(bins[ok], weights=None if weights is None else weights[ok], minlength=count)[:count]


def _ways(moves: numpy.ndarray) -> list[tuple[str, numpy.ndarray]]:
    to_gpu, from_gpu = moves["destination"] > 0, moves["source"] > 0
    return list(zip(_WAYS, (to_gpu & ~from_gpu, ~to_gpu, to_gpu & from_gpu), strict=True))


def _round(values) -> list:
    return [float(f"{value:.4g}") for value in values]


def _seconds_axis(length: int, **more) -> dict:
    return {"title": {"text": "seconds"}, "range": [0, length * 1e-9], **more}


def _timeline(events: Events, batches: Batches) -> dict:
    begin, length, strays = window(events)
    step = length / _BINS * 1e-9
    x = _round((numpy.arange(_BINS) + 0.5) * step)
    moves = events.moves
    bins = _bins(moves["begin"], begin, length, _BINS)
    data = []
    for code, cause in CAUSES.items():
        for way, chosen in _ways(moves):
            part = chosen & (moves["cause"] == code)
            if part.any():
                sign = -1 if way == "to the host" else 1
                sizes = _sum(bins[part], _BINS, moves["bytes"][part].astype("f8")) * sign / 2**20
                data.append({
                    "type": "bar", "name": f"{cause}, {way}", "x": x, "y": _round(sizes), "yaxis": "y",
                    "marker": {"color": _COLOURS[cause], "opacity": 0.55 if way == _WAYS[2] else 1},
                    "hovertemplate": "%{x:.4~g} s: %{y:.3~s} MiB",
                })  # fmt: skip
    for name, times, colour in (
        ("faults of GPUs", events.faults["time"], "#E69F00"),
        ("faults of the host", events.cpu_faults["time"], "#999999"),
    ):
        if len(times):
            counts = _sum(_bins(times, begin, length, _BINS), _BINS)
            data.append({
                "type": "bar", "name": name, "x": x, "y": counts.tolist(), "yaxis": "y2", "marker": {"color": colour},
                "hovertemplate": "%{x:.4~g} s: %{y} " + name,
            })  # fmt: skip
    busy = _busy(batches, begin, length)
    data.append({
        "type": "scatter", "mode": "lines", "name": "in service", "x": x, "y": _round(busy), "yaxis": "y3",
        "line": {"color": "#CC79A7", "shape": "hvh", "width": 1.5}, "fill": "tozeroy",
        "hovertemplate": "%{x:.4~g} s: %{y:.0%} in service",
    })  # fmt: skip
    note = f"Each bar is {units.quantity(step, 's')}. Below zero: to the host."
    if strays:
        note += f" {strays} events are far from all others in time and are not drawn."
    moved = any(each["yaxis"] == "y" for each in data)
    if not moved:
        note = note.replace("Below zero: to the host.", "Nothing moved.")
    heights = ([0.56, 1], [0.24, 0.52], [0, 0.2]) if moved else ([0, 0], [0.45, 1], [0, 0.37])
    return figure(
        "Timeline", note, data, barmode="relative", bargap=0, height=620 if moved else 400,
        xaxis=_seconds_axis(length, anchor="y3"),
        yaxis={"domain": heights[0], "title": {"text": "MiB moved"}, "automargin": True, "visible": moved},
        yaxis2={"domain": heights[1], "title": {"text": "faults"}, "automargin": True},
        yaxis3={"domain": heights[2], "title": {"text": "in service"}, "tickformat": ".0%", "rangemode": "tozero"},
    )  # fmt: skip


def _busy(batches: Batches, begin: int, length: int) -> numpy.ndarray:
    """Returns the share of each bin in which a batch was in service; simultaneous batches of two GPUs count twice."""
    edges = begin + numpy.arange(_BINS + 1) * (length / _BINS)
    until = numpy.zeros(_BINS + 1)
    for sign, ends in ((1, batches.begin), (-1, batches.replay)):  # time since begin minus time since end
        found = numpy.sort(ends[batches.timed]).astype("f8")
        before = numpy.searchsorted(found, edges)
        total = numpy.concatenate([[0], numpy.cumsum(found - begin)])
        until += sign * (before * (edges - begin) - total[before])
    return numpy.diff(until) / (length / _BINS)


def _batch_sizes(events: Events, batches: Batches) -> dict:
    begin, length, _ = window(events)
    order = numpy.argsort(batches.begin, kind="stable")
    order = order[_bins(batches.begin[order], begin, length, _BINS) >= 0]
    at, sizes, blocks = (batches.begin[order] - begin) * 1e-9, batches.faults[order], batches.blocks[order]
    x_axis = _seconds_axis(length)
    y_axis = {"title": {"text": "faults per batch"}, "rangemode": "tozero", "automargin": True}
    if len(order) <= _POINTS:
        data = [{
            "type": "scatter", "mode": "markers", "x": _round(at), "y": sizes.tolist(), "marker": _by_blocks(blocks, 6),
            "text": [f"{count} faults in {block} blocks" for count, block in zip(sizes.tolist(), blocks.tolist())],
            "hovertemplate": "%{x:.4~g} s: %{text}",
        }]  # fmt: skip
        return figure("Faults per batch over time", "One dot per batch.", data, xaxis=x_axis, yaxis=y_axis)
    bins = _bins(batches.begin[order], begin, length, _BINS)
    filled, first = numpy.unique(bins, return_index=True)
    parts = numpy.split(sizes, first[1:])
    x = _round((numpy.arange(_BINS) + 0.5) * length / _BINS * 1e-9)
    data = []
    for name, of, fill in (("least", numpy.min, None), ("most", numpy.max, "tonexty"), ("median", numpy.median, None)):
        values: list[float | None] = [None if name == "median" else 0.0] * _BINS  # bins without a batch get no line
        for place, part in zip(filled.tolist(), parts):
            values[place] = float(of(part))
        data.append({
            "type": "scatter", "mode": "lines", "name": name, "x": x, "y": values, "connectgaps": False,
            "line": {"color": "#0072B2", "width": 2 if name == "median" else 0.5, "shape": "hvh"},
            "fillcolor": "rgba(86,180,233,0.3)", **({"fill": fill} if fill else {}),
        })  # fmt: skip
    note = f"{len(order)} batches: minimum, median and maximum in each {units.quantity(length / _BINS * 1e-9, 's')}."
    return figure("Faults per batch over time", note, data, xaxis=x_axis, yaxis=y_axis)


def _by_blocks(blocks: numpy.ndarray, size: int) -> dict:
    """Returns Plotly markers that are coloured by the number of blocks, on a logarithmic scale."""
    most = max(int(blocks.max(initial=1)), 2)
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if tick <= most]
    return {
        "size": size, "color": _round(numpy.log10(numpy.maximum(blocks, 1))), "colorscale": "Viridis", "cmin": 0,
        "cmax": float(numpy.log10(most)), "showscale": True,
        "colorbar": {"title": {"text": "blocks"}, "tickvals": _round(numpy.log10(ticks)),
                     "ticktext": [str(tick) for tick in ticks], "thickness": 12},
    }  # fmt: skip


# --- address × time ---


class _Grid:
    """Grid of touched addresses (rows, without the gaps between them) and time (columns)."""

    def __init__(self, events: Events, spans: Spans, rows: int, columns: int):
        self.first, self.blocks = spans.first, spans.blocks
        self.begin, self.length, _ = window(events)
        total = int(self.blocks.sum())
        self.shift = BLOCK  # size of a unit of address as a power of two; smaller than a block if there are few blocks
        while self.shift > 12 and total << (BLOCK - self.shift + 1) <= rows:
            self.shift -= 1
        self.units = total << (BLOCK - self.shift)
        self.rows, self.columns = min(rows, self.units), columns
        self.before = numpy.concatenate([[0], numpy.cumsum(self.blocks)[:-1]]) << (BLOCK - self.shift)

    def row(self, addresses: numpy.ndarray) -> numpy.ndarray:
        unit = (addresses >> numpy.uint64(self.shift)).astype("i8")
        place = numpy.searchsorted(self.first << (BLOCK - self.shift), unit, side="right") - 1
        inside = unit - (self.first[place] << (BLOCK - self.shift)) + self.before[place]
        return numpy.clip(inside * self.rows // self.units, 0, self.rows - 1)

    def sum(self, addresses, times, weights=None) -> numpy.ndarray:
        """Returns the number of events, or the sum of their weights, in each cell (rows, columns)."""
        column = _bins(times, self.begin, self.length, self.columns)
        ok = column >= 0
        cell = self.row(addresses[ok]) * self.columns + column[ok]
        found = numpy.bincount(cell, None if weights is None else weights[ok], minlength=self.rows * self.columns)
        return found.reshape(self.rows, self.columns)

    def axis(self) -> dict:
        """Returns an axis that is labelled with the first address of each range that is tall enough for a label."""
        rows = self.before * self.rows / self.units
        heights = numpy.diff(numpy.append(rows, self.rows))
        named = [i for i in range(len(rows)) if heights[i] >= self.rows / 24][:24]
        return {
            "tickvals": [float(rows[i]) for i in named], "automargin": True, "autorange": "reversed",
            "ticktext": [f"{int(first) << BLOCK:#x} {units.byte_text(int(blocks) << BLOCK)}"
                         for first, blocks in zip(self.first[named], self.blocks[named])],
        }  # fmt: skip

    def note(self) -> str:
        step = units.quantity(self.length / self.columns * 1e-9, "s")
        size = -(-self.units // self.rows) << self.shift
        return f"Addresses that were touched, gaps left out; a cell is about {units.byte_text(size)} by {step}."


def _picture(grid: _Grid, title: str, note: str, values: numpy.ndarray, texts: list[list[str]], **scale) -> dict:
    filled = values != 0
    z = [
        [float(f"{value:.3g}") if full else None for value, full in zip(line, there)]
        for line, there in zip(values.tolist(), filled.tolist())
    ]
    x = (numpy.arange(grid.columns) + 0.5) * grid.length / grid.columns * 1e-9
    data = [{
        "type": "heatmap", "x": _round(x), "y": [row + 0.5 for row in range(grid.rows)], "z": z, "text": texts,
        "hoverongaps": False, "hovertemplate": "%{x:.4~g} s: %{text}<extra></extra>", **scale,
    }]  # fmt: skip
    return figure(
        title, f"{grid.note()} {note}".strip(), data, xaxis=_seconds_axis(grid.length), yaxis=grid.axis(), height=520
    )


def _fault_picture(grid: _Grid, events: Events) -> dict:
    counts = grid.sum(events.faults["address"], events.faults["time"])
    most = max(int(counts.max(initial=1)), 2)
    ticks = [10**power for power in range(8) if 10**power <= most]
    texts = [[f"{count} faults" if count else "" for count in line] for line in counts.tolist()]
    # Values are slightly above 0 for a single fault, so that such a cell is not drawn as empty.
    values = numpy.where(counts > 0, numpy.log10(numpy.maximum(counts, 1)) + 1e-6, 0)
    return _picture(
        grid, "Faults of GPUs: address × time", "", values, texts,
        colorscale="Viridis", zmin=0, zmax=float(numpy.log10(most)),
        colorbar={"title": {"text": "faults"}, "tickvals": _round(numpy.log10(ticks)),
                  "ticktext": [str(tick) for tick in ticks], "thickness": 12},
    )  # fmt: skip


def _move_picture(grid: _Grid, events: Events) -> dict:
    moves = events.moves
    way = numpy.where(moves["destination"] > 0, 1.0, -1.0)
    sizes = moves["bytes"].astype("f8")
    there, back = (
        grid.sum(moves["address"], moves["begin"], numpy.where(way == sign, sizes, 0)) / 2**20 for sign in (1, -1)
    )
    texts = [
        [f"{a:.4g} MiB to GPUs, {b:.4g} MiB to the host" if a or b else "" for a, b in zip(one, other)]
        for one, other in zip(there.tolist(), back.tolist())
    ]
    # A cell with moves in both directions shows the larger amount; the difference would hide moves back and forth.
    values = numpy.where(there >= back, there, -back)
    most = float(numpy.abs(values).max(initial=1e-9))
    return _picture(
        grid, "Moves: address × time", "Below zero: to the host.", values, texts,
        colorscale=_TO_AND_FRO, zmin=-most, zmax=most,
        colorbar={"title": {"text": "MiB"}, "thickness": 12},
    )  # fmt: skip


# --- causes and costs ---


def _causes(events: Events) -> dict:
    moves = events.moves
    data: list[dict] = []
    ways = [(way, chosen) for way, chosen in _ways(moves) if chosen.any()]
    for code, cause in CAUSES.items():
        own = moves["cause"] == code
        if own.any():
            sizes = [float(moves["bytes"][own & chosen].sum()) / 2**20 for _, chosen in ways]
            data.append({
                "type": "bar", "name": cause, "legendgroup": cause, "orientation": "h", "y": [way for way, _ in ways],
                "x": _round(sizes), "marker": {"color": _COLOURS[cause]}, "hovertemplate": "%{x:.4~g} MiB " + cause,
            })  # fmt: skip
    powers = numpy.arange(12, 22)
    for code, cause in CAUSES.items():
        own = moves["cause"] == code
        if own.any():
            power = numpy.log2(numpy.maximum(moves["bytes"][own], 1).astype("f8")).astype("i8")
            counts = numpy.bincount(numpy.clip(power, 12, 21) - 12, minlength=10)
            data.append({
                "type": "bar", "name": cause, "legendgroup": cause, "showlegend": False, "xaxis": "x2", "yaxis": "y2",
                "x": [units.byte_text(1 << int(power)) for power in powers], "y": counts.tolist(),
                "marker": {"color": _COLOURS[cause]}, "hovertemplate": "%{y} moves of %{x} or more, " + cause,
            })  # fmt: skip
    return figure(
        "Moves by cause and size", "Left: bytes. Right: number of moves by size (each bar up to the next).", data,
        barmode="stack", height=416,
        xaxis={"domain": [0, 0.4], "title": {"text": "MiB"}, "anchor": "y"}, yaxis={"automargin": True},
        xaxis2={"domain": [0.55, 1], "anchor": "y2", "type": "category"},
        yaxis2={"anchor": "x2", "title": {"text": "moves"}, "automargin": True},
    )  # fmt: skip


def _costs(events: Events, batches: Batches) -> dict | None:
    """Draws each batch's service time and the share of it spent on transfers, over the bytes moved.

    Returns None if no batch moved anything.
    """
    moves = events.moves
    until = numpy.where(batches.timed, batches.replay, 0)
    of_move = batch_of_moves(moves, batches.gpu, batches.begin, until)
    took, has = transfers(moves)
    seconds = numpy.zeros(len(moves))
    seconds[has] = took * 1e-9
    ours = of_move >= 0
    count = len(batches.faults)
    size = numpy.bincount(of_move[ours], weights=moves["bytes"][ours].astype("f8"), minlength=count)
    transfer = numpy.bincount(of_move[ours], weights=seconds[ours], minlength=count)
    chosen = numpy.flatnonzero(batches.timed & (size > 0) & (batches.replay > batches.begin))
    if not len(chosen):
        return None
    shown = chosen[:: -(-len(chosen) // _POINTS)]
    service = (batches.replay - batches.begin)[shown] * 1e-9
    x = _round(size[shown] / 2**20)
    texts = [
        f"{f} faults in {b} blocks" for f, b in zip(batches.faults[shown].tolist(), batches.blocks[shown].tolist())
    ]
    data = [
        {"type": "scatter", "mode": "markers", "x": x, "y": _round(service * 1e3), "text": texts,
         "marker": _by_blocks(batches.blocks[shown], 5), "hovertemplate": "%{x} MiB: %{y} ms, %{text}"},
        {"type": "scatter", "mode": "markers", "x": x, "y": _round(transfer[shown] / service), "text": texts,
         "marker": {"size": 5, "color": "#0072B2"}, "yaxis": "y2", "hovertemplate": "%{x} MiB: %{y:.0%}, %{text}"},
    ]  # fmt: skip
    note = f"One dot per batch{f', {len(shown)} of {len(chosen)}' if len(shown) < len(chosen) else ''}. "
    note += (
        "Above: time from the first fault to the replay. Below: share of it that the moves took on the GPU's clock; "
        "simultaneous moves count twice."
    )
    return figure(
        "Cost of a batch by bytes moved", note, data, height=560, showlegend=False,
        xaxis={"title": {"text": "MiB moved while the batch was in service"}, "anchor": "y2", "rangemode": "tozero"},
        yaxis={"domain": [0.42, 1], "title": {"text": "ms"}, "rangemode": "tozero", "automargin": True},
        yaxis2={"domain": [0, 0.34], "title": {"text": "transfer"}, "tickformat": ".0%", "rangemode": "tozero",
                "automargin": True},
    )  # fmt: skip


def all_of(events: Events, batches: Batches, spans: Spans, *, times: bool) -> list[dict]:
    """Returns all pictures that have content; without `times`, only those that need no times."""
    found: list[dict | None] = []
    if times and len(spans.first):
        found.append(_timeline(events, batches))
        if len(batches.faults):
            found.append(_batch_sizes(events, batches))
        grid = _Grid(events, spans, _ROWS, _COLUMNS)
        if len(events.faults):
            found.append(_fault_picture(grid, events))
        if len(events.moves):
            found.append(_move_picture(grid, events))
    if len(events.moves):
        found.append(_causes(events))
        found.append(_costs(events, batches) if times else None)
    return [each for each in found if each is not None]


# --- the terminal ---


def sketch(events: Events, spans: Spans, width: int = 60, height: int = 8) -> list[str]:
    """Returns lines of text that draw faults, moves and addresses over time."""
    begin, length, strays = window(events)
    lines = [f"{units.quantity(length * 1e-9, 's')} from left to right; each line is scaled to its own maximum"]
    moves = events.moves
    of_move = _bins(moves["begin"], begin, length, width)
    of_way = [(way, _sum(of_move[chosen], width, moves["bytes"][chosen].astype("f8"))) for way, chosen in _ways(moves)]
    rows = [("faults of GPUs", _sum(_bins(events.faults["time"], begin, length, width), width)), *of_way]
    rows.append(("faults of the host", _sum(_bins(events.cpu_faults["time"], begin, length, width), width)))
    for name, values in rows:
        if values.any():
            levels = numpy.ceil(values / values.max() * (len(_SPARK) - 1)).astype("i8")
            lines.append(f"{name:<18} {''.join(_SPARK[level] for level in levels)}".rstrip())
    if len(spans.first) and len(events.faults):
        grid = _Grid(events, spans, height, width)
        counts = grid.sum(events.faults["address"], events.faults["time"])
        most = max(int(counts.max()), 1)  # counts are 0 if all faults are strays
        levels = numpy.ceil(numpy.log1p(counts) / numpy.log1p(most) * (len(_SHADES) - 1)).astype("i8")
        lines += ["", "faults of GPUs by address (downwards, gaps left out) and time"]
        lines += [f"{'':<18} {''.join(_SHADES[level] for level in line)}".rstrip() for line in levels]
    if strays:
        lines.append(f"{strays} events are far from all others in time and are not drawn")
    return lines
