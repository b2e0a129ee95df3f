"""Isthmus's checks for ReFrame: jobs, builds and runs of isthmus-bench, their judges, and the gates of a session.

A check file of a site begins with `from isthmus_reframe.check import IsthmusCheck`.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Imports this tree's package even if another version is installed. The path must be restored, because ReFrame has an
# entry at the end of the path while it loads a file, and afterwards removes whatever is at that position.
sys.path.insert(0, str(ROOT / "analysis"))
import isthmus  # noqa: F401

sys.path.remove(str(ROOT / "analysis"))
