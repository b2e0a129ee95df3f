"""Doubts about a figure, in ReFrame's own line for it: `P: rate: 29100000000.0 B/s [others on the GPU]`.

ReFrame prints a performance variable as value and unit. The unit is unchanged in its logs, reports and references; only
the printed line has the doubt. The patched function is not part of ReFrame's public interface, so a ReFrame without it
fails here.
"""

import functools
import types

from reframe.frontend.executors import policies


def _marked(check):
    """Returns the performance values of a check, each with its doubts after the unit."""
    doubts = getattr(check, "doubts", {})
    marked = {}
    for key, (*before, unit, result) in check.perfvalues.items():
        words = doubts.get(key.rpartition(":")[2])
        marked[key] = (*before, f"{unit} [{words}]" if words else unit, result)
    return marked


def install():
    """Patches ReFrame's function that prints performance values. It is called once, before a session runs."""
    original = policies._print_perf
    if hasattr(original, "isthmus_doubts"):
        return

    @functools.wraps(original)
    def print_perf(task):
        check = types.SimpleNamespace(perfvalues=_marked(task.testcase.check))
        original(types.SimpleNamespace(testcase=types.SimpleNamespace(check=check)))

    print_perf.isthmus_doubts = True
    policies._print_perf = print_perf
