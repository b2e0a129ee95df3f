"""Families of workloads of the memory system, and what a case needs, derived from its name and axes."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Family:
    summary: str
    published: tuple[str, ...]  #: metrics that ReFrame shows
    largest: frozenset[str] = frozenset()  #: axes whose largest value, not their default, is shown
    tag: str | None = None  #: tag, if it differs from the name


FAMILIES = {
    "latency": Family("latency of one access, by memory and reader", ("latency",), frozenset({"bytes"})),
    "stream": Family("bandwidth of the STREAM operations, by memory and reader", ("rate",)),
    "atomics": Family("atomic updates, and a cache line that bounces", ("rate", "cpu_rate", "gpu_rate", "latency")),
    "alloc": Family("allocating, touching and freeing", ("alloc", "touch")),
    "fault": Family(
        "page faults of the CPU and of GPUs",
        ("faulting_p50",),
        frozenset({"at_once"}),
        tag="faults",  # `-t fault` would also choose every "default"
    ),
    "accounting": Family("allocations in memory counters", ("meminfo_available_touched", "device_free_touched")),
}

# Capabilities that a site states for the kinds of memory in workloads' names, if they differ from those names.
STATED_AS = {"device": set(), "pageable": set(), "static": {"managed", "static"}}
# Memory that stays on the host while a GPU uses it.
ON_HOST = {"mapped", "registered", "write_combined"}


def needs(workload: str, axes: dict, cpu_only: bool) -> set[str]:
    """Returns the capabilities that a site can state and that together guarantee this case; empty if no statements can
    guarantee it."""
    family, *words = re.split("[/-]", workload)
    if cpu_only:
        numa = {"numa"} if words[0].startswith("node") else set()
        return numa | ({"huge_pages"} if axes.get("pages") == "huge" else set())
    gpus = {word for word in words if re.fullmatch(r"gpu\d+", word)}
    memory = axes.get("memory", "device" if words[0] in gpus else words[0])
    needed = {"gpu"} | STATED_AS.get(memory, {memory}) | ({"peer"} if len(gpus) == 2 else set())
    if memory == "pageable" and (
        family in ("stream", "atomics", "fault")
        or (family == "latency" and words[1] != "cpu")
        or (family == "accounting" and axes["touch"] == "gpu")
    ):
        needed.add("system")
    match family, words, memory:
        case ("latency" | "stream", [_, "cpu", *_], "device") | ("atomics", [_, "shared" | "ping", _], "device"):
            needed.add("unified")
        case "atomics", [_, "shared", _], _ if memory in ON_HOST:
            needed.add("host_atomics")
        case "atomics", [_, "ping", _], _ if memory not in ON_HOST:
            needed.add("host_atomics")  # otherwise whole pages migrate, or the case is unsupported
        case "fault", [*_, "migration"], "pageable":
            needed.add("hmm")  # a GPU that shares the CPU's page tables may not migrate the pages
    return needed
