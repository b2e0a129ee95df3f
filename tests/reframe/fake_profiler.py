#!/usr/bin/env python3
"""Fake profiler: runs the program and writes the output of the profiler whose name it is called by.

The environment variable FAKE_PROFILER makes it misbehave: permission, empty, cut, lost (which it reports), crash (the
program does not run).
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))
import profiles  # noqa: E402

TOOL = pathlib.Path(sys.argv[0]).name
PERMISSION = {
    "ncu": "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
    "perf": "Error:\nConsider adjusting /proc/sys/kernel/perf_event_paranoid setting",
}


def value_of(arguments, option):
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == option:
            return value if equals else arguments[place + 1]
    return None


def program_of(arguments):
    """Returns the program's command line, which begins at the first argument that is the path of an executable."""
    for place, argument in enumerate(arguments):
        if os.sep in argument and os.access(argument, os.X_OK) and os.path.isfile(argument):
            return arguments[place:]
    return None


def invalidate(place, misbehaviour):
    """Changes a profiler's complete output into the output of a misbehaving profiler."""
    if misbehaviour == "lost" and TOOL == "nsys":
        profiles.add_diagnostics(place / "nsys.sqlite", (3, "3 events were lost"))
    if misbehaviour == "cut":
        for path in place.iterdir():
            if path.name != "log":
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def main():
    arguments, misbehaviour = sys.argv[1:], os.environ.get("FAKE_PROFILER", "")
    if TOOL == "ncu" and "--import" in arguments:
        text = profiles.NCU
        print(text[: len(text) // 2] if misbehaviour == "cut" else text)
        return 0
    if misbehaviour == "permission":
        print(PERMISSION[TOOL])
        return 255
    if misbehaviour == "crash":
        print(f"{TOOL}: internal error 7")
        return 139
    passes = 3 if value_of(arguments, "--replay-mode") == "application" else 1
    for _ in range(passes):
        code = subprocess.run(program_of(arguments), check=False).returncode
    if misbehaviour == "empty":
        return code
    option = {"nsys": "--output", "ncu": "--export", "perf": "-o", "rocprofv3": "--output-directory"}[TOOL]
    output = value_of(arguments, option)
    place = pathlib.Path(output if TOOL == "rocprofv3" else pathlib.Path(output).parent)
    print({"lost": "==ERROR== 3 results were lost"}.get(misbehaviour, ""))  # in ncu's words
    if TOOL == "ncu":
        pathlib.Path(output + ".ncu-rep").write_text(f"report of a {value_of(arguments, '--replay-mode')} replay")
        return code
    profiles.write(place, TOOL)
    invalidate(place, misbehaviour)
    return code


sys.exit(main())
