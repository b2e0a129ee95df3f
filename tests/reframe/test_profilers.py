"""Tests of `-S profiler=…`: real sessions on the fake isthmus-bench under fake profilers, which may misbehave."""

import os
import shutil
import subprocess
import tracemalloc

import pytest

from conftest import ROOT
from isthmus.profiles import ncu
from isthmus.records import load, validate
from isthmus_reframe import profilers

CHECKS = "transfer_modes.py"
GPU = {"features": ["gpu", "cuda"]}
TOOLS = ["nsys", "ncu", "rocprofv3", "perf"]


@pytest.fixture
def profiled(session, tmp_path):
    """Returns profiled(tool, …), which runs a session and returns its outcome and the kept records without and with the
    profiler. With `missing`, the tool is not installed."""

    def run(tool, *, missing=False, misbehaviour="", fake="gpu:cuda", site=GPU, may_skip="yes", **options):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        if not missing:
            (folder / tool).symlink_to(ROOT / "tests/reframe/fake_profiler.py")
        path = os.environ["PATH"]
        if missing:  # hides profilers that are installed on this machine
            path = os.pathsep.join(p for p in path.split(os.pathsep) if not shutil.which(tool, path=p))
        outcome = session(
            "-r", "-S", f"profiler={tool}", "-S", f"may_skip_all={may_skip}", fake=fake, site=site,
            FAKE_PROFILER=misbehaviour, PATH=f"{folder}{os.pathsep}{path}", **options,
        )  # fmt: skip
        kept = [load.read(p)[0] for p in sorted((tmp_path / "results").glob("*.jsonl"))]
        return outcome, [r for r in kept if not r["profiler"]], [r for r in kept if r["profiler"]]

    return run


@pytest.mark.parametrize("tool", TOOLS)
def test_what_a_profiler_saw_is_in_the_record(profiled, tmp_path, tool):
    outcome, plain, seen = profiled(tool)
    assert outcome.green and len(plain) == len(seen) == 1
    assert validate.problem(seen[0]) is None
    assert seen[0]["profiler"] == seen[0]["profile"]["tool"] == tool
    assert "profiled_" in outcome.output
    (output,) = (tmp_path / "results").glob("*.profile")
    assert output.with_suffix(".jsonl").exists()
    for name in seen[0]["profile"]["files"]:
        assert (output / name).is_file()


@pytest.mark.parametrize("mode, replay", [("pm", "kernel"), ("uvm", "application")])
def test_ncu_runs_a_program_again_where_its_kernel_would_find_moved_pages(profiled, tmp_path, mode, replay):
    outcome, _, seen = profiled("ncu", select=f"TransferModes.*saxpy.*mode={mode}%.*tiny")
    assert outcome.green and len(seen) == 1
    (report,) = (tmp_path / "results").rglob("ncu.ncu-rep")
    assert report.read_text(encoding="utf-8") == f"report of a {replay} replay"


def test_the_same_profile_twice_holds_its_exact_counts(profiled, tmp_path):
    reference = "- {workload: microbench/saxpy, profiler: nsys, metrics: {profiled_kernels: [COUNT, 0, 0, 1]}}\n"
    assert profiled("nsys", references=reference.replace("COUNT", "2"))[0].green
    (tmp_path / "bin/nsys").unlink()
    outcome, *_ = profiled("nsys", references=reference.replace("COUNT", "3"))
    assert not outcome.green
    assert "profiled_kernels=2" in outcome.output


def test_times_are_held_to_no_reference_and_none_is_required(profiled):
    site = {**GPU, "extras": {"isthmus": {"require_reference": True}}}
    reference = "- {workload: microbench/saxpy, metrics: {in: [0.1, -0.1, 0.1, s]}}\n"
    assert profiled("nsys", site=site, references=reference)[0].green


def test_a_reference_for_a_profiled_time_is_refused(profiled):
    reference = "- {workload: microbench/saxpy, metrics: {profiled_kernel_time: [0.1, -0.1, 0.1, s]}}\n"
    outcome, *_ = profiled("nsys", references=reference)
    assert not outcome.green
    assert "only counts have references" in outcome.output


@pytest.mark.parametrize("tool", ["nsys", "cupti"])  # not perf, whose folder on PATH also contains the shell
def test_a_missing_profiler_is_a_skip_with_its_reason(profiled, tool):
    outcome, plain, seen = profiled(tool, missing=True)
    assert outcome.green and "SKIP" in outcome.output
    assert ("is not on the PATH" if tool != "cupti" else "is not next to isthmus-bench") in outcome.output
    assert len(plain) == 1 and not seen
    outcome, *_ = profiled(tool, missing=True, may_skip="no")
    assert not outcome.green and "nothing was measured" in outcome.output


def test_a_stated_profiler_that_is_missing_is_red(profiled):
    outcome, plain, _ = profiled("ncu", missing=True, site={"features": ["gpu", "cuda", "ncu"]})
    assert not outcome.green
    assert "states ncu" in outcome.output and len(plain) == 1


@pytest.mark.parametrize("tool, why", [("ncu", "only administrators"), ("perf", "perf_event_paranoid")])
def test_a_machine_that_lets_nobody_count_is_a_skip(profiled, tool, why):
    outcome, plain, _ = profiled(tool, misbehaviour="permission")
    assert outcome.green and "SKIP" in outcome.output and why in outcome.output
    assert len(plain) == 1


@pytest.mark.parametrize(
    "tool, misbehaviour",
    [("nsys", "cut"), ("ncu", "empty"), ("rocprofv3", "cut"), ("perf", "empty"), ("nsys", "lost"), ("ncu", "lost")],
)
def test_a_profiler_that_fails_is_one_sentence_and_loses_nothing(profiled, tool, misbehaviour):
    outcome, plain, seen = profiled(tool, misbehaviour=misbehaviour)
    assert not outcome.green
    assert f"{tool} failed: " in outcome.output and "is kept" in outcome.output
    assert len(plain) == len(seen) == 1 and "profile" not in seen[0]


def test_a_profiler_that_crashes_is_one_sentence_and_loses_nothing(profiled):
    outcome, plain, seen = profiled("nsys", misbehaviour="crash")
    assert not outcome.green and "nsys failed: nsys: internal error 7" in outcome.output
    assert len(plain) == 1 and not seen


@pytest.mark.parametrize(
    "fake, why, number",
    [
        ("exit:7", "isthmus-bench ended with exit code 7", 1),
        ("killed", "isthmus-bench ended with exit code 137 (SIGKILL)", 1),
        ("no_record", "no record: isthmus-bench ended with exit code 0 and wrote none", 0),
        ("empty_record", "0 records where 1 were requested", 0),
        ("cut_record", "the record cannot be taken", 0),
        ("wrong_result_exit_0", "microbench/saxpy: wrong result", 1),
    ],
)
def test_a_run_without_the_profiler_that_fails_is_red_and_loses_nothing(profiled, tmp_path, fake, why, number):
    """Makes the unprofiled run fail, while the profiled run succeeds."""
    outcome, plain, seen = profiled("perf", fake=f"first_try:{tmp_path}/once,{fake}", site={})
    assert not outcome.green and "without perf: " in outcome.output and why in outcome.output
    assert len(plain) == number and len(seen) == 1
    assert len(list((tmp_path / "results").glob("*.profile/unprofiled.out"))) == 1


def test_a_wrong_result_is_red_whatever_the_profiler_does(profiled):
    assert not profiled("nsys", missing=True, fake="gpu:cuda,wrong_result")[0].green
    assert not profiled("nsys", fake="gpu:cuda,wrong_result")[0].green


def test_what_no_gpu_does_is_skipped_by_profilers_of_gpus(profiled):
    outcome, plain, _ = profiled("nsys", fake="", site={})
    assert outcome.green and "no GPU runs this" in outcome.output and len(plain) == 1


def test_an_unknown_profiler_is_red(session):
    outcome = session("-r", "-S", "profiler=gprof")
    assert not outcome.green
    assert "there is no profiler 'gprof'; choose from nsys, ncu, rocprofv3, cupti, perf" in outcome.output


def test_long_logs_of_ranks_are_read_within_a_limit(tmp_path):
    for rank in range(20):
        path = tmp_path / f"rank{rank:02}/log"
        path.parent.mkdir()
        path.touch()
        os.truncate(path, 300 << 20)
    tracemalloc.start()
    assert profilers.refused("ncu", tmp_path, []) is None
    assert "MiB in the middle were not read" in profilers._complaint(tmp_path)
    with path.open("ab") as file:
        file.write(b"\nerror: no counters (ERR_NVGPUCTRPERM)\n")
    assert profilers.refused("ncu", tmp_path, []) == ncu.PERMISSION
    assert profilers._complaint(tmp_path) == "error: no counters (ERR_NVGPUCTRPERM)"
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_each_rank_has_its_own_output(tmp_path):
    """Runs the profiling script directly, as a launcher does for each of several ranks."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nsys").symlink_to(ROOT / "tests/reframe/fake_profiler.py")
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "rank $1, under $ISTHMUS_PROFILER"\nexit 5\n')
    program.chmod(0o755)
    (tmp_path / "profile-rank").write_text(profilers.script("nsys", str(program)))
    for number, variable in enumerate(["SLURM_PROCID", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"]):
        environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "SLURM_PROCID": "0", variable: str(number)}
        done = subprocess.run(
            ["sh", "profile-rank", str(program), str(number)], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 5, done.stderr
        assert f"rank {number}, under nsys" in done.stdout
        assert (tmp_path / f"profile/rank{number}/nsys.sqlite").is_file()
