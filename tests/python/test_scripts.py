"""Tests that every script answers --help and finds the tree's Python, whichever Python is first on PATH."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("site-configs/**/*.md"),
         *ROOT.glob("src/**/*.md"), *ROOT.glob("analysis/**/*.md"), *ROOT.glob("papers/**/*.md")]  # fmt: skip


def programs():
    """Returns the programs in scripts/, and all others that a page tells readers to run."""
    found = {path for path in (ROOT / "scripts").iterdir() if os.access(path, os.X_OK) and path.is_file()}
    for page in PAGES:
        for name in re.findall(
            r"(?<![\w/.-])(?:scripts|papers|analysis/benchmarks|tests|\.ci)/[\w/.-]*[\w]", page.read_text("utf-8")
        ):
            path = ROOT / name
            if path.is_file() and (os.access(path, os.X_OK) or path.parent.name == "benchmarks"):
                found.add(path)
    return sorted(str(path.relative_to(ROOT)) for path in found)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Returns a PATH on which the first Python has no packages."""
    folder = tmp_path_factory.mktemp("bare")
    for name in ("python", "python3"):
        (folder / name).write_text(f'#!/bin/sh\nexec {os.path.realpath(sys._base_executable)} -S "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def started(name, *words, path, **environment):
    how = ["python3"] if name.endswith(".py") else []
    command = [*how, ROOT / name, *words] if how else [ROOT / name, *words]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ISTHMUS", "VIRTUAL"))}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
                          env={**kept, "PATH": path, **environment})  # fmt: skip


def test_pages_name_scripts():
    assert {"scripts/notebooks", "papers/exhibits", ".ci/run", "analysis/benchmarks/million_records.py"} <= set(
        programs()
    )


@pytest.mark.parametrize("name", programs())
def test_a_script_answers_help(name, bare):
    if name == "scripts/run-checks" and not shutil.which("reframe", path=f"{ROOT}/.venv/bin:{os.environ['PATH']}"):
        pytest.skip("it is ReFrame's help, and there is no ReFrame here")
    shown = started(name, "--help", path=bare)
    assert shown.returncode == 0 and shown.stderr == "", shown.stderr
    assert len(shown.stdout.splitlines()) >= 2 and not shown.stdout.startswith("#")


@pytest.mark.skipif(not (ROOT / ".venv/bin/python").exists(), reason="this tree has no Python of its own")
def test_a_script_runs_by_the_trees_own_python(bare):
    shown = started("scripts/notebooks", "--check", "drivr-regressions", path=bare)
    assert shown.returncode == 2
    assert (
        shown.stderr
        == "scripts/notebooks: there is no notebook 'drivr-regressions'; did you mean driver-regressions?\n"
    )
    missing = started("papers/exhibits", "--missing", "none", path=bare).stderr
    assert missing.startswith("papers/exhibits: none: no such")


def test_what_is_missing_without_it_is_one_sentence(bare, tmp_path):
    """Runs scripts in a tree in which scripts/setup has not run."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "papers").mkdir()
    shutil.copy(ROOT / "papers/exhibits", tmp_path / "papers")
    for name in ("scripts/notebooks", "papers/exhibits"):
        command = ["python3", tmp_path / name]
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": bare}, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"{name}: ") and "run scripts/setup test" in done.stderr
        helped = subprocess.run([*command, "--help"], capture_output=True, text=True, env={"PATH": bare}, check=False)
        assert helped.returncode == 0 and f"Usage: {name}" in helped.stdout


def test_count_tests_without_a_folder_says_how(bare):
    shown = started("scripts/count-tests", path=bare)
    assert shown.returncode == 2 and "Usage: scripts/count-tests FOLDER" in shown.stdout


def backend(folder, **tools):
    """Returns stdout and stderr of scripts/detect-backend if these tools are first on PATH."""
    for name, script in tools.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "ISTHMUS_BACKEND"}
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    done = subprocess.run(
        [ROOT / "scripts/detect-backend"], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout.strip(), done.stderr


ONE_GPU = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'"


def test_gpus_that_are_listed_and_nothing_else_work(tmp_path):
    smi = f"{ONE_GPU}; echo '  MIG 1g.12gb     Device  0: (UUID: MIG-0)'"
    assert backend(tmp_path, nvcc="exit 0", **{"nvidia-smi": smi}) == (
        "cuda", "detect-backend: cuda: an NVIDIA GPU and nvcc\n"
    )  # fmt: skip


@pytest.mark.parametrize("script, why", [
    ("echo 'Failed to initialize NVML: GPU access blocked by the operating system' >&2; exit 17",
     "ends with exit code 17 (Failed to initialize NVML: GPU access blocked by the operating system)"),
    ("echo 'Unable to determine the device handle: Unknown Error'; echo 'No devices were found'; exit 6",
     "(Unable to determine the device handle: Unknown Error)"),
    ("echo 'No devices were found'; exit 255", "ends with exit code 255 (No devices were found)"),
    ("exit 0", "ends with exit code 0 ()"),
    (f"{ONE_GPU}; echo 'Unable to determine the device handle for GPU3' >&2; exit 15",
     "ends with exit code 15 (Unable to determine the device handle for GPU3); GPUs that it lists: 1"),
    (f"{ONE_GPU}; echo 'Unable to determine the device handle for GPU3'",
     "ends with exit code 0 (Unable to determine the device handle for GPU3)"),
    (f"{ONE_GPU}; exit 15", "ends with exit code 15 ()"),
])  # fmt: skip
def test_a_driver_that_fails_is_never_replaced_by_the_emulator(tmp_path, script, why):
    found, said = backend(tmp_path, nvcc="exit 0", **{"nvidia-smi": script})
    assert found == "cuda" and why in said and "ISTHMUS_BACKEND=host measures without it" in said


def test_no_devices_is_no_failing_driver(tmp_path):
    found, said = backend(tmp_path, nvcc="exit 0", **{"nvidia-smi": "echo No devices found.; exit 6"})
    assert "ends with exit code" not in said
    assert found != "cuda" or "on the bus" in said


def architectures(folder, script, backend="cuda", name="nvidia-smi"):
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)
    return started("scripts/detect-architectures", backend, path=f"{folder}:{os.environ['PATH']}")


def test_architectures_are_those_of_all_gpus(tmp_path):
    done = architectures(tmp_path, "echo 9.0; echo ' 9.0'; echo 10.3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "103;90\n", "")
    done = architectures(tmp_path, "echo gfx000; echo gfx942; echo gfx942", "hip", "rocm_agent_enumerator")
    assert (done.returncode, done.stdout, done.stderr) == (0, "gfx942\n", "")
    done = architectures(tmp_path, "echo No devices were found; exit 6")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("script, found, why", [
    ("echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", "",
     "nvidia-smi ends with exit code 18 (Failed to initialize NVML: Driver/library version mismatch)"),
    ("echo 9.0; echo '[Unknown Error]'", "90\n", "ends with exit code 0 ([Unknown Error])"),
    ("echo 'Field \"compute_cap\" is not a valid field to query.' >&2; exit 2", "", "not a valid field to query"),
    ("exit 0", "", "ends with exit code 0 ()"),
])  # fmt: skip
def test_a_driver_that_does_not_answer_is_not_a_machine_without_gpus(tmp_path, script, found, why):
    done = architectures(tmp_path, script)
    assert done.returncode == 1 and done.stdout == found
    assert why in done.stderr and "the architectures of this machine's GPUs are not known" in done.stderr


@pytest.mark.parametrize("command", [
    ["detect-architectures", "nvidia"], ["detect-architectures"], ["detect-backend", "cuda"], ["setup", "run", "test"],
    ["format", "--chek"], ["format", "no_such_file.py"], ["lint", "--fsat"], ["install-packages", "tset"],
    ["build", "--backend"], ["build", "--bakend", "x"], ["build-once", "--note"], ["borders", "a", "b"],
    ["make-catalogue", "a", "b"], ["install-hip-toolchain", "x"], ["test", "pytset"], ["compile-gates", "cdua"],
])  # fmt: skip
def test_a_word_without_effect_is_refused(bare, command):
    name, *words = command
    done = started(f"scripts/{name}", *words, path=bare)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and name in done.stderr


def repository(folder, *, broken):
    """Makes a repository with one commit. If `broken`, its index is invalid."""
    (folder / "src").mkdir()
    (folder / "src/file").write_text("1")
    by = ["-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["add", "src"], [*by, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)
    if broken:
        (folder / ".git/index").write_bytes(b"cut short")


def stated_by_cmake(folder):
    """Returns the tree's state that the program would record, which is the text after `dirty = `."""
    output = folder / "build_info.hpp"
    words = [f"-D{name}=x" for name in ("VERSION", "COMPILER", "FLAGS", "TYPE", "CODE", "PACKAGE")]
    script = ROOT / "src/harness/record/build_info.cmake"
    subprocess.run(["cmake", f"-DSOURCE={folder}", f"-DOUTPUT={output}", *words, "-P", script], check=True)
    return re.search(r" dirty = (.*);", output.read_text())[1]


def stated_by_build_once(folder):
    """Returns the tree's state according to scripts/build-once, which is the last word that git_state() prints."""
    function = re.search(
        r"^git_state\(\) \{\n.*?^\}$", (ROOT / "scripts/build-once").read_text(), re.DOTALL | re.MULTILINE
    )
    script = f"set -euo pipefail; root=$1\n{function[0]}\ngit_state"
    return subprocess.run(
        ["bash", "-c", script, "-", folder], check=True, capture_output=True, text=True
    ).stdout.split()[-1]


@pytest.mark.parametrize("stated, words", [
    (stated_by_cmake, ("false", "true", "std::nullopt")), (stated_by_build_once, ("clean", "changed", "unknown")),
])  # fmt: skip
def test_a_tree_of_which_git_cannot_tell_is_not_clean(tmp_path, stated, words):
    for name, word in zip(("clean", "changed", "unknown"), words):
        (folder := tmp_path / name).mkdir()
        repository(folder, broken=name == "unknown")
        if name == "changed":
            (folder / "src/file").write_text("22")
        assert stated(folder) == word
