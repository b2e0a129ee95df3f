"""Statements of a profiler, in its output or log, that events are missing from its figures.

Every reader passes the tool's own sentences to say(), so that losses are never reported as mere notes. A feature that
the machine lacks is not a loss, because then there is no figure. Lost events make a figure too low.
"""

from __future__ import annotations

import pathlib
import re

from isthmus import inputs, spelling
from isthmus.profiles.profile import Profile

_LOSS = (
    r"(?:lost|los(?:e|es|ing)|loss(?:es)?|drop(?:s|ped|ping)?|discard(?:s|ed|ing)?|overfl(?:ow\w*|own)|overr[au]n\w*|"
    r"overwritten|overwrote|truncat\w+|incomplete\w*|missed|missing|skipp(?:ed|ing)|corrupt\w*)"
)
_NOT_DONE = r"(?:profiled|collected|recorded|captured|traced|counted|processed|written|flushed|saved)"
_ADMITS_ANYWHERE = re.compile(rf"\b(?:{_LOSS}|not all)\b", re.IGNORECASE)  # applies even to messages of low severity
_ADMITS = re.compile(
    rf"\b{_LOSS}\b|\b(?:not all|only (?:a )?part|partial(?:ly)?|ran out of|out of memory|no space|disk full|"
    rf"buffers? full|exhausted|ignored|prematurely|(?:stopped|ended|exited) (?:early|before)|only the (?:first|last)|"
    rf"(?:limit|size|quota)(?: was| is)? (?:reached|exceeded)|not complete|too (?:large|many)|before [^.;]*flushed|"
    rf"errors?|terminated|killed|interrupted|crash(?:ed)?|fail(?:s|ed|ure)?|unable|could(?: not|n't)|"
    rf"might (?:not have|have not|have been lost)|may (?:not have|have not)|no kernels? (?:was|were) profiled)\b|"
    rf"(?:\bnot|n't)(?: be| been)?(?: \w+)? {_NOT_DONE}\b",
    re.IGNORECASE,
)
#: Phrases that state that nothing was lost: "0 events were dropped", "Lost records: 0".
_NOTHING_LOST = re.compile(
    rf"\b(?:no|none|0|zero|without(?: any)?)(?: \w+)?(?: \w+)?(?: (?:was|were|are|been))* {_LOSS}\b|"
    rf"\b{_LOSS}(?: \w+)?(?: \w+)? ?[:=] ?0\b(?!\.\d*[1-9])",
    re.IGNORECASE,
)
#: Subjects for which profiles have no figures. Sentences about them are ignored unless they also match _HERE.
_ELSEWHERE = re.compile(
    r"\b(?:IP|backtraces?|call ?chains?|stacks?|sampl(?:es?|ing)|context[- ]switch\w*|schedul\w+|OS runtime|OSRT|"
    r"Vulkan|OpenGL|DirectX|cuBLAS|cuDNN|network|NIC|InfiniBand|GPU metrics|ftrace|perf_event_paranoid|python|power)\b",
    re.IGNORECASE,
)
_HERE = re.compile(r"\b(?:CUDA|CUPTI|NVTX|kernels?|memcpy|copies|page faults?|(?:unified|managed) memory)\b", re.I)
_INFORMED = ("info", "information", "debug", "verbose", "trace")
_ADVICE = "profile it again, shorter or with fewer kinds of events"


def admits(text: str, severity: str = "") -> bool:
    """Returns whether a profiler's sentence states that events are missing, or is an error about one of our figures."""
    text = _NOTHING_LOST.sub("", text)
    is_elsewhere = _ELSEWHERE.search(text) and not _HERE.search(text)
    if is_elsewhere or "does the process use" in text.lower():
        return False
    words = _ADMITS_ANYWHERE if severity.lower() in _INFORMED else _ADMITS
    return severity.lower() in ("error", "fatal", "critical") or words.search(text) is not None


def say(profile: Profile, path: pathlib.Path, text: str, severity: str = "", *, note: str | None = None) -> None:
    """Adds a profiler's sentence from `path` to the profile, as missing if it admits a loss, otherwise as a note.

    Messages of low severity that do not admit a loss are dropped.
    """
    text = spelling.shorten(" ".join(text.split()), 200)
    label = f"({severity}) " if severity and not text.startswith("==") else ""
    if admits(text, severity):
        profile.lack(f"{path.name} says {label}{text}; {_ADVICE}")
    elif severity.lower() not in _INFORMED:
        profile.note(note or f"{profile.tool} says {label}".rstrip() + f": {text}")


# --- logs ---

LOG = "log"  # name of the log next to each rank's output, as in reframe/isthmus_reframe/profilers.py
_LONGEST_LOG = 16 * inputs.MIB  # maximum number of bytes that are read, at the end of a log
#: Beginning of log lines that the profiler wrote, not its program; the first group, if there is one, is the severity.
_OWN = {
    "ncu": re.compile(r"==(WARNING|ERROR)== "),
    "nsys": re.compile(r"(?:nsys|Nsight Systems|\[nsys\])?:? ?(WARNING|ERROR)(?=: )", re.IGNORECASE),
    "rocprofv3": re.compile(r"([WEF])\d{4,8} |.*\brocprof"),
}
_LETTERS = {"W": "Warning", "E": "Error", "F": "Error"}


def read_log(profile: Profile, path: pathlib.Path) -> None:
    """Adds the losses that a profiler admits in its log to a profile; lines that the program wrote are ignored.

    An unreadable log may admit any loss, so it is added as missing.
    """
    own = _OWN.get(profile.tool)
    if own is None:
        return
    try:
        with inputs.open_file(path) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LONGEST_LOG))
            lines = file.read(_LONGEST_LOG).decode(errors="replace").splitlines()
    except OSError as error:
        why = error.strerror or str(error)
        profile.lack(
            f"{path.name} cannot be read ({why}), so the warnings of {profile.tool} in it are unknown; make it readable"
        )
        return
    for line in lines:
        found = own.match(line)
        if found is None:
            continue
        severity = _LETTERS.get(found[1] or "", (found[1] or "").capitalize())
        if admits(line, severity):
            profile.lack(f"{path.name} says {spelling.shorten(' '.join(line.split()), 200)}; {_ADVICE}")
