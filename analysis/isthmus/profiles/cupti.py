"""Reader of the output that libisthmus-cupti (src/trace/cupti_counts.cpp) writes for a process."""

from __future__ import annotations

import json
import pathlib
import re

from isthmus import inputs, spelling
from isthmus.profiles.profile import KINDS, Kernel, Moved, Profile, ProfileError, real, text_of, whole

_KNOWN = frozenset(
    ("schema", "version", "kernels", "copies", "migrations", "gpu_page_faults", "gpu_fault_groups", "cpu_page_faults",
     "thrashing", "remote_maps", "runtime_calls", "driver_calls", "busy_nanoseconds", "added_nanoseconds",
     "longest_nanoseconds", "dropped", "errors")
)  # fmt: skip


#: Events that every process counts, even if none occur, with the profile's figure for each.
_MEASURED = {
    "kernels": ("kernels", ""), "copies": ("copies", ""), "copies between devices": ("copies", "p2p"),
    "runtime calls": ("api_calls", ""), "page faults": ("page_faults", ""), "migrations": ("migrations", ""),
}  # fmt: skip
_OF_MEMORY = {"page faults", "migrations"}
#: Events that are not counted if CUPTI refused a call, keyed by the call. Other refused calls affect only themselves.
_NEEDS = {
    "cuptiSubscribe": {"runtime calls", *_OF_MEMORY},
    "contexts": _OF_MEMORY,  # counting of unified memory is enabled when a context is created
    "cuptiActivityRegisterCallbacks": _MEASURED.keys() - {"runtime calls"},
}
_MOST = 16 * inputs.MIB  # maximum size of a file, which is small because it contains counts rather than events


def read(path: pathlib.Path) -> Profile:
    """Reads the output of libisthmus-cupti for one process. Raises ProfileError if the file is anything else."""
    profile = Profile("cupti")
    try:
        content = json.loads(text_of(path, _MOST))
        if not isinstance(content, dict) or content.get("schema") != "isthmus.cupti/1":
            raise ProfileError(f"{path.name}: not written by libisthmus-cupti")
        for name, kernel in content["kernels"].items():
            profile.kernel(name).add(Kernel(
                whole(kernel["count"], path.name), real(kernel["nanoseconds"], path.name) * 1e-9,
                whole(kernel["registers"], path.name), whole(kernel["shared_bytes"], path.name),
            ))  # fmt: skip
        for where, into in (("copies", profile.copies), ("migrations", profile.migrations)):
            for kind, moved in content[where].items():
                into.setdefault(kind if kind in KINDS else "other", Moved()).add(
                    real(moved["bytes"], path.name), real(moved["nanoseconds"], path.name) * 1e-9,
                    whole(moved["count"], path.name),
                )  # fmt: skip
        profile.page_faults = {who: whole(content[f"{who}_page_faults"], path.name) for who in ("gpu", "cpu")}
        for name, count in content["runtime_calls"].items():
            profile.add_call(name, whole(count, path.name))
        busy, total, longest = (
            real(content[f"{kind}_nanoseconds"], path.name) * 1e-9 for kind in ("busy", "added", "longest")
        )
        profile.busy = [(busy, total, longest)]
        for name in content.keys() - _KNOWN:
            profile.leave_out(spelling.shorten(str(name), 60))
        _add_errors(profile, path.name, [str(error) for error in content["errors"]])
        if whole(content["dropped"], path.name):
            profile.lack(
                f"{path.name} says that {content['dropped']} activities were dropped, so counts are too low; profile a "
                "shorter run"
            )
    except ProfileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProfileError(f"{path.name}: cut short, or not written by libisthmus-cupti ({error})") from None
    if not profile.api_calls and not profile.kernels:
        reason = f" ({'; '.join(map(str, content['errors'][:1]))})" if content["errors"] else ""
        raise ProfileError(f"{path.name}: CUPTI saw nothing{reason}")
    return profile


def _add_errors(profile: Profile, where: str, errors: list[str]) -> None:
    """Adds what CUPTI refused to count as missing or as a note, and sets `measured` to what it counted.

    If counting of unified memory was refused, its zeros are not figures. If the machine does not support it, that is
    not a loss, since there is no figure.
    """
    refused: set[str] = set()
    for error in errors:
        call = error.partition(":")[0]
        of_memory = "unified" in error.lower()
        refused |= _OF_MEMORY if of_memory else _NEEDS.get(call, {call})
        if of_memory and re.search("NOT_SUPPORTED|not supported", error):
            profile.note(f"no page fault or migration was counted: {error}")
        else:
            profile.lack(f"{where} says that CUPTI refused {error}")
    if refused >= _OF_MEMORY:
        profile.page_faults, profile.migrations = {}, {}
    profile.measured = {what: figure for what, figure in _MEASURED.items() if what not in refused}
