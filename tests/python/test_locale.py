"""Tests of the command in a locale that is not UTF-8: names, arguments and output must still be UTF-8."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest
from histories import History, jobs_of, write

ANALYSIS = pathlib.Path(__file__).resolve().parents[2] / "analysis"
WITHOUT = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ANALYSIS)}
HOW = {
    "module": ["-m", "isthmus"],
    "entry point": ["-c", "import sys; from isthmus.start import main; sys.exit(main())"],
}


def isthmus(*arguments, how="module", folder=None):
    command = [sys.executable, *HOW[how], *arguments]
    return subprocess.run(command, env={**os.environ, **WITHOUT}, cwd=folder, capture_output=True, check=False)


@pytest.fixture
def records(tmp_path):
    write(tmp_path, jobs_of(History(), 1, 6, run__system="Zürich"), "münchen.jsonl")
    return tmp_path


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("command", ["table", "noise", "nodes"])
def test_names_in_utf8_are_read(records, command, how):
    done = isthmus(command, ".", how=how, folder=records)
    assert done.returncode in (0, 3) and b"UTF-8" not in done.stderr and b"Traceback" not in done.stderr
    assert b"microbench/saxpy" in done.stdout or b"saxpy" in done.stdout or command == "nodes"


def test_arguments_and_output_are_utf8(records):
    done = isthmus("regress", ".", "--from", "system=Zürich,driver=570*", "--to", "driver=580*", folder=records)
    assert done.returncode in (0, 1, 3) and not done.stderr and "±".encode() in done.stdout
    wrong = isthmus("noise", "nöwhere", folder=records)
    assert wrong.returncode == 2 and wrong.stderr.decode() == "isthmus noise: nöwhere: no such file or folder\n"


def test_names_that_are_no_utf8_are_refused_as_in_other_locales(records):
    name = os.fsencode(records) + b"/\xff.jsonl"
    os.rename(os.fsencode(records / "münchen.jsonl"), name)
    done = isthmus("table", ".", folder=records)
    assert done.returncode == 2 and b"its name is not UTF-8; rename it" in done.stderr
    done = isthmus("noise", ".", "--from", b"system=\xff", folder=records)
    assert done.returncode == 2 and b"is not UTF-8, as all records are" in done.stderr


def test_signals_that_were_ignored_stay_ignored_and_others_end_it(records):
    code = (
        "import signal, sys; from isthmus import cli, start; "
        "cli.main = lambda: print(sys.flags.utf8_mode, signal.getsignal(signal.SIGINT) == signal.SIG_IGN, "
        "len(signal.pthread_sigmask(signal.SIG_BLOCK, []))); start.main()"
    )
    asked = {"env": {**os.environ, **WITHOUT}, "capture_output": True, "text": True, "check": True}
    ignored = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), **asked
    )
    assert ignored.stdout.split() == ["1", "True", "0"]
    assert subprocess.run([sys.executable, "-c", code], **asked).stdout.split() == ["1", "False", "0"]
