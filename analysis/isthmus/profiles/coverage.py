"""Coverage of a run: figures that only some ranks or processes have are withheld, and a sentence says who lacks it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from isthmus import spelling
from isthmus.groups import grouped
from isthmus.profiles.profile import Figure, Profile, added

_NAMED = 6  # most lacking things that are named


def together(parts: Sequence[tuple[str, Profile]]) -> Profile:
    """Adds up the named parts of a run; reports what only some of them have, and marks it as withheld."""
    whole = functools.reduce(added, (part for _, part in parts))
    lacking = [(name, _lacking(part, whole)) for name, part in parts]
    for _, figures in lacking:
        whole.withheld |= set(figures.values())
    for whats, names in grouped((tuple(figures), name) for name, figures in lacking if figures).items():
        whole.lack(_sentence(names, whats))
    if len(parts) > 1:
        whole.note(_sum_of(parts))
    return whole


def _sum_of(parts: Sequence[tuple[str, Profile]]) -> str:
    """Describes how many parts were added, and the kernel time of the fastest and the slowest."""
    said = f"figures are the sum of {spelling.counted(len(parts), 'part')}: {', '.join(n for n, _ in parts[:_NAMED])}"
    said += ", …" if len(parts) > _NAMED else ""
    seconds = sorted((sum(kernel.seconds for kernel in part.kernels.values()), name) for name, part in parts)
    (least, fastest), (most, slowest) = seconds[0], seconds[-1]
    return f"{said}; kernels took {least:.3g} s in {fastest} and {most:.3g} s in {slowest}" if most > least else said


def _lacking(part: Profile, whole: Profile) -> dict[str, Figure]:
    """Returns what a part lacks of all that was measured in the run, with the figures that depend on it."""
    # A process of rocprofv3 may have no kernels, so it has no times of any. Other tools measure the same in each
    # process.
    concerned = part.kernels or part.counters or part.tool != "rocprofv3"
    found = {what: figure for what, figure in sorted(whole.measured.items()) if what not in part.measured}
    return (found if concerned else {}) | dict(_without_sizes(part, whole))


def _without_sizes(part: Profile, whole: Profile) -> Iterator[tuple[str, Figure]]:
    """Yields kinds of copies that have sizes in the run but not in this part, unless a part of it reported that."""
    for field in ("copies", "migrations"):
        for kind, moved in sorted(getattr(part, field).items()):
            figure = (field, f"{kind} bytes")
            if moved.unsized and getattr(whole, field)[kind].bytes is not None and figure not in part.withheld:
                yield f"sizes of {kind} {field}", figure


def _sentence(names: list[str], whats: tuple[str, ...]) -> str:
    said = [spelling.shorten(what, 120) for what in whats[:_NAMED]]
    said += [f"{len(whats) - _NAMED} more"] if len(whats) > _NAMED else []
    listed = " and ".join(filter(None, [", ".join(said[:-1]), said[-1]]))
    who = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    verb, them = "lacks" if len(names) == 1 else "lack", "it" if len(whats) == 1 else "them"
    return f"{who} {verb} {listed}, unlike the rest of the run, so no figure is made of {them}"


def withhold(whole: Profile) -> None:
    """Removes the withheld figures from a profile."""
    for field, key in whole.withheld:
        if field == "kernels" and key:
            for kernel in whole.kernels.values():
                setattr(kernel, key, 0.0 if key == "seconds" else None)
        elif key:  # bytes of copies have no key: Moved knows whether all have a size
            getattr(whole, field).pop(key, None)
        else:
            getattr(whole, field).clear()
            whole.busy = [] if field in ("kernels", "copies") else whole.busy
