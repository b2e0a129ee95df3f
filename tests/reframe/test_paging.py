"""Tests of the checks of GPU-driven paging: every point has figures and counts, and wrong or missing ones are red."""

import json
import pathlib

import pytest

from isthmus.records import load
from isthmus_reframe import catalogue

CHECKS = "paging.py"
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "reframe/checks"
PROGRAM = {"select": "PagedApplication.*=va.*tiny", "checks": FOLDER / "applications.py"}
GPU = {"features": ["gpu", "cuda"]}
PROGRAMS = {"va", "mvt", "atax", "bicg", "bfs", "cc", "sssp", "query", "kmeans"}
OF_PAPER = PROGRAMS - {"kmeans"}  # programs that the GPUVM paper measures
RANDOM, SWEEP = {"select": "Paging.*random.*tiny"}, {"select": "Paging.*sweep.*tiny"}
PATTERN = {"select": "Paging.*pattern.*tiny"}


def listed(session, *options, **site):
    """Returns the tuple (check, workload, size) of each listed check."""
    lines = session("-l", "-t", "paging", *options, select=None, checks=FOLDER, **site).output.splitlines()
    words = [line.split() for line in lines if line.startswith("- ")]
    return [(each[1], each[2].partition("=")[2], each[3].partition("=")[2]) for each in words]


def kept(tmp_path):
    return [case for path in (tmp_path / "results").iterdir() for case in load.read(path)]


def test_smoke_has_all_workloads_and_every_program_that_pages(session):
    with_pages = {w["name"] for w in catalogue.load()["workloads"] if "paged" in w["placements"]}
    assert with_pages == {f"apps/{name}" for name in PROGRAMS}
    wanted = {
        *(("Paging", name) for name in ("copies", "pattern", "random", "sweep")),
        *(("PagedApplication", name) for name in PROGRAMS),
    }
    assert set(listed(session, "-t", "smoke")) == {(*each, "tiny") for each in wanted}
    on_gpu = listed(session, "-t", "default", site=GPU)
    assert set(on_gpu) == {(*each, "large") for each in wanted}


def test_without_a_gpu_only_the_smallest_size_teaches_anything(session):
    assert {size for _, _, size in listed(session)} == {"tiny"}
    assert {size for _, _, size in listed(session, site=GPU)} == set(catalogue.load()["sizes"])


def test_the_programs_that_page_are_of_their_paper(session):
    assert {name for _, name, _ in listed(session, "-t", "gpuvm", "-t", "smoke")} == OF_PAPER


def test_pages_in_random_order_have_a_rate_each_and_counts(session, tmp_path):
    outcome = session(select="Paging.*random.*large", fake="gpu:cuda", site=GPU)
    assert outcome.green
    for page in (4096, 65536):
        for frames in (25, 100):
            for access in ("read", "write"):
                assert f"P: rate/page={page}/frames={frames}/access={access}: 0.25" in outcome.output
    assert "P: evictions" not in outcome.output  # only in the record
    assert len(kept(tmp_path)) == 8


def test_a_sweep_has_every_way_beside_the_pointer(session, tmp_path):
    outcome = session(**SWEEP)
    assert outcome.green
    for way in ("pointer", "window", "read_only_window", "reader", "read_only_reader", "element", "read_only_element"):
        assert f"P: time/through={way}/page=4096: 0.25 s" in outcome.output
    assert len(kept(tmp_path)) == 7


def test_a_pattern_has_every_way(session, tmp_path):
    outcome = session(**PATTERN)
    assert outcome.green
    for way in ("copy", "streamed", "mapped", "managed", "paged"):
        assert f"P: time/way={way}/page=4096: 0.25 s" in outcome.output
    assert len(kept(tmp_path)) == 5


def test_a_program_pages_with_room_for_all_and_for_a_quarter(session, tmp_path):
    outcome = session(**PROGRAM)
    assert outcome.green
    assert {(case["placement"], case["staging"]) for case in kept(tmp_path)} == {("paged", "none")}
    for frames in (100, 25):
        assert f"P: kernel/page=4096/frames={frames}: 0.25 s" in outcome.output
        assert f"P: fetched/page=4096/frames={frames}: 0.25 B" in outcome.output


@pytest.mark.parametrize(
    "check, fake, why",
    [
        (RANDOM, "wrong_result", "wrong result"),
        (SWEEP, "wrong_result_exit_0", "wrong result"),
        (PATTERN, "wrong_result", "wrong result"),
        (PROGRAM, "wrong_result", "wrong result"),
        (RANDOM, "missing_point", "3 records where 4"),
        (SWEEP, "missing_point", "6 records where 7"),
        (PATTERN, "missing_point", "4 records where 5"),
        (PATTERN, "missing_metric:useful", "lacks the metric 'useful'"),
        (PROGRAM, "missing_point", "1 records where 2"),
        (RANDOM, "other_axis:page", "page=1 frames=25 access=read, which was not requested"),
        (PROGRAM, "other_axis:page", "page=1 frames=100, which was not requested"),
        (SWEEP, "error", "cudaMalloc: out of memory"),
        (PROGRAM, "exit:1", "exit code 1"),
        (RANDOM, "missing_metric:rate", "lacks the metric 'rate'"),
        (RANDOM, "missing_metric:written_back", "lacks the metric 'written_back'"),
        (RANDOM, "missing_metric:evictions", "lacks the metric 'evictions'"),
        (SWEEP, "missing_metric:time", "lacks the metric 'time'"),
        (PROGRAM, "missing_metric:kernel", "lacks the metric 'kernel'"),
        (PROGRAM, "missing_metric:fetches", "lacks the metric 'fetches'"),
        (PROGRAM, "zero_metric:fetched", "fetched is 0.0 B: nothing was moved"),
        (PROGRAM, "other_way:placement", "the record's placement is 'pageable', but 'paged' was requested"),
    ],
)
def test_red(session, check, fake, why):
    outcome = session(**check, fake=fake)
    assert not outcome.green
    assert why in outcome.output


def test_a_pattern_by_a_rival_has_no_counts_of_paging(session):
    assert session(**PATTERN, fake="missing_metric:fetches").green


def test_nothing_evicted_or_written_back_is_no_fault(session):
    assert session(**RANDOM, fake="zero_metric:evictions").green
    assert session(**RANDOM, fake="zero_metric:written_back").green


@pytest.mark.parametrize(
    "check, stated, why", [(RANDOM, [], "mapped"), (PROGRAM, ["paged"], "paged")], ids=["no GPU lacks it", "stated"]
)
def test_what_a_site_states_may_not_be_skipped(session, check, stated, why):
    site = {"features": ["gpu", "cuda", *stated]}
    outcome = session(**check, fake="gpu:cuda,skip_point:unsupported", site=site)
    assert not outcome.green
    assert f"skipped (this device cannot), but s:p states {why}" in outcome.output


def test_what_it_does_not_state_may(session):
    assert session(**PROGRAM, fake="gpu:cuda,skip_point:unsupported", site=GPU).green


def test_a_reference_holds_at_its_page_and_frames(session):
    axes = json.dumps({"page": 4096, "frames": 25, "access": "read"})
    references = f"- {{workload: paging/random, axes: {axes}, metrics: {{rate: [0.25, -0.1, 0.1, s]}}}}\n"
    assert session(**RANDOM, fake="gpu:cuda", site=GPU, references=references).green
    outcome = session(**RANDOM, fake="gpu:cuda,slow", site=GPU, references=references)
    assert not outcome.green
    assert "rate/page=4096/frames=25/access=read=0.5 s, expected 0.25" in outcome.output
