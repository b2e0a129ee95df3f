"""Nsight Systems: its SQLite export, by NVIDIA's export schema."""

from __future__ import annotations

import pathlib
import re

from isthmus.profiles.database import Database
from isthmus.profiles.profile import Moved, Profile, ProfileError, real, span_of, whole

_COPY = {1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 9: "h2h", 10: "p2p"}
_MIGRATION = {11: "h2d", 12: "d2h", 13: "d2d"}


def read(path: pathlib.Path) -> Profile:
    """An SQLite export of Nsight Systems: `nsys profile --export=sqlite` or `nsys export --type=sqlite`."""
    profile = Profile("nsys")
    with Database(path) as database:
        strings = {row["id"]: row["value"] for row in database.rows("StringIds", ("id", "value"))}
        if not strings:
            raise ProfileError(f"{path.name}: no StringIds, so not an export of Nsight Systems")
        _on_device(profile, database, strings)
        for row in database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", ("nameId",)):
            profile.add_call(re.sub(r"_v\d+$", "", str(strings.get(row["nameId"], "(unnamed)"))))
        faults = database.rows("CUDA_UM_GPU_PAGE_FAULT_EVENTS", ("numberOfPageFaults",))
        if faults or database.table("CUDA_UM_GPU_PAGE_FAULT_EVENTS"):
            profile.page_faults["gpu"] = sum(whole(f["numberOfPageFaults"] or 1, path.name) for f in faults)
        if database.table("CUDA_UM_CPU_PAGE_FAULT_EVENTS"):
            profile.page_faults["cpu"] = len(database.rows("CUDA_UM_CPU_PAGE_FAULT_EVENTS", ("start",)))
        for row in database.rows("NVTX_EVENTS", ("start", "end", "text", "textId")):
            phase = row["text"] or strings.get(row["textId"])
            if phase and row["end"] is not None:
                profile.add_phase(str(phase), span_of(row, f"{path.name}, NVTX_EVENTS"))
    return profile


def _on_device(profile: Profile, database: Database, strings: dict) -> None:
    columns = ("start", "end", "shortName", "demangledName", "registersPerThread", "staticSharedMemory",
               "dynamicSharedMemory")  # fmt: skip
    where = database.path.name
    for row in database.rows("CUPTI_ACTIVITY_KIND_KERNEL", columns):
        name = str(strings.get(row["shortName"]) or strings.get(row["demangledName"]) or "(unnamed)")
        kernel = profile.add_kernel(name, span_of(row, where))
        if row["registersPerThread"] is not None:
            kernel.registers = whole(row["registersPerThread"], where)
        if row["staticSharedMemory"] is not None:
            dynamic = whole(row["dynamicSharedMemory"] or 0, where)
            kernel.shared_bytes = whole(row["staticSharedMemory"], where) + dynamic
    for row in database.rows("CUPTI_ACTIVITY_KIND_MEMCPY", ("start", "end", "bytes", "copyKind")):
        begin, end = span_of(row, where)
        moved = None if row["bytes"] is None else real(row["bytes"], where)
        if row["copyKind"] in _MIGRATION:
            profile.migrations.setdefault(_MIGRATION[row["copyKind"]], Moved()).add(moved, end - begin)
        else:
            profile.add_copy(_COPY.get(row["copyKind"], "other"), moved, (begin, end))
