"""Tests of verdicts on simulated histories with known truth, and of everything else that a comparison must report."""

import datetime
import errno
import json
import math
import os
import pathlib
import re

import numpy as np
import pytest
from histories import History, jobs_of, medians, record, series_of, tell, write

from isthmus import cli, exits
from isthmus.records import fields, store
from isthmus.statistics import series
from isthmus.verdicts import baselines as earlier_
from isthmus.verdicts import comparison_text, judging

SIDES = ["--from", "driver=570", "--to", "driver=580"]


def verdicts(folder, *arguments, tmp_path):
    out = tmp_path / "out.json"
    code = cli.main(["regress", str(folder), *SIDES, "--json", str(out), *arguments])
    found = json.loads(out.read_text())
    return code, found, {each["label"]: each for each in found["results"]}


TIME = "microbench/saxpy pm tiny time"


@pytest.mark.parametrize(
    "history, jobs, verdict, code",
    [
        (History(step=0.03), 8, "regressed", 1),
        (History(step=-0.03), 8, "improved", 0),
        (History(between=0.004), 8, "equivalent", 0),
        (History(between=0.001, step=0.005), 8, "changed-but-small", 0),
        (History(), 8, "inconclusive", 3),
        (History(step=0.10), 3, "inconclusive", 3),
        (History(between=0.05, step=0.01), 4, "inconclusive", 3),
        (History(step=0.03, nodes=2, node_effect=0.2), 6, "regressed", 1),
        (History(between=0.004, nodes=4, node_effect=0.2), 4, "equivalent", 0),
    ],
)
def test_verdict_and_exit_code(tmp_path, history, jobs, verdict, code):
    folder = write(tmp_path / "r", jobs_of(history, 1, jobs))
    got, found, results = verdicts(folder, tmp_path=tmp_path)
    assert results[TIME]["verdict"] == verdict
    assert (got, found["verdict"]) == (code, verdict)
    assert (results[TIME]["more"] or 0) >= (1 if code == 3 else 0)
    assert bool(results[TIME]["reason"]) == (code == 3)


def test_the_same_input_gives_the_same_words(tmp_path, capsys):
    folder = write(tmp_path / "r", jobs_of(History(step=0.02, nodes=2), 5, 5))
    shown = []
    for _ in range(2):
        cli.main(["regress", str(folder), *SIDES, "--all"])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and "verdict: " in shown[0]


@pytest.mark.parametrize(
    "history, jobs, bounds",
    [
        (History(step=0.03), 8, {"regressed": (0.95, 1)}),
        (History(step=0.03, between=0.02), 8, {"equivalent": (0, 0.001)}),
        (History(step=-0.008), 8, {"improved": (0, 0.05)}),
        (History(between=0.005), 8, {"equivalent": (0.90, 1), "improved": (0, 0.01), "regressed": (0, 0.01)}),
        (History(tails="heavy", nodes=2, node_effect=0.1), 5, {"regressed": (0, 0.01)}),
        (History(step=0.5), 3, {"inconclusive": (1, 1)}),
    ],
    ids=["a step", "a step in noise", "less than the margin", "nothing", "nothing, heavy tails", "3 jobs"],
)
def test_rates_of_verdicts(history, jobs, bounds, capsys, record_property):
    """Computes 4,000 verdicts from values of jobs. `bounds` has the allowed range of each verdict's rate."""
    trials = 4_000
    before, after = medians(np.random.default_rng(21), history, trials, jobs)
    verdicts = []
    for a, b in zip(before, after):
        sides = {name: {(f"n{i}", "g"): np.exp(row) for i, row in enumerate(x)} for name, x in (("A", a), ("B", b))}
        result = judging.compare(series_of(sides), "x")
        result.q = result.p
        verdicts.append(judging.judge(result, "lower"))
    for verdict, (at_least, at_most) in bounds.items():
        share = verdicts.count(verdict) / trials
        error = math.sqrt(share * (1 - share) / trials)
        what = f"{history.step:.0%} step, {history.tails} noise, {jobs} jobs a side"
        tell(capsys, record_property, f"{verdict}, {what}: {share:.2%} ± {error:.2%}")
        assert at_least - 3 * error <= share <= at_most + 3 * error


def test_a_given_delta_is_taken_at_its_word(tmp_path):
    folder = write(tmp_path / "r", jobs_of(History(step=0.03), 1, 8))
    code, _, results = verdicts(folder, "--delta", "0.08", tmp_path=tmp_path)
    assert code == 0 and results[TIME]["verdict"] == "changed-but-small" and results[TIME]["delta"] == 0.08


def test_rates_get_worse_downwards(tmp_path):
    cases = jobs_of(History(step=-0.05), 1, 8)
    for case in cases:
        case["metrics"][0] |= {"name": "rate", "unit": "B/s", "better": "higher"}
    code, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert code == 1 and results["microbench/saxpy pm tiny rate"]["verdict"] == "regressed"


def test_what_else_changed_is_named(tmp_path, capsys):
    cases = jobs_of(History(), 1, 8)
    for case in cases[8:]:
        case["host"] |= {"kernel": "Linux 6.9", "uvm_parameters": {"uvm_perf_prefetch_enable": "0", "new": "1"}}
        case["run"]["environment"] = {"HSA_XNACK": "1", "GPU_MAX_HW_QUEUES": "4"}
        case["devices"][0]["state_after"] = {"pcie": {"gen": 5, "width": 8}, "xids": [94]}
    for case in cases[:8]:
        case["host"] |= {"kernel": "Linux 6.8", "uvm_parameters": {"uvm_perf_prefetch_enable": "1"}}
        case["run"]["environment"] = {"GPU_MAX_HW_QUEUES": "4"}
        case["devices"][0]["state_after"] = {"pcie": {"gen": 5, "width": 16}, "xids": []}
    code, found, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert found["differences"] == {
        "kernel": [["Linux 6.8"], ["Linux 6.9"]],
        "pcie_width": [["16"], ["8"]],
        "uvm.uvm_perf_prefetch_enable": [["1"], ["0"]],
        "environment.HSA_XNACK": [["unset"], ["1"]],
    }
    assert "also changed: pcie_width: 16 → 8" in capsys.readouterr().out
    assert code == 1 and results["machine pcie_lanes"]["verdict"] == "regressed"
    assert results["machine xid_errors"]["verdict"] == "regressed"


@pytest.mark.parametrize("had", [0, 5])
def test_what_the_machine_no_longer_says_is_absent(tmp_path, capsys, had):
    cases = jobs_of(History(between=0.001), 1, 8)
    for index, case in enumerate(cases):
        says = index < 8 + had
        after = {"pcie": {"gen": 5, "width": 16}, "xids": []}
        case["devices"][0] |= {"state_after": after} if says else {}
        case["host"] |= {"thp": "always" if says else None, "uvm_parameters": {"x": "1"} if says else None}
    code, found, results = verdicts(write(tmp_path / "r", cases), "--delta", "5%", tmp_path=tmp_path)
    assert code == 3 and found["verdict"] == "inconclusive" and results[TIME]["verdict"] == "equivalent"
    for name in ("pcie_generation", "pcie_lanes", "xid_errors"):
        reason = f"absent: {had} of 8 jobs of B have it" if had else "absent"
        assert (results[f"machine {name}"]["verdict"], results[f"machine {name}"]["reason"]) == ("inconclusive", reason)
    if not had:
        assert found["differences"]["pcie_width"] == [["16"], ["not said"]]
        assert found["differences"]["uvm"] == [["known"], ["not said"]]
        assert "also changed: thp: always → not said" in capsys.readouterr().out


def boots(cases, before, after):
    for index, case in enumerate(cases):
        case["host"]["boot_id"] = before[index % len(before)] if index < len(cases) / 2 else after
    return cases


@pytest.mark.parametrize(
    "before, after, said",
    [
        (["one"], "one", None),
        (["one"], "two", "1 node was rebooted between A and B (n0)"),
        (["one", "two"], "three", None),  # a restart within A is the control
        ([None], None, "the records of A and B do not say when n0 was started"),
    ],
)
def test_a_reboot_is_named_unless_there_is_a_control(tmp_path, before, after, said):
    folder = write(tmp_path / "r", boots(jobs_of(History(), 1, 8), before, after))
    notes = " ".join(verdicts(folder, tmp_path=tmp_path)[1]["notes"])
    assert (said in notes) if said else notes == ""


@pytest.mark.parametrize("code", fields.INVALIDATING)
def test_invalid_samples_are_invalid_not_slow_and_their_rate_is_compared(tmp_path, capsys, code):
    """Makes B throttle in every job, which makes times 20% slower. This is reported as more invalid samples, not as a
    slower time."""
    cases = jobs_of(History(between=0.004), 1, 8)
    for case in cases[8:]:
        slow = json.loads(json.dumps(case))
        slow["metrics"][0]["median"] *= 1.2
        slow["warnings"] = [{"code": code, "message": "hot", "samples": None}]
        cases.append(slow)
    status, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert results[TIME]["verdict"] == "equivalent"
    assert results["machine invalid_samples"]["verdict"] == "regressed" and status == 1
    assert "8 records are invalid and left out" in capsys.readouterr().err


def test_a_series_that_is_gone_is_not_passed_over(tmp_path):
    cases = jobs_of(History(), 1, 8, workloads=("microbench/saxpy", "microbench/gemv"))
    kept = [c for c in cases if c["workload"] == "microbench/saxpy" or c["devices"][0]["driver"].startswith("570")]
    code, _, results = verdicts(write(tmp_path / "r", kept), tmp_path=tmp_path)
    assert code == 3 and results["microbench/gemv pm tiny time"]["note"] == "only A has it"


@pytest.mark.parametrize(
    "had, step, verdict, code",
    [
        ((8, 8), 0, "equivalent", 0),
        ((8, 7), 0, "equivalent", 0),  # a single missing job is not reported
        ((7, 5), 0, "inconclusive", 3),  # a truncated job of A makes no difference
        ((8, 5), 0, "inconclusive", 3),
        ((5, 5), 0, "equivalent", 0),  # some jobs measure only a part of the suite
        ((5, 4), 0, "equivalent", 0),
        ((8, 6), 0.1, "regressed", 1),  # absence does not hide a regression
    ],
)
def test_a_series_that_fewer_jobs_have_is_absent(tmp_path, had, step, verdict, code):
    cases = jobs_of(History(between=0.001), 1, 8, workloads=("microbench/saxpy", "microbench/gemv"))
    gemv = cases[16:]
    for case in gemv[8:]:
        case["metrics"][0]["median"] *= 1 + step
    folder = write(tmp_path / "r", [*cases[:16], *gemv[: had[0]], *gemv[8 : 8 + had[1]]])
    got, _, results = verdicts(folder, "--delta", "5%", tmp_path=tmp_path)
    found = results["microbench/gemv pm tiny time"]
    assert (got, found["verdict"]) == (code, verdict)
    assert found["reason"] == (f"absent: {had[1]} of {had[0]} jobs of B have it" if code == 3 else "")


def test_jobs_that_ran_nothing_of_a_series_do_not_lack_it(tmp_path, capsys):
    def judged(cases, *asked):
        return verdicts(write(tmp_path / "r", cases), "--delta", "5%", *asked, tmp_path=tmp_path)

    saxpy, gemv = "microbench/saxpy", "microbench/gemv"
    cases = jobs_of(History(between=0.001), 3, 20)
    added = [
        case | {"workload": gemv, "run": case["run"] | {"job": f"{case['run']['job']}-own"}} for case in cases[20:]
    ]
    assert judged([*cases, *added])[0] == 0
    both = jobs_of(History(between=0.001), 1, 8, workloads=(saxpy, gemv))
    cut_off = both[15] | {"run": both[15]["run"] | {"job": "cut off"}}
    code, found, _ = judged([*both, cut_off])
    assert code == 0 and "a single job of B lacks 1 series that it should have" in " ".join(found["notes"])


@pytest.mark.parametrize("had, code", [(0, 3), (2, 3), (3, 0)])
def test_a_node_that_lost_a_series_is_named(tmp_path, had, code):
    cases = jobs_of(History(between=0.001, nodes=20), 1, 5, workloads=("microbench/saxpy", "microbench/gemv"))
    after = [case for case in cases if case["devices"][0]["driver"].startswith("580") and case["run"]["node"] == "n19"]
    lost = [case for case in after if case["workload"] == "microbench/gemv"][had:]
    folder = write(tmp_path / "r", [case for case in cases if case not in lost])
    got, _, results = verdicts(folder, "--delta", "5%", tmp_path=tmp_path)
    reason = results["microbench/gemv pm tiny time"]["reason"]
    assert (got, reason) == (code, f"absent: {had} of 5 jobs of B on n19 have it" if code else "")
    assert results["microbench/saxpy pm tiny time"]["verdict"] == "equivalent"


def test_nodes_and_gpus_that_only_a_has_are_named_once(tmp_path, capsys):
    cases = jobs_of(History(between=0.001, nodes=4), 1, 8, workloads=("microbench/saxpy", "microbench/gemv"))
    for case in cases:
        case["devices"].append(case["devices"][0] | {"uuid": f"{case['devices'][0]['uuid']}-second"})

    def kept(case):
        if case["devices"][0]["driver"].startswith("580") and case["run"]["node"] == "n0":
            case["devices"].pop()
        return case["devices"][0]["driver"].startswith("570") or case["run"]["node"] in ("n0", "n1")

    folder = write(tmp_path / "r", [case for case in cases if kept(case)])
    cli.main(["regress", str(folder), *SIDES, "--delta", "5%"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("note: no job of B ran on GPU-0-second of n0, n2, n3, where A did") == 1


@pytest.mark.parametrize("change", [{"version": 2}, {"metrics__0__unit": "1"}])
def test_other_versions_and_units_are_refused_not_averaged(tmp_path, change):
    cases = jobs_of(History(), 1, 8)
    for case in cases[8:]:
        if "version" in change:
            case["version"] = 2
        else:
            case["metrics"][0]["unit"] = "1"
    code, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert code == 3
    assert all("not comparable" in r["note"] for label, r in results.items() if "machine" not in label)


def test_sides_without_a_common_node_compare_nodes(tmp_path):
    chance = np.random.default_rng(4)
    cases = []
    for node in range(12):
        speed = float(np.exp(0.1 * chance.standard_normal()))
        for job in range(10):
            driver = "570.1" if node < 6 else "580.1"
            cases.append(record(0.001 * speed, node=f"n{node}", gpu=f"G{node}", job=f"{node}-{job}", driver=driver))
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert (results[TIME]["jobs"], results[TIME]["units"]) == ([60, 60], [6, 6])
    assert results[TIME]["unit_compared"] == "node" and "share no node" in results[TIME]["note"]
    assert results[TIME]["verdict"] == "inconclusive"


@pytest.mark.parametrize("gpus", ["others", "fewer"])
def test_sides_on_other_gpus_of_the_nodes_decide_nothing(tmp_path, gpus):
    """Runs the sides on different GPUs of a node, so that the driver's effect cannot be separated from the GPU's."""
    cases = jobs_of(History(step=0.05, nodes=2, node_effect=0.3), 1, 8)
    for case in cases[8:16] + cases[24:]:
        if gpus == "others":
            case["devices"][0]["uuid"] += "-the-other"
        else:
            case["devices"].append(case["devices"][0] | {"uuid": case["devices"][0]["uuid"] + "-the-other"})
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    found = results[TIME]
    assert (found["verdict"], found["paired"], found["strata"]) == ("inconclusive", "node", 2)
    assert found["reason"].startswith("unlike GPUs: A and B ran on different GPUs of the same nodes")


def test_jobs_that_get_any_gpu_of_the_node_are_compared_within_the_node(tmp_path):
    cases = jobs_of(History(step=0.05, nodes=2, node_effect=0.3), 1, 12)
    chance = np.random.default_rng(2)
    for case in cases:
        case["devices"][0]["uuid"] += f"-{chance.integers(8)}"
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    found = results[TIME]
    assert (found["verdict"], found["paired"], found["strata"]) == ("regressed", "node", 2)


def test_jobs_on_nodes_of_one_side_only_are_left_out_and_counted(tmp_path):
    cases = jobs_of(History(nodes=2), 1, 8)
    for case in cases[16:]:
        name = case["run"]["node"] + case["devices"][0]["driver"][:3]
        case["run"]["node"], case["host"]["boot_id"], case["devices"][0]["uuid"] = (
            name,
            f"boot of {name}",
            f"GPU-{name}",
        )
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert results[TIME]["jobs"] == [8, 8]
    assert results[TIME]["note"] == "16 jobs ran on nodes or GPUs that only one side has"


def test_nothing_compared_is_no_green_verdict(tmp_path, capsys):
    """Uses a different workload on each side, so that no series exists on both sides."""
    cases = jobs_of(History(), 1, 8)
    for index, case in enumerate(cases):
        case["workload"] = "microbench/saxpy" if index < 8 else "microbench/gemm"
    folder = write(tmp_path / "r", cases)
    assert cli.main(["regress", str(folder), *SIDES, "--workload", "*gemm"]) == exits.BAD_INPUT
    capsys.readouterr()
    assert cli.main(["regress", str(folder), *SIDES]) == exits.UNDECIDED
    assert "verdict: inconclusive" in capsys.readouterr().out


def test_noise_that_has_none_of_the_series_is_refused_and_of_some_is_counted(tmp_path, capsys):
    history, two = History(between=0.016), ("microbench/saxpy", "microbench/daxpy")
    quiet = write(tmp_path / "aa", jobs_of(history, 2, 10))
    out = tmp_path / "noise.json"
    assert cli.main(["noise", str(quiet), "-o", str(out)]) == 0
    capsys.readouterr()
    folder = write(tmp_path / "r", jobs_of(History(), 1, 8, workloads=two))
    for kind, place in (("text", 0), ("json", 1), ("csv", 1)):
        assert cli.main(["regress", str(folder), *SIDES, "--noise", str(out), "--format", kind]) != exits.BAD_INPUT
        said = " ".join(capsys.readouterr()[place].split())
        assert "2.25 sd between jobs, of --noise for 1 of 2 series; that is ±1% to ±5%, and ±1% for the 1 that" in said
    cli.main(["regress", str(folder), *SIDES, "--noise", str(out)])
    first = capsys.readouterr().out.split("\n\n")[0]
    assert "\nmargin   2.25 sd between jobs, of --noise for 1 of 2 series\n" in first
    assert "sure     8 jobs against 8; order of jobs: not testable" in first
    only = ["regress", str(folder), *SIDES, "--workload", two[1], "--noise", str(out)]
    for more in ([], ["--delta", "0.02"]):
        assert cli.main([*only, *more]) == exits.BAD_INPUT
        assert "--noise has none of the 1 compared series, such as" in capsys.readouterr().err


def test_noise_of_another_version_of_the_workload_is_named_as_such(tmp_path, capsys):
    quiet = write(tmp_path / "aa", jobs_of(History(between=0.016), 2, 10))
    out = tmp_path / "noise.json"
    assert cli.main(["noise", str(quiet), "-o", str(out)]) == 0
    entries = json.loads(out.read_text())
    out.write_text(json.dumps([each | {"version": each["version"] + 1} for each in entries]))
    folder = write(tmp_path / "r", jobs_of(History(), 1, 8))
    assert cli.main(["regress", str(folder), *SIDES, "--noise", str(out)]) == exits.BAD_INPUT
    assert "only in another version of the workload); make it from earlier jobs" in capsys.readouterr().err


def test_delta_comes_from_a_noise_file(tmp_path):
    quiet = write(tmp_path / "aa", jobs_of(History(between=0.016), 2, 30))
    out = tmp_path / "noise.json"
    assert cli.main(["noise", str(quiet), "-o", str(out)]) == 0
    (noise,) = earlier_.load_noise(out)[0].values()
    folder = write(tmp_path / "r", jobs_of(History(), 1, 8))
    _, _, results = verdicts(folder, "--noise", str(out), tmp_path=tmp_path)
    assert results[TIME]["delta"] == pytest.approx(2.25 * noise) and noise == pytest.approx(0.016, rel=0.25)


def test_iterations_and_processes_are_no_jobs(tmp_path):
    """Uses one job per side with 50 records, which are only one value per side."""
    cases = [
        record(0.001 * (1 if driver == "570.1" else 2), job=driver, driver=driver, run__process=process)
        for driver in ("570.1", "580.1")
        for process in range(1, 51)
    ]
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert results[TIME]["jobs"] == [1, 1] and results[TIME]["verdict"] == "inconclusive"


def test_differences_where_ratios_mean_nothing(tmp_path):
    cases = jobs_of(History(), 1, 8)
    for index, case in enumerate(cases):
        sign = 0.1 if index < 8 else -0.3
        case["metrics"][0] |= {
            "name": "balance",
            "unit": "1",
            "better": "higher",
            "median": sign + 0.001 * (index * 5 % 8),
        }
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    found = results["microbench/saxpy pm tiny balance"]
    assert found["verdict"] == "regressed" and not found["ratio"] and found["estimate"] == pytest.approx(-0.4)


# --- selecting ---


@pytest.mark.parametrize(
    "a, b",
    [
        ("driver=570", "driver=580"),
        ("driver=570.124.06", "driver=58*"),
        ("..2026-01-01T08:00", "2026-01-01T08:00.."),
        ("uvm.uvm_x=0", "uvm.uvm_x=1"),
        ("environment.HSA_XNACK=0", "environment.HSA_XNACK=1"),
        ("driver=570,node=n0", "driver=580,node=n0"),
    ],
)
def test_ways_to_say_the_sides(tmp_path, a, b):
    cases = jobs_of(History(step=0.05), 1, 8)
    for index, case in enumerate(cases):
        case["host"]["uvm_parameters"] = {"uvm_x": str(int(index >= 8))}
        case["run"]["environment"] = {"HSA_XNACK": str(int(index >= 8))}
    folder = write(tmp_path / "r", cases)
    assert cli.main(["regress", str(folder), "--from", a, "--to", b]) == 1


def test_a_baseline_keeps_its_jobs(tmp_path, capsys):
    cases = jobs_of(History(step=0.05), 1, 8)
    folder = write(tmp_path / "r", cases[:8])
    assert cli.main(["regress", str(folder), "--save-baseline", "autumn"]) == 0
    assert cli.main(["regress", str(folder), "--save-baseline", "autumn"]) == 2
    assert "already exists" in capsys.readouterr().err
    write(folder, cases[8:], "later.jsonl")
    assert cli.main(["regress", str(folder), "--baseline", "autumn"]) == 1
    assert cli.main(["regress", str(folder), "--baseline", "spring"]) == 2
    assert "there is autumn" in capsys.readouterr().err
    (folder / "baselines").rename(tmp_path / "away")
    (folder / "baselines").symlink_to("/gone")
    assert cli.main(["regress", str(folder), "--baseline", "autumn"]) == 2
    assert "baselines: a link whose target is missing" in capsys.readouterr().err


def test_results_that_were_not_verified_are_failed_cases(tmp_path, capsys):
    cases = jobs_of(History(), 1, 8)
    for case in cases:
        if case["devices"][0]["driver"].startswith("580"):
            case["verify"]["status"] = "not_run"
    assert cli.main(["regress", str(write(tmp_path / "r", cases)), *SIDES]) == exits.FOUND
    said = capsys.readouterr().out
    assert "regressed    machine failed_cases" in said and "only A has it" in said


def test_a_baseline_that_could_not_be_written_leaves_its_name_free(tmp_path, capsys, monkeypatch):
    folder = write(tmp_path / "r", jobs_of(History(), 1, 8))
    save = ["regress", str(folder), "--save-baseline", "autumn"]

    def full(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(pathlib.Path, "write_bytes", full)
        assert cli.main(save) == exits.BAD_INPUT
    assert f"{folder}/baselines/autumn.json: No space left on device" in capsys.readouterr().err
    assert not [*(folder / "baselines").iterdir()]
    assert cli.main(save) == 0
    kept = (folder / "baselines/autumn.json").read_text()
    assert cli.main(save) == exits.BAD_INPUT and (folder / "baselines/autumn.json").read_text() == kept
    assert [path.name for path in (folder / "baselines").iterdir()] == ["autumn.json"]


def test_a_baseline_that_is_partly_gone_does_not_pass(tmp_path, capsys):
    cases = jobs_of(History(between=0.001), 1, 9)
    cases[0]["workload"] = "microbench/gemv"  # so that one job of the baseline lacks the workload requested below
    folder = write(tmp_path / "r", cases[:9])
    assert cli.main(["regress", str(folder), "--save-baseline", "autumn"]) == 0
    write(folder, cases[9:], "later.jsonl")
    asked = ["regress", str(folder), "--baseline", "autumn", "--delta", "5%", "--workload", "*saxpy"]
    assert cli.main(asked) == 0
    write(folder, cases[:8])
    capsys.readouterr()
    assert cli.main(asked) == exits.UNDECIDED
    said = " ".join(capsys.readouterr().out.split())
    assert "note: 1 of 9 jobs of the baseline autumn have no records any more" in said
    assert "verdict: inconclusive" in said
    write(folder, [])
    assert cli.main(asked) == exits.BAD_INPUT
    assert "no job of the baseline autumn has records any more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["--from", "driver=570"], "--from and --to"),
        (
            ["--from", "driver=1", "--to", "driver=580"],
            "no job is on side A (--from); driver is 570.124.06, 580.159.04",
        ),
        (["--from", "driver=5*", "--to", "driver=580"], "8 jobs are on both sides"),
        (["--from", "colour=red", "--to", "driver=580"], "'colour=red' selects nothing; write FIELD=VALUE"),
        (["--from", "divers=570", "--to", "driver=580"], "'divers=570' selects nothing; did you mean 'driver'?"),
        (["--from", "uvm.x'y=1", "--to", "driver=580"], "not the name of a module parameter"),
        (["--from", "2026-99-01", "--to", "driver=580"], "is not a date"),
        (["--baseline", "../../etc/passwd"], "cannot name a baseline"),
        (["--baseline", "a", "--from", "driver=570"], "leave out --from"),
        (["--baseline", "a", "--save-baseline", "b"], "leave out --baseline"),
        ([*SIDES, "--save-baseline", "b", "-o", "x.csv"], "leave out --to, --output"),
        ([*SIDES, "--delta", "3"], "is not a share between 0 and 1; 3% is written 0.03"),
        ([*SIDES, "--noise", "/none"], "/none: No such file"),
        ([*SIDES, "--workload", "nothing/*"], "no record has the workload 'nothing/*'; there is microbench/saxpy"),
        ([*SIDES, "--metric", "tim"], "no record has the metric 'tim'; did you mean 'time'?"),
        ([*SIDES, "--metric", "time", "--metric", "raet"], "no record has the metric 'raet'; there is time"),
        ([*SIDES, "--system", "x"], "no record has the system 'x'"),
        ([*SIDES, "--until", "2020-01-01"], "none of 16 records is selected"),
        ([*SIDES, "--since", "yesterday"], "is not a date"),
        ([*SIDES, "--json", "/none/x.json"], "/none/x.json: No such file"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path, capsys, arguments, why):
    folder = write(tmp_path / "r", jobs_of(History(), 1, 8))
    assert cli.main(["regress", str(folder), *arguments]) == exits.BAD_INPUT
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1


def test_hostile_strings_reach_no_terminal_and_no_query(tmp_path, capsys):
    cases = jobs_of(History(step=0.05), 1, 8)
    for index, case in enumerate(cases):
        case["run"]["node"] = "'); DROP TABLE cases; --"
        case["host"]["kernel"] = "\x1b[2Jold" if index < 8 else "<script>new"
    assert cli.main(["regress", str(write(tmp_path / "r", cases)), *SIDES]) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\\x1b[2Jold → <script>new" in shown


def test_times_of_a_day_are_that_day(tmp_path):
    start = datetime.datetime(2026, 3, 1)
    cases = [
        record(0.001, job=f"{day}-{hour}", time=start + datetime.timedelta(days=day, hours=hour))
        for day in range(3)
        for hour in range(24)
    ]
    found = []
    with store.open_store([write(tmp_path / "r", cases)]) as opened:
        for when in ("2026-03-01", "2026-03-02..", "..2026-03-02", "2026-03-01..2026-03-03", ".."):
            query = f"SELECT count(*) FROM measurements WHERE {series.condition(when)}"
            found.append(opened.sql(query).fetchone()[0])
    assert found == [24, 48, 24, 48, 72]


# --- a job counts once ---


def test_gpus_and_nodes_of_a_job_are_one_value(tmp_path):
    """Uses 3 + 3 jobs with 8 GPUs each, shifted together by a restart. The 24 + 24 records are only 3 + 3 jobs, which
    are too few."""
    cases = [
        record(0.001 * (1 + 0.02 * (job > 2)), gpu=f"GPU-{gpu}", job=f"{job}", driver="570.1" if job < 3 else "580.1")
        for job in range(6)
        for gpu in range(8)
    ]
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert results[TIME]["jobs"] == [3, 3] and results[TIME]["verdict"] == "inconclusive"


def test_nodes_that_a_job_had_together_are_one(tmp_path):
    """Uses one job of eight nodes per side, on different nodes, which is only one value per side."""
    cases = [
        record(0.001 * (1 + side), node=f"n{side}{node}", gpu=f"G{side}{node}", job=f"{side}", driver=f"5{7 + side}0.1")
        for side in range(2)
        for node in range(8)
    ]
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert results[TIME]["units"] == [1, 1] and results[TIME]["verdict"] == "inconclusive"
    assert results[TIME]["reason"].startswith("unlike nodes")


def test_a_jobs_value_shows_one_slow_gpu_of_eight(tmp_path):
    cases = [record(0.002 if gpu == 7 else 0.001, gpu=f"GPU-{gpu}") for gpu in range(8)]
    with store.open_store([write(tmp_path / "r", cases)]) as opened:
        (each,) = series.load(opened, "'A'")
    assert each.all("A") == pytest.approx([0.001125]) and len(each.of("A")[0].places) == 8


# --- boots, order ---


def in_boots(jobs, boots, *, nodes=1, step=0.0, boot_sd=0.01, seed=1, names="ab"):
    """Returns records of `jobs` jobs per side and node, in `boots` boots per side. Boots differ much more than jobs."""
    chance, cases = np.random.default_rng(seed), []
    for node in range(nodes):
        for side, driver in enumerate(("570.1", "580.1")):
            own = boot_sd * chance.standard_normal(boots)
            for job in range(jobs):
                boot = job * boots // jobs
                value = 0.001 * float(np.exp(own[boot] + step * side + 0.002 * chance.standard_normal()))
                where = {"node": f"n{node}", "gpu": f"G{node}", "job": f"{node}-{side}-{job}", "driver": driver}
                time = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=100 * side + job)
                cases.append(record(value, **where, time=time, host__boot_id=f"{names[side]}{boot} of n{node}"))
    return cases


@pytest.mark.parametrize(
    "jobs, boots, nodes, step, verdict, reason, units",
    [
        (8, 1, 1, 0.10, "inconclusive", "not identifiable: boots, 1 against 1; 5 a side needed", [1, 1]),
        (8, 4, 1, 0.10, "inconclusive", "not identifiable: boots, 4 against 4; 5 a side needed", [4, 4]),
        (10, 5, 1, 0.10, "regressed", "", [5, 5]),
        (4, 1, 8, 0.1, "inconclusive", "not identifiable: restarts of all nodes, 1 against 1; 3 a side needed", [8, 8]),
        (8, 8, 1, 0.10, "regressed", "", [8, 8]),
    ],
    ids=["one a side", "four a side", "five a side", "one a side on eight nodes", "a boot each"],
)
def test_a_boot_counts_once(tmp_path, jobs, boots, nodes, step, verdict, reason, units):
    folder = write(tmp_path / "r", in_boots(jobs, boots, nodes=nodes, step=step))
    _, _, results = verdicts(folder, tmp_path=tmp_path)
    found = results[TIME]
    assert (found["verdict"], found["reason"]) == (verdict, reason)
    assert (found["unit_compared"], found["units"]) == ("boot", units)


def test_jobs_of_one_boot_are_compared_with_each_other(tmp_path):
    """Runs both sides in both boots, as for a module's parameter, which can change without a restart. The boots differ
    by far more than the step."""
    cases = in_boots(8, 2, step=0.03, boot_sd=0, names="aa")
    for case in cases:
        case["metrics"][0]["median"] *= 1.2 if case["host"]["boot_id"] == "a1 of n0" else 1
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    found = results[TIME]
    assert (found["verdict"], found["unit_compared"], found["strata"]) == ("regressed", "job", 2)


@pytest.mark.parametrize("step, verdict", [(0.25, "regressed"), (0.05, "inconclusive")])
def test_one_boot_a_side_tells_what_earlier_boots_cannot_explain(tmp_path, step, verdict):
    earlier = write(tmp_path / "aa", [c for c in in_boots(40, 20, seed=3) if c["devices"][0]["driver"] == "570.1"])
    out = tmp_path / "noise.json"
    assert cli.main(["noise", str(earlier), "-o", str(out)]) == 0
    (known,) = earlier_.load_noise(out)[1].values()
    assert known.freedom == 19 and known.spread == pytest.approx(0.01, rel=0.4)
    folder = write(tmp_path / "r", in_boots(8, 1, step=step, boot_sd=0))
    _, _, results = verdicts(folder, "--noise", str(out), "--delta", "0.01", tmp_path=tmp_path)
    assert results[TIME]["verdict"] == verdict
    assert results[TIME]["reason"].startswith("not identifiable: boots" if verdict == "inconclusive" else "")


def test_boots_that_records_do_not_name_are_no_verdict(tmp_path):
    cases = jobs_of(History(step=0.05), 1, 8)
    cases[3]["host"]["boot_id"] = None
    code, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert code == 3 and results[TIME]["reason"] == "not identifiable: boots, which 1 of 16 jobs do not name"


def ordered(kind, metrics=40, jobs=8, step=0.05):
    """Returns records of many metrics. With `kind` "follow", the noise of successive jobs is correlated, and with
    "drift", it drifts."""
    chance, cases = np.random.default_rng(5), []
    for metric in range(metrics):
        noise = 0.01 * chance.standard_normal(2 * jobs)
        for i in range(1, 2 * jobs):
            noise[i] += 0.8 * noise[i - 1] if kind == "follow" else 0.003 * i if kind == "drift" else 0
        for i, value in enumerate(noise):
            time = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=i)
            driver = "570.1" if i < jobs else "580.1"
            value = 0.001 * float(np.exp(value + step * (i >= jobs)))
            cases.append(record(value, workload=f"microbench/w{metric}", job=f"{i:02}", time=time, driver=driver))
    return cases


@pytest.mark.parametrize(
    "kind, said, code",
    [
        ("follow", "autocorrelated: 0.", 3),
        ("drift", "trend", 3),
        ("neither", "", 1),
    ],
)
def test_order_that_matters_leaves_nothing_decided(tmp_path, capsys, kind, said, code):
    got, found, results = verdicts(write(tmp_path / "r", ordered(kind)), tmp_path=tmp_path)
    assert got == code and all(said in each["reason"] for each in results.values())
    assert found["order"]["metrics"] == 40
    assert ("order within the sides: does not matter" in capsys.readouterr().out) == (code == 1)


def test_what_is_too_little_to_test_is_said_with_the_answer(tmp_path, capsys):
    verdicts(write(tmp_path / "r", ordered("neither", metrics=1)), tmp_path=tmp_path)
    said = capsys.readouterr().out
    assert said.startswith("verdict: regressed\nworse    1 of 1 series\n")
    assert "\nsure     8 jobs against 8; margin ±1%; order of jobs: not testable\n" in said
    assert "\nmargin: ±1%; --noise or --delta give another\norder within the sides: not testable with 16 jobs" in said


def test_what_to_run_more_of_can_be_counted_and_run():
    assert judging.run_more(3, "job") == "run 3 more jobs a side"
    assert judging.run_more(1, "boot") == "run 1 more boot a side and jobs in each"
    assert judging.run_more(5, "node") == "run 5 more nodes a side and jobs in each"
    assert judging.run_more(27, "pair") == "run 27 more pairs of jobs, with one job of each side per pair"
    result = judging.Result(
        "a time", "inconclusive", unit="s", estimate=0.1, low=-math.inf, high=math.inf, q=0.5, delta=0.01, jobs=(3, 3),
        medians=(1.0, 1.1), reason="too few jobs", more=4, strata=2, paired="node",
    )  # fmt: skip
    judging.advise(result, 0.01, 1)
    assert comparison_text.lines_of(result)[-1].endswith(
        "too few jobs; run 4 more jobs a side, on the 2 nodes together"
    )


# --- common noise of nodes, and changes of a single part ---


def nights(seed, *, nodes=8, number=5, jobs=1, shock=0.0, noise=0.01, step=0.0, gap=1, boots="one", metrics=1, slow=()):
    """Returns records of nodes that run one after the other every night, with `number` nights per side. Each night
    shifts all nodes together.

    `gap` is the number of days between nights. `boots` is "one" if nodes are never restarted, "side" if they are
    restarted at the change, or "night" if every night. `slow` has pairs (node, factor) that apply to side B.
    """
    chance, cases = np.random.default_rng(seed), []
    own = 0.02 * chance.standard_normal((metrics, nodes))
    for night in range(2 * number):
        side = night >= number
        shared = shock * chance.standard_normal(metrics)
        for job in range(jobs):
            for node in range(nodes):
                time = datetime.datetime(2026, 1, 5) + datetime.timedelta(days=gap * night, minutes=6 * node + 60 * job)
                boot = {"one": 0, "side": side, "night": night}[boots]
                for metric in range(metrics):
                    log = own[metric, node] + shared[metric] + step * side + noise * chance.standard_normal()
                    value = 0.001 * float(np.exp(log)) * (dict(slow).get(node, 1) if side else 1)
                    where = {"node": f"n{node}", "gpu": f"G{node}", "job": f"{night:02}{job}{node}", "time": time}
                    where |= {"driver": "580.1" if side else "570.1", "host__boot_id": f"b{node}-{boot}"}
                    cases.append(record(value, **where, workload=f"microbench/w{metric:02}"))
    return cases


def first_of(results):
    return next(each for label, each in results.items() if label.startswith("microbench/"))


def compared(cases):
    """Compares the sides of these records by their first metric, without a store."""
    sides = {"A": {}, "B": {}}
    for case in cases:
        time = datetime.datetime.strptime(case["run"]["time"], "%Y-%m-%dT%H:%M:%SZ")
        side, node = "AB"[case["devices"][0]["driver"] == "580.1"], case["run"]["node"]
        places = {(node, case["devices"][0]["uuid"]): case["metrics"][0]["median"]}
        boots = frozenset({(node, case["host"]["boot_id"])})
        sides[side][case["run"]["job"]] = series.Job(case["run"]["job"], places, boots, time)
    each = series_of({})
    each.sides = {side: list(jobs.values()) for side, jobs in sides.items()}
    found = judging.compare(each, "x")
    found.q = found.p
    found.verdict = judging.judge(found, "lower")
    return found


@pytest.mark.parametrize("shape", [(8, 5), (4, 4)], ids=str)
def test_a_night_that_all_nodes_share_counts_once(shape):
    """Simulates a hundred histories with a shock of 2% per night, of which at most three may raise an alarm. If each
    of the forty jobs counted separately, half of the histories would."""
    found = [compared(nights(seed, nodes=shape[0], number=shape[1], shock=0.02, noise=0.003)) for seed in range(100)]
    assert sum(each.verdict in ("regressed", "improved") for each in found) <= 3
    assert all((each.clusters.name, each.clusters.sizes) == ("nights", (shape[1], shape[1])) for each in found)


def test_nodes_without_a_shared_shock_are_decided(tmp_path):
    code, _, results = verdicts(write(tmp_path / "r", nights(1, nodes=4, number=4, step=0.05)), tmp_path=tmp_path)
    assert (code, first_of(results)["verdict"]) == (1, "regressed")
    quiet = write(tmp_path / "q", nights(2, nodes=4, number=4, noise=0.003))
    code, _, results = verdicts(quiet, tmp_path=tmp_path)
    assert (code, first_of(results)["verdict"]) == (0, "equivalent")


@pytest.mark.parametrize(
    "made, reason",
    [
        ({"number": 1, "jobs": 4}, "not identifiable: nights of all nodes, 1 against 1; 3 a side needed"),
        ({"number": 5, "boots": "side"}, "not identifiable: restarts of all nodes, 1 against 1; 3 a side needed"),
    ],
    ids=["one night a side", "one restart of all nodes"],
)
def test_what_one_night_or_restart_of_all_nodes_cannot_tell_is_not_decided(tmp_path, made, reason):
    cases = nights(3, step=0.05, shock=0.0, **made)
    code, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert (code, first_of(results)["verdict"], first_of(results)["reason"]) == (3, "inconclusive", reason)


def test_a_restart_each_night_is_decided(tmp_path):
    code, _, results = verdicts(write(tmp_path / "r", nights(4, step=0.06, boots="night")), tmp_path=tmp_path)
    assert code == 1 and first_of(results)["unit_compared"] == "boot"


@pytest.mark.parametrize("factor, verdict", [(2.0, "regressed"), (1.1, "regressed"), (0.8, "inconclusive")])
def test_a_node_that_changed_by_itself_is_named(tmp_path, capsys, factor, verdict):
    cases = nights(5, number=4, noise=0.003, slow=[(3, factor)])
    code, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    found = first_of(results)
    assert (code, found["verdict"]) == (
        1 if verdict == "regressed" else 3,
        verdict,
    )  # inconclusive, because the other nodes alone are too few
    assert [part["where"] for part in found["parts"] if part["sure"]] == ["n3"]
    assert found["parts"][0]["estimate"] == pytest.approx(factor - 1, abs=0.02)
    said = capsys.readouterr().out
    assert verdict != "regressed" or "on n3\n" in said.partition("\n\n")[0]


@pytest.mark.parametrize("unit, word", [("s", "slower"), ("B/s", "lower")])
def test_a_change_for_the_worse_is_named_before_a_larger_one_for_the_better(tmp_path, capsys, unit, word):
    """Makes node 0 better by 9% and node 1 worse by 7%. Wherever only one change is named, it must be the worse one."""
    signs = {"s": 1, "B/s": -1}
    changes = [(0, math.exp(-0.09 * signs[unit])), (1, math.exp(0.07 * signs[unit]))]
    cases = nights(5, number=4, noise=0.003, slow=changes)
    for case in cases:
        case["metrics"][0] |= {"unit": unit, "better": "lower" if unit == "s" else "higher"}
    folder = write(tmp_path / "r", cases)
    code, _, results = verdicts(folder, tmp_path=tmp_path)
    assert (code, {part["where"] for part in first_of(results)["parts"]}) == (1, {"n0", "n1"})
    said = " ".join(capsys.readouterr().out.split())
    share = {"s": r"\+7", "B/s": "-6"}[unit]
    assert re.search(rf"worse 1 of 1 series \S+ pm tiny time: {share}\.\d% {word} on n1 sure", said), said
    assert "on n0" not in said and re.search("unlike the others: n1 .* n0 ", said)
    assert cli.main(["regress", str(folder), *SIDES, "--format", "json"]) == 1
    [row] = [row for row in json.loads(capsys.readouterr().out) if row["unit"] == unit and row["part"]]
    assert row["part"] == "n1" and row["part_change"] == pytest.approx(math.expm1(0.07 * signs[unit]), abs=0.015)


def test_each_figure_has_the_word_of_its_own_sign():
    """Uses a result that got slower as a whole while one part got faster by more."""
    part = judging.Part("n0", -0.09, -0.1, -0.08, 1e-9, own=-0.08, sure=True)
    result = judging.Result(
        "x", "regressed", unit="s", better="lower", estimate=0.02, low=0.015, high=0.025, q=1e-6, delta=0.01,
        parts=[part], medians=(1.0, 1.02),
    )  # fmt: skip
    assert comparison_text.lines_of(result)[1].split()[:2] == ["+2.0%", "slower"]
    found = judging.Outcome([result], {}, [], (8, 8), "±1%")
    assert comparison_text.answer(found)[2].split(": ")[1] == "+2.0% slower"


def gpus(seed, *, jobs=8, slow=0.0, noise=0.003, shared=0.01, some=0):
    """Returns records of jobs on eight GPUs of a node. In B, one GPU is slower by `slow`, or `some` jobs are slower."""
    chance, cases = np.random.default_rng(seed), []
    for job in range(2 * jobs):
        log = shared * chance.standard_normal() + 0.2 * (job >= jobs and 11 * job % jobs < some)
        for gpu in range(8):
            value = 0.001 * float(np.exp(log + noise * chance.standard_normal() + slow * (gpu == 5 and job >= jobs)))
            time = datetime.datetime(2026, 1, 5) + datetime.timedelta(days=job)
            driver = "580.1" if job >= jobs else "570.1"
            cases.append(record(value, gpu=f"G{gpu}", job=f"{job:02}", time=time, driver=driver))
    return cases


def test_a_gpu_that_changed_by_itself_is_named(tmp_path):
    """Makes one of eight GPUs 5% slower, which changes their mean by 0.6%, less than the noise between jobs."""
    code, _, results = verdicts(write(tmp_path / "r", gpus(1, slow=0.05)), tmp_path=tmp_path)
    assert (code, results[TIME]["verdict"]) == (1, "regressed")
    assert [part["where"] for part in results[TIME]["parts"]] == ["G5 of n1"]
    code, _, results = verdicts(write(tmp_path / "n", gpus(2, shared=0.003)), tmp_path=tmp_path)
    assert (code, results[TIME]["verdict"], results[TIME]["parts"]) == (0, "equivalent", [])


@pytest.mark.parametrize("some, verdict", [(0, "equivalent"), (1, "equivalent"), (4, "inconclusive"), (8, "regressed")])
def test_some_jobs_that_are_far_slower_are_not_equivalent(tmp_path, some, verdict):
    cases = gpus(3, jobs=30, shared=0.003, some=some)
    _, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    found = results[TIME]
    assert found["verdict"] == verdict
    assert [part["where"] for part in found["parts"]] == ([f"{some} of 30 jobs"] if some else [])


def together(seed, jobs=8, phi=0.6, shared=0.8, metrics=40, step=0.0):
    """Returns records of metrics in which each job's noise follows that of the job before it and is mostly common to
    all metrics."""
    chance, cases = np.random.default_rng(seed), []
    noise = math.sqrt(1 - shared) * chance.standard_normal((metrics, 2 * jobs))
    noise += math.sqrt(shared) * chance.standard_normal(2 * jobs)
    for i in range(1, 2 * jobs):
        noise[:, i] = phi * noise[:, i - 1] + math.sqrt(1 - phi**2) * noise[:, i]
    for (metric, job), log in np.ndenumerate(0.02 * noise + step * (np.arange(2 * jobs) >= jobs)):
        time = datetime.datetime(2026, 1, 5) + datetime.timedelta(days=job)
        driver = "580.1" if job >= jobs else "570.1"
        value = 0.001 * float(np.exp(log))
        cases.append(record(value, workload=f"microbench/w{metric:02}", job=f"{job:02}", time=time, driver=driver))
    return cases


def test_metrics_that_move_together_in_an_order_that_cannot_be_tested_are_withheld(tmp_path):
    alarms, guarded = 0, 0
    for seed in range(4):
        _, found, results = verdicts(write(tmp_path / f"{seed}", together(seed, metrics=12)), tmp_path=tmp_path)
        alarms += sum(each["verdict"] in ("regressed", "improved") for each in results.values())
        guarded += found["order"]["together"] and not found["order"]["testable"]
    assert alarms == 0 and guarded == 4


def test_a_change_that_no_order_explains_is_found_all_the_same(tmp_path):
    cases = together(1, phi=0.0, step=0.3, metrics=12)
    code, _, results = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert code == 1 and all(each["verdict"] == "regressed" for each in results.values())
    code, _, results = verdicts(write(tmp_path / "s", together(1, phi=0.0, step=0.06, metrics=12)), tmp_path=tmp_path)
    assert code == 3 and any("the metrics move together" in each["reason"] for each in results.values())


# --- what would decide ---


def seen(estimate, low, high, *, sigma, jobs=8, p=0.0104, delta=0.01):
    result = judging.Result(
        "a time", "inconclusive", unit="s", estimate=estimate, low=low, high=high, p=p, q=p, delta=delta,
        jobs=(jobs, jobs), units=(jobs, jobs), strata=1, paired="GPU", medians=(1.0, 1.1),
    )  # fmt: skip
    judging.advise(result, sigma, 1)
    return result


def test_what_is_advised_is_for_the_change_that_was_seen():
    assert 1 <= seen(-0.027, -0.039, -0.011, sigma=0.018).more <= 20
    assert seen(0.001, -0.02, 0.02, sigma=0.018).more > 20
    edge = seen(0.0101, -0.02, 0.04, sigma=0.018)
    assert edge.more is None and "decides it: the observed change is close to the margin" in edge.advice
    noisy = seen(0.0, -0.5, 0.5, sigma=0.5)
    assert noisy.more is None and noisy.advice.startswith("more than 1000 jobs a side would be needed")


def test_an_interval_that_is_not_there_is_not_shown_as_infinite(tmp_path, capsys):
    folder = write(tmp_path / "r", jobs_of(History(step=0.10), 1, 2))
    cli.main(["regress", str(folder), *SIDES])
    said = capsys.readouterr().out
    assert "∞" not in said and "(no interval)" in said


def test_the_answer_comes_first_in_ten_lines(tmp_path, capsys):
    workloads = [f"microbench/w{number:02}" for number in range(30)]
    cases = []
    for number, workload in enumerate(workloads):
        step = 0.2 if number == 7 else 0.05 if number < 10 else -0.05 if number < 20 else 0.0
        noise = 0.03 if number > 24 else 0.003
        cases += jobs_of(History(between=noise, step=step), number, 8, workloads=(workload,))
    cases = [case for case in cases if case["workload"] != workloads[-1] or case["devices"][0]["driver"] < "580"]
    code = cli.main(["regress", str(write(tmp_path / "r", cases)), *SIDES])
    answer, _, rest = capsys.readouterr().out.partition("\n\n")
    lines = answer.splitlines()
    assert code == 1 and len(lines) <= 10 and max(map(len, lines)) <= 80
    assert lines[0] == "verdict: regressed" and lines[1] == "worse    10 of 30 series"
    assert lines[2].startswith("         microbench/w07") and lines[2].endswith("slower")
    words = {line.split()[0] for line in lines}
    assert {"worse", "better", "gone", "unclear", "sure"} <= words
    assert rest.index("microbench/w07") < rest.index("microbench/w00")


def test_sides_that_share_no_node_are_not_said_to_lack_boots(tmp_path):
    cases = [
        record(0.001, node=f"n{side}{node}", gpu=f"G{side}{node}", job=f"{side}{node}", driver=f"5{7 + side}0.1")
        for side in range(2)
        for node in range(6)
    ]
    _, found, _ = verdicts(write(tmp_path / "r", cases), tmp_path=tmp_path)
    assert not any("was started" in note for note in found["notes"])
