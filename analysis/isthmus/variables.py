"""Environment variables that this project reads, and misspelt ones, which silently have no effect."""

from __future__ import annotations

import re
from collections.abc import Mapping

from isthmus import spelling, units

_PREFIX = "ISTHMUS"

#: Names, without ISTHMUS_, of all variables that a session, its site's file, its build, its programs or the tests read.
#: src/harness/program/environment.cpp has the same list; tests/python/test_variables.py compares both with the sources.
_NAMES = """
ACCOUNT BACKEND BENCH BUILDS CHILD_PROCESS CUPTI CUPTI_OUTPUT DATA DWT2D EMULATOR FRESH_PROCESS GIT
GRAPH HOST_MEMORY HOTSPOT INJECT JOB_SHARING LIBRARIES LOG_LINES MUTANT NETWORK NN NVML OWN_PYTHON
PARTITION PROFILER REQUIRE_GPU RESULTS SCHEMA SHARE SPACK_BUILTIN SPACK_SCOPE SRAD STAGES_GO_ON
STRESS_SECONDS SYSTEM TEST_BENCH TIDY_CACHE TRIALS UVM UVM_LIBRARY UVM_PARENT UVM_TRACE WATCHDOG
WHERE WRONG_RANK
"""
#: Endings of the variables that environment modules of Spack, Lmod and EasyBuild set for every package.
_MODULES = "BASE BIN DIR DOC HOME INC INCLUDE LIB PATH PREFIX ROOT VERSION"

#: Names that a session's jobs read: in its programs, its profilers, and the scripts that build these.
_NAMES_OF_JOBS = """
BACKEND BUILDS CUPTI DWT2D EMULATOR GIT GRAPH HOST_MEMORY HOTSPOT INJECT LIBRARIES NETWORK NN NVML PROFILER SHARE
SPACK_BUILTIN SRAD UVM UVM_LIBRARY UVM_PARENT UVM_TRACE
"""

VARIABLES = frozenset(f"{_PREFIX}_{name}" for name in _NAMES.split())
OF_JOBS = frozenset(f"{_PREFIX}_{name}" for name in _NAMES_OF_JOBS.split())
_OF_MODULES = frozenset(_MODULES.split())


def unread(environment) -> dict[str, str | None]:
    """Returns variables that look like this project's but are never read, each with the name that may be meant."""
    return {
        name: spelling.nearest(name.upper(), sorted(VARIABLES))
        for name in sorted(environment)
        if name not in VARIABLES and _looks_like_ours(name)
    }


def _looks_like_ours(name: str) -> bool:
    """Returns whether the part before the first _ is ISTHMUS, correctly or almost correctly spelt."""
    prefix, underscore, rest = name.upper().partition("_")
    is_ours = len(prefix) + 2 >= len(_PREFIX) and spelling.nearest(prefix, [_PREFIX]) is not None
    return bool(underscore) and is_ours and rest not in _OF_MODULES


def sentence(environment) -> str | None:
    """Returns a sentence about the variables of this project that are never read; None if there are none."""
    names = [f"{name} (did you mean '{meant}'?)" if meant else name for name, meant in unread(environment).items()]
    if not names:
        return None
    several = len(names) > 1
    return (
        f"nothing reads the environment variable{'s' if several else ''} {', '.join(names)}; "
        f"correct or unset {'them' if several else 'it'}"
    )


# --- what a site, or a check, sets for its jobs ---

_SET = re.compile(r"(?<![\w/.$-])([A-Z_]\w*)=(\"[^\"]*\"|'[^']*'|[^\s,;&|]*)")
_NAMED = re.compile(r"(?:\b(?:export|setenv|unset|declare -x)\s+|\$\{?)([A-Z_]\w*)(?![\w=])")


def in_text(text: str) -> dict[str, str | None]:
    """Returns the variables that a shell line or an option sets, with their values.

    Variables that are only mentioned have the value None.
    """
    set_here = {name: value.strip("\"'") for name, value in _SET.findall(text)}
    return dict.fromkeys(_NAMED.findall(text)) | set_here


def without_effect(given: Mapping[str, str | None]) -> list[str]:
    """Returns a clause for each variable set for a session's jobs that no job reads or whose value is invalid."""
    found = []
    for name, value in given.items():
        if not _looks_like_ours(name):
            continue
        if name not in VARIABLES:
            meant = spelling.nearest(name.upper(), sorted(VARIABLES))
            found.append(f"names {name}, which nothing reads{f'; did you mean {meant}?' if meant else ''}")
        elif value is not None and name not in OF_JOBS:
            found.append(f"sets {name}, which no job reads: leave it out, or export it where the session is started")
        elif value and "$" not in value and (why := _refused(name, value)):
            found.append(f"sets {name} to {value!r}; {why}")
    return found


def _refused(name: str, value: str) -> str | None:
    """Returns why a value is invalid; None if it is valid or cannot be checked."""
    if name == "ISTHMUS_BACKEND" and value not in ("cuda", "hip", "host"):
        return "choose cuda, hip or host"
    if name == "ISTHMUS_HOST_MEMORY":
        try:
            units.amount(re.sub(r"(?<=\d) *B$| ", "", value))
        except ValueError:
            return "write a number of bytes such as 8GiB"
    return None
