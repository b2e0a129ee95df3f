"""What site configurations share: who pays, modules, a machine's backend, who keeps a file, modes of a session."""

import functools
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

for folder in ("reframe", "analysis"):
    sys.path.append(str(ROOT / folder))
from isthmus_reframe.gates import session_gate  # noqa: F401, a session that finds no check fails


def account(option: str) -> str:
    """`option` with your project, $ISTHMUS_ACCOUNT; without it a placeholder, which the scheduler refuses."""
    return option + os.environ.get("ISTHMUS_ACCOUNT", "ACCOUNT")


def modules_system() -> str:
    """The one of this machine. Away from it there is none, and a dry run or -l still shows the rest."""
    found = {"lmod": "LMOD_CMD", "tmod4": "MODULES_CMD"}
    return next((name for name, variable in found.items() if os.environ.get(variable)), "nomod")


@functools.cache  # a process may read a configuration several times, and the reason is to be said once
def detected_backend() -> str:
    """cuda, hip or host; stderr, which says why, is left to the terminal."""
    result = subprocess.run([ROOT / "scripts/detect-backend"], stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.strip()


#: Whom a red check names until a site's own people are written there: `"extras": {"isthmus": KEPT_BY}` of a partition.
KEPT_BY = {"maintainers": ["isthmus"]}


def modes(*, every_node: bool = False) -> list[dict]:
    """What `reframe --mode=NAME -r` selects: a first look, a night, and, where the scheduler names its nodes and users
    may choose among them, one check set on each."""
    found = [
        {"name": "smoke", "options": ["--tag=smoke"]},
        {"name": "nightly", "options": ["--tag=default", "--performance-report"]},
    ]
    if every_node:
        found.append({"name": "every-node", "options": ["--tag=smoke", "--distribute=idle"]})
    return found
