"""Tests of `isthmus references`: bounds with a stated rate of false alarms, the printed diff, and unbounded cases."""

import datetime
import json
import math
import re

import histories
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from isthmus import cli, exits
from isthmus.references import lookup
from isthmus.references import measured as measured_file
from isthmus.references.bounds import of as bounds_of
from isthmus.statistics import rank_test

SITE = """
site_configuration = {"systems": [{"name": "s", "hostnames": [".*"], "partitions": [
    {"name": "local", "devices": [{"type": "gpu", "arch": "fake", "num_devices": 1}]}]}], "environments": []}
"""


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "references").mkdir(parents=True)
    (folder / "reframe.py").write_text(SITE)
    return folder


def kept(tmp_path, jobs=10, *, days=5, name="records.jsonl", history=None, **changes):
    """Writes records of two workloads, from jobs before and after a driver change, over some days."""
    changes = {"run__system": "s", "run__partition": "local"} | changes
    history = history or histories.History(nodes=2)
    cases = histories.jobs_of(history, 3, jobs, workloads=("microbench/saxpy", "microbench/gemm"), **changes)
    for number, case in enumerate(cases):
        day = datetime.datetime(2026, 1, 1 + number % days)
        case["run"]["time"] = day.strftime("%Y-%m-%dT%H:%M:%SZ")
        case["run"]["id"] += name  # so that records of two files are not copies of each other
    return histories.write(tmp_path / "kept", cases, name)


def isthmus(*arguments):
    return cli.main(["references", *map(str, arguments)])


def measured(site):
    path = site / "references/measured-local.yaml"
    return lookup.load_file(path)


# --- the rate of false alarms ---


def alarms(chance, history, *, jobs, metrics, nights, wanted):
    """Returns the number of false alarms per night, with bounds from `jobs` jobs per node, when one more job runs on
    one of the nodes."""
    tail = wanted / metrics
    before, after = histories.medians(chance, history, nights * metrics, jobs)
    count = 0
    which = chance.integers(history.nodes, size=nights * metrics)
    for trial in range(nights * metrics):
        values = {(f"n{node}", ""): list(np.exp(before[trial, node])) for node in range(history.nodes)}
        found = bounds_of(histories.series_of({"A": values}), tail, floor=0)
        count += math.exp(after[trial, which[trial], 0]) > found.value * (1 + found.upper)
    return count / nights


@pytest.mark.parametrize(
    "name, history, jobs",
    [
        ("8 jobs on one node", histories.History(), 8),
        ("30 jobs on one node", histories.History(), 30),
        ("4 like nodes, 4 jobs each", histories.History(nodes=4), 4),
        ("4 unlike nodes, 4 jobs each", histories.History(nodes=4, node_effect=0.01), 4),
    ],
)
def test_false_alarms_are_as_many_as_stated(name, history, jobs, capsys, record_property):
    nights, wanted = 200, 0.5
    seen = alarms(np.random.default_rng(7), history, jobs=jobs, metrics=50, nights=nights, wanted=wanted)
    error = math.sqrt(wanted / nights)
    histories.tell(capsys, record_property, f"{name}: {seen:.2f} ± {error:.2f} false alarms a night, {wanted} stated")
    # There may be fewer false alarms, because the bound includes the worst job seen, and unlike nodes widen the common
    # bound.
    assert seen < wanted + 4 * error
    if history.nodes == 1:
        assert seen > wanted / 2


def test_heavy_tails_give_more_false_alarms_as_the_page_says(capsys, record_property):
    history = histories.History(tails="heavy")
    seen = alarms(np.random.default_rng(7), history, jobs=8, metrics=50, nights=100, wanted=0.5)
    histories.tell(
        capsys, record_property, f"heavy tails: {seen:.2f} ± {math.sqrt(seen / 100):.2f} a night, 0.5 stated"
    )
    assert 0.5 < seen < 3


def test_a_step_of_five_deviations_is_found():
    chance, found = np.random.default_rng(1), 0
    before, after = histories.medians(chance, histories.History(step=0.10), 400, 12)
    for trial in range(400):
        values = {("n", ""): list(np.exp(before[trial, 0]))}
        bound = bounds_of(histories.series_of({"A": values}), 0.1 / 500)
        found += math.exp(after[trial, 0, 0]) > bound.value * (1 + bound.upper)
    assert found > 0.9 * 400


@pytest.mark.parametrize(
    "tail, freedom, known",
    [(0.025, 1, 12.7062), (0.025, 2, 4.3027), (0.025, 7, 2.3646), (0.005, 8, 3.3554), (0.025, 30, 2.0423)],
)
def test_quantiles_of_students_distribution(tail, freedom, known):
    assert rank_test.student_quantile(tail, freedom) == pytest.approx(known, abs=1e-4)


# --- bounds ---


def one(values, *, metric="time", unit="s", better="lower", tail=0.001):
    found = histories.series_of({"A": {("n", ""): list(values)}}, better, metric, unit)
    return bounds_of(found, tail)


@hypothesis.given(st.lists(st.floats(1e-9, 1e12), min_size=8, max_size=40), st.sampled_from(["lower", "higher", None]))
@hypothesis.example([1e6] * 37 + [2.1045], "higher")
@hypothesis.settings(deadline=None)
def test_every_job_is_within_the_bounds_of_itself(values, better):
    found = one(values, better=better)
    # Rounds the values as in the file, to six digits.
    value = float(f"{found.value:.6g}")
    low = -1 if found.lower is None else float(f"{found.lower:.6g}")
    high = math.inf if found.upper is None else float(f"{found.upper:.6g}")
    assert value * (1 + low) * 0.9999 <= min(values) and max(values) <= value * (1 + high) * 1.0001
    assert (found.lower is None) == (better == "lower") and (found.upper is None) == (better == "higher")
    assert -1 <= (found.lower or 0) <= 0


def test_equal_counts_are_exact_and_equal_times_are_not():
    exact = one([7.0] * 8, metric="profiled_kernels", unit="1", better=None)
    assert (exact.lower, exact.upper) == (0, 0)
    assert one([7.0] * 8).upper == pytest.approx(0.01)
    assert "zero or negative" in one([0.0, *[1.0] * 7])


# --- update ---


def test_update_shows_a_diff_and_writes_only_when_told(site, tmp_path, capsys):
    records_ = kept(tmp_path)
    assert isthmus("update", records_, "--site", site) == 0
    shown = capsys.readouterr()
    assert "+$index: [partition, arch, driver, compiler]" in shown.out and "measured-local.yaml" in shown.out
    assert "nothing is written" in shown.err and not list((site / "references").iterdir())
    assert isthmus("update", records_, "--site", site, "--write") == 0
    assert len(measured(site)) == 4
    capsys.readouterr()
    assert isthmus("update", records_, "--site", site) == 0
    again = capsys.readouterr()
    assert again.out == "" and "nothing would change" in again.err


def test_what_update_writes_holds_the_jobs_it_was_made_from(site, tmp_path):
    records_ = kept(tmp_path)
    isthmus("update", records_, "--site", site, "--write")
    entries = measured(site)
    for line in (records_ / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        bound = lookup.find(entries, lookup.case_of(record, "local"), record["axes"])["time"]
        assert record["metrics"][0]["median"] <= bound.value * (1 + bound.upper)
    text = (site / "references/measured-local.yaml").read_text()
    for told in ("n: 20", "nodes: 2", "interval: [", "date: ", "fingerprint: ", "570[.]124[.]06", "580[.]159[.]04"):
        assert told in text


def test_a_new_driver_leaves_the_references_of_the_old_one(site, tmp_path):
    records_ = kept(tmp_path)
    isthmus("update", records_, "--site", site, "--from", "driver=570", "--write")
    before = (site / "references/measured-local.yaml").read_text()
    isthmus("update", records_, "--site", site, "--from", "driver=580", "--write")
    after = (site / "references/measured-local.yaml").read_text()
    assert len(measured(site)) == 4
    assert all(line in after for line in before.splitlines())


def test_what_a_person_wrote_stays_and_is_not_doubled(site, tmp_path, capsys):
    (site / "references/own.yaml").write_text("- {workload: microbench/saxpy, metrics: {time: [0.001, null, 0.1, s]}}")
    isthmus("update", kept(tmp_path), "--site", site, "--write")
    assert "is given by another file" in capsys.readouterr().err
    assert {entry.selectors["workload"] for entry in measured(site)} == {"microbench/gemm"}


def test_another_compiler_or_version_is_another_reference(site, tmp_path):
    records_ = kept(tmp_path)
    kept(tmp_path, name="b.jsonl", build__compiler="other", version=2)
    isthmus("update", records_, "--site", site, "--write")
    assert len(measured(site)) == 8


def test_counts_of_profiled_runs_are_exact(site, tmp_path):
    records_ = kept(tmp_path, profiler="cupti")
    path = records_ / "records.jsonl"
    lines = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        for name, unit in (("profiled_kernels", "1"), ("profiled_kernel_time", "s"), ("profiled_overlap", "1")):
            seen = {"name": name, "unit": unit, "better": None, "samples": [12], "median": 12, "stop": "single"}
            record["metrics"].append(histories.SECOND | seen)
        lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))
    assert isthmus("update", records_, "--site", site, "--profiled", "--write") == 0
    for entry in measured(site):
        assert set(entry.metrics) == {"profiled_kernels"} and entry.selectors["profiler"] == "cupti"
        assert entry.metrics["profiled_kernels"] == (12, 0, 0, "1")


def refused(capsys, *arguments):
    assert isthmus(*arguments) == exits.BAD_INPUT
    shown = capsys.readouterr()
    sentence = shown.err.strip().splitlines()[-1]
    assert "Traceback" not in shown.err
    return sentence


def test_too_few_jobs(site, tmp_path, capsys):
    assert "no series has 8 jobs of one state of the machine (at most 6)" in refused(
        capsys, "update", kept(tmp_path, jobs=3), "--site", site
    )


@pytest.mark.parametrize("field, value", [("host__kernel", "6.1"), ("build__flags", "-O0"), ("host__thp", "never")])
def test_mixed_fingerprints(site, tmp_path, capsys, field, value):
    kept(tmp_path, **({"host__thp": "always"} if field == "host__thp" else {"build__flags": "-O3"}))
    records_ = kept(tmp_path, name="b.jsonl", **{field: value})
    sentence = refused(capsys, "update", records_, "--site", site)
    assert "differ in" in sentence and "choose with --from" in sentence and not list((site / "references").iterdir())


def test_variables_that_change_a_runtime_are_part_of_the_fingerprint(site, tmp_path, capsys):
    kept(tmp_path, run__environment={"HSA_XNACK": "1", "CUDA_VISIBLE_DEVICES": "0"})
    records_ = kept(tmp_path, name="b.jsonl", run__environment={"HSA_XNACK": "1", "CUDA_VISIBLE_DEVICES": "1"})
    assert isthmus("update", records_, "--site", site, "--write") == 0
    assert "HSA_XNACK=1" in (site / "references/measured-local.yaml").read_text()
    records_ = kept(tmp_path, name="b.jsonl", run__environment={"HSA_XNACK": "0"})
    assert "differ in environment (HSA_XNACK=0 and HSA_XNACK=1)" in refused(capsys, "update", records_, "--site", site)


def test_several_systems(site, tmp_path, capsys):
    kept(tmp_path)
    records_ = kept(tmp_path, name="b.jsonl", run__system="t")
    assert "several systems (s, t)" in refused(capsys, "update", records_, "--site", site)
    assert isthmus("update", records_, "--site", site, "--system", "s") == 0


def test_records_of_no_partition_or_another(site, tmp_path, capsys):
    records_ = kept(tmp_path, run__partition="elsewhere")
    assert "partition 'elsewhere'; " in refused(capsys, "update", records_, "--site", site)
    records_ = kept(tmp_path, run__partition=None)
    assert "name no partition" in refused(capsys, "update", records_, "--site", site)


def test_unknown_site(tmp_path, capsys):
    assert "there is no site 'nowhere' in" in refused(capsys, "update", kept(tmp_path), "--site", "nowhere")
    assert "no reframe.py" in refused(capsys, "check", "--site", tmp_path)


def test_a_configuration_that_does_not_run(site, capsys):
    for text, why in (
        ("import no_such_module", "cannot be read (ModuleNotFoundError"),
        ("site_configuration = {'systems': [{}]}", "not a configuration (KeyError"),
    ):
        (site / "reframe.py").write_text(text)
        assert why in refused(capsys, "check", "--site", site)


def test_a_file_of_that_name_that_a_person_wrote(site, tmp_path, capsys):
    path = site / "references/measured-local.yaml"
    path.write_text("- {metrics: {time: [1.0, null, 0.1, s]}}")
    assert "not written by" in refused(capsys, "update", kept(tmp_path), "--site", site, "--write")
    assert path.read_text().startswith("- {metrics")


@pytest.mark.parametrize(
    "option, why",
    [
        ("--false-alarms=0", "--false-alarms must be above 0"),
        ("--false-alarms=-1", "--false-alarms must be above 0"),
        ("--runs=0", "--runs: '0' is not a number of 1 or more"),
        ("--metrics=x", "--metrics: 'x' is not a number of 1 or more"),
    ],
)
def test_numbers_that_mean_nothing(site, tmp_path, capsys, option, why):
    assert why in refused(capsys, "update", kept(tmp_path), "--site", site, option)


def test_emulated_records_make_no_references(site, tmp_path, capsys):
    records_ = kept(tmp_path, emulated=True)
    assert "are emulated" in refused(capsys, "update", records_, "--site", site)
    assert "emulated times mean nothing" in refused(capsys, "update", records_, "--site", site, "--emulated", "--write")


# --- the file ---


@hypothesis.given(st.text(min_size=1, max_size=20))
def test_a_pattern_of_just_this_text(text):
    pattern = measured_file.exactly(text)
    assert re.fullmatch(pattern, text) and not re.fullmatch(pattern, text + "x")


@hypothesis.given(
    st.dictionaries(
        st.tuples(*[st.text(max_size=6)] * 4),
        st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.floats(1e-12, 1e15), min_size=1, max_size=3),
        min_size=1,
        max_size=4,
    )
)
@hypothesis.example({("", "", "", ""): {"in": 1.0, "no": 1.0, "on": 1.0}})
@hypothesis.settings(deadline=None, max_examples=50)
def test_what_is_rendered_is_read_back(tmp_path_factory, content):
    tree = {}
    for keys, metrics in content.items():
        bounds = {
            name: {"value": value, "lower": None, "upper": 0.5, "unit": "s", "fingerprint": "12e4"}
            for name, value in metrics.items()
        }
        entry = {"workload": "a/b", "version": 1, "preset": None, "axes": {"x": "on", "n": 3}, "metrics": bounds}
        keys = tuple(measured_file.exactly(key) for key in keys)
        tree.setdefault(keys, {})[measured_file.case_key(entry)] = entry
    text = measured_file.render(tree, {"12e4": {"kernel": "6: 1", "thp": "no"}})
    path = tmp_path_factory.getbasetemp() / "rendered.yaml"
    path.write_text(text, encoding="utf-8")
    old, known = measured_file.read(path)
    assert {keys: list(cases) for keys, cases in old.items()} == {keys: list(cases) for keys, cases in tree.items()}
    assert measured_file.render(old, known) == text


# --- check ---


def test_check_fits_80_columns(site, tmp_path, capsys):
    (site / "references/bad.yaml").write_text(
        "- {workload: microbench/vector_sequence, metrics: {in: [1, -0.1, 0.1, s]}}\n"
    )
    records_ = kept(tmp_path, run__partition="of-a-name-that-takes-most-of-a-line-and-more")
    assert isthmus("check", records_, "--site", site) == exits.FOUND
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and "figures have none: time" in " ".join(" ".join(lines).split())


def test_check_says_what_has_none(site, tmp_path, capsys):
    records_ = kept(tmp_path)
    assert isthmus("check", "--site", site) == exits.FOUND
    assert "local: 0 of " in capsys.readouterr().out
    assert isthmus("check", records_, "--site", site) == exits.FOUND
    assert "0 of 4 figures have a reference" in capsys.readouterr().out
    isthmus("update", records_, "--site", site, "--from", "driver=570", "--write")
    capsys.readouterr()
    assert isthmus("check", records_, "--site", site) == exits.FOUND
    shown = capsys.readouterr().out
    assert "local: microbench/gemm: 1 of 2 figures have none: time" in shown
    isthmus("update", records_, "--site", site, "--write")
    assert isthmus("check", records_, "--site", site) == exits.PASSED


def test_check_finds_typing_errors(site, capsys):
    (site / "references/own.yaml").write_text("- {workload: microbench/saxpie, metrics: {in: [1.0, null, 0.1, s]}}")
    assert isthmus("check", "--site", site) == exits.FOUND
    assert "no workload of the catalogue matches" in capsys.readouterr().out
    (site / "references/own.yaml").write_text("- {wrkload: x, metrics: {in: [1.0, null, 0.1, s]}}")
    assert "unknown key 'wrkload'" in refused(capsys, "check", "--site", site)


@pytest.mark.parametrize("text", ["", "$index: [partition, arch]\nlocal:\n  sm_90:\n"])
def test_a_cut_file_is_refused(site, tmp_path, capsys, text):
    (site / "references/own.yaml").write_text(text)
    assert "own.yaml" in refused(capsys, "check", "--site", site)
    assert "empty, like a file" in refused(capsys, "update", kept(tmp_path), "--site", site)


def test_check_without_records_asks_for_what_is_selected_alone(site, capsys):
    (site / "references/own.yaml").write_text("- {workload: 'vmm/.*', metrics: {allocate: [1.0, null, 0.1, s]}}\n")
    assert isthmus("check", "--site", site) == exits.FOUND
    every = capsys.readouterr().out
    assert isthmus("check", "--site", site, "--workload", "alloc/*") == exits.FOUND
    chosen = capsys.readouterr().out
    names = re.findall("none: (.*)", chosen)
    assert names and all(name.startswith("alloc/") for name in names) and {*names} < {*re.findall("none: (.*)", every)}
    assert f"local: 0 of {len(names)} selected workloads have a reference" in chosen
    assert isthmus("check", "--site", site, "--workload", "alloc/device", "--metric", "first") == exits.FOUND
    own = "- {workload: alloc/device, metrics: {alloc: [1.0, null, 0.1, s]}}\n"
    (site / "references/own.yaml").write_text(own)
    assert isthmus("check", "--site", site, "--workload", "alloc/device") == exits.PASSED
    assert isthmus("check", "--site", site, "--workload", "alloc/device", "--metric", "al*") == exits.PASSED
    assert isthmus("check", "--site", site, "--workload", "alloc/device", "--metric", "first") == exits.FOUND


@pytest.mark.parametrize("options, why", [
    (["--since", "2026-01-01"], "--since chooses records"), (["--until", "2026-01-01"], "--until chooses records"),
    (["--system", "x"], "--system chooses records"), (["--without", "node=n"], "--without chooses records"),
    (["--emulated"], "--emulated chooses records"), (["--profiled"], "--profiled chooses records"),
    (["--workload", "transfer/*"], "'transfer/*' is not a workload of the catalogue"),
    (["--workload", "alloc/*", "--metric", "furlongs"], "'furlongs' is not a metric of these workloads"),
])  # fmt: skip
def test_check_ignores_no_option_without_records(site, capsys, options, why):
    assert why in refused(capsys, "check", "--site", site, *options)


def test_the_generic_site_can_be_checked(capsys):
    assert isthmus("check", "--site", "generic") == exits.FOUND
    assert "local: 0 of" in capsys.readouterr().out
