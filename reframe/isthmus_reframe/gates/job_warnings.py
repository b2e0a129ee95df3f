"""Warnings printed by jobs, for example about a setting without effect. A session shows each of them once.

ReFrame leaves a job's standard error in the stage folder, which it removes if the check passed.
"""

import collections
import re

from isthmus import inputs, spelling

_MOST = 10  # maximum number of warnings that a session shows
_OURS = re.compile(r"(?:\d+: *)?((?:isthmus-bench|detect-backend|detect-architectures): \S.*)")
#: Pattern of messages that are not warnings: progress, what a case's record contains, which backend was found, and a
#: choice that each workload applies as far as it can.
_NO_WARNING = re.compile(
    r": \[\d+/\d+\] |: (?:skipped|failed|wrong result): |^detect-backend: (?:cuda|hip|host)[:,]"
    r"| has no effect on \d+ of \d+ workloads, which "
)

_gaps = collections.defaultdict(list)  # checks whose files were read only in part, keyed by file and gap
_said = collections.defaultdict(list)  # checks of this session, keyed by the warning that their jobs printed


def note(check, name: str, said: inputs.Ends) -> None:
    """Notes the warnings in a job's output `said`, which was read from the file `name`."""
    for sentence in dict.fromkeys(_warnings_in(said.text)):
        if check.display_name not in _said[sentence]:
            _said[sentence].append(check.display_name)
    if said.left_out:
        _gaps[f"{name}{said.gap}"].append(check.display_name)


def _warnings_in(text: str) -> list[str]:
    """Returns the messages of this project's programs and scripts that a session does not show elsewhere."""
    lines = filter(None, map(_OURS.match, text.splitlines()))
    return [line[1].strip() for line in lines if not _NO_WARNING.search(line[1])]


def report(printer, shown: str = "") -> None:
    """Shows the noted warnings, except those that are part of `shown`, the reasons why checks failed."""
    fresh = {sentence: names for sentence, names in _said.items() if sentence.partition(": ")[2] not in shown}
    for sentence, names in list(fresh.items())[:_MOST]:
        text = spelling.printable(spelling.shorten(sentence, 400))
        printer.warning(f"{text} (from the job of {_some(names)})")
    for gap, names in list(_gaps.items())[:_MOST]:
        printer.warning(f"warnings may be missing: the job of {_some(names)} wrote {gap}")
    if len(fresh) > _MOST:
        printer.warning(f"{len(fresh) - _MOST} more such warnings: --keep-stage-files keeps rfm_job.err")
    _said.clear()
    _gaps.clear()


def _some(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0]
