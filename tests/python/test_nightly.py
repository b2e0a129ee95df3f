"""Tests of the summary of a night: what is red, contents of JSON and JUnit files, and files that are not reports."""

import json
import os
import string
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus import cli, exits
from isthmus.verdicts import nightly


def case(result="pass", **fields):
    """Returns a test case in the form of a ReFrame 4.10 report, with the fields that the summary reads."""
    return {
        "result": result,
        "display_name": "TransferModes %workload=saxpy",
        "unique_name": "TransferModes_1",
        "system": "atlantis",
        "partition": "gpu",
        "environ": "gnu",
        "fixture": False,
        "fail_phase": None if result != "fail" else "sanity",
        "fail_reason": None if result != "fail" else "sanity error: wrong result",
        "jobid": "42",
        "job_nodelist": ["node1"],
        "time_total": 2.5,
        "kept": [],
        "perfvalues": {
            "atlantis:gpu:in": [0.25, 0.2, -0.1, 0.1, "s", "pass"],
            "atlantis:gpu:out": [1, 0, None, None, "s"],
        },
        "maintainers": ["triton"],
        "driver": "570.86.10",
        "compiler": "",
    } | fields


#: Fields of a check that passed but measured nothing, as in a dry run or without a sanity check.
NOTHING = {"perfvalues": {}, "kept": [], "jobid": None, "job_nodelist": []}


def report(*runs, cmdline="reframe -r"):
    return {"session_info": {"uuid": "u", "cmdline": cmdline}, "runs": [{"testcases": list(run)} for run in runs]}


def test_a_green_night():
    summary = nightly.summarise([report([case(), case("skip", skip_reason="no GPU")]), report([case("xfail")])])
    assert summary["verdict"] == "green"
    assert summary["counts"] == {
        "green": 2, "unmeasured": 0, "red": 0, "skipped": 1, "interrupted": 0, "skipped_cases": 0, "records": 0
    }  # fmt: skip
    first = summary["checks"][0]
    assert first["figures"]["in"] == {"value": 0.25, "unit": "s", "reference": 0.2, "lower": -0.1, "upper": 0.1}
    assert first["figures"]["out"] == {"value": 1, "unit": "s"}
    assert first["ran_with"] == {"driver": "570.86.10"} and first["ask"] == ["triton"]


def test_cases_that_a_green_check_skipped_are_counted():
    without = case(skipped_cases=["alloc/mmap bytes=1GiB: needs 1 GiB of host memory", "alloc/huge: no huge pages"])
    summary = nightly.summarise([report([case(), without])])
    assert summary["counts"]["skipped_cases"] == 2 and summary["checks"][1]["skipped_cases"] == without["skipped_cases"]
    assert summary["why"] == (
        "2 checks are green, 0 skipped, and 2 cases were skipped in 1 that measured others, the first in "
        "TransferModes %workload=saxpy: alloc/mmap bytes=1GiB: needs 1 GiB of host memory"
    )


@pytest.mark.parametrize(
    "runs, why",
    [
        ([[case(), case("fail")]], "1 of 2 checks are red, the first is TransferModes %workload=saxpy: wrong result"),
        ([[case(), case("abort")]], "1 of 2 checks are red"),
        ([[case(), case("xpass")]], "1 of 2 checks are red"),
        ([[case(), case("fail", fixture=True)]], "1 of 2 checks are red"),
        ([[case(), case("fail_deps")], [case("skip")]], "1 of 3 checks are red, the first is TransferModes"),
        ([[case(), case("", fixture=True)]], "%workload=saxpy: the report gives no result"),
        ([[case("skip")]], "nothing was measured, 1 check was skipped"),
        ([[case(fixture=True)]], "nothing was measured"),
        ([[]], "nothing was measured"),
        (
            [[case(**NOTHING), case("skip")]],
            "1 check was skipped, 1 passed without a figure (as in a dry run)",
        ),
        ([[case(**NOTHING | {"kept": [__file__]})]], "1 passed without a figure"),
        ([[case(), case(unjudged="--skip-performance-check")]], "was run without judging (--skip-performance-check)"),
        ([[case(kept=["/no/such/record.jsonl"])]], "1 record is gone or empty, the first is /no/such/record.jsonl"),
        ([[case("fail")], [case()]], "1 of 2 checks are red"),  # with --reruns, each run counts
    ],
)
def test_a_red_night(runs, why):
    summary = nightly.summarise([report(*runs)])
    assert summary["verdict"] == "red" and why in summary["why"]


def test_an_empty_record_is_red(tmp_path):
    (tmp_path / "full-disk.jsonl").touch()
    summary = nightly.summarise([report([case(kept=[str(tmp_path / "full-disk.jsonl")])])])
    assert summary["verdict"] == "red" and "1 record is gone or empty, the first is" in summary["why"]


def test_a_record_that_nobody_may_see_is_not_called_gone(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(nightly.os, "stat", refused)
    summary = nightly.summarise([report([case(kept=["/results/a.jsonl"])])])
    assert summary["verdict"] == "red" and summary["checks"][0]["missing"] == []
    assert summary["why"] == (
        "1 record cannot be examined, so it is unknown whether they exist: make /results/a.jsonl (Permission "
        "denied) readable"
    )


@pytest.mark.parametrize("runs", [[[case("skip")]], [[case(fixture=True)]], [[case(**NOTHING)]], [[]], []])
def test_a_session_that_measured_nothing_is_red_whatever_others_measured(runs):
    summary = nightly.summarise([report([case()]), report(*runs, cmdline="reframe -r -t gpu")])
    assert summary["verdict"] == "red"
    assert summary["why"].startswith("nothing was measured in the session reframe -r -t gpu, ")


def test_the_end_that_was_asked_for_is_no_fault():
    """Summarises a session with --duration=6s. ReFrame 4.10 reports checks that still ran at its end as aborted."""
    ended = case("abort", fail_reason="aborted due to RunSessionTimeout", fail_phase="run_wait")
    summary = nightly.summarise([report([case()], [ended], cmdline="reframe -r --duration=6s")])
    assert (summary["verdict"], summary["counts"]["interrupted"]) == ("green", 1)
    assert summary["why"] == "1 check is green, 0 skipped, 1 interrupted by the end of the session"
    never = case("abort", fail_reason="aborted due to RunSessionTimeout", display_name="gemv", jobid=None)
    unfinished = nightly.summarise([report([case(), never], cmdline="reframe -r --duration=6s")])
    assert unfinished["verdict"] == "red" and unfinished["why"] == (
        "1 of 2 checks were not measured before the session reframe -r --duration=6s ended, the first is gemv: make "
        "--duration longer, or choose fewer"
    )
    [suite] = ElementTree.fromstring(nightly.junit(summary))
    assert (suite.get("errors"), suite.get("failures"), suite.get("skipped")) == ("0", "0", "1")
    assert nightly.summarise([report([ended])])["verdict"] == "red"  # because nothing was measured
    failed = nightly.summarise([report([case("fail")], [ended])])
    assert failed["verdict"] == "red" and failed["counts"]["red"] == 1
    other = case("abort", fail_reason="aborted due to KeyboardInterrupt")
    assert nightly.summarise([report([case()], [other])])["verdict"] == "red"


def test_a_result_that_is_not_known_is_a_failure_in_junit():
    [suite] = ElementTree.fromstring(nightly.junit(nightly.summarise([report([case("fail_deps"), case("")])])))
    assert suite.get("failures") == "2"
    assert [each.get("message") for each in suite.iter("failure")] == ["fail_deps", "the report gives no result"]


def test_of_what_was_tried_again_the_last_try_counts():
    tried = report([case("fail"), case(unique_name="b")], [case()], cmdline="reframe --max-retries=1 -r")
    assert nightly.summarise([tried])["verdict"] == "green"
    tried = report([case("fail")], [case("fail")], cmdline="reframe --max-retries=1 -r")
    assert nightly.summarise([tried])["counts"]["red"] == 1


@pytest.mark.parametrize(
    "options, runs",
    [
        ("--reruns=2 --max-retries=1", [[case()], [case("fail")], [case()]]),
        ("--max-retries=1 --reruns 1", [[case("fail")], [case()]]),
        ("--max-retries 1 --dur=6s", [[case("fail")], [case()]]),  # the session ended right after the second run
        ("--max-ret=1 --rerun=1", [[case("fail")], [case()]]),
        ("--max-retries=2 --mode=twice", [[case()], [case("fail")], [case()]]),  # a mode may repeat everything
        ("--max-retries=1 --mode=twice", [[case("fail")], [case("fail")], [case()]]),
        ("--reruns=1 -S 'note=--max-retries=1'", [[case("fail")], [case()]]),
        ("-S 'note=--max-retries=1'", [[case("fail")], [case()]]),
    ],
)
def test_each_run_of_a_session_that_repeats_everything_counts(options, runs):
    """Repeats checks by --reruns or --duration. ReFrame 4.10 exits with 1 if any run failed, despite --max-retries."""
    summary = nightly.summarise([report(*runs, cmdline=f"/usr/bin/reframe -c checks -r {options}")])
    assert summary["verdict"] == "red" and len(summary["checks"]) == len(runs)


@pytest.mark.parametrize(
    "options", ["--max-retries=1 --reruns=0", "--max-retries 2", "--reruns=1 --reruns=0 --max-r=1"]
)
def test_tries_of_a_session_that_runs_once_are_told_from_its_repetitions(options):
    runs = [case("fail"), case(unique_name="b"), case("skip", unique_name="c")], [case(), case(unique_name="c")]
    summary = nightly.summarise([report(*runs, cmdline=f"reframe -r {options}")])
    assert summary["verdict"] == "green" and summary["counts"]["green"] == 3


def test_a_passed_check_without_a_figure_is_told_of_a_green_night():
    summary = nightly.summarise([report([case(), case(**NOTHING)])])
    assert summary["why"] == "2 checks are green (1 without a figure), 0 skipped"


def test_files_are_written_and_the_exit_code_is_the_verdict(tmp_path, capsys):
    record = tmp_path / "a.jsonl"
    record.write_text("{}\n")
    reports = [tmp_path / "one.json", tmp_path / "two.json"]
    reports[0].write_text(json.dumps(report([case(kept=[str(record)]), case("skip", skip_reason="no GPU")])))
    second = report([case("fail", fail_reason="sanity error: \x1b[2J <&>"), case("abort")])
    second["session_info"]["uuid"] = "v"
    reports[1].write_text(json.dumps(second))
    outputs = ["--json", str(tmp_path / "night.json"), "--junit", str(tmp_path / "night.xml")]
    assert cli.main(["nightly", str(reports[0]), *outputs]) == exits.PASSED
    assert cli.main(["nightly", *map(str, reports), *outputs]) == exits.FOUND
    assert json.loads((tmp_path / "night.json").read_text())["schema"] == "isthmus.night/1"
    [suite] = ElementTree.parse(tmp_path / "night.xml").getroot()
    assert suite.attrib | {"time": ""} == {
        "name": "atlantis:gpu", "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": ""
    }  # fmt: skip
    messages = {each.get("message") for test in suite for each in test if each.tag in ("failure", "error", "skipped")}
    assert messages == {"\\x1b[2J <&>", "abort", "no GPU"}
    assert [each.get("value") for each in suite.iter("property") if each.get("name") == "record"] == [str(record)]
    assert [each.text for each in suite.iter("system-out")] == [str(record)]


@pytest.mark.parametrize(
    "text, why",
    [
        (None, "No such file"),
        ("{", "not a report of ReFrame"),
        ("[]", "not a report"),
        ('{"runs": [], "session_info": 1}', "no"),
    ],
)
def test_a_file_that_is_no_report_is_one_sentence(tmp_path, capsys, text, why):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    assert cli.main(["nightly", str(path)]) == exits.BAD_INPUT
    shown = capsys.readouterr().err
    assert why in shown and shown.count("\n") == 1


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report([case()])))
    assert cli.main(["nightly", str(path), "--junit", str(tmp_path / "no/night.xml")]) == exits.BAD_INPUT
    assert "name a file in an existing folder" in capsys.readouterr().err


ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(string.ascii_letters, max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*case(), "runs", "session_info"]), ANY)
def test_any_report_is_read_or_refused(tmp_path, field, value):
    made = report([case()])
    (made if field in made else made["runs"][0]["testcases"][0])[field] = value
    path = tmp_path / "report.json"
    path.write_text(json.dumps(made))
    assert cli.main(["nightly", str(path), "--junit", os.devnull]) in (exits.PASSED, exits.FOUND, exits.BAD_INPUT)


def test_a_report_that_lacks_cases_which_it_counts_is_refused(tmp_path, capsys):
    whole = report([case(), case()])
    whole["runs"][0]["num_cases"] = 3
    path = tmp_path / "r.json"
    path.write_text(json.dumps(whole))
    assert cli.main(["nightly", str(path)]) == exits.BAD_INPUT
    assert "a run has 2 of its 3 cases" in capsys.readouterr().err
