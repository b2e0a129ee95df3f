"""Variables of the environment that this project reads, and those that are misspelt: these have no effect, silently."""

from __future__ import annotations

from isthmus import spelling

_PREFIX = "ISTHMUS"

#: Behind ISTHMUS_, all that a session, its site's file, its build, its programs or the tests read;
#: src/harness/program/environment.cpp has the same, and tests/python/test_variables.py compares both with the tree.
_NAMES = """
ACCOUNT BACKEND BENCH BUILDS CHILD_PROCESS CUPTI CUPTI_OUTPUT DATA DWT2D EMULATOR FRESH_PROCESS GIT
GRAPH HOST_MEMORY HOTSPOT INJECT JOB_SHARING LIBRARIES LOG_LINES MUTANT NETWORK NN NVML OWN_PYTHON
PARTITION PROFILER REQUIRE_GPU RESULTS SCHEMA SHARE SPACK_BUILTIN SPACK_SCOPE SRAD STAGES_GO_ON
STRESS_SECONDS SYSTEM TEST_BENCH TIDY_CACHE TRIALS UVM UVM_LIBRARY UVM_PARENT UVM_TRACE WATCHDOG
WHERE WRONG_RANK
"""
#: Set by environment modules of Spack, Lmod and EasyBuild for any package.
_MODULES = "BASE BIN DIR DOC HOME INC INCLUDE LIB PATH PREFIX ROOT VERSION"

VARIABLES = frozenset(f"{_PREFIX}_{name}" for name in _NAMES.split())
_OF_MODULES = frozenset(_MODULES.split())


def unread(environment) -> dict[str, str | None]:
    """Names that look like this project's and that nothing reads, each with the name that may be meant."""
    return {
        name: spelling.nearest(name.upper(), sorted(VARIABLES))
        for name in sorted(environment)
        if name not in VARIABLES and _looks_like_ours(name)
    }


def _looks_like_ours(name: str) -> bool:
    """Whether the part up to the first _ is ISTHMUS or nearly so."""
    prefix, underscore, rest = name.upper().partition("_")
    is_ours = len(prefix) + 2 >= len(_PREFIX) and spelling.nearest(prefix, [_PREFIX]) is not None
    return bool(underscore) and is_ours and rest not in _OF_MODULES


def sentence(environment) -> str | None:
    """What to say of the variables that nothing reads; None where there are none."""
    names = [f"{name} (did you mean '{meant}'?)" if meant else name for name, meant in unread(environment).items()]
    if not names:
        return None
    several = len(names) > 1
    return (
        f"nothing reads the environment variable{'s' if several else ''} {', '.join(names)}; "
        f"correct or unset {'them' if several else 'it'}"
    )
