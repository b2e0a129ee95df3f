"""Every pattern that a session was given has to select something: a misspelt one shrinks what is covered, silently."""

import difflib
import functools
import os

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError
from reframe.frontend import filters

from isthmus import variables

_asked = []  # what the command line says: option, pattern, and ReFrame's filter for one pattern


def install() -> None:
    """Has ReFrame's filters note what they are made of."""
    if hasattr(filters.have_any_name, "isthmus_gate"):
        return
    any_name, tag, maintainer = filters.have_any_name, filters.have_tag, filters.have_maintainer

    @functools.wraps(any_name)
    def have_any_name(names):
        names = list(names)
        _asked.extend(("-n", name, lambda part: any_name([part])) for name in names)
        return any_name(names)

    @functools.wraps(tag)
    def have_tag(pattern):
        _asked.append(("-t", pattern, tag))
        return tag(pattern)

    @functools.wraps(maintainer)
    def have_maintainer(pattern):
        _asked.append(("--maintainer", pattern, maintainer))
        return maintainer(pattern)

    def have_not_tag(pattern):
        matches = tag(pattern)
        return lambda case: not matches(case)

    have_any_name.isthmus_gate = True
    filters.have_any_name, filters.have_tag, filters.have_maintainer = have_any_name, have_tag, have_maintainer
    filters.have_not_tag = have_not_tag


def alternatives(pattern: str) -> list[str]:
    """The parts of a regular expression between bars that no bracket holds.

    >>> alternatives("a|b(c|d)|e[|]f")
    ['a', 'b(c|d)', 'e[|]f']
    """
    parts, depth, in_class, escaped = [""], 0, False, False
    for character in pattern:
        if not escaped and not in_class:
            depth += (character == "(") - (character == ")")
        if character == "|" and depth == 0 and not in_class and not escaped:
            parts.append("")
            continue
        parts[-1] += character
        if not escaped:
            in_class = character != "]" if in_class else character == "["
        escaped = character == "\\" and not escaped
    return parts


def refuse_misses(testcases) -> None:
    """Raises ReframeError for a pattern, or a part of one, that none of the chosen checks matches."""
    chosen = [case for case in testcases if not case.check.is_fixture()]
    for option, pattern, matching in _asked:
        for part in filter(None, alternatives(pattern)):
            matches = matching(part)
            if not any(matches(case) for case in chosen):
                whole = f" of {option} {pattern!r}" if part != pattern else ""
                raise ReframeError(
                    f"{option} {part!r}{whole} selects no check on this system: look for a typing error, or leave it "
                    "out; see what there is with -l"
                )
    environments = {case.environ.name for case in chosen}
    for pattern in runtime.runtime().get_option("general/0/valid_env_names"):
        matches = filters.re_compile(pattern).match
        if not any(map(matches, environments)):
            raise ReframeError(f"-p {pattern!r} selects no programming environment of the chosen checks: leave it out")


def refuse_misspelt_variables() -> None:
    """Raises ReframeError for $ISTHMUS_… that is almost one that is read; a site may have others of its own."""
    for name in sorted(os.environ):
        if name.startswith("ISTHMUS_") and name not in variables.VARIABLES:
            for meant in difflib.get_close_matches(name, variables.VARIABLES, 1, cutoff=0.87):
                raise ReframeError(
                    f"nothing reads the environment variable {name}: did you mean {meant}? Else unset it"
                )
