"""Agreement of docs/uvm.md's statements with the committed records of page faults."""

import collections
import pathlib

import numpy
import pytest

from isthmus.records import fields, load
from isthmus.statistics import rank_test
from isthmus_papers.batches import model, sampling

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "papers/data/h200/faults.jsonl.gz"
PAGE = (ROOT / "docs/uvm.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
MIB, GIB = 2**20, 2**30
CAUSES = ("fault", "prefetch", "user", "eviction")


@pytest.fixture(scope="module")
def found():
    return [each for each in load.read(DATA) if each["metrics"]]


def median(record, metric):
    return float(numpy.median(fields.samples(record, metric)))


def chosen(found, workload, **axes):
    fits = lambda have: all(have.get(name) == value for name, value in axes.items())  # noqa: E731
    return [each for each in found if each["workload"] == f"faults/{workload}" and fits(each["axes"])]


def moved(record):
    return [sum(each) for each in zip(*(fields.samples(record, f"uvm_{cause}_bytes") for cause in CAUSES))]


def test_every_count_is_whole_and_no_record_is_emulated_or_wrong(found):
    assert len(found) == 197 and not any(each["emulated"] for each in found)
    assert all(each["verify"]["status"] == "pass" for each in found)
    codes = {warning["code"] for each in found for warning in each["warnings"]}
    assert all(fields.samples(each, "uvm_replays") == fields.samples(each, "uvm_batches") for each in found)
    assert not codes & {"uvm_dropped", "uvm_clock", "driver_prefetch_on", "faults_wrong"}


def test_without_the_prefetcher_the_pages_and_the_bytes_are_the_footprints(found):
    samples = collections.Counter()
    for record in [each for each in found if each["axes"].get("driver_prefetch") == "off" and "bytes" in each["axes"]]:
        pages = record["axes"]["bytes"] // 4096 // record["axes"].get("stride", 1)
        assert set(fields.samples(record, "uvm_pages")) == {pages}
        assert set(fields.samples(record, "uvm_fault_bytes")) == {pages * 4096} == set(moved(record))
        samples[pages] += len(fields.samples(record, "uvm_pages"))
    assert samples[262_144] == 6 and "262,144 of 262,144 in each of six samples" in TEXT
    assert samples[16_384] == 6 and samples[1024] == 3
    [sgemm] = chosen(found, "sgemm")
    assert fields.samples(sgemm, "uvm_pages") == [3 * 8192 * 8192 * 4 / 4096]
    assert moved(sgemm) == [4 * 8192 * 8192 * 4]  # three matrices to the GPU and one back


def test_bytes_by_cause_make_the_footprint_up_with_the_prefetcher_too(found):
    watched = [
        each for each in found if fields.samples(each, "uvm_pages") and each["axes"].get("driver_prefetch") != "off"
    ]
    assert len(watched) > 90
    for record in watched:
        assert set(moved(record)) == {record["axes"]["bytes"]}


def test_groups_of_64_kib_hold_the_prefetcher_to_their_pieces(found):
    small = {
        each: chosen(found, "regular", bytes=64 * MIB, driver_prefetch=each, visit="first")[0]
        for each in ("64KiB", "default")
    }
    of = {each: numpy.array(sampling.prefetched(DATA, record)) / MIB for each, record in small.items()}
    (brought, outside), (free, others) = of["64KiB"], of["default"]
    assert outside == 0
    assert f"nothing of {brought:.1f} MiB (as it is: {others:.1f} of {free:.1f} MiB)" in TEXT
    for record in found:
        if record["axes"].get("driver_prefetch") == "64KiB" and record["tables"]:
            assert sampling.prefetched(DATA, record)[1] == 0
    default, wide = (
        chosen(found, "regular", bytes=64 * MIB, driver_prefetch=each, visit="first")[0] for each in ("default", "2MiB")
    )
    shares = [median(each, "uvm_prefetch_bytes") / 64 / MIB for each in (wide, default)]
    assert f"{shares[0]:.0%} and {shares[1]:.0%}; the groups make the kernel" in TEXT
    assert f"{median(wide, 'time') / median(default, 'time'):.1f} times as long (64 MiB" in TEXT


def test_table_3_is_what_the_page_says(found):
    said = {"blocks": [], "faults": []}
    paper = {"regular": ("41.27", "5.93"), "random": ("233.09", "1.04"), "sgemm": ("6.96", "9.81")}
    for name, theirs in paper.items():
        axes = {} if name == "sgemm" else {"bytes": GIB}
        [record] = chosen(found, name, driver_prefetch="off", **axes)
        said["blocks"].append(f"{name} {numpy.mean(fields.samples(record, 'uvm_batch_blocks')):.2f} ({theirs[0]})")
        said["faults"].append(f"{name} {numpy.mean(fields.samples(record, 'uvm_block_faults')):.2f} ({theirs[1]})")
    assert ", ".join(said["blocks"]) in TEXT and ", ".join(said["faults"]) in TEXT
    [regular] = chosen(found, "regular", bytes=GIB, driver_prefetch="off")
    [random] = chosen(found, "random", bytes=GIB, driver_prefetch="off")
    times = [median(each, "time") for each in (regular, random)]
    shares = [median(each, "uvm_service_time") / time for each, time in zip((regular, random), times)]
    assert f"{times[0]:.2f} s and {times[1]:.2f} s, {shares[0]:.0%} and {shares[1]:.0%} of it in service" in TEXT
    faults = numpy.mean(fields.samples(random, "uvm_batch_faults"))
    by_chance = 512 * (1 - (1 - 1 / 512) ** faults)
    assert f"With the {faults:.0f} faults of a random batch, 512 blocks give {by_chance:.0f} by chance" in TEXT


def test_figure_1_has_57_cases_and_the_ratios_of_the_page(found):
    cases = chosen(found, "latency")
    assert len(cases) == 57
    of = {(each["axes"]["memory"], each["axes"]["bytes"]): median(each, "time") for each in cases}
    ranges = []
    for memory in ("pinned", "pageable"):
        over = [of["managed", size] / time for (name, size), time in of.items() if name == memory]
        assert len(over) == 19
        ranges.append(f"{min(over):.1f} to {max(over):.1f} times that of")
    assert f"{ranges[0]} page-locked memory, {ranges[1]} malloc's" in TEXT


def test_watching_costs_what_the_page_says_and_is_not_equivalent_to_nothing(found):
    both = chosen(found, "regular", bytes=GIB, driver_prefetch="default")
    watched = [each for each in both if fields.samples(each, "uvm_faults")]
    plain = [each for each in both if not fields.samples(each, "uvm_faults")]
    turns = [each["run"]["time"] for pair in zip(watched, plain, strict=True) for each in pair]
    assert len(watched) == 40 and turns == sorted(turns)  # plain and observed runs alternated
    middle, low, high = rank_test.ratio_interval(
        [fields.samples(a, "time")[0] / fields.samples(b, "time")[0] for a, b in zip(watched, plain)]
    )
    assert f"takes {middle:.3f} times as long, 95% {low:.3f} to {high:.3f}" in TEXT
    assert high > 1.05


def test_threads_of_the_host_are_told_from_nothing_in_no_case(found):
    middles = []
    for name in ("regular", "random"):
        for prefetch in ("default", "64KiB"):
            of = chosen(found, name, bytes=256 * MIB, driver_prefetch=prefetch)
            by = collections.defaultdict(dict)
            for each in of:
                by[each["axes"]["host_threads"]][each["run"]["id"]] = median(each, "time")
            assert len(by[1]) == 6
            middle, low, high = rank_test.ratio_interval([by[16][job] / by[1][job] for job in by[1]])
            assert low < 1 < high
            middles.append(middle)
    assert f"{min(middles):.2f} to {max(middles):.2f} times, four intervals of six jobs" in TEXT


def test_the_model_explains_most_of_what_is_left_out(found):
    samples, _, _ = sampling.read([DATA], emulated=False, absent=[])
    [fit] = model.fits(samples)
    assert fit.driver == "580.159.04"
    assert f"keeps {fit.batches:,} of {fit.jobs}" in TEXT
    assert fit.explained_left >= 0.9
    assert f"| {fit.explained:.1%} |" in TEXT and f"| {fit.explained_left:.1%} |" in TEXT
    for name, scale, digits in (("blocks", 1e6, "µs"), ("first_visits", 1e6, "µs"), ("pieces", 1e9, "ns")):
        term = sampling.TERMS.index(name)
        assert fit.status(term) == "identified" and fit.low[term] > 0
        value, low, high = (f"{each[term] * scale:#.3g}" for each in (fit.values, fit.low, fit.high))
        assert f"| {value} {digits} | {low} to {high} |" in TEXT, name
    faults = sampling.TERMS.index("faults")
    assert fit.low[faults] < 0 < fit.high[faults]
    assert fit.partners(sampling.TERMS.index("bytes")) == "host_pages"


def test_tables_are_small_and_each_belongs_to_a_record():
    folder = ROOT / "papers/data/h200/faults.tables"
    files = [DATA, DATA.with_name("faults-second.jsonl.gz")]
    named = {table["file"] for path in files for record in load.read(path) for table in record["tables"]}
    assert named == {f"{folder.name}/{path.name}" for path in folder.iterdir()}
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 3_000_000


def test_the_picture_of_a_programs_page_is_small():
    assert (ROOT / "docs/pictures/faults.png").stat().st_size <= 300_000
    assert "(pictures/faults.png)" in TEXT


def test_how_far_counts_differ_from_process_to_process():
    for column, name in enumerate(("faults", "faults-second")):
        cases = collections.defaultdict(list)
        for each in load.read(DATA.with_name(f"{name}.jsonl.gz")):
            if each["profiler"] == "uvm" and not each["skipped"]:
                cases[each["workload"], each["placement"], str(sorted(each["axes"].items()))].append(each)
        for metric in ("batches", "faults", "pages", "fault_bytes", "prefetch_bytes"):
            spreads = []
            for records in cases.values():
                values = [median(each, f"uvm_{metric}") for each in records]
                if len(values) >= 4 and sum(values) > 0:
                    spreads.append(numpy.std(values, ddof=1) / numpy.mean(values))
            assert len(spreads) == (9, 15 if metric == "prefetch_bytes" else 18)[column]
            [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `uvm_{metric}` |") and "%" in line]
            assert row.split("|")[2 + column].strip() == f"{numpy.median(spreads):.1%}, {max(spreads):.1%}"
