"""Gates that hold a record to the request and to itself; each returns why it cannot be taken, or None.

The record's file is written by the program that is judged, in a folder that others may write into. So whatever a
session asked for, and whatever two fields say of one thing, is compared.
"""

#: Axes that a placement adds to a workload's own.
PLACEMENT_AXES = {
    "streamed": {"chunks"},
    "paged": {"eviction", "frames", "page", "queues", "transport"},
}

#: Phases of a program that every placement shows, and those that a placement does not have.
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

#: Measured once for each of a few allocations, however many samples the copies and kernels take.
_OF_ALLOCATIONS = {"host_alloc", "host_touch", "device_alloc", "free", "wall", "paper_total"}

#: Families whose results are bytes and whole numbers, so that no error is tolerated.
_EXACT = ("accounting", "alloc", "atomics", "driver", "fault", "latency", "mpi", "paging", "stream", "transfer")
#: Elsewhere errors are shares of the bound that the arithmetic allows, or of the result; one workload needs two.
_TOLERANCE, _TOLERANCES = 1.0, {"apps/heartwall": 2.0}


def phases(placement: str | None) -> set[str]:
    """Metrics that a program has in this placement, whatever it computes."""
    return PHASES - _WITHOUT.get(placement, set())


def interrupted(case: dict) -> str | None:
    """A program that was told to end (SIGTERM, ^C) ends after the current sample."""
    if any(metric["stop"] == "interrupted" for metric in case["metrics"]):
        return "it was told to end before all samples were taken, which is no fault of the machine: run it again"
    return None


def few_samples(case: dict, asked: int | None) -> str | None:
    """Compares numbers of samples; a profiled case is left out, for a profiler adds figures without samples."""
    for metric in case["metrics"] if asked is not None and case["profiler"] is None else ():
        number = len(metric["samples"])
        if metric["stop"] == "samples" and metric["name"] not in _OF_ALLOCATIONS and number != asked:
            return f"the record has {number} samples of {metric['name']}, asked were {asked}"
    return None


def unknown_axes(case: dict, known: set[str] | None) -> str | None:
    if known is None:
        return None
    unknown = sorted(set(case["axes"]) - known - PLACEMENT_AXES.get(case["placement"], set()))
    return f"the record has the axis {unknown[0]!r}, which {case['workload']} does not have" if unknown else None


def misnamed_device(case: dict) -> str | None:
    """Emulated is what the emulator did, and nothing else."""
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
    return f"the record tolerates an error of {tolerance:g}, where {workload} allows {allowed:g}: it verified nothing"
