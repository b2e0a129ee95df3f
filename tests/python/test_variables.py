"""Tests that misspelt environment variables are named, and that the lists of variables agree with the tree."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from isthmus import variables

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = r"(ISTHMUS_[A-Z0-9_]*[A-Z0-9])"
#: Patterns of reading an environment variable in programs, scripts and CMake, keyed by suffixes of files.
READ = {
    (".cpp", ".hpp", ".cu"): rf'getenv\("{NAME}"\)|^[^#\n]*"{NAME}"',  # except in #define
    (".py", ""): rf"""environ(?:\.get|\.pop)?[(\[]["']{NAME}["']|["']{NAME}["']|\$\{{?{NAME}""",
    (".sh",): rf"\$\{{?{NAME}",
    (".cmake", ".txt"): rf"\$ENV\{{{NAME}\}}",
}
FOLDERS = ("src", "analysis/isthmus", "scripts", "reframe", "site-configs", "cmake", ".ci")
OF_TESTS = rf'getenv\("{NAME}"\)|environ(?:\.get)?[(\[]["\']{NAME}["\']'


def names_in(path: pathlib.Path, pattern: str) -> set[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    return {name for match in re.finditer(pattern, text, re.MULTILINE) for name in match.groups() if name}


def read_in_the_tree() -> dict[str, pathlib.Path]:
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            patterns = [pattern for suffixes, pattern in READ.items() if path.suffix in suffixes]
            for pattern in patterns if path.is_file() and "__pycache__" not in path.parts else []:
                found |= dict.fromkeys(names_in(path, pattern), path)
    for path in [*(ROOT / "tests").rglob("*"), *(ROOT / "spack").rglob("*.py")]:
        if path.suffix in (".py", ".cpp", ".hpp"):
            found |= dict.fromkeys(names_in(path, OF_TESTS), path)
    return found


def test_every_name_that_the_tree_reads_is_listed():
    found = read_in_the_tree()
    assert len(found) > 35
    assert {name: path for name, path in found.items() if name not in variables.VARIABLES} == {}
    # Spack sets the first variable for users' commands, and a loop over names reads the second.
    assert variables.VARIABLES - set(found) == {"ISTHMUS_SHARE", "ISTHMUS_MUTANT"}, "names that nothing reads"


def test_the_program_has_the_same_names():
    source = (ROOT / "src/harness/program/environment.cpp").read_text()
    for name, mine in (
        ("kNames", {name.removeprefix("ISTHMUS_") for name in variables.VARIABLES}),
        ("kOfModules", variables._OF_MODULES),
    ):
        [literal] = re.findall(rf'string_view {name} =\s*((?:"[^"]*"\s*)+);', source)
        assert set("".join(re.findall(r'"([^"]*)"', literal)).split()) == set(mine)


def test_what_jobs_read_is_some_of_what_anything_reads():
    assert variables.OF_JOBS < variables.VARIABLES
    programs = set()
    for path in (ROOT / "src").rglob("*.[ch]pp"):
        programs |= names_in(path, rf'getenv\("{NAME}"\)')
    # Checks set these variables for each job, or the program reads them only if no record was requested.
    assert programs - variables.OF_JOBS == {
        "ISTHMUS_CUPTI_OUTPUT", "ISTHMUS_RESULTS"
    }  # fmt: skip


@pytest.mark.parametrize(
    "name, said",
    [
        ("ISTHMUS_HOST_MEMROY", "ISTHMUS_HOST_MEMROY (did you mean 'ISTHMUS_HOST_MEMORY'?)"),
        ("ISTHMUS_RESULT", "ISTHMUS_RESULT (did you mean 'ISTHMUS_RESULTS'?)"),
        ("ISTMUS_RESULTS", "ISTMUS_RESULTS (did you mean 'ISTHMUS_RESULTS'?)"),
        ("isthmus_results", "isthmus_results (did you mean 'ISTHMUS_RESULTS'?)"),
        ("ISTHMUS_WHATEVER_ELSE_THERE_IS", "variable ISTHMUS_WHATEVER_ELSE_THERE_IS; correct or unset it"),
    ],
)
def test_an_unread_variable_is_named(name, said):
    sentence = variables.sentence({name: "1", "PATH": "/bin", "ISTHMUS_BENCH": "x"})
    assert sentence.startswith("nothing reads the environment variable ISTHMUS_" if name[:8] == "ISTHMUS_" else "noth")
    assert said in sentence and "ISTHMUS_BENCH" not in sentence


def test_several_are_one_sentence():
    assert variables.sentence({"ISTHMUS_RESULT": "", "ISTHMUS_GRAHP": ""}) == (
        "nothing reads the environment variables ISTHMUS_GRAHP (did you mean 'ISTHMUS_GRAPH'?), "
        "ISTHMUS_RESULT (did you mean 'ISTHMUS_RESULTS'?); correct or unset them"
    )


def test_what_is_read_and_what_modules_set_is_not_named():
    of_modules = ("ISTHMUS_ROOT", "ISTHMUS_VERSION", "EBROOTISTHMUS", "IST_X", "ISTIO_HOME", "ISTHMUS", "GITHUB_ENV")
    assert variables.sentence(dict.fromkeys([*variables.VARIABLES, *of_modules], "1")) is None


def test_the_command_says_it_and_goes_on():
    command = [sys.executable, "-m", "isthmus", "table", str(ROOT / "papers/data/h200/stream.jsonl.gz")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ISTHMUS_")}
    done = [
        subprocess.run(command, capture_output=True, text=True, env=clean | more)
        for more in ({}, {"ISTHMUS_SCHEMAS": "x"})
    ]
    assert [each.returncode for each in done] == [0, 0] and done[0].stdout == done[1].stdout
    note = "isthmus table: nothing reads the environment variable ISTHMUS_SCHEMAS (did you mean 'ISTHMUS_SCHEMA'?)"
    assert done[0].stderr + f"{note}; correct or unset it\n" == done[1].stderr
