"""Tests of --max-retries: failed tries are named, and a retry does not hide a wrong result."""

import json

CHECKS = "transfer_modes.py"
TWO = "TransferModes.*(saxpy|gemm).*mode=pm%.*tiny"


def test_a_wrong_result_is_not_tried_again(session, tmp_path):
    once = f"first_try:{tmp_path}/once"
    outcome = session("-r", "--max-retries=1", f"--report-file={tmp_path}/r.json", fake=f"{once},wrong_result")
    assert outcome.returncode == 1 and "Retrying" not in outcome.output
    assert "wrong result (fail, fake): element 3 is 7, expected 8" in outcome.output
    [run] = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert [case["result"] for case in run["testcases"]] == ["fail"]


def test_a_wrong_result_stays_where_others_are_tried_again(session, tmp_path):
    """Retries another check after a wrong result. ReFrame's exit code depends only on failures in the last run."""
    fake = f"first_try:{tmp_path}/once@microbench/saxpy,wrong_result@microbench/gemm,exit:7@microbench/saxpy"
    outcome = session("-r", "--max-retries=1", "--exec-policy=serial", select=TWO, fake=fake)
    assert outcome.returncode == 1 and "Retrying 1 failed check(s)" in outcome.output
    assert "try 1 of TransferModes %workload=saxpy %mode=pm %size=tiny failed (" in outcome.output
    assert "a wrong result is final and is not retried: TransferModes %workload=gemm" in outcome.output


def test_a_try_that_failed_otherwise_is_named(session, tmp_path):
    outcome = session("-r", "--max-retries=1", fake=f"first_try:{tmp_path}/once,exit:7")
    assert outcome.returncode == 0
    assert "exit code 7" in outcome.output and "; the last one passed" in outcome.output
    assert "try 1 of TransferModes %workload=saxpy %mode=pm %size=tiny failed (" in outcome.output


def test_what_was_told_to_end_is_interrupted(session):
    outcome = session(fake="interrupted")
    assert outcome.returncode == 1
    assert "Interrupted, not failed: 1 check (TransferModes %workload=saxpy" in outcome.output
