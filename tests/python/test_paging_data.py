"""What the pages say of paging is what the kept records say."""

import pathlib
import re
import statistics

import pytest

from isthmus.advise import measured, paging_check
from isthmus.records import content, load

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "analysis/data"


def records(*names):
    return [case for name in names for case in load.read(DATA / f"{name}.jsonl.gz")]


def section(page, head):
    """The words of a section, with one space between two."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    begin = text.index(f"## {head}\n")
    end = text.find("\n## ", begin)
    return " ".join(text[begin : end if end >= 0 else None].split())


# --- isthmus advise paging --check ---


@pytest.fixture(scope="module")
def check():
    files = sorted(DATA.glob("*/*.jsonl*"))
    cases = [case for file in files for case in load.read(file)]
    cases = [case for case in content.that_count(cases, emulated=False) if measured.counts(case)]
    alone = [case for case in cases if not case["profiler"] and len(case["devices"]) == 1 and measured.plausible(case)]
    return paging_check.check(alone)


def off(check, way, *programs, page=None):
    """How far predictions of a way are off, of these programs or of all."""
    return [
        pick.predicted[way] / pick.point.seconds[way] - 1
        for pick in check.programs
        if way in pick.predicted
        and (not programs or pick.point.case["workload"].removeprefix("apps/") in programs)
        and (page is None or pick.point.program.page == page)
    ]


def test_the_page_has_the_errors_of_programs(check):
    said = section("advice.md", "Which way to the GPU")
    rows = re.findall(r"\| `(\w+)` \| (\d+) \| (\d+)% \|", said)
    assert {way for way, *_ in rows} == {*paging_check.EITHER}
    for way, number, error in rows:
        errors = off(check, way)
        assert (len(errors), f"{statistics.median(map(abs, errors)):.0%}") == (int(number), f"{error}%"), way
    picks = paging_check.choices(check.programs)
    good = sum(pick.loss <= paging_check.NEAR for pick in picks)
    assert f"within 10% of the best in {good} of {len(picks)} programs" in said
    of_three = [pick for pick in picks if pick.point.case["size"] == "super" and "passes" not in pick.point.label
                and pick.point.case["workload"] in ("apps/mvt", "apps/atax", "apps/bicg")]  # fmt: skip
    assert f"{len(of_three)} are mvt, atax and bicg" in said
    here = {id(pick.point.case) for pick in check.programs if not check.elsewhere(pick.point.case)}
    every = {id(pick.point.case) for pick in check.programs}
    assert f"{len(here)} of {len(every)} records of programs are of hardware like it" in said


def test_the_page_has_what_is_wrong(check):
    said = section("advice.md", "Which way to the GPU")

    def between(errors):
        low, high = sorted(map(abs, (min(errors), max(errors))))
        return f"{low:.0%}".removesuffix("%") + f" to {high:.0%}"

    large = off(check, "paged", page=65536)
    assert max(large) < 0 and f"64 KiB: {between(large)} too short" in said
    managed = off(check, "managed")
    assert min(managed) > 0 and f"`managed`: {between(managed)} too long" in said
    kmeans = off(check, "copy", "kmeans")
    assert min(kmeans) > 0 and f"kmeans: {between(kmeans)} too long" in said
    graphs = off(check, "copy", "bfs", "cc", "sssp")
    assert max(graphs) < 0 and f"sssp: {between(graphs)} too short" in said
    networks = off(check, "copy", "network")
    assert max(networks) < 0 and f"network: {between(networks)} too short" in said
    (pattern,) = [
        pick.point for pick in check.patterns
        if "managed" in pick.point.seconds and pick.point.program.page == 4096 and pick.point.program.passes == 1
        and pick.point.program.touched == pick.point.program.pages and pick.point.program.use == 4096
    ]  # fmt: skip
    assert f"with {pattern.program.bytes / pattern.seconds['managed'] / 1e9:.1f} GB/s" in said
    rates = [
        pick.point.program.bytes / pick.point.seconds["managed"] / 1e9 for pick in check.programs
        if "managed" in pick.point.seconds and pick.point.case["size"] == "super"
    ]  # fmt: skip
    assert f"{min(rates):.1f} to {max(rates):.1f} GB/s in mvt, atax and bicg" in said


# --- what an engineer would object to ---


def median(cases, metric, **wanted):
    """Of the one record whose workload, placement and axes these are."""
    found = [
        case for case in cases
        if all(case.get(name, case["axes"].get(name)) == value for name, value in wanted.items())
        and metric in content.metrics(case)
    ]  # fmt: skip
    assert len(found) == 1, (metric, wanted, len(found))
    return content.metrics(found[0])[metric]["median"]


def ms(seconds):
    return f"{1e3 * seconds:.3g} ms" if seconds < 9.995e-3 else f"{1e3 * seconds:.{1 if seconds < 0.0995 else 0}f} ms"


@pytest.fixture(scope="module")
def objections():
    return section("paging.md", "What a GPU maker's engineer would object to")


def test_objections_of_the_programs(objections):
    cases = records("h200/paged-programs")
    mvt = {
        placement: median(cases, "overlapped", workload="apps/mvt", placement=placement)
        for placement in ("pinned", "mapped", "managed_demand", "managed_advise")
    }
    paged = {
        room: median(cases, "overlapped", workload="apps/mvt", placement="paged", page=4096, frames=room)
        for room in (100, 25)
    }
    assert f"mvt at super takes {ms(mvt['pinned'])} copied and {ms(paged[100])} paged with room for all" in objections
    assert f"mvt takes {ms(mvt['mapped'])} in place, and {ms(paged[25])} paged with room for a quarter" in objections
    faults, advised = mvt["managed_demand"], mvt["managed_advise"]
    assert f"mvt takes {ms(faults)} on that host, with its advice {ms(advised)}" in objections
    assert f"That is {faults / paged[100]:.1f} and {advised / paged[100]:.1f} times as long" in objections
    kernels = {
        case["placement"]: case["kernels"][0] for case in cases
        if case["workload"] == "apps/mvt" and case["placement"] in ("pinned", "paged")
    }  # fmt: skip
    paged_kernel, copied_kernel = kernels["paged"], kernels["pinned"]
    assert f"{paged_kernel['registers']} a thread in mvt instead of {copied_kernel['registers']}" in objections
    assert paged_kernel["local_bytes"] == 0 and "none spilled" in objections
    locking = [
        content.metrics(case)["host_alloc"]["median"] for case in cases
        if case["placement"] == "paged" and case["workload"] in ("apps/mvt", "apps/atax", "apps/bicg")
    ]  # fmt: skip
    assert min(locking) > 0.25 and max(locking) < 0.55 and "takes 0.3 to 0.5 s for 1 GiB" in objections


def test_objections_of_pages_in_random_order(objections):
    first, second = records("h200/paging"), records("h200/paging-second")
    few = median(first, "time", workload="paging/random", touched=5)
    whole = median(records("h200/paged-programs"), "in", workload="apps/mvt", placement="pinned")
    assert f"a random 5% of 1 GiB comes in {ms(few)}, and the copy of all takes {ms(whole)}" in objections
    window, pointer = (median(first, "time", workload="paging/sweep", page=4096, through=how)
                       for how in ("window", "pointer"))  # fmt: skip
    assert f"takes {window / pointer:.2f} times as long as through a pointer, in pages of 4 KiB" in objections
    element, pointer = (median(second, "time", workload="paging/sweep", page=4096, through=how)
                        for how in ("element", "pointer"))  # fmt: skip
    assert f"Element by element it is {element / pointer:.1f} times" in objections
    whole = {"workload": "paging/random", "access": "read", "frames": 100, "touched": 100}
    assert f"It is: {median(first, 'rate', page=4096, **whole) / 1e9:.1f} GB/s" in objections
    tables = [median(first, "table_bytes", page=page, **whole) for page in (4096, 65536)]
    assert (
        f"{tables[0] / 1e6:.1f} MB for 1 GiB in pages of 4 KiB with room for all, {tables[1] / 1e6:.1f} MB"
        in objections
    )
    assert f"That is {tables[0] / 2**30:.1%} and {tables[1] / 2**30:.2%} of the data" in objections
    again = {"workload": "paging/random", "access": "read", "passes": 4, "frames": 50, "page": 4096}
    fifo, resistant = (
        median(second, "fetches", eviction=eviction, **again)
        / median(second, "optimal_fetches", eviction=eviction, **again)
        for eviction in ("fifo", "scan_resistant")
    )
    assert f"it fetches {fifo:.2f} times what Belady's rule would, `scan_resistant` {resistant:.2f} times" in objections


def test_objections_of_the_second_gpu_patterns_and_graphs(objections):
    two = {"workload": "paging/random", "transport": "pull_and_relay", "access": "read", "page": 65536, "frames": 100}
    rate = median(records("h100-x2/transports"), "rate", **two)
    assert f"in large pages to {rate / 1e9:.1f} GB/s" in objections
    patterns = records("h100-x2/pattern")
    whole = {"density": 3, "page": 65536, "passes": 4, "use": 2 * 2**20, "frames": 100}
    paged, mapped = (median(patterns, "time", way=way, **whole) for way in ("paged", "mapped"))
    assert f"four times: {ms(paged)} paged and {ms(mapped)} in place" in objections
    graphs = [case for case in records("h200/graphs") if case["axes"].get("scale") == 22]
    paged = median(graphs, "kernel", workload="apps/bfs", placement="paged")
    copied, kernel = (median(graphs, name, workload="apps/bfs", placement="pinned") for name in ("in", "kernel"))
    assert f"takes {ms(paged)} paged with half the frames, and copied {ms(copied)} and {ms(kernel)}" in objections
