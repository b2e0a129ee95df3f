"""Coverage of a run: withholds figures that only some ranks or processes have, and names those that lack them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from isthmus import spelling
from isthmus.grouping import grouped
from isthmus.profiles.profile import Figure, Profile, added

_NAMED = 6  # maximum number of parts, and of figures, that a sentence names


def together(parts: Sequence[tuple[str, Profile]]) -> Profile:
    """Adds up the named parts of a run. Reports figures that only some parts have, and marks them as withheld."""
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
    """Returns a sentence on the number of added parts and on the kernel times of the fastest and the slowest part."""
    said = f"figures are the sum of {spelling.counted(len(parts), 'part')}: {', '.join(n for n, _ in parts[:_NAMED])}"
    said += ", …" if len(parts) > _NAMED else ""
    seconds = sorted((sum(kernel.seconds for kernel in part.kernels.values()), name) for name, part in parts)
    (least, fastest), (most, slowest) = seconds[0], seconds[-1]
    return f"{said}; kernels took {least:.3g} s in {fastest} and {most:.3g} s in {slowest}" if most > least else said


def _lacking(part: Profile, whole: Profile) -> dict[str, Figure]:
    """Returns everything that was measured in the run but not in this part, with the figures that depend on it."""
    # A process under rocprofv3 that launched no kernels has no kernel times. Other tools measure the same things in
    # each process.
    concerned = part.kernels or part.counters or part.tool != "rocprofv3"
    found = {what: figure for what, figure in sorted(whole.measured.items()) if what not in part.measured}
    return (found if concerned else {}) | dict(_without_sizes(part, whole))


def _without_sizes(part: Profile, whole: Profile) -> Iterator[tuple[str, Figure]]:
    """Yields kinds of copies and migrations that have sizes in the run but not in this part.

    Leaves out those that are already withheld in this part, because they were reported then.
    """
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
    return f"{who} {verb} {listed}, unlike the rest of the run, so no figure is derived from {them}"


def withhold(whole: Profile) -> None:
    """Removes the withheld figures from a profile."""
    for field, key in whole.withheld:
        if field == "kernels" and key:
            for kernel in whole.kernels.values():
                setattr(kernel, key, 0.0 if key == "seconds" else None)
        elif key:  # does nothing for bytes of copies, which have no such key: Moved.whole_bytes omits them
            getattr(whole, field).pop(key, None)
        else:
            getattr(whole, field).clear()
            whole.busy = [] if field in ("kernels", "copies") else whole.busy
