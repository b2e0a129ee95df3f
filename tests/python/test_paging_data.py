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
    assert len(here) == 2 and "all programs but two of H200 hosts" in said


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
