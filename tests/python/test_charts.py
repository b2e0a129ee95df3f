"""Tests of the report's charts: each mark is one series, nothing is silently left out, and axes contain all values."""

import itertools
import json
import re

import pytest
from histories import record, write

from isthmus import cli
from isthmus.figures import charts
from isthmus.records import measurements


def row(workload="transfer/pinned-gpu0/ce", value=1e9, *, metric="rate", unit="B/s", share=None, **changes):
    axes = changes.pop("axes", {})
    found = {"workload": workload, "version": 1, "placement": None, "staging": None, "size": None, "preset": None,
             "ranks": None, "metric": metric, "unit": unit, "value": value, "share": share, "source": "test",
             "mode": None, "jobs": 1, "spread": None, "low": None, "doubt": ""} | changes  # fmt: skip
    found["axes"] = axes
    found["key"] = tuple(json.dumps(axes) if name == "axes" else found[name] for name in measurements.SERIES)
    found["label"] = str(found["key"])
    return found


def test_versions_of_a_workload_are_named_as_such():
    assert charts.labels([row("alloc/pool", version=number) for number in (1, 2)]) == [
        "alloc/pool version=1 rate",
        "alloc/pool version=2 rate",
    ]


def report(folder, *arguments):
    out = folder / "report.html"
    assert cli.main(["report", str(folder), *arguments, "-o", str(out)]) == 0
    return out.read_text()


# --- machines ---


def hosts_of(*counts):
    """Returns records of copies within hosts that differ only in their number of GPUs, at 100 GB/s per GPU."""
    cases = []
    for number in counts:
        case = record(1.0, job=str(number), workload="transfer/all-all/ce", axes={"bytes": 1 << 30}, placement=None)
        case["devices"] = [{**case["devices"][0], "uuid": f"GPU-{n}"} for n in range(number)]
        metric = {
            "name": "rate",
            "unit": "B/s",
            "better": "higher",
            "median": 1e11 * number,
            "samples": [1e11 * number],
        }
        case["metrics"][0] |= metric
        case["run"]["node"] = f"n{number}"
        case["host"]["boot_id"] = f"boot {number}"
        cases.append(case)
    return cases


def test_hosts_with_other_numbers_of_gpus_are_other_machines(tmp_path):
    text = report(write(tmp_path, hosts_of(2, 4)).parent / tmp_path.name)
    shown = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "200 GB/s" in shown and "400 GB/s" in shown and "300 GB/s" not in shown
    assert ">2 × " in shown and ">4 × " in shown


def test_a_process_that_uses_one_gpu_of_two_is_on_the_same_machine(tmp_path):
    both, one = hosts_of(2, 1)
    one["run"]["node"], one["workload"] = "n2", "transfer/pinned-gpu0/ce"
    alone = json.loads(json.dumps(one)) | {"devices": [], "workload": "latency/pageable-cpu/chase"}
    for case in (both, one, alone):
        case["run"]["system"] = "x"
    text = report(write(tmp_path, [both, one, alone]))
    assert len(re.findall(r'<h2 id="machine', text)) == 1


@pytest.mark.parametrize(
    "path, value", [("host__cores", 7), ("host__cpu", "other"), ("host__memory_bytes", 2**36), ("run__system", "other")]
)
def test_what_matters_makes_another_machine(tmp_path, path, value):
    cases = [record(0.001, job="1"), record(0.002, job="2", node="n2", **{path: value})]
    for case in cases:
        case["host"].setdefault("memory_bytes", 2**35)
    assert len(re.findall(r'<h2 id="machine', report(write(tmp_path, cases)))) == 2


def test_some_megabytes_of_memory_are_no_other_machine(tmp_path):
    cases = [record(0.001, job=str(n), node=f"n{n}", host__memory_bytes=540908769280 + n * 2**20) for n in range(5)]
    assert len(re.findall(r'<h2 id="machine', report(write(tmp_path, cases)))) == 1


# --- one mark, one series ---


def test_what_is_drawn_at_one_value_of_the_others_says_so():
    rows = [row(axes={"bytes": 1 << n, "streams": s}) for n in range(3) for s in (1, 2)] + [row(axes={"bytes": 8})]
    kept, note = charts.at_commonest(rows)
    assert len({r["axes"]["bytes"] for r in kept}) == len(kept) == 4
    assert "streams=" in note and "3 others" in note


@pytest.mark.parametrize("field", ["version", "preset", "staging", "size", "placement"])
def test_series_that_differ_in_anything_do_not_share_a_mark(field):
    values = (1, 2) if field == "version" else (None, "other")
    rows = [
        row(axes={"bytes": 1 << n}, value=1e9 * (1 + i), **{field: v}) for n in range(3) for i, v in enumerate(values)
    ]
    kept, note = charts.at_commonest(rows)
    assert len(kept) == 3 and len({r["value"] for r in kept}) == 1 and field in note


def test_choices_leave_something():
    """Uses rows in which the commonest values of the two axes, `a=1` and `b=1`, never occur together."""
    pairs = [(1, 2), (1, 3), (2, 1), (3, 1)]
    kept, _ = charts.at_commonest([row(axes={"a": a, "b": b}) for a, b in pairs])
    assert len(kept) == 1


def phases(workload, mode, size="super", **changes):
    return [row(workload, 0.1, metric=m, unit="s", placement="pinned", mode=mode, size=size, **changes)
            for m in ("in", "kernel", "out")]  # fmt: skip


def test_every_bar_is_of_one_series():
    rows = [r for mode, n in itertools.product(("pm", "uvm"), (1, 100)) for r in phases("m/x", mode, axes={"n": n})]
    [plot] = charts.modes(rows)
    for trace in plot["data"]:
        assert len(set(trace["y"])) == len(trace["y"]) == 4
        assert trace["error_x"]["type"] == "data"


def test_workloads_of_other_lengths_have_axes_of_their_own():
    rows = phases("m/long", "pm") + phases("m/long", "uvm") + phases("m/short", "pm") + phases("m/short", "uvm")
    [plot] = charts.modes(rows)
    assert {trace["xaxis"] for trace in plot["data"]} == {"x", "x2"}


def test_high_pictures_become_several_that_a_page_holds():
    rows = [r for w in range(20) for mode in ("pm", "uvm", "pm_async") for r in phases(f"m/{w:02}", mode)]
    plots = charts.modes(rows)
    assert len(plots) > 1 and all(plot["layout"]["height"] <= charts._PAGE for plot in plots)
    assert sum(len(trace["y"]) for plot in plots for trace in plot["data"]) == 3 * 60


def test_dots_that_are_cut_are_told():
    rows = [row(f"stream/gpu0/k{n}", share=n / 100) for n in range(1, 91)]
    plots = charts.limits(rows)
    assert sum(len(plot["data"][0]["y"]) for plot in plots) == 60
    assert all("60 of 90 series" in plot["note"] for plot in plots)
    assert [share for plot in plots for share in plot["data"][0]["x"]] == [n / 100 for n in range(1, 61)]


def test_low_and_doubtful_dots_come_first_with_their_words():
    rows = [row("stream/gpu0/near", share=0.9), row("stream/gpu0/far", share=0.1)]
    rows += [row("stream/gpu0/coarse", share=0.8, doubt="coarse timer")]
    rows += [row("stream/gpu0/slow", share=0.5, low=True, doubt="low, 57% of the usual 88%: others on the GPU")]
    [plot] = charts.limits(rows)
    captions = [caption["text"].replace("<br>", " ") for caption in plot["layout"]["annotations"]]
    assert [caption.split()[0].rstrip(":") for caption in captions] == [
        f"stream/gpu0/{name}" for name in ("slow", "coarse", "far", "near")
    ]
    assert captions[0].endswith("low, 57% of the usual 88%: others on the GPU")


def test_names_of_dots_stand_above_them_and_are_narrow():
    """Checks that names are above the dots, because in a chart of 390 pixels, names at the left are cut off."""
    [plot] = charts.limits(
        [row(f"transfer/{'x' * 30}/{n}", axes={"axis": "y" * 40 + str(n)}, share=0.5) for n in (1, 2)]
    )
    assert not plot["layout"]["yaxis"]["visible"] and plot["layout"]["margin"]["l"] <= 10
    heights = [caption["y"] for caption in plot["layout"]["annotations"]]
    assert heights == sorted(heights) and heights[1] > heights[0]
    lines = [line for caption in plot["layout"]["annotations"] for line in caption["text"].split("<br>")]
    assert max(map(len, lines)) <= charts._NARROW


def test_lines_that_are_cut_are_told():
    rows = [
        row(f"transfer/gpu{a}-gpu{b}/ce", axes={"bytes": 1 << n}) for a in range(6) for b in range(6) for n in range(4)
    ]
    [plot] = charts.by_size(rows)
    assert len(plot["data"]) == 24 and "24 of 36 lines" in plot["note"]


@pytest.mark.parametrize("low, kind", [(5e9, "log"), (1e12, None)])
def test_an_axis_holds_its_values(low, kind):
    rows = [
        row(f"transfer/{a}-gpu0/ce", rate, axes={"bytes": 1 << n})
        for a, rate in (("x", low), ("y", 2e12))
        for n in range(3)
    ]
    [plot] = charts.by_size(rows)
    assert plot["layout"]["yaxis"].get("type") == kind
    if kind:
        assert "5 GB/s" in plot["layout"]["yaxis"]["ticktext"]
