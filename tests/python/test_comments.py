"""Tests of scripts/comments, which must report planted comments with file and line, and must not report good ones."""

import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """Returns the folder of a new, empty git tree."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def comments(folder):
    return subprocess.run([ROOT / "scripts/comments", folder], capture_output=True, text=True, check=False)


def put(folder, path, text):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", errors="surrogateescape")


@pytest.mark.parametrize("path, text, line, why", [
    ("src/a.cpp", "int a;\n/// Of few frames a block needs one.\nint b;\n", 2, "begins with 'Of'"),
    ("src/a.hpp", "int a;  ///< in which threads touch pages\n", 1, "begins with 'in'"),
    ("src/a.hpp", "/// `Where` a point is.\nint a;\n", 1, "begins with 'Where'"),
    ("a.py", "import os\n\n#: With the margin.\nLIMIT = 1\n", 3, "begins with 'With'"),
    ("a.py", '"""What a module has."""\n', 1, "begins with 'What'"),
    ("a.py", "def f():\n    '''\n    From a to b.\n    '''\n", 2, "begins with 'From'"),
    ("a.py", 'class C:\n    """A class."""\n\n    async def f(self):\n        """By name."""\n', 5, "begins with 'By'"),
    ("page.md", "A crew.\n", 1, "'crew' is 'thread pool' here"),
    ("page.md", "# Page\n\nThe samples are Spoilt.\n", 3, "'Spoilt' is 'invalid' here"),
    ("src/a.cpp", "// measured anew\n", 1, "'anew' is 'again' here"),
    ("run.sh", "echo 'the record is beside it'\n", 1, "'beside' is 'next to' here"),
])  # fmt: skip
def test_a_planted_comment_is_found(tree, path, text, line, why):
    put(tree, path, text)
    found = comments(tree)
    assert found.returncode == 1 and found.stderr == ""
    named, summary = found.stdout.splitlines()
    assert named.startswith(f"{path}:{line}: ") and why in named
    assert summary == "comments: 1 to rewrite"


@pytest.mark.parametrize("path, text", [
    ("src/a.cpp", "/// Returns the value held by lane `lane ^ bits`,\n/// with the lane's own bits first.\nint a();\n"),
    ("src/a.cpp", "// Of no interest to readers of a generated page.\nint a;  ///< number of pages\n"),
    ("src/a.cpp", "//// From here on: a ruler, not a doc comment.\n"),
    ("src/a.cpp", 'auto url = "file:///of/a/file";\n'),
    ("src/a.hpp", "/// at(i) of each array.\nint a();\n"),
    ("a.py", '"""Module of figures."""\n\n#: Largest size, in bytes\n#: of a page.\nMOST = 1\n'),
    ("a.py", "x = 'What a string says.'\n"),
    ("page.md", "Rounds in `data/beside-others.jsonl` and crew.csv.\n"),
    ("page.md", "From here on, besides, a spoiler.\n"),
    ("papers/data/a.txt", "measured anew\n"),
    ("docs/vocabulary.md", "| invalid | spoilt |\n"),
    ("data.bin", "\udcff"),
])  # fmt: skip
def test_a_good_comment_is_not(tree, path, text):
    put(tree, "README.md", "A tree.\n")
    put(tree, path, text)
    found = comments(tree)
    assert (found.returncode, found.stdout, found.stderr) == (0, "comments: all begin well\n", "")


def test_files_that_git_ignores_or_lost_are_not_read(tree):
    put(tree, ".gitignore", "build\n")
    put(tree, "build/a.md", "anew\n")
    put(tree, "gone.md", "anew\n")
    subprocess.run(["git", "-C", tree, "add", "gone.md"], check=True)
    (tree / "gone.md").unlink()
    assert comments(tree).returncode == 0


def test_a_folder_that_is_not_a_git_tree_is_refused(tmp_path):
    found = comments(tmp_path)
    assert found.returncode == 2 and found.stdout == ""
    assert found.stderr == f"comments: git lists no files in {tmp_path}; name a git tree\n"
