"""Agreement of docs/networks.md's statements on page-locking and on speed with the kept records."""

import pathlib
import re
import statistics

import pytest

from isthmus.records import load
from isthmus.tables import readings
from isthmus_papers.figures import networks

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/networks.md").read_text(encoding="utf-8")
NETWORKS = ("resnet18", "resnet50", "yolov3-tiny", "yolov3")
PARTS = ("host_alloc", "host_touch", "device_alloc", "in", "kernel", "out")


@pytest.fixture(scope="module")
def cases():
    return load.read(ROOT / "papers/data/h100-x2/networks.jsonl.gz")


def section(head):
    begin = PAGE.index(f"## {head}\n")
    return PAGE[begin : PAGE.find("\n## ", begin)]


def medians(cases, *, mode="pm", convolution="patches", **axes):
    """Returns the medians of a case, keyed by metric, with 0 for phases that the case lacks. If a case was measured
    twice, the first measurement counts."""
    wanted = {"batch": 1, "convolution": convolution, **axes}
    case, *_ = [c for c in cases if c["mode"] == mode and all(c["axes"][name] == v for name, v in wanted.items())]
    return dict.fromkeys(PARTS, 0.0) | {m["name"]: m["median"] for m in case["metrics"]}


def total(cases, touched, **case):
    found = medians(cases, **case)
    return sum(found[part] for part in PARTS if touched or part != "host_touch")


def ratios(cases, touched, allocation):
    return [
        total(cases, touched, mode="pm", network=n, allocation=allocation)
        / total(cases, touched, mode="baseline", network=n, allocation=allocation)
        for n in NETWORKS
    ]


def test_the_table_of_page_locking(cases):
    rows = re.findall(r"\| `([\w-]+)` \| `(\w+)` \| `(\w+)` \| (.*) \|", section("What page-locking costs"))
    assert len(rows) == 12
    for network, allocation, mode, figures in rows:
        case = {"network": network, "allocation": allocation, "mode": mode}
        found = medians(cases, **case)
        seconds = [*(found[part] for part in PARTS[:5]), total(cases, False, **case), total(cases, True, **case)]
        assert figures == " | ".join(f"{1000 * each:.1f}" for each in seconds), case


def test_what_is_said_of_it(cases):
    said = " ".join(section("What page-locking costs").split())

    def of(metric, **case):
        return [medians(cases, network=n, **case)[metric] for n in NETWORKS]

    def span(numerator, denominator, digits):
        each = [a / b for a, b in zip(numerator, denominator, strict=True)]
        return f"{min(each):.{digits}f} to {max(each):.{digits}f}"

    by_tensor = statistics.mean(ratios(cases, False, "tensor"))
    assert (
        f"`pm` takes {by_tensor:.1f} times as long as `baseline` (mean of four, by tensor): {by_tensor - 1:.0%} more"
        in said
    )
    locking = span(of("host_alloc", allocation="tensor"), of("host_alloc", allocation="arena"), 2)
    assert f"array by array takes {locking} times what it takes for one arena" in said
    assert f"`pm` takes {statistics.mean(ratios(cases, True, 'tensor')):.2f} times as long (mean of four)" in said
    plain = {"mode": "baseline"}
    touch = span(of("host_touch", allocation="tensor", **plain), of("host_touch", allocation="arena", **plain), 1)
    assert f"One arena they touch {touch} times as fast" in said
    arenas = [medians(cases, network=n, allocation="arena") for n in NETWORKS]
    locked = sorted(found["in"] * found["in_rate"] / found["host_alloc"] / 1e9 for found in arenas)
    assert f"Page-locking an arena goes at {locked[0]:.1f} to {locked[-1]:.1f} GB/s" in said
    alone = sorted(case["host"]["speed"]["touch_rate"] / 1e9 for case in cases)
    assert f"writes new memory at {alone[0]:.1f} to {alone[-1]:.1f} (`host.speed`)" in said
    assert f"then `pm` is {statistics.mean(ratios(cases, True, 'arena')):.1f} times as long" in said
    copies = zip(of("in", allocation="tensor"), of("in", allocation="tensor", **plain), strict=True)
    less = sorted(1 - a / b for a, b in copies)
    assert f"copies in {less[0]:.0%} to {less[-1]:.0%} less time" in said
    images = []
    for n in NETWORKS:
        pinned, pageable = (medians(cases, network=n, allocation="arena", mode=mode) for mode in ("pm", "baseline"))
        once = sum(pinned[part] - pageable[part] for part in PARTS[:3])
        images.append(once / (pageable["in"] - pinned["in"]))
    assert f"after {min(images):.0f} to {max(images):.0f} images" in said
    kernels = zip(of("kernel", allocation="arena", mode="pm_async"), of("kernel", allocation="arena"), strict=True)
    shorter = sorted(1 - a / b for a, b in kernels)
    assert f"kernels {shorter[0]:.0%} to {shorter[-1]:.0%} shorter" in said


def test_the_figures_say_the_same():
    """The page uses the first of two measurements of resnet50 in mode pm, whereas the figures use the median of
    both."""
    found = readings.load(ROOT / "papers/data/h100-x2/networks.jsonl.gz")
    said = " ".join(section("What page-locking costs").split())
    paid = networks.images_until_paid(found).values()
    assert f"after {min(paid):.0f} to {max(paid):.0f} images" in said
    ratio = statistics.mean(networks.over_baseline(found, "tensor", "pm", touched=False).values())
    assert f"`pm` takes {ratio:.1f} times as long as `baseline` (mean of four, by tensor)" in said
    for network, count in networks.images_until_paid(found).items():
        assert networks.by_images(found, network, 2) > 1 > networks.by_images(found, network, 8)
        before, after = (networks.by_images(found, network, count * factor) for factor in (0.9, 1.1))
        assert before > 1 > after


def test_the_table_of_speed(cases):
    rows = re.findall(r"\| `([\w-]+)` \| (\d+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) \|", section("How fast"))
    assert [name for name, *_ in rows] == [*NETWORKS]
    over = []
    for network, batch, kernels, rate, aim in rows:
        found = medians(cases, network=network, batch=int(batch), allocation="arena", convolution="implicit")
        assert (f"{1000 * found['kernel']:.2f}", f"{found['kernel_flop_rate'] / 1e12:.1f}") == (kernels, rate)
        over.append(1000 * found["kernel"] / float(aim) - 1)
    assert f"by {min(over):.0%} to {max(over):.0%}" in section("How fast")
    one = medians(cases, network="resnet50", allocation="arena", convolution="implicit")
    assert (
        f"`resnet50` has kernels of {1000 * one['kernel']:.2f} ms (aim 1.5) and copies of {1000 * one['in']:.1f}"
        in " ".join(PAGE.split())
    )
