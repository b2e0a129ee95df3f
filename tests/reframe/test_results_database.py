"""Tests of ReFrame's results database, which must contain figures and the fingerprint and can compare two drivers."""

import importlib.util
import json
import sqlite3

import pytest

import fake_bench
from isthmus.records import measurements
from isthmus_reframe.results_database import FINGERPRINT, Fingerprinted, fingerprint

CHECKS = "transfer_modes.py"
SITE = {"features": ["gpu", "cuda"]}


def stored(path):
    """Returns a list of test cases for each session in the database, in the order of the sessions."""
    with sqlite3.connect(path) as connection:
        blobs = connection.execute("SELECT json_blob FROM sessions ORDER BY session_start_unix").fetchall()
    return [[case for run in json.loads(blob)["runs"] for case in run["testcases"]] for (blob,) in blobs]


@pytest.fixture
def two_drivers(session, tmp_path):
    """Returns a database with two sessions of the same check, with two drivers."""
    database = tmp_path / "results.db"
    for driver in ("570.86.10", "580.159.04"):
        outcome = session(
            "-r", site=SITE, fake="gpu:cuda", FAKE_DRIVER=driver,
            RFM_ENABLE_RESULTS_STORAGE=1, RFM_SQLITE_DB_FILE=database,
        )  # fmt: skip
        assert outcome.green
    return database


def test_figures_and_fingerprint_are_stored(two_drivers):
    first, second = stored(two_drivers)
    assert [case["driver"] for case in (*first, *second)] == ["570.86.10", "580.159.04"]
    for (case,) in (first, second):
        assert case["result"] == "pass" and case["emulated"] == "false" and case["device"] == "fake"
        assert case["cpu"] == "fake" and case["compiler"] == "none" and len(case["run_id"]) == 8
        assert case["vbios"] == case["git"] == ""
        figures = {name.split(":")[-1]: value for name, value in case["perfvalues"].items()}
        assert {"in", "kernel", "out", "wall"} <= figures.keys()
        assert figures["kernel"][0] == 0.25 and figures["kernel"][4] == "s"


def test_a_failed_check_has_its_fingerprint_too(session, tmp_path):
    database = tmp_path / "results.db"
    outcome = session(
        "-r", site=SITE, fake="gpu:cuda,error:no luck", RFM_ENABLE_RESULTS_STORAGE=1, RFM_SQLITE_DB_FILE=database
    )  # fmt: skip
    assert not outcome.green
    ((case,),) = stored(database)
    assert case["result"] == "fail" and case["driver"] == "570.86.10"


@pytest.mark.skipif(not importlib.util.find_spec("polars"), reason="no polars, which --performance-compare needs")
def test_reframe_compares_two_drivers(two_drivers, session):
    def compare(*options):
        return session(*options, select="", RFM_ENABLE_RESULTS_STORAGE=1, RFM_SQLITE_DB_FILE=two_drivers)

    outcome = compare(
        "--performance-compare=now-1h:now/now-1h:now/mean:/+driver",
        "-E", "driver == '580.159.04'", "-E", "driver == '570.86.10'",
    )  # fmt: skip
    assert outcome.returncode == 0 and "kernel" in outcome.output
    assert "580.159.04" in outcome.output and "570.86.10" in outcome.output
    listed = compare("--list-stored-testcases=now-1h:now/mean:+driver/+driver")
    assert listed.returncode == 0 and "580.159.04" in listed.output and "570.86.10" in listed.output


def test_every_field_is_a_variable_and_is_called_as_in_regress():
    assert {*FINGERPRINT, "spec", "kept", "skipped_cases", "unjudged"} == set(
        vars(Fingerprinted)["_rfm_var_space"].vars
    )
    ours_alone = {"run_id", "emulated", "profiled_by"}
    assert set(FINGERPRINT) - ours_alone <= set(measurements.FINGERPRINT)


def test_several_devices_and_processes_are_one_text():
    cases = [fake_bench.record("microbench/saxpy", "pm", "tiny", "cuda") for _ in range(2)]
    cases[1]["devices"].append(cases[1]["devices"][0] | {"driver": "580.1", "state": {"pcie": {"gen": 1, "width": 16}}})
    cases[1]["devices"][1] |= {"state_after": {"pcie": {"gen": 5, "width": 16}, "vbios": None}}
    found = fingerprint(cases)
    assert found["driver"] == "570.86.10+580.1" and found["pcie_gen"] == "5" and found["pcie_width"] == "16"
    assert found["vbios"] == "" and found["mpi"] == ""
    assert set(fingerprint([]).values()) == {""}
