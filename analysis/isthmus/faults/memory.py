"""Memory limit for traces of page faults: half of the memory available to this process, at most MOST_BYTES."""

from __future__ import annotations

import contextlib
import pathlib
import re
import resource

MOST_BYTES = 16 << 30
#: Bytes needed to read, decode and draw an event in the worst case, in which each event is in a different range.
EVENT_BYTES = 512


def _read(path: pathlib.Path) -> str:
    with contextlib.suppress(OSError, UnicodeError):
        return path.read_text(encoding="utf-8")
    return ""


def _free_of_groups(root: pathlib.Path) -> list[int]:
    """Returns the bytes that are still free in each control group that contains this process."""
    found = re.search(r"^0::(/.*)$", _read(root / "proc/self/cgroup"), re.MULTILINE)
    folder = root / "sys/fs/cgroup" / (found[1].lstrip("/") if found else "")
    free = []
    while folder != root / "sys/fs" and len(folder.parts) > len(root.parts):
        most, used = (_read(folder / f"memory.{name}").strip() for name in ("max", "current"))
        if most.isdigit() and used.isdigit():
            free.append(max(int(most) - int(used), 0))
        folder = folder.parent
    return free


def free(root: pathlib.Path = pathlib.Path("/")) -> int:
    """Returns the bytes still available to this process, given the machine, its control groups and its own limit."""
    available = re.search(r"^MemAvailable:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    limits = [int(available[1]) << 10] if available else []
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits += [own] if own != resource.RLIM_INFINITY else []
    return min([*limits, *_free_of_groups(root), 2 * MOST_BYTES])


def most_events() -> int:
    """Returns the maximum number of trace events that may be in memory at once."""
    return min(free() // 2, MOST_BYTES) // EVENT_BYTES
