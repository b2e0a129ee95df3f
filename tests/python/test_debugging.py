"""Tests of the gdb sessions in docs/debugging.md: an emulated block's threads, and the stack of a waiting thread."""

import os
import pathlib
import platform
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "src/emulator/examples/missing_barrier.cpp"


def run(*command, **env):
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=600, check=False, env={**os.environ, "DEBUGINFOD_URLS": "", **env},
    )  # fmt: skip
    print(done.stdout)
    return done


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Builds the emulator and the example with debug information. Returns the example's path."""
    folder = tmp_path_factory.mktemp("debug")
    env = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if shutil.which("ccache") else {}
    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DEMULATOR_TESTS=OFF")
    assert run("cmake", "-S", ROOT / "src/emulator", "-B", folder, *options, **env).returncode == 0
    assert run("cmake", "--build", folder, "--parallel", os.cpu_count()).returncode == 0
    linked = (folder / "libemulator.a", "-lboost_context", "-pthread", "-o", folder / "example")
    assert run("c++", "-std=c++20", "-g", f"-I{ROOT / 'src'}", EXAMPLE, *linked).returncode == 0
    return folder / "example"


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the script knows the registers of x86-64")
def test_threads_and_stacks_of_a_block_are_shown(program):
    words = (
        "break missing_barrier.cpp:26", "run", f"source {ROOT}/src/emulator/gdb.py", "fibers", "fiber 0", "frame",
        "fiber 256", "thread 1", "fibers",
    )  # fmt: skip
    shown = run("gdb", "-q", "-batch", *(f"-ex={each}" for each in words), program, EMULATOR="workers=1").stdout
    assert "        0  barrier: __syncthreads in missing_barrier.cpp:25\n        1  runs\n    2-255  ready\n" in shown
    stack, _, rest = shown.partition("2-255  ready\n")[2].partition("fiber: give the number of a thread")
    assert "emulator::Block::wait_at_barrier (line=25" in stack.replace("this=", "").replace("self=..., ", "")
    assert "missing_barrier.cpp:25" in stack and "emulator::Fiber::enter" in stack
    assert stack.rstrip().endswith("__syncthreads();"), "the running thread is chosen again"
    assert "of the block, 0 to 255" in rest and "this OS thread runs no kernel: choose another" in rest
