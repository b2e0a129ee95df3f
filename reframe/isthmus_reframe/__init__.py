"""Isthmus's checks for ReFrame: jobs, builds and runs of isthmus-bench, what judges them, and the gates of a session.

A check file of a site begins with `from isthmus_reframe.check import IsthmusCheck`.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
if str(ROOT / "analysis") not in sys.path:
    sys.path.insert(0, str(ROOT / "analysis"))
