"""Gate for selections: every pattern has to select or exclude something, because a misspelt pattern silently changes
coverage."""

import difflib
import functools
import os
import re
import typing

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError
from reframe.frontend import filters

from isthmus import variables
from isthmus_reframe.gates import expressions

_GROUP_HEAD = r"(\?(P?<\w+>|<?[=!]|[a-zA-Z-]*:|>|\(\w+\)))?"  # kind of group


class _Asked(typing.NamedTuple):
    """Use of a command-line option that selects or excludes checks."""

    option: str
    pattern: str
    selects: list[str]  #: parts of the pattern that each have to select something
    excludes: list[str]  #: parts of the pattern that each have to exclude something
    matching: typing.Callable  #: predicate of test cases for one part


_asked: list[_Asked] = []
_filters: list[tuple] = []  # each filter of the session, as (option, filter)
_seen: dict[int, typing.Any] = {}  # test cases that went through a filter


def install() -> None:
    """Makes ReFrame's filters note their patterns and the test cases that they filter."""
    if hasattr(filters.have_any_name, "isthmus_gate"):
        return
    any_name, not_name = filters.have_any_name, filters.have_not_name
    tag, maintainer, validates = filters.have_tag, filters.have_maintainer, filters.validates

    def one_name(part):
        return any_name([part])

    def excluded_name(part):
        kept = not_name(part)
        return lambda case: not kept(case)

    @functools.wraps(any_name)
    def have_any_name(names):
        names = list(names)
        _asked.extend(_Asked("-n", name, narrowed(name), [], one_name) for name in names)
        return _noting("-n", any_name(names))

    def have_not_name(pattern):
        _asked.append(_Asked("-x", pattern, [], narrowed(pattern), excluded_name))
        return _noting("-x", not_name(pattern))

    def have_tag(pattern):
        _asked.append(_Asked("-t", pattern, narrowed(pattern), [], tag))
        return _noting("-t", tag(pattern))

    def have_not_tag(pattern):
        _asked.append(_Asked("-T", pattern, [], narrowed(pattern), tag))
        matches = tag(pattern)
        return _noting("-T", lambda case: not matches(case))

    def have_maintainer(pattern):
        _asked.append(_Asked("--maintainer", pattern, narrowed(pattern), [], maintainer))
        return _noting("--maintainer", maintainer(pattern))

    def have_validated(expression):
        parts = expressions.narrowed(expression), expressions.denied(expression)
        _asked.append(_Asked("-E", expression, *parts, lambda part: functools.partial(expressions.holds, part)))
        return _noting("-E", validates(expression))

    have_any_name.isthmus_gate = True
    filters.have_any_name, filters.have_not_name = have_any_name, have_not_name
    filters.have_tag, filters.have_not_tag = have_tag, have_not_tag
    filters.have_maintainer, filters.validates = have_maintainer, have_validated


def _noting(option: str, keeps):
    """Returns the filter, wrapped so that it also notes each test case."""
    _filters.append((option, keeps))

    def noting(case):
        _seen[id(case)] = case
        return keeps(case)

    return noting


def alternatives(pattern: str) -> list[str]:
    """Returns the parts of a regular expression between bars that are outside all brackets.

    >>> alternatives("a|b(c|d)|e[|]f")
    ['a', 'b(c|d)', 'e[|]f']
    """
    parts, depth = [""], 0
    for character, is_sign in _characters(pattern):
        if is_sign:
            depth += (character == "(") - (character == ")")
        if character == "|" and depth == 0 and is_sign:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _characters(pattern: str):
    """Yields each character, and whether it is syntax: neither escaped nor in a character class."""
    in_class, escaped = False, False
    for character in pattern:
        yield character, not (escaped or in_class)
        if not escaped:
            in_class = character != "]" if in_class else character == "["
        escaped = character == "\\" and not escaped


def narrowed(pattern: str) -> list[str]:
    """Returns the parts of a pattern that each have to select something: its alternatives, and each alternative with a
    group reduced to one of the group's alternatives.

    A repeated group is not reduced, because each repetition may match a different alternative.

    >>> narrowed("a|b(c|d(e|f))g")
    ['a', 'b(c|d(e|f))g', 'b(c)g', 'b(d(e|f))g', 'b(d(e))g', 'b(d(f))g']
    """
    return list(filter(_is_expression, dict.fromkeys(_narrowed(pattern))))


def _narrowed(pattern: str):
    for part in alternatives(pattern):
        yield part
        for begin, end in _groups(part):
            if not re.match(r"\)[+*{]", part[end:]):
                yield from (part[:begin] + inside + part[end:] for inside in _narrowed(part[begin:end]))


def _groups(pattern: str) -> list[tuple[int, int]]:
    """Returns the begin and the end of the text inside each outermost pair of brackets."""
    depth, begin, found = 0, 0, []
    for place, (character, is_sign) in enumerate(_characters(pattern)):
        if is_sign and character == "(":
            begin = begin if depth else place + 1 + len(re.match(_GROUP_HEAD, pattern[place + 1 :])[0])
            depth += 1
        elif is_sign and character == ")" and depth:
            depth -= 1
            if depth == 0:
                found.append((begin, place))
    return found


def _is_expression(pattern: str) -> bool:
    """Returns whether the pattern is a valid regular expression and not empty. It is invalid if it refers to a group
    that is not in the reduced pattern."""
    try:
        re.compile(pattern)
    except re.error:
        return False
    return bool(pattern)


def refuse_misses(testcases) -> None:
    """Raises ReframeError for a pattern, or a part of one, that selects or excludes no check of this session."""
    chosen = [case for case in testcases if not case.check.is_fixture()]
    environs = [("-p", pattern) for pattern in runtime.runtime().get_option("general/0/valid_env_names")]
    for option, pattern in [*((asked.option, asked.pattern) for asked in _asked), *environs]:
        if not pattern.strip():
            raise ReframeError(f"{option} was given an empty pattern, which matches all: write one, or leave it out")
    for asked in _asked:
        for part in asked.selects:  # options such as --repeat have replaced the checks that were chosen
            if not any(map(asked.matching(part), chosen)) and not any(map(asked.matching(part), _passing())):
                _refuse_part(asked, part, "selects no check on this system")
        for part in asked.excludes:
            if not any(map(asked.matching(part), _passing(asked.option))):
                _refuse_part(asked, part, "excludes no check that is chosen without it")
    environments = {case.environ.name for case in chosen}
    for pattern in runtime.runtime().get_option("general/0/valid_env_names"):
        for part in narrowed(pattern):
            if not any(map(filters.re_compile(part).match, environments)):
                whole = f" of -p {pattern!r}" if part != pattern else ""
                raise ReframeError(
                    f"-p {part!r}{whole} selects no programming environment of the chosen checks: leave it out"
                )


def _refuse_part(asked: _Asked, part: str, what: str) -> None:
    whole = f" of {asked.option} {asked.pattern!r}" if part != asked.pattern else ""
    raise ReframeError(
        f"{asked.option} {part!r}{whole} {what}: check the spelling, or leave it out; list the checks with -l"
    )


def _passing(without: str = "") -> list:
    """Returns the test cases that pass every filter except those of one option."""
    others = [keeps for option, keeps in _filters if option != without]
    return [case for case in _seen.values() if all(keeps(case) for keeps in others)]


def refuse_misspelt_variables() -> None:
    """Raises ReframeError for a variable ISTHMUS_… whose name resembles a known one. Other unknown names may be a
    site's own."""
    for name in sorted(os.environ):
        if name.startswith("ISTHMUS_") and name not in variables.VARIABLES:
            for meant in difflib.get_close_matches(name, variables.VARIABLES, 1, cutoff=0.87):
                raise ReframeError(
                    f"nothing reads the environment variable {name}: did you mean {meant}? Else unset it"
                )


def refuse_idle_variables(testcases) -> None:
    """Raises ReframeError for environment variables without effect that checks set for their jobs, for example by
    -S env_vars=NAME:VALUE."""
    for check in {id(case.check): case.check for case in testcases}.values():
        given = {str(name): str(value) for name, value in check.env_vars.items()}
        for line in [*check.prerun_cmds, *check.postrun_cmds]:
            given |= variables.in_text(str(line))
        for why in variables.without_effect(given):
            raise ReframeError(f"{check.display_name} {why}")
