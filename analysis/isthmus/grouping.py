"""Grouping of values by key, and of sets by shared elements."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Returns the values of each key in their original order; keys are in order of first occurrence."""
    found: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def components(sets: list[frozenset]) -> list[int]:
    """Returns a number for each set; sets that share elements, directly or through other sets, get the same one."""
    owner: dict = {}
    parent = list(range(len(sets)))

    def root(i):
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, elements in enumerate(sets):
        for element in elements:
            parent[root(i)] = root(owner.setdefault(element, i))
    return [root(i) for i in range(len(sets))]
