"""Options that have an effect only with others."""

from __future__ import annotations

from isthmus import Error


def refuse_idle(given: dict[str, object], why: str) -> None:
    """Raises Error for options, by name, that were given where they have no effect; `why` says when they have one."""
    if idle := [option for option, value in given.items() if value not in (None, False)]:
        verb = "has" if len(idle) == 1 else "have"
        raise Error(f"{' and '.join(idle)} {verb} an effect only {why}: leave {'it' if len(idle) == 1 else 'them'} out")
