"""Agreement of docs/networks.md's statements on libraries, copied weights and training with the kept records."""

import collections
import pathlib
import statistics

import pytest

from isthmus.records import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/networks.md").read_text(encoding="utf-8")
BATCH = {"resnet18": 32, "resnet50": 32, "yolov3-tiny": 4, "yolov3": 4}
MODES = ("baseline", "async", "uvm", "uvm_async", "pm", "pm_async")
FLOORS = {"resnet18": (6.4, 12), "resnet50": (13.3, 27), "yolov3-tiny": (1.2, 2.4), "yolov3": (14.7, 28)}


@pytest.fixture(scope="module")
def cases():
    return load.read(ROOT / "papers/data/h100/networks.jsonl.gz")


@pytest.fixture(scope="module")
def second():
    """Returns records of version 2, from other hosts."""
    return load.read(ROOT / "papers/data/h100/networks-second.jsonl.gz")


def rows(head):
    """Returns the rows of the tables in a section as lists of cells, without the rows of headings and dashes."""
    begin = PAGE.index(f"{head}\n")
    lines = PAGE[begin : PAGE.find("\n## ", begin)].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def said(head):
    begin = PAGE.index(f"{head}\n")
    return " ".join(PAGE[begin : PAGE.find("\n## ", begin)].split())


def pick(cases, workload, mode="pm", **axes):
    wanted = [
        c
        for c in cases
        if c["workload"] == workload and c["mode"] == mode and all(c["axes"][k] == v for k, v in axes.items())
    ]
    assert len(wanted) <= 1, axes
    return wanted[0] if wanted else None


def median(case, name):
    return next((m["median"] for m in case["metrics"] if m["name"] == name), 0.0)


def seconds(case):
    return median(case, "kernel")


def milliseconds(case, name, digits=2):
    return f"{1000 * median(case, name):.{digits}f}" if case else "–"


def library(cases, network, **axes):
    wanted = {"convolution": "library", "layout": "channels", "algorithms": "any", "math": "fp32"} | axes
    return pick(cases, "apps/network", network=network, batch=BATCH[network], **wanted)


def convolutions(case):
    """Returns the seconds of the kernels that convolve, whether the library's or ours. Only convolutions have sums of
    parts, so these are included."""
    return sum(k["seconds"] for k in case["kernels"] if "convolutional" in k["name"] or "sum of parts" in k["name"])


def library_rows(cases):
    for network in BATCH:
        ours = library(cases, network, convolution="implicit")
        channels, images = (library(cases, network, layout=layout) for layout in ("channels", "images"))
        multiplied = [
            library(cases, network, layout=layout, algorithms="products") for layout in ("channels", "images")
        ]
        fastest, products = (min(each, key=seconds) for each in ((channels, images), multiplied))
        alone = min(convolutions(channels), convolutions(images))
        yield [
            f"`{network}`",
            *(milliseconds(case, "kernel") for case in (ours, channels, images, products)),
            *(f"{seconds(ours) / seconds(case):.2f}" for case in (fastest, products)),
            f"{1000 * convolutions(ours):.2f}",
            f"{1000 * alone:.2f}",
            f"{convolutions(ours) / alone:.2f}",
        ]


def start_rows(cases):
    for network in BATCH:
        for mode, placement in (("pm", "pinned"), ("baseline", "pageable")):
            arena, streamed = (
                pick(cases, "apps/network", mode, network=network, batch=1, allocation=allocation)
                for allocation in ("arena", "streamed")
            )
            each = [milliseconds(arena, name) for name in ("in", "kernel", "overlapped")]
            ring = [milliseconds(streamed, name) for name in ("kernel", "overlapped")]
            ratio = f"{median(arena, 'overlapped') / median(streamed, 'overlapped'):.2f}"
            yield [f"`{network}`", f"`{placement}`", *each, *ring, ratio]


def trained(cases, network, mode="pm"):
    return pick(cases, "apps/network_training", mode, network=network, batch=BATCH[network])


def training_rows(cases):
    for network, (floor, aim) in FLOORS.items():
        by_mode = [milliseconds(trained(cases, network, mode), "kernel", 1) for mode in MODES]
        case = trained(cases, network)
        rate = f"{median(case, 'kernel_flop_rate') / 1e12:.1f}"
        over = f"{1000 * median(case, 'kernel') / aim:.1f}"
        yield [f"`{network}`", str(BATCH[network]), *by_mode, rate, f"{floor:g}", f"{aim:g}", over]


def share(name):
    if "back: data" in name or "back: turned weights" in name:
        return "inputs"
    if "back: weights" in name:
        return "weights"
    return "back" if "back" in name else "update" if "update" in name else "forward"


def shares(case):
    found = collections.Counter()
    for kernel in case["kernels"]:
        found[share(kernel["name"])] += kernel["seconds"]
    return [1000 * found[part] for part in ("forward", "inputs", "weights", "back", "update")]


def share_rows(cases):
    for network in BATCH:
        yield [f"`{network}`", *(f"{each:.1f}" for each in shares(trained(cases, network)))]


def counted(case):
    """Returns the time that the paper counts, which excludes the first touch."""
    return sum(median(case, name) for name in ("host_alloc", "device_alloc", "in", "kernel", "out"))


def over_baseline(cases, of):
    return [of(trained(cases, n)) / of(trained(cases, n, "baseline")) for n in BATCH]


def whole_rows(cases):
    for network in BATCH:
        for mode in ("baseline", "uvm", "pm"):
            case = trained(cases, network, mode)
            each = [milliseconds(case, name, 1) for name in ("host_alloc", "host_touch", "in", "kernel", "out")]
            yield [f"`{network}`", f"`{mode}`", *each, f"{1000 * counted(case):.1f}", milliseconds(case, "wall", 1)]


def span(numbers, form):
    each = sorted(numbers)
    return f"{each[0]:{form}} to {each[-1]:{form}}"


def test_the_table_beside_a_library_and_what_is_said_of_it(cases):
    head = "### What it takes"
    found = list(library_rows(cases))
    assert rows(head) == found
    page = said(head)
    ratios = {row[0].strip("`"): [float(row[at]) for at in (5, 6, 9)] for row in found}
    assert all(max(ratios[n]) < 1 for n in ("yolov3", "yolov3-tiny")) and max(r[1] for r in ratios.values()) < 1
    assert [n for n, r in ratios.items() if max(r) > 1.4] == ["resnet18"]
    assert "`resnet18`: {:.2f} with the whole network, {:.2f} with".format(*ratios["resnet18"][::2]) in page
    assert "`resnet50` takes {:.2f} times as long, and {:.2f} times with".format(*ratios["resnet50"][::2]) in page
    tf32 = library(cases, "resnet50", layout="images", math="tf32")
    assert (
        f"takes {milliseconds(tf32, 'kernel')} ms, of which its convolutions are {1000 * convolutions(tf32):.2f}"
        in page
    )
    assert seconds(library(cases, "yolov3", layout="images", algorithms="products")) < min(
        seconds(library(cases, "yolov3", layout=layout)) for layout in ("channels", "images")
    )


def layers_by(case):
    """Returns the number of layers that use each algorithm, from a note such as `GEMM in fp32: layers 8; ...`."""
    parts = (part.split(" in fp32: layers ") for part in case["notes"]["algorithms"].split("; "))
    return {name: len(layers.split(", ")) for name, layers in parts}


def test_algorithms_that_the_library_took(cases):
    taken = {
        (n, layout): layers_by(library(cases, n, layout=layout)) for n in BATCH for layout in ("channels", "images")
    }
    assert {name for each in taken.values() for name in each} == {
        "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "WINOGRAD_NONFUSED", "FFT_TILING",
    }  # fmt: skip
    assert all(
        taken[n, each]["WINOGRAD_NONFUSED"] == 13 for n in ("resnet18", "resnet50") for each in ("channels", "images")
    )
    assert [taken[n, "channels"]["WINOGRAD_NONFUSED"] for n in ("yolov3", "yolov3-tiny")] == [18, 2]
    assert "18 layers of `yolov3` and 2 of `yolov3-tiny`" in said("### What it takes")
    transforms = {case: each["FFT_TILING"] for case, each in taken.items() if "FFT_TILING" in each}
    assert transforms == {("yolov3-tiny", "images"): 1, ("yolov3", "images"): 1}
    assert {library(cases, n)["notes"]["library"] for n in BATCH} == {"cuDNN 9.14.0"}


def test_the_table_of_starts_and_what_is_said_of_it(cases):
    head = "## A start with nothing on the device"
    found = list(start_rows(cases))
    assert rows(head) == found
    page, by_case = said(head), {(row[0].strip("`"), row[1].strip("`")): row for row in found}
    pinned = by_case["yolov3", "pinned"]
    assert f"starts in {pinned[6]} ms from pinned memory. The aim was 7, and its copies alone take {pinned[2]}" in page
    assert float(pinned[6]) < 7
    assert f"is {span([float(by_case[n, 'pinned'][7]) for n in BATCH], '.2f')} times as fast as with `arena`" in page
    plain = [pick(cases, "apps/network", "baseline", network=n, batch=1, allocation="arena") for n in BATCH]
    assert f"They take {span([median(case, 'in') / seconds(case) for case in plain], '.1f')} times as long" in page
    assert all(float(by_case[n, "pageable"][7]) <= 1 for n in ("yolov3", "yolov3-tiny"))
    assert (
        "The resnets start {} and {} times as fast".format(
            *(by_case[n, "pageable"][7] for n in ("resnet18", "resnet50"))
        )
        in page
    )
    notes = (ROOT / "src/apps/network/NOTES.md").read_text(encoding="utf-8")
    assert f"An H100 took {pinned[6]} ms, and {pinned[4]} in turn" in notes


def second_training_rows(second):
    predicted = {"resnet50": 41.9, "yolov3": 40.2}
    for network, before in predicted.items():
        by_mode = [milliseconds(trained(second, network, mode), "kernel", 1) for mode in MODES]
        over = f"{1000 * seconds(trained(second, network)) / FLOORS[network][1]:.1f}"
        yield [f"`{network}`", *by_mode, str(before), over]


def test_the_tables_of_training_and_what_is_said_of_them(cases, second):
    found, parts, newer = list(training_rows(cases)), list(share_rows(cases)), list(second_training_rows(second))
    assert rows("### How long a step takes") == found + parts + newer + list(whole_rows(cases))
    page = said("### How long a step takes")
    assert f"miss their aims, by a factor of {span([float(row[-1]) for row in found], '.1f')}" in page
    each = {n: shares(trained(cases, n)) for n in BATCH}
    assert f"products back take {span([sum(s[:3]) / sum(s) for s in each.values()], '.0%')}" in page
    floors = [part / FLOORS[n][0] for n, s in each.items() for part in s[:3]]
    assert f"Each alone takes {span(floors, '.2f')} times the floor" in page


def test_what_is_said_of_modes_in_training(cases):
    page = said("### What the modes change")
    ran = {n: [c for mode in MODES if (c := trained(cases, n, mode))] for n in BATCH}
    slower = max(max(map(seconds, each)) / min(map(seconds, each)) for each in ran.values()) - 1
    assert f"at most {slower:.1%} longer" in page
    change = {n: seconds(trained(cases, n, "async")) / seconds(trained(cases, n, "baseline")) - 1 for n in BATCH}
    least, most = min(map(abs, change.values())), max(map(abs, change.values()))
    assert f"changes them by {least:.1%} to {most:.1%}" in page
    assert [n for n, more in change.items() if more < 0] == ["resnet50"]
    copied = over_baseline(cases, lambda case: median(case, "in") + median(case, "out"))
    assert f"`pm` copies in {1 - max(copied):.0%} to {1 - min(copied):.0%} less time" in page
    assert f"`pm` takes {statistics.mean(over_baseline(cases, counted)):.2f} times as long as `baseline`" in page
    assert f"By wall it takes {span(over_baseline(cases, lambda case: median(case, 'wall')), '.2f')} times" in page


@pytest.mark.parametrize("network", BATCH)
def test_training_has_the_same_bits_in_every_mode_that_ran(cases, network):
    ran = [c for mode in MODES if (c := trained(cases, network, mode))]
    assert len(ran) >= 5 and {case["verify"]["status"] for case in ran} == {"pass"}
    first, *others = (case["verify"]["checksums"] for case in ran)
    assert set(first) == {"losses", "weights"} and all(each == first for each in others)


def test_version_2_is_as_fast_as_the_page_and_the_notes_say(cases, second):
    before = load.read(ROOT / "papers/data/h100-x2/networks.jsonl.gz")
    aims = {"resnet18": 4, "resnet50": 8.5, "yolov3-tiny": 0.9, "yolov3": 8.5}
    wanted = []
    for network, aim in aims.items():
        newer = library(second, network, convolution="implicit")
        [older] = [
            case for case in before if case["workload"] == "apps/network" and case["axes"]["network"] == network
            and (case["axes"]["batch"], case["axes"]["convolution"]) == (BATCH[network], "implicit")
        ]  # fmt: skip
        assert (older["version"], newer["version"], newer["verify"]["status"]) == (1, 2, "pass")
        wanted.append([
            f"`{network}`", milliseconds(older, "kernel"), milliseconds(newer, "kernel"),
            f"{median(newer, 'kernel_flop_rate') / 1e12:.1f}", f"{1000 * seconds(newer) / aim - 1:.0%}",
        ])  # fmt: skip
        if network == "resnet50":
            layers = [
                round(1e6 * kernel["seconds"]) for case in (older, newer) for kernel in case["kernels"]
                if kernel["name"].startswith(("008 ", "010 "))
            ]  # fmt: skip
    assert [row for row in rows("## How fast") if len(row) == 5] == wanted
    assert layers == [547, 194, 202, 163]
    notes = (ROOT / "src/apps/network_training/NOTES.md").read_text(encoding="utf-8")
    for network in ("resnet50", "yolov3"):
        pairs = zip(shares(trained(cases, network)), shares(trained(second, network)), strict=True)
        assert "| ".join([f"| `{network}` ", *(f"{old:.1f}, {new:.1f} " for old, new in pairs)]) + "|" in notes


def test_what_is_said_of_modes_in_version_2(second):
    page = said("### How long a step takes")
    ran = {n: [trained(second, n, mode) for mode in MODES] for n in ("resnet50", "yolov3")}
    assert {case["version"] for each in ran.values() for case in each} == {2}
    for each in ran.values():
        assert {case["verify"]["status"] for case in each} == {"pass"}
        assert len({tuple(sorted(case["verify"]["checksums"].items())) for case in each}) == 1
    gain = [
        1 - seconds(each[at + 1]) / seconds(each[at]) for each in ran.values() for at in (0, 2)
    ]  # async over baseline, uvm_async over uvm
    gain += [1 - seconds(each[5]) / seconds(each[4]) for each in ran.values()]
    assert f"these kernels {min(gain):.0%} to {max(gain):.0%} shorter" in page
    over = [counted(trained(second, n)) / counted(trained(second, n, "baseline")) for n in ran]
    assert "`pm` takes {:.2f} and {:.2f} times".format(*over) in page
