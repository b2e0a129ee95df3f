"""Agreement of docs/uvm.md's statements on Table 3 and Figures 1 and 6 with the records of the H100 hosts."""

import pathlib

import numpy
import pytest

from isthmus.records import fields, load
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.batches import sampling
from isthmus_papers.figures import paging

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "papers/data/h100/faults.jsonl.gz"
PAPER = published.load(ROOT / "papers/data/published/uvm-batches.csv")
SECTION = (
    (ROOT / "docs/uvm.md")
    .read_text(encoding="utf-8")
    .partition("## Table 3 on an H100 host\n")[2]
    .partition("\n## ")[0]
)
TEXT = " ".join(SECTION.split())
FOOTPRINTS = {
    "regular": 2**30, "random": 2**30, "sgemm": 3 * 2**26, "stream": 3 * 2**26,
    "fft": 2**28, "gauss_seidel": 2**28, "multigrid": 2**28,
}  # fmt: skip
MIB = 2**20


@pytest.fixture(scope="module")
def found():
    return load.read(DATA)


@pytest.fixture(scope="module")
def passes(found):
    """Returns, for each program, the record that has every batch in a table."""
    return {each["workload"].removeprefix("faults/"): each for each in found if each["tables"]}


def only(record, metric):
    [value] = fields.samples(record, metric)
    return value


def share(record):
    moved = sampling.moved(DATA, record)
    return moved.transfer / moved.service


def test_no_record_is_emulated_invalid_or_wrong_and_every_batch_is_there(found, passes):
    assert len(found) == 46 and not any(each["emulated"] or fields.invalidating(each) for each in found)
    assert {each["verify"]["status"] for each in found} == {"pass"}
    codes = {warning["code"] for each in found for warning in each["warnings"]}
    assert codes == {"latch_exempt", "timer_coarse"}
    assert set(passes) == set(FOOTPRINTS)
    for name, record in passes.items():
        rows = load.read_table(DATA, record, "uvm_batches")
        moved = sampling.moved(DATA, record)
        assert len(rows) == len(moved.bytes) == only(record, "uvm_batches")
        assert moved.bytes.sum() == FOOTPRINTS[name] == 4096 * only(record, "uvm_pages")
        assert only(record, "uvm_prefetch_bytes") == 0


def test_table_3_is_what_the_page_says(passes):
    rows = [line for line in SECTION.splitlines() if line.startswith("| `")]
    assert len(rows) == len(passes)
    for row in rows:
        name, *cells = [cell.strip(" `") for cell in row.strip("|").split("|")]
        name = name.removeprefix("faults/")
        record = passes[name]
        said = [f"{only(record, 'uvm_batches'):,.0f}"]
        for field, metric, digits in (
            ("blocks", "batch_blocks", 2), ("faults", "block_faults", 2), ("deviation", "block_faults_deviation", 2),
            ("most", "block_faults_most", 0),
        ):  # fmt: skip
            said.append(f"{only(record, f'uvm_{metric}'):.{digits}f} ({PAPER[f'{name}-{field}'].low:.{digits}f})")
        [kernel] = fields.samples(record, "time") or fields.samples(record, "kernel")
        said += [f"{only(record, 'uvm_service_time') / kernel:.0%}", f"{numpy.mean(share(record) < 0.25):.0%}"]
        assert cells == said, name


def test_faults_are_spread_as_the_page_says(passes):
    spread = {
        name: only(each, "uvm_block_faults_deviation") / only(each, "uvm_block_faults") for name, each in passes.items()
    }
    random = spread.pop("random")
    assert random < min(spread.values())
    assert (
        f"{min(spread.values()):.1f} to {max(spread.values()):.1f} times the mean, of random reads {random:.1f}" in TEXT
    )
    assert {only(each, "uvm_block_faults_least") for each in passes.values()} == {1}
    alike = [
        name for name, each in passes.items()
        if published.judge(PAPER[f"{name}-blocks"], only(each, "uvm_batch_blocks")) == "agrees"
        and published.judge(PAPER[f"{name}-faults"], only(each, "uvm_block_faults")) == "agrees"
    ]  # fmt: skip
    assert alike == ["regular"] and "Only regular reads have the paper's figures within a tenth" in TEXT


def test_transfer_of_a_batch_is_what_the_page_says(passes):
    shares = {name: share(record) for name, record in passes.items()}
    moved = sampling.moved(DATA, passes["sgemm"])
    median, most = numpy.median(shares["sgemm"]), shares["sgemm"].max()
    total = moved.transfer.sum() / moved.service.sum()
    assert f"the median {median:.0%}, the most {most:.0%}, and {total:.0%} of all service" in TEXT
    keep = {name for name, each in shares.items() if numpy.mean(each < PAPER["sgemm-transfer"].neutral) >= 0.9}
    assert keep == {"regular", "random", "gauss_seidel"}
    rows = sorted(load.read_table(DATA, passes["sgemm"], "uvm_batches"), key=lambda row: row["begin"])
    ends = [rows[0]["begin"], *(row["replay"] for row in rows)]
    below = numpy.mean([row["transfer"] for row in rows] < 0.25 * numpy.diff(ends))
    assert f"replay {below:.0%} of sgemm's batches spend less" in TEXT


def test_figure_1_is_what_the_page_says():
    times = paging.first_reads(readings.load(DATA))
    over = paging.over_explicit(times)
    ranges = {}
    for memory in ("pinned", "pageable"):
        ratios = [float(each) for name, of in over.items() if name.startswith(f"over {memory}") for each in of.values()]
        assert len(ratios) == 12  # six sizes in two orders
        ranges[memory] = f"{min(ratios):.1f} to {max(ratios):.1f} times as"
    assert f"take {ranges['pinned']} long as over page-locked memory, and {ranges['pageable']} over malloc's" in TEXT
    orders = {
        size: f"{float(value / times['managed, regular'][size]):.2f}"
        for size, value in times["managed, random"].items()
    }
    small, large = (orders[MIB], orders[16 * MIB]), (orders[256 * MIB], orders[1024 * MIB])
    assert f"{small[0]} times as long as pages in their order at 1 MiB, and {small[1]} times at 16 MiB" in TEXT
    assert f"they take {large[0]} and {large[1]} times as long" in TEXT


def test_a_second_host_is_as_near_as_the_page_says(found, passes):
    others = [each for each in found if each["workload"] != "faults/latency" and not each["tables"]]
    assert len(others) == 3
    apart = []
    for each in others:
        here = passes[each["workload"].removeprefix("faults/")]
        assert each["devices"][0]["uuid"] != here["devices"][0]["uuid"]
        for metric in ("uvm_batch_blocks", "uvm_block_faults"):
            apart.append(abs(numpy.mean(fields.samples(each, metric)) / only(here, metric) - 1))
    assert f"within {max(apart):.0%} of these" in TEXT


def test_from_gpu_to_gpu_is_what_the_page_says():
    path = ROOT / "papers/data/h100-x2/faults.jsonl.gz"
    section = (
        (ROOT / "docs/uvm.md").read_text(encoding="utf-8").partition("## From GPU to GPU\n")[2].partition("\n## ")[0]
    )
    peers = [each for each in load.read(path) if each["workload"] == "faults/peers"]
    assert len(peers) == 24 and {each["run"]["process"] for each in peers} == {*range(1, 7)}
    assert not any(
        each["emulated"] or fields.invalidating(each) or each["verify"]["status"] != "pass" for each in peers
    )
    rows, times = [], {}
    for order in ("regular", "random"):
        for prefetch in ("off", "default"):
            axes = {"order": order, "driver_prefetch": prefetch}
            of = [each for each in peers if each["axes"].items() >= axes.items()]
            of_metric = {
                name: [only(each, name) for each in of]
                for name in ("time", "uvm_batches", "uvm_faults", "uvm_service_time", "uvm_transfer_time")
            }
            assert len(of) == 6
            for each in of:
                batches = load.read_table(path, each, "uvm_batches")
                assert len(batches) == only(each, "uvm_batches") and sum(row["bytes"] for row in batches) == 64 * MIB
            time, batches, faults, service, transfer = (numpy.median(values) for values in of_metric.values())
            times[order, prefetch] = of_metric["time"]
            low, high = (1000 * end(of_metric["time"]) for end in (min, max))
            cells = [
                f"`{order}`", f"`{prefetch}`", f"{1000 * time:.1f}", f"{low:.1f} to {high:.1f}", f"{batches:.0f}",
                f"{faults:,.0f}", f"{service / time:.0%}", f"{transfer / time:.0%}",
            ]  # fmt: skip
            rows.append(f"| {' | '.join(cells)} |")
    assert [line for line in section.splitlines() if line.startswith("| `")] == rows
    slower = [
        numpy.median(times[order, "off"]) / numpy.median(times[order, "default"]) for order in ("regular", "random")
    ]
    assert "it takes {:.1f} and {:.1f} times as long".format(*slower) in section
    apart = max(max(each) / min(each) for (_, prefetch), each in times.items() if prefetch == "off")
    assert f"up to {apart:.1f} times" in section


def test_tables_are_small_and_each_belongs_to_a_record(found):
    folder = DATA.parent / "faults.tables"
    named = {table["file"] for record in found for table in record["tables"]}
    assert named == {f"{folder.name}/{path.name}" for path in folder.iterdir()}
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1_000_000
