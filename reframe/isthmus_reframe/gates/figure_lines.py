"""What casts doubt on a figure, in ReFrame's own line of it: `P: rate: 29100000000.0 B/s [others on the GPU]`.

ReFrame prints a performance variable as value and unit. The unit stays what it is in its logs, reports and references;
only the printed line has more. None of this is ReFrame's public interface, so one without it fails here.
"""

import functools
import types

from reframe.frontend.executors import policies


def _marked(check):
    """The performance values of a check with what it says against each behind the unit."""
    doubts = getattr(check, "doubts", {})
    marked = {}
    for key, (*before, unit, result) in check.perfvalues.items():
        words = doubts.get(key.rpartition(":")[2])
        marked[key] = (*before, f"{unit} [{words}]" if words else unit, result)
    return marked


def install():
    """Once, before a session runs."""
    original = policies._print_perf
    if hasattr(original, "isthmus_doubts"):
        return

    @functools.wraps(original)
    def print_perf(task):
        check = types.SimpleNamespace(perfvalues=_marked(task.testcase.check))
        original(types.SimpleNamespace(testcase=types.SimpleNamespace(check=check)))

    print_perf.isthmus_doubts = True
    policies._print_perf = print_perf
