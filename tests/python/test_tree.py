"""Tests of the scripts that guard the tree."""

import collections
import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[2]


def borders(folder):
    return subprocess.run([ROOT / "scripts/borders", folder], capture_output=True, text=True, check=False)


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def test_tree_keeps_its_borders():
    result = borders(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/microbench/a.cpp", "#include <cuda_runtime.h>"),
        ("src/harness/a.cpp", "  #include <hip/hip_runtime.h>"),
        ("src/microbench/a.cpp", "#include <mpi.h>"),
        ("src/harness/ranks/a.cpp", "#include <mpi.h>"),
        ("src/harness/plan/a.hpp", '#include "harness/ranks/ranks.hpp"'),
        ("src/harness/measure/a.cpp", '#include "harness/record/record.hpp"'),
        ("src/harness/measure/watch/a.cpp", '#include "harness/measure/passes/passes.hpp"'),
        ("src/harness/record/a.cpp", '#include "harness/program/table.hpp"'),
        ("src/memory/a.cpp", "#ifdef ISTHMUS_BACKEND_CUDA"),
        ("src/harness/a.cpp", "#if defined(__HIPCC__)"),
        ("src/microbench/a.cpp", "auto t = std::chrono::steady_clock::now();"),
        ("src/apps/a/a.cpp", "clock_gettime(CLOCK_MONOTONIC, &t);"),
        ("src/microbench/a.cpp", "std::cout << 1;"),
        ("src/microbench/a.cpp", 'printf("%d", 1);'),
        ("src/memory/a.cpp", "#include <nlohmann/json.hpp>"),
        ("src/harness/program/a.cpp", 'fmt::print(stderr, "late\\n");'),
        ("src/harness/ranks/a.cpp", "write(STDERR_FILENO, text, 4);"),
        ("src/emulator/a.cpp", '#include "device/api/device.hpp"'),
        ("src/emulator/a.hpp", "#include <fmt/format.h>"),
        ("src/emulator/tests/a.cpp", '#include "../../../tests/emulated_machine.hpp"'),
        ("src/emulator/a.cpp", "// as Isthmus wants it"),
        ("src/emulator/CMakeLists.txt", "target_link_libraries(emulator PUBLIC Threads::Threads PRIVATE fmt::fmt)"),
        ("src/emulator/tests/CMakeLists.txt", "  target_link_libraries(${name} PRIVATE emulator memory)"),
        ("src/emulator/CMakeLists.txt", "find_package(fmt REQUIRED)"),
        ("src/apps/a/a.cpp", "__global__ void k(unsigned* n) { *n = std::popcount(*n); }"),
        ("src/microbench/a/kernels.hpp", "constexpr int bits(unsigned n) { return std::bit_width(n); }"),
        ("reframe/checks/a.py", 'if self.current_system.name == "x":'),
        ("reframe/checks/a.py", "valid_systems = ['daint:gpu']"),
        ("reframe/checks/a.py", "import pandas as pd"),
        ("reframe/checks/a.py", "sn.extractsingle(r'x', self.stdout)"),
        ("reframe/checks/a.py", "text = path.read_text()"),
        ("reframe/a.py", "for line in file.readlines():"),
        ("reframe/checks/a.py", "# as on Atlantis"),
        ("scripts/a", "cd /home/someone/isthmus"),
        ("site-configs/x/reframe.py", "'https://registry.example.org/simple'"),
        ("reframe/__init__.py", ""),
    ],
)
def test_each_border_is_seen(tmp_path, path, line):
    (tmp_path / "site-configs/atlantis").mkdir(parents=True)
    put(tmp_path, path, line)
    assert borders(tmp_path).returncode != 0


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/device/cuda.cpp", "#include <cuda_runtime.h>"),
        ("src/device/a.hpp", "#if defined(ISTHMUS_BACKEND_HIP)"),
        ("src/harness/a.cpp", "#include <nlohmann/json.hpp>"),
        ("src/harness/a.cpp", "int bits(unsigned n) { return std::bit_width(n); }"),
        ("src/harness/ranks/mpi/a.cpp", "#include <mpi.h>"),
        ("src/harness/measure/a.cpp", '#include "harness/plan/plan.hpp"'),
        ("src/emulator/a.cpp", '#include "emulator/fiber.hpp"'),
        ("src/emulator/fiber.hpp", "#include <boost/context/detail/fcontext.hpp>"),
        ("src/emulator/tests/a.cpp", "#include <gtest/gtest.h>"),
        (
            "src/emulator/CMakeLists.txt",
            "target_link_libraries(emulator PUBLIC Threads::Threads PRIVATE Boost::context)",
        ),
        ("reframe/checks/a.py", 'valid_systems = ["+gpu"]'),
        ("reframe/checks/a.py", "valid_systems = ['*']"),
        ("docs/a.md", "https://github.com/reframe-hpc/reframe"),
        ("site-configs/atlantis/README.md", "[queues](https://docs.example.org/queues)"),
    ],
)
def test_what_is_allowed_passes(tmp_path, path, line):
    put(tmp_path, path, line)
    result = borders(tmp_path)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("branches, refused", [(10, False), (11, True)])
def test_a_function_of_too_many_branches_is_refused(branches, refused):
    text = "def f(x):\n" + "".join(f"    if x == {i}:\n        print({i})\n" for i in range(branches))
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", ROOT / "pyproject.toml", "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert ("C901" in result.stdout) is refused
    assert result.returncode == refused, result.stdout + result.stderr


# --- what the documentation names ---


def unlisted(*lists):
    """Returns the requirements of packages in these lists that no list names, as 'package: requirement'."""
    lines = [line for name in lists for line in (ROOT / name).read_text().splitlines()]

    def applying(requirements):
        for each in map(Requirement, requirements):
            if each.marker is None or each.marker.evaluate({"extra": ""}):
                yield canonicalize_name(each.name)

    listed = set(applying(line for line in lines if line and not line.startswith("#")))
    lacking = set()
    for name in listed:
        for wanted in applying(importlib.metadata.requires(name) or []):
            if wanted not in listed:
                lacking.add(f"{name}: {wanted}")
    return lacking


def test_the_list_of_python_tools_names_what_each_of_them_asks_for():
    assert unlisted("scripts/requirements.txt") == {"reframe-hpc: polars"}  # omitted on purpose, as the list states


def test_every_warning_that_a_page_names_is_given_somewhere():
    pages = [path for folder in ("docs", "site-configs", "src") for path in (ROOT / folder).rglob("*.md")]
    named = {}
    for page in [ROOT / "README.md", *pages]:
        text = " ".join(page.read_text(encoding="utf-8").split())
        named |= dict.fromkeys(re.findall(r"\bwarn\w*[^.`|]{0,40}`([a-z_]+)`", text), page.name)
    sources = [*(ROOT / "src").rglob("*.cpp"), *(ROOT / "reframe/isthmus_reframe").rglob("*.py")]
    gives = r'(?:\bwarn\w*\(\s*|Warning\{\s*|"code"[,:]\s*)"([a-z_]+)"'
    given = {code for path in sources for code in re.findall(gives, path.read_text(encoding="utf-8"))}
    assert "placement_disagrees" in named, "it is seen what pages name"
    assert not {code: page for code, page in named.items() if code not in given}


def test_the_page_of_the_emulator_counts_the_tests_that_plant_its_bugs():
    page = (ROOT / "src/emulator/README.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/emulator/tests").glob("*_test.cpp")]
    there = {
        ".".join(each) for text in sources for each in re.findall(r"^TEST(?:_F)?\((\w+), (\w+)\)", text, re.MULTILINE)
    }
    rows = [line for line in page.splitlines() if line.startswith("|")]
    named = [name for row in rows for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", row)]
    assert not set(named) - there
    assert len(named) == len(set(named)) == int(re.search(r"All\s(\d+)\sof these tests find", page)[1])


def test_files_of_tests_that_run_together_have_names_of_their_own():
    # pytest imports test files by their bare names, and refuses a second file with the same name.
    names = collections.Counter(
        path.name
        for room in ("tests/python", "tests/reframe", "papers/tests")
        for path in (ROOT / room).glob("test_*.py")
    )
    assert len(names) > 100
    assert not [name for name, count in names.items() if count > 1]


# --- counting ---


def count(folder):
    return subprocess.run([ROOT / "scripts/count-tests", folder], capture_output=True, text=True, check=False)


JUNIT = "<testsuite><testcase name='a'/><testcase name='b'>{}</testcase></testsuite>"


@pytest.mark.parametrize(
    "stages, files, closing, code",
    [
        ("lint passed 1.0", {}, "1 passed, 0 failed, 0 skipped", 0),
        ("host passed 1.0", {"host.xml": JUNIT.format("")}, "2 passed, 0 failed, 0 skipped", 0),
        ("host failed 1.0", {"host.xml": JUNIT.format("<failure/>")}, "1 passed, 1 failed, 0 skipped", 1),
        ("host failed 1.0", {}, "0 passed, 1 failed, 0 skipped", 1),
        ("host failed 1.0", {"host.xml": JUNIT.format("")}, "2 passed, 1 failed, 0 skipped", 1),
        ("host passed 1.0", {"host.xml": "<testsuite><test"}, "0 passed, 1 failed, 0 skipped", 1),
        ("host passed 1.0", {"host.xml": "<testsuite/>"}, "0 passed, 1 failed, 0 skipped", 1),
        ("a passed 1.0\nslurm skipped 0.1", {}, "1 passed, 0 failed, 1 skipped", 0),
        ("slurm skipped 0.1", {}, "0 passed, 0 failed, 1 skipped", 1),
    ],
)
def test_closing_line(tmp_path, stages, files, closing, code):
    (tmp_path / "stages").write_text(stages + "\n")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    result = count(tmp_path)
    assert result.stdout.splitlines()[-1] == closing
    assert result.returncode == code


# --- counting tests ---


def counted(folder, stages, **reports):
    put(folder, "stages", "\n".join(stages))
    for name, text in reports.items():
        put(folder, f"{name.replace('_', '-')}.xml", text)
    return subprocess.run([ROOT / "scripts/count-tests", folder], capture_output=True, text=True, check=False)


def test_each_stage_counts_its_own_report_once(tmp_path):
    one = "<testsuite><testcase name='a'/></testsuite>"
    two = "<testsuite><testcase name='a'/><testcase name='b'><skipped/></testcase></testsuite>"
    result = counted(tmp_path, ["host passed 1.0", "host-asan passed 2.0", "lint passed 0.1"], host=one, host_asan=two)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(
    "stage, report",
    [
        ("host failed 1.0", "<testsuite><testcase name='a'/></testsuite>"),
        ("host passed 1.0", "<testsuite/>"),
        ("host passed 1.0", "<testsuite><testc"),
        ("host passed 1.0", "<testsuite><testcase name='a'><failure/></testcase></testsuite>"),
    ],
    ids=["the stage failed", "no test", "cut short", "a test failed"],
)
def test_a_stage_that_did_not_pass_is_counted_as_failed(tmp_path, stage, report):
    assert counted(tmp_path, [stage], host=report).returncode == 1


# --- stages ---


def run_stages(folder, commands):
    """Runs shell commands that use scripts/stages.sh. Returns the finished process with its output."""
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/count-tests", folder / "scripts")
    script = f"set -euo pipefail\nroot={folder}\nsource {ROOT}/scripts/stages.sh\n{commands}\nclosing\n"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)


def test_a_stage_beside_others_is_shown_and_counted_like_them(tmp_path):
    done = run_stages(tmp_path, "alongside waits sleep 0.2\nstage works true\nalongside_ended")
    assert done.returncode == 0, done.stderr
    assert re.search(r"== works .*\n   works +passed .*\n== waits .*\n   waits +passed ", done.stdout)
    assert done.stdout.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("command", ["false", "bash -c 'kill -9 $PPID'"], ids=["fails", "is killed"])
def test_a_stage_beside_others_that_fails_turns_the_run_red(tmp_path, command):
    done = run_stages(tmp_path, f"alongside waits {command}\nstage works true\nalongside_ended")
    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_ci_runs_every_stage():
    all_stages = re.search(r"^all=\((.*)\)$", (ROOT / "scripts/test").read_text(), re.MULTILINE)[1].split()
    ci = (ROOT / ".ci/run").read_text()
    calls = re.findall(r"^(?:run_stages|run_late|alongside) ([\w -]+?)(?: within_time tests/.*)?$", ci, re.MULTILINE)
    named = " ".join(calls).split()
    assert sorted(named) == sorted(all_stages)


# --- building ---


def test_make_clean_leaves_records_and_tools_and_nothing_that_a_session_or_a_build_made(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = ["build/host/x", "reframe.log", "reframe.out", "reframe_1.log"]
    made += [
        f"{folder}/s/x"
        for folder in ("stage", "output", "perflogs", "reframe/stage", "reframe/output", "reframe/perflogs")
    ]
    kept = ["results/x.jsonl", "old/x.jsonl", ".venv/x", "reframe/checks/x.py"]
    for path in (*made, *kept):
        put(tmp_path, path, "x")
    subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted(["Makefile", *kept])


def test_make_run_in_a_folder_with_a_blank_says_so_before_it_builds(tmp_path):
    script = tmp_path / "my isthmus/scripts/run"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/run", script)
    shutil.copy(ROOT / "scripts/help.sh", script.parent)
    result = subprocess.run([script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "contains a blank" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("ninja"), reason="no cmake or ninja here")
def test_a_ccache_that_is_installed_later_changes_no_command(tmp_path):
    """Installs ccache after the first build, as `make test` does after `make run` has built without it."""
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.24)\nproject(x NONE)\ninclude({ROOT}/cmake/IsthmusCcache.cmake)\n"
        'file(WRITE ${CMAKE_BINARY_DIR}/launcher "${CMAKE_CXX_COMPILER_LAUNCHER}")\n'
    )
    ccache = tmp_path / "bin/ccache"
    ccache.parent.mkdir()

    def launcher(build):
        options = [f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"]
        command = [shutil.which("cmake"), "-S", tmp_path, "-B", tmp_path / build, "-G", "Ninja", *options]
        subprocess.run(command, check=True, capture_output=True, env={"PATH": str(ccache.parent)})
        return (tmp_path / build / "launcher").read_text()

    assert launcher("before") == ""
    ccache.write_text("#!/bin/sh\n")
    ccache.chmod(0o755)
    assert launcher("before") == "", "everything would be compiled again"
    assert launcher("after") == str(ccache)
    ccache.unlink()
    assert launcher("after") == "", "nothing could be compiled"


@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("ninja"), reason="no cmake or ninja here")
def test_the_program_and_the_tests_build_in_one_tree_in_either_order(tmp_path):
    """Configures the same tree for the program only, as `make run` does, and for everything, as `make test` does."""

    def configured(folder, *target):
        """Runs scripts/build to configure a tree. Returns whether the tree then has tests."""
        command = [ROOT / "scripts/build", "--preset", "host", "--build-dir", folder, "--configure-only", *target]
        subprocess.run(command, check=True, capture_output=True)
        listed = subprocess.run(
            ["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True, capture_output=True, text=True
        )
        return bool(json.loads(listed.stdout)["tests"])

    program = ("--target", "isthmus-bench")
    assert not configured(tmp_path / "1", *program), "a user of the program needs no GoogleTest"
    assert not configured(tmp_path / "1", "--target", "isthmus-uvm"), "nor does one of `isthmus faults run`"
    assert configured(tmp_path / "1"), "make run, then make test"
    assert configured(tmp_path / "1", *program), "make test, then make run, which leaves the tests"
    # If everything was requested but configuring failed, as without GoogleTest, the program can still be built.
    (tmp_path / "1/tests/CTestTestfile.cmake").unlink()
    assert not configured(tmp_path / "1", *program)


def subject_checked(tmp_path, message):
    (tmp_path / "message").write_text(message, encoding="utf-8")
    command = [ROOT / "scripts/commit-subject", tmp_path / "message"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("message", [
    "Add host pools as a placement\n\nAdded for GPUs without managed memory.\n",
    "# Comment of git\n\nPass sizes by reference\n",
    "Feed the pages of a warp to one copy\n",
    "É" * 72,
    "Merge branch 'fixes' of a repository whose name is so long that the subject has over 72 characters\n",
    "fixup! Fixes.\n",
    'Revert "Added a placement."\n',
    "",
])  # fmt: skip
def test_a_good_subject_passes(tmp_path, message):
    done = subject_checked(tmp_path, message)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("subject, why", [
    ("Add " + "x" * 69, "has 73 characters; write at most 72"),
    ("Add host pools.", "ends in a period"),
    *((f"{word} host pools", f"begins with '{word}'") for word in ("Added", "Adds", "Adding", "Fixed", "Fixes")),
])  # fmt: skip
def test_a_bad_subject_is_refused(tmp_path, subject, why):
    done = subject_checked(tmp_path, f"{subject}\n\nA body.\n")
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"commit-subject: '{subject}' {why}")


def test_a_subject_without_a_file_is_refused(tmp_path):
    done = subprocess.run([ROOT / "scripts/commit-subject", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is not a file; name a commit message" in done.stderr
