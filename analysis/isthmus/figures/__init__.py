"""Figures and pages: the report, and plots for notebooks."""

import atexit
import os
import pathlib
import shutil
import tempfile


def _give_matplotlib_a_home() -> None:
    """Sets MPLCONFIGDIR if the user has neither a name nor $HOME, as in containers.

    Without it, matplotlib could not be imported.
    """
    try:
        pathlib.Path.home()
    except RuntimeError:
        if "MPLCONFIGDIR" not in os.environ:
            os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="matplotlib-")
            atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)


_give_matplotlib_a_home()
