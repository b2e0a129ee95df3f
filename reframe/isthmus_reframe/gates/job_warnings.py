"""Warnings of jobs, such as of a setting without effect: a session shows each once.

ReFrame leaves the standard error of a job in its stage folder, and removes that where the check passed.
"""

import collections
import re

from isthmus import inputs, spelling

_MOST = 10  # sentences that a session shows
_OURS = re.compile(r"(?:\d+: *)?((?:isthmus-bench|detect-backend|detect-architectures): \S.*)")
#: What is no warning: progress, what the record of a case has, which backend was found, and a choice that each workload
#: takes as far as it can.
_NO_WARNING = re.compile(
    r": \[\d+/\d+\] |: (?:skipped|failed|wrong result): |^detect-backend: (?:cuda|hip|host)[:,]"
    r"| (?:is set|chooses) where there is "
)

_gaps = collections.defaultdict(list)  # likewise the checks whose files were not read as a whole
_said = collections.defaultdict(list)  # of this session: each sentence with the checks whose jobs said it


def note(check, name: str, said: inputs.Ends) -> None:
    """Takes the warnings of what a job said into a file of this name."""
    for sentence in dict.fromkeys(_warnings_in(said.text)):
        if check.display_name not in _said[sentence]:
            _said[sentence].append(check.display_name)
    if said.left_out:
        _gaps[f"{name}{said.gap}"].append(check.display_name)


def _warnings_in(text: str) -> list[str]:
    """Sentences of this project's programs and scripts that nothing else of a session shows."""
    lines = filter(None, map(_OURS.match, text.splitlines()))
    return [line[1].strip() for line in lines if not _NO_WARNING.search(line[1])]


def report(printer, shown: str = "") -> None:
    """Shows what was noted, except for sentences that are in `shown`, the reasons of the checks that failed."""
    fresh = {sentence: names for sentence, names in _said.items() if sentence.partition(": ")[2] not in shown}
    for sentence, names in list(fresh.items())[:_MOST]:
        text = spelling.printable(spelling.shorten(sentence, 400))
        printer.warning(f"{text} (said in the job of {_some(names)})")
    for gap, names in list(_gaps.items())[:_MOST]:
        printer.warning(f"warnings may be missing: the job of {_some(names)} wrote {gap}")
    if len(fresh) > _MOST:
        printer.warning(f"{len(fresh) - _MOST} more sentences like these: --keep-stage-files keeps rfm_job.err")
    _said.clear()
    _gaps.clear()


def _some(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0]
