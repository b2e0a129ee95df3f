"""One table of medians from record files: `isthmus table FILE…`, 80 columns."""

from __future__ import annotations

import argparse
import textwrap

from isthmus import matrix, records, units

_SIZES = ("tiny", "small", "medium", "large", "super", "mega")
_MODES = ("baseline", "async", "uvm", "uvm_async", "pm", "pm_async")
_WIDTH = 80
# Head, metric, width; together: the three queued without a sync between.
_COLUMNS = (
    ("in", "in", 8), ("kernel", "kernel", 8), ("out", "out", 8), ("together", "overlapped", 8), ("wall", "wall", 8),
    ("in rate", "in_rate", 9), ("of", "of", 3),
)  # fmt: skip
_FIRST_TO_GO = ("wall", "of")  # where names are long


def quantity(value: float | None, unit: str) -> str:
    """Three digits and a prefix: 1.23 ms, 55.4 GB/s."""
    if value is None:
        return "-"
    unit = unit.removeprefix("1") if unit == "1/s" else unit  # 5 M/s
    if value == 0:
        return f"0 {unit}"
    factor, prefix = units.prefix_of(value)
    scaled = value / factor
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{digits}f} {prefix}{unit}"


def _mode(case: dict) -> str:
    return case.get("mode") or f"{case['placement']}/{case['staging']}"


def _verdict(case: dict) -> str | None:
    """Why there are no figures."""
    if case["error"] or case["verify"]["status"] == "fail":
        return f"FAILED: {case['error'] or 'wrong result'}"
    return f"skipped: {case['skipped']}" if case["skipped"] else None


def _phases(cases: list[dict], size: str | None) -> list[str]:
    """One row per case that has phases: copies in, kernel, copies out."""
    wide = max(len(_mode(case)) for case in cases)
    columns = [c for c in _COLUMNS if wide <= 9 or c[0] not in _FIRST_TO_GO]
    head = f"{{:<11.11}} {{:<{wide}}}"
    lines = ["", f"size {size}, {_device(cases[0])}"]
    lines.append(head.format("workload", "mode") + "".join(f" {name:>{width}}" for name, _, width in columns))
    for case in cases:
        metrics = records.metrics(case)
        share = metrics.get("in_rate", {}).get("share") or metrics.get("in", {}).get("share")
        cells = {"of": f"{share:.0%}" if share else "-"}
        for _, metric, _ in columns:
            if metric in metrics:
                cells[metric] = quantity(metrics[metric]["median"], metrics[metric]["unit"])
        row = head.format(case["workload"].removeprefix("microbench/"), _mode(case))
        row += f" {_verdict(case)}" if _verdict(case) else "".join(f" {cells.get(m, '-'):>{w}}" for _, m, w in columns)
        lines.append(row)
    return lines


def _varied_values(case: dict, cases: list[dict]) -> str:
    """Values of the axes in which the cases of this one's workload differ: " device,4096"."""
    alike = [other["axes"] for other in cases if other["workload"] == case["workload"]]
    values = [str(v) for axis, v in sorted(case["axes"].items()) if any(a.get(axis, v) != v for a in alike)]
    return " " + ",".join(values) if values else ""


def _readings(cases: list[dict]) -> list[str]:
    """One row per metric of the cases that measure in a way of their own, such as reference/*."""
    lines = ["", f"{_device(cases[0])}", f"{'workload':<30.30} {'size':<6} {'metric':<20} {'median':>14} {'of':>4}"]
    alike: dict[str, list[dict]] = {}
    for case in cases:
        alike.setdefault(case["workload"], []).append(case)
    for case in cases:
        row = f"{case['workload'] + _varied_values(case, alike[case['workload']]):<30.30} {case['size'] or '-':<6}"
        if _verdict(case):
            lines.append(f"{row} {_verdict(case)}")
            continue
        for name, metric in records.metrics(case).items():
            share = f"{metric['share']:.0%}" if metric.get("share") else "-"
            lines.append(f"{row} {name:<20.20} {quantity(metric['median'], metric['unit']):>14} {share:>4}")
    return lines


def _device(case: dict) -> str:
    return case["devices"][0]["name"] if case["devices"] else case["host"]["cpu"]


def table(cases: list[dict]) -> str:
    """Rows by size, workload and mode; what spoils the figures is said below."""

    def place(names, name):
        return names.index(name) if name in names else len(names)

    cases = sorted(cases, key=lambda r: (place(_SIZES, r["size"]), r["workload"], place(_MODES, r.get("mode"))))
    lines = []
    phased = [case for case in cases if case["placement"]]
    for size in dict.fromkeys(case["size"] for case in phased):
        lines += _phases([case for case in phased if case["size"] == size], size)
    routed = [case for case in cases if not case["placement"] and matrix.route(case["workload"])]
    others = [case for case in cases if not case["placement"] and not matrix.route(case["workload"])]
    if others:
        lines += _readings(others)
    if routed:
        lines += ["", f"{_device(routed[0])}", *matrix.matrices(routed)]
    if any(case["emulated"] for case in cases):
        lines += ["", "Emulated: no GPU ran. Results were verified; device times mean nothing."]
    lines = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines]
    warnings = {}
    for case in cases:
        for warning in case["warnings"]:
            warnings.setdefault(warning["code"], []).append(warning["message"])
    for code, messages in sorted(warnings.items()):
        text = f"Warning {code} in {len(messages)} of {len(cases)} records: {messages[0]}"
        lines += textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="record files, or folders of them")


def run(asked: argparse.Namespace) -> int:
    cases, status = records.read_files(asked.files, asked)
    print(table(cases))
    return status
