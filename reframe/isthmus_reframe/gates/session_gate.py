"""Makes a session without any check fail: a site's configuration imports this.

A `-c` that leads nowhere is a warning to ReFrame, and 0 of 0 checks pass. Our checks cannot object, since none is
loaded. None of this is ReFrame's public interface; the gates of loaded checks are beside it.
"""

import functools
import sys


def refuse_no_checks() -> None:
    """Outside ReFrame, as where `isthmus site check` reads a configuration, nothing is changed."""
    executors = sys.modules.get("reframe.frontend.executors")
    if executors is None or hasattr(executors.Runner.runall, "isthmus_no_checks"):
        return
    from reframe.core.exceptions import ReframeError

    original = executors.Runner.runall

    @functools.wraps(original)
    def runall(self, testcases, *args, **kwargs):
        if not testcases:
            raise ReframeError("nothing to run: no check was found; look at the path behind -c")
        return original(self, testcases, *args, **kwargs)

    runall.isthmus_no_checks = True
    executors.Runner.runall = runall


refuse_no_checks()
