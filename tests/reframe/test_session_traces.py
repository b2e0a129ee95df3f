"""Tests of what real sessions write for other programs: lines of the performance log, and the summary of a night."""

import json
import subprocess
from xml.etree import ElementTree

import pytest

from conftest import FAKE, ROOT, environment
from isthmus_reframe.results_database import spack_spec

CHECKS = "transfer_modes.py"
SITE = {"features": ["gpu", "cuda"], "extras": {"isthmus": {"maintainers": ["triton"]}}}
#: Contents of the file that Spack 1.1 writes next to an installed package, limited to the parts that are read.
SPACK_NOTES = {
    "spec": {
        "_meta": {"version": 5},
        "nodes": [
            {
                "name": "isthmus",
                "version": "main",
                "parameters": {"cuda": True, "rocm": False, "mpi": True, "build_type": "Release", "cuda_arch": ["90"],
                               "cflags": []},
                "dependencies": [{"name": "openmpi"}, {"name": "gcc"}, {"name": "fmt"}],
                "hash": "abcdefghijklmnop",
            },
            {"name": "openmpi", "version": "5.0.8"},
            {"name": "fmt", "version": "12.1.0"},
            {"name": "gcc", "version": "12.2.0"},
            {"name": "cuda", "version": "12.8"},
        ],
    }
}  # fmt: skip
SPEC = "isthmus@main +cuda +mpi cuda_arch=90 ^openmpi@5.0.8 ^gcc@12.2.0 /abcdefg"


@pytest.fixture
def installed(tmp_path):
    """Returns the program, installed as Spack would install it."""
    prefix = tmp_path / "opt/isthmus"
    (prefix / "bin").mkdir(parents=True)
    (prefix / ".spack").mkdir()
    (prefix / ".spack/spec.json").write_text(json.dumps(SPACK_NOTES))
    program = prefix / "bin/isthmus-bench"
    program.write_text(f'#!/bin/sh\nexec "{FAKE}" "$@"\n')
    program.chmod(0o755)
    return program


def logged(tmp_path):
    """Returns the fields of the performance log's last line, keyed by the names in its first line."""
    [path] = tmp_path.glob("perflogs/*/*/*.log")
    head, *_, line = path.read_text().splitlines()
    return dict(zip(head.split("|"), line.split("|"), strict=False))


def test_a_line_of_the_performance_log_says_what_ran(session, installed, tmp_path):
    assert session("-r", site=SITE, fake="gpu:cuda", ISTHMUS_BENCH=installed).green
    line = logged(tmp_path)
    assert line["spec"] == SPEC and line["driver"] == "570.86.10" and line["compiler"] == "none"
    assert "mpi" in line
    [record] = (tmp_path / "results").glob("*.jsonl")
    assert line["kept"] == str(record)


@pytest.mark.parametrize(
    "invalidate", [lambda notes: notes.clear(), lambda notes: notes["spec"].update(nodes=[]),
              lambda notes: notes["spec"]["nodes"][0].pop("hash"), lambda notes: notes.update(spec=[1])],
)  # fmt: skip
def test_notes_that_are_not_spacks_are_no_spec(installed, invalidate):
    assert spack_spec(installed) == SPEC
    notes = json.loads(json.dumps(SPACK_NOTES))
    invalidate(notes)
    (installed.parent.parent / ".spack/spec.json").write_text(json.dumps(notes))
    assert spack_spec(installed) == ""


def test_a_program_that_spack_did_not_build_has_no_spec(session, tmp_path):
    assert session("-r").green
    assert logged(tmp_path)["spec"] == ""


@pytest.fixture
def run_checks(tmp_path):
    """Returns a function that runs scripts/run-checks with --summary, as a cron job would."""

    def run(*options, fake=""):
        command = [ROOT / "scripts/run-checks", "-c", ROOT / "reframe/checks" / CHECKS, "-n", "saxpy%mode=pm%size=tiny",
                   *options]  # fmt: skip
        result = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env=environment(ISTHMUS_BENCH=FAKE, FAKE_BENCH=fake, ISTHMUS_BACKEND="host", TMPDIR=tmp_path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        print(result.stdout, result.stderr, sep="\n")
        return result

    return run


@pytest.mark.parametrize("fake, verdict, why", [("", "green", "1 check is green"), ("exit:7", "red", "exit code 7")])
def test_a_night_leaves_its_summary(run_checks, tmp_path, fake, verdict, why):
    result = run_checks("--summary", tmp_path / "night", fake=fake)
    assert (result.returncode == 0) == (verdict == "green")
    summary = json.loads((tmp_path / "night/night.json").read_text())
    assert summary["verdict"] == verdict and why in summary["why"]
    [check] = summary["checks"]
    [record] = (tmp_path / "results").glob("*.jsonl")
    assert check["records"] == [str(record)] and check["ask"] == ["isthmus"]
    [test] = ElementTree.parse(tmp_path / "night/night.xml").getroot().iter("testcase")
    assert (test.find("failure") is not None) == (verdict == "red")
    assert test.find("system-out").text == str(record)


def test_a_session_that_ended_early_leaves_no_summary_of_another_night(run_checks, tmp_path):
    (tmp_path / "night").mkdir()
    (tmp_path / "night/night.json").write_text("{}")
    result = run_checks("--summary", tmp_path / "night", "-t", "no-such-tag")
    assert result.returncode != 0 and not (tmp_path / "night/night.json").exists()


def test_a_red_check_names_whom_to_ask(session):
    outcome = session("-r", site=SITE, fake="gpu:cuda,exit:7")
    assert not outcome.green and "Maintainers: ['triton']" in outcome.output
    assert "- TransferModes" in session("-l", "--maintainer=triton", site=SITE).output
    assert "- TransferModes" not in session("-l", "--maintainer=nereus", site=SITE).output
