"""Tests of sessions of the yardsticks with fakes of the other programs: only agreement is green."""

import os

import pytest

from conftest import ROOT
from isthmus_reframe import yardsticks

YARDSTICKS = ROOT / "reframe/yardsticks"
SITE = {"features": ["gpu", "cuda"]}
NVBANDWIDTH = """#!/bin/sh
[ -z "$(cat {state} 2>/dev/null)" ] && value={before} || value={after}
echo ran >> {state}
cat <<END
{{"nvbandwidth": {{"testcases": [
  {{"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["$value"]]}},
  {{"name": "device_to_host_memcpy_ce", "status": "{status}", "bandwidth_matrix": [["$value"]]}}]}}}}
END
"""
QUARTER = "2.5e-10"  # rate in GB/s that equals the fake program's rate of 0.25 B/s


@pytest.fixture
def yardstick(session, tmp_path):
    def run(*, before=QUARTER, after=QUARTER, status="Passed", there=True, fake="gpu:cuda"):
        tools = tmp_path / "tools"
        tools.mkdir()
        if there:
            script = NVBANDWIDTH.format(before=before, after=after, status=status, state=tmp_path / "state")
            (tools / "nvbandwidth").write_text(script)
            (tools / "nvbandwidth").chmod(0o755)
        return session("-r", checks=YARDSTICKS, select="Yardstick.*nvbandwidth", site=SITE, fake=fake,
                       ISTHMUS_RESULTS=tmp_path / "results", PATH=f"{tools}:{os.environ['PATH']}")  # fmt: skip

    return run


@pytest.mark.parametrize(
    "settings, why",
    [
        ({}, None),
        ({"before": "2.501e-10"}, None),
        ({"before": "2.6e-10", "after": "2.6e-10"}, "3.8% apart, but only 1% is allowed"),
        ({"after": "2.6e-10"}, "does not agree with itself"),
        ({"status": "Waived"}, "nvbandwidth gives no figure for device_to_host_memcpy_ce: Waived"),
        ({"there": False}, "nvbandwidth did not run: load environments/yardsticks first"),
        ({"fake": "gpu:cuda,missing_metric:rate"}, "the record lacks the metric 'rate'"),
        ({"fake": "gpu:cuda,skip:unsupported"}, "states cuda, gpu"),
    ],
)
def test_figures_that_agree_are_green_and_nothing_else(yardstick, settings, why):
    outcome = yardstick(**settings)
    assert outcome.green == (why is None)
    assert why is None or why in outcome.output


def test_an_output_that_nobody_could_read_is_red(yardstick):
    outcome = yardstick(before="$(yes | head -c 20000000)")
    assert not outcome.green and "nvbandwidth wrote output that is larger than 16 MiB, the limit" in outcome.output
    with pytest.raises(yardsticks.YardstickError, match="printed no JSON"):
        yardsticks.nvbandwidth('{"nvbandwidth": ' + "[" * 100_000)


@pytest.mark.parametrize("after", [QUARTER, "2.6e-10"])
def test_what_theirs_printed_is_kept_beside_our_record(yardstick, tmp_path, after):
    """Checks that the outputs of the other program are kept in red and green sessions, so that the figures can be
    compared later."""
    yardstick(after=after)
    [record] = (tmp_path / "results").glob("*.jsonl")
    for place, value in (("before", QUARTER), ("after", after)):
        printed = record.with_suffix(f".theirs-{place}.out").read_text(encoding="utf-8")
        assert yardsticks.nvbandwidth(printed)["host_to_device_memcpy_ce"] == pytest.approx(float(value) * 1e9)


def test_ranks_of_theirs_are_started_as_ours(session, tmp_path):
    site = {"devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 2}], "features": ["gpu", "cuda"],
            "scheduler": "squeue", "launcher": "srun"}  # fmt: skip
    outcome = session("--dry-run", checks=YARDSTICKS, select="Yardstick", site=site, programming=["mpi"])
    assert outcome.green
    scripts = {path.read_text() for path in tmp_path.glob("stage/s/p/builtin/Yardstick*/rfm_job.sh")}
    [osu] = [text for text in scripts if "osu_bw" in text]
    assert osu.count("srun osu_bw -d cuda") == 2 and "srun " in osu and "mpi/gpu-gpu/send --set bytes=4194304" in osu
    assert osu.index("echo $? > exit_code") < osu.rindex("osu_bw")
    assert len(scripts) == 3
