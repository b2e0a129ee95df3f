"""Lets a Python script run by the tree's own Python, whichever is first on PATH: call start() before other imports."""

import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STARTED = "ISTHMUS_OWN_PYTHON"


def start(text, *modules):
    """Goes on in .venv where there is one. Modules that are still missing end the script: with its help where that was
    asked for, else with a sentence."""
    environment = os.path.join(ROOT, ".venv")
    own = os.path.join(environment, "bin", "python")
    is_own = os.path.realpath(sys.prefix) == os.path.realpath(environment)
    if os.access(own, os.X_OK) and not is_own and _STARTED not in os.environ:
        os.environ[_STARTED] = "1"
        os.execv(own, [own, *sys.argv])
    os.environ.pop(_STARTED, None)  # not for the scripts that this one starts
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(text.strip())
        sys.exit(0)
    name = os.path.relpath(sys.argv[0], ROOT)
    sys.exit(f"{name}: {', '.join(missing)} not found by {sys.executable}; run scripts/setup test")
