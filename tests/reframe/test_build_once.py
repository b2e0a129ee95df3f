"""Tests of scripts/build-once.

It builds once for the same sources, options, compilers and environment, and never returns a partial build.
"""

import concurrent.futures
import os
import signal
import subprocess
import time

import pytest

from conftest import FAKE, environment, run_in


@pytest.fixture
def build(tree):
    """Returns build(options…, variables…), which returns "built" or "reused", and the program's folder."""

    def run(*options, **env):
        done = run_in(tree, tree / "scripts/build-once", "--backend", "host", "--note", "note", *options, **env)
        assert done.returncode == 0, done.stdout
        what, _, folder = (tree / "note").read_text().strip().partition(" ")
        assert done.stdout.splitlines()[-1] == f"{what} {folder}"
        return what, folder

    return run


def builds(tree):
    return len((tree / "builds").read_text().splitlines())


def test_what_is_built_is_built_once(build, tree):
    what, folder = build()
    assert what == "built" and folder.startswith(f"{tree}/build/programs/host-")
    assert (tree / folder / "bin/isthmus-bench").read_bytes() == FAKE.read_bytes()
    assert build() == ("reused", folder)
    (tree / "src/NOTES.md").write_text("no source")
    (tree / "src/.swap").write_text("no source either")
    assert build() == ("reused", folder)
    assert builds(tree) == 1


@pytest.mark.parametrize(
    "file", ["src/main.cpp", "src/new.hpp", "cmake/own.cmake", "CMakePresets.json", "schema/x.json"]
)
def test_another_source_is_another_program(build, tree, file):
    first = build()
    before = (tree / file).read_text() if (tree / file).exists() else None
    (tree / file).write_text("second\n")
    what, folder = build()
    assert what == "built" and folder != first[1]
    (tree / file).write_text(before) if before else (tree / file).unlink()
    assert build() == ("reused", first[1])


@pytest.mark.parametrize(
    "options, env",
    [
        (["--mpi"], {}),
        (["--architectures", "90"], {}),
        ([], {"LOADEDMODULES": "gcc/13"}),
        ([], {"CXXFLAGS": "-O1"}),
        ([], {"CMAKE_PREFIX_PATH": "/opt/fmt"}),
        ([], {"CXX": "own-compiler"}),
    ],
)
def test_another_option_compiler_or_environment_is_another_program(build, tree, options, env):
    tools = tree / "tools"
    tools.mkdir()
    (tools / "own-compiler").write_text("#!/bin/sh\necho 13.1\n")
    (tools / "own-compiler").chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", **env}
    _, first = build()
    what, folder = build(*options, **env)
    assert what == "built" and folder != first
    assert build(*options, **env) == ("reused", folder)
    (tools / "own-compiler").write_text("#!/bin/sh\necho 14.0\n")
    assert build(*options, **env)[0] == ("built" if "CXX" in env else "reused")
    # Variables of a job or of make do not cause another build.
    assert build(MAKEFLAGS="-j2", SLURM_JOB_ID="7", SLURM_SUBMIT_DIR="/x", LD_LIBRARY_PATH="/y") == ("reused", first)


def git(tree, *words):
    identity = ("-c", "user.name=x", "-c", "user.email=x@y")
    return subprocess.run(
        ["git", *identity, *words], cwd=tree, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_program_names_the_commit_that_it_was_built_from(build, tree):
    (tree / ".gitignore").write_text("build/\nbuilds\nnote\n")
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "first")
    states = []
    for change in (
        lambda: None,
        lambda: (tree / "src/main.cpp").write_text("2\n"),
        lambda: git(tree, "commit", "-qam", "2"),
    ):
        change()
        what, folder = build()
        states.append((tree / folder / "configuration").read_text().splitlines()[-2:])
        assert what == "built" and build() == ("reused", folder)
    head, first = git(tree, "rev-parse", "HEAD"), git(tree, "rev-parse", "HEAD~")
    assert states == [[first, "clean"], [first, "changed"], [head, "clean"]]


def test_two_at_once_build_one(build, tree):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda _: build(FAKE_BUILD="sleep 1"), range(2)))
    assert builds(tree) == 1 and len({folder for _, folder in found}) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_build_that_was_interrupted_is_never_used(build, tree, how):
    begun = tree / "begun"
    half = f'echo half > "$2/bin/object"; echo half > "$2/bin/isthmus-bench"; touch {begun}; sleep 60'
    process = subprocess.Popen(
        [tree / "scripts/build-once", "--backend", "host"], cwd=tree, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment(FAKE_BUILD=half),
    )  # fmt: skip
    until = time.monotonic() + 30
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(process.pid, how)
    process.wait()
    assert not list((tree / "build/programs").glob("host-*"))
    what, folder = build()
    assert what == "built" and (tree / folder / "bin/isthmus-bench").read_bytes() == FAKE.read_bytes()
    # After SIGKILL, the folder is not used again, because ninja would treat half an object as up to date. After
    # SIGTERM, it is, because ninja has removed such objects.
    assert (tree / folder / "bin/object").exists() == (how == signal.SIGTERM)


def test_help_says_what_it_does_and_builds_nothing(tree):
    done = run_in(tree, tree / "scripts/build-once", "--help")
    assert done.returncode == 0 and done.stdout.startswith("Builds isthmus-bench, or finds it built")
    assert "ISTHMUS_BUILDS" in done.stdout and not (tree / "builds").exists()
    assert run_in(tree, tree / "scripts/build-once", "--hepl").returncode == 2


def test_a_build_that_fails_is_not_kept(tree):
    done = run_in(tree, tree / "scripts/build-once", "--backend", "host", FAKE_BUILD="exit 3")
    assert done.returncode == 3 and not list((tree / "build/programs").glob("host-*"))


def test_a_program_that_lost_its_end_is_built_anew(build, tree):
    _, folder = build()
    (tree / folder / "bin/isthmus-bench").write_bytes(FAKE.read_bytes()[:100])
    assert build() == ("built", folder)
    assert (tree / folder / "bin/isthmus-bench").read_bytes() == FAKE.read_bytes()
    assert build() == ("reused", folder)


def test_sources_that_change_while_they_are_built_are_built_again(build, tree):
    change = f"if [ $(wc -l < {tree}/builds) = 1 ]; then echo second > {tree}/src/main.cpp; fi"
    what, folder = build(FAKE_BUILD=change)
    assert what == "built" and builds(tree) == 2
    assert build() == ("reused", folder)


def test_programs_are_kept_where_a_person_says(build, tree):
    assert build(ISTHMUS_BUILDS=tree / "elsewhere")[1].startswith(f"{tree}/elsewhere/host-")
    (tree / "file").touch()
    done = run_in(tree, tree / "scripts/build-once", "--backend", "host", ISTHMUS_BUILDS=tree / "file/x")
    assert done.returncode == 1 and "set ISTHMUS_BUILDS to a folder that you may write" in done.stdout


def test_a_tree_that_cannot_be_written_keeps_programs_in_the_cache_of_its_user(build, tree):
    (tree / "build").touch()
    assert build(XDG_CACHE_HOME=tree / "cache")[1].startswith(f"{tree}/cache/isthmus/programs/host-")


def test_what_was_not_used_for_a_month_goes(build, tree):
    _, first = build()
    long_ago = time.time() - 40 * 86400
    os.utime(tree / first / "manifest", (long_ago, long_ago))
    (tree / "src/main.cpp").write_text("second\n")
    _, second = build()
    assert (tree / second).exists() and not (tree / first).exists()
