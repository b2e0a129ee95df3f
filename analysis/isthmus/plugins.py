"""Parts of the command `isthmus` that other distributions provide, found by their entry points:

isthmus.commands   a Command, named after a command or a part of one, such as "faults model"
isthmus.changes    a module that adds to the report of `isthmus regress`: WANTED, of_store(), lines(), as_json()

A plug-in that cannot be loaded, whatever it raises, does not affect other plug-ins; a sentence is reported instead.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from isthmus import Error, spelling

if TYPE_CHECKING:
    import importlib.metadata
    import types

_OF_CHANGES = ("WANTED", "of_store", "lines", "as_json")


class Command(NamedTuple):
    """Command, or part of one, in another distribution; its module has add_arguments() and run()."""

    module: str
    does: str
    epilog: str | None = None  # parts of a command only


class Found(NamedTuple):
    """Plug-ins by name, and a sentence for each plug-in that cannot be loaded."""

    loaded: dict[str, Any]
    failed: dict[str, str]


def _unloadable(whose: str, error: BaseException) -> Error:
    why = spelling.shorten(f"{type(error).__name__}: {error}", 200)
    return Error(f"{whose} cannot be loaded ({why}); install it again, or remove it")


def _load(entry: importlib.metadata.EntryPoint) -> Any:
    whose = entry.dist.name if entry.dist else entry.value
    try:
        loaded = entry.load()
        if entry.group == "isthmus.commands" and not isinstance(loaded, Command):
            raise TypeError(f"{entry.value} is not a Command")
        if entry.group == "isthmus.changes":
            for name in _OF_CHANGES:
                getattr(loaded, name)
    except (Exception, SystemExit) as error:
        raise _unloadable(whose, error) from None
    return loaded


def module(name: str) -> types.ModuleType:
    """Imports the module of a command. Raises Error if a dependency is not installed or a plug-in cannot be loaded."""
    own = name.partition(".")[0]
    try:
        found = importlib.import_module(name)
        for needed in ("add_arguments", "run"):
            getattr(found, needed)
    except (Exception, SystemExit) as error:
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        if lacks and lacks.partition(".")[0] not in ("isthmus", own):
            raise Error(f"{lacks} is not installed; install it with `pip install 'isthmus[analysis]'`") from None
        if own == "isthmus":
            raise
        raise _unloadable(name, error) from None
    return found


@functools.cache
def _entries(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    import importlib.metadata  # here: listing what is installed takes longer than many commands

    return {entry.name: entry for entry in importlib.metadata.entry_points(group=group)}


def _found(entries: dict[str, importlib.metadata.EntryPoint]) -> Found:
    found = Found({}, {})
    for name, entry in entries.items():
        try:
            found.loaded[name] = _load(entry)
        except Error as error:
            found.failed[name] = str(error)
    return found


def commands() -> Found:
    """Returns the commands of plug-ins."""
    return _found({name: entry for name, entry in _entries("isthmus.commands").items() if " " not in name})


def parts(command: str) -> Found:
    """Returns the parts of a command that plug-ins add."""
    named = {tuple(name.split(" ", 1)): entry for name, entry in _entries("isthmus.commands").items() if " " in name}
    return _found({part: entry for (whole, part), entry in named.items() if whole == command})


def of_changes() -> Found:
    """Returns the modules that add to a report on a change, keyed by the names of their answers in JSON."""
    return _found(_entries("isthmus.changes"))
