"""Tests of checks that measure many pairs in one run: each pair is checked by itself and must be present."""

import fnmatch

import pytest

import fake_bench
from isthmus.records import load
from isthmus_reframe.families.transfer_pairs import FAMILY, PAIRS, needs

CHECKS = "transfer.py"
TO_GPU = "Transfer.*=host-to-gpu.*tiny"
ALL_SIZES = "Transfer.*=host-to-gpu.*default"
MATRIX = "Transfer.*=gpu-gpu%.*tiny"
GPU = {"features": ["gpu", "cuda"]}
TWO = {"devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 2}]}
TWO_PEERS = {**TWO, "features": ["peer"]}
PINNED = "transfer/pinned-gpu0/ce"
BACK = "transfer/gpu1-gpu0/ce"


def listed(outcome):
    lines = [line for line in outcome.output.splitlines() if line.startswith("- Transfer ")]
    return {tuple(word.partition("=")[2] for word in line.split()[2:4]) for line in lines}


# --- listed checks ---


def test_every_pair_is_in_one_class():
    for name in fake_bench.transfers(gpus=3, nodes=2):
        classes = [c for c, pairs in PAIRS.items() if any(fnmatch.fnmatch(name, FAMILY + p) for p in pairs.patterns)]
        assert len(classes) == 1, name


@pytest.mark.parametrize(
    "name, needed",
    [
        ("pinned-gpu0/ce", {"pinned", "gpu"}),
        ("gpu10-managed/discard", {"managed", "gpu", "discard"}),
        ("pageable-gpu0/fault-duplex", {"system", "gpu"}),
        ("gpu0-pageable/fault-latency", {"system", "gpu"}),
        ("pageable-gpu0/ce-duplex", {"pageable", "gpu"}),
        ("pageable-pageable/runtime", {"pageable"}),
        ("gpu0-gpu0/ce", {"gpu"}),
        ("gpu0-gpu1/ce-batch", {"gpu", "peer", "ce-batch"}),
        ("all-all/sm-read", {"gpu", "peer"}),
        ("node0-node1/cpu", {"numa"}),
    ],
)
def test_what_a_pair_needs(name, needed):
    assert needs(FAMILY + name) == needed


def test_on_a_machine_without_gpu(session):
    checks = listed(session("-l", select="Transfer"))
    assert {size for pairs, size in checks if pairs != "host-to-host"} == {"tiny"}
    assert {size for pairs, size in checks if pairs == "host-to-host"} == {"tiny", "default", "sweep"}
    assert not {"gpu-gpu-copies", "groups"} & {pairs for pairs, _ in checks}


@pytest.mark.parametrize(
    "site, classes", [(GPU, 12), (TWO, 16), ({"features": ["gpu", "cuda", "peer"]}, 16)], ids=["one", "two", "peer"]
)
def test_pairs_of_gpus_where_several_are_stated(session, site, classes):
    for size in ("smoke", "default", "sweep"):
        assert len(listed(session("-l", "-t", size, select="Transfer", site=site))) == classes


# --- requests and figures ---


def test_each_pair_has_a_variable(session, tmp_path):
    outcome = session(select=TO_GPU)
    assert outcome.green
    for memory in ("pageable", "pinned", "registered", "write_combined", "managed"):
        assert f"P: {memory}_gpu0_ce_rate: 0.25 B/s" in outcome.output
    [kept] = (tmp_path / "results").iterdir()
    assert "transfer_host-to-gpu-tiny" in kept.name
    assert len(load.read(kept)) == 5


def test_a_matrix_has_every_pair(session):
    outcome = session(select=MATRIX, fake="gpu:cuda,sees:2", site=TWO_PEERS)
    assert outcome.green
    for pair in ("gpu0_gpu0", "gpu0_gpu1", "gpu1_gpu0", "gpu1_gpu1"):
        assert f"P: {pair}_ce_rate:" in outcome.output and f"P: {pair}_sm_read_rate:" in outcome.output


@pytest.mark.parametrize("size, cases", [("default", 10), ("sweep", 15)])
def test_of_many_sizes_the_largest_is_shown(session, tmp_path, size, cases):
    outcome = session(select=f"Transfer.*=host-to-gpu.*{size}", fake="gpu:cuda", site=GPU)
    assert outcome.green
    assert outcome.output.count("P: pinned_gpu0_ce_rate:") == 1 and "bytes" not in outcome.output
    [kept] = (tmp_path / "results").iterdir()
    assert len(load.read(kept)) == cases


def test_a_latency_is_shown_as_one(session):
    assert "P: mapped_gpu0_chase_latency: 0.25 s" in session(select="Transfer.*=latency.*tiny").output


def test_each_node_where_several_are_stated(session):
    outcome = session(select=TO_GPU, fake="nodes:2", site={"features": ["numa"]})
    assert outcome.green
    assert "P: pinned_gpu0_ce_node0_rate:" in outcome.output and "P: pinned_gpu0_ce_node1_rate:" in outcome.output


def test_as_many_gpus_are_asked_for_as_stated(session, tmp_path):
    site = {**TWO, "resources": [{"name": "gpu", "options": ["#GPUS {num_gpus_per_node}"]}], "scheduler": "squeue"}
    session("--dry-run", select=TO_GPU, site=site)
    [script] = tmp_path.glob("stage/**/Transfer_*/rfm_job.sh")
    assert "#GPUS 2" in script.read_text()


def test_processes_are_counted_at_each_pair(session):
    assert session("-r", "-S", "processes=2", select=TO_GPU).green


# --- red checks, and their pairs ---


@pytest.mark.parametrize(
    "fake, why",
    [
        ("wrong_result", "wrong result"),
        ("wrong_result_exit_0", "wrong result"),
        ("error", "failed: cudaMalloc: out of memory"),
        ("missing_metric:rate", "the record lacks the metric 'rate'"),
        ("missing_metric:time", "the record lacks the metric 'time'"),
        ("null_metric:rate", "rate: every sample is invalid"),
        ("zero_metric:rate", "rate is 0.0 B/s"),
        ("beyond_limit:rate", "rate is 200% of what PCIe 5 x16 allows"),
        ("other_case", "the record's size is 'small'"),
        ("skip:unsupported", "skipped (this device cannot), but s:p states gpu, peer"),
    ],
)
def test_one_bad_pair_of_many_is_red_and_named(session, fake, why):
    outcome = session(select=MATRIX, fake=f"gpu:cuda,sees:2,{fake}@{BACK}", site=TWO_PEERS)
    assert not outcome.green
    assert f"{BACK}: {why}" in outcome.output


@pytest.mark.parametrize(
    "fake, why",
    [
        (f"missing_case@{BACK}", f"7 records where 8 were requested, 0 of {BACK}"),
        ("extra_record", "16 records where 8 were requested, 2 of transfer/gpu0-gpu0/ce"),
        ("exit:1", "exit code 1"),
        ("no_record", "no record"),
        ("empty_record", "0 records where 8"),
    ],
)
def test_records_that_do_not_match_the_list_are_red(session, fake, why):
    outcome = session(select=MATRIX, fake=f"gpu:cuda,sees:2,{fake}", site=TWO_PEERS)
    assert not outcome.green
    assert why in outcome.output


def test_a_size_that_is_missing_is_red(session):
    outcome = session(select=ALL_SIZES, fake="gpu:cuda,missing_point", site=GPU)
    assert not outcome.green
    assert "9 records where 10 were requested, 0 of transfer/managed-gpu0/ce bytes=1073741824" in outcome.output


def test_emulated_where_a_gpu_is_stated_is_red(session):
    outcome = session(select=TO_GPU, site=GPU)
    assert not outcome.green
    assert "transfer/pageable-gpu0/ce: s:p states a GPU (cuda), but the record is emulated" in outcome.output


def test_what_the_host_does_by_itself_needs_no_gpu(session):
    assert session(select="Transfer.*=host-to-host.*tiny", site=GPU).green


@pytest.mark.parametrize(
    "site, why",
    [
        (TWO, "states at least 2 × gpu, but isthmus-bench sees 1"),
        ({"features": ["peer"]}, "states at least 2 × gpu, but isthmus-bench sees 1"),
        ({"features": ["numa"]}, "states at least 2 × node, but isthmus-bench sees 1"),
    ],
    ids=["gpus", "peer", "numa"],
)
def test_fewer_than_stated_is_red(session, site, why):
    outcome = session(select=MATRIX, fake="gpu:cuda", site=site)
    assert not outcome.green
    assert why in outcome.output


def test_a_program_that_cannot_list_is_red(session):
    outcome = session(select=MATRIX, fake="no_list")
    assert not outcome.green
    assert "isthmus-bench list ended with exit code 2" in outcome.output


# --- skips ---


def test_a_skipped_pair_has_no_variable(session):
    outcome = session(select=TO_GPU, fake=f"skip:unsupported@{PINNED}")
    assert outcome.green
    assert "P: write_combined_gpu0_ce_rate:" in outcome.output and "pinned_gpu0_ce_rate" not in outcome.output


def test_where_all_is_skipped_the_check_is(session):
    select = "Transfer.*=pageable-faults.*tiny"
    outcome = session("-r", "-S", "may_skip_all=yes", select=select, fake="gpu:cuda,skip:unsupported", site=GPU)
    assert outcome.green and "SKIP" in outcome.output and "this device cannot" in outcome.output


@pytest.mark.parametrize("word", ["system", "hmm", "ats", "xnack"])
def test_stated_system_memory_may_not_be_skipped(session, word):
    site = {"features": ["gpu", "cuda"], "extras": {"isthmus": {"capabilities": [word]}}}
    outcome = session(select="Transfer.*=pageable-faults.*tiny", fake="gpu:cuda,skip:unsupported", site=site)
    assert not outcome.green
    assert "transfer/pageable-gpu0/fault: skipped (this device cannot), but s:p states gpu, system" in outcome.output


@pytest.mark.parametrize("stated, green", [(["managed"], True), (["managed", "discard"], False)])
def test_a_recent_call_is_stated_by_itself(session, stated, green):
    site = {"features": ["gpu", "cuda", *stated]}
    fake = "gpu:cuda,skip:unsupported@transfer/managed-gpu0/discard"
    assert session(select="Transfer.*=managed-prefetch.*tiny", fake=fake, site=site).green == green


def test_no_gpu_lacks_pinned_memory(session):
    assert not session(select=TO_GPU, fake=f"gpu:cuda,skip:unsupported@{PINNED}", site=GPU).green


def test_gpus_without_peer_access_may_skip_where_none_is_stated(session):
    assert session(select=MATRIX, fake=f"gpu:cuda,sees:2,skip:unsupported@{BACK}", site=TWO).green


@pytest.mark.parametrize("kind", ["memory", "not_applicable"])
def test_other_skips_deny_nothing(session, kind):
    assert session(select=MATRIX, fake=f"gpu:cuda,sees:2,skip:{kind}@{BACK}", site=TWO_PEERS).green


# --- references ---


def bound(axes="{bytes: 1073741824}", metric="rate", unit="B/s"):
    return f"- {{workload: {PINNED}, axes: {axes}, metrics: {{{metric}: [0.25, -0.1, 0.1, {unit}]}}}}\n"


@pytest.mark.parametrize(
    "references, variable",
    [
        (bound(), "pinned_gpu0_ce_rate=0.5 B/s"),
        (bound("{bytes: 4096}"), "pinned_gpu0_ce_bytes4096_rate=0.5 B/s"),
        (bound(metric="time", unit="s"), "pinned_gpu0_ce_time=0.5 s"),
    ],
    ids=["shown", "another size", "another metric"],
)
def test_a_reference_holds_its_figure(session, references, variable):
    assert session(select=ALL_SIZES, fake="gpu:cuda", site=GPU, references=references).green
    outcome = session(select=ALL_SIZES, fake=f"gpu:cuda,slow@{PINNED}", site=GPU, references=references)
    assert not outcome.green
    assert f"{variable}, expected 0.25" in outcome.output


@pytest.mark.parametrize(
    "references, why",
    [
        (bound("{byte: 4096}"), "there is no axis 'byte' here"),
        (bound("{bytes: 4KiB}"), "axis bytes is '4KiB'"),
        (bound("4096"), "'axes' is not a mapping"),
        (bound() + bound("{}"), "two references for rate"),
        (bound(metric="in"), "which this case does not report"),
        (bound(unit="GB/s"), "is in 'GB/s'"),
    ],
)
def test_a_reference_that_cannot_hold_is_red(session, references, why):
    outcome = session(select=ALL_SIZES, fake="gpu:cuda", site=GPU, references=references)
    assert not outcome.green
    assert why in outcome.output


def test_a_required_reference_that_is_missing_is_red(session):
    site = {**GPU, "extras": {"isthmus": {"require_reference": ["rate"]}}}
    references = "- {workload: 'transfer/.*', axes: {bytes: 1073741824}, metrics: {rate: [0.25, -0.1, 0.1, B/s]}}\n"
    assert session(select=ALL_SIZES, fake="gpu:cuda", site=site, references=references).green
    outcome = session(select=ALL_SIZES, fake="gpu:cuda", site=site, references=bound())
    assert not outcome.green
    assert "transfer/pageable-gpu0/ce bytes=1073741824: no reference for 'rate'" in outcome.output
