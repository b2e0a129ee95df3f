"""Has ReFrame wait by a clock that does not jump.

ReFrame computes how long it sleeps between two looks at its jobs, how long a job has been waiting and when a session's
time is over from time.time(). Where the clock of the machine is set back by a day, the session sleeps for a day. Here
its modules that wait get a time() that began as the machine's clock and then runs as the monotonic one does.
"""

import importlib
import pkgutil
import time

#: A step that this page's readers may call a jump, in seconds: clocks are corrected by less all the time.
JUMP = 1.0


class SteadyTime:
    """The module `time`, but for time()."""

    def __init__(self, wall=time.time, monotonic=time.monotonic):
        self._wall, self._monotonic = wall, monotonic
        self._began = wall() - monotonic()

    def __getattr__(self, name):
        return getattr(time, name)

    def time(self) -> float:
        return self._began + self._monotonic()

    def jumped(self) -> float:
        """Seconds by which the machine's clock was set since the session began: below 0 is back."""
        step = self._wall() - self.time()
        return step if abs(step) >= JUMP else 0.0


STEADY = SteadyTime()


def _modules():
    """ReFrame's that wait: policies, executors, and every scheduler."""
    yield importlib.import_module("reframe.frontend.executors")
    yield importlib.import_module("reframe.frontend.executors.policies")
    package = importlib.import_module("reframe.core.schedulers")
    yield package
    for found in pkgutil.iter_modules(package.__path__, "reframe.core.schedulers."):
        try:
            yield importlib.import_module(found.name)
        except ImportError:  # one whose own library is not here
            continue


def install(steady: SteadyTime = STEADY) -> None:
    for module in _modules():
        if hasattr(module, "time"):
            module.time = steady
