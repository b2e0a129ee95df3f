"""Tests that setting the clock during a session does not change how long ReFrame waits."""

import pytest
from reframe.core.schedulers import slurm
from reframe.frontend.executors import policies

import isthmus_reframe.check  # noqa: F401, installs the clock
from isthmus_reframe import steady_clock


class Clock:
    """Fake of a machine's clock and its monotonic clock, which a test can set and advance."""

    def __init__(self):
        self.wall, self.ran, self.slept = 1e9, 0.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.wall += seconds
        self.ran += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    steady = steady_clock.SteadyTime(wall=lambda: clock.wall, monotonic=lambda: clock.ran)
    steady.sleep = clock.sleep
    monkeypatch.setattr(policies, "time", steady)
    monkeypatch.setattr(steady_clock, "STEADY", steady)
    return clock


@pytest.fixture
def poll(monkeypatch):
    """Returns ReFrame's poll controller with ReFrame's default options."""
    options = {"poll_rate_max": 10, "poll_rate_min": 0.1, "poll_rate_decay": 0.1, "poll_randomize_ms": None}
    current = type("Runtime", (), {"get_option": lambda self, name: options[name.rpartition("/")[2]]})
    monkeypatch.setattr(policies.rt, "runtime", current)
    return policies._PollController()


@pytest.mark.parametrize("step", [-86400, -60, 60, 86400])
def test_a_clock_that_is_set_changes_no_wait(clock, poll, step):
    poll.reset_poll_rate()
    for number in range(40):
        if number == 20:
            clock.wall += step
        poll.snooze()
    assert len(clock.slept) == 40 and max(clock.slept) <= 30
    assert steady_clock.STEADY.jumped() == pytest.approx(step)


def test_reframe_alone_would_sleep_as_long_as_the_clock_was_set_back(clock, poll, monkeypatch):
    """Shows ReFrame's fault without the steady clock. If this test fails, ReFrame no longer needs the steady clock."""
    monkeypatch.setattr(policies.time, "time", lambda: clock.wall)
    poll.reset_poll_rate()
    poll.snooze()
    clock.wall -= 86400
    poll.snooze()
    assert max(clock.slept) > 86000


def test_every_scheduler_waits_by_it():
    assert isinstance(slurm.time, steady_clock.SteadyTime)
    assert all(
        isinstance(module.time, steady_clock.SteadyTime)
        for module in steady_clock._modules()
        if hasattr(module, "time")
    )


def test_a_correction_is_no_jump(clock):
    clock.wall += 0.5
    assert steady_clock.STEADY.jumped() == 0
