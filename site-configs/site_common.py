"""What site configurations share: who pays, and whether there are modules."""

import os


def account(option: str) -> str:
    """`option` with your project, $ISTHMUS_ACCOUNT; without it a placeholder, which the scheduler refuses."""
    return option + os.environ.get("ISTHMUS_ACCOUNT", "ACCOUNT")


def modules_system() -> str:
    """The one of this machine. Away from it there is none, and a dry run or -l still shows the rest."""
    found = {"lmod": "LMOD_CMD", "tmod4": "MODULES_CMD"}
    return next((name for name, variable in found.items() if os.environ.get(variable)), "nomod")
