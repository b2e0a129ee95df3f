"""Patch that makes ReFrame wait by a clock that does not jump.

ReFrame computes from time.time() how long it sleeps between two polls, how long a job has been queued and when a
session's time is over. If the machine's clock is set back by a day, the session sleeps for a day. With this patch,
ReFrame's modules that wait get a time() that starts at the machine's clock and proceeds like the monotonic clock.
"""

import importlib
import pkgutil
import time

#: Smallest step of the clock, in seconds, that counts as a jump; smaller corrections of clocks are frequent.
JUMP = 1.0


class SteadyTime:
    """Replacement of the module `time` with another time()."""

    def __init__(self, wall=time.time, monotonic=time.monotonic):
        self._wall, self._monotonic = wall, monotonic
        self._began = wall() - monotonic()

    def __getattr__(self, name):
        return getattr(time, name)

    def time(self) -> float:
        return self._began + self._monotonic()

    def jumped(self) -> float:
        """Returns how far the machine's clock was set forward since the session began, in seconds; negative if it was
        set back."""
        step = self._wall() - self.time()
        return step if abs(step) >= JUMP else 0.0


STEADY = SteadyTime()


def _modules():
    """Yields ReFrame's modules that wait: policies, executors, and every scheduler."""
    yield importlib.import_module("reframe.frontend.executors")
    yield importlib.import_module("reframe.frontend.executors.policies")
    package = importlib.import_module("reframe.core.schedulers")
    yield package
    for found in pkgutil.iter_modules(package.__path__, "reframe.core.schedulers."):
        try:
            yield importlib.import_module(found.name)
        except ImportError:  # a scheduler whose own library is not installed
            continue


def install(steady: SteadyTime = STEADY) -> None:
    for module in _modules():
        if hasattr(module, "time"):
            module.time = steady
