"""Tests of a figure's uncertainty: intervals over jobs have the stated coverage, and scatter in a job is not used."""

import numpy as np
import pytest

from isthmus.records import jobs
from isthmus.statistics import spread


def record(run, median, job=None, system=None, **metric):
    entry = {"median": median, "samples": [median] * 5, "invalid": [], "mad": 0.1, "within_job": None} | metric
    return {"run": {"id": run, "job": job, "system": system}}, entry


@pytest.mark.parametrize("jobs", [6, 8, 12, 30, 101])
def test_the_interval_over_jobs_covers_the_median(jobs):
    chance = np.random.default_rng(jobs)
    trials = 4000
    values = chance.standard_exponential((trials, jobs))  # skewed, because normality must not be assumed
    covered = [s.low <= np.log(2) <= s.high for s in map(spread.over_jobs, values.tolist())]
    error = np.sqrt(0.95 * 0.05 / trials)
    assert np.mean(covered) >= 0.95 - 3 * error
    assert spread.over_jobs(values[0].tolist()).kind == "jobs"


def test_many_jobs_are_no_overflow():
    found = spread.over_jobs([float(n) for n in range(5000)])
    assert 2400 < found.low < 2500 < found.high < 2600


def test_few_jobs_have_their_range_and_one_has_none():
    assert spread.over_jobs([3.0, 1.0, 2.0]) == spread.Spread(1.0, 3.0, "range", 3)
    assert spread.over_jobs([1.0]) is None


def test_a_job_counts_once_however_many_records_it_has():
    values = spread.Values()
    for run, median in (("a", 1.0), ("b", 10.0), ("b", 10.0), ("b", 10.0)):
        values.add(*record(run, median))
    assert values.value == 5.5 and values.spread == spread.Spread(1.0, 10.0, "range", 2)


@pytest.mark.parametrize(
    "metric, kind, low, high",
    [
        ({"within_job": [9.0, 12.0], "samples": [10.0] * 20}, "within", 9.0, 12.0),
        ({"samples": [10.0] * 3, "mad": 0.5}, "samples", 9.5, 10.5),
        ({"samples": [10.0] * 3, "mad": 0.5, "invalid": [0, 1]}, None, None, None),
        ({"samples": [10.0], "mad": 0.0}, None, None, None),
    ],
)
def test_one_record_says_what_it_can_of_itself(metric, kind, low, high):
    values = spread.Values()
    values.add(*record("a", 10.0, **metric))
    assert (values.spread and values.spread.kind) == kind
    if kind:
        assert (values.spread.low, values.spread.high) == (low, high)


def test_processes_of_one_job_are_no_jobs():
    values = spread.Values()
    for median in (1.0, 2.0, 4.0):
        values.add(*record("a", median, job="7", system="x"))
    assert values.spread == spread.Spread(1.0, 4.0, "process", 1)


def test_job_numbers_of_two_systems_are_two_jobs():
    assert jobs.id_of(record("a", 1.0, job="7", system="x")[0]) != jobs.id_of(record("a", 1.0, job="7")[0])


@pytest.mark.parametrize(
    "low, high, text", [(0.9, 1.1, "±10%"), (0.997, 1.003, "±0.3%"), (1, 1.0000001, "±<0.1%"), (1, 1, "±<0.1%")]
)
def test_percent(low, high, text):
    assert spread.percent(1.0, spread.Spread(low, high, "jobs", 6)) == text


def test_nothing_known_is_no_zero():
    assert spread.percent(1.0, None) == "" and spread.percent(0.0, spread.Spread(-1, 1, "jobs", 6)) == ""
