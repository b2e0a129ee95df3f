"""Fixtures that run real ReFrame sessions on the fake isthmus-bench, each in a separate folder."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests/reframe/fake_bench.py"
CATALOGUE = ROOT / "reframe/checks/catalogue.json"
ONE_CHECK = "TransferModes.*saxpy.*mode=pm%.*tiny"


@dataclasses.dataclass
class Outcome:
    returncode: int
    output: str

    @property
    def green(self):
        return self.returncode == 0 and "FAILED" not in self.output

    @property
    def ran(self):
        return "Ran " in self.output


def environment(**changes):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "ISTHMUS_", "FAKE_", "SLURM_"))}
    return clean | {"FAKE_CATALOGUE": str(CATALOGUE)} | {k: str(v) for k, v in changes.items()}


@pytest.fixture
def reframe():
    """Returns the reframe command of this interpreter's environment, or the one on PATH if the environment has none."""
    installed = pathlib.Path(sys.executable).with_name("reframe")
    found = str(installed) if installed.exists() else shutil.which("reframe")
    if not found:
        pytest.fail("reframe is missing: run scripts/setup")
    return found


@pytest.fixture
def session(tmp_path, reframe, request):
    """Returns session(*options, fake="…", site={…}, checks=…, references="…"), which runs a session and returns its
    Outcome.

    The default is one saxpy check and no site configuration. `site` has the partition's settings, and `programming` the
    features of its environment. A test file names the file of its checks as CHECKS, because loading all check files
    takes longer than many sessions.
    """
    own = getattr(request.module, "CHECKS", "")

    def run(
        *options, fake="", site=None, programming=(), checks=ROOT / "reframe/checks" / own, references=None,
        select=ONE_CHECK, **env,
    ):  # fmt: skip
        command = [reframe, "-c", str(checks), "--nocolor"]
        if site is not None:
            folder = tmp_path / "site"
            (folder / "references").mkdir(parents=True, exist_ok=True)
            (folder / "reframe.py").write_text(site_configuration(site, programming))
            if references is not None:
                made = references.lstrip().startswith("$index")  # as in files by `isthmus references update`
                (folder / f"references/{'measured-p' if made else 'transfer_modes'}.yaml").write_text(references)
            command += ["-C", str(folder / "reframe.py")]
        if select:
            command += ["-n", select]
        command += list(options or ["-r"])
        result = subprocess.run(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=600, check=False,
            env=environment(**{"ISTHMUS_BENCH": FAKE, "FAKE_BENCH": fake, "TMPDIR": tmp_path, **env}),
        )  # fmt: skip
        print(" ".join(command), result.stdout, sep="\n")
        return Outcome(result.returncode, result.stdout)

    return run


@pytest.fixture
def tree(tmp_path):
    """Returns a copy of the tree in which a build only copies the fake program and adds a line to the file `builds`."""
    tree = tmp_path / "tree"
    ignore = shutil.ignore_patterns("__pycache__", "results", "output", "stage", "*.log", "*.out")
    for folder in ("reframe", "analysis/isthmus", "schema", "scripts", "site-configs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignore)
    for folder in ("src", "cmake"):
        (tree / folder).mkdir()
    for file in ("CMakeLists.txt", "CMakePresets.json", "src/main.cpp"):
        (tree / file).write_text("first\n")
    (tree / "scripts/build").write_text(FAKE_BUILD.format(tree=tree, fake=FAKE))
    return tree


FAKE_BUILD = """#!/bin/sh
set -eu
echo "$@" >> {tree}/builds
while [ "$1" != --build-dir ]; do shift; done
mkdir -p "$2/bin"
eval "${{FAKE_BUILD:-:}}"
cp {fake} "$2/bin/isthmus-bench"
"""


def run_in(folder, *command, **env):
    result = subprocess.run(
        list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=600, check=False, env=environment(TMPDIR=folder, **env),
    )  # fmt: skip
    print(result.stdout)
    return result


@pytest.fixture
def wrapper(tree):
    """Returns wrapper(options…, variables…), which runs the copied tree's scripts/run-checks on the fake program."""

    def run(*options, **env):
        # The interpreter's own bin folder comes first, because it contains reframe.
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        settings = {"ISTHMUS_BENCH": FAKE, "ISTHMUS_BACKEND": "host", "PATH": path, **env}
        return run_in(tree, tree / "scripts/run-checks", *options, **settings)

    return run


def site_configuration(partition, programming=()):
    settings = {
        "name": "p", "scheduler": "local", "launcher": "local", "environs": ["builtin"], "max_jobs": 2, **partition
    }  # fmt: skip
    systems = [{"name": "s", "hostnames": [".*"], "modules_system": "nomod", "partitions": [settings]}]
    environments = [{"name": "builtin", "features": list(programming)}]
    return f"site_configuration = {{'systems': {systems!r}, 'environments': {environments!r}}}\n"
