"""Restart of a Python script with the tree's own Python, regardless of PATH. Call start() before other imports."""

import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STARTED = "ISTHMUS_OWN_PYTHON"


def start(text, *modules):
    """Restarts the script in .venv if that exists. If modules are still missing, ends the script, with its help if that
    was requested, otherwise with a sentence."""
    environment = os.path.join(ROOT, ".venv")
    own = os.path.join(environment, "bin", "python")
    is_own = os.path.realpath(sys.prefix) == os.path.realpath(environment)
    if os.access(own, os.X_OK) and not is_own and _STARTED not in os.environ:
        os.environ[_STARTED] = "1"
        os.execv(own, [own, *sys.argv])
    os.environ.pop(_STARTED, None)  # scripts that this one starts should not get it
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(text.strip())
        sys.exit(0)
    name = os.path.relpath(sys.argv[0], ROOT)
    sys.exit(f"{name}: {', '.join(missing)} not found by {sys.executable}; run scripts/setup test")
