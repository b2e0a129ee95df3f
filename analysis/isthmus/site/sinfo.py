"""Slurm's notation for time limits and for the generic resources (GRES) of a node.

A node may have several entries, such as `gpu:a100:4(S:0-1),gpu:v100:2,shard:32`. Each has a name, possibly a type, and
a number. Only entries called `gpu` are GPUs; `gpu_mem`, `mps` and `shard` are not.
"""

from __future__ import annotations

import dataclasses
import re

_NOTHING = ("", "(null)", "null", "n/a", "none")
_FOR_EVER = ("infinite", "unlimited")
_MULTIPLES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_LIMIT = re.compile(
    r"(?:(?P<days>\d+)-(?P<hours>\d+)(?::(?P<minutes>\d+))?(?::(?P<seconds>\d+))?)"
    r"|(?:(?P<h>\d+):(?P<m>\d+):(?P<s>\d+))|(?:(?P<only>\d+)(?::(?P<rest>\d+))?)"
)
MIG = re.compile(r"(?:.*_)?\d+g\.\d+gb.*")


@dataclasses.dataclass(frozen=True)
class NodeGpus:
    """Number of GPUs of one type in a node; the type is empty if Slurm does not state it."""

    type: str
    count: int


def gpus_of(gres: str) -> tuple[list[NodeGpus], list[str]]:
    """Returns the GPUs of a node, and entries that look like GPUs but cannot be parsed."""
    found, unreadable = [], []
    if gres.strip().lower() in _NOTHING:
        return [], []
    for entry in re.split(r",(?![^()]*\))", gres):
        entry = entry.strip()
        bare = re.sub(r"\([^()]*\)", "", entry)  # removes sockets, as in (S:0-1), and indices, as in (IDX:0)
        name, *rest = re.split(r"[:=]", bare.removeprefix("gres/").removeprefix("gres:"))
        if name.strip() != "gpu":
            continue
        gpus = _gpus(rest)
        if gpus is None:
            unreadable.append(entry)
        elif gpus.count:
            found.append(gpus)
    return found, unreadable


def _gpus(rest: list[str]) -> NodeGpus | None:
    """Parses the words after `gpu`: a type, `no_consume` and a number, each of which may be missing.

    Returns None for any other words.
    """
    words = [word for word in rest if word != "no_consume"]
    count = 1
    if words and (number := re.fullmatch(r"(\d+)([kmgtp]?)", words[-1], re.IGNORECASE)):
        count = int(number[1]) * _MULTIPLES[number[2].lower()]
        words.pop()
    if len(words) > 1 or not all(re.fullmatch(r"\w[\w.-]*", word) for word in words):
        return None
    return NodeGpus(words[0] if words else "", count)


def seconds_of(limit: str) -> int | None:
    """Returns a time limit of sinfo or sbatch in seconds, or None if it is unlimited.

    `30` and `30:00` are minutes, `1-12` is 36 h. Raises ValueError for any other text.
    """
    text = limit.strip().lower()
    if text in ("", *_FOR_EVER):
        return None
    found = _LIMIT.fullmatch(text) if text.isascii() else None
    if found is None:
        raise ValueError(f"{limit!r} is not a time limit of Slurm")
    part = {name: int(value or 0) for name, value in found.groupdict().items()}
    if found["only"] is not None:
        return 60 * part["only"] + part["rest"]
    hours = 24 * part["days"] + part["hours"] + part["h"]
    return 3600 * hours + 60 * (part["minutes"] + part["m"]) + part["seconds"] + part["s"]
