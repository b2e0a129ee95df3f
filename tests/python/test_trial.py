"""Tests of noise, of trials, which are planned from measured noise and end with one verdict, and of drift."""

import datetime
import errno
import functools
import itertools
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess

import numpy as np
import pytest
from histories import History, jobs_of, medians, record, tell, write

from isthmus import cli, exits
from isthmus.records import measurements, store
from isthmus.statistics import change_points, clusters, rank_test, series
from isthmus.verdicts import baselines, drift, judging, missing, trial

ROOT = pathlib.Path(__file__).resolve().parents[2]


# --- noise ---


def test_noise_is_what_was_put_in(tmp_path, capsys):
    chance = np.random.default_rng(1)
    cases = [
        record(
            0.001 * float(np.exp(0.01 * chance.standard_normal() + 0.3 * node)), node=f"n{node}", job=f"{node}-{job}"
        )
        for node in range(4)
        for job in range(30)
    ]
    folder, out = write(tmp_path / "r", cases), tmp_path / "noise.json"
    assert cli.main(["noise", str(folder)]) == cli.main(["noise", str(folder), "-o", str(out)]) == 0
    assert "microbench/saxpy pm tiny time" in capsys.readouterr().out
    (between,) = baselines.load_noise(out)[0].values()
    assert between == pytest.approx(0.01, rel=0.2)


def aa_run(folder, *, noisy=0.004, chance=None):
    """Writes records of ten jobs on each of eight nodes, in two series. Node n3 has more noise in one of the series."""
    chance = chance or np.random.default_rng(5)
    return write(folder, [
        record(0.001 * float(np.exp((noisy if (node, workload) == (3, "a/b") else 0.004) * chance.standard_normal())),
               workload=workload, node=f"n{node}", gpu=f"GPU-{node}", job=f"{node}-{job}",
               time=datetime.datetime(2026, 1, 1) + datetime.timedelta(days=job, minutes=6 * node))
        for workload in ("a/b", "a/c") for node in range(8) for job in range(10)
    ])  # fmt: skip


def test_one_noisy_node_is_named_and_planned_for(tmp_path, capsys):
    folder, out = aa_run(tmp_path / "r", noisy=0.05), tmp_path / "noise.json"
    assert cli.main(["noise", str(folder)]) == cli.main(["noise", str(folder), "-o", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "note: GPU-3 of n3 is noisier than the others in 1 series, such as a/b pm tiny time: " in said
    noisy, quiet = json.loads(out.read_text(encoding="utf-8"))
    assert (noisy["noisy"], quiet["noisy"]) == ("GPU-3 of n3", None)
    assert noisy["worst"] == pytest.approx(0.05, rel=0.4) and noisy["between"] == pytest.approx(0.004, rel=0.3)
    assert noisy["needed"] > 40 > 10 > quiet["needed"]
    assert plan(tmp_path / "trial", "--nodes", "n1", "--step", "0.03", "--noise", str(out)) == 0
    assert int(capsys.readouterr().out.split()[0]) > 40


def test_a_noisy_node_is_seldom_named_where_none_is(tmp_path):
    """Simulates equal nodes. At most 5% of sessions may name a noisy node, with any distribution."""
    chance = np.random.default_rng(1)
    heavy, skewed = functools.partial(chance.standard_t, 2), functools.partial(chance.exponential, 1)
    for draw in (chance.standard_normal, heavy, skewed):
        named = sum(bool(rank_test.noisier([draw(jobs) for jobs in (2, 5, 5, 10, 10, 30)])) for _ in range(500))
        assert named <= 25 + 3 * 5


def test_noise_of_values_of_both_signs_is_in_their_unit(tmp_path, capsys):
    cases = [record(0.001, job=str(job)) for job in range(8)]
    for job, case in enumerate(cases):
        case["metrics"][0] |= {"name": "change", "unit": "1", "better": "higher", "median": 0.4 * (-1) ** job}
    folder, out = write(tmp_path / "r", cases), tmp_path / "noise.json"
    assert cli.main(["noise", str(folder)]) == cli.main(["noise", str(folder), "-o", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "change 0.839 - - 0.02 8 1" in shown and "in its unit" in shown
    (entry,) = json.loads(out.read_text(encoding="utf-8"))
    assert entry["between"] == pytest.approx(0.839, abs=1e-3)
    assert entry["margin"] == pytest.approx(0.4 * judging.CEILING)  # limited to the same share as in `regress`
    assert entry["needed"] == rank_test.jobs_needed(0.03 * 0.4 / entry["between"], metrics=1)


def test_noise_says_when_the_machine_changed(tmp_path, capsys):
    assert cli.main(["noise", str(write(tmp_path / "r", jobs_of(History(), 1, 6)))]) == 0
    assert "not one state of the machine: driver" in capsys.readouterr().out
    assert cli.main(["noise", str(tmp_path / "r"), "--from", "driver=570"]) == 0
    assert "not one state" not in capsys.readouterr().out
    assert cli.main(["noise", str(tmp_path / "r"), "--from", "driver=999"]) == 2
    assert "--from selects no job; driver is 570.124.06, 580.159.04" in capsys.readouterr().err


def test_one_job_has_no_noise(tmp_path, capsys):
    assert cli.main(["noise", str(write(tmp_path / "r", [record(1.0)]))]) == 2
    assert "run more jobs" in capsys.readouterr().err


# --- trials ---

PLAN = ["--from", "driver=570", "--to", "driver=580", "--command", "true"]


def plan(folder, *arguments):
    return cli.main(["trial", "plan", str(folder), *PLAN, *arguments])


@pytest.mark.parametrize(
    "arguments, jobs", [(["--nodes", "n1", "--metrics", "500"], 11), (["--nodes", "n1"], 7), (["--nodes", "n1,n2"], 4)]
)
def test_the_plan_says_how_many_jobs(tmp_path, capsys, arguments, jobs):
    assert plan(tmp_path / "t", *arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{jobs} jobs a side on each of")
    assert json.loads((tmp_path / "t/plan.json").read_text())["jobs"] == jobs


def test_what_a_plan_finds_is_what_power_says():
    step = trial.detectable(11, nodes=1, metrics=500)
    assert rank_test.power(step, 11, metrics=500) >= 0.9
    assert rank_test.power(step / 1.03, 11, metrics=500) < 0.9
    assert trial.detectable(3, nodes=1, metrics=1) == float("inf")


def test_noisy_series_ask_for_more_jobs():
    assert trial.needed([0.01], 0.03, nodes=1, metrics=1) == 6
    assert trial.needed([0.001] * 8 + [0.01, 0.2], 0.03, nodes=1, metrics=1) == 6  # enough for nine of ten series
    assert trial.needed([0.02] * 10, 0.03, nodes=1, metrics=1) > 15


def test_the_order_is_random_balanced_and_repeatable():
    rows = trial.schedule(["n1", "n2"], 8, 3, control=False, in_turns=True, seed=1)
    assert rows == trial.schedule(["n1", "n2"], 8, 3, control=False, in_turns=True, seed=1)
    assert rows != trial.schedule(["n1", "n2"], 8, 3, control=False, in_turns=True, seed=2)
    for node in ("n1", "n2"):
        sides = [side for _, where, _, side, _ in rows if where == node]
        assert all(sorted(pair) == ["after", "before"] for pair in zip(sides[::2], sides[1::2]))
    assert len({order for *_, order in rows}) > 3


@pytest.mark.parametrize(
    "arguments, most",
    [
        (["--nodes", "n1", "--sd", "0.05", "--step", "0.01", "--metrics", "500"], 4000),
        (["--nodes", ",".join(f"n{i}" for i in range(400)), "--sd", "0.05", "--step", "0.01"], 10),
    ],
)
def test_large_plans_are_approximate_and_say_so(tmp_path, capsys, arguments, most, monkeypatch):
    """Makes plans with so many jobs that simulating their comparisons would take 300 s or 46 GiB; they must be
    approximated instead."""
    drawn = rank_test._draws
    monkeypatch.setattr(rank_test, "_draws", lambda n, strata: drawn(n, strata) if n * strata <= 60 else 1 / 0)
    assert plan(tmp_path / "t", *arguments) == 0
    said = capsys.readouterr().out
    assert 1 < int(said.split()[0]) <= most and "approximate: the number of jobs is too large to simulate" in said
    step = re.search(r"a step of (.*)% or more in 100%", said)[1]
    assert 0.5 < float(step) <= 1.0


@pytest.mark.parametrize("jobs, strata, metrics, step", [(57, 1, 500, 1.05), (6, 8, 500, 1.2), (20, 3, 1, 0.6)])
def test_the_approximate_power_is_the_simulated_one(jobs, strata, metrics, step):
    cut = rank_test.cut(((jobs, jobs),) * strata, rank_test.threshold(metrics) / 2)
    near = rank_test._normal_power(step, jobs, strata, cut)
    assert near == pytest.approx(rank_test.power(step, jobs, strata=strata, metrics=metrics), abs=0.01)
    assert near < 0.99


def test_a_plan_that_nobody_can_run_is_refused(tmp_path, capsys):
    assert plan(tmp_path / "t", "--nodes", "n1", "--sd", "0.5", "--step", "0.001") == 2
    assert "more than 100000; look for a larger step" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_boots_are_planned_in_random_pairs(tmp_path, capsys):
    assert plan(tmp_path / "t", "--nodes", "n1,n2", "--boots", "5", "--jobs", "2") == 0
    said = capsys.readouterr().out
    assert said.startswith("10 jobs a side on each of 2 nodes in 5 boots, 40 jobs in all")
    rows = [line.split("\t") for line in (tmp_path / "t/plan.tsv").read_text().splitlines()]
    sides = {part: {row[3] for row in rows if row[0] == part} for part in [f"boot{n}" for n in range(1, 11)]}
    order = [side for (side,) in sides.values()]
    assert all(sorted(pair) == ["after", "before"] for pair in zip(order[::2], order[1::2]))
    orders = {tuple(trial._boots_in_turn(5, random.Random(seed))) for seed in range(20)}
    assert len(orders) > 10
    assert f"boot1 {order[0]}, boot2 {order[1]}" in said and "submit boot10, then" in said


def test_a_spread_of_boots_asks_for_boots_and_more_jobs_of_one_do_not_help(tmp_path, capsys):
    def boots(*arguments):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        assert plan(tmp_path / "t", "--nodes", "n1", *arguments) == 0
        return json.loads((tmp_path / "t/plan.json").read_text())["boots"]

    assert boots("--boot-sd", "0.01", "--sd", "0.005") == 8
    assert boots("--boot-sd", "0.01", "--sd", "0.005", "--jobs", "50") == 7
    assert boots("--boot-sd", "0.0001", "--sd", "0.0001") == 5  # with fewer boots, p cannot be small enough
    capsys.readouterr()
    assert boots() == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if not line.startswith("next: ")) <= 80
    said = " ".join(" ".join(lines).split())
    assert "5 boots a side on each node separate them (--boots 5)" in said


def test_restarts_of_all_nodes_are_the_unit_of_a_plan(tmp_path):
    """Plans trials with restarts. More nodes make a restart's mean more certain but do not add restarts."""
    restart = {"metrics": 1, "boot_sd": 0.01, "delta": 0.01}
    sizes = [trial.size([0.005], 0.05, nodes=nodes, **restart).boots for nodes in (2, 8)]
    assert sizes[0] == sizes[1] >= clusters.fewest(0.01) == 3
    few = trial.size([0.005], 0.05, nodes=8, boots=2, jobs=2, **restart)
    assert few.unit == "restarts" and few.finds(1.0) > 0.05 > trial.size(
        [0.005], 0.05, nodes=8, boots=6, jobs=2, **restart
    ).finds(1.0)
    assert math.isinf(trial.size([0.005], 0.05, nodes=8, boots=1, jobs=2, **restart).finds(1.0))


def test_boots_that_did_not_happen_are_told(tmp_path, capsys):
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0", "--boots", "3", "--jobs", "2")
    fill(folder, History(), 6, host__boot_id=None)
    assert cli.main(["trial", "read", str(folder)]) == 3
    assert "before on n0 ran in no known of 3 boots" in capsys.readouterr().out
    fill(folder, History(), 6, host__boot_id="one")
    assert cli.main(["trial", "read", str(folder)]) == 3
    assert "after on n0 ran in 1 of 3 boots" in capsys.readouterr().out


def fake_slurm(folder, driver, config="MaxArraySize = 1001"):
    """Returns an environment with a fake Slurm, which runs each task of an array at once on the requested node.

    tests/slurm tests the same with a real Slurm.
    """
    (folder / "bin").mkdir(exist_ok=True)
    for name, script in {
        "sbatch": "set -e\nnode=${1#--nodelist=}; tasks=${2#--array=}; tasks=${tasks%\\%1}; shift 2\n"
        f'echo "$tasks" >>{folder}/arrays\n'
        "for task in ${tasks//,/ }; do SLURM_JOB_ID=$((10 + task)) SLURMD_NODENAME=$node SLURM_ARRAY_TASK_ID=$task "
        f'DRIVER={driver} bash "$@" || true; done\n',
        "scontrol": f"[[ $1 != show || $2 != config ]] || echo '{config}'\n",
    }.items():
        (folder / "bin" / name).write_text(f"#!/usr/bin/env bash\n{script}")
        (folder / "bin" / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


COMMAND = 'echo "$SLURMD_NODENAME $SLURM_ARRAY_TASK_ID $DRIVER it\'s me" >>"$ISTHMUS_RESULTS/log"'


@pytest.mark.parametrize("extra, parts", [([], ["before", "after"]), (["--control"], ["before", "control", "after"])])
def test_the_scripts_run_what_was_planned(tmp_path, extra, parts):
    folder = tmp_path / "a trial"
    assert plan(folder, "--nodes", "n1,n2", "--jobs", "3", "--command", COMMAND, *extra) == 0
    environment = fake_slurm(tmp_path, "x")
    for part in parts * 2:  # the second time, finished tasks do not run again
        subprocess.run([folder / "submit", part], env=environment, check=True, capture_output=True)
        lines = (folder / "records" / part / "command2/log").read_text().splitlines()
        assert sorted(lines) == sorted(f"n{n} {task} x it's me" for n in (1, 2) for task in range(3))
    refused = subprocess.run([folder / "submit", "other"], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "before" in refused.stderr


def test_in_turns_each_job_chooses_its_side(tmp_path):
    folder = tmp_path / "t"
    setup = ["--setup-before", "DRIVER=old", "--setup-after", "DRIVER=new"]
    assert plan(folder, "--nodes", "n1", "--jobs", "4", "--command", COMMAND, *setup) == 0
    subprocess.run([folder / "submit", "both"], env=fake_slurm(tmp_path, "x"), check=True, capture_output=True)
    for side, driver in (("before", "old"), ("after", "new")):
        lines = (folder / "records" / side / "command2/log").read_text().splitlines()
        assert len(lines) == 4 and all(f" {driver} " in line for line in lines)


@pytest.mark.parametrize(
    "config, arrays",
    [
        ("MaxArraySize = 3", ["0,1,2", "0,1,2", "0"]),
        ("MaxArraySize = 9\nSchedulerParameters = a,max_array_tasks=5,b", ["0,1,2,3,4", "0,1"]),
        ("MaxArraySize = 9\nSchedulerParameters = max_array_tasks=5000", ["0,1,2,3,4,5,6"]),
    ],
)
def test_of_more_tasks_than_an_array_may_have_there_are_several(tmp_path, config, arrays):
    folder = tmp_path / "t"
    assert plan(folder, "--nodes", "n1", "--jobs", "7", "--command", COMMAND) == 0
    subprocess.run([folder / "submit", "before"], env=fake_slurm(tmp_path, "x", config), check=True)
    assert (tmp_path / "arrays").read_text().split() == arrays
    assert sorted(path.name for path in (folder / "tasks").iterdir()) == [f"before.n1.{task}" for task in range(7)]


def test_a_slurm_without_arrays_is_told(tmp_path):
    plan(tmp_path / "t", "--nodes", "n1")
    environment = fake_slurm(tmp_path, "x", "MaxArraySize = 0")
    done = subprocess.run([tmp_path / "t/submit", "before"], env=environment, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2 and b"no job arrays" in done.stderr


def test_what_was_lost_or_failed_is_told_and_runs_again_alone(tmp_path, capsys):
    folder, environment = tmp_path / "t", fake_slurm(tmp_path, "x")
    fails = f"[[ -e {tmp_path}/mended || $SLURM_ARRAY_TASK_ID != 4 ]]"
    cli.main(["trial", "plan", str(folder), *PLAN[:-1], fails, "--nodes", "n0", "--jobs", "6"])
    fill(folder, History(between=0.004), 6)
    capsys.readouterr()
    running = "it is still running, or was lost"
    ends = {
        "": running,
        "99 be": running,
        "98 began\n98 ended 0\n99 began\n": running,
        "99 began\n99 ended 1": running,
        "99 began\n99 ended 143\n": "signal 15 ended it",
    }
    for cut, why in ends.items():
        (folder / "tasks/after.n0.2").write_text(cut)
        assert cli.main(["trial", "read", str(folder)]) == 3
        said = capsys.readouterr().out
        assert "verdict: equivalent" in said
        assert f"note: task 2 of after on n0 (after) began but did not end: {why}" in said
    for _ in range(2):
        subprocess.run([folder / "submit", "after"], env=environment, check=True)
        # The figures measured before the failure may be equivalent, but the unmeasured ones are unknown.
        assert cli.main(["trial", "read", str(folder)]) == 3
        said = capsys.readouterr().out
        assert "note: task 4 of after on n0 (after), job 14, ended with exit code 1" in said
        assert said.endswith("the trial is not complete; run submit again for the tasks that were lost or failed\n")
    (tmp_path / "mended").touch()
    subprocess.run([folder / "submit", "after"], env=environment, check=True)
    assert cli.main(["trial", "read", str(folder)]) == 0
    assert "note: task" not in capsys.readouterr().out
    subprocess.run([folder / "submit", "after"], env=environment, check=True)
    assert (tmp_path / "arrays").read_text().split() == ["0,1,2,3,4,5", "4", "4"]


def test_a_side_that_has_not_run_yet_is_told(tmp_path, capsys):
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0", "--control", "--jobs", "6")
    fill(folder, History(between=0.004), 6, control=1.0)
    (folder / "records/after/records.jsonl").unlink()
    assert cli.main(["trial", "read", str(folder)]) == 3
    said = capsys.readouterr().out
    assert "restart alone: equivalent" in said
    assert "6 of 6 jobs after on n0 are missing" in said
    assert said.endswith("nothing to compare yet: no job after left a record\n")


@pytest.mark.parametrize("name", ["tasks/both.n0.0", "tasks"])
def test_notes_of_tasks_behind_a_link_that_leads_nowhere_are_not_taken_for_none(tmp_path, capsys, name):
    folder = in_turns(tmp_path / "t", 0.0)
    (folder / name).rename(tmp_path / "away")
    (folder / name).symlink_to("/gone")
    capsys.readouterr()
    assert cli.main(["trial", "read", str(folder)]) == exits.BAD_INPUT
    assert f"{name}: a link whose target is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, contents, why",
    [
        ("plan.tsv", "before n0 0\n", "not as a trial writes it"),
        ("tasks/before.n0.0", b"\xff\xfe began\n", "a trial did not write it"),
        ("plan.tsv", None, "No such file"),
    ],
)
def test_a_trial_that_was_tampered_with_is_refused(tmp_path, capsys, name, contents, why):
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0")
    fill(folder, History(between=0.004), 6)
    if contents is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    assert cli.main(["trial", "read", str(folder)]) == 2
    assert why in capsys.readouterr().err


def test_the_scripts_are_clean(tmp_path):
    plan(tmp_path / "t", "--nodes", "n1", "--setup-before", "module load old", "--setup-after", "module load new")
    for name in ("trial.sbatch", "submit"):
        checked = subprocess.run(["shellcheck", tmp_path / "t" / name], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


def fill(folder, history, jobs, seed=1, control=None, **changes):
    cases = jobs_of(history, seed, jobs, **changes)
    sides = {"before": [], "after": []}
    for case in cases:
        sides["before" if case["devices"][0]["driver"].startswith("570") else "after"].append(case)
    if control is not None:
        copies = [json.loads(json.dumps(case)) for case in sides["before"]]
        for case in copies:
            case["run"]["job"] += "c"
            case["metrics"][0]["median"] *= control
        sides["control"] = copies
    for side, found in sides.items():
        write(folder / "records" / side, found)


@pytest.mark.parametrize(
    "history, verdict, code", [(History(step=0.05), "regressed", 1), (History(between=0.004), "equivalent", 0)]
)
def test_a_trial_is_read_as_one_verdict(tmp_path, capsys, history, verdict, code):
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0", "--jobs", "6")
    fill(folder, history, 6)
    assert cli.main(["trial", "read", str(folder)]) == code
    assert f"verdict: {verdict}" in capsys.readouterr().out
    assert cli.main(["compact", str(folder / "records")]) == 0
    assert cli.main(["trial", "read", str(folder)]) == code


def in_turns(folder, step, trend=0.0, jobs=12, seed=3):
    """Fills a trial with jobs of both sides in the planned order, on a machine that gets slower by `trend`."""
    setup = ["--setup-before", "x", "--setup-after", "y"]
    assert plan(folder, "--nodes", "n0", "--jobs", str(jobs), *setup) == 0
    chance, cases = np.random.default_rng(seed), {"before": [], "after": []}
    for line in (folder / "plan.tsv").read_text().splitlines():
        _, node, task, side, _ = line.split("\t")
        log = 0.004 * chance.standard_normal() + trend * int(task) / (2 * jobs) + step * (side == "after")
        time = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=int(task))
        driver = "570.1" if side == "before" else "580.1"
        cases[side].append(record(math.exp(log), node=node, job=str(100 + int(task)), time=time, driver=driver))
        (folder / f"tasks/both.{node}.{task}").write_text(f"{100 + int(task)} began\n{100 + int(task)} ended 0\n")
    for side, found in cases.items():
        write(folder / "records" / side, found)
    return folder


def test_turns_are_read_as_pairs_so_a_trend_hides_nothing(tmp_path, capsys):
    """Finds a step of 3% on a machine that gets 30% slower during the trial."""
    planned = in_turns(tmp_path / "t", 0.03, trend=0.3)
    capsys.readouterr()  # discards the plan's output
    assert cli.main(["trial", "read", str(planned)]) == 1
    said = capsys.readouterr().out
    assert "as 12+12 pairs" in said and said.startswith("verdict: regressed\n")
    assert cli.main(["trial", "read", str(in_turns(tmp_path / "n", 0.0, trend=0.1, jobs=14))]) in (0, 3)
    assert "verdict: regressed" not in capsys.readouterr().out
    for path in (tmp_path / "t/tasks").iterdir():
        path.unlink()  # without these files, the pairs are unknown
    assert cli.main(["trial", "read", str(tmp_path / "t")]) == 3
    assert "pairs" not in capsys.readouterr().out


def test_a_plan_in_turns_has_pairs_enough_to_prove_something(tmp_path):
    setup = ["--setup-before", "x", "--setup-after", "y"]
    for nodes, metrics, jobs in (("n1", "1", 8), ("n1", "500", 15), ("n1,n2,n3,n4", "500", 4)):
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        assert plan(tmp_path / "t", "--nodes", nodes, "--metrics", metrics, "--sd", "0.005", *setup) == 0
        assert json.loads((tmp_path / "t/plan.json").read_text())["jobs"] == jobs


def test_signed_ranks_are_what_counting_every_sign_gives(monkeypatch):
    for differences in ([1.0, -2.0, 3.0, 4.0, 5.5, -0.5], [1.0, 1.0, -1.0, 2.0, 0.0, 3.0], [0.0, 0.0]):
        d = np.array(differences)
        signed = d[d != 0]
        ranks = [np.mean([sum(abs(signed) < abs(x)) + 1, sum(abs(signed) <= abs(x))]) for x in signed]
        sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in itertools.product((0, 1), repeat=len(signed))]
        won = sum(r for r, x in zip(ranks, signed) if x > 0)
        expected = 2 * min(np.mean(np.array(sums) <= won), np.mean(np.array(sums) >= won))
        assert rank_test.compare_pairs(d).p == pytest.approx(min(1, expected))
    wide = np.random.default_rng(1).standard_normal(200) + 0.2
    exact = rank_test.compare_pairs(wide)
    monkeypatch.setattr(rank_test, "_EXACT_ALL", 0)
    normal = rank_test.compare_pairs(wide)
    assert normal.p == pytest.approx(exact.p, rel=0.05) and normal.low == pytest.approx(exact.low, abs=0.005)
    assert rank_test.fewest_pairs(0.01) == 8 and rank_test.fewest_pairs(2.0**-9) == 10


def test_what_the_restart_alone_does_is_not_the_drivers(tmp_path, capsys):
    """Makes everything 5% slower after any restart, so that the driver has no effect."""
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0", "--control")
    fill(folder, History(step=0.05, between=0.004), 8, control=1.05)
    assert cli.main(["trial", "read", str(folder)]) == 0
    said = capsys.readouterr().out
    assert (
        "restart alone: regressed" in said and "\nverdict: equivalent\n" in said.split("so the change is compared")[1]
    )


def test_an_unfinished_trial_does_not_pass(tmp_path, capsys):
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0", "--jobs", "9")
    fill(folder, History(between=0.004), 8)
    assert cli.main(["trial", "read", str(folder)]) == 3
    assert "1 of 9 jobs before on n0 are missing" in capsys.readouterr().out


IDLE = "isthmus-bench run 'transfer/*'"


def two_commands(folder, idle):
    """Writes the files of a trial with two commands on one node. `idle` returns the second's record, or None."""
    assert plan(folder, "--nodes", "n0", "--jobs", "6", "--command", IDLE) == 0
    fill(folder, History(between=0.004), 6)
    for side in ("before", "after"):
        first = folder / "records" / side / "command1"
        first.mkdir()
        (folder / "records" / side / "records.jsonl").rename(first / "records.jsonl")
        cases = [json.loads(line) for line in (first / "records.jsonl").read_text().splitlines()]
        left = [idle(case | {"workload": "transfer/copy"}, number) for number, case in enumerate(cases)]
        if any(left):
            write(folder / "records" / side / "command2", [case for case in left if case])
    return folder


def skipped(case):
    return case | {"metrics": [], "skipped": "no second GPU", "skip_kind": "unsupported"}


@pytest.mark.parametrize(
    "idle, count",
    [
        (lambda case, number: None, 6),
        (lambda case, number: case if number < 5 else None, 1),
        (lambda case, number: skipped(case), 6),
        (lambda case, number: case, 0),
    ],
    ids=["never", "not in the last job", "skipped", "always"],
)
@pytest.mark.parametrize("compacted", [False, True])
def test_a_command_that_left_nothing_is_told_and_decides_nothing(tmp_path, capsys, idle, count, compacted):
    """Omits figures of one command on both sides, so that a comparison of the sides does not show their absence."""
    folder = two_commands(tmp_path / "t", idle)
    if compacted:
        assert cli.main(["compact", str(folder / "records")]) == 0
    for chosen in ([], ["--workload", "microbench/*"]):
        capsys.readouterr()
        assert cli.main(["trial", "read", str(folder), *chosen]) == (3 if count else 0)
        said = " ".join(capsys.readouterr().out.split())
        for side in ("before", "after"):
            told = f"note: command 2 ({IDLE}) left no figure in {count} of 6 jobs {side} on n0"
            assert (told in said) == bool(count)
        assert "command 1" not in said and "verdict: equivalent" in said


def test_records_that_no_command_left_are_those_of_none(tmp_path, capsys):
    folder = two_commands(tmp_path / "t", lambda case, number: case)
    for path in (folder / "records").glob("*/command2/records.jsonl"):
        path.rename(path.parent.parent / "elsewhere.jsonl")
    assert cli.main(["trial", "read", str(folder)]) == 3
    assert f"command 2 ({IDLE}) left no figure in 6 of 6 jobs after on n0" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "command, why",
    [
        ("isthmus-bench run x --quiet --record transfer.jsonl", "writes its records to 'transfer.jsonl'"),
        ("cd a && isthmus-bench run x --record='/b c/d.jsonl'", "writes its records to '/b'"),
        ('srun bash -c "isthmus-bench run x --record $HOME/x.jsonl"', "writes its records to '$HOME/x.jsonl'"),
        ("isthmus-bench run x --record $ISTHMUS_RESULTS/../x.jsonl", "writes its records to"),
        ("isthmus-bench run x --record $ISTHMUS_RESULTS_OLD/x.jsonl", "writes its records to"),
        ("ISTHMUS_RESULTS=results isthmus-bench run x", "sets ISTHMUS_RESULTS"),
        ('isthmus-bench run x --record "$ISTHMUS_RESULTS/x.jsonl"', ""),
        ("isthmus-bench run x --record=${ISTHMUS_RESULTS}/x.jsonl --record-samples", ""),
    ],
)
def test_a_command_whose_records_would_be_lost_is_refused(tmp_path, capsys, command, why):
    assert plan(tmp_path / "t", "--nodes", "n1", "--command", command) == (2 if why else 0)
    assert why in capsys.readouterr().err


def test_of_a_task_that_ran_again_only_the_last_job_counts(tmp_path, capsys):
    """Runs a task twice. The first job crashed at gemv and must not count; if it did, one of the jobs would lack
    gemv."""
    folder, workloads = tmp_path / "t", ("microbench/saxpy", "microbench/gemv")
    plan(folder, "--nodes", "n0", "--jobs", "6")
    fill(folder, History(between=0.001), 6, workloads=workloads)
    crashed = record(0.9e-3, node="n0", gpu="GPU-0", job="99", driver="580.159.04", workload=workloads[0])
    write(folder / "records/after", [crashed], "crashed.jsonl")
    (folder / "tasks/after.n0.5").write_text("99 began\n99 ended 134\n11 began\n11 ended 0\n")
    (folder / "tasks/before.n0.0").write_text("0 began\n0 began\n0 ended 0\n")  # a requeued task keeps its job id
    (folder / "tasks/.after.n0.5.swp").write_bytes(b"\0\xff")
    assert cli.main(["trial", "read", str(folder)]) == 0
    assert "6 jobs against 6, 2 series" in capsys.readouterr().out


def test_jobs_in_another_state_than_planned_are_refused(tmp_path, capsys):
    folder = tmp_path / "t"
    plan(folder, "--nodes", "n0")
    fill(folder, History(between=0.004), 6)
    os.rename(folder / "records/before", folder / "records/x")
    os.rename(folder / "records/after", folder / "records/before")
    os.rename(folder / "records/x", folder / "records/after")
    assert cli.main(["trial", "read", str(folder)]) == 2
    assert "6 jobs before did not run with driver=570" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["--nodes", "n1;rm -rf x"], "is not the name of a node"),
        (["--nodes", "$(id)"], "is not the name of a node"),
        (["--nodes", "n1,n1"], "named twice"),
        (["--nodes", "n1", "--step", "0"], "'0' is not a share between 0 and 1"),
        (["--nodes", "n1", "--jobs", "0"], "is not a number of 1 or more"),
        (["--nodes", "n1", "--setup-before", "x"], "go together"),
        (["--nodes", "n1", "--noise", "/none"], "No such file"),
        (["--nodes", "n1", "--boots", "3", "--control"], "leave out --control"),
        (["--nodes", "n1", "--control", "--setup-before", "x", "--setup-after", "y"], "leave out --control"),
        (["--nodes", "n1", "--boots", "3", "--setup-before", "x", "--setup-after", "y"], "leave out --boots"),
    ],
)
def test_bad_plans_are_refused(tmp_path, capsys, arguments, why):
    assert plan(tmp_path / "t", *arguments) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_a_plan_is_written_whole_or_not_at_all(tmp_path, capsys, monkeypatch):
    write_text, full = pathlib.Path.write_text, OSError(errno.ENOSPC, "No space left on device")

    def fail(path, text, **words):
        write_text(path, text[:10], **words)
        raise full

    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "write_text", fail)
        assert plan(tmp_path / "t", "--nodes", "n1") == 2
    assert "No space left" in capsys.readouterr().err and not list(tmp_path.iterdir())
    assert plan(tmp_path / "t", "--nodes", "n1") == 0


def test_a_plan_overwrites_nothing(tmp_path, capsys):
    assert plan(tmp_path / "t", "--nodes", "n1") == 0
    assert plan(tmp_path / "t", "--nodes", "n1") == 2
    assert "already exists" in capsys.readouterr().err
    assert cli.main(["trial", "read", str(tmp_path)]) == 2


# --- drift ---


def history_of(values, **where):
    start = datetime.datetime(2026, 1, 1)
    return [
        record(float(value), job=f"{n:03}", time=start + datetime.timedelta(days=n), **where)
        for n, value in enumerate(values)
    ]


def test_a_step_that_nobody_announced_is_found_with_its_day_and_what_changed_there(tmp_path, capsys):
    chance = np.random.default_rng(1)
    values = np.exp(0.01 * chance.standard_normal(40)) * np.where(np.arange(40) < 25, 1, 1.04)
    cases = history_of(values)
    for case in cases[25:]:
        case["host"]["kernel"] = "Linux 6.9"
    with store.open_store([write(tmp_path / "r", cases)]) as opened:
        found = drift.search(opened)
    (change,) = found.changes
    assert found.searched == 1 and change.low < 0.04 < change.high and change.size == pytest.approx(0.04, abs=0.01)
    assert abs(int(change.after.split()[0]) - 25) <= 2
    assert change.differences == ["kernel"]
    assert cli.main(["drift", str(tmp_path / "r")]) == 1
    assert "changed there: kernel" in capsys.readouterr().out


def alike(chance, shape, phi):
    """Returns normal noise in which each job is correlated with the one before it."""
    values = chance.standard_normal(shape)
    for n in range(1, shape[-1]):
        values[..., n] = phi * values[..., n - 1] + math.sqrt(1 - phi**2) * values[..., n]
    return values


def days_of(workloads, jobs, kept):
    """Returns records of one job per day that measures these workloads. kept(record, day, workload) returns a changed
    record, or None to omit it."""
    chance, cases = np.random.default_rng(1), []
    for workload in workloads:
        for day, case in enumerate(history_of(np.exp(0.01 * chance.standard_normal(jobs)), workload=workload)):
            cases.append(kept(case, day, workload))
    return [case for case in cases if case]


def failed(case):
    case["metrics"], case["error"] = [], "launch: device lost"
    case["verify"]["status"] = "not_run"
    return case


SUITE = [f"microbench/w{number}" for number in range(7)]


def in_one_night(case, day):
    """Moves the first ten jobs to one night, and omits all others."""
    case["run"] |= {"job": f"study {day}", "time": f"2026-01-01T20:{day:02}:00Z"}
    return case if day < 10 else None


@pytest.mark.parametrize(
    "kept, said",
    [
        (lambda case, day, workload: case if day < 40 or workload == SUITE[0] else None, "20 days: microbench/w1"),
        (
            lambda case, day, workload: failed(case) if day >= 40 and workload == SUITE[0] else case,
            "gone for 20 days: microbench/w0",
        ),
        (
            lambda case, day, workload: failed(case) if day >= 30 and (day + int(workload[-1])) % 3 == 0 else case,
            "machine failed_cases on n1",
        ),
    ],
    ids=["vanished", "always fails", "a third fails"],
)
def test_cases_that_vanish_or_begin_to_fail_are_a_change(tmp_path, capsys, kept, said):
    folder = write(tmp_path / "r", days_of(SUITE, 60, kept))
    assert cli.main(["drift", str(folder)]) == 1
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "kept",
    [
        lambda case, day, workload: case if day % 7 == int(workload[-1]) else None,  # one workload per day, in turns
        lambda case, day, workload: case if day < 56 or workload != SUITE[0] else None,  # missing from only four jobs
        lambda case, day, workload: case if workload != SUITE[0] or day < 4 else None,  # never had six values
        lambda case, day, workload: case | {"version": 1 + (workload == SUITE[0] and day >= 30)},
        lambda case, day, workload: (
            case | {"version": 2, "axes": case["axes"] | {"another": 1}} if workload == SUITE[0] and day >= 30 else case
        ),
        lambda case, day, workload: failed(case) if day in (20, 40, 59) and workload < SUITE[2] else case,
        lambda case, day, workload: in_one_night(case, day) if workload == SUITE[0] else case,
        lambda case, day, workload: (
            case if day < 59 else failed(case) if workload == SUITE[0] else None  # the last job runs only one case
        ),
    ],
    ids=["in turns", "4 jobs", "seldom", "another version", "another axis", "fails thrice", "a study", "a retry"],
)
def test_suites_in_turns_and_single_failures_are_no_change(tmp_path, kept):
    assert cli.main(["drift", str(write(tmp_path / "r", days_of(SUITE, 60, kept)))]) == 0


def test_a_gpu_that_lost_its_series_is_named(tmp_path, capsys):
    cases = days_of(SUITE[:1], 60, lambda case, day, workload: case)
    for day, case in enumerate(list(cases)):
        if day < 40:
            device = case["devices"][0] | {"uuid": "GPU-second"}
            cases.append(case | {"devices": [device], "run": case["run"] | {"job": f"{case['run']['job']}-second"}})
    assert cli.main(["drift", str(write(tmp_path / "r", cases))]) == 1
    assert "gone for 20 days: all that it measured on n1, GPU-second" in " ".join(capsys.readouterr().out.split())


def test_what_is_missing_by_chance_is_seldom_gone():
    """Runs suites on a random share of nights, as placed by Slurm, and checks for losses after each night."""
    false = 0
    for seed in range(HISTORY_TRIALS):
        chance = np.random.default_rng(seed)
        ran = chance.random((20, 60)) < chance.choice([0.5, 0.7, 0.9])
        false += any(
            missing.is_gone(len(row[: last + 1].nonzero()[0]), last + 1, now - last - 1, series=20)
            for row in ran
            for now in range(12, 60)
            if row[:now].any()
            for last in [int(row[:now].nonzero()[0][-1])]
        )
    assert false <= 0.05 * HISTORY_TRIALS


def test_slow_drift_is_found():
    chance = np.random.default_rng(2)
    before, after = medians(chance, History(drift=0.08), 200, 30)
    found = [change_points.change_point(np.concatenate([a[0], b[0]]))[1] for a, b in zip(before, after)]
    assert np.mean(np.array(found) <= 0.01) > 0.9


def test_the_evidence_is_a_martingale_where_nothing_changed():
    """Checks that the mean of the evidence is about 1 or less, so that its reciprocal is a p-value at any time."""
    z = np.random.default_rng(5).standard_normal((4000, 12))
    evidence = np.array([np.exp(change_points.log_evidence(row, 0.0)[0][-1]) for row in z])
    assert (evidence.mean(axis=0) < 1.2).all() and (evidence.mean(axis=0) > 0.1).all()
    assert 0.99 < change_points.weights(10**6).sum() + 1 / (2.1098 * math.log(10**6)) < 1.01


HISTORIES = {
    "normal": lambda chance, shape: chance.standard_normal(shape),
    "heavy tails": lambda chance, shape: chance.standard_t(2, shape),
    "skewed": lambda chance, shape: np.exp(chance.standard_normal(shape)),
    "autocorrelated, 0.2": lambda chance, shape: alike(chance, shape, 0.2),
    "autocorrelated, 0.6": lambda chance, shape: alike(chance, shape, 0.6),
    "two clock states": lambda chance, shape: 0.3 * chance.standard_normal(shape) + 5 * (chance.random(shape) < 0.3),
}
HISTORY_TRIALS = int(os.environ.get("ISTHMUS_TRIALS", "200"))


@pytest.mark.parametrize("n", [24, 75])
@pytest.mark.parametrize("kind", HISTORIES)
def test_false_change_points_are_rare_however_often_one_looks(n, kind, capsys, record_property):
    """Reads histories without changes after each of their jobs, and counts false change points."""
    values = 0.01 * HISTORIES[kind](np.random.default_rng(n), (HISTORY_TRIALS, n))
    share = np.mean([change_points.change_point(row)[1] <= 0.01 for row in values])
    error = np.sqrt(0.01 * 0.99 / HISTORY_TRIALS)
    tell(capsys, record_property, f"false change points, {kind}, {n} jobs: {share:.2%} ± {error:.2%}")
    assert share <= 0.012 + 3 * error


@pytest.mark.parametrize("phi, shared", [(0.2, 0.0), (0.6, 0.0), (0.2, 0.7)])
def test_a_site_of_many_series_is_quiet(phi, shared, capsys, record_property):
    """Simulates sessions with 60 series on each of two nodes. All series of a job may share half of the noise."""
    chance, alarms, sessions = np.random.default_rng(7), 0, max(4, HISTORY_TRIALS // 40)
    for _ in range(sessions):
        own, common = alike(chance, (2, 60, 30), phi), alike(chance, (2, 1, 30), phi)
        values = 0.01 * (math.sqrt(1 - shared**2) * own + shared * common)
        alarms += bool(drift.find(simulated(values)).changes)
    tell(capsys, record_property, f"sessions with a false change, φ={phi}, shared {shared}: {alarms} of {sessions}")
    assert alarms <= max(1, 0.05 * sessions + 3 * math.sqrt(0.05 * 0.95 * sessions))


def simulated(values):
    """Returns series made from an array of logarithms (nodes, series, jobs)."""
    start = datetime.datetime(2026, 1, 1)
    found = []
    for number in range(values.shape[1]):
        key = tuple({"workload": f"w{number}", "metric": "time", "unit": "s"}.get(name) for name in measurements.SERIES)
        jobs = [
            series.Job(f"n{node}-{n}", {(f"n{node}", ""): float(np.exp(values[node, number, n]))}, frozenset(),
                       start + datetime.timedelta(days=n, hours=node))
            for node in range(values.shape[0]) for n in range(values.shape[2])
        ]  # fmt: skip
        found.append(series.Series(key, "lower", None, {"A": jobs}))
    return found


def test_small_steps_are_found_where_many_series_or_nodes_have_them():
    """Plants a step of about 1.2% in 1% noise. It is too small to find in one series, but is found in 60 series of a
    node together, or in one series of 20 nodes."""
    chance = np.random.default_rng(3)
    noise_of = 0.01 * chance.standard_normal((1, 60, 30))
    noise_of[..., 18:] += 0.012
    changes = drift.find(simulated(noise_of)).changes
    assert changes[0].together == 60 and changes[0].node == "n0" and -0.02 < changes[0].size < -0.01
    nodes_have = 0.01 * chance.standard_normal((20, 1, 30))
    nodes_have[..., 18:] += 0.014
    changes = drift.find(simulated(nodes_have)).changes
    assert changes[0].together == 20 and changes[0].node == "" and len(drift.events(changes)) == 1


@pytest.mark.parametrize("metrics", [1, 100])
def test_a_collapse_is_seen_at_its_first_job(metrics):
    """Plants a collapse of 26% in 0.3% noise after 19 jobs, which is found at once, even in only one of 100 series."""
    values = 0.003 * np.random.default_rng(4).standard_normal((1, metrics, 20))
    assert drift.find(simulated(values)).changes == []
    values[0, 0, 19] -= math.log(0.74)
    (change,) = [c for c in drift.find(simulated(values)).changes if c.together == 1]
    assert change.label.startswith("w0") and change.size == pytest.approx(0.35, abs=0.02)
    assert change.after.startswith("n0-19 ")


def test_one_wild_job_of_a_wild_series_is_no_collapse():
    values = 0.003 * np.random.default_rng(4).standard_t(2, 20)
    values[19] = 2 * np.abs(values).max()
    assert change_points.change_point(values)[1] > 0.01


def test_steady_and_short_histories(tmp_path, capsys):
    chance = np.random.default_rng(3)
    steady = write(tmp_path / "steady", history_of(np.exp(0.01 * chance.standard_normal(40))))
    assert cli.main(["drift", str(steady)]) == 0
    assert cli.main(["drift", str(write(tmp_path / "short", history_of([1.0, 2.0])))]) == 3
    assert "0 series of nodes with more than 5 jobs" in capsys.readouterr().out
    nothing = write(tmp_path / "nothing", [failed(case) for case in history_of([1.0] * 8)])
    assert cli.main(["drift", str(nothing)]) == 3
