"""Tests of checks with several ranks: where they run, and that as many ranks measured as were started."""

import pytest

from isthmus_reframe import catalogue

CHECKS = "mpi_transfer.py"
SEND = "MpiTransfer.*gpu-gpu/send%size=tiny"
GPU = {"features": ["gpu", "cuda"]}
AWARE = {"features": ["gpu", "cuda", "gpu_aware_mpi"]}
WORKLOADS = [w for w in catalogue.load()["workloads"] if w["name"].startswith("mpi/")]


@pytest.fixture
def ranks(session):
    """Returns a function that runs a session in an environment with MPI."""

    def run(*options, fake="ranks:2", site=None, select=SEND):
        return session(*options, fake=fake, site=site or {}, programming=["mpi"], select=select)

    return run


def test_smoke_has_every_workload_once(ranks):
    lines = [line for line in ranks("-l", "-t", "smoke", select="MpiTransfer").output.splitlines() if "- Mpi" in line]
    assert {line.split("%workload=")[1].split()[0] for line in lines} == {
        w["name"].removeprefix("mpi/") for w in WORKLOADS
    }
    assert all("%size=tiny" in line for line in lines) and len(lines) == len(WORKLOADS)


def test_without_mpi_there_is_none(session):
    assert "- MpiTransfer" not in session("-l", select="MpiTransfer", site=GPU).output


def test_each_metric_has_its_variable(ranks):
    outcome = ranks()
    assert outcome.green
    assert "P: latency: 0.25 s" in outcome.output and "P: rate: 0.25 s" in outcome.output


def test_ranks_are_chosen(ranks):
    assert ranks("-r", "-S", "ranks=2", "-S", "nodes=2", fake="ranks:4").green


@pytest.mark.parametrize(
    "fake, why",
    [
        ("", "the record is of 1 ranks, but 2 were started"),
        ("ranks:4", "the record is of 4 ranks, but 2 were started"),
        ("ranks:2,missing_metric:rate", "lacks the metric 'rate'"),
        ("ranks:2,wrong_result", "element 3 is 7, expected 8"),
        ("ranks:2,rank_twice", "ranks 0 and 1 are both bound to processor 0 of "),
        ("ranks:2,unbound", "ranks 0 and 1 are both bound to processor 0 of "),
        ("ranks:2,one_gpu,gpu:cuda", "ranks 0 and 1 are both bound to GPU GPU-0 of "),
    ],
)
def test_red(ranks, fake, why):
    outcome = ranks(fake=fake)
    assert not outcome.green
    assert why in outcome.output


def test_a_rank_that_the_record_leaves_out_is_red(ranks):
    outcome = ranks("-r", "-S", "ranks=2", "-S", "nodes=2", fake="ranks:4,rank_lost")
    assert not outcome.green and "the record has 3 ranks, but 4 ran: one is lost" in outcome.output


def test_a_program_without_mpi_that_was_given_is_a_skip(session, tmp_path):
    """Passes a program without MPI through ISTHMUS_BENCH, which is a skip, not an error."""
    program = tmp_path / "isthmus-bench"
    said = (
        "isthmus-bench: 2 ranks of a build without MPI were started, which would all write the same records; start one"
    )
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 2\n")
    program.chmod(0o755)
    asked = {"site": {}, "programming": ["mpi"], "select": SEND, "ISTHMUS_BENCH": program}
    outcome = session("-r", "-S", "may_skip_all=yes", **asked)
    assert outcome.green and f"{program} is built without MPI; build it with scripts/build --mpi" in outcome.output
    program.write_text("#!/bin/sh\necho 'isthmus-bench: another fault' >&2\nexit 2\n")
    assert not session("-r", "-S", "may_skip_all=yes", **asked).green


def test_a_skip_is_red_only_where_mpi_is_stated_to_take_gpu_memory(ranks):
    fake = "ranks:2,gpu:cuda,skip:unsupported"
    may = ("-r", "-S", "may_skip_all=yes")
    outcome = ranks(*may, fake=fake, site=GPU)
    assert outcome.green and "SKIP" in outcome.output
    outcome = ranks(fake=fake, site=AWARE)
    assert not outcome.green
    assert "states gpu_aware_mpi" in outcome.output
    assert ranks(*may, fake=fake, site=AWARE, select="MpiTransfer.*host-host/send%size=tiny").green
