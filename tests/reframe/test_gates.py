"""Tests of the gates, which turn a session red that would otherwise pass silently.

docs/decisions/0004-reframe-gates.md lists the gates.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest
import yaml

from conftest import FAKE, ROOT, environment, run_in, site_configuration
from isthmus.records import load
from isthmus.verdicts import nightly

# File of checks that the tests load by default, for speed. A test that needs other files names them.
CHECKS = "transfer_modes.py"
ALL = ROOT / "reframe/checks"
GPU = {"features": ["gpu", "cuda"]}
MAY_SKIP = ("-S", "may_skip_all=yes")
IN_BOUND = "- {workload: microbench/saxpy, metrics: {in: [0.25, -0.1, 0.1, s]}}\n"


def requiring(*metrics):
    return {**GPU, "extras": {"isthmus": {"require_reference": list(metrics) or True}}}


def test_untouched_session_is_green_and_keeps_its_record(session, tmp_path):
    outcome = session()
    assert outcome.green
    assert "Ran 1/1" in outcome.output
    kept = list((tmp_path / "results").iterdir())
    assert [p.suffix for p in kept] == [".jsonl"]
    assert f"Records: 1 file in {tmp_path / 'results'}" in outcome.output
    [record] = load.read(kept[0])
    assert record["run"]["system"] == "generic" and record["run"]["partition"] == "default"
    for name in ("in", "kernel", "out", "wall", "paper_total", "overlapped"):
        assert f"P: {name}: 0.25 s" in outcome.output
    assert "P: in_rate: 0.25 B/s" in outcome.output


@pytest.mark.parametrize(
    "fake, why",
    [
        ("wrong_result", "wrong result"),
        ("wrong_result_exit_0", "element 3 is 7, expected 8"),
        ("not_verified", "wrong result (not_run"),
        ("beyond_tolerance", "wrong result (pass, fake): error 1000000000.0, tolerance 1.0"),
        ("not_applicable", "wrong result (not_applicable"),
        ("error", "cudaMalloc: out of memory"),
        ("exit:7", "exit code 7"),
        ("killed", "exit code 137"),
        ("no_record", "no record"),
        ("empty_record", "0 records where 1"),
        (
            "full_disk",
            "0 records where 1 were requested, 0 of microbench/saxpy; isthmus-bench ended with exit code 1 "
            "(isthmus-bench: the record record.jsonl could not be written (No space left on device)); see rfm_job.err",
        ),
        ("cut_record", "by a full disk or a killed run: run it again with --resume, or delete the line"),
        ("foreign_record", "another schema"),
        ("extra_record", "2 records where 1"),
        ("other_case", "the record's size is 'small'"),
        ("other_way:placement", "the record's placement is 'pageable', but 'pinned' was requested"),
        ("other_way:staging", "the record's staging is 'async', but 'direct' was requested"),
        ("other_axis:n", "the record's n is 1, but 262144 was requested"),
        ("other_axis:threads", "the record's threads is 1, but 256 was requested"),
        ("missing_metric:kernel_rate", "lacks the metric 'kernel_rate'"),
        ("missing_metric:in_rate", "lacks the metric 'in_rate'"),
        ("missing_metric:kernel", "lacks the metric 'kernel'"),
        ("missing_metric:in", "lacks the metric 'in'"),
        ("missing_metric:out", "lacks the metric 'out'"),
        ("missing_metric:wall", "lacks the metric 'wall'"),
        ("missing_metric:host_alloc", "lacks the metric 'host_alloc'"),
        ("sets:verify.tolerance=1e12", "tolerates an error of 1e+12, but microbench/saxpy allows 1"),
        ("sets:axes.ghost=1", "the record has the axis 'ghost', which microbench/saxpy does not have"),
        ("sets:emulated=false", "the record says that it is not emulated, but its device is the emulator"),
        ('sets:schema="isthmus.record/1"', "another schema ('isthmus.record/1'), not isthmus.record/3"),
        ("interrupted", "Reason: interrupted: microbench/saxpy: it was asked to end before all samples were taken"),
        ("null_metric:in", "every sample is invalid"),
        ("zero_metric:kernel", "no operation takes zero time"),
        ("table:gone", "batches.csv.gz: the table 'batches' of record.jsonl is missing"),
        ("table:altered", "batches.csv.gz: the table 'batches' of record.jsonl has been altered"),
    ],
)
def test_red_everywhere(session, fake, why):
    outcome = session(fake=fake)
    assert outcome.returncode != 0
    assert "FAILED" in outcome.output
    assert why in outcome.output


@pytest.mark.parametrize(
    "field, why",
    [
        ("system", "the record is of system another, but this session is of s"),
        ("partition", "the record is of partition another, but this session is of p"),
        ("job", "the record is of job another, but this is no batch job"),
        ("node", "the record is of node another, but the job ran on"),
        ("time", "the record is of 2020-01-01T00:00:00Z, when this job did not run"),
    ],
)
def test_a_record_of_another_run_is_red(session, field, why):
    outcome = session(fake=f"another:{field}", site={})
    assert not outcome.green and why in outcome.output


@pytest.mark.parametrize(
    "fake, statement, red",
    [
        ("company:stays", {}, "(pid 7); this invalidates what was measured: end them, or state"),
        ("company:stays", {"shared_nodes": True}, None),
        ("company:ended", {}, None),
        (
            "warns:pcie_downtrained",
            {"shared_nodes": True},
            "the PCIe link runs at generation 3 of 5; this invalidates what was measured",
        ),
        ("warns:pcie_downtrained", {"pcie": "5 x8"}, None),
        ("warns:xid_errors", {}, "during the case; see the kernel's log; this invalidates what was measured"),
        ("warns:power_limited", {}, None),
    ],
)
def test_a_invalid_record_is_red_unless_it_is_stated(session, tmp_path, fake, statement, red):
    outcome = session(fake=f"gpu:cuda,{fake}", site=GPU | {"extras": {"isthmus": statement}})
    assert outcome.green if red is None else red in outcome.output and not outcome.green
    [kept] = (tmp_path / "results").iterdir()
    assert len(load.read(kept)[0]["warnings"]) == 1


def test_optional_metric_may_be_absent(session):
    assert session(fake="missing_metric:memory_peak").green
    assert session(fake="missing_metric:out_rate", select="TransferModes.*saxpy.*mode=uvm%.*tiny").green


def test_an_axis_that_a_person_chose_is_theirs(session):
    assert session("-r", "-S", "bench_options=--set,threads=1").green
    outcome = session("-r", "-S", "bench_options=--set,threads=1", fake="other_axis:n")
    assert not outcome.green and "the record's n is 1" in outcome.output


def test_records_of_a_red_check_are_kept(session, tmp_path):
    assert not session(fake="wrong_result").green
    [kept] = (tmp_path / "results").iterdir()
    assert load.read(kept)[0]["verify"]["status"] == "fail"


def test_tables_are_kept_beside_their_record(session, tmp_path):
    for _ in range(2):
        assert session(fake="table:whole").green
    kept = list((tmp_path / "results").glob("*.jsonl"))
    assert len(kept) == 2 and len(list((tmp_path / "results").glob("*.tables"))) == 2
    for path in kept:
        [record] = load.read(path)
        assert load.read_table(path, record, "batches") == [{"time": 0.5, "bytes": 4096}]


def test_unreadable_records_stay_out_of_the_results(session, tmp_path):
    assert not session(fake="cut_record").green
    assert not (tmp_path / "results").exists()


def test_results_are_never_overwritten(session, tmp_path):
    results = tmp_path / "elsewhere"
    for _ in range(2):
        assert session(ISTHMUS_RESULTS=results).green
    assert len(list(results.iterdir())) == 2


@pytest.mark.parametrize("fake, why", [("no_record", "no record"), ("killed", "exit code 137"), ("", None)])
def test_what_an_earlier_job_left_passes_for_nothing(session, tmp_path, fake, why):
    kept_stage = ("--keep-stage-files", "--dont-restage")
    assert session("-r", *kept_stage).green
    outcome = session("-r", *kept_stage, fake=fake)
    assert outcome.green if why is None else why in outcome.output and not outcome.green
    assert len(list((tmp_path / "results").iterdir())) == (1 if fake == "no_record" else 2)


@pytest.mark.parametrize(
    "said, red",
    [
        ("  ERROR: Module cannot be loaded due to a conflict.", True),
        ("==> Error: fmt matches multiple packages.", True),
        ("job.sh: line 4: module: not found", True),
        ("The following have been reloaded with a version change: 1) gcc/12 => gcc/13", False),
    ],
)
def test_an_environment_that_was_not_loaded_is_red_whoever_says_it(session, tmp_path, said, red):
    session("-l", site={})  # writes the site configuration
    file = tmp_path / "site/reframe.py"
    commands = [f"echo {shlex.quote(said)} >&2"]
    file.write_text(f"{file.read_text()}site_configuration['environments'][0]['prepare_cmds'] = {commands!r}\n")
    outcome = session("-C", str(file), "-r")
    assert outcome.green != red
    assert (
        f"the environment of s:p+builtin was not loaded ({said.strip()}): correct 'modules' there" in outcome.output
    ) == red


@pytest.mark.parametrize("mebibytes, red", [(0, False), (4, True)])
def test_an_environment_of_which_too_much_is_said_is_red(session, tmp_path, mebibytes, red):
    """Prints so much that part of the output is not read, although the error may be in that part."""
    session("-l", site={})  # writes the site configuration
    file = tmp_path / "site/reframe.py"
    commands = [f"yes loading | head -c {mebibytes << 20} >&2"]
    file.write_text(f"{file.read_text()}site_configuration['environments'][0]['prepare_cmds'] = {commands!r}\n")
    outcome = session("-C", str(file), "-r")
    assert outcome.green != red
    assert ("whether the environment of s:p+builtin was loaded is not known" in outcome.output) == red
    assert (", of which 2 MiB in the middle were not read" in outcome.output) == red


def test_a_configuration_that_contains_itself_is_one_sentence(session, tmp_path):
    session("-l", site={})  # writes the site configuration
    file = tmp_path / "site/reframe.py"
    lines = "extras = site_configuration['systems'][0]['partitions'][0]['extras'] = {}\nextras['all'] = [extras]\n"
    file.write_text(f"{file.read_text()}{lines}")
    outcome = session("-C", str(file), "-r")
    assert not outcome.ran and "Recursion" not in outcome.output
    assert "'systems' of site_configuration contains itself; write out the plain values" in outcome.output


def test_what_an_earlier_job_listed_passes_for_nothing(session):
    options = ("-r", "--keep-stage-files", "--dont-restage")
    select = "Memory.*family=latency.*tiny"
    assert session(*options, checks=ALL / "memory.py", select=select).green
    outcome = session(*options, checks=ALL / "memory.py", select=select, fake="no_list")
    assert not outcome.green and "list ended with exit code 2" in outcome.output


def test_a_list_that_was_cut_short_is_red(session):
    outcome = session(checks=ALL / "memory.py", select="Memory.*family=latency.*tiny", fake="cut_list")
    assert not outcome.green and "is not a list of workloads, or was cut short (" in outcome.output


def test_unwritable_results_are_red(session, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = session(ISTHMUS_RESULTS=tmp_path / "file")
    assert not outcome.green and "the record could not be kept in" in outcome.output
    assert "(File exists); it is still in" in outcome.output


def test_a_number_of_samples_that_was_asked_for_is_taken(session):
    assert session("-r", "-S", "samples=7").green
    outcome = session("-r", "-S", "samples=7", fake="one_sample")
    assert not outcome.green and "the record has 1 samples of kernel, but 7 were requested" in outcome.output
    assert "variables were not set" not in outcome.output


def test_fresh_processes_each_leave_a_record(session):
    assert session("-r", "-S", "processes=3").green


def test_options_for_the_program_are_a_list_of_words(session, tmp_path):
    assert session("-r", "-S", "bench_options=--budget,100,--warmups,1").green
    (record,) = (tmp_path / "results").iterdir()
    assert json.loads(record.read_text())["run"]["command"][-4:] == ["--budget", "100", "--warmups", "1"]


# --- a stated GPU ---


def test_stated_gpu_that_ran_is_green(session):
    assert session(fake="gpu:cuda", site=GPU).green


@pytest.mark.parametrize(
    "partition",
    [GPU, {"features": ["gpu"]}, {"features": ["nvidia"]}, {"devices": [{"type": "gpu", "arch": "sm_90"}]}],
    ids=["cuda", "gpu", "nvidia", "devices"],
)
def test_emulated_record_where_the_site_states_a_gpu_is_red(session, partition):
    outcome = session(site=partition)
    assert not outcome.green
    assert "but the record is emulated" in outcome.output


def test_another_vendor_than_stated_is_red(session):
    outcome = session(fake="gpu:hip", site=GPU)
    assert not outcome.green
    assert "states cuda, but hip ran" in outcome.output


def test_figure_beyond_its_limit_is_red(session):
    outcome = session(fake="gpu:cuda,beyond_limit:in", site=GPU)
    assert not outcome.green
    assert "200% of what PCIe 5 x16 allows" in outcome.output


def test_emulated_time_has_no_limit(session):
    assert session(fake="beyond_limit:in").green


def test_no_gpu_lacks_pinned_memory(session):
    outcome = session(fake="gpu:cuda,skip:unsupported", site=GPU)
    assert not outcome.green
    assert "states direct, pinned" in outcome.output


# --- skips ---


@pytest.mark.parametrize("kind", ["unsupported", "memory", "not_applicable"])
def test_skip_is_shown_with_its_reason(session, kind):
    outcome = session("-r", *MAY_SKIP, fake=f"skip:{kind}")
    assert outcome.green
    assert "SKIP" in outcome.output and ("512 MiB of 80 GiB" if kind == "memory" else "this device") in outcome.output


def test_a_session_in_which_everything_was_skipped_is_red(session):
    outcome = session(fake="skip:not_applicable", select="TransferModes.*saxpy.*mode=pm.*tiny")
    assert outcome.returncode == 1
    assert "nothing was measured, because all 2 checks were skipped" in outcome.output
    assert session(
        fake="skip:not_applicable@microbench/gemm", select="TransferModes.*(saxpy|gemm).*mode=pm%.*tiny"
    ).green


@pytest.mark.parametrize("stated, red", [("80GiB", True), ("1GiB", False), (None, False)])
def test_a_case_that_fits_and_was_skipped_for_memory_is_red(session, stated, red):
    extras = {"device_memory": stated} if stated else {}
    outcome = session("-r", *MAY_SKIP, fake="gpu:cuda,skip:memory", site=GPU | {"extras": {"isthmus": extras}})
    assert outcome.green != red
    assert ("states 80GiB of device memory: end what uses the rest" in outcome.output) == red


@pytest.mark.parametrize("site", [{"features": ["pinned"]}, {"extras": {"isthmus": {"capabilities": ["pinned"]}}}])
def test_skip_of_a_stated_capability_is_red(session, site):
    outcome = session(fake="skip:unsupported", site=site)
    assert not outcome.green
    assert "states pinned" in outcome.output


def test_skip_for_memory_denies_no_capability(session):
    assert session("-r", *MAY_SKIP, fake="skip:memory", site={"features": ["pinned"]}).green


# --- references ---


def test_profiled_times_are_held_to_no_reference(session):
    references = IN_BOUND.replace("0.25", "0.1")
    assert session(fake="gpu:cuda,profiled", site=GPU, references=references).green
    assert not session(fake="gpu:cuda,profiled", site=requiring("in"), references=references).green


def test_unreferenced_is_green_where_none_is_required(session):
    assert session(fake="gpu:cuda", site=GPU).green


def test_missing_reference_is_red_where_required(session):
    outcome = session(fake="gpu:cuda", site=requiring())
    assert not outcome.green
    assert "no reference for" in outcome.output


def test_required_reference_that_holds_is_green(session):
    assert session(fake="gpu:cuda", site=requiring("in"), references=IN_BOUND).green


@pytest.mark.parametrize(
    "references",
    [
        IN_BOUND.replace("saxpy", "gemm"),
        IN_BOUND.replace("workload:", "driver: '580.*', workload:"),
        IN_BOUND.replace("workload:", "partition: q, workload:"),
    ],
    ids=["other workload", "other driver", "other partition"],
)
def test_reference_of_another_case_is_none(session, references):
    outcome = session(fake="gpu:cuda", site=requiring("in"), references=references)
    assert not outcome.green
    assert "no reference for 'in'" in outcome.output


def test_reference_for_this_driver_is_found(session):
    references = IN_BOUND.replace("workload:", "driver: '570[.].*', workload:")
    assert session(fake="gpu:cuda", site=requiring("in"), references=references).green


def test_figure_outside_its_reference_is_red(session):
    assert session(fake="gpu:cuda", site=GPU, references=IN_BOUND).green
    outcome = session(fake="gpu:cuda,slow", site=GPU, references=IN_BOUND)
    assert not outcome.green
    assert "in=0.5 s, expected 0.25" in outcome.output


@pytest.mark.parametrize(
    "references, why",
    [
        (IN_BOUND + IN_BOUND, "two references for in"),
        (IN_BOUND.replace(", s]", ", ms]"), "is in 'ms'"),
        (IN_BOUND.replace(", s]", "]"), "is not [value, lower, upper, unit]"),
        (IN_BOUND.replace("-0.1, 0.1", "null, null"), "has no tolerance, so it bounds nothing"),
        (IN_BOUND.replace("0.25, -0.1, 0.1", "0, null, 0.1"), "value is 0, which has no fractions"),
        (IN_BOUND.replace("workload", "wrkload"), "unknown key 'wrkload'"),
        (IN_BOUND.replace("{in:", "{inn:"), "which this case does not report"),
        ("just text", "not a list of entries"),
        ("- just text", "not a mapping"),
        ("- [", "not YAML"),
    ],
)
def test_reference_that_cannot_hold_is_red(session, references, why):
    outcome = session(fake="gpu:cuda", site=GPU, references=references)
    assert not outcome.green
    assert why in outcome.output


def test_a_file_of_references_that_is_not_read_is_red(session, tmp_path):
    assert session(fake="gpu:cuda", site=GPU, references=IN_BOUND).green
    (tmp_path / "site/references/own.yml").write_text(IN_BOUND)
    outcome = session(fake="gpu:cuda", site=GPU, references=IN_BOUND)
    assert not outcome.green and "call it own.yaml" in outcome.output


def test_a_file_of_references_that_no_file_names_is_red(session, tmp_path):
    assert session(fake="gpu:cuda", site=GPU, references=IN_BOUND).green
    (tmp_path / "site/references/h200").mkdir()
    (tmp_path / "site/references/h200/all.yaml").write_text(IN_BOUND)
    outcome = session(fake="gpu:cuda", site=GPU, references=IN_BOUND)
    assert not outcome.green and "references/h200/all.yaml: nothing in it applies, because no file" in outcome.output


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda place: place.symlink_to("moved-away"), "a link that leads nowhere, so no reference in it would apply"),
        (lambda place: place.write_text(IN_BOUND), "Not a directory, so no reference in it would apply"),
    ],
)
def test_references_that_cannot_be_read_are_not_a_site_without_any(session, tmp_path, make, why):
    session("-l", site=GPU)
    (tmp_path / "site/references").rmdir()
    own = ("-C", str(tmp_path / "site/reframe.py"), "-r")
    assert session(*own, fake="gpu:cuda").green
    make(tmp_path / "site/references")
    outcome = session(*own, fake="gpu:cuda")
    assert not outcome.green and why in outcome.output


EXTRA = "site_configuration = {'general': [{'verbose': 0}]}\n"


@pytest.mark.parametrize("extra", [EXTRA, None], ids=["of no system", "of the same system"])
def test_references_hold_whichever_configuration_file_comes_last(session, tmp_path, extra):
    (tmp_path / "own").mkdir()
    last = tmp_path / "own/reframe.py"
    last.write_text(extra or site_configuration(GPU))
    outcome = session("-r", "-C", str(last), fake="gpu:cuda,slow", site=GPU, references=IN_BOUND)
    assert not outcome.green and "in=0.5 s, expected 0.25" in outcome.output
    files = f"{tmp_path / 'site/reframe.py'}:{last}"
    outcome = session("-r", fake="gpu:cuda,slow", RFM_CONFIG_FILES=files)
    assert not outcome.green and "in=0.5 s, expected 0.25" in outcome.output
    (tmp_path / "site/references/transfer_modes.yaml").write_text(
        IN_BOUND.replace("workload:", "partition: q, workload:")
    )
    assert "no partition is called 'q'" in session("-r", fake="gpu:cuda", RFM_CONFIG_FILES=files).output


def test_references_of_another_system_do_not_hold(session, tmp_path):
    (tmp_path / "other/references").mkdir(parents=True)
    (tmp_path / "other/reframe.py").write_text(site_configuration(GPU).replace("'name': 's'", "'name': 't'"))
    (tmp_path / "other/references/own.yaml").write_text(IN_BOUND.replace("0.25", "0.1"))
    other = ("-r", "-C", str(tmp_path / "other/reframe.py"))
    assert session(*other, "--system=s", fake="gpu:cuda", site=GPU, references=IN_BOUND).green
    assert not session(*other, "--system=t", fake="gpu:cuda", site=GPU, references=IN_BOUND).green


def test_references_hold_where_the_configuration_is_a_link(session, tmp_path):
    session("-l", site=GPU, references=IN_BOUND.replace("workload:", "partition: p, workload:"))
    (tmp_path / "link").symlink_to("site")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/reframe.py").symlink_to(tmp_path / "site/reframe.py")
    for place in ("link", "own"):
        own = ("-C", f"{place}/reframe.py", "-r")
        assert session(*own, fake="gpu:cuda").green
        assert "in=0.5 s, expected 0.25" in session(*own, fake="gpu:cuda,slow").output


MEASURED = """
$index: [partition, arch, driver, compiler]
$fingerprints:
  "0a1b2c3d": {kernel: "0"}
p:
  fake:
    "570[.]86[.]10":
      none:
        - workload: microbench/saxpy
          version: 1
          size: tiny
          axes: {n: 262144}
          metrics:
            in: {value: 0.25, lower: null, upper: 0.1, unit: s, n: 8, nodes: 1, interval: [0.2, 0.3],
                 date: "2026-11-21", fingerprint: "0a1b2c3d"}
"""


def test_references_as_they_are_made_from_records_hold(session):
    assert session(fake="gpu:cuda", site=requiring("in"), references=MEASURED).green
    outcome = session(fake="gpu:cuda,slow", site=GPU, references=MEASURED)
    assert not outcome.green and "in=0.5 s, expected 0.25" in outcome.output
    other_driver = MEASURED.replace("570", "580")
    assert "no reference for 'in'" in session(fake="gpu:cuda", site=requiring("in"), references=other_driver).output


def test_a_link_at_half_its_width_is_red_without_any_reference(session):
    assert session(fake="gpu:cuda,lanes:16", site=GPU).green
    outcome = session(fake="gpu:cuda,lanes:8", site=GPU)
    assert not outcome.green
    assert "in_rate is 44% of what PCIe 5 x16 (it runs as PCIe 5 x8) allows" in outcome.output


def test_a_site_may_know_better_than_the_usual_share(session):
    shares = "- {workload: microbench/.*, shares: {in_rate: 0.4}}\n"
    assert session(fake="gpu:cuda,lanes:8", site=GPU, references=shares).green
    reference = "- {workload: microbench/saxpy, metrics: {in_rate: [27.7e9, -0.1, null, B/s]}}\n"
    assert session(fake="gpu:cuda,lanes:8", site=GPU, references=reference).green


@pytest.mark.parametrize("name", ["executable", "executable_opts", "postrun_cmds", "TransferModes.executable_opts"])
def test_a_variable_that_checks_overwrite_is_refused(session, name):
    outcome = session("-r", "-S", f"{name}=x")
    assert outcome.returncode == 1 and not outcome.ran
    assert f"-S {name}=… has no effect, because the checks set it: " in outcome.output


@pytest.mark.parametrize(
    "name, instead",
    [
        ("device", "choose the partition with --system"),
        ("TransferModes.compiler", "choose the programming environment with -p"),
        ("profiled_by", "choose the profiler with -S profiler=NAME"),
        ("boot", "leave it out"),
        ("unjudged", "leave it out"),
    ],
)
def test_a_variable_that_is_a_result_is_refused(session, name, instead):
    outcome = session("-r", "-S", f"{name}=x")
    assert outcome.returncode == 1 and not outcome.ran
    assert f"-S {name}=… has no effect, because it is a result of the measurement: {instead}" in outcome.output


def test_a_share_of_another_limit_is_named(session):
    """States a share of a limit that does not apply. The usual share is used instead, which may be lower."""
    shares = "- {workload: microbench/.*, limit: 'PCIe 4', shares: {in_rate: 0.95}}\n"
    outcome = session(fake="gpu:cuda,lanes:16", site=GPU, references=shares)
    assert outcome.green
    selects = "does not match the limit of the 1 figure that it otherwise selects (PCIe 5"
    assert f"entry 1: its limit 'PCIe 4' {selects}" in outcome.output
    right = session(fake="gpu:cuda,lanes:16", site=GPU, references=shares.replace("PCIe 4", "PCIe 5"))
    assert not right.green and "in_rate is 88% of what PCIe 5 x16 allows, less than the 95%" in right.output


@pytest.mark.parametrize("references, why", [
    ("- {workload: microbench/.*, limit: pcie, shares: {in_rate: 0.95}}", "did you mean 'PCIe'?"),
    ("- {workload: micorbench/.*, shares: {in_rate: 0.95}}", "did you mean 'microbench'?"),
    ("- {workload: microbench/.*, placement: pined, shares: {in_rate: 0.95}}", "did you mean 'pinned'?"),
])  # fmt: skip
def test_a_share_that_holds_nothing_is_red(session, references, why):
    outcome = session(fake="gpu:cuda,lanes:16", site=GPU, references=references)
    assert not outcome.green and outcome.ran and why in outcome.output


def test_a_link_that_is_less_than_the_site_states_is_red(session):
    site = {**GPU, "extras": {"isthmus": {"pcie": "6 x16"}}}
    outcome = session(fake="gpu:cuda,lanes:16", site=site)
    assert not outcome.green
    assert "of what PCIe 6 x16 (it runs as PCIe 5 x16) allows" in outcome.output


# --- performance functions ---

SUBCLASS = """
import sys
sys.path.append({plugins!r})
import reframe as rfm
import reframe.core.builtins as builtins
from isthmus_reframe.check import IsthmusCheck

@rfm.simple_test
class Own(IsthmusCheck):
    workload, mode, size = 'microbench/saxpy', 'pm', 'tiny'

    @builtins.performance_function('s')
    def derived(self):
        {body}
"""


@pytest.mark.parametrize(
    "body, why",
    [
        ("return 1.0", None),
        ("raise ValueError('no such column')", "no such column"),
        ("return [1.0, 2.0]", "not a number"),
        ("return float('nan')", "not a number"),
        ("return None", "not a number"),
    ],
)
def test_exception_or_nonsense_in_a_performance_function_is_red(session, tmp_path, body, why):
    checks = tmp_path / "own"
    checks.mkdir()
    (checks / "own.py").write_text(SUBCLASS.format(plugins=str(ROOT / "reframe"), body=body))
    outcome = session(checks=checks, select="Own")
    assert outcome.green == (why is None)
    if why:
        assert why in outcome.output
    else:
        assert "P: derived: 1.0 s" in outcome.output


# --- selections ---


def test_empty_selection_is_red(session):
    outcome = session(select="no_such_check")
    assert outcome.returncode != 0
    assert "nothing to run" in outcome.output


@pytest.mark.parametrize("site", ["generic", "example-slurm"])
def test_a_path_without_checks_is_red(reframe, tmp_path, site):
    command = [reframe, "-C", ROOT / f"site-configs/{site}/reframe.py", "-c", ROOT / "reframe/cheks", "-t", "smoke"]
    for option, code in (("-r", 1), ("-l", 0)):
        done = subprocess.run(
            [*command, option], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
            env=environment(TMPDIR=tmp_path),
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        assert ("nothing to run: no check was found; check the path after -c" in done.stderr + done.stdout) == code


@pytest.mark.parametrize(
    "site, select, why",
    [
        ({"features": []}, "TransferModes.*super", "s:p: no GPU is stated, so checks that need one are left out"),
        ({"environs": []}, "TransferModes", "s:p lists no environment"),
        (GPU, "no_such_check", "on this system; list the checks"),
    ],
)
def test_empty_selection_says_what_the_site_leaves_out(session, site, select, why):
    outcome = session(site=site, select=select)
    assert outcome.returncode != 0
    assert why in outcome.output


@pytest.mark.parametrize("word, new", [("wc", "write_combined"), ("malloc", "pageable")])
@pytest.mark.parametrize("as_feature", [True, False])
def test_an_old_word_for_a_memory_is_refused_with_the_new_one(session, word, new, as_feature):
    site = {"features": ["gpu", word]} if as_feature else GPU | {"extras": {"isthmus": {"capabilities": [word]}}}
    outcome = session("-r", site=site)
    assert outcome.returncode != 0
    assert f"s:p states {word!r}, which is now called {new!r}; write that" in outcome.output


def test_a_host_that_the_site_does_not_know_is_refused(session, tmp_path):
    """Runs on a host that no system matches. Otherwise, ReFrame would use a generic system and measure the login
    node."""
    session("-l", site=GPU)  # writes the site configuration
    file = tmp_path / "site/reframe.py"
    file.write_text(file.read_text().replace("'.*'", "'no-such-host'"))
    outcome = session("-C", str(file), "-r")
    assert outcome.returncode != 0
    assert "not a system in" in outcome.output
    assert session("-C", str(file), "--system=s:p", "-r", fake="gpu:cuda").green


def test_a_path_with_a_blank_is_refused_once(session, tmp_path):
    """Uses paths with a space, which are refused once per session. ReFrame does not quote paths, so otherwise each
    check would be red for a different reason."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b/isthmus-bench").symlink_to(FAKE)
    for options, env in (
        (["-r", f"--prefix={tmp_path}/a b"], {}),
        (["-r"], {"ISTHMUS_BENCH": tmp_path / "a b/isthmus-bench"}),
    ):
        outcome = session(*options, **env)
        assert outcome.returncode != 0 and not outcome.ran
        assert "contains a blank, so ReFrame cannot start jobs there; move or rename it" in outcome.output


@pytest.mark.parametrize("action", ["-l", "-L", "--list-tags", "--describe"])
def test_looking_at_an_empty_selection_is_no_failure(session, action):
    assert session(action, select="no_such_check").returncode == 0


# --- options ---


@pytest.mark.parametrize(
    "check", ["TransferModes.*saxpy.*mode=pm%.*tiny", "DriverCosts.*launch.*tiny", "Memory.*alloc.*tiny"]
)
def test_a_time_limit_that_a_person_sets_holds(session, tmp_path, check):
    session("--dry-run", "-S", "time_limit=7m", checks=ALL, select=check, site={"scheduler": "squeue"})
    [script] = [path for path in tmp_path.glob("stage/**/rfm_job.sh") if "Listing" not in str(path)]
    assert "--time=0:7:0" in script.read_text()


@pytest.mark.parametrize("name", ["sampels", "TransferMods.samples", "TransferModes.sampels"])
def test_a_variable_that_no_check_has_is_red(session, name):
    outcome = session("-r", "-S", f"{name}=7")
    assert outcome.returncode == 1 and not outcome.ran
    assert f"-S {name}=…: no chosen check has such a variable" in outcome.output


def test_a_variable_that_some_check_has_is_set(session):
    assert session("-r", "-S", "TransferModes.samples=7").green
    # Only one of the two checks has the variable `force`.
    select = "TransferModes.*saxpy.*mode=pm%.*tiny|InterJob.*saxpy.*tiny"
    assert session("-r", "-S", "force=1", checks=ALL, select=select).green


def test_checks_with_and_without_gpus(session):
    def listed(*options, site=GPU):
        select = "TransferModes.*saxpy.*mode=pm%.*tiny|Transfer .*(host-to-host|host-to-gpu).*tiny"
        output = session("-l", *options, checks=ALL, site=site, select=select.replace(" ", "")).output
        return [
            name for name in ("TransferModes", "=host-to-host", "=host-to-gpu") if name in output.partition("[List")[2]
        ]

    assert listed("--gpu-only") == ["TransferModes", "=host-to-gpu"]
    assert listed("--cpu-only") == ["=host-to-host"]
    assert listed("--cpu-only", site={}) == ["TransferModes", "=host-to-host", "=host-to-gpu"]


def test_a_generated_pipeline_runs_what_was_selected(session, tmp_path):
    asked = ("--ci-generate=pipeline.yml", "-S", "samples=3")
    outcome = session(*asked, checks=ALL / "memory.py", select="Memory.*latency.*tiny", site={})
    assert outcome.returncode == 0
    pipeline = yaml.safe_load((tmp_path / "pipeline.yml").read_text())
    [job] = [job for name, job in pipeline.items() if name.startswith("Memory")]
    assert not [name for name in pipeline if name.startswith("Listing")] and job["needs"] == []
    [script] = job["script"]
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    result = run_in(tmp_path, "bash", "-c", script, ISTHMUS_BENCH=FAKE, PATH=path, CI_COMMIT_SHORT_SHA="x")
    assert result.returncode == 0 and "Ran 2/2" in result.stdout
    assert "variables were not set" not in result.stdout  # the job that lists workloads does not need `samples`
    [record] = (tmp_path / "results").iterdir()
    assert "--samples 3" in " ".join(load.read(record)[0]["run"]["command"])
    assert session("--ci-generate=none.yml", select="no_such_check").returncode != 0


def test_a_check_file_that_does_not_load_is_red(session, tmp_path):
    checks = tmp_path / "own"
    checks.mkdir()
    (checks / "own.py").write_text(SUBCLASS.format(plugins=str(ROOT / "reframe"), body="return 1.0"))
    assert session(checks=checks, select="Own").green
    (checks / "a_broken.py").write_text("import reframe as rfm\nimport no_such_module\n" + BROKEN)
    outcome = session(checks=checks, select="Own")
    assert outcome.returncode == 1 and "a_broken.py could not be loaded (No module named" in outcome.output


BROKEN = "@rfm.simple_test\nclass Broken(rfm.RunOnlyRegressionTest):\n    pass\n"


def test_dry_run_measures_nothing_and_is_green(session, tmp_path):
    outcome = session("--dry-run")
    assert outcome.green and "Nothing was measured, and nothing judged (--dry-run)" in outcome.output
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "options, why",
    [
        (["--disable-hook=nothing_dropped"], "--disable-hook=nothing_dropped would leave TransferModes"),
        (["--disable-hook=look_at_job"], "--disable-hook=look_at_job would leave TransferModes"),
        (["--disable-hook=nothing_droped"], "--disable-hook=nothing_droped: no chosen check has such a hook"),
        (["-S", "strict_check=0"], "is not strict, so figures outside their references would pass"),
        (["-S", "TransferModes.strict_check=no"], "is not strict, so figures outside their references would pass"),
    ],
)
def test_a_gate_that_is_switched_off_is_refused_before_anything_runs(session, options, why):
    outcome = session("-r", *options)
    assert outcome.returncode == 1 and not outcome.ran and why in outcome.output


@pytest.mark.parametrize(
    "option, returncode, said",
    [
        ("--skip-sanity-check", 1, "nothing was judged (--skip-sanity-check): the records are kept"),
        ("--skip-performance-check", 0, "no figure was judged (--skip-performance-check)"),
        ("--disable-hook=tag", 0, "without 1 hook of the checks: tag"),
    ],
)
def test_a_session_that_was_told_not_to_judge_says_so(session, tmp_path, option, returncode, said):
    outcome = session("-r", option, f"--report-file={tmp_path}/report.json")
    assert outcome.returncode == returncode and said in outcome.output
    assert len(list((tmp_path / "results").iterdir())) == 1
    summary = nightly.summarise([nightly.load(tmp_path / "report.json")])
    if option.startswith("--skip"):
        assert summary["verdict"] == "red" and f"was run without judging ({option})" in summary["why"]
    else:
        assert summary["verdict"] == "green"


def test_missing_program_is_red(session, tmp_path):
    outcome = session(ISTHMUS_BENCH=tmp_path / "none")
    assert not outcome.green
    assert "no such program" in outcome.output


# --- the tree as typed, and the wrapper ---


def test_as_typed_from_the_reframe_folder_builds_once(tree, reframe, wrapper):
    result = run_in(tree / "reframe", reframe, "-c", "checks/", "-r")
    assert result.returncode == 0
    assert "settings files:    '<builtin>'" in result.stdout
    assert f"The program: built in {tree}/build/programs/" in result.stdout
    assert list((tree / "reframe/results").glob("*.jsonl"))
    # Another session and the wrapper do not build again.
    again = run_in(tree, reframe, "-c", "reframe/checks", "-r", "-n", "saxpy")
    wrapped = wrapper("-n", "saxpy%mode=pm%", ISTHMUS_BENCH="")
    for session in (again, wrapped):
        assert session.returncode == 0
        assert f"The program: reused from {tree}/build/programs/" in session.stdout
    assert len((tree / "builds").read_text().splitlines()) == 1


def test_as_typed_from_the_root(tree, reframe):
    assert run_in(tree, reframe, "-c", "reframe/checks", "-r", "-n", "saxpy").returncode == 0


def test_failed_build_is_red(tree, reframe):
    (tree / "scripts/build").write_text("#!/bin/sh\necho 'error: no such header'\nexit 1\n")
    assert run_in(tree / "reframe", reframe, "-c", "checks/", "-r", "-n", "saxpy").returncode != 0


def test_site_says_what_is_built(tree, reframe):
    devices = [{"type": "gpu", "arch": "sm_90", "num_devices": 1}]
    (tree / "site.py").write_text(site_configuration({"devices": devices}))
    result = run_in(tree, reframe, "-C", "site.py", "-c", "reframe/checks", "-r", "-n", "saxpy.*tiny")
    assert result.returncode != 0  # because the fake program uses the emulator
    [asked] = (tree / "builds").read_text().splitlines()
    assert asked.startswith("--backend cuda ") and "--architectures 90 " in asked


def test_wrapper_passes_options_and_the_verdict_on(tree, wrapper):
    assert wrapper("-n", "saxpy%mode=pm%").returncode == 0
    assert wrapper("-n", "saxpy%mode=pm%", FAKE_BENCH="exit:7").returncode == 1


def test_wrapper_refuses_an_empty_selection(tree, wrapper):
    assert wrapper("-n", "no_such_check").returncode != 0
    assert wrapper("-t", "no_such_tag").returncode != 0


def test_wrapper_runs_what_a_budget_chose(tree, wrapper):
    listed = wrapper("-l", "-n", "saxpy%mode=pm%").stdout
    [line] = [line for line in listed.splitlines() if line.startswith("- TransferModes")]
    chosen = tree / "chosen"
    chosen.write_text(f"# a comment\n\n/{line.rpartition('/')[2]}  # {line}\n")
    result = wrapper("--select", chosen)
    assert result.returncode == 0
    assert "Ran 1/1" in result.stdout
    os.mkfifo(tree / "silent")
    for path, why in (("silent", "a pipe that nobody writes to"), ("long", "at most 1 MiB")):
        (tree / "long").write_text("saxpy\n" * 200_000)
        result = wrapper("--select", tree / path)
        assert result.returncode == 1 and why in result.stdout
    chosen.write_text("# nothing\n")
    for file, why in ((chosen, "selects nothing"), (tree / "none", "needs a file that can be read")):
        result = wrapper("--select", file)
        assert result.returncode == 1
        assert why in result.stdout and "Ran" not in result.stdout


def test_wrapper_lists(tree, wrapper):
    result = wrapper("-l")
    assert result.returncode == 0
    assert "TransferModes %workload=saxpy" in result.stdout
    assert not (tree / "results").exists()


def test_wrapper_says_that_everything_was_skipped(tree, wrapper):
    result = wrapper("-n", "saxpy%mode=pm%", FAKE_BENCH="skip:memory")
    assert result.returncode == 1
    assert "nothing was measured" in result.stdout


def test_wrapper_sees_a_check_file_that_does_not_load(tree, wrapper):
    (tree / "reframe/checks/broken.py").write_text(
        "import no_such_module\nimport reframe as rfm\n\n"
        "@rfm.simple_test\nclass Broken(rfm.RunOnlyRegressionTest):\n    pass\n"
    )
    result = wrapper("-n", "saxpy%mode=pm%")
    assert result.returncode == 1
    assert "could not be loaded" in result.stdout


def test_generic_site_states_a_gpu_only_where_one_was_found(tree, wrapper):
    assert wrapper("-n", "saxpy%mode=pm%.*tiny", ISTHMUS_BACKEND="host").returncode == 0
    result = wrapper("-n", "saxpy%mode=pm%.*tiny", ISTHMUS_BACKEND="cuda")
    assert result.returncode == 1
    assert "the record is emulated" in result.stdout


@pytest.mark.parametrize("visible, several", [(None, True), ("1", False)])
def test_generic_site_states_as_many_gpus_as_there_are(tree, wrapper, visible, several):
    tools = tree / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: fake'\necho '  MIG 1g.10gb'\necho 'GPU 1: fake'\n")
    (tools / "nvidia-smi").chmod(0o755)
    path = f"{tools}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    chosen = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    result = wrapper("-l", "-t", "peer", ISTHMUS_BACKEND="cuda", PATH=path, **chosen)
    assert ("Transfer %pairs=groups" in result.stdout) == several


# --- the table of contents ---


def test_list_on_a_machine_without_gpu_has_only_the_smallest_size(session):
    lines = [line for line in session("-l", select=None).output.splitlines() if line.startswith("- TransferModes")]
    assert lines and all("%size=tiny" in line for line in lines)
    assert len(lines) % 6 == 0


def test_list_on_a_gpu_has_every_size(session):
    output = session("-l", select="TransferModes.*saxpy.*mode=pm%", site=GPU).output
    for size in ("tiny", "small", "medium", "large", "super", "mega"):
        assert f"%workload=saxpy %mode=pm %size={size}" in output


def test_detect_backend_obeys_and_refuses():
    script = ROOT / "scripts/detect-backend"
    assert run_in(ROOT, script, ISTHMUS_BACKEND="hip").stdout.splitlines()[-1] == "hip"
    assert run_in(ROOT, script, ISTHMUS_BACKEND="opencl").returncode == 2


def test_a_session_of_a_given_length_ends_as_it_was_asked_to(session, tmp_path):
    """Ends sessions by --duration. A session that has measured something is green, and so is the summary of its
    night."""
    long = session("-r", "--report-file=long.json", "--duration=15s")
    assert long.green and "ERROR" not in long.output and "reached its --duration" in long.output
    assert nightly.summarise([nightly.load(tmp_path / "long.json")])["verdict"] == "green"
    short = session("-r", "--report-file=short.json", "--duration=3s", fake="hangs:0")
    assert short.returncode == 1 and "nothing was measured before --duration ended the session" in short.output


# --- settings without effect ---


@pytest.mark.parametrize(
    "site, why",
    [
        ({"extras": {"istmus": {"device_memory": "80GiB"}}}, "did you mean 'isthmus'?"),
        ({"extras": {"isthmus": {"device_memry": "80GiB"}}}, "did you mean 'device_memory'?"),
        ({"extras": {"isthmus": {"device_memory": "80"}}}, "device_memory is '80'; write an amount such as '80GiB'"),
        ({"modules": ["cuda/99.9"]}, "modules (cuda/99.9) are never loaded: modules_system is 'nomod'"),
        ({"env_vars": [["WHERE", "FILL_IN"]]}, "env_vars is still to be filled in (FILL_IN)"),
        ({"devices": [{"type": "gpu", "num_devices": -1}]}, "num_devices is -1; write a whole number of at least 1"),
    ],
)
def test_a_setting_without_effect_starts_no_session(session, tmp_path, site, why):
    outcome = session(site=site)
    assert outcome.returncode == 1 and not outcome.ran
    assert f"s:p: {why}" in outcome.output or why in outcome.output
    assert "`isthmus site check` shows everything that is wrong" in outcome.output
    assert not (tmp_path / "results").exists()
    dry = session("--dry-run", site=site)  # only warns, because a dry run may be on another machine
    assert dry.returncode == 0 and why in dry.output


def test_a_partition_without_its_queue_is_seen_from_another(session, tmp_path):
    configuration = site_configuration({"scheduler": "squeue", "launcher": "srun", "access": []})
    other = "{'name': 'q', 'scheduler': 'squeue', 'launcher': 'srun', 'environs': ['builtin'], 'access': ['-p q']}"
    (tmp_path / "own").mkdir()
    (tmp_path / "own/reframe.py").write_text(
        f"{configuration}site_configuration['systems'][0]['partitions'].append({other})\n"
    )
    outcome = session("-r", "-C", str(tmp_path / "own/reframe.py"), "--system=s:p")
    assert outcome.returncode == 1 and not outcome.ran
    assert "s:p: access has no --partition, unlike that of q: its jobs go to the default queue" in outcome.output


def test_a_reference_that_holds_nothing_is_red_and_nothing_measured_is_lost(session, tmp_path):
    reference = IN_BOUND.replace("workload:", "arch: sm_90, workload:")
    outcome = session(site={}, references=reference)
    assert outcome.returncode == 1 and outcome.ran
    assert "never applies: it is for arch 'sm_90', but p states no GPU" in outcome.output
    assert len(list((tmp_path / "results").glob("*.jsonl"))) == 1
    with_gpu = {**GPU, "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 1}]}
    assert "never applies" not in session(fake="gpu:cuda", site=with_gpu, references=reference).output


def test_a_variable_that_only_checks_have_is_no_warning(session):
    """Sets `samples`, which the checks have, but not the lists of workloads that the checks depend on."""
    outcome = session("-r", "-S", "samples=3", checks=ALL / "memory.py", select="Memory.*latency.*tiny", site=GPU)
    assert outcome.ran and "were not set" not in outcome.output
    assert "were not set: 'sampels'" in session("-l", "-S", "sampels=3").output


def test_a_site_that_registers_a_launcher_runs(session, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/reframe.py").write_text(
        "from reframe.core.backends import register_launcher\n"
        "from reframe.core.launchers import JobLauncher\n\n\n"
        "@register_launcher('wrapped')\nclass Wrapped(JobLauncher):\n    def command(self, job):\n"
        "        return ['env']\n\n\n" + site_configuration({"launcher": "wrapped"})
    )
    assert session("-r", "-C", str(tmp_path / "own/reframe.py")).green
