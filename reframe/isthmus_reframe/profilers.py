"""`-S profiler=nsys|ncu|rocprofv3|cupti|perf` for every check: wraps ranks, and merges the output.

A job with a profiler runs the program twice: first without the profiler (unprofiled.jsonl), so that measurements are
not lost and the profiler's cost is known, then with each rank under the profiler. isthmus.profiles reads the outputs;
docs/profiling.md is the user's guide.
"""

import contextlib
import json
import pathlib
import shlex
import shutil
from collections.abc import Iterator

from reframe.core.exceptions import ReframeError, SanityError

from isthmus import inputs
from isthmus.profiles import as_record, command, ncu, perf, profile, rocprofv3
from isthmus.records import load, validate
from isthmus_reframe import jobs

FOLDER = "profile"
UNPROFILED = "unprofiled.jsonl"
#: Files of the unprofiled run: its output and its exit code.
UNPROFILED_SAID = f"{FOLDER}/unprofiled.out"
UNPROFILED_CODE = f"{FOLDER}/unprofiled.exit_code"
_SCRIPT = "profile-rank"
_MISSING = "missing"
_LOG = "log"

# Messages of profilers that are not permitted to count. This is the machine's policy, so the check is skipped.
_REFUSED = {
    "ERR_NVGPUCTRPERM": ncu.PERMISSION,
    "perf_event_paranoid": "the kernel allows no counting here; an administrator can lower kernel.perf_event_paranoid",
    "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES": ncu.PERMISSION,
}


def check_name(name: str) -> None:
    """Raises ReframeError for an unknown profiler."""
    if name not in command.TOOLS:
        raise ReframeError(f"there is no profiler {name!r}; choose from {', '.join(command.TOOLS)}")


def least_options(name: str, options: list[str]) -> list[str]:
    """Returns options for a small, fixed number of samples, so that counts do not depend on how long a run took. ncu
    gets one sample, because it runs each kernel several times."""
    if any(option.partition("=")[0] == "--samples" for option in options):
        return []
    warmups = [] if "--warmups" in options else ["--warmups", "0"]
    return ["--samples", "1", *warmups] if name == "ncu" else ["--samples", "3"]


def replay(placement: str | None) -> str:
    """Returns ncu's replay mode for counters that need several passes. With managed memory the whole program is
    replayed, because a replayed kernel would find its pages where the first pass had moved them."""
    return "application" if placement and placement.startswith("managed") else "kernel"


def script(name: str, program: str, placement: str | None = None) -> str:
    """Returns the shell script that runs one rank under a profiler; its arguments are the program's command line."""
    place = pathlib.Path(program).parent
    libraries = [str(place / "libisthmus-cupti.so"), str(place.parent / "lib/libisthmus-cupti.so")]
    if name == "cupti":
        found = [
            "library=",
            f'for candidate in "$ISTHMUS_CUPTI" {" ".join(map(shlex.quote, libraries))}; do',
            '  if [ -f "$candidate" ] && [ -z "$library" ]; then library=$candidate; fi',
            "done",
            'if [ -z "$library" ]; then',
            "  why='libisthmus-cupti.so is not next to isthmus-bench: build where CUPTI is, or set ISTHMUS_CUPTI'",
        ]
    else:
        found = [f"if ! command -v {name} >/dev/null 2>&1; then", f"  why='{name} is not on the PATH of this node'"]
    return "\n".join(
        [
            "#!/bin/sh",
            "# One rank under a profiler; written by reframe/isthmus_reframe/profilers.py.",
            "rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${FLUX_TASK_RANK:-${SLURM_PROCID:-0}}}}}",
            f'out={FOLDER}/rank$rank; mkdir -p "$out"',
            *found,
            f'  echo "$why" > {FOLDER}/{_MISSING}; exit 0',
            "fi",
            f"export ISTHMUS_PROFILER={name}",
            "export LC_ALL=C  # numbers are written for a reader",
            f'{_COMMANDS[name].replace("REPLAY", replay(placement))} > "$out/{_LOG}" 2>&1',
            "code=$?",
            *_AFTER.get(name, []),
            f'cat "$out/{_LOG}"',
            "exit $code",
            "",
        ]
    )


_COMMANDS = {
    "nsys": "nsys profile --trace=cuda,nvtx --cuda-um-gpu-page-faults=true --cuda-um-cpu-page-faults=true "
    "--cuda-graph-trace=node "
    '--sample=none --cpuctxsw=none --force-overwrite=true --export=sqlite --output="$out/nsys" "$@"',
    "ncu": "ncu --target-processes all --clock-control none --replay-mode REPLAY --force-overwrite "
    f'--launch-count {ncu.LAUNCHES} --metrics {",".join(ncu.METRICS)} --export "$out/ncu" "$@"',
    "rocprofv3": "rocprofv3 --kernel-trace --memory-copy-trace --hip-runtime-trace --marker-trace "
    f'--pmc {" ".join(rocprofv3.COUNTERS)} --output-format json --output-directory "$out" '
    '--output-file rocprofv3 -- "$@"',
    "cupti": 'CUDA_INJECTION64_PATH=$library ISTHMUS_CUPTI_OUTPUT="$out/cupti" "$@"',
    "perf": f'perf stat -x \';\' -e {",".join(perf.EVENTS)} -o "$out/stat.perf" -- "$@"',
}
_AFTER = {
    "ncu": [
        'if [ -f "$out/ncu.ncu-rep" ]; then ncu --import "$out/ncu.ncu-rep" --csv --page raw > "$out/ncu.csv"; fi',
    ],
}


def wrap(check, record: str) -> None:
    """Makes a check run each rank under its profiler, preceded by an unprofiled run."""
    name = check.profiler
    check_name(name)
    check.executable_opts += least_options(name, check.executable_opts)
    plain = [UNPROFILED if option == record else option for option in check.executable_opts]
    # A single process does not need a launcher; in a bundle, the launcher has already started the whole script.
    launcher = check.job.launcher.run_command(check.job) if (check.num_tasks or 1) > 1 else ""
    words = [*launcher.split(), shlex.quote(check.executable), *plain]
    check.prerun_cmds += [
        f"mkdir -p {FOLDER}",
        f"{' '.join(filter(None, words))} > {UNPROFILED_SAID} 2>&1",
        f"echo $? > {UNPROFILED_CODE}",
    ]
    path = pathlib.Path(check.stagedir) / _SCRIPT
    path.write_text(script(name, check.executable, getattr(check, "placement", None)), encoding="utf-8")
    path.chmod(0o755)
    check.executable_opts = [check.executable, *check.executable_opts]
    check.executable = f"./{_SCRIPT}"


def _logs(folder: pathlib.Path) -> Iterator[inputs.Ends]:
    """Yields each rank's output of profiler and program."""
    for path in sorted(folder.glob(f"rank*/{_LOG}")):
        with contextlib.suppress(OSError):
            yield inputs.read_ends(path)


def _complaint(folder: pathlib.Path) -> str:
    """Returns the line of the first rank's output that states what went wrong. If there is none, returns a note if the
    output was not read in full."""
    gap = ""
    for log in _logs(folder):
        if said := jobs.complaint(log.text):
            return said
        gap = gap or log.gap
    return gap and f"see the ranks' logs{gap}"


def refused(name: str, folder: pathlib.Path, cases: list[dict]) -> str | None:
    """Returns a reason for skipping the check if the profiler has nothing to observe or is not permitted, otherwise
    None."""
    if name != "perf" and cases and not any(case["devices"] and not case["emulated"] for case in cases):
        return f"{name} observes GPUs, but no GPU runs this"
    missing = folder / _MISSING
    if missing.is_file():
        return inputs.read_note(missing).strip()
    refusals = (sentence for log in _logs(folder) for sign, sentence in _REFUSED.items() if sign in log.text)
    return next(refusals, None)


def amend(name: str, stage: pathlib.Path, record: str, plain: list[dict]) -> None:
    """Adds the profiler's results to the record file; `plain` are the records of the unprofiled run. Raises SanityError
    with one sentence if the profiler failed."""
    path = stage / record
    try:
        cases = load.read(path)
    except validate.RecordError as error:
        said = _complaint(stage / FOLDER)
        raise SanityError(f"{name} failed: {said or error}; what was measured without it is kept") from None
    try:
        seen = command.read(name, stage / FOLDER)
        if seen.missing:
            raise profile.ProfileError(seen.missing[0])
    except profile.ProfileError as error:
        said = _complaint(stage / FOLDER)
        raise SanityError(
            f"{name} failed: {error}{f' ({said})' if said else ''}; what was measured without it is kept"
        ) from None
    if name == "ncu":  # ncu may have run the whole program once for each pass
        cases = [case for case in cases if case["run"]["id"] == cases[-1]["run"]["id"]]
    amended = as_record.amend(cases, seen, unprofiled=plain)
    aside = path.with_suffix(".part")
    aside.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in amended), encoding="utf-8")
    aside.replace(path)


def keep(stage: pathlib.Path, kept: pathlib.Path) -> None:
    """Copies a profiler's output next to the kept record: NAME.profile/ next to NAME.jsonl."""
    if (stage / FOLDER).is_dir():
        shutil.copytree(stage / FOLDER, kept.with_suffix(".profile"), dirs_exist_ok=True)
