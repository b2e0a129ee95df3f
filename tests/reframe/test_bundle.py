"""Tests of bundles: several checks in one job, each of which passes or fails as if it had run alone."""

import json

import pytest

from conftest import ROOT

BUNDLES = ROOT / "reframe/bundles"
SAXPY = "modes tiny saxpy"
GPU = {"features": ["gpu", "cuda"]}


@pytest.fixture
def bundle(session):
    """Returns a function that runs a session with one bundle of the given selections."""

    def run(*options, selections=SAXPY, select="NodeBundle", action="-r", **settings):
        return session(action, "-S", f"checks={selections}", *options, checks=BUNDLES, select=select, **settings)

    return run


def records_in(folder):
    return [json.loads(path.read_text()) for path in (folder / "results").glob("*.jsonl")]


def test_every_check_leaves_its_record_and_its_figures(bundle, tmp_path):
    outcome = bundle()
    assert outcome.green
    modes = ["async", "baseline", "pm", "pm_async", "uvm", "uvm_async"]
    assert sorted(record["mode"] for record in records_in(tmp_path)) == modes
    for mode in modes:
        assert f"P: microbench/saxpy-{mode}-tiny/kernel: 0.25 s" in outcome.output


def test_selections_add_up_and_no_check_is_run_twice(bundle, tmp_path):
    assert bundle(selections="modes tiny saxpy pm,modes tiny saxpy pm,modes tiny gemm pm").green
    assert sorted(record["workload"] for record in records_in(tmp_path)) == ["microbench/gemm", "microbench/saxpy"]


def test_checks_of_several_values_and_of_listed_workloads(bundle):
    outcome = bundle(selections="driver tiny,memory tiny")
    assert outcome.green
    assert "P: stream-tiny/cpu_triad_rate: 0.25 B/s" in outcome.output


@pytest.mark.parametrize("selections", ["smkoe", "smoke,smkoe", "smoke super", "saxpy ''"])
def test_a_selection_of_nothing_is_red(bundle, selections):
    outcome = bundle(selections=selections)
    assert not outcome.green
    assert "no check has the tags" in outcome.output


@pytest.mark.parametrize(
    "fake, why",
    [
        ("wrong_result@microbench/gemm", "element 3 is 7, expected 8"),
        ("missing_metric:kernel@microbench/gemm", "lacks the metric 'kernel'"),
        ("error@microbench/gemm", "cudaMalloc: out of memory"),
        ("exit:7@microbench/gemm", "ended with exit code 7"),
        ("another:node@microbench/gemm", "the record is of node another"),
        ("another:time@microbench/gemm", "when this job did not run"),
    ],
)
def test_one_bad_check_is_named_and_the_others_are_kept(bundle, tmp_path, fake, why):
    outcome = bundle(fake=fake, selections="modes tiny saxpy,modes tiny gemm pm")
    assert not outcome.green
    [reason] = [line for line in outcome.output.splitlines() if "Reason:" in line]
    assert "1 of 7 checks failed: TransferModes %workload=gemm %mode=pm %size=tiny:" in reason and why in reason
    assert len(records_in(tmp_path)) == 7


def test_a_skip_among_many_is_no_failure_and_all_skipped_is_a_skip(bundle):
    outcome = bundle(fake="skip:memory@microbench/gemm", selections="modes tiny pm saxpy,modes tiny pm gemm")
    assert outcome.green and "SKIP" not in outcome.output
    outcome = bundle(fake="skip:memory")
    assert not outcome.green and "[     SKIP ]" in outcome.output and "nothing was measured" in outcome.output
    assert bundle("-S", "may_skip_all=yes", fake="skip:memory").green


def test_a_check_that_hangs_costs_only_itself(bundle, tmp_path):
    outcome = bundle("-S", "check_seconds=4", fake="hangs:0@microbench/saxpy",
                     selections="modes tiny pm saxpy,modes tiny pm gemm")  # fmt: skip
    assert not outcome.green
    assert "1 of 2 checks failed" in outcome.output and "ran longer than its 4 s" in outcome.output
    assert [record["workload"] for record in records_in(tmp_path)] == ["microbench/gemm"]


def test_what_an_earlier_job_left_passes_for_nothing(bundle, tmp_path):
    options = ("--keep-stage-files", "--dont-restage")
    assert bundle(*options).green
    outcome = bundle(*options, fake="no_record")
    assert not outcome.green and "6 of 6 checks failed" in outcome.output and "no record" in outcome.output
    assert len(records_in(tmp_path)) == 6
    assert bundle(*options).green


def test_references_hold(bundle):
    bound = "- {workload: microbench/saxpy, mode: pm, metrics: {in: [0.1, null, 0.05, s]}}\n"
    outcome = bundle(fake="gpu:cuda", site=GPU, references=bound)
    assert not outcome.green
    assert "microbench/saxpy-pm-tiny/in" in outcome.output


def test_what_is_set_for_all_checks_holds_for_each(bundle, tmp_path):
    assert bundle("-S", "processes=2", selections="modes tiny saxpy pm").green
    [path] = (tmp_path / "results").glob("*.jsonl")
    assert [json.loads(line)["run"]["process"] for line in path.read_text().splitlines()] == [1, 2]


def test_a_stated_gpu_is_wanted_of_each(bundle):
    outcome = bundle(site=GPU)
    assert not outcome.green
    assert "6 of 6 checks failed" in outcome.output and outcome.output.count("the record is emulated") == 1
    assert "TransferModes %workload=saxpy %mode=baseline %size=tiny, " in outcome.output
    assert "and 4 more:" in outcome.output


def test_several_ranks(bundle):
    outcome = bundle(selections="mpi tiny ce", select="RanksBundle", fake="ranks:2", site={}, programming=["mpi"])
    assert outcome.green
    assert "no check of one process" in bundle(selections="mpi tiny ce", site={}, programming=["mpi"]).output
    outcome = bundle(selections="mpi tiny ce", select="RanksBundle", fake="ranks:3", site={}, programming=["mpi"])
    assert not outcome.green and "the record is of 3 ranks, but 2 were started" in outcome.output


def test_dry_run(bundle, tmp_path):
    assert bundle(action="--dry-run", selections="smoke").green
    assert not (tmp_path / "results").exists()
