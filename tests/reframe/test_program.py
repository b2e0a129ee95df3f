"""Tests of the built isthmus-bench from outside: its lists, records, refusals, and a smoke session.

ISTHMUS_TEST_BENCH is the path of the program; scripts/test sets it. If it is not set, these tests are skipped with a
message.
"""

import fnmatch
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT, environment, site_configuration
from isthmus.records import fields, load, validate
from isthmus_reframe import catalogue
from isthmus_reframe.families.memory_families import FAMILIES
from isthmus_reframe.families.transfer_pairs import FAMILY, PAIRS

BENCH = os.environ.get("ISTHMUS_TEST_BENCH")
pytestmark = pytest.mark.skipif(not BENCH, reason="no built isthmus-bench: ISTHMUS_TEST_BENCH is not set")


def bench(*arguments, cwd, check=False, timeout=600, **env):
    result = subprocess.run(
        [BENCH, *map(str, arguments)], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=timeout, check=False, env=environment(**env),
    )  # fmt: skip
    print(arguments, result.returncode, result.stdout[-2000:], result.stderr[-2000:], sep="\n")
    if check:
        assert result.returncode == 0
    return result


# --- lists ---


def test_catalogue_is_what_the_program_lists(tmp_path):
    listing = json.loads(bench("list", "--json", cwd=tmp_path, check=True).stdout)
    assert catalogue.text(listing) == catalogue.PATH.read_text(), "run scripts/make-catalogue"


def test_info_is_json_of_the_record_schema(tmp_path):
    info = json.loads(bench("info", "--json", cwd=tmp_path, check=True).stdout)
    assert info["problem"] is None
    properties = json.loads(validate.schema_path().read_text())["properties"]
    import jsonschema

    for part in ("devices", "host"):
        jsonschema.Draft202012Validator(properties[part]).validate(info[part])


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["list", "microbench/*"], ["info"], ["run", "--help"]])
def test_looking_succeeds_and_fits_a_terminal(tmp_path, arguments):
    result = bench(*arguments, cwd=tmp_path, check=True)
    assert result.stdout
    assert list(tmp_path.iterdir()) == []


# --- records ---

WORKLOADS = [w["name"] for w in catalogue.load()["workloads"] if w["name"].startswith("microbench/")]
DRIVER = {w["name"]: w for w in catalogue.load()["workloads"] if w["name"].startswith("driver/")}
PROGRAMS = [w["name"] for w in catalogue.load()["workloads"] if w["name"].startswith("apps/")]
FAULTS = [w["name"] for w in catalogue.load()["workloads"] if w["name"].startswith("faults/")]
BATCHES = [w["name"] for w in catalogue.load()["workloads"] if w["name"].startswith("interjob/")]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_record_of_every_mode_is_valid_and_verified(tmp_path, workload):
    modes = ",".join(catalogue.load()["modes"])
    bench("run", workload, "--mode", modes, "--size", "tiny", "--record", "r.jsonl", cwd=tmp_path, check=True)
    cases = load.read(tmp_path / "r.jsonl")
    assert sorted(c["mode"] for c in cases) == sorted(catalogue.load()["modes"])
    for case in cases:
        assert case["skipped"] or case["verify"]["status"] == "pass"
        assert case["emulated"] == (case["devices"][0]["backend"] == "emulator")
        for metric in fields.metrics(case).values():
            assert metric["median"] is None or min(metric["samples"]) <= metric["median"] <= max(metric["samples"])


def test_every_placement_and_staging_of_a_workload_leaves_a_valid_record(tmp_path):
    bench(
        "run", "microbench/saxpy", "--placement", "all", "--staging", "all", "--size", "tiny",
        "--record", "r.jsonl", cwd=tmp_path, check=True,
    )  # fmt: skip
    cases = load.read(tmp_path / "r.jsonl")
    saxpy = next(w for w in catalogue.load()["workloads"] if w["name"] == "microbench/saxpy")
    assert {(c["placement"], c["staging"]) for c in cases} == {
        (p, s) for p in saxpy["placements"] for s in saxpy["stagings"]
    }


CHECKED = ("driver/copy_call", "driver/prefetch_call")


@pytest.mark.parametrize("emulator", ["warp=32", "warp=64,order=reverse"])
@pytest.mark.parametrize("workload", DRIVER)
def test_every_driver_cost_is_in_the_record_in_seconds(tmp_path, workload, emulator):
    sizes = ",".join(DRIVER[workload]["sizes"])
    bench("run", workload, "--size", sizes, "--record", "r.jsonl", cwd=tmp_path, check=True, ISTHMUS_EMULATOR=emulator)
    cases = load.read(tmp_path / "r.jsonl")
    for size in DRIVER[workload]["sizes"]:
        points = [tuple(c["axes"].items()) for c in cases if c["size"] == size]
        expected = math.prod(len(values) for values in DRIVER[workload]["varied"].get(size, {}).values())
        assert len(points) == len(set(points)) == expected
    for case in cases:
        assert not case["skipped"] and not case["error"]
        assert set(fields.metrics(case)) == set(DRIVER[workload]["metrics"])
        assert {m["unit"] for m in case["metrics"]} == {"s"}
        assert all(m["median"] > 0 and m["limit_reason"] for m in case["metrics"])
        assert case["verify"]["status"] == ("pass" if workload in CHECKED else "not_applicable")
        assert workload in CHECKED or case["verify"]["detail"]


# Call that is made to fail for each workload. For driver/context, the fresh process makes the call.
FAILURES = {
    "driver/context": "launch:1",
    "driver/copy_call": "copy_async:1",
    "driver/device_sync": "synchronize:1",
    "driver/event": "event_create:1",
    "driver/graph": "executable_graph_create:2",
    "driver/launch": "launch:3",
    "driver/prefetch_call": "prefetch:1",
    "driver/stream": "stream_wait:1",
}


@pytest.mark.parametrize("workload", DRIVER)
def test_a_failing_call_fails_its_case_and_no_other(tmp_path, workload):
    # Each process counts its calls from zero. The call of driver/context is made in fresh processes, so the first such
    # call of another workload, in the process that starts them, would fail as well.
    others = [] if workload == "driver/context" else ["driver/*"]
    result = bench(
        "run", workload, *others, "--size", "tiny", "--record", "r.jsonl",
        cwd=tmp_path, ISTHMUS_INJECT=FAILURES[workload],
    )  # fmt: skip
    assert result.returncode == 1
    failed = [c for c in load.read(tmp_path / "r.jsonl") if c["error"]]
    assert {c["workload"] for c in failed} == {workload}
    assert FAILURES[workload].partition(":")[0] in failed[0]["error"]
    assert "unset ISTHMUS_INJECT" in failed[0]["error"]


def test_memory_that_a_device_lacks_is_a_skip(tmp_path):
    bench(
        "run", "alloc/*", "driver/prefetch_call", "--size", "tiny", "--record", "r.jsonl",
        cwd=tmp_path, check=True,
        ISTHMUS_EMULATOR="managed=0,concurrent_managed=0,memory_pools=0,map_host=0,virtual_memory=0",
    )  # fmt: skip
    skipped = {c["workload"] for c in load.read(tmp_path / "r.jsonl") if c["skip_kind"] == "unsupported"}
    for allocator in ("managed", "mapped", "pool", "write_combined", "vmm"):
        assert f"alloc/{allocator}" in skipped
    assert "driver/prefetch_call" in skipped


def test_records_are_appended(tmp_path):
    for expected in (1, 2):
        bench("run", "microbench/saxpy", "--size", "tiny", "--record", "r.jsonl", cwd=tmp_path, check=True)
        assert len(load.read(tmp_path / "r.jsonl")) == expected


def test_processes_share_an_id(tmp_path):
    bench(
        "run", "microbench/saxpy", "--size", "tiny", "--processes", "2", "--record", "r.jsonl",
        cwd=tmp_path, check=True,
    )  # fmt: skip
    cases = load.read(tmp_path / "r.jsonl")
    assert sorted(c["run"]["process"] for c in cases) == [1, 2]
    assert len({c["run"]["id"] for c in cases}) == 1


@pytest.mark.parametrize(
    "name", ['quo"te', "back\\slash", "line\nbreak", "\u2028", "ümläut", "\x01\x1f", "$(true)", "x" * 5000]
)
def test_hostile_strings_in_the_environment(tmp_path, name):
    bench(
        "run", "microbench/saxpy", "--size", "tiny", "--record", "r.jsonl",
        cwd=tmp_path, check=True, ISTHMUS_SYSTEM=name, ISTHMUS_PARTITION=name,
    )  # fmt: skip
    [case] = load.read(tmp_path / "r.jsonl")
    assert case["run"]["system"] == name


def test_bytes_that_are_no_utf8_in_the_environment(tmp_path):
    env = {os.fsencode(k): os.fsencode(v) for k, v in environment().items()} | {b"ISTHMUS_SYSTEM": b"a\xff\xfeb"}
    command = [BENCH, "run", "microbench/saxpy", "--size", "tiny", "--record", "r.jsonl"]
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
    assert result.returncode == 0
    assert len(load.read(tmp_path / "r.jsonl")) == 1


# --- refusals: one sentence, exit code 2, nothing written ---


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (["run", "microbench/saxpyy"], "saxpy"),
        (["run", "microbench/saxpy", "--mode", "asynk"], "async"),
        (["run", "microbench/saxpy", "--placement", "pined"], "pinned"),
        (["run", "microbench/saxpy", "--staging", "sync"], "async"),
        (["run", "microbench/saxpy", "--size", "huge"], "tiny"),
        (["run", "microbench/saxpy", "--set", "n=many"], "n"),
        (["run", "microbench/saxpy", "--set", "n=-1"], "n"),
        (["run", "microbench/saxpy", "--set", "thread=3"], "threads"),
        (["run", "microbench/saxpy", "--set", "n"], "="),
        (["run", "microbench/saxpy", "--samples", "0"], "samples"),
        (["run", "microbench/saxpy", "--samples", "three"], "samples"),
        (["run", "microbench/saxpy", "--processes", "0"], "processes"),
        (["run", "microbench/saxpy", "--preset", "paper-fig99"], "paper-fig"),
        (["run", "microbench/saxpy", "--device", "99"], "device"),
        (["run", "microbench/saxpy", "--record", "/nonexistent/folder/r.jsonl"], "/nonexistent"),
        (["run", "microbench/saxpy", "--no-such-option"], "no-such-option"),
        (["run"], ""),
        (["runn"], ""),
    ],
)
def test_bad_input_is_refused_before_any_work(tmp_path, arguments, hint):
    if "--record" not in arguments and arguments[0] == "run":
        arguments = [*arguments, "--record", "r.jsonl"]
    result = bench(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert hint in result.stderr
    assert 0 < len(result.stderr.strip().splitlines()) <= 4
    assert not (tmp_path / "r.jsonl").exists() or not (tmp_path / "r.jsonl").read_text()


@pytest.mark.parametrize("host, memory", [("64MiB", "host"), ("640GiB", "device")])
def test_too_little_memory_is_a_skip_with_its_reason(tmp_path, host, memory):
    bench(
        "run", "microbench/saxpy", "--size", "mega", "--record", "r.jsonl",
        cwd=tmp_path, check=True, ISTHMUS_HOST_MEMORY=host,
    )  # fmt: skip
    [case] = load.read(tmp_path / "r.jsonl")
    assert case["skip_kind"] == "memory" and case["skipped"]
    short = case["short_of"]
    assert short["memory"] == memory and short["needed"] == pytest.approx(32 * 2**30, rel=0.1)
    assert 0 < short["free"] < short["needed"]


def test_injected_failure_fails_the_case_and_leaves_its_record(tmp_path):
    result = bench(
        "run", "microbench/saxpy", "--size", "tiny", "--mode", "pm,baseline", "--record", "r.jsonl",
        cwd=tmp_path, ISTHMUS_INJECT="malloc_device:1",
    )  # fmt: skip
    assert result.returncode == 1
    failed, after = load.read(tmp_path / "r.jsonl")
    assert failed["error"]
    assert after["verify"]["status"] == "pass"  # the next case runs although the first failed


def test_dry_run_writes_nothing(tmp_path):
    bench("run", "microbench/*", "--dry-run", cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []


def test_sigterm_ends_with_valid_records(tmp_path):
    process = subprocess.Popen(
        [BENCH, "run", "microbench/*", "--mode", ",".join(catalogue.load()["modes"]), "--record", "r.jsonl",
         "--size", "tiny"],
        cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (tmp_path / "r.jsonl").is_file():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)
    print(output)
    cases = load.read(tmp_path / "r.jsonl")
    assert process.returncode == 3 or len(cases) == len(WORKLOADS) * 6


# --- through ReFrame ---


def checks(folder, *options, **env):
    """Runs scripts/run-checks, which must be green. Returns its record files and their cases."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        [ROOT / "scripts/run-checks", *options, f"--prefix={folder}", "--nocolor"],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=500, check=False,
        env=environment(ISTHMUS_BENCH=BENCH, ISTHMUS_RESULTS=folder / "results", PATH=path, TMPDIR=folder, **env),
    )  # fmt: skip
    print(result.stdout)
    assert result.returncode == 0
    files = list((folder / "results").glob("*.jsonl"))
    return files, [case for file in files for case in load.read(file)]


def of_the_memory_system(name):
    return name.partition("/")[0] in FAMILIES


def listed_workloads(folder, **env):
    listing = json.loads(bench("list", "--json", cwd=folder, check=True, **env).stdout)
    return {w["name"]: w for w in listing["workloads"]}


def has_what_the_list_says(cases, workloads):
    """Checks that each listed workload has cases with the listed metrics, and that only GPU workloads are emulated."""
    assert {case["workload"] for case in cases} == set(workloads)
    for case in cases:
        workload = workloads[case["workload"]]
        assert case["emulated"] != workload["cpu_only"]
        if not case["skipped"]:
            found = set(fields.metrics(case))
            assert set(workload["metrics"]) <= found <= {*workload["metrics"], *workload["observed"]}, case["workload"]


def test_smoke_session_of_the_real_program(tmp_path):
    """Runs the session of `make run` on the emulator."""
    files, cases = checks(tmp_path, "-t", "smoke", ISTHMUS_BACKEND="host")
    transfers = sum(pairs.gpus < 2 for pairs in PAIRS.values())
    modes = len(WORKLOADS) * len(catalogue.load()["modes"])
    watched = 2 * (len(FAULTS) - 1)  # with and without the driver's prefetcher; faults/peers needs two GPUs
    in_two_memories = 2 * len(PROGRAMS)
    paged = sum("paged" in w["placements"] or w["name"].startswith("paging/") for w in catalogue.load()["workloads"])
    others = len(DRIVER) + transfers + len(FAMILIES) + len(BATCHES)
    assert len(files) == modes + others + watched + in_two_memories + paged
    assert all(case["run"]["system"] == "this-machine" for case in cases)
    has_what_the_list_says(
        [case for case in cases if of_the_memory_system(case["workload"])],
        {name: w for name, w in listed_workloads(tmp_path).items() if of_the_memory_system(name)},
    )


@pytest.mark.parametrize("tag", ["transfer", "memory"])
def test_a_session_on_two_emulated_gpus(tmp_path, tag):
    """Checks that the records contain all listed workloads of a tag."""
    (tmp_path / "site.py").write_text(site_configuration({"features": ["peer"], "max_jobs": 1}))
    machine = {"ISTHMUS_EMULATOR": "devices=2,pageable_access=1"}
    _, cases = checks(tmp_path, "-C", str(tmp_path / "site.py"), "-t", tag, "-t", "smoke", **machine)
    listed = listed_workloads(tmp_path, **machine)
    wanted = {name for name in listed if (of_the_memory_system(name) if tag == "memory" else name.startswith(FAMILY))}
    assert {case["workload"] for case in cases} == wanted
    if tag == "memory":
        has_what_the_list_says(cases, {name: listed[name] for name in wanted})


@pytest.mark.parametrize(
    "emulator", ["devices=2,pageable_access=1", "warp=64,order=reverse,devices=3,peer=0"], ids=["32", "64"]
)
def test_every_transfer_leaves_a_valid_record(tmp_path, emulator):
    bench("run", "transfer/*", "--size", "tiny", "--record", "r.jsonl", "--quiet", cwd=tmp_path, check=True,
          ISTHMUS_EMULATOR=emulator)  # fmt: skip
    cases = load.read(tmp_path / "r.jsonl")
    assert len(cases) > 100
    for case in cases:
        if case["skipped"]:
            assert "peer" in case["skipped"] or "pageable" in case["skipped"], case["workload"]
            continue
        assert case["verify"]["status"] == "pass", case["workload"]
        assert case["emulated"] or not case["devices"], case["workload"]
        gpus = {end for end in case["workload"].split("/")[1].split("-") if end.startswith("gpu")}
        named = {f"gpu{device['index']}" for device in case["devices"]}
        assert gpus <= named, case["workload"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["transfer/pined-gpu0/ce"], "transfer/pinned-gpu0/ce"),
        (["transfer/pinned-gpu0/sm-red"], "transfer/"),
        (["transfer/pinned-gpu0/ce", "--set", "byte=4096"], "bytes"),
        (["transfer/pinned-gpu0/ce", "--set", "bytes=4KB"], "KiB"),
        (["transfer/pinned-gpu0/ce", "--set", "width=16"], "no axis 'width'"),
        (["transfer/mapped-gpu0/sm-read", "--set", "width=5"], "16, 8, 4"),
        (["transfer/pinned-gpu0/ce", "--size-sweep", "--size", "tiny"], "--size"),
    ],
)
def test_a_mistyped_transfer_is_refused_with_what_was_meant(tmp_path, arguments, hint):
    result = bench("run", *arguments, "--record", "r.jsonl", cwd=tmp_path)
    assert result.returncode == 2
    assert hint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "r.jsonl").exists()


def test_what_is_not_there_is_skipped_with_the_reason(tmp_path):
    bench("run", "transfer/gpu0-gpu5/ce", "transfer/pinned-gpu7/ce", "transfer/node0-node9/cpu", "--size", "tiny",
          "--record", "r.jsonl", cwd=tmp_path, check=True)  # fmt: skip
    cases = load.read(tmp_path / "r.jsonl")
    assert [case["skip_kind"] for case in cases] == ["unsupported"] * 3
    for case, missing in zip(cases, ("gpu5", "gpu7", "NUMA node 9"), strict=True):
        assert missing in case["skipped"]


def test_a_device_lost_among_transfers_ends_the_run_with_what_was_measured(tmp_path):
    result = bench("run", "transfer/*-gpu0/ce", "--size", "tiny", "--record", "r.jsonl", cwd=tmp_path,
                   ISTHMUS_INJECT="copy_async:9:lost")  # fmt: skip
    assert result.returncode == 3
    cases = load.read(tmp_path / "r.jsonl")
    assert cases[0]["verify"]["status"] == "pass"
    assert cases[-1]["error"]
    assert len(cases) < 5


def test_every_transfer_is_in_one_class_of_pairs(tmp_path):
    listing = bench("list", "--json", f"{FAMILY}*", cwd=tmp_path, check=True, ISTHMUS_EMULATOR="devices=3").stdout
    for name in (w["name"] for w in json.loads(listing)["workloads"]):
        classes = [c for c, pairs in PAIRS.items() if any(fnmatch.fnmatch(name, FAMILY + p) for p in pairs.patterns)]
        assert len(classes) == 1, name
