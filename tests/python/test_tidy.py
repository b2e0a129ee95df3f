"""Tests of scripts/tidy: sources that were clean are not checked again, and all others are."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Stub of clang-tidy, which notes its calls and reports an error if a source or its header contains BAD.
FAKE = """#!/usr/bin/env bash
if [[ $1 == --version ]]; then echo "version ${FAKE_VERSION:-1}"; exit; fi
source=${*: -1}
echo "$source" >>"$LOG"
if grep -q BAD "$source" src/header.hpp; then echo "$source: error: it is bad"; exit 1; fi
"""


class Tree:
    """Separate tree with two sources, one of which includes a header."""

    def __init__(self, folder: pathlib.Path, cache: pathlib.Path):
        self.root = folder / "tree"
        for name in ("scripts", "src", "build/host/tests", "bin"):
            (self.root / name).mkdir(parents=True)
        shutil.copy(ROOT / "scripts/tidy", self.root / "scripts/tidy")
        fake = self.root / "bin/clang-tidy-20"
        fake.write_text(FAKE)
        fake.chmod(0o755)
        self.write("src/one.cpp", '#include "header.hpp"\nint one() { return two; }\n')
        self.write("src/header.hpp", "constexpr int two = 2;\n")
        self.write("src/other.cpp", "int other() { return 3; }\n")
        self.write("build/host/tests/generated.cpp", "int generated() { return 4; }\n")
        self.write(".clang-tidy", "Checks: bugprone-*\n")
        self.compile_with("-O3")
        self.environment = {
            **os.environ,
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "LOG": str(self.root / "log"),
            "ISTHMUS_TIDY_CACHE": str(cache),
        }

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def compile_with(self, option: str) -> None:
        entries = [
            {"directory": str(self.root / "build/host"), "file": str(self.root / name),
             "command": f"c++ -I{self.root}/src {option} -o {name}.o -c {self.root / name}"}
            for name in ("src/one.cpp", "src/other.cpp", "build/host/tests/generated.cpp")
        ]  # fmt: skip
        self.write("build/host/compile_commands.json", json.dumps(entries))

    def tidy(self, *wanted: str, **environment: str) -> tuple[int, list[str]]:
        """Runs scripts/tidy. Returns its exit code and the sources that it checked."""
        (self.root / "log").write_text("")
        ran = subprocess.run([self.root / "scripts/tidy", *wanted], env=self.environment | environment, check=False)
        return ran.returncode, sorted((self.root / "log").read_text().split())


@pytest.fixture
def tree(tmp_path) -> Tree:
    return Tree(tmp_path, tmp_path / "cache")


BOTH = ["src/one.cpp", "src/other.cpp"]


def test_what_was_clean_is_not_looked_at_again(tree):
    assert tree.tidy() == (0, BOTH)  # does not check generated sources
    assert tree.tidy() == (0, [])
    assert tree.tidy("src/one.cpp") == (0, [])


def test_a_source_with_planted_bugs_is_looked_at_once_and_without_them(tree):
    path = tree.root / "build/host/compile_commands.json"
    entries = json.loads(path.read_text())
    planted = {**entries[0], "command": entries[0]["command"].replace(" -c ", " -DMUTANT_OF_IT -c ")}
    path.write_text(json.dumps([planted, *entries]))
    assert tree.tidy() == (0, BOTH)
    assert json.loads((tree.root / "build/host/tidy/compile_commands.json").read_text()).count(entries[0]) == 1
    assert "MUTANT" not in (tree.root / "build/host/tidy/compile_commands.json").read_text()


def test_a_tree_elsewhere_with_the_same_texts_is_known(tree, tmp_path):
    tree.tidy()
    (tmp_path / "elsewhere").mkdir()
    other = Tree(tmp_path / "elsewhere", tmp_path / "cache")
    assert other.tidy() == (0, [])
    other.write("src/other.cpp", "int other() { return 5; }\n")
    assert other.tidy() == (0, ["src/other.cpp"])


@pytest.mark.parametrize(
    ("change", "looked_at"),
    [
        (lambda tree: tree.write("src/other.cpp", "// NOLINT\nint other() { return 3; }\n"), ["src/other.cpp"]),
        (lambda tree: tree.write("src/header.hpp", "constexpr int two = 3;\n"), ["src/one.cpp"]),
        (lambda tree: tree.write(".clang-tidy", "Checks: performance-*\n"), BOTH),
        (lambda tree: tree.write("src/.clang-tidy", "Checks: performance-*\n"), BOTH),
        (lambda tree: tree.compile_with("-DX"), BOTH),
        (lambda tree: tree.environment.update(FAKE_VERSION="2"), BOTH),
    ],
    ids=["source", "header", "checks", "checks of a folder", "command", "version"],
)
def test_whatever_the_verdict_comes_from_is_looked_at_anew(tree, change, looked_at):
    tree.tidy()
    change(tree)
    assert tree.tidy() == (0, looked_at)
    assert tree.tidy() == (0, [])


def test_what_was_objected_to_is_looked_at_until_it_is_mended(tree):
    tree.write("src/header.hpp", "constexpr int two = 2;  // BAD\n")
    assert tree.tidy("src/one.cpp") == (1, ["src/one.cpp"])
    assert tree.tidy("src/one.cpp") == (1, ["src/one.cpp"])
    tree.write("src/header.hpp", "constexpr int two = 2;\n")
    assert tree.tidy("src/one.cpp") == (0, ["src/one.cpp"])


def test_a_source_that_does_not_compile_is_looked_at_each_time(tree):
    tree.write("src/other.cpp", '#include "absent.hpp"\n')
    for _ in range(2):
        assert tree.tidy("src/other.cpp") == (0, ["src/other.cpp"])  # the real clang-tidy would report an error


def test_names_that_nothing_is_compiled_from_are_refused(tree):
    assert tree.tidy("src/absent.cpp") == (2, [])
