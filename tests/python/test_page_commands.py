"""Tests that the program accepts every `isthmus-bench run …` command that a page shows."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("src/apps/*/NOTES.md"))]


def commands(text: str) -> list[list[str]]:
    """Returns the words after `run` of each command, without the rest of its line. Omits commands with placeholders for
    the reader (NAME, …, $@)."""
    found = []
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        shown = re.search(r"(?:^|\s)(?:\S*/)?isthmus-bench run (.*)", line)
        if not shown or line.startswith(("|", "-")) or "`" in line:
            continue
        words = re.split(r"\s{3,}|[;|>]|&&", shown[1])[0]
        if not re.search(r"[$…]|NAME", words):
            found.append(shlex.split(words))
    return found


def test_the_program_takes_what_pages_show(tmp_path):
    bench = os.environ.get("ISTHMUS_TEST_BENCH")
    if not bench:
        pytest.skip("needs the built program: set ISTHMUS_TEST_BENCH")
    shown = [(page.name, words) for page in PAGES for words in commands(page.read_text(encoding="utf-8"))]
    assert len(shown) > 50
    refused = []
    for page, words in shown:
        run = [bench, "run", *words, "--dry-run"]
        done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
        if done.returncode:
            refused.append((page, shlex.join(words), done.stderr))
    assert not refused


def test_commands_are_found():
    shown = "A=1 build/host/bin/isthmus-bench run 'a/*' --set b=1 \\\n  c=2   what it does\n"
    told = "`isthmus-bench run d`\nisthmus-bench run apps/NAME\n"
    assert commands(f"x\n```\n{shown}```\n{told}") == [["a/*", "--set", "b=1", "c=2"]]
