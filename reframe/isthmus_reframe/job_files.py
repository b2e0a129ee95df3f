"""Names and contents of the files that a job writes into its stage folder."""

import contextlib
import pathlib
import typing

from reframe.core.exceptions import SanityError

from isthmus import inputs
from isthmus_reframe import jobs, profilers
from isthmus_reframe.gates import session_files

RECORD = "record.jsonl"
EXIT_CODE = "exit_code"
LISTING = "listing.json"
#: File in which scripts/build-once notes the program's folder.
BUILT = "built"

# Files that a job writes into its stage folder and that its session relies on.
WRITTEN = (
    RECORD, "record.tables", EXIT_CODE, LISTING, profilers.UNPROFILED, "unprofiled.tables", profilers.FOLDER,
    jobs.NOT_LOADED, RECORD + session_files.KEPT, profilers.UNPROFILED + session_files.KEPT,
)  # fmt: skip


class Run(typing.NamedTuple):
    """Files of a run of the program in its job's stage folder."""

    record: str
    exit_code: str
    said: str = ""  #: file with the program's output; if empty, the output is the job's standard error


PROGRAM = Run(RECORD, EXIT_CODE)
WITHOUT_PROFILER = Run(profilers.UNPROFILED, profilers.UNPROFILED_CODE, profilers.UNPROFILED_SAID)


def said(check, name: str = "") -> inputs.Ends:
    """Returns the contents of the file `name` in the stage folder of a check or a build, or its job's standard error if
    there is no name."""
    with contextlib.suppress(OSError, TypeError):
        return inputs.read_ends(pathlib.Path(check.stagedir) / (name or str(check.stderr)))
    return inputs.Ends("")


def judge_environment(check):
    """Raises SanityError if the environment was not loaded, because the build or the measurement then used a different
    environment."""
    heard = said(check)
    where = f"{check.current_partition.fullname}+{check.current_environ.name}"
    if why := jobs.not_loaded(heard.text, check.stagedir):
        raise SanityError(f"the environment of {where} was not loaded ({why}): correct 'modules' there")
    if jobs.is_cut_before_end(heard, check):
        raise SanityError(
            f"whether the environment of {where} was loaded is not known, because loading it wrote too much output: "
            f"make it write less; see {check.stderr} in {check.stagedir}{heard.gap}"
        )
