"""One table of medians from record files: `python -m isthmus.table FILE…`, 80 columns."""

from __future__ import annotations

import sys

from isthmus import records

_PREFIXES = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]
_TIMES = ("in", "kernel", "out", "overlapped", "wall")
_HEADS = ("in", "kernel", "out", "together", "wall")  # together: the three queued without a sync between
_ROW = "{:<11.11} {:<9.9}{:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>4}"


def quantity(value: float | None, unit: str) -> str:
    """Three digits and a prefix: 1.23 ms, 55.4 GB/s."""
    if value is None:
        return "-"
    if value == 0:
        return f"0 {unit}"
    factor, prefix = next(((f, p) for f, p in _PREFIXES if abs(value) >= f * 0.9995), _PREFIXES[-1])
    scaled = value / factor
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{digits}f} {prefix}{unit}"


def _row(record: dict) -> str:
    metrics = records.metrics(record)
    name = record["workload"].removeprefix("microbench/")
    mode = record.get("mode") or f"{record['placement']}/{record['staging']}"
    if record["error"] or record["verify"]["status"] == "fail":
        return f"{name:<11.11} {mode:<9.9} FAILED: {record['error'] or 'wrong result'}"[:80]
    if record["skipped"]:
        return f"{name:<11.11} {mode:<9.9} skipped: {record['skipped']}"[:80]
    times = [quantity(metrics[m]["median"], "s") if m in metrics else "-" for m in _TIMES]
    rate = metrics.get("in_rate")
    share = (rate or {}).get("share") or metrics.get("in", {}).get("share")
    return _ROW.format(
        name, mode, *times, quantity(rate["median"], "B/s") if rate else "-", f"{share:.0%}" if share else "-"
    )


def table(cases: list[dict]) -> str:
    """Rows by size, workload and mode; what spoils the figures is said below."""
    lines = []
    order = {mode: i for i, mode in enumerate(("baseline", "async", "uvm", "uvm_async", "pm", "pm_async"))}
    cases = sorted(cases, key=lambda r: (r["size"] or "", r["workload"], order.get(r.get("mode"), 99)))
    size = object()
    for case in cases:
        if case["size"] != size:
            size = case["size"]
            device = case["devices"][0]["name"] if case["devices"] else case["host"]["cpu"]
            lines += ["", f"size {size}, {device}"[:80], _ROW.format("workload", "mode", *_HEADS, "in rate", "of")]
        lines.append(_row(case))
    if any(case["emulated"] for case in cases):
        lines += ["", "Emulated: no GPU ran. Results were verified; device times mean nothing."]
    warnings = {}
    for case in cases:
        for warning in case["warnings"]:
            warnings.setdefault(warning["code"], []).append(warning["message"])
    for code, messages in sorted(warnings.items()):
        lines.append(f"Warning {code} in {len(messages)} of {len(cases)} records: {messages[0]}"[:80])
    return "\n".join(lines)


def main(paths: list[str]) -> int:
    cases, status = [], 0
    for path in paths:
        try:
            cases += records.read(path)
        except records.RecordError as error:
            print(error, file=sys.stderr)
            status = 1
    print(table(cases))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
