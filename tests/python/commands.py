"""The command `isthmus` of this tree, as a process of its own."""

import os
import pathlib
import subprocess
import sys

ANALYSIS = pathlib.Path(__file__).resolve().parents[2] / "analysis"


def run(*arguments, python=(), **environment):
    """`python` are options of the interpreter; its stdout and stderr are text."""
    return subprocess.run(
        [sys.executable, *python, "-m", "isthmus", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ANALYSIS), **environment},
        check=False,
    )
