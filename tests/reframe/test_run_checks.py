"""Tests that every option which a user passes to scripts/run-checks has an effect or is refused."""

import json

import pytest

from conftest import ONE_CHECK


def test_the_users_own_report_is_written(wrapper, tree):
    done = wrapper("-r", "-n", ONE_CHECK, "--report-file=own/rep.json", "--summary=night")
    assert done.returncode == 0
    assert json.loads((tree / "own/rep.json").read_text()) == json.loads((tree / "night/report.json").read_text())
    assert (tree / "night/night.json").exists()  # -r makes no difference
    assert wrapper("-n", ONE_CHECK, RFM_REPORT_FILE="named.json").returncode == 0
    assert (tree / "named.json").exists()


@pytest.mark.parametrize("options, why", [
    (["--report-file=/proc/none/rep.json"], "cannot be written; name another file"),
    (["--report-file=rep-{sessionid}.json"], "has a placeholder"),
    (["--repor=rep.json"], "write --report-file in full, not '--repor'"),
    (["--config=mine.py"], "write --config-file in full, not '--config'"),
    (["--check", "mine"], "write --checkpath in full"),
    (["--ci-generate=p.yml", "--report-file=r.json"], "--report-file is of a session that runs, and --ci"),
    (["-l", "--summary", "night"], "--summary is of a session that runs, and these options run none"),
    (["--summary=a", "--summary=b"], "--summary is given twice"),
    (["--summary"], "--summary needs a folder"),
    (["--select=none"], "--select needs a file that can be read, not 'none'"),
])  # fmt: skip
def test_what_would_have_no_effect_is_refused(wrapper, options, why):
    done = wrapper("-n", ONE_CHECK, *options)
    assert done.returncode == 1 and "Ran" not in done.stdout and why in done.stdout


def test_checks_that_the_environment_names_are_taken(wrapper, tree):
    done = wrapper("-l", RFM_CHECK_SEARCH_PATH=tree / "reframe/checks/memory.py")
    assert done.returncode == 0 and "Memory" in done.stdout and "TransferModes" not in done.stdout
