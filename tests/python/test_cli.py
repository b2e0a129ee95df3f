"""The command `isthmus`: one way in, one sentence for what went wrong."""

import os
import pathlib
import subprocess
import sys

import pytest

import isthmus
from isthmus import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "analysis/data/h200/medium.jsonl"


def run(*arguments, python=(), **environment):
    return subprocess.run(
        [sys.executable, *python, "-m", "isthmus", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "analysis"), **environment},
        check=False,
    )


def test_help_names_every_command():
    shown = run("--help")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in cli.COMMANDS)


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: isthmus {command}" in capsys.readouterr().out


def test_version():
    assert run("--version").stdout == f"isthmus {isthmus.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["table"], ["table", "--no-such-option", "x"]])
def test_wrong_use_is_bad_input(arguments):
    refused = run(*arguments)
    assert refused.returncode == cli.BAD_INPUT
    assert "usage: isthmus" in refused.stderr and "Traceback" not in refused.stderr


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    refused = run("table", tmp_path / "none.jsonl")
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith("No such file or directory") and refused.stderr.count("\n") == 1


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m isthmus table {EXAMPLE} | head -n 1"
    shown = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "analysis")},
    )  # fmt: skip
    assert shown.stderr == ""


def test_records_are_read_and_judged_without_numpy_and_duckdb(tmp_path):
    for name in ("numpy", "duckdb", "jsonschema_rs"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name}', name='{name}')\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "analysis")])
    shown = run("table", EXAMPLE, PYTHONPATH=path)
    assert shown.returncode == 0, shown.stderr
    assert "vector_seq" in shown.stdout


def test_a_missing_package_is_named(monkeypatch, capsys):
    def missing(module):
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(cli.importlib, "import_module", missing)
    assert cli.main(["table", "x"]) == cli.BAD_INPUT
    assert capsys.readouterr().err == (
        "isthmus table: numpy is not installed; `pip install 'isthmus[analysis]'` brings it\n"
    )
