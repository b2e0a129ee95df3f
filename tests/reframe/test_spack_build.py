"""Tests of builds by sessions: ReFrame and isthmus_reframe are real, but the spack command only notes its arguments."""

import os
import stat
import sys
import types

import pytest
from reframe.core.exceptions import ReframeError

from conftest import FAKE, ROOT, site_configuration
from isthmus_reframe import spack_build

CHECKS = "transfer_modes.py"
SPACK = """#!/bin/sh
echo "$@" >>'{log}'
case "$*" in
  *" install "*) {install} ;;
  *" location "*) echo '{prefix}' ;;
esac
"""


@pytest.fixture
def path(tmp_path):
    """Returns a PATH without spack. A test may add one to the first folder on it."""
    (tmp_path / "bin").mkdir()
    return f"{tmp_path}/bin:{os.path.dirname(sys.executable)}:/usr/bin:/bin"


@pytest.fixture
def spack(tmp_path, path):
    """Returns spack(install), which makes a spack command that runs `install` for `spack install`.

    It returns the path of the file in which that command notes its arguments.
    """

    def put(install=""):
        prefix, log = tmp_path / "opt/isthmus", tmp_path / "told"
        install = install or f"mkdir -p '{prefix}/bin' && ln -sf '{FAKE}' '{prefix}/bin/isthmus-bench'"
        script = tmp_path / "bin/spack"
        script.write_text(SPACK.format(log=log, install=install, prefix=prefix))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return log

    return put


@pytest.fixture
def build(session, path):
    def run(*options, **settings):
        return session("-r", "-S", "build_with=spack", *options, ISTHMUS_BENCH="", PATH=path, **settings)

    return run


def test_builds_in_a_copy_of_the_environment_and_runs_what_was_installed(build, spack, tmp_path):
    log = spack()
    before = sorted(p.name for p in (ROOT / "environments/generic").iterdir())
    outcome = build()
    assert outcome.green and "were not set" not in outcome.output
    told = log.read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in told] == [
        "remove --all", "add isthmus", "install --fail-fast", "location --install-dir isthmus"
    ]  # fmt: skip
    assert all(line.startswith("-e spack-tree/environments/generic ") for line in told)
    assert sorted(p.name for p in (ROOT / "environments/generic").iterdir()) == before
    assert list((tmp_path / "results").glob("*.jsonl"))


def test_the_spec_follows_what_the_partition_states(build, spack):
    log = spack()
    site = {"devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 1}], "features": ["gpu", "cuda"]}
    build(site=site, programming=["mpi"])
    assert "add isthmus +cuda cuda_arch=90 +mpi" in log.read_text()


def test_a_failed_installation_is_red(build, spack):
    spack(install="exit 1")
    outcome = build()
    assert not outcome.green and outcome.returncode != 0


def test_nothing_installed_is_red(build, spack):
    spack(install="true")
    outcome = build()
    assert not outcome.green and "was not built" in outcome.output


def test_without_spack_it_says_so(build):
    outcome = build()
    assert not outcome.green and "no spack command is on PATH" in outcome.output
    assert "build_with=cmake" in outcome.output


@pytest.fixture
def at_site(session, path, tmp_path):
    """Returns a function that runs a session at a site with the given name and the given extras in its environment.

    The session does not set how the program is built.
    """

    def run(name, extras, **settings):
        file = tmp_path / "reframe.py"
        text = site_configuration({}).replace("'name': 's'", f"'name': {name!r}")
        file.write_text(text.replace("'features'", f"'extras': {extras}, 'features'"))
        return session("-C", str(file), "-r", ISTHMUS_BENCH="", PATH=path, **settings)

    return run


@pytest.mark.parametrize(
    "name, extras, environment",
    [
        ("atlantis", {"spack_environment": "environments/example-slurm"}, "example-slurm"),
        ("example-slurm", {}, "example-slurm"),
    ],
    ids=["it is named", "it has the site's name"],
)
def test_where_a_site_has_an_environment_spack_builds(at_site, spack, name, extras, environment):
    log = spack()
    assert at_site(name, extras).green
    assert f"-e spack-tree/environments/{environment} " in log.read_text()


@pytest.mark.parametrize("name", ["spack.yaml", "packages.yaml"])
def test_a_link_that_leads_nowhere_is_no_missing_file(tmp_path, monkeypatch, name):
    monkeypatch.setattr(spack_build, "ROOT", tmp_path)
    folder = tmp_path / "environments/atlantis"
    folder.mkdir(parents=True)
    (folder / "spack.yaml").touch()
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("/gone")
    with pytest.raises(ReframeError, match=f"atlantis/{name}: a link whose target is missing"):
        spack_build.may_use_mpi(spack_build.environment_of(types.SimpleNamespace(extras={}, name="gnu"), "atlantis"))


@pytest.fixture
def cmake(tmp_path):
    """Makes a cmake command that fails. Returns a function that returns the arguments it was called with."""
    program, log = tmp_path / "bin/cmake", tmp_path / "asked"
    program.write_text(f"#!/bin/sh\necho cmake $* >>'{log}'; exit 1\n")
    program.chmod(0o755)
    return lambda: log.read_text() if log.exists() else ""


def test_where_a_site_has_none_cmake_builds(at_site, spack, cmake, tmp_path):
    log = spack()
    assert not at_site("atlantis", {}, ISTHMUS_LIBRARIES="carried").green
    assert f" -DISTHMUS_LIBRARIES={tmp_path}/carried" in cmake() and not log.exists()


def test_the_generic_environment_is_no_sites(session, path, spack, cmake):
    log = spack()
    assert not session("-r", ISTHMUS_BENCH="", PATH=path).green
    assert cmake() and not log.exists()


def test_an_unknown_way_to_build_is_refused(session, path):
    outcome = session("-r", "-S", "build_with=make", ISTHMUS_BENCH="", PATH=path)
    assert not outcome.green and "choose cmake or spack" in outcome.output
