"""All records on one self-contained HTML page, or as tables on the terminal: summary, matrices, modes, limits,
regressions, provenance, warnings.

It needs no network: the plotting library is in the page, and the page forbids itself to load anything. Everything that
comes from a record is escaped.
"""

from __future__ import annotations

import collections
import html
import importlib.resources
import json
import pathlib
import statistics

import jinja2
import rich.console
import rich.table
import rich.text

from isthmus import Error, __version__, cli, matrix, records, regress, series, store, table, units

WANTED = (*regress.WANTED, "share", "limit_value", "limit_source", "memory_bandwidth", "fp32_rate", "warnings", "ranks")
_PHASES = ("in", "kernel", "out")
_LINES, _BARS = 40, 60  # at most in one plot
_CASES, _COLUMNS = 150, 6  # at most in one table
# Of a family's metrics those that say the most, first.
_TELLING = (
    "rate", "kernel_flop_rate", "kernel_rate", "latency", "alloc", "touch", "free", "time", "p50", "p95", "p99",
    "cpu_rate", "gpu_rate", "cpu_relative", "gpu_relative", "overlap_all_speedup", "recycled_speedup",
    "submit", "to_end",
)  # fmt: skip


def _json(value) -> str:
    """JSON that can stand inside a script element."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def _label(text) -> str:
    """Text for a plot, which takes some tags: none of a record's may be one."""
    return html.escape(records.printable(text))


def _machines(opened: store.Store) -> list[dict]:
    """What was measured on alike hardware, one entry each."""
    return opened.rows(
        "SELECT system, device, cpu, count(*) FILTER (metric_index = 0) AS records, count(DISTINCT job) AS jobs, "
        "count(DISTINCT node) AS nodes, min(time) AS first, max(time) AS last, "
        "count(*) FILTER (metric_index = 0 AND (error IS NOT NULL OR verify = 'fail')) AS failed, "
        "count(*) FILTER (metric_index = 0 AND skipped IS NOT NULL) AS skipped, "
        "sum(n_samples) AS samples, sum(CASE WHEN spoilt THEN n_samples ELSE n_invalid END) AS invalid, "
        "max(memory_bandwidth) AS memory_bandwidth, max(fp32_rate) AS fp32_rate "
        "FROM measurements GROUP BY system, device, cpu ORDER BY records DESC, system, device, cpu"
    )


def _of(machine: dict) -> str:
    return " AND ".join(f"{name} IS NOT DISTINCT FROM {_sql(machine[name])}" for name in ("system", "device", "cpu"))


def _sql(value) -> str:
    return "NULL" if value is None else store.literal(value)


def _readings(opened: store.Store, machine: dict) -> list[dict]:
    """The median over jobs of every series, with its share of the limit."""
    names = store.SERIES_COLUMNS
    rows = opened.rows(
        f"SELECT {names}, mode, median(value) AS value, median(share) AS share, any_value(limit_source) AS source, "
        f"count(*) AS jobs FROM (SELECT {names}, any_value(mode) AS mode, job, median(median) AS value, "
        f"median(share) AS share, any_value(limit_source) AS limit_source FROM measurements "
        f"WHERE metric IS NOT NULL AND {series.COUNTS} AND {_of(machine)} GROUP BY {names}, job) "
        f"GROUP BY {names}, mode ORDER BY ALL"
    )
    for row in rows:
        try:
            row["axes"] = json.loads(row["axes"] or "{}")
        except ValueError:
            row["axes"] = {}
        if row["ranks"]:  # what several processes measured together stays apart by their number
            row["axes"]["ranks"] = row["ranks"]
    return rows


# --- parts of the page ---


def _usual(rows: list[dict]) -> dict:
    """The commonest value of each axis but the size: what plots show where there are several."""
    seen: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for row in rows:
        for axis, value in row["axes"].items():
            if axis != "bytes":
                seen[axis][value] += 1
    return {axis: max(counts, key=lambda value: (counts[value], str(value))) for axis, counts in seen.items()}


def _at_usual(rows: list[dict]) -> list[dict]:
    usual = _usual(rows)
    return [row for row in rows if all(row["axes"].get(axis, value) == value for axis, value in usual.items())]


def matrices(rows: list[dict]) -> list[dict]:
    """From × to tables at the largest size, one for each family and initiator, of rates and of latencies."""
    groups: dict[tuple, list[dict]] = collections.defaultdict(list)
    for row in rows:
        route = matrix.route(row["workload"])
        if route and row["metric"] in ("rate", "latency"):
            groups[route["family"], route["initiator"], row["metric"]].append(row)
    result = []
    for (family, initiator, metric), members in groups.items():
        members = _at_usual(members)
        size = max(row["axes"].get("bytes", 0) for row in members)
        cells: dict[tuple[str, str], dict] = {}
        for row in members:
            if row["axes"].get("bytes", 0) == size:
                route = matrix.route(row["workload"])
                share = f"{row['share']:.0%}" if row["share"] else ""
                cells[route["start"], route["end"]] = {
                    "text": table.quantity(row["value"], row["unit"]), "share": share, "fill": row["share"] or 0
                }  # fmt: skip
        starts = sorted({start for start, _ in cells}, key=matrix.order)
        ends = sorted({end for _, end in cells}, key=matrix.order)
        at = f" at {matrix.byte_text(size)}" if size else ""
        result.append(
            {
                "title": f"{family}/{initiator}: {metric}{at}",
                "columns": ends,
                "rows": [(start, [cells.get((start, end)) for end in ends]) for start in starts],
            }
        )
    return result


def families(rows: list[dict]) -> list[dict]:
    """A table for each family whose workloads neither go from place to place nor have phases: a line for each case, a
    column for each of the metrics that most of them have."""
    groups: dict[str, dict[tuple, dict]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        if not matrix.route(row["workload"]) and not row["placement"]:
            family = row["workload"].partition("/")[0]
            key = (row["workload"], row["size"] or "", row["preset"] or "", tuple(sorted(row["axes"].items())))
            groups[family][key][row["metric"]] = row
    result = []
    for family, cases in sorted(groups.items()):
        counts = collections.Counter(metric for found in cases.values() for metric in found)
        known = [metric for metric in _TELLING if metric in counts]
        rest = [metric for metric, _ in counts.most_common() if metric not in _TELLING]
        columns = [*known, *rest][:_COLUMNS]
        seen = collections.defaultdict(set)
        for workload, _, _, axes in cases:
            for axis, value in axes:
                seen[workload, axis].add(value)
        lines = []
        for (workload, size, preset, axes), found in cases.items():
            words = [workload, *([preset] if preset else [])]
            for axis, value in axes:
                if len(seen[workload, axis]) > 1 or axis == "bytes":
                    words.append(f"{axis}={matrix.byte_text(value) if axis == 'bytes' else value}")
            cells = [
                table.quantity(found[metric]["value"], "" if found[metric]["unit"] == "1" else found[metric]["unit"])
                if metric in found
                else None
                for metric in columns
            ]
            lines.append((" ".join(words if len(words) > 1 else [*words, size]), cells))
        result.append(
            {"title": family, "columns": columns, "rows": lines[:_CASES], "more": max(len(lines) - _CASES, 0)}
        )
    return result


def _figure(title: str, data: list[dict], x: dict, y: dict, **layout) -> dict:
    return {"title": title, "data": data, "layout": {"xaxis": x, "yaxis": y, **layout}}


def by_size(rows: list[dict]) -> list[dict]:
    """Rates and latencies over the size, one plot for each family and initiator that has three sizes."""
    groups: dict[tuple, dict[str, dict[int, float]]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in _at_usual([row for row in rows if "bytes" in row["axes"] and row["metric"] in ("rate", "latency")]):
        route = matrix.route(row["workload"])
        if route and row["value"] > 0:
            line = f"{route['start']} → {route['end']}"
            groups[route["family"], route["initiator"], row["metric"], row["unit"]][line][row["axes"]["bytes"]] = row[
                "value"
            ]
    plots = []
    for (family, initiator, metric, unit), lines in sorted(groups.items()):
        lines = {name: points for name, points in lines.items() if len(points) > 2}
        factor, prefix = units.prefix_of(max((v for points in lines.values() for v in points.values()), default=1))
        data = [
            {
                "type": "scatter", "mode": "lines+markers", "name": _label(name),
                "x": sorted(points), "y": [points[size] / factor for size in sorted(points)],
                "text": [matrix.byte_text(size) for size in sorted(points)],
                "hovertemplate": "%{text}: %{y:.3g} " + prefix + unit,
            }
            for name, points in list(lines.items())[:_LINES]
        ]  # fmt: skip
        if data:
            title = f"{family}/{initiator}: {metric} by size"
            x = {"type": "log", "title": {"text": "bytes"}}
            plots.append(_figure(title, data, x, {"title": {"text": f"{prefix}{unit}"}, "rangemode": "tozero"}))
    return plots


def modes(rows: list[dict]) -> list[dict]:
    """Bars of copies in, kernel, copies out for each workload and mode, at each size that has several modes."""
    cases: dict[str, dict[tuple, dict]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        if row["placement"] and row["metric"] in _PHASES and row["preset"] is None and row["size"]:
            mode = row["mode"] or f"{row['placement']}/{row['staging']}"
            cases[row["size"]][row["workload"], mode].setdefault(row["metric"], row["value"])
    plots = []
    for size, found in cases.items():
        found = {key: phases for key, phases in found.items() if len(phases) == len(_PHASES)}
        if len({mode for _, mode in found}) < 2:
            continue
        keys = sorted(found)[:_BARS]
        x = [[_label(w.partition("/")[2]) for w, _ in keys], [_label(mode) for _, mode in keys]]
        data = [
            {"type": "bar", "name": phase, "x": x, "y": [found[key][phase] for key in keys],
             "hovertemplate": "%{y:.3s}s " + phase}
            for phase in _PHASES
        ]  # fmt: skip
        y = {"title": {"text": "seconds"}, "ticksuffix": "s", "tickformat": ".3s"}
        plots.append(
            _figure(
                f"Modes at {size}: copies in, kernel, copies out", data, {"title": {"text": ""}}, y, barmode="stack"
            )
        )
    return plots


def _short(row: dict) -> str:
    return " ".join(filter(None, (row["workload"], row["placement"], row["metric"])))


def limits(rows: list[dict]) -> list[dict]:
    """How near each metric comes to its limit, the nearest first; one dot a series at its best size."""
    best: dict[tuple, tuple[float, int]] = {}
    for index, row in enumerate(rows):
        if row["share"] and row["metric"].endswith("rate"):
            key = (row["workload"], row["metric"], row["placement"])
            best[key] = max(best.get(key, (0, 0)), (row["share"], index))
    shown = sorted(best.values(), reverse=True)[:_BARS][::-1]
    if not shown:
        return []
    data = [
        {
            "type": "scatter", "mode": "markers", "x": [share for share, _ in shown],
            "y": [_label(_short(rows[index])) for _, index in shown],
            "text": [
                _label(f"{table.quantity(rows[i]['value'], rows[i]['unit'])} of {rows[i]['source']}") for _, i in shown
            ],
            "hovertemplate": "%{x:.0%}: %{text}",
        }
    ]  # fmt: skip
    x = {"title": {"text": "share of the limit"}, "tickformat": ".0%", "range": [0, max(1.05, shown[-1][0] * 1.02)]}
    return [_figure("Share of the hardware's limit", data, x, {"automargin": True}, height=180 + 17 * len(shown))]


def roofline(rows: list[dict], machine: dict) -> list[dict]:
    """Kernels by the operations they do on each byte, under what memory and arithmetic allow."""
    rates: dict[tuple, dict[str, float]] = collections.defaultdict(dict)
    for row in rows:
        if row["metric"] in ("kernel_rate", "kernel_flop_rate") and row["value"] > 0:
            mode = row["mode"] or row["staging"] or ""
            rates[row["workload"], mode, row["size"] or "", str(row["axes"])][row["metric"]] = row["value"]
    points = {key: found for key, found in rates.items() if len(found) == 2}
    memory, arithmetic = machine["memory_bandwidth"], machine["fp32_rate"]
    if not points or not memory or not arithmetic:
        return []
    data = []
    for size in dict.fromkeys(key[2] for key in points):
        own = {key: found for key, found in points.items() if key[2] == size}
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": _label(size),
                "x": [found["kernel_flop_rate"] / found["kernel_rate"] for found in own.values()],
                "y": [found["kernel_flop_rate"] for found in own.values()],
                "text": [_label(f"{workload} {mode}") for workload, mode, _, _ in own],
                "hovertemplate": "%{text}: %{y:.3s}FLOP/s at %{x:.3g} FLOP/byte",
            }
        )  # fmt: skip
    low = min(min(trace["x"]) for trace in data) / 2
    high = max(max(max(trace["x"]) for trace in data) * 2, 2 * arithmetic / memory)
    roof = sorted([low, arithmetic / memory, high])
    data.append(
        {"type": "scatter", "mode": "lines", "name": "limit", "x": roof, "hoverinfo": "skip",
         "y": [min(arithmetic, memory * x) for x in roof], "line": {"color": "#888", "dash": "dash"}}
    )  # fmt: skip
    x = {"type": "log", "title": {"text": "FLOP/byte"}}
    y = {"type": "log", "title": {"text": "FLOP/s"}, "tickformat": ".2s"}
    return [_figure("Roofline: kernels under memory and arithmetic", data, x, y)]


def _provenance(opened: store.Store) -> list[tuple[str, list[str]]]:
    fields = [name for name in store.FINGERPRINT if name not in ("boot", *store.OBJECTS)]
    lists = ", ".join(
        f'list_sort(list_distinct(list("{name}"::VARCHAR) FILTER ("{name}"::VARCHAR <> \'\'))) AS "{name}"'
        for name in fields
    )
    row = opened.rows(f"SELECT {lists} FROM (SELECT DISTINCT {', '.join(fields)} FROM measurements)")[0]
    return [(name, [records.shorten(value, 120) for value in row[name]]) for name in fields if row[name]]


def _warnings(opened: store.Store) -> list[dict]:
    return opened.rows(
        "SELECT code, count(*) AS records, count(DISTINCT node) AS nodes FROM (SELECT node, unnest(warnings) AS code "
        "FROM measurements WHERE metric_index = 0) GROUP BY code ORDER BY records DESC, code"
    )


def content(opened: store.Store, outcome: regress.Outcome | None = None) -> dict:
    """Everything that the page shows."""
    machines = []
    for machine in _machines(opened):
        rows = _readings(opened, machine)
        plots = [*limits(rows), *modes(rows), *roofline(rows, machine), *by_size(rows)]
        title = machine["device"] or machine["cpu"] or "unknown hardware"
        machines.append(
            machine | {"title": f"{title}, {machine['system']}" if machine["system"] else title,
                       "matrices": matrices(rows), "families": families(rows), "plots": plots, "series": len(rows),
                       "share": statistics.median(s) if (s := [r["share"] for r in rows if r["share"]]) else None}
        )  # fmt: skip
    results = []
    if outcome:
        for result in outcome.results:
            if result.verdict != "equivalent" and len(results) < 200:
                lines = regress.lines_of(result)
                results.append({"verdict": result.verdict, "label": result.label, "text": " ".join(lines[1:]).strip()})
    return {
        "made": series.now(),
        "version": __version__,
        "machines": machines,
        "skipped": [(records.printable(each.path), records.printable(each.why)) for each in opened.skipped],
        "left_out": opened.left_out,
        "provenance": _provenance(opened),
        "warnings": _warnings(opened),
        "outcome": outcome,
        "results": results,
    }


def page(found: dict, title: str) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["printable"] = records.printable
    template = (importlib.resources.files("isthmus") / "report.html.jinja").read_text(encoding="utf-8")
    library = (importlib.resources.files("plotly") / "package_data/plotly.min.js").read_text(encoding="utf-8")
    plots, number = {}, 0
    for machine in found["machines"]:
        for plot in machine["plots"]:
            number += 1
            plot["id"] = f"plot{number}"
            plots[plot["id"]] = {"data": plot["data"], "layout": plot["layout"]}
    return environment.from_string(template).render(
        title=title, library=library if plots else "", plots=_json(plots), **found
    )  # fmt: skip


def terminal(found: dict, width: int | None = None) -> str:
    """Summary, limits, regressions and warnings for a terminal; as wide as it is, or as `width`."""
    console = rich.console.Console(width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(
            _grid(
                ["hardware", ">nodes", ">jobs", ">records", ">failed", ">skipped", ">invalid", ">of limits"],
                [
                    [m["title"], m["nodes"], m["jobs"], m["records"], m["failed"], m["skipped"],
                     f"{m['invalid'] / m['samples']:.2%}" if m["samples"] else "-",
                     f"{m['share']:.0%}" if m["share"] else "-"]
                    for m in found["machines"]
                ],
            )
        )  # fmt: skip
        for machine in found["machines"]:
            for each in machine["matrices"]:
                rows = [
                    [start, *(f"{c['text']} {c['share']}".strip() if c else "-" for c in cells)]
                    for start, cells in each["rows"]
                ]
                heads = ["from \\ to", *(f">{column}" for column in each["columns"])]
                console.print(_grid(heads, rows, f"{machine['title']}: {each['title']}"))
        if found["outcome"]:
            rows = [[r["verdict"], r["label"], r["text"]] for r in found["results"][:40]]
            console.print(_grid(["verdict", "series", "change"], rows, f"the change: {found['outcome'].verdict}"))
        if found["warnings"]:
            rows = [[w["code"], w["records"], w["nodes"]] for w in found["warnings"]]
            console.print(_grid(["warning", ">records", ">nodes"], rows))
    return captured.get().rstrip("\n")


def _grid(heads: list[str], rows: list[list], title: str | None = None) -> rich.table.Table:
    """A table; a head that begins with > is of numbers."""
    grid = rich.table.Table(title=title and rich.text.Text(records.printable(title)), title_justify="left")
    for head in heads:
        justify = "right" if head.startswith(">") else "left"
        grid.add_column(rich.text.Text(records.printable(head.removeprefix(">"))), justify=justify, overflow="fold")
    for row in rows:
        grid.add_row(*(rich.text.Text(records.printable(str(cell))) for cell in row))
    return grid


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus report results\n  isthmus report results -o report.html\n"
        "  isthmus report results -o report.html --from driver=570 --to driver=580"
    )
    store.add_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the page; without it, tables on the terminal")
    parser.add_argument("--title", default="Isthmus report", metavar="TEXT")
    parser.add_argument("--from", dest="a", metavar="WHAT", help="compare these jobs, as `isthmus regress` does,")
    parser.add_argument("--to", dest="b", metavar="WHAT", help="with these")


def run(asked) -> int:
    if bool(asked.a) != bool(asked.b):
        raise Error("--from and --to go together")
    with store.from_arguments(asked, wanted=WANTED) as opened:
        outcome = None
        if asked.a:
            sides = regress.sides(series.condition(asked.a), series.condition(asked.b))
            outcome = regress.outcome(opened, sides, asked=f"{asked.a},{asked.b}")
        found = content(opened, outcome)
    if not asked.output:
        print(terminal(found))
        return cli.PASSED
    text = page(found, asked.title)
    try:
        pathlib.Path(asked.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Error(f"{asked.output}: {error.strerror}") from None
    print(f"{asked.output}: {len(text.encode()) / 1e6:.1f} MB, {sum(m['records'] for m in found['machines'])} records")
    return cli.PASSED
