"""Tests of the intervals of compare and score in worlds whose truth is known, which unkind_systems.py simulates."""

import datetime
import math
import os

import pytest
import unkind_systems
from histories import tell
from unkind_systems import UNIDENTIFIABLE, World

from isthmus.statistics import series
from isthmus.verdicts import clusters

TRIALS = int(os.environ.get("ISTHMUS_TRIALS", "60"))


@pytest.mark.parametrize(
    "world", [World(1, 2, jobs=4), World(1, 8), World(4, 4, night=0.02), World(8, 2, night=0.02)], ids=lambda w: w.name
)
def test_intervals_hold_the_truth(world, capsys, record_property):
    found = unkind_systems.rates(world, TRIALS)
    tell(capsys, record_property, unkind_systems.row(world, found))
    error = math.sqrt(0.05 * 0.95 / TRIALS)
    for command in ("compare", "score"):
        share, _ = found[command]
        assert share >= 0.92 - 2.5 * error
    assert found["ranked"][0] <= 0.06 + 2.5 * error


@pytest.mark.parametrize("world", UNIDENTIFIABLE, ids=lambda w: w.name)
def test_one_boot_or_night_has_no_interval(world):
    found = unkind_systems.rates(world, 3)
    assert found["compare"] is None and found["score"] is None and found["ranked"] == (0.0, 0.0)


# --- occasions ---


def job(name, node, hour, boot, value=1.0):
    time = datetime.datetime(2026, 1, 1) + datetime.timedelta(hours=hour)
    return series.Job(name, {(node, ""): value}, frozenset({(node, boot)}), time)


def occasions(*jobs):
    """Returns the number of jobs in each occasion, in the order of the occasions' first jobs."""
    labels = [*clusters.occasions(jobs).values()]
    return [labels.count(label) for label in dict.fromkeys(labels)]


def test_jobs_of_one_night_are_one_occasion():
    nights = [job(f"{n} {night}", f"n{n}", 24 * night + n, "b") for night in range(3) for n in range(2)]
    assert occasions(*nights) == [2, 2, 2]
    assert occasions(*[job(str(hour), f"n{hour % 2}", hour, "b") for hour in range(96)]) == [24] * 4


def test_restarts_of_all_nodes_are_occasions_and_those_of_one_are_not():
    """Restarts all nodes or only one, within one night or over several."""
    for step in (1, 24):
        together = [job(f"{n} {t}", f"n{n}", step * t, f"b{t // 2}") for t in range(4) for n in range(2)]
        assert occasions(*together) == [4, 4]
    alone = [job(f"{n} {t}", f"n{n}", t, f"b{t // 2 if n else 0}") for t in range(4) for n in range(2)]
    assert occasions(*alone) == [8]


def test_one_node_has_the_occasions_of_its_boots_however_many_nights_they_last():
    assert occasions(*[job(str(t), "n", 24 * t, f"b{t // 4}") for t in range(8)]) == [4, 4]
    assert occasions(*[job(str(t), "n", 24 * t, "b") for t in range(8)]) == [8]
    assert occasions(*[job(str(t), "n", 24 * t, None) for t in range(8)]) == [8]


def test_hosts_that_ran_one_after_the_other_were_not_started_anew():
    assert occasions(*[job(str(t), f"n{t}", t, f"b{t}") for t in range(4)]) == [4]


def test_why_there_is_no_interval():
    def reason(*jobs):
        return clusters.estimate([clusters.cells(jobs, clusters.occasions(jobs))], [1.0]).reason

    assert reason(job("1", "n", 0, "b"), job("2", "n", 24, "b")) == clusters.ONE_BOOT
    assert reason(job("1", "n", 0, None), job("2", "n", 24, None)) == clusters.NO_BOOTS
    assert reason(job("1", "n", 0, "a"), job("2", "m", 1, "b")) == clusters.ONE_NIGHT
    assert reason(job("1", "n", 0, "a"), job("2", "m", 24, "b")) == ""
    assert reason(job("1", "n", 0, "a"), job("2", "n", 1, "b")) == ""
