"""Tests of sessions without faults: a site's nightly runs, with both of ReFrame's schedulers for Slurm."""

import pytest

from conftest import FAKE, HOST, NODES, RANKED, needs

ONE = "TransferModes%workload=saxpy%mode=pm%size=tiny"
SEND = "MpiTransfer%workload=host-host/send%size=tiny"
GPUS = {
    "features": ["gpu", "cuda"],
    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 2}],
}


def test_smoke_session_is_green_and_keeps_every_record(start, scheduler):
    bench = HOST if HOST.exists() else FAKE
    session = start("-t", "smoke", "-n", "TransferModes%workload=saxpy", bench=bench, site={"scheduler": scheduler})
    assert session.finish().green
    assert len(session.records) == 6
    for record in session.records:
        run = record["run"]
        assert (run["system"], run["partition"]) == ("example-slurm", "main")
        assert run["node"] in NODES and run["job"]


def test_exit_code_is_red_where_the_scheduler_loses_it(start, scheduler):
    session = start("-n", ONE, fake="exit:7", site={"scheduler": scheduler}).finish()
    assert not session.green
    assert "ended with exit code 7" in session.reasons[0]
    assert len(session.records) == 1


def test_array_of_nodes(start, scheduler):
    """Runs the same check on all nodes at the same time."""
    session = start("-n", ONE, "--distribute=all", site={"scheduler": scheduler}).finish()
    assert session.green
    assert sorted(record["run"]["node"] for record in session.records) == NODES


def test_gpus_are_asked_for_and_granted(start):
    session = start("-n", "Memory%family=stream%size=tiny", fake="gpu:cuda,sees:2", site=GPUS).finish()
    assert session.green
    assert {record["run"]["allocation"]["gpus"] for record in session.records} == {2}


def test_more_gpus_than_a_node_has_are_refused_in_a_sentence(start):
    devices = [{"type": "gpu", "arch": "sm_90", "num_devices": 3}]
    session = start("-n", "Memory%family=stream%size=tiny", site=GPUS | {"devices": devices}).finish()
    assert not session.green
    assert "Requested node configuration is not available" in session.output


def test_fewer_gpus_than_asked_for_are_red(start):
    site = GPUS | {"resources": [{"name": "gpu", "options": ["--gpus-per-node=1"]}]}
    session = start("-n", "Memory%family=stream%size=tiny", fake="gpu:cuda,sees:2", site=site).finish()
    assert not session.green
    assert any("granted 1 GPUs" in reason and "but 2 were requested" in reason for reason in session.reasons)


@needs(RANKED)
def test_what_was_granted_is_in_the_record(start):
    access = ["--partition=main", "--account=site", "--qos=benchmark", "--exclusive"]
    session = start("-n", ONE, bench=RANKED, site={"access": access}).finish()
    assert session.green
    [record] = session.records
    node = record["run"]["node"]
    assert record["run"]["allocation"] == {
        "account": "site", "partition": "main", "qos": "benchmark", "reservation": None, "nodes": node,
        "node_count": 1, "cpus": 2, "gpus": None, "exclusive": True,
    }  # fmt: skip


@needs(RANKED)
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_ranks_are_bound_to_cores_of_their_own(start, launcher):
    select = ["-n", SEND, "-n", "MpiTransfer%workload=pinned-gpus/ce%size=tiny"]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
    session = start(*select, bench=RANKED, site={"launcher": launcher}, **as_root).finish()
    assert session.green and len(session.records) == 2
    for record in session.records:
        ranks = record["ranks"]["each"]
        assert [rank["local_rank"] for rank in ranks] == [0, 1]
        assert {rank["cpus"] for rank in ranks} == {"0", "1"}
        assert {rank["node"] for rank in ranks} == {record["run"]["node"]}


@needs(RANKED)
def test_ranks_that_share_a_core_are_red(start):
    session = start("-n", SEND, "--disable-hook=bind_ranks", bench=RANKED,
                    site={"env_vars": [["SLURM_MPI_TYPE", "pmix"], ["SLURM_CPU_BIND", "none"]]}).finish()  # fmt: skip
    assert not session.green
    assert "ranks 0 and 1 are both bound to processor 0 of node" in session.reasons[0]


@needs(RANKED)
def test_ranks_on_two_nodes(start):
    # Both nodes are one machine, so Open MPI must be kept from using shared memory between the ranks.
    apart = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_pml": "ob1"}
    session = start("-n", SEND, "-S", "nodes=2", bench=RANKED, **apart).finish()
    assert session.green
    [record] = session.records
    assert len({rank["node"] for rank in record["ranks"]["each"]}) == 2


def test_a_job_for_each_node_measures_several_checks(start, scheduler):
    """Runs what a site runs every night: one job on each node, and one job that lists the workloads."""
    bench = HOST if HOST.exists() else FAKE
    session = start("-n", "NodeBundle", "-S", "checks=modes tiny saxpy,stream tiny", "--distribute=all", bench=bench,
                    checks="reframe/bundles", site={"scheduler": scheduler}).finish()  # fmt: skip
    assert session.green
    jobs = {}
    for record in session.records:
        jobs.setdefault(record["run"]["node"], set()).add(record["run"]["job"])
    assert sorted(jobs) == NODES
    assert all(len(of_node) == 1 for of_node in jobs.values())
    modes = [(record["run"]["node"], record["mode"]) for record in session.records if record["mode"]]
    assert len(modes) == len(set(modes)) == 4 * 6
    assert any(record["workload"].startswith("stream/") for record in session.records)


@needs(RANKED)
def test_ranks_in_a_bundle(start):
    session = start("-n", "RanksBundle", "-S", "checks=mpi tiny send", bench=RANKED, checks="reframe/bundles").finish()
    assert session.green
    assert len({record["run"]["job"] for record in session.records}) == 1
    assert all(record["ranks"]["count"] == 2 for record in session.records)
