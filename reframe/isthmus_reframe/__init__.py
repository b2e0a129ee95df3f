"""Isthmus's checks for ReFrame: jobs, builds and runs of isthmus-bench, what judges them, and the gates of a session.

A check file of a site begins with `from isthmus_reframe.check import IsthmusCheck`.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# This tree's, whatever else is installed. The path is left as it was: while ReFrame loads a file it has an entry of its
# own at the end of it, and takes away what stands at that place afterwards.
sys.path.insert(0, str(ROOT / "analysis"))
import isthmus  # noqa: F401

sys.path.remove(str(ROOT / "analysis"))
