"""Tests of scripts/kernel-report, which must find every spill and must not pass because it has read nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "source: /tree/src/microbench/kernels/gemm.cpp\n"

GEMM = "_ZN7isthmus10microbench4gemmILi128ELi8EEEvPKfPf"


def ptxas(mangled, architecture, use, stack=0, stores=0, loads=0):
    return f"""ptxas info    : Compiling entry function '{mangled}' for '{architecture}'
ptxas info    : Function properties for {mangled}
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used {use}
"""


def nvidia(stack=0, stores=0, loads=0):
    """Returns the compiler's output for two kernels. The first has the given stack frame and spills on sm_80."""
    tiled, plain = "128 registers, used 1 barriers, 33792 bytes smem, 400 bytes cmem[0]", "16 registers"
    return (
        "ptxas info    : 0 bytes gmem\n"
        + ptxas(GEMM, "sm_80", tiled, stack, stores, loads)
        + ptxas("_Z5saxpyifPKfPf", "sm_80", plain)
        + ptxas(GEMM, "sm_90", tiled)
        + ptxas("_Z5saxpyifPKfPf", "sm_90", plain)
    )


REMARK = "gemm.cpp:9:1: remark: {text} [-Rpass-analysis=kernel-resource-usage]\n    9 | __global__ void gemm()\n"


def amd(scratch, spills, scalar_spills=0):
    fields = [
        "Function Name: _Z4gemmPf",
        "    SGPRs: 20",
        "    VGPRs: 64",
        "    AGPRs: 0",
        f"    ScratchSize [bytes/lane]: {scratch}",
        "    Dynamic Stack: False",
        f"    SGPRs Spill: {scalar_spills}",
        f"    VGPRs Spill: {spills}",
        "    LDS Size [bytes/block]: 4096",
    ]
    return "".join(REMARK.format(text=field) for field in fields)


def report(tmp_path, text, *options, source=SOURCE):
    objects = tmp_path / "build" / "objects"
    objects.mkdir(parents=True, exist_ok=True)
    (objects / "gemm.cpp.o.report").write_text(source + text)
    command = [sys.executable, ROOT / "scripts/kernel-report", *options, tmp_path / "build"]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_clean_build_passes_and_every_kernel_is_listed(tmp_path):
    result = report(tmp_path, nvidia())
    assert result.returncode == 0, result.stderr
    assert [line.split() for line in result.stdout.splitlines()[1:5]] == [
        [*kernel, "0", "0"]
        for kernel in (
            ("gemm<128,8>", "sm_80", "128", "33792"), ("gemm<128,8>", "sm_90", "128", "33792"),
            ("saxpy", "sm_80", "16", "0"), ("saxpy", "sm_90", "16", "0"),
        )
    ]  # fmt: skip


def test_names_are_those_of_the_source(tmp_path):
    mangled = "_ZN7isthmus10microbench12_GLOBAL__N_16stagedILNS_6device11TileStagingE2ELj3ENS0_6Tile64EEEvPKfPfm"
    text = nvidia().replace("_Z5saxpyifPKfPf", mangled)
    assert "\nstaged<2,3u,Tile64> " in report(tmp_path, text).stdout


@pytest.mark.parametrize("numbers", [(16, 0, 0), (0, 4, 0), (0, 0, 8)])
def test_a_stack_frame_or_a_spill_fails(tmp_path, numbers):
    stack, stores, loads = numbers
    result = report(tmp_path, nvidia(stack=stack, stores=stores, loads=loads))
    assert result.returncode == 1
    assert "1 kernels spill" in result.stderr
    assert next(line for line in result.stdout.splitlines() if "FAILS" in line).startswith("gemm<128,8>")


def test_the_nth_remark_of_a_kernel_is_of_the_nth_architecture(tmp_path):
    result = report(tmp_path, amd(0, 0) + amd(0, 3), "--architectures", "gfx90a,gfx942")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["gemm", "gfx90a", "64", "4096", "0", "0"]
    assert lines[2].split() == ["gemm", "gfx942", "64", "4096", "0", "3", "FAILS"]


def test_scratch_fails_and_scalar_spills_do_not(tmp_path):
    assert report(tmp_path, amd(8, 0)).returncode == 1
    assert report(tmp_path, amd(0, 0, scalar_spills=2)).returncode == 0


def test_an_allowance_needs_architecture_kernel_and_reason(tmp_path):
    allow = tmp_path / "allowed.txt"
    spilling = nvidia(stack=0, stores=4, loads=4)
    allow.write_text("# comment\nsm_80 gemm<128,*> large tiles trade a spill for reuse\n")
    result = report(tmp_path, spilling, "--allow", allow)
    assert result.returncode == 0
    assert "allowed: large tiles trade a spill for reuse" in result.stdout
    allow.write_text("sm_90 gemm<128,*> another chip\n")
    result = report(tmp_path, spilling, "--allow", allow)
    assert result.returncode == 1
    assert "no longer needed: sm_90" in result.stdout
    allow.write_text("sm_80 gemm<128,*>\n")
    result = report(tmp_path, spilling, "--allow", allow)
    assert result.returncode == 1 and "reason" in result.stderr


def test_nothing_reported_is_a_failure(tmp_path):
    assert report(tmp_path, "").returncode == 1
    elsewhere = report(tmp_path, nvidia(), source="source: /tree/src/device/a.cpp\n")
    assert elsewhere.returncode == 1
    assert "nothing was checked" in elsewhere.stderr


WHOLE = nvidia()


@pytest.mark.parametrize(
    ("text", "source", "why"),
    [
        (WHOLE[: WHOLE.rindex("ptxas info    : Used 16")], SOURCE, "says nothing of the registers of _Z5saxpyifPKfPf"),
        (WHOLE[: WHOLE.rindex("    0 bytes stack")], SOURCE, "says nothing of the registers and spills of _Z5saxpy"),
        (WHOLE[:-9], SOURCE, "is cut short, so its report is incomplete"),
        (WHOLE, "", "is cut short, so its report is incomplete"),
        ("", "", "is empty, so its report is incomplete"),
        (amd(0, 0)[: amd(0, 0).index("gemm.cpp:9:1: remark:     VGPRs Spill")], SOURCE, "of the shared and spills of"),
        (WHOLE[: WHOLE.rindex("ptxas info    : Compiling")], SOURCE, "has _Z5saxpyifPKfPf for 1 of 2 architectures"),
        (WHOLE[: WHOLE.rindex(f"ptxas info    : Compiling entry function '{GEMM}'")], SOURCE,
         f"has {GEMM} for 1 of 2 architectures (sm_80, sm_90)"),
        (amd(0, 0) * 3 + amd(0, 0).replace("gemm", "gemv"), SOURCE, "has _Z4gemvPf for 1 of 3 architectures"),
    ],
)  # fmt: skip
def test_a_report_that_is_not_whole_fails(tmp_path, text, source, why):
    """Checks that an incomplete report is an error and does not result in a shorter table."""
    other = tmp_path / "build/objects/gemv.cpp.o.report"
    other.parent.mkdir(parents=True)
    other.write_text(SOURCE + WHOLE)
    done = report(tmp_path, text, source=source)
    assert done.returncode == 1 and why in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_each_build_and_each_object_with_kernels_needs_its_report(tmp_path):
    (tmp_path / "other").mkdir()
    done = report(tmp_path, WHOLE, tmp_path / "other")
    assert done.returncode == 1 and f"was reported in {tmp_path}/other: nothing was checked there" in done.stderr
    (tmp_path / "build/objects/choices.cpp.o").write_bytes(b"\x7fELF host code")
    assert report(tmp_path, WHOLE).returncode == 0
    (tmp_path / "build/objects/gemv.cpp.o").write_bytes(b"\x7fELF \0.nv_fatbin\0")
    done = report(tmp_path, WHOLE)
    assert done.returncode == 1 and "gemv.cpp.o has kernels and no report: rebuild it" in done.stderr


@pytest.mark.parametrize("words", [("--hot", ""), ("--architectures", "gfx90a,"), ("",)])
def test_empty_words_are_refused(tmp_path, words):
    done = report(tmp_path, WHOLE, *words)
    assert done.returncode == 1 and "is empty: leave it out, or name it" in done.stderr


def test_an_allowance_for_a_kernel_that_no_report_has_fails(tmp_path):
    allow = tmp_path / "allowed.txt"
    allow.write_text("sm_80 gemn<*> large tiles\n")
    done = report(tmp_path, WHOLE, "--allow", allow)
    assert done.returncode == 1 and "allows gemn<*>, which no report has: build it, or remove the line" in done.stderr


def test_the_launcher_keeps_reports_and_shows_errors(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'ptxas info    : said something' >&2\nexit $CODE\n")
    compiler.chmod(0o755)
    launcher = ROOT / "cmake/keep-kernel-report"
    kept = tmp_path / "a.o.report"

    def compile_with(code):
        command = [launcher, compiler, "-c", "a.cpp", "-o", tmp_path / "a.o"]
        return subprocess.run(command, env={"CODE": str(code), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)

    good = compile_with(0)
    assert good.returncode == 0 and good.stderr == ""
    assert kept.read_text() == "source: a.cpp\nptxas info    : said something\n"
    bad = compile_with(3)
    assert bad.returncode == 3 and "said something" in bad.stderr
