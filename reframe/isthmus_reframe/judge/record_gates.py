"""Gates that compare a record with the request and with itself; each returns why the record cannot be accepted, or
None.

The program that is judged writes the record's file, in a folder that others may write into. Therefore everything that a
session requested is compared with the record, and so is every pair of fields that describe the same thing.
"""

#: Axes that a placement adds to those of a workload.
PLACEMENT_AXES = {
    "streamed": {"chunks"},
    "paged": {"eviction", "frames", "page", "queues", "transport"},
}

#: Phases of a program in all placements; _WITHOUT has the phases that some placements lack.
PHASES = {
    "host_alloc",
    "host_touch",
    "device_alloc",
    "in",
    "kernel",
    "out",
    "free",
    "first_in",
    "first_kernel",
    "first_out",
}
_WITHOUT_COPY_IN = {"host_alloc", "in", "first_in", "in_rate"}
_WITHOUT = {
    "managed_in": {"host_alloc"},
    "managed": {"host_alloc"},
    "managed_demand": _WITHOUT_COPY_IN,
    "managed_advise": _WITHOUT_COPY_IN,
    "mapped": {"device_alloc", "in", "out", "first_in", "first_out", "in_rate", "out_rate"},
}

#: Metrics that have one sample per allocation, of which there are few, regardless of the samples of copies and kernels.
_OF_ALLOCATIONS = {"host_alloc", "host_touch", "device_alloc", "free", "wall", "paper_total"}

#: Families whose results are bytes and whole numbers, so that errors are not tolerated.
_EXACT = ("accounting", "alloc", "atomics", "driver", "fault", "latency", "mpi", "paging", "stream", "transfer")
#: Tolerance of all other families, whose errors are relative to the bound that the arithmetic allows or to the result.
#: One workload needs a tolerance of 2.
_TOLERANCE, _TOLERANCES = 1.0, {"apps/heartwall": 2.0}


def phases(placement: str | None) -> set[str]:
    """Returns the metrics that every program has in this placement."""
    return PHASES - _WITHOUT.get(placement, set())


def interrupted(case: dict) -> str | None:
    """Returns a reason if a record is incomplete because its program was told to end (SIGTERM, ^C). The program then
    ends after the current sample."""
    if any(metric["stop"] == "interrupted" for metric in case["metrics"]):
        return "it was asked to end before all samples were taken, which is not the machine's fault: run it again"
    return None


def few_samples(case: dict, asked: int | None) -> str | None:
    """Returns a reason if a metric has too few samples. Ignores profiled cases, because a profiler adds figures without
    samples."""
    for metric in case["metrics"] if asked is not None and case["profiler"] is None else ():
        number = len(metric["samples"])
        if metric["stop"] == "samples" and metric["name"] not in _OF_ALLOCATIONS and number != asked:
            return f"the record has {number} samples of {metric['name']}, but {asked} were requested"
    return None


def unknown_axes(case: dict, known: set[str] | None) -> str | None:
    if known is None:
        return None
    unknown = sorted(set(case["axes"]) - known - PLACEMENT_AXES.get(case["placement"], set()))
    return f"the record has the axis {unknown[0]!r}, which {case['workload']} does not have" if unknown else None


def misnamed_device(case: dict) -> str | None:
    """Returns a reason if a record's device contradicts `emulated`, which must be true if, and only if, the emulator
    ran the case."""
    backends = {device["backend"] for device in case["devices"]}
    if case["emulated"] == ("emulator" in backends):
        return None
    if case["emulated"]:
        return f"the record says that it is emulated, but names {', '.join(sorted(backends)) or 'no device'}"
    return "the record says that it is not emulated, but its device is the emulator"


def loose_tolerance(case: dict) -> str | None:
    tolerance, workload = case["verify"]["tolerance"], case["workload"]
    allowed = 0.0 if workload.partition("/")[0] in _EXACT else _TOLERANCES.get(workload, _TOLERANCE)
    if tolerance is None or tolerance <= allowed:
        return None
    return f"the record tolerates an error of {tolerance:g}, but {workload} allows {allowed:g}: nothing was verified"
