"""Checks of options that have an effect only with others, and parsing of lists."""

from __future__ import annotations

from isthmus import Error


def refuse_idle(given: dict[str, object], why: str) -> None:
    """Raises Error if any of these options was given: they have no effect here. `why` states when they have one."""
    if idle := [option for option, value in given.items() if value not in (None, False)]:
        verb = "has" if len(idle) == 1 else "have"
        raise Error(f"{' and '.join(idle)} {verb} an effect only {why}: leave {'it' if len(idle) == 1 else 'them'} out")


def listed(option: str, text: str) -> list[str]:
    """Returns the words of an option's value A,B,…. Raises Error if one of them is empty."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise Error(f"{option} {text!r} has an empty element; write {option} A,B")
    return words
