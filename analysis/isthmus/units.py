"""Prefixes of SI units, for people."""

from __future__ import annotations

_PREFIXES = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")]


def prefix_of(value: float) -> tuple[float, str]:
    """In which multiple of its unit a value is shown; what would round up to the next one counts as that."""
    if value == 0:
        return 1, ""
    return next(((factor, name) for factor, name in _PREFIXES if abs(value) >= factor * 0.9995), _PREFIXES[-1])
