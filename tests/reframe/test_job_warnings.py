"""Tests that warnings which the program prints in its job appear once in the session's output."""

import re

import pytest

from conftest import ROOT
from isthmus_reframe.gates import job_warnings

CHECKS = "transfer_modes.py"
FAKE = "mutters:nothing-reads-X;-unset-it"


def test_a_warning_of_a_green_check_is_shown(session):
    outcome = session(fake=FAKE)
    assert outcome.green
    assert "isthmus-bench: nothing reads X; unset it (from the job of TransferModes" in outcome.output


def test_a_warning_of_several_is_shown_once(session):
    outcome = session(fake=FAKE, select="TransferModes.*saxpy.*mode=(pm|uvm)%.*tiny")
    assert outcome.green and outcome.output.count("nothing reads X") == 1 and " and 1 more)" in outcome.output


def test_the_reason_of_a_red_check_is_said_once(session):
    outcome = session(fake=f"{FAKE},exit:7")
    assert not outcome.green and "WARNING: isthmus-bench: nothing reads X" not in outcome.output
    assert "exit code 7 (isthmus-bench: nothing reads X; unset it)" in outcome.output


def test_a_variable_that_a_job_alone_gets_is_named(session, tmp_path):
    """Sets a variable in a script that prepare_cmds sources, so that no configuration file shows it."""
    (tmp_path / "set.sh").write_text("echo 'isthmus-bench: nothing reads the environment variable ISTHMUS_X' >&2\n")
    outcome = session(site={"prepare_cmds": [f". {tmp_path}/set.sh"]})
    assert outcome.green and "nothing reads the environment variable ISTHMUS_X (from" in outcome.output


def test_a_bundle_shows_what_its_programs_say(session):
    options = ("-r", "-S", "checks=smoke transfer-modes")
    outcome = session(*options, fake=FAKE, checks=ROOT / "reframe/bundles", select="NodeBundle")
    assert "nothing reads X; unset it (from the job of" in outcome.output


def test_what_is_not_read_of_a_long_output_is_said(session):
    outcome = session(fake="shouts:4", select="TransferModes.*saxpy.*mode=(pm|uvm)%.*tiny")
    assert outcome.green
    assert "isthmus-bench: the first (from" in outcome.output and "isthmus-bench: the third (from" in outcome.output
    assert "the second" not in outcome.output
    assert outcome.output.count("warnings may be missing: the job of TransferModes") == 1
    assert re.search(r" and 1 more wrote rfm_job.err, of which 2 MiB in the middle were not read", outcome.output)


def test_a_reason_in_a_long_output_is_found_and_what_was_not_read_is_said(session, tmp_path):
    outcome = session(fake="shouts:4,exit:7")
    assert not outcome.green and "exit code 7 (isthmus-bench: the third); see rfm_job.err in" in outcome.output
    assert ", of which 2 MiB in the middle were not read" in outcome.output


@pytest.mark.parametrize("line", [
    "isthmus-bench: [3/7] microbench/saxpy, about 1 s left",
    "isthmus-bench: paging/copies: skipped: no GPU",
    "isthmus-bench: axis node has no effect on 2 of 9 workloads, which do not have it",
    "detect-backend: cuda: an NVIDIA GPU and nvcc",
    "detect-backend: host, because ISTHMUS_BACKEND is set",
    "srun: job 7 queued", "isthmus-bench:",
])  # fmt: skip
def test_what_is_no_warning(line):
    assert job_warnings._warnings_in(line) == []


@pytest.mark.parametrize("line", [
    "isthmus-bench: the memory of this node is unknown",
    "0: isthmus-bench: the memory of this node is unknown",
    "detect-architectures: nvidia-smi ends with exit code 18 (mismatch)",
    "detect-backend: nvidia-smi ends with exit code 18 (mismatch)",
])  # fmt: skip
def test_what_is_a_warning(line):
    assert job_warnings._warnings_in(f"a\n{line}\n") == [line.removeprefix("0: ")]
