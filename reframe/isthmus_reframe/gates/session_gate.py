"""Gate that makes a session without any check fail; a site's configuration imports it.

A `-c` with a path that does not exist is only a warning in ReFrame, and 0 of 0 checks pass. Our checks cannot fail,
because none is loaded. The patched function is not part of ReFrame's public interface. The gates of loaded checks are
next to this file.
"""

import functools
import sys


def refuse_no_checks() -> None:
    """Installs the gate. Does nothing outside ReFrame, for example when `isthmus site check` reads a configuration."""
    executors = sys.modules.get("reframe.frontend.executors")
    if executors is None or hasattr(executors.Runner.runall, "isthmus_no_checks"):
        return
    from reframe.core.exceptions import ReframeError

    original = executors.Runner.runall

    @functools.wraps(original)
    def runall(self, testcases, *args, **kwargs):
        if not testcases:
            raise ReframeError("nothing to run: no check was found; check the path after -c")
        return original(self, testcases, *args, **kwargs)

    runall.isthmus_no_checks = True
    executors.Runner.runall = runall


refuse_no_checks()
