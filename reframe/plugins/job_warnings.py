"""Warnings of jobs, such as of a setting without effect: a session shows each once.

ReFrame leaves the standard error of a job in its stage folder, and removes that where the check passed.
"""

import collections
import re

from isthmus import spelling

_MOST = 10  # sentences that a session shows
_OURS = re.compile(r"(?:\d+: *)?((?:isthmus-bench|detect-backend|detect-architectures): \S.*)")
#: What is no warning: progress, what the record of a case has, which backend was found, and a choice that each workload
#: takes as far as it can.
_NO_WARNING = re.compile(
    r": \[\d+/\d+\] |: (?:skipped|failed|wrong result): |^detect-backend: (?:cuda|hip|host)[:,]"
    r"| (?:is set|chooses) where there is "
)

_said = collections.defaultdict(list)  # of this session: each sentence with the checks whose jobs said it


def note(check, text: str) -> None:
    """Takes the warnings of a job's standard error."""
    for sentence in dict.fromkeys(_warnings_in(text)):
        _said[sentence].append(check.display_name)


def _warnings_in(text: str) -> list[str]:
    """Sentences of this project's programs and scripts that nothing else of a session shows."""
    lines = filter(None, map(_OURS.match, text.splitlines()))
    return [line[1].strip() for line in lines if not _NO_WARNING.search(line[1])]


def report(printer, shown: str = "") -> None:
    """Shows what was noted, except for sentences that are in `shown`, the reasons of the checks that failed."""
    fresh = {sentence: names for sentence, names in _said.items() if sentence.partition(": ")[2] not in shown}
    for sentence, names in list(fresh.items())[:_MOST]:
        others = f" and {len(names) - 1} more" if names[1:] else ""
        text = spelling.printable(spelling.shorten(sentence, 400))
        printer.warning(f"{text} (said in the job of {names[0]}{others})")
    if len(fresh) > _MOST:
        printer.warning(f"{len(fresh) - _MOST} more sentences like these: --keep-stage-files keeps rfm_job.err")
    _said.clear()
