"""Agreement of the pages on paging with the kept records."""

import pathlib
import re
import statistics

import pytest

from isthmus.advise import measured, paging_check
from isthmus.records import fields, load

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "papers/data"


def records(*names):
    return [case for name in names for case in load.read(DATA / f"{name}.jsonl.gz")]


def section(page, head):
    """Returns the words of a section, separated by single spaces."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    begin = text.index(f"## {head}\n")
    end = text.find("\n## ", begin)
    return " ".join(text[begin : end if end >= 0 else None].split())


# --- isthmus advise paging --check ---


@pytest.fixture(scope="module")
def check():
    files = sorted(DATA.glob("*/*.jsonl*"))
    cases = [case for file in files for case in load.read(file)]
    cases = [case for case in fields.that_count(cases, emulated=False) if measured.counts(case)]
    alone = [case for case in cases if not case["profiler"] and len(case["devices"]) == 1 and measured.plausible(case)]
    return paging_check.check(alone)


def off(check, way, *programs, page=None):
    """Returns the relative errors of the predictions for a method, for the given programs or for all."""
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
    assert f"{len(here)} of {len(every)} records of programs come from hardware like theirs" in said


def test_the_page_has_what_is_wrong(check):
    said = section("advice.md", "Which way to the GPU")

    def between(errors):
        low, high = sorted(map(abs, (min(errors), max(errors))))
        return f"{low:.0%}".removesuffix("%") + f" to {high:.0%}"

    three = ("mvt", "atax", "bicg")
    large = off(check, "paged", *three, page=65536)
    assert max(large) < 0 and f"64 KiB: {between(large)} too short" in said
    managed = off(check, "managed", *three)
    assert min(managed) > 0 and f"`managed` of mvt, atax and bicg: {between(managed)} too long" in said
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
    assert f"at {pattern.program.bytes / pattern.seconds['managed'] / 1e9:.1f} GB/s" in said
    rates = [
        pick.point.program.bytes / pick.point.seconds["managed"] / 1e9 for pick in check.programs
        if "managed" in pick.point.seconds and pick.point.case["size"] == "super"
        and pick.point.case["workload"].removeprefix("apps/") in three
    ]  # fmt: skip
    assert f"{min(rates):.1f} to {max(rates):.1f} GB/s at super" in said
    (lost,) = [pick for pick in paging_check.choices(check.programs) if pick.loss > paging_check.NEAR]
    assert lost.point.case["workload"] == "apps/kmeans" and lost.point.case["placement"] == "paged"
    assert f"which takes {lost.loss:.0%} longer than `copy`" in said


# --- objections that an engineer might have ---


def median(cases, metric, **wanted):
    """Returns the median of the single record with this workload, placement and axes."""
    found = [
        case for case in cases
        if all(case.get(name, case["axes"].get(name)) == value for name, value in wanted.items())
        and metric in fields.metrics(case)
    ]  # fmt: skip
    assert len(found) == 1, (metric, wanted, len(found))
    return fields.metrics(found[0])[metric]["median"]


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
    assert f"mvt takes {ms(faults)} on that host, and with its advice {ms(advised)}" in objections
    assert f"That is {faults / paged[100]:.1f} and {advised / paged[100]:.1f} times as long" in objections
    kernels = {
        case["placement"]: case["kernels"][0] for case in cases
        if case["workload"] == "apps/mvt" and case["placement"] in ("pinned", "paged")
    }  # fmt: skip
    paged_kernel, copied_kernel = kernels["paged"], kernels["pinned"]
    assert f"{paged_kernel['registers']} per thread in mvt instead of {copied_kernel['registers']}" in objections
    assert paged_kernel["local_bytes"] == 0 and "with no spills" in objections
    locking = [
        fields.metrics(case)["host_alloc"]["median"] for case in cases
        if case["placement"] == "paged" and case["workload"] in ("apps/mvt", "apps/atax", "apps/bicg")
    ]  # fmt: skip
    assert min(locking) > 0.25 and max(locking) < 0.55 and "takes 0.3 to 0.5 s for 1 GiB" in objections


def test_objections_of_pages_in_random_order(objections):
    first, second = records("h200/paging"), records("h200/paging-second")
    few = median(first, "time", workload="paging/random", touched=5)
    whole = median(records("h200/paged-programs"), "in", workload="apps/mvt", placement="pinned")
    assert f"a random 5% of 1 GiB arrives in {ms(few)}, whereas the copy of all takes {ms(whole)}" in objections
    window, pointer = (median(first, "time", workload="paging/sweep", page=4096, through=how)
                       for how in ("window", "pointer"))  # fmt: skip
    assert f"takes {window / pointer:.2f} times as long through windows as through a pointer" in objections
    element, pointer = (median(second, "time", workload="paging/sweep", page=4096, through=how)
                        for how in ("element", "pointer"))  # fmt: skip
    assert f"Element by element it takes {element / pointer:.1f} times" in objections
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
    assert (
        f"it fetches {fifo:.2f} times as much as Belady's rule would, and `scan_resistant` {resistant:.2f} times"
        in objections
    )


def test_objections_of_the_second_gpu_patterns_and_graphs(objections):
    two = {"transport": "pull_and_relay", "page": 4096, "frames": 100, "pulls": 0}
    rate = median(records("h200-x2/transports"), "rate", **two)
    assert f"to {rate / 1e9:.1f} GB/s in pages of 4 KiB" in objections
    patterns = records("h100-x2/pattern")
    whole = {"density": 3, "page": 65536, "passes": 4, "use": 2 * 2**20, "frames": 100}
    paged, mapped = (median(patterns, "time", way=way, **whole) for way in ("paged", "mapped"))
    assert f"four times takes {ms(paged)} paged and {ms(mapped)} in place" in objections
    graphs = [case for case in records("h200/graphs") if case["axes"].get("scale") == 22]
    paged = median(graphs, "kernel", workload="apps/bfs", placement="paged")
    copied, kernel = (median(graphs, name, workload="apps/bfs", placement="pinned") for name in ("in", "kernel"))
    assert f"takes {ms(paged)} paged with half the frames" in objections
    assert f"Copied, it takes {ms(copied)} for the copy and {ms(kernel)} for the search" in objections


# --- transports, and graphs ---


def test_two_links():
    said, found = section("paging.md", "Who brings a page"), records("h200-x2/transports")
    for transport in ("pull", "relay", "pull_and_relay"):
        rates = [
            median(found, "rate", transport=transport, page=page, frames=frames, bytes=2**30, queues=0, **own) / 1e9
            for page in (4096, 65536)
            for frames in (100, 25)
            for own in ({} if transport == "pull" else {"pulls": 0},)
        ]
        assert f"| `{transport}` | " + " | ".join(f"{rate:.1f}" for rate in rates) + " |" in said
    rates = [
        median(found, "rate", transport="pull_and_relay", page=4096, frames=100, pulls=pulls) / 1e9
        for pulls in (64, 128, 256, 512, 1024)
    ]
    assert "{:.1f}, {:.1f}, {:.1f}, {:.1f} and {:.1f} GB/s. The likely reason".format(*rates) in said
    rates = [median(found, "rate", transport="relay", page=4096, queues=queues) / 1e9 for queues in (32, 128, 256)]
    assert "32 blocks of a relay carry {:.1f} GB/s, 128 carry {:.1f} and 256 carry {:.1f}".format(*rates) in said
    large = {"bytes": 160 * 2**30, "frames": 25, "page": 65536}
    time, rate = (median(found, name, **large) for name in ("time", "rate"))
    assert f"by `pull` takes {time:.2f} s, {rate / 1e9:.1f} GB/s" in said
    times = [median(records("h200-x2/graphs"), "kernel", transport=name) for name in ("relay", "pull_and_relay")]
    assert f"takes {ms(times[0])} by `relay` and {ms(times[1])} by `pull_and_relay`" in said


def test_graphs_by_number_of_queues():
    said, found = section("paging.md", "Who brings a page"), records("h100-x2/graphs")
    by = {
        name: [median(found, "kernel", workload=name, transport="relay", queues=queues) for queues in (32, 128, 256)]
        for name in ("apps/bfs", "apps/cc")
    }
    for name, times in by.items():
        assert f"| `{name}` | " + " | ".join(map(ms, times)) + " |" in said
    assert f"in CC by {by['apps/cc'][2] / by['apps/cc'][1] - 1:.0%}" in said
    taken = [case for case in found if case["axes"].get("queues")]
    assert len(taken) == 6 and len({case["devices"][0]["uuid"] for case in taken}) == 1
    assert {fields.metrics(case)["fetches"]["median"] for case in taken} == {4194304}  # 17.2 GB in pages of 4 KiB


def test_proxies():
    said = section("paging.md", "Who brings a page")
    large, small = (
        [median(records("h100/paging"), "rate", transport="proxy", page=page, queues=queues) / 1e9
         for queues in (1, 4, 16)]
        for page in (65536, 4096)
    )  # fmt: skip
    assert "carries {:.1f}, {:.1f} and {:.1f} GB/s in pages of 64 KiB".format(*large) in said
    assert "rates are {:.2f}, {:.2f} and {:.2f}: a page then takes".format(*small) in said
    assert f"takes {4.096 / small[2]:.1f} µs" in said


def test_graphs_larger_than_a_copy_is_worth():
    said, found = section("paging.md", "When not to use it"), records("h100/graphs")
    names = ("apps/bfs", "apps/cc", "apps/sssp")
    for placement, what, own in (("paged", ", room for all", {"frames": 100}), ("mapped", ": read in place", {})):
        times = [median(found, "kernel", workload=name, placement=placement, scale=27, **own) for name in names]
        assert f"| `{placement}`{what} | " + " | ".join(map(ms, times)) + " |" in said
    managed = [
        median(found, name, workload=workload, placement="managed_demand")
        for workload, name in (("apps/cc", "kernel"), ("apps/sssp", "first_kernel"))
    ]
    assert f"| – | {managed[0]:.2f} s | {managed[1]:.2f} s, the first pass |" in said

    def time(graph, program, placement):
        of = [case for case in records("h200/graphs") if case["axes"]["graph"] == graph and case["axes"]["scale"] == 27]
        of = [case for case in of if case["workload"] == f"apps/{program}" and case["placement"] == placement]
        return median(of, "kernel") if of else None

    for graph in ("kronecker", "friendster-like", "moliere-like"):
        times = [
            [time(graph, program, way) for way in ("paged", "managed_demand")] for program in ("bfs", "cc", "sssp")
        ]
        row = (f"{ms(paged)}, {f'{demand:.2f} s' if demand else '–'}" for paged, demand in times)
        assert f"| `{graph}` | {' | '.join(row)} |" in said
    advised = [time("kronecker", program, "managed_advise") for program in ("bfs", "sssp")]
    assert f"of the Kronecker graph take {advised[0]:.2f} s and {advised[1]:.2f} s." in said
    less = (median(found, "kernel", workload="apps/cc", placement="paged", frames=frames) for frames in (50, 25))
    assert "cc takes {} with room for half and {} with room for a quarter".format(*map(ms, less)) in said
    half, quarter = ({"workload": "apps/bfs", "placement": "paged", "frames": frames} for frames in (50, 25))
    fetched, optimal = (median(found, name, **half) for name in ("fetches", "optimal_fetches"))
    assert f"With room for half, bfs takes {ms(median(found, 'kernel', **half))}" in said
    assert f"it fetches {4096 * fetched / 1e9:.1f} GB, {fetched / optimal:.2f} times as much" in said
    bytes_of_quarter = median(found, "fetched", **quarter) / 1e9
    assert f"takes {ms(median(found, 'kernel', **quarter))} and fetches {bytes_of_quarter:.1f} GB" in said
    packed = median(found, "kernel", edges="packed")
    whole = {"edges": "all", "placement": "pinned", "scale": 26}
    copied, kernel = (median(found, name, **whole) * 1e3 for name in ("in", "kernel"))
    assert (
        f"takes {ms(packed)} at scale 26. Copying all edges takes {copied:.0f} ms there, and the kernels {kernel:.0f}"
        in said
    )
    found = records("h100/programs")
    points = {"workload": "apps/kmeans"}
    paged, half = (median(found, "kernel", page=4096, frames=frames, **points) for frames in (100, 50))
    copied = sum(median(found, name, placement="pinned", **points) for name in ("in", "kernel"))
    others = [median(found, "kernel", placement=name, **points) * 1e3 for name in ("mapped", "managed_demand")]
    assert (
        f"It takes {ms(paged)} paged with room for all, {copied * 1e3:.1f} copied, {others[0]:.0f} read in place, and"
        f" {others[1]:.0f} with the driver's page faults" in said
    )
    assert f"and takes {half * 1e3:.0f} ms" in said
