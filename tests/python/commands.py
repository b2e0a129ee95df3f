"""Runs the command `isthmus` of this tree in a separate process."""

import os
import pathlib
import subprocess
import sys

ANALYSIS = pathlib.Path(__file__).resolve().parents[2] / "analysis"


def run(*arguments, python=(), **environment):
    """Runs the command with the interpreter options `python`; the result has stdout and stderr as text."""
    return subprocess.run(
        [sys.executable, *python, "-m", "isthmus", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ANALYSIS), **environment},
        check=False,
    )
