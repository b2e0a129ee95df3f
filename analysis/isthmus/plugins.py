"""Parts of the command `isthmus` that other distributions bring, found by their entry points:

isthmus.commands   a Command under the name of a command, or of a part of one as in "faults model"
isthmus.changes    a module that says more of a change for `isthmus regress`: WANTED, of_store(), lines(), as_json()
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from isthmus import Error

if TYPE_CHECKING:
    import importlib.metadata


class Command(NamedTuple):
    """A command, or a part of one, that lies elsewhere: its module has add_arguments() and run()."""

    module: str
    does: str
    epilog: str | None = None  # of a part


def _load(entry: importlib.metadata.EntryPoint) -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        whose = entry.dist.name if entry.dist else entry.value
        raise Error(f"{whose} cannot be loaded ({error}); install it again, or remove it") from None


@functools.cache
def _entries(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    import importlib.metadata  # here: finding out what is installed takes longer than many a command's start

    return {entry.name: entry for entry in importlib.metadata.entry_points(group=group)}


def commands() -> dict[str, Command]:
    """Commands that are not Isthmus's own, by name. Raises Error for one that cannot be loaded."""
    return {name: _load(entry) for name, entry in _entries("isthmus.commands").items() if " " not in name}


def parts(command: str) -> dict[str, Command]:
    """Parts of a command that are not Isthmus's own, by name. Raises Error for one that cannot be loaded."""
    return {
        name.partition(" ")[2]: _load(entry)
        for name, entry in _entries("isthmus.commands").items()
        if name.partition(" ")[0] == command and " " in name
    }


def of_changes() -> dict[str, Any]:
    """Modules that say more of a change, by the name that their answer has in JSON. Raises Error likewise."""
    return {name: _load(entry) for name, entry in _entries("isthmus.changes").items()}
