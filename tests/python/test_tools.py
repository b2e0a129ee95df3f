"""Tests that queries of a machine's tools distinguish a missing tool from one that fails, is silent or hangs."""

import re
import time

import pytest

from isthmus import tools


@pytest.fixture
def tool(tmp_path):
    """Returns tool(script), which makes a tool that runs the script and returns its answer. PATH has only this tool and
    the system's commands."""

    def ask(script, *options, timeout=20.0, **environ):
        (tmp_path / "tool").write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "tool").chmod(0o755)
        return tools.ask("tool", *options, timeout=timeout, environ={"PATH": f"{tmp_path}:/usr/bin:/bin", **environ})

    return ask


def test_a_tool_that_answers(tool):
    answer = tool("echo out $1; echo err >&2", "word")
    assert (answer.out, answer.err, answer.ok, answer.why) == ("out word\n", "err\n", True, "")


def test_no_tool(tmp_path):
    answer = tools.ask("no-such-tool", "-x", environ={"PATH": str(tmp_path)})
    assert not answer.is_here and not answer.ok
    assert answer.why == "there is no no-such-tool"


@pytest.mark.parametrize(
    "script, why",
    [
        ("echo broken; exit 9", "tool ends with exit code 9 (broken)"),
        ("echo ignored; echo why >&2; exit 1", "tool ends with exit code 1 (why)"),
        ("exit 3", "tool ends with exit code 3"),
        ("kill -9 $$", "tool ends by signal 9"),
        ("printf '\\033[2Jx' >&2; exit 1", r"tool ends with exit code 1 (\\x1b[2Jx)"),
    ],
)
def test_a_tool_that_fails(tool, script, why):
    answer = tool(script)
    assert answer.is_here and not answer.ok and not answer.is_empty
    assert answer.why == why.replace("\\\\", "\\")


def test_a_tool_that_prints_nothing(tool):
    answer = tool("true")
    assert answer.ok and answer.is_empty
    assert answer.why == "tool prints nothing"


@pytest.mark.parametrize("script", ["sleep 100", "sleep 100 & sleep 100; wait"])
def test_a_tool_that_hangs_is_ended_with_all_that_it_started(tool, script):
    begin = time.monotonic()
    assert tool(script, timeout=0.3).why == "tool does not answer within 0.3 s"
    assert time.monotonic() - begin < 10


def test_a_tool_that_leaves_a_process_behind_has_answered(tool):
    begin = time.monotonic()
    answer = tool("sleep 100 & echo done")
    assert answer.ok and answer.out == "done\n"
    assert time.monotonic() - begin < 10


def test_a_tool_that_never_stops_printing_is_ended(tool, monkeypatch):
    monkeypatch.setattr(tools, "MOST", 2**20)
    assert tool("yes").why == "tool prints more than 1 MiB"


def test_a_tool_that_cannot_be_started(tmp_path):
    (tmp_path / "tool").write_text("#!/no/such/interpreter\n")
    (tmp_path / "tool").chmod(0o755)
    assert re.match(r"tool does not start \(", tools.ask("tool", environ={"PATH": str(tmp_path)}).why)


def test_every_tool_answers_in_the_c_locale(tool):
    assert tool("echo $LC_ALL", LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8").out == "C\n"


@pytest.mark.parametrize("ends", ["sleep 60", "exec yes 'GPU 0: NVIDIA H200'"])
def test_half_a_line_of_a_tool_that_was_ended_is_not_read(tool, monkeypatch, ends):
    monkeypatch.setattr(tools, "MOST", 1000)
    script = f"echo 'GPU 0: NVIDIA H200'; printf 'GPU 1: NVIDIA H2'; {ends}"
    answer = tool(script, timeout=1.0)
    assert answer.failure and answer.out.endswith("NVIDIA H200\n")
    assert answer.out.splitlines()[0] == "GPU 0: NVIDIA H200" and "H2\n" not in answer.out
