"""Common parts of site configurations: account, modules system, backend, maintainers, and modes of a session."""

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
    """Returns `option` followed by your project, $ISTHMUS_ACCOUNT. If that is not set, a placeholder follows, which the
    scheduler refuses."""
    return option + os.environ.get("ISTHMUS_ACCOUNT", "ACCOUNT")


def modules_system() -> str:
    """Returns this machine's modules system, or "nomod" if it has none, so that a dry run or -l still works there."""
    found = {"lmod": "LMOD_CMD", "tmod4": "MODULES_CMD"}
    return next((name for name, variable in found.items() if os.environ.get(variable)), "nomod")


@functools.cache  # a process may read a configuration several times, but should print the reason once
def detected_backend() -> str:
    """Returns cuda, hip or host. The reason is printed to stderr."""
    result = subprocess.run([ROOT / "scripts/detect-backend"], stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.strip()


#: Maintainers whom a failed check names until a site enters its own people; used in a partition as
#: `"extras": {"isthmus": KEPT_BY}`.
KEPT_BY = {"maintainers": ["isthmus"]}


def modes(*, every_node: bool = False) -> list[dict]:
    """Returns the selections of `reframe --mode=NAME -r`: a smoke test, a nightly session and, if `every_node`, the
    smoke test on every node. The last is for schedulers that name their nodes and let users choose among them."""
    found = [
        {"name": "smoke", "options": ["--tag=smoke"]},
        {"name": "nightly", "options": ["--tag=default", "--performance-report"]},
    ]
    if every_node:
        found.append({"name": "every-node", "options": ["--tag=smoke", "--distribute=idle"]})
    return found
