"""Pictures and pages: the report, and what notebooks draw."""

import atexit
import os
import pathlib
import shutil
import tempfile


def _give_matplotlib_a_home() -> None:
    """matplotlib cannot be imported by a user who has neither a name nor $HOME, as in containers."""
    try:
        pathlib.Path.home()
    except RuntimeError:
        if "MPLCONFIGDIR" not in os.environ:
            os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="matplotlib-")
            atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)


_give_matplotlib_a_home()
