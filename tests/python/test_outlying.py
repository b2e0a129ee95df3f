"""Tests that a node, GPU or job that differs from its equals does not silently widen bounds made from records."""

import datetime

import numpy as np
import pytest
from histories import record, series_of, write
from test_reference_command import SITE

from isthmus import cli
from isthmus.references import lookup
from isthmus.verdicts import outlying


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "references").mkdir(parents=True)
    (folder / "reframe.py").write_text(SITE)
    return folder


def fleet(folder, *, nodes=8, jobs=3, slower=lambda node, job: 1.0):
    """Writes records of `jobs` jobs on each node. `slower` returns the factor by which a job takes longer."""
    chance, cases = np.random.default_rng(3), []
    for node in range(1, nodes + 1):
        for job in range(jobs):
            value = 0.001 * slower(node, job) * (1 + 0.005 * chance.standard_normal())
            where = {"node": f"n{node}", "gpu": f"GPU-{node}", "job": f"{1000 * node + job}"}
            time = datetime.datetime(2026, 11, 1 + job, node)
            cases.append(record(value, **where, time=time, run__system="s", run__partition="local"))
    return write(folder, cases)


def update(folder, site, capsys):
    """Updates the references. Returns the output, the bound of `time`, and what was left out according to the file."""
    assert cli.main(["references", "update", str(folder), "--site", str(site), "--write"]) == 0
    said = capsys.readouterr().err
    path = site / "references/measured-local.yaml"
    [entry] = lookup.load_file(path)
    text = path.read_text(encoding="utf-8")
    return said, entry.metrics["time"], text.partition("left_out: ")[2].split('"')[1:2]


def test_bounds_are_made_without_a_slow_node(tmp_path, site, capsys):
    said, bound, left_out = update(fleet(tmp_path / "r", slower=lambda node, job: 1 + (node == 8)), site, capsys)
    assert bound.upper < 0.1 and left_out == ["n8"]
    assert "n8 is left out of 1 series, such as microbench/saxpy pm tiny time: " in said and "worse than" in said


def test_bounds_are_made_without_a_job_that_is_far_off(tmp_path, site, capsys):
    folder = fleet(tmp_path / "r", nodes=1, jobs=12, slower=lambda node, job: 1 + (job == 4))
    said, bound, left_out = update(folder, site, capsys)
    assert bound.upper < 0.1 and left_out == ["job s#1004"]
    assert "job s#1004 is left out of 1 series" in said


def test_nothing_is_left_out_of_equals(tmp_path, site, capsys):
    said, bound, left_out = update(fleet(tmp_path / "r"), site, capsys)
    assert bound.upper < 0.1 and not left_out and "left out" not in said and "wide" not in said


@pytest.mark.parametrize(
    "nodes, jobs, slower",
    [
        (2, 6, lambda node, job: 1 + (node == 2)),  # too few nodes to decide which one is slow
        (1, 12, lambda node, job: 1 + (job >= 7)),  # the time changes after some jobs
    ],
)
def test_bounds_that_let_a_third_of_the_rate_pass_are_named(tmp_path, site, capsys, nodes, jobs, slower):
    said, bound, _ = update(fleet(tmp_path / "r", nodes=nodes, jobs=jobs, slower=slower), site, capsys)
    assert bound.upper > 0.43 and "1 bound is so wide that a loss of 30% would pass" in said


def test_too_few_jobs_are_left_without_what_differs(tmp_path, site, capsys):
    folder = fleet(tmp_path / "r", nodes=1, jobs=8, slower=lambda node, job: 1 + (job == 4))
    assert cli.main(["references", "update", str(folder), "--site", str(site)]) == 2
    assert "without job s#1004 and its like" in capsys.readouterr().err


@pytest.mark.parametrize("value, is_named", [(1.0, True), (3.0, True), (2.0, False)])
def test_noise_names_a_job_that_is_far_off(tmp_path, capsys, value, is_named):
    """Compares a job with the others on its node, which is half as fast as the other node."""
    folder = fleet(tmp_path / "r", nodes=2, jobs=8, slower=lambda node, job: value if (node, job) == (2, 3) else node)
    assert cli.main(["noise", str(folder)]) == 0
    assert ("note: job s#2003 differs by a fifth or more" in capsys.readouterr().out) == is_named


def test_a_baseline_says_what_differs_in_it(tmp_path, capsys):
    folder = fleet(tmp_path / "r", jobs=8, slower=lambda node, job: 2 if node == 8 or (node, job) == (2, 3) else 1)
    assert cli.main(["regress", str(folder), "--save-baseline", "autumn"]) == 0
    said = capsys.readouterr().err
    assert "note: n8 is " in said
    assert "note: job s#2003 differs by a fifth or more from the others of its node in 1 " in said
    assert cli.main(["regress", str(folder), "--save-baseline", "some", "--from", "node=n1"]) == 0
    assert not capsys.readouterr().err


def test_compare_says_which_node_of_a_system_is_slow(tmp_path, capsys):
    old, new = fleet(tmp_path / "old"), fleet(tmp_path / "new", slower=lambda node, job: 1 + (node == 5))
    cli.main(["compare", str(old), str(new)])
    said = capsys.readouterr().err
    assert "new: n5 is " in said and "its figures include them" in said and "old:" not in said


def test_ordinary_noise_leaves_out_few_jobs():
    """Simulates 400 histories of 12 jobs with 2% noise, with normal and with heavy tails."""
    chance = np.random.default_rng(5)
    for values, most in ((chance.standard_normal((400, 12)), 0), (chance.standard_t(2, (400, 12)), 40)):
        found = [series_of({"A": {("n", ""): list(np.exp(0.02 * row))}}) for row in values]
        assert sum(bool(outlying.stray(each.of("A"))) for each in found) <= most
    zero = series_of({"A": {("n", ""): [0.0] * 12}})
    assert outlying.stray(zero.of("A")) == []
