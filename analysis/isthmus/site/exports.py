"""Variables of this project that a site sets for its jobs: in its configuration, and in its Spack environment."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from isthmus import inputs, variables

#: Keys with (name, value) pairs in ReFrame's configuration; the second is an older name for the first.
_PAIRS = ("env_vars", "variables")
#: Keys with shell lines or scheduler options, which may set variables (--export=NAME=VALUE).
_TEXTS = ("prepare_cmds", "access")


def of(place: dict) -> Iterator[str]:
    """Yields a sentence for each variable that a system, partition or environment sets without effect."""
    for key in _PAIRS:
        for why in variables.without_effect(_pairs(place.get(key))):
            yield f"{key} {why}"
    for key in _TEXTS:
        yield from _of_texts(key, place.get(key))
    for resource in _mappings(place.get("resources")):
        yield from _of_texts(f"resource {resource.get('name')}", resource.get("options"))
    for platform in _mappings(place.get("container_platforms")):
        for why in of({key: platform.get(key) for key in _PAIRS}):
            yield f"container_platforms: {why}"


def _of_texts(where: str, texts) -> Iterator[str]:
    for text in texts if isinstance(texts, (list, tuple)) else ():
        for why in variables.without_effect(variables.in_text(str(text))):
            yield f"{where} {text!r} {why}"


def _mappings(value) -> list[dict]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, (list, tuple)) else []


def _pairs(value) -> dict[str, str]:
    """Returns a list of pairs, or a mapping, as a dictionary; ignores anything else, which ReFrame refuses."""
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return {str(pair[0]): str(pair[1]) for pair in pairs if isinstance(pair, (list, tuple)) and len(pair) == 2}


def of_spack(content) -> Iterator[str]:
    """Yields a sentence for each variable that a file of a Spack environment sets, at any depth, but is never read."""
    if isinstance(content, dict):
        yield from variables.without_effect(dict.fromkeys(key for key in content if isinstance(key, str)))
        for inner in content.values():
            yield from of_spack(inner)
    elif isinstance(content, list):
        for inner in content:
            yield from of_spack(inner)


def spack_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of a Spack environment. Raises OSError if the folder cannot be listed."""
    return [folder / name for name in inputs.names_in(folder) if name.endswith(".yaml")]
