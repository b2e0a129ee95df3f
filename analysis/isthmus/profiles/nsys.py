"""Reader of Nsight Systems' SQLite export, by NVIDIA's export schema."""

from __future__ import annotations

import pathlib
import re

from isthmus.profiles import admissions
from isthmus.profiles.database import Database, Texts
from isthmus.profiles.profile import Moved, Profile, ProfileError, Ranks, real, span_of, whole

_MOST_RANKS = 1 << 30
_COPY = {1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 9: "h2h", 10: "p2p"}
_MIGRATION = {11: "h2d", 12: "d2h", 13: "d2d"}
_READ = frozenset(
    ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME",
     "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS", "NVTX_EVENTS",
     "DIAGNOSTIC_EVENT", "MPI_RANKS", "MPI_COMMUNICATORS")
)  # fmt: skip
#: Prefixes of tables without events; they contain names, facts of the machine, and nsys's own actions.
_NO_EVENTS = (
    "ENUM_", "META_DATA", "TARGET_INFO", "EXPORT_META", "ANALYSIS_", "ProcessStreams", "PROCESSES", "ThreadNames",
    "UnionValue", "PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "sqlite_",
)  # fmt: skip


def read(path: pathlib.Path) -> Profile:
    """Reads an SQLite export of Nsight Systems: `nsys profile --export=sqlite` or `nsys export --type=sqlite`."""
    profile = Profile("nsys")
    with Database(path) as database:
        strings = database.texts("StringIds", "id", "value")
        if not strings:
            raise ProfileError(f"{path.name}: no StringIds, so not an export of Nsight Systems")
        _on_device(profile, database, strings)
        for row in database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", ("nameId",)):
            profile.add_call(re.sub(r"_v\d+$", "", strings.get(row["nameId"], "(unnamed)")))
        if database.has("CUDA_UM_GPU_PAGE_FAULT_EVENTS"):
            faults = database.rows("CUDA_UM_GPU_PAGE_FAULT_EVENTS", ("numberOfPageFaults",))
            profile.page_faults["gpu"] = sum(whole(f["numberOfPageFaults"] or 1, path.name) for f in faults)
        if database.has("CUDA_UM_CPU_PAGE_FAULT_EVENTS"):
            profile.page_faults["cpu"] = database.count("CUDA_UM_CPU_PAGE_FAULT_EVENTS")
        for row in database.rows("NVTX_EVENTS", ("start", "end", "text", "textId")):
            phase = row["text"] or strings.get(row["textId"])
            if phase and row["end"] is not None:
                profile.add_phase(str(phase), span_of(row, f"{path.name}, NVTX_EVENTS"))
            else:
                profile.leave_out("NVTX_EVENTS without a name or an end")
        for table, rows in database.unread(_READ, _NO_EVENTS).items():
            profile.leave_out(table, rows)
        _diagnostics(profile, database)
        profile.ranks = _ranks(database)
    return profile


def _ranks(database: Database) -> Ranks:
    """Returns the ranks that were traced and the size of the largest communicator, if MPI was traced."""
    numbers = {row["rank"] for table in ("MPI_RANKS", "MPI_COMMUNICATORS") for row in database.rows(table, ("rank",))}
    sizes = {row["size"] for row in database.rows("MPI_COMMUNICATORS", ("size",))}

    def counted(values: set) -> set[int]:
        return {value for value in values if isinstance(value, int) and 0 <= value < _MOST_RANKS}

    return Ranks(counted(numbers), max(counted(sizes), default=0))


def _diagnostics(profile: Profile, database: Database) -> None:
    """Adds nsys's own messages, such as lost events and warnings, to the profile."""
    labels = {row["id"]: str(row["label"]) for row in database.rows("ENUM_DIAGNOSTIC_SEVERITY_LEVEL", ("id", "label"))}
    for row in database.rows("DIAGNOSTIC_EVENT", ("severity", "text")):
        admissions.say(profile, database.path, str(row["text"]), labels.get(row["severity"], ""))


def _graphs(profile: Profile, database: Database) -> None:
    """Adds launches of CUDA graphs that were traced as a whole, which is nsys's default."""
    where = f"{database.path.name}, CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    launches, seconds = 0, 0.0
    for row in database.rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ("start", "end")):
        begin, end = span_of(row, where)
        profile.add_span("kernel", (begin, end))
        launches, seconds = launches + 1, seconds + end - begin
    if not launches:
        return
    profile.add_counter("graph_launches", launches)
    profile.add_counter("graph_seconds", seconds)
    profile.limit(
        "CUDA graphs were traced as a whole: their kernels and copies are counted as graph_launches and graph_time "
        "only; nsys --cuda-graph-trace=node traces each kernel and copy"
    )


def _on_device(profile: Profile, database: Database, strings: Texts) -> None:
    _graphs(profile, database)
    columns = ("start", "end", "shortName", "demangledName", "registersPerThread", "staticSharedMemory",
               "dynamicSharedMemory")  # fmt: skip
    where = database.path.name
    for row in database.rows("CUPTI_ACTIVITY_KIND_KERNEL", columns):
        name = strings.get(row["shortName"]) or strings.get(row["demangledName"]) or "(unnamed)"
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
