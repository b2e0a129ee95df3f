"""Tests of the checks of the memory system's families.

Workloads that need only the CPU, and workloads that the site's statements imply, must not be missing.
"""

import pytest

import fake_bench
from isthmus.records import load
from isthmus_reframe.families.memory_families import FAMILIES, needs

CHECKS = "memory.py"
GPU = {"features": ["gpu", "cuda"]}
TWO_PEERS = {"features": ["gpu", "cuda", "peer"]}


def check(family, size="tiny"):
    return f"Memory.*={family}.*{size}"


def stating(*words):
    return {"features": ["gpu", "cuda", *words]}


def listed(outcome):
    lines = [line for line in outcome.output.splitlines() if line.startswith("- Memory ")]
    return {tuple(word.partition("=")[2] for word in line.split()[2:4]) for line in lines}


# --- listed checks ---


def test_every_machine_has_every_family(session):
    everything = {(family, size) for family in FAMILIES for size in ("tiny", "default", "sweep")}
    assert listed(session("-l", select="Memory")) == everything
    assert listed(session("-l", "-t", "memory", "-t", "smoke", select=None)) == {(f, "tiny") for f in FAMILIES}


def test_each_family_is_a_tag(session):
    tags = session("--list-tags", select="Memory").output
    assert all(
        f"'{tag}'" in tags for tag in ("memory", "latency", "stream", "atomics", "alloc", "faults", "accounting")
    )
    # -t matches part of a tag, and "default" contains "fault".
    assert {family for family, _ in listed(session("-l", "-t", "faults", select=None))} == {"fault"}


@pytest.mark.parametrize(
    "workload, axes, needed",
    [
        ("latency/pageable-gpu0/chase", {}, {"gpu", "system"}),
        ("latency/registered-cpu/chase", {}, {"gpu", "registered"}),
        ("latency/write_combined-gpu10/chase", {}, {"gpu", "write_combined"}),
        ("latency/static-cpu/chase", {}, {"gpu", "managed", "static"}),
        ("latency/pool-gpu0/chase", {}, {"gpu", "pool"}),
        ("latency/gpu0-cpu/chase", {}, {"gpu", "unified"}),
        ("latency/gpu0-gpu0/chase", {}, {"gpu"}),
        ("latency/gpu0-gpu12/chase", {}, {"gpu", "peer"}),
        ("stream/gpu0/triad", {"memory": "device"}, {"gpu"}),
        ("stream/gpu0/triad", {"memory": "write_combined"}, {"gpu", "write_combined"}),
        ("stream/gpu0/cpu-triad", {"memory": "device"}, {"gpu", "unified"}),
        ("stream/gpu0/cpu-triad", {"memory": "pageable"}, {"gpu", "system"}),
        ("atomics/gpu0/histogram", {"memory": "device"}, {"gpu"}),
        ("atomics/gpu0/shared-histogram", {"memory": "managed"}, {"gpu", "managed"}),
        ("atomics/gpu0/shared-histogram", {"memory": "mapped"}, {"gpu", "mapped", "host_atomics"}),
        ("atomics/gpu0/ping-pong", {"memory": "mapped"}, {"gpu", "mapped"}),
        ("atomics/gpu0/ping-pong", {"memory": "managed"}, {"gpu", "managed", "host_atomics"}),
        ("atomics/gpu0/ping-pong", {"memory": "device"}, {"gpu", "unified"}),
        ("alloc/device", {}, {"gpu"}),
        ("alloc/vmm-gpu-touched", {}, {"gpu", "vmm"}),
        ("alloc/managed-touched", {}, {"gpu", "managed"}),
        ("fault/gpu0/major", {"memory": "managed"}, {"gpu", "managed"}),
        ("fault/gpu0/prefaulted-minor", {"memory": "pageable"}, {"gpu", "system"}),
        ("fault/gpu0/prefaulted-migration", {"memory": "pageable"}, {"gpu", "system", "hmm"}),
        ("accounting/pageable/gpu0", {"touch": "gpu"}, {"gpu", "system"}),
        ("accounting/pageable/gpu0", {"touch": "cpu"}, {"gpu"}),
        ("accounting/device/gpu0", {"touch": "gpu"}, {"gpu"}),
    ],
)
def test_what_a_case_needs(workload, axes, needed):
    assert needs(workload, axes, cpu_only=False) == needed


@pytest.mark.parametrize(
    "workload, axes, needed",
    [
        ("latency/pageable-cpu/chase", {"pages": "standard"}, set()),
        ("latency/node0-node1/chase", {}, {"numa"}),
        ("alloc/node-touched", {}, {"numa"}),
        ("fault/cpu/shared", {"pages": "huge"}, {"huge_pages"}),
    ],
)
def test_what_the_cpu_needs(workload, axes, needed):
    assert needs(workload, axes, cpu_only=True) == needed


# --- requests and figures ---


def test_smoke_without_a_gpu_has_a_variable_for_each_workload(session, tmp_path):
    outcome = session("-r", "-t", "smoke", select="Memory")
    assert outcome.green and "Ran 7/7" in outcome.output  # one of the seven lists the workloads
    for line in (
        "pageable_cpu_chase_latency: 0.25 s", "node0_node0_chase_latency: 0.25 s", "cpu_triad_rate: 0.25 B/s",
        "gpu0_shared_histogram_gpu_rate: 0.25 B/s", "pageable_touched_touch: 0.25 s",
        "cpu_anonymous_faulting_p50: 0.25 s", "pageable_cpu_meminfo_available_touched: 0.25 1",
    ):  # fmt: skip
        assert outcome.output.count(f"P: {line}") == 1
    shown = [line for line in outcome.output.splitlines() if line.startswith("P: ")]
    assert max(map(len, shown)) < 80
    kept = {path.name: load.read(path) for path in (tmp_path / "results").iterdir()}
    workloads = {case["workload"] for cases in kept.values() for case in cases}
    assert len(kept) == len(FAMILIES)
    assert workloads == {w["name"] for w in fake_bench.memory_listing(gpus=1, nodes=1)}


@pytest.mark.parametrize("size", ["default", "sweep"])
def test_without_a_gpu_more_than_smoke_is_what_the_cpu_does_by_itself(session, tmp_path, size):
    outcome = session("-r", "-t", size, select="Memory")
    assert outcome.green and "Ran 7/7" in outcome.output
    cases = [case for path in (tmp_path / "results").iterdir() for case in load.read(path)]
    cpu_only = {w["name"] for w in fake_bench.memory_listing(gpus=1, nodes=1) if w["cpu_only"]}
    assert {case["workload"] for case in cases} == cpu_only
    assert not any(case["emulated"] for case in cases)


def test_of_many_values_the_telling_one_is_shown(session):
    outcome = session("-r", "-t", "default", select="Memory", fake="gpu:cuda", site=GPU)
    assert outcome.green
    for variable in (
        "pageable_gpu0_chase_latency", "managed_gpu_touched_touch", "gpu0_triad_rate", "cpu_histogram_rate",
        "gpu0_prefaulted_migration_faulting_p50", "pinned_gpu0_meminfo_available_touched",
    ):  # fmt: skip
        assert outcome.output.count(f"P: {variable}: ") == 1
    assert max(len(line) for line in outcome.output.splitlines() if line.startswith("P: ")) < 80


@pytest.mark.parametrize(
    "family, fake, site, variable",
    [
        ("latency", f"lacks:{1 << 30}", {}, "pageable_cpu_chase_latency"),
        ("alloc", f"lacks:{1 << 20}", {}, "pageable_bytes32_alloc"),
        ("stream", "gpu:cuda,lacks:device@stream/gpu0/cpu-triad", GPU, "gpu0_cpu_triad_memorymanaged_rate"),
    ],
    ids=["the largest", "the default", "another memory"],
)
def test_where_the_telling_value_is_skipped_another_is_shown_by_its_name(session, family, fake, site, variable):
    outcome = session(select=check(family, "default"), fake=fake, site=site)
    assert outcome.green
    assert f"P: {variable}: 0.25" in outcome.output


def test_every_gpu_and_every_pair_of_them_is_measured(session):
    outcome = session(select=check("latency"), fake="gpu:cuda,sees:2,nodes:2", site=stating("peer", "numa"))
    assert outcome.green
    for ends in ("pageable_gpu1", "gpu0_gpu1", "gpu1_gpu0", "node0_node1"):
        assert f"P: {ends}_chase_latency:" in outcome.output


def test_a_share_may_be_none_or_less(session):
    assert session(select=check("accounting"), fake="zero_metric:meminfo_available_touched").green


# --- red checks, and their cases ---


@pytest.mark.parametrize(
    "family, fake, why",
    [
        ("latency", "missing_case@{}", "0 of latency/node0-node0/chase"),
        ("latency", "missing_metric:latency@{}", "the record lacks the metric 'latency'"),
        ("latency", "wrong_result_exit_0@{}", "wrong result"),
        ("latency", "beyond_limit:latency@{}", "latency is 200% of what PCIe 5 x16 allows"),
        ("latency", "emulated@{}", "the CPU alone does this, but the record is emulated"),
        ("alloc", "missing_metric:touch@alloc/pageable-touched", "alloc/pageable-touched: the record lacks the metric"),
        ("fault", "missing_point", "0 of fault/gpu0/prefaulted-migration memory=pageable"),
    ],
)
def test_one_bad_case_of_many_is_red_and_named_without_a_gpu(session, family, fake, why):
    outcome = session(select=check(family), fake=fake.format("latency/node0-node0/chase"))
    assert not outcome.green
    assert why in outcome.output and family in outcome.output


def test_emulated_where_a_gpu_is_stated_is_red(session):
    outcome = session(select=check("latency"), site=GPU)
    assert not outcome.green
    assert "latency/registered-cpu/chase: s:p states a GPU (cuda), but the record is emulated" in outcome.output


def test_one_emulated_case_is_red_where_a_gpu_is_stated(session):
    outcome = session(select=check("stream"), fake="gpu:cuda,emulated@stream/gpu0/triad", site=GPU)
    assert not outcome.green
    assert "stream/gpu0/triad memory=device: s:p states a GPU (cuda), but the record is emulated" in outcome.output


def test_what_the_cpu_does_by_itself_stands_beside_a_gpu(session):
    assert session(select=check("stream"), fake="gpu:cuda", site=GPU).green


def test_fewer_gpus_than_stated_is_red(session):
    outcome = session(select=check("atomics"), fake="gpu:cuda", site=TWO_PEERS)
    assert not outcome.green
    assert "states at least 2 × gpu, but isthmus-bench sees 1" in outcome.output


@pytest.mark.parametrize(
    "family, words, skipped, why",
    [
        ("latency", ["numa"], "latency/node1-node0/chase", "numa"),
        ("latency", [], "latency/mapped-gpu0/chase", "gpu, mapped"),
        ("latency", ["hmm"], "latency/pageable-gpu0/chase", "gpu, system"),
        ("latency", ["unified"], "latency/gpu0-cpu/chase", "gpu, unified"),
        ("alloc", ["managed"], "alloc/managed-gpu-touched", "gpu, managed"),
        ("fault", ["managed"], "fault/gpu0/migration", "gpu, managed"),
    ],
)
def test_what_a_site_states_may_not_be_skipped(session, family, words, skipped, why):
    fake = f"gpu:cuda,nodes:2,skip:unsupported@{skipped}"
    outcome = session(select=check(family), fake=fake, site=stating(*words))
    assert not outcome.green
    assert f"skipped (this device cannot), but s:p states {why}" in outcome.output
    assert skipped in outcome.output


@pytest.mark.parametrize("kind", ["unsupported", "not_applicable"])
def test_what_it_does_not_state_may(session, kind):
    skipped = {"unsupported": "fault/gpu0/migration", "not_applicable": "fault/gpu0/minor"}[kind]
    site = GPU if kind == "unsupported" else stating("managed", "hmm")
    outcome = session(select=check("fault"), fake=f"gpu:cuda,skip:{kind}@{skipped}", site=site)
    assert outcome.green and f"skipped, the first is {skipped}" in outcome.output


# --- references ---


def test_a_reference_holds_at_its_values(session):
    references = (
        "- {workload: stream/gpu0/triad, axes: {memory: mapped}, metrics: {rate: [0.25, -0.1, 0.1, B/s]}}\n"
        "- {workload: stream/gpu0/triad, axes: {memory: device}, metrics: {rate: [0.25, -0.1, 0.1, B/s]}}\n"
    )
    assert session(select=check("stream", "default"), fake="gpu:cuda", site=GPU, references=references).green
    fake = "gpu:cuda,slow@stream/gpu0/triad"
    outcome = session(select=check("stream", "default"), fake=fake, site=GPU, references=references)
    assert not outcome.green
    assert "gpu0_triad_rate=0.5 B/s, expected 0.25" in outcome.output
