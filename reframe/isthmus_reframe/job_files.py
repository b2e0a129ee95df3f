"""The files that a job writes into its stage folder, and what they say."""

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

# What a job writes into its stage folder, and its session believes.
WRITTEN = (
    RECORD, "record.tables", EXIT_CODE, LISTING, profilers.UNPROFILED, "unprofiled.tables", profilers.FOLDER,
    jobs.NOT_LOADED, RECORD + session_files.KEPT, profilers.UNPROFILED + session_files.KEPT,
)  # fmt: skip


class Run(typing.NamedTuple):
    """Files of a run of the program in its job's stage folder."""

    record: str
    exit_code: str
    said: str = ""  #: what it printed; empty: the standard error of the job


PROGRAM = Run(RECORD, EXIT_CODE)
WITHOUT_PROFILER = Run(profilers.UNPROFILED, profilers.UNPROFILED_CODE, profilers.UNPROFILED_SAID)


def said(check, name: str = "") -> inputs.Ends:
    """Returns what is in this file of a check, or of a build; without a name, the standard error of its job."""
    with contextlib.suppress(OSError, TypeError):
        return inputs.read_ends(pathlib.Path(check.stagedir) / (name or str(check.stderr)))
    return inputs.Ends("")


def judge_environment(check):
    """Raises SanityError where the environment was not loaded, so that another one was built or measured with."""
    heard = said(check)
    where = f"{check.current_partition.fullname}+{check.current_environ.name}"
    if why := jobs.not_loaded(heard.text, check.stagedir):
        raise SanityError(f"the environment of {where} was not loaded ({why}): mend 'modules' there")
    if jobs.is_cut_before_end(heard, check):
        raise SanityError(
            f"whether the environment of {where} was loaded is not known, since loading it wrote too much to be read: "
            f"quiet what it loads; see {check.stderr} in {check.stagedir}{heard.gap}"
        )
