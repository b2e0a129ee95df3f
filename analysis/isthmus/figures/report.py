"""Writes all records to one self-contained HTML page: answer, effect of a change, limits, matrices, modes, provenance.

The page needs no network: it includes the plotting library and forbids the browser to load anything else. Everything
that comes from a record is escaped. Without a page only the summary is shown, as text or in a format for programs.
"""

from __future__ import annotations

import collections
import statistics

from isthmus import Error, exits, options, spelling, streams, units
from isthmus.figures import charts, pages
from isthmus.records import doubts, fields, hardware, measurements, selection, store
from isthmus.statistics import series, spread
from isthmus.tables import matrix, output
from isthmus.verdicts import comparison, comparison_text, judging, missing, nodes

WANTED = (
    *comparison.WANTED, *hardware.WANTED, "share", "limit_value", "limit_source", "memory_bandwidth", "fp32_rate",
    "warnings", "ranks", "mad", "within_low", "within_high", "n_samples", "n_invalid", "gpus", "doubts", "moved",
    "invalid",
)  # fmt: skip
_CASES, _COLUMNS = 150, 6  # maximum numbers of cases (rows) and of columns in one table
# Most informative metrics of a family, the best first.
_TELLING = (
    "rate", "kernel_flop_rate", "kernel_rate", "latency", "alloc", "touch", "free", "time", "p50", "p95", "p99",
    "cpu_rate", "gpu_rate", "cpu_relative", "gpu_relative", "overlap_all_speedup", "recycled_speedup",
    "submit", "to_end",
)  # fmt: skip


def _machines(opened: store.Store) -> list[dict]:
    """Returns an entry for each machine that summarises its records; the machine with the most records comes first."""
    found = hardware.name_machines(opened)
    titles = hardware.titles(found)
    rows = opened.rows(
        "SELECT machine AS number, any_value(cpu) AS cpu, count(*) FILTER (metric_index = 0) AS records, "
        "count(DISTINCT job) AS jobs, count(DISTINCT node) AS nodes, min(time) AS first, max(time) AS last, "
        f"count(*) FILTER (metric_index = 0 AND {series.FAILED}) AS failed, "
        "count(*) FILTER (metric_index = 0 AND skipped IS NOT NULL) AS skipped, "
        "sum(n_samples) AS samples, sum(CASE WHEN invalid THEN n_samples ELSE n_invalid END) AS invalid, "
        "list_sort(list_distinct(list(driver) FILTER (driver <> ''))) AS drivers, "
        "max(memory_bandwidth) AS memory_bandwidth, max(fp32_rate) AS fp32_rate "
        "FROM measured GROUP BY machine ORDER BY records DESC, machine"
    )
    named = [row | {"title": titles[found[row["number"]]], "drivers": row["drivers"] or []} for row in rows]
    return sorted(named, key=lambda row: (-row["records"], row["title"]))


def readings(opened: store.Store) -> dict[int, list[dict]]:
    """Returns each machine's series, with their medians over jobs, shares of the limit, intervals and doubts.

    Reads the view that _machines() creates.
    """
    names = measurements.SERIES_COLUMNS
    rows = opened.rows(
        f"SELECT machine, {names}, any_value(mode) AS mode, median(value) AS value, median(share) AS share, "
        "any_value(source) AS source, list(medians ORDER BY job) AS of_jobs, any_value(low) AS low, "
        "any_value(high) AS high, any_value(mad) AS mad, any_value(samples) AS samples, "
        "any_value(moved) AS moved, flatten(list(records)) AS records "
        f"FROM (SELECT machine, {names}, any_value(mode) AS mode, job, median(median) AS value, "
        "list(median) AS medians, median(share) AS share, any_value(limit_source) AS source, any_value(mad) AS mad, "
        f"any_value(moved) AS moved, list({doubts.ROW_STRUCT}) AS records, "
        "any_value(n_samples - n_invalid) AS samples, any_value(within_low) AS low, any_value(within_high) AS high "
        f"FROM measured WHERE metric IS NOT NULL AND {series.COUNTS} GROUP BY machine, {names}, job) "
        f"GROUP BY machine, {names} ORDER BY ALL"
    )
    result: dict[int, list[dict]] = collections.defaultdict(list)
    for row in rows:
        row["key"] = tuple(row[name] for name in measurements.SERIES)
        row["jobs"] = len(row["of_jobs"])
        alone = spread.of_record(row["value"], (row["low"], row["high"]), row["mad"], row["samples"])
        row["spread"] = spread.of_jobs(row["of_jobs"], alone)
        found = doubts.of_rows(row.pop("records"))
        row["low"] = min((each.low for each in found if each.low), key=lambda low: low.part, default=None)
        row["doubt"] = doubts.say(found)
        row["axes"] = series.axes_of(row["axes"])
        if row["ranks"]:  # measurements of several processes are distinguished by the number of processes
            row["axes"]["ranks"] = row["ranks"]
        result[row["machine"]].append(row)
    for members in result.values():
        for row, label in zip(members, charts.labels(members), strict=True):
            row["label"] = label
    return result


# --- parts of the page ---


def matrices(rows: list[dict]) -> list[dict]:
    """Returns a matrix of sources and destinations for each family, initiator and metric (rate, latency).

    Its figures are those of the largest size.
    """
    result = []
    for (family, initiator, metric, unit), members in charts.routes(rows).items():
        members, note = charts.at_commonest(members)
        size = max(row["axes"].get("bytes", 0) for row in members)
        cells: dict[tuple[str, str], dict] = {}
        for row in members:
            if row["axes"].get("bytes", 0) == size:
                route = matrix.route(row["workload"])
                assert route is not None
                share = f"{row['share']:.0%}" if row["share"] else ""
                cells[route["start"], route["end"]] = {
                    "text": units.quantity(row["value"], unit), "share": share, "fill": row["share"] or 0,
                    "spread": spread.percent(row["value"], row["spread"]), "doubt": row["doubt"],
                }  # fmt: skip
        starts, ends = matrix.sides(cells)
        at = f" at {units.byte_text(size)}" if size else ""
        result.append(
            {
                "title": f"{family}/{initiator}: {metric}{at}",
                "note": note,
                "columns": ends,
                "rows": [(start, [cells.get((start, end)) for end in ends]) for start in starts],
            }
        )
    return result


def _cases(rows: list[dict]) -> dict[str, dict[tuple, dict[str, dict]]]:
    """Returns the metrics of each case of each family, for workloads without routes and phases."""
    groups: dict[str, dict[tuple, dict]] = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows:
        if not matrix.route(row["workload"]) and not row["placement"]:
            variant = tuple(row[name] for name in charts.VARIANT)
            key = (row["workload"], variant, tuple(sorted(row["axes"].items())))
            groups[row["workload"].partition("/")[0]][key][row["metric"]] = row
    return groups


def families(rows: list[dict]) -> list[dict]:
    """Returns a table for each family without routes and phases: a line per case, a column per informative metric."""
    result = []
    for family, cases in sorted(_cases(rows).items()):
        counts = collections.Counter(metric for found in cases.values() for metric in found)
        known = [metric for metric in _TELLING if metric in counts]
        names = [*known, *(metric for metric, _ in counts.most_common() if metric not in _TELLING)]
        columns = names[:_COLUMNS]
        lines = [
            (_case_name(found), [_cell(found[metric]) if metric in found else None for metric in columns])
            for found in cases.values()
        ]
        notes = [charts.cut(min(len(lines), _CASES), len(lines), "cases")]
        notes += [f"Also measured: {', '.join(names[_COLUMNS:])}."] if names[_COLUMNS:] else []
        result.append({"title": family, "columns": columns, "rows": lines[:_CASES], "count": len(lines),
                       "note": " ".join(filter(None, notes))})  # fmt: skip
    return result


def _case_name(found: dict[str, dict]) -> str:
    """Returns the part that the names of a case's series have in common: everything except the metric."""
    metric, row = next(iter(found.items()))
    return row["label"].removesuffix(f" {metric}")


def _cell(row: dict) -> dict[str, str]:
    text = f"{units.quantity(row['value'], row['unit'])} {spread.percent(row['value'], row['spread'])}".strip()
    return {"text": text, "doubt": row["doubt"]}


def _provenance(opened: store.Store) -> list[tuple[str, list[str]]]:
    fields = [name for name in measurements.FINGERPRINT if name not in ("boot", *measurements.OBJECTS)]
    lists = ", ".join(
        f'list_sort(list_distinct(list("{name}"::VARCHAR) FILTER ("{name}"::VARCHAR <> \'\'))) AS "{name}"'
        for name in fields
    )
    row = opened.rows(f"SELECT {lists} FROM (SELECT DISTINCT {', '.join(fields)} FROM measurements)")[0]
    return [(name, [spelling.shorten(value, 120) for value in row[name]]) for name in fields if row[name]]


def _warnings(opened: store.Store) -> list[dict]:
    return opened.rows(
        "SELECT code, count(*) AS records, count(DISTINCT node) AS nodes FROM (SELECT node, unnest(warnings) AS code "
        "FROM measurements WHERE metric_index = 0) GROUP BY code ORDER BY records DESC, code"
    )


_RESULTS = 200  # maximum number of changes that the page lists


def _changes(outcome: judging.Outcome | None) -> tuple[list[dict], int]:
    """Returns the changes that the comparison found, at most _RESULTS of them, and their total number."""
    changes = [result for result in outcome.results if result.verdict != "equivalent"] if outcome else []
    shown = [
        {"verdict": each.verdict, "label": each.label, "text": " ".join(comparison_text.lines_of(each)[1:]).strip()}
        for each in changes[:_RESULTS]
    ]
    return shown, len(changes)


def _invalid(opened: store.Store) -> dict[str, int]:
    """Returns, for each invalidating warning, its text and the number of records that were left out because of it."""
    rows = opened.rows(
        "SELECT code, count(*) AS records FROM (SELECT unnest(warnings) AS code FROM measurements "
        f"WHERE metric_index = 0 AND invalid) WHERE code IN {fields.INVALIDATING} GROUP BY code "
        "ORDER BY records DESC, code"
    )
    return {doubts.say([doubts.Doubt((row["code"],))]): row["records"] for row in rows}


_NAMED = 5  # maximum number of low figures, and of slow nodes, that the answer names


def answer(opened: store.Store, machines: list[dict], outcome: judging.Outcome | None) -> list[str]:
    """Returns a few sentences with the conclusions from the records, the worst first."""
    said = []
    if outcome:
        counts = collections.Counter(result.verdict for result in outcome.results)
        of = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        said.append(f"The change: {outcome.verdict} ({of or 'no series is in both'}).")
    cases = sum(machine["records"] for machine in machines)
    if failed := sum(machine["failed"] for machine in machines):
        said.append(f"{failed} of {spelling.counted(cases, 'record')} failed or are wrong.")
    for words, count in _invalid(opened).items():
        said.append(f"{spelling.counted(count, 'record', 'are')} invalid and left out: {words}.")
    if opened.skipped:
        said.append(f"{spelling.counted(len(opened.skipped), 'file')} could not be read.")
    rows = [row for machine in machines for row in machine["rows"]]
    low = sorted((row for row in rows if row["low"]), key=lambda row: (row["low"].part, row["label"]))
    if low:
        said.append(f"{spelling.counted(len(low), 'figure', 'are')} low:")
        said += [
            f"- {row['label']} {units.quantity(row['value'], row['unit'])}: {row['doubt']}" for row in low[:_NAMED]
        ]
    if slow := list({each.node: each for each in reversed(nodes.slow(opened))}.values())[::-1]:
        said.append(f"{spelling.counted(len(slow), 'node', 'are')} far from their equals (see `isthmus nodes`):")
        said += [f"- {missing.in_words((each.node, each.gpus))} is {each.words}" for each in slow[:_NAMED]]
    others = collections.Counter(row["doubt"] for row in rows if row["doubt"] and not row["low"])
    if others:
        most = ", ".join(f"{words} ({count})" for words, count in others.most_common(3))
        more = ", …" if len(others) > 3 else ""
        figures = spelling.counted(len(rows), "figure")
        said.append(f"{others.total()} of {figures} are doubtful, as noted next to each: {most}{more}.")
    return said or [f"Nothing failed, and nothing casts doubt on {spelling.counted(len(rows), 'figure')}."]


def everything(opened: store.Store, outcome: judging.Outcome | None = None) -> dict:
    """Returns everything that the page shows."""
    machines = []
    found = _machines(opened)
    by_machine = readings(opened)
    for machine in found:
        rows = by_machine.get(machine["number"], [])
        shares = [row["share"] for row in rows if row["share"]]
        plots = [*charts.limits(rows), *charts.modes(rows), *charts.by_size(rows)]
        plots += charts.roofline(rows, machine["memory_bandwidth"], machine["fp32_rate"])
        parts = {
            "rows": rows, "matrices": matrices(rows), "families": families(rows), "plots": plots,
            "series": len(rows), "share": statistics.median(shares) if shares else None,
        }  # fmt: skip
        machines.append(machine | parts)
    results, changes = _changes(outcome)
    return {
        "made": series.now(),
        "answer": answer(opened, machines, outcome),
        "meaning": spread.MEANING,
        "machines": machines,
        "skipped": [(spelling.printable(each.path), spelling.printable(each.why)) for each in opened.skipped],
        "left_out": opened.left_out,
        "provenance": _provenance(opened),
        "warnings": _warnings(opened),
        "outcome": outcome,
        "results": results,
        "more_results": changes - len(results),
    }


def page(found: dict, title: str) -> str:
    """Returns the page as text."""
    plots = [plot for machine in found["machines"] for plot in machine["plots"]]
    return pages.render("figures/report.html.jinja", plots, title=title, **found)


_SUMMARY = {
    "hardware": "VARCHAR", "nodes": "BIGINT", "jobs": "BIGINT", "records": "BIGINT", "failed": "BIGINT",
    "skipped": "BIGINT", "invalid": "DOUBLE", "share": "DOUBLE",
}  # fmt: skip


def summary(found: dict) -> output.Table:
    """Returns a table with a row for each machine: what was measured, and how near its rates are to their limits.

    Warnings become notes of the table.
    """
    rows = []
    for machine in found["machines"]:
        invalid = machine["invalid"] / machine["samples"] if machine["samples"] else None
        rows.append({name: machine.get(name) for name in _SUMMARY} | {"hardware": machine["title"], "invalid": invalid})
    heads = [output.Column("of limits" if name == "share" else name) for name in _SUMMARY]
    cells = [
        [*map(str, list(row.values())[:-2]), f"{row['invalid']:.2%}" if row["invalid"] is not None else "-",
         f"{row['share']:.0%}" if row["share"] else "-"] for row in rows
    ]  # fmt: skip
    notes = [
        f"warning {each['code']}: {spelling.counted(each['records'], 'record')} of "
        f"{spelling.counted(each['nodes'], 'node')}"
        for each in found["warnings"]
    ]
    if found["outcome"]:
        notes.append("`isthmus regress` lists all series of the change")
    lines = [line for sentence in found["answer"] for line in output.fold(sentence)]
    lines += ["", *output.lay_out(heads, cells), *(line for note in notes for line in output.fold(note))]
    return output.Table(_SUMMARY, rows, "\n".join(lines), notes)


def add_arguments(parser) -> None:
    parser.epilog = (
        "examples:\n  isthmus report results\n  isthmus report results -o report.html\n"
        "  isthmus report results -o report.html --from driver=570 --to driver=580\n"
        "-o FILE.html writes the page. Other formats have the summary; `isthmus table` has every figure."
    )
    selection.add_arguments(parser)
    output.add_arguments(parser, output.PAGE_FORMATS)
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: Isthmus report)")
    parser.add_argument("--from", dest="a", metavar="WHAT", help="jobs before a change, as in `isthmus regress`")
    parser.add_argument("--to", dest="b", metavar="WHAT", help="jobs after the change")


def run(asked) -> int:
    if bool(asked.a) != bool(asked.b):
        raise Error("--from and --to go together; name both sides, or neither")
    is_page = output.chosen_format(asked, output.PAGE_FORMATS) == "html"
    if not is_page:
        options.refuse_idle({"--title": asked.title}, "on a page, which -o FILE.html writes")
    with selection.from_arguments(asked, wanted=WANTED) as opened:
        outcome = None
        if asked.a:
            sides = comparison.sides(series.condition(asked.a), series.condition(asked.b))
            outcome = comparison.outcome(opened, sides, asked=f"{asked.a},{asked.b}")
        found = everything(opened, outcome)
    if not is_page:
        output.write(asked, summary(found))
        return exits.PASSED
    text = page(found, asked.title or "Isthmus report")
    output.deliver(text, asked.output)
    if streams.descriptor(asked.output) is None:
        size, count = units.quantity(len(text.encode()), "B"), sum(machine["records"] for machine in found["machines"])
        print(f"{asked.output}: {size}, {spelling.counted(count, 'record')}")
    return exits.PASSED
