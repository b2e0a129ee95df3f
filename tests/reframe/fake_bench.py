#!/usr/bin/env python3
"""Fake isthmus-bench with the real one's command line: writes valid records without measuring.

The environment variable FAKE_BENCH makes it misbehave. It is a comma-separated list of names in MISBEHAVIOURS, each
with an argument after a colon if it needs one, and with a workload after an @ if only that workload misbehaves
(skip:memory@transfer/gpu0-gpu1/ce). FAKE_CATALOGUE is the path of reframe/checks/catalogue.json. The session tests run
this program instead of the real one, because tests of red sessions must not depend on hardware that really fails.
"""

import argparse
import fnmatch
import gzip
import hashlib
import itertools
import json
import math
import os
import pathlib
import random
import signal
import socket
import sys
import time

MODES = {
    "baseline": ("pageable", "direct"),
    "async": ("pageable", "async"),
    "uvm": ("managed_in", "direct"),
    "uvm_async": ("managed_in", "async"),
    "pm": ("pinned", "direct"),
    "pm_async": ("pinned", "async"),
}
SIZES = ["tiny", "small", "medium", "large", "super", "mega"]
UNITS = {
    "host_alloc": "s", "host_touch": "s", "device_alloc": "s", "in": "s", "kernel": "s", "out": "s", "free": "s",
    "first_in": "s", "first_kernel": "s", "first_out": "s",
    "overlapped": "s", "memory_peak": "B", "wall": "s", "paper_total": "s",
    "in_rate": "B/s", "out_rate": "B/s", "kernel_rate": "B/s",
}  # fmt: skip
WORSE = {"s": 1, "B/s": -1, "FLOP/s": -1, "1": 0, "B": 0}
VARYING = ("SLURMD_NODENAME", "SLURM_ARRAY_TASK_ID", "FAKE_DRIVER")
MISBEHAVIOURS = {
    "wrong_result": "verification fails, exit 1, as the real program does",
    "wrong_result_exit_0": "verification fails, and the exit code hides it",
    "not_verified": "verification did not run",
    "beyond_tolerance": "verification passes, though the error is beyond the tolerance",
    "not_applicable": "says that there is nothing to verify",
    "error": "the case failed with an error, exit code hidden",
    "exit": "exit code N (exit:7) after a good record",
    "killed": "ends by SIGKILL after a good record",
    "no_record": "writes nothing, exits 0",
    "empty_record": "writes an empty file",
    "full_disk": "writes an empty file, says why and fails, as the real program does",
    "cut_record": "writes half a line",
    "foreign_record": "writes another program's JSON",
    "extra_record": "writes two records where one was asked",
    "other_case": "measures another size than asked",
    "other_way": "moves the data in another way than asked, FIELD (other_way:placement)",
    "other_axis": "measures another value of AXIS, 1",
    "missing_metric": "leaves out metric NAME",
    "null_metric": "every sample of metric NAME is invalid",
    "zero_metric": "metric NAME is 0 s",
    "beyond_limit": "metric NAME is twice as good as its limit",
    "lanes": "its PCIe link runs N lanes wide of 16, and in_rate is 88% of what these allow",
    "skip": "skips with skip_kind KIND (unsupported, memory, not_applicable)",
    "lacks": "skips as unsupported where an axis has the value VALUE",
    "emulated": "says that the emulator did the work",
    "profiled": "says that a profiler ran",
    "gpu": "pretends to have run on a GPU of backend NAME",
    "slow": "every time is twice as long",
    "warns": "warns of CODE for the whole record (warns:xid_errors)",
    "company": "another process held memory of the GPU; it stays, or has ended when the case does (company:ended)",
    "varies": "times and rates vary by 1% from task to task of an array, and are N% worse",
    "missing_point": "leaves out the last case where several were asked",
    "other_point": "the last case measures a value that nobody asked for",
    "skip_point": "the last case is skipped with skip_kind KIND",
    "missing_case": "leaves out all cases of the workload after the @",
    "sees": "has N GPUs (sees:2)",
    "nodes": "has N NUMA nodes",
    "no_list": "cannot list",
    "cut_list": "lists half of what there is",
    "ranks": "says that N ranks measured, each on a GPU and a processor of its own",
    "rank_lost": "tells of one rank less than measured (after ranks:N)",
    "rank_twice": "tells of the first rank twice (after ranks:N)",
    "one_gpu": "all ranks measured on one GPU (after ranks:N)",
    "unbound": "all ranks may run on every processor (after ranks:N)",
    "stays": "goes on for N seconds when its record is written",
    "hangs": "writes N whole records and half of the next, and goes on for ever",
    "table": "writes a table next to the record, which is gone again (table:gone), altered (table:altered) or whole",
    "counts": "the driver's queue told of another number, METRIC (counts:uvm_prefetch_bytes)",
    "granted": "says that the scheduler granted N GPUs",
    "another": "says in the record that another run FIELD measured (another:node)",
    "sets": "a field of the record, by its path, has another value (sets:verify.tolerance=1e12)",
    "one_sample": "took one sample of kernel, whatever was asked",
    "interrupted": "was told to end before all samples were taken, exit code 3",
    "mutters": "says TEXT on stderr, with - for blanks",
    "padded": "ends its record file in N MiB of zeros, as one that was written into a hole",
    "shouts": "writes N MiB on stderr, and a warning before, amid and after them (shouts:4)",
    "first_try": "misbehaves so once: leaves the file FILE, and is well where it is (first_try:/tmp/x)",
}
# Transfer methods for each pair of memories; g and h are two GPUs, n and m two NUMA nodes.
BETWEEN_GPUS = "ce ce-nopeer ce-batch ce-strided pack sm-read sm-write fault prefetch prefetch-batch"
BOTH_WAYS = "ce-duplex ce-nopeer-duplex sm-read-duplex sm-write-duplex fault-duplex prefetch-duplex"
COPIED_AT_HOME = ("pageable", "pinned", "registered", "managed")
TRANSFERS = {
    "pageable-gpu{g}": "ce ce-duplex fault fault-duplex fault-latency",
    "gpu{g}-pageable": "ce fault fault-latency",
    "pinned-gpu{g}": "ce ce-duplex ce-batch ce-strided pack small-copy",
    "gpu{g}-pinned": "ce ce-batch ce-strided pack small-copy",
    "registered-gpu{g}": "ce ce-duplex sm-read",
    "gpu{g}-registered": "ce sm-write",
    "write_combined-gpu{g}": "ce ce-duplex sm-read",
    "gpu{g}-write_combined": "ce sm-write",
    "mapped-gpu{g}": "sm-read sm-read-duplex chase",
    "gpu{g}-mapped": "sm-write",
    "managed-gpu{g}": "ce ce-duplex fault fault-duplex prefetch prefetch-duplex prefetch-batch discard fault-latency",
    "gpu{g}-managed": "ce fault prefetch prefetch-batch discard fault-latency",
    "gpu{g}-gpu{g}": "ce sm-read chase small-copy",
    "gpu{g}-gpu{h}": f"{BETWEEN_GPUS} {BOTH_WAYS} chase small-copy fault-latency",
    "all-gpu{g}": "ce sm-read",
    "gpu{g}-all": "ce sm-write",
    **{f"{a}-{b}": "runtime" for a in COPIED_AT_HOME for b in COPIED_AT_HOME},
    "node{n}-node{m}": "cpu",
}
LATENCIES = ("chase", "small-copy", "fault-latency")


def transfers(gpus, nodes):
    """Returns the method of each transfer/* workload on a machine with this many GPUs and NUMA nodes, keyed by name."""
    names = {}
    for g, h, n, m in itertools.product(range(gpus), range(gpus), range(nodes), range(nodes)):
        for ends, ways in TRANSFERS.items():
            if ("{h}" in ends and g == h) or ("all" in ends and gpus == 1):
                continue
            for way in ways.split():
                if "{h}" in ends and way.endswith("-duplex") and g > h:
                    continue  # the same as the duplex transfer in the other direction
                names[f"transfer/{ends.format(g=g, h=h, n=n, m=m)}/{way}"] = way
    return names


def transfer_listing(gpus, nodes):
    bytes_axis = axis("bytes", 1 << 28, [4096, 1 << 30], [256, 4096, 1 << 30])
    node_axis = axis("node", -1, all_values=list(range(nodes)))
    return [
        listed_workload(
            name, ["latency"] if way in LATENCIES else ["time", "rate"],
            ([] if way in LATENCIES else [bytes_axis]) + ([node_axis] if "pinned-gpu" in name else []), way == "cpu",
        )
        for name, way in transfers(gpus, nodes).items()
    ]  # fmt: skip


def axis(name, default, default_sweep=(), size_sweep=(), all_values=()):
    return {
        "name": name,
        "default": default,
        "default_sweep": list(default_sweep),
        "size_sweep": list(size_sweep),
        "all_values": list(all_values),
    }


def listed_workload(name, metrics, axes, cpu_only=False):
    """Returns a workload's entry in the output of `list`. Size `tiny` sets the axes `bytes`, `elements` and `at_once`,
    if present, to their defaults."""
    settled = {a["name"]: a["default"] for a in axes if a["name"] in ("bytes", "elements", "at_once")}
    return {
        "name": name, "family": name.partition("/")[0] + "/", "version": 1, "summary": "fake", "source": "fake",
        "tags": [], "placements": [], "stagings": [], "presets": [], "cpu_only": cpu_only, "sizes": {"tiny": settled},
        "metrics": metrics, "observed": [], "axes": axes,
    }  # fmt: skip


HOST_WAYS = ["pageable", "registered", "pinned", "write_combined", "mapped", "managed", "static"]
SHARED = ["managed", "mapped", "registered", "pageable"]
EVENTS = ["major", "minor", "migration", "prefaulted-minor", "prefaulted-migration"]


def memory_listing(gpus, nodes):
    """Returns entries of `list` for the families of the memory system, with a few workloads each."""
    places = axis("bytes", 1 << 26, [1 << 14, 1 << 26, 1 << 30], [1 << 10, 1 << 32])
    arrays = axis("bytes", 1 << 27, [1 << 27], [1 << 12, 1 << 27])
    bins = [axis("type", "u64", ["u64", "f32"]), axis("elements", 1 << 20, [1, 1 << 20])]
    threads = axis("threads", 0, [1, 0])
    blocks = axis("bytes", 1 << 20, [32, 1 << 20, 1 << 26], [2, 1 << 20, 1 << 30])
    pages = [axis("at_once", 1024, [1, 4096]), axis("threads", 1, [1, 2])]
    alloc, touched = ["first", "alloc", "free"], ["first", "alloc", "free", "touch"]
    counters = [f"{c}_touched" for c in ("meminfo_available", "status_rss")]
    shared = ["cpu_rate", "gpu_rate", "cpu_relative"]
    touch = [axis("touch", "gpu", ["gpu", "cpu"])]
    at_once = axis("at_once", 1024, [1, 65536])

    def memory(*ways):
        return axis("memory", ways[0], ways)

    listed = [
        listed_workload(f"latency/{way}-cpu/chase", ["latency"], [places], way == "pageable") for way in HOST_WAYS
    ]
    for n, m in itertools.product(range(nodes), range(nodes)):
        listed.append(listed_workload(f"latency/node{n}-node{m}/chase", ["latency"], [places], True))
    listed += [
        listed_workload("stream/cpu/triad", ["time", "rate"], [arrays, threads], True),
        listed_workload("atomics/cpu/histogram", ["rate"], [*bins, threads], True),
        listed_workload("atomics/cpu/ping-pong", ["latency"], [], True),
        listed_workload("alloc/pageable", alloc, [blocks], True),
        listed_workload("alloc/pageable-touched", touched, [blocks], True),
        *(listed_workload(f"alloc/{way}", alloc, [blocks]) for way in ("device", "pool", "vmm", "managed")),
        listed_workload("alloc/managed-gpu-touched", touched, [blocks]),
        listed_workload("fault/cpu/anonymous", ["time", "faulting_p50"], [*pages, axis("pages", "small")], True),
        listed_workload("accounting/pageable/cpu", counters, [], True),
    ]
    for g in range(gpus):
        gpu = f"gpu{g}"
        chases = [f"{way}-{gpu}" for way in [*HOST_WAYS, "pool"]] + [f"gpu{h}-{gpu}" for h in range(gpus)]
        listed += [listed_workload(f"latency/{ends}/chase", ["latency"], [places]) for ends in [*chases, f"{gpu}-cpu"]]
        listed += [listed_workload(f"fault/{gpu}/{event}", ["time", "faulting_p50"],
                                   [at_once, memory("managed", "pageable")]) for event in EVENTS]  # fmt: skip
        listed += [listed_workload(f"accounting/{way}/{gpu}", [*counters, "device_free_touched"],
                                   touch if way != "device" else []) for way in [*HOST_WAYS, "device"]]  # fmt: skip
        listed += [
            listed_workload(f"stream/{gpu}/triad", ["time", "rate"], [arrays, memory("device", *SHARED)]),
            listed_workload(f"stream/{gpu}/cpu-triad", ["time", "rate"], [arrays, memory("device", *SHARED)]),
            listed_workload(f"atomics/{gpu}/histogram", ["rate"], [*bins, axis("memory", "device")]),
            listed_workload(f"atomics/{gpu}/shared-histogram", shared, [*bins, axis("memory", "managed")]),
            listed_workload(f"atomics/{gpu}/ping-pong", ["latency"], [axis("memory", "mapped")]),
        ]
    return listed


def unit_of(metric):
    return "1" if metric.endswith(("_touched", "_relative")) else "B/s" if metric.endswith("rate") else "s"


def listed_cases(arguments, listed, backend):
    """Returns a case for each chosen workload and each value that the command line requests."""
    chosen = {w["name"]: w for p in arguments.pattern for w in listed if fnmatch.fnmatchcase(w["name"], p)}
    for pattern in arguments.pattern:
        if not fnmatch.filter(chosen, pattern):
            sys.exit(2)

    given = dict(word.split("=") for word in arguments.set)

    def values_of(workload, axis):
        if axis["name"] == "node" and "node=all" in arguments.set:
            return axis["all_values"]
        if axis["name"] in given:
            return [type(axis["default"])(given[axis["name"]])]
        settled = workload["sizes"].get(arguments.size, {})
        if axis["name"] in settled:
            return [settled[axis["name"]]]
        return (arguments.size_sweep and axis["size_sweep"]) or axis["default_sweep"] or [axis["default"]]

    cases = []
    for name, workload in chosen.items():
        ranges = {axis["name"]: values_of(workload, axis) for axis in workload["axes"]}
        for values in itertools.product(*ranges.values()):
            case = record(name, None, arguments.size, "host" if workload["cpu_only"] else backend)
            template = case["metrics"][0]
            case["metrics"] = [{**template, "name": name, "unit": unit_of(name)} for name in workload["metrics"]]
            case["axes"] = dict(zip(ranges, values))
            cases.append(case)
    return cases


def listing(gpus=1, nodes=1):
    workloads = [
        {
            "name": f"microbench/{name}", "version": 1, "summary": summary, "source": "fake", "tags": ["micro"],
            "placements": ["pageable", "pinned", "managed_in"], "stagings": ["direct", "async"],
            "axes": [], "sizes": {size: {"n": 1 << (10 + 2 * i)} for i, size in enumerate(SIZES)},
            "presets": [], "metrics": sorted(UNITS), "observed": [], "cpu_only": False,
        }
        for name, summary in [("saxpy", "y = a x + y"), ("gemm", "C = A B")]
    ]  # fmt: skip
    modes = {mode: {"placement": p, "staging": s} for mode, (p, s) in MODES.items()}
    return {
        "workloads": workloads + transfer_listing(gpus, nodes) + memory_listing(gpus, nodes),
        "modes": modes,
        "sizes": SIZES,
        "placements": ["pageable", "pinned", "managed_in"],
        "stagings": ["none", "direct", "async", "bulk"],
    }


def device(backend):
    return {
        "backend": backend,
        "name": "fake",
        "uuid": None,
        "arch": "fake",
        "driver": os.environ.get("FAKE_DRIVER", "570.86.10"),
        "runtime": None,
    }


def host():
    boot = (
        f"boot of {os.environ.get('SLURMD_NODENAME', 'fake')}"  # each node of a throwaway Slurm is a machine of its own
    )
    return {"cpu": "fake", "kernel": "0", "numa_nodes": 1, "thp": None, "boot_id": boot}


def allocation():
    """Returns the part of Slurm's allocation that checks examine, or None outside a job."""
    if "SLURM_JOB_ID" not in os.environ:
        return None
    gpus, sharing = os.environ.get("SLURM_GPUS_ON_NODE"), os.environ.get("ISTHMUS_JOB_SHARING")
    return {"gpus": int(gpus) if gpus else None, "exclusive": sharing == "NO" if sharing else None}


#: Code of a warning → message, as src/harness/measure/watch/monitor.cpp words it.
WARNINGS = {
    "pcie_downtrained": "the PCIe link runs at generation 3 of 5",
    "xid_errors": "the driver reported Xid 79 on this device during the case; see the kernel's log",
    "power_limited": "the power limit is 500 W; the default is 700 W",
}
CATALOGUE = pathlib.Path(__file__).resolve().parents[2] / "reframe/checks/catalogue.json"
UNVERIFIED = ("context", "device_sync", "event", "graph", "launch", "stream")


def in_catalogue(workload):
    path = pathlib.Path(os.environ.get("FAKE_CATALOGUE") or CATALOGUE)
    [entry] = [w for w in json.loads(path.read_text(encoding="utf-8"))["workloads"] if w["name"] == workload]
    return entry


PAGED_AXES = {"page": 65536, "frames": 50, "eviction": "fifo"}
PAGED_COUNTS = {"fetches": "1", "fetched": "B", "evictions": "1", "written_back": "B", "waits": "1", "table_bytes": "B",
                "paging_setup": "s"}  # fmt: skip


def combinations(axes, given, swept=()):
    """Returns the axes of each case: every combination of values, which are requested, swept or the default."""
    asked = {name: [type(axes[name])(each) for each in text.split(",")] for name, text in given.items()}
    varied = {**{name: [value] for name, value in axes.items()}, **dict(swept), **asked}
    return [dict(zip(varied, values)) for values in itertools.product(*varied.values())]


def cases_of(arguments, backend):
    """Returns the cases of a workload of the committed catalogue, at the requested values or those of its sweep."""
    workload, size = arguments.pattern[0], arguments.size
    entry = in_catalogue(workload)
    given = dict(word.split("=") for word in arguments.set)
    axes = entry["axes"] | entry["sizes"].get(size, {})
    if "varied" not in entry:
        axes |= PAGED_AXES if arguments.placement == "paged" else {}
        return [program(arguments, backend, entry, each) for each in combinations(axes, given)]
    if arguments.oversubscribe:
        axes["bytes"] = 96 << 30
    cases = []
    for each in combinations(axes, given, entry["varied"].get(size, {})):
        case = record(workload, None, size, backend)
        metrics = [{**case["metrics"][0], "name": name, "unit": "s"} for name in entry["metrics"] + entry["observed"]]
        case.update(axes=each, metrics=metrics)
        if workload.startswith("driver/") and workload.endswith(UNVERIFIED):
            case["verify"].update(status="not_applicable", method=None, error=None, tolerance=None)
        cases.append(oversubscribed(watched(case, arguments.observe), arguments))
    return cases


def program(arguments, backend, entry, axes):
    """Returns a case of a workload with placements."""
    case = record(entry["name"], arguments.mode, arguments.size, backend) | {"axes": axes}
    if arguments.placement:
        case.update(mode=None, placement=arguments.placement, staging=arguments.staging)
    if "kernel_flop_rate" in entry["metrics"]:
        rate = next(m for m in case["metrics"] if m["name"] == "kernel_rate")
        case["metrics"].append({**rate, "name": "kernel_flop_rate", "unit": "FLOP/s"})
    if axes.get("driver_prefetch", "default") != "default":
        case["metrics"].append({**case["metrics"][0], "name": "driver_prefetch_setup", "unit": "s"})
    if case["placement"] == "paged":  # pages move while the kernel runs, so there are no metrics of copies
        copied = [m for m in case["metrics"] if m["name"] not in ("in", "in_rate", "out_rate")]
        counts = [{**copied[0], "name": name, "unit": unit} for name, unit in PAGED_COUNTS.items()]
        case["metrics"] = copied + counts
    return watched(case, arguments.observe)


def oversubscribed(case, arguments):
    """Adds what --oversubscribe adds to a case: a note, and the bytes of one evicted page."""
    if not arguments.oversubscribe:
        return case
    assert arguments.allow_oversubscription
    case.update(size=None, notes={"oversubscribe": f"{arguments.oversubscribe} times what was free"})
    evicted = {**next(m for m in case["metrics"] if m["name"] == "uvm_fault_bytes"), "name": "uvm_eviction_bytes"}
    case["metrics"].append(evicted | {"samples": [4096.0], "median": 4096.0})
    return case


def watched(case, observer):
    """Adds the counts of --observe uvm as for a driver without a prefetcher, when each touched page faults once."""
    if not observer:
        return case
    pages = case["axes"].get("bytes", 4096) // 4096
    counts = {"faults": pages, "pages": pages, "batches": 1, "replays": 1, "fault_bytes": 4096 * pages,
              "prefetch_bytes": 0}  # fmt: skip
    for name, count in counts.items():
        case["metrics"].append(
            {**case["metrics"][0], "name": f"uvm_{name}", "unit": "B" if name.endswith("bytes") else "1",
             "better": None, "timer": "none", "samples": [float(count)], "median": float(count)}
        )  # fmt: skip
    case["profiler"] = observer
    return case


def skip(case, kind):
    why = "needs 1 GiB of device memory, 512 MiB of 80 GiB are free" if kind == "memory" else "this device cannot"
    case.update(skipped=why, skip_kind=kind, metrics=[])
    if kind == "memory":
        case["short_of"] = {"memory": "device", "needed": 2**30, "free": 2**29}
    case["verify"].update(status="not_run", method=None, error=None, tolerance=None)


def misbehave_at_a_point(what, argument, cases):
    if what == "missing_point":
        cases.pop()
    elif what == "other_point":
        cases[-1]["axes"] = dict.fromkeys(cases[-1]["axes"], "none")
    elif what == "skip_point":
        skip(cases[-1], argument)


def record(workload, mode, size, backend):
    placement, staging = MODES[mode] if mode else (None, None)
    metrics = [
        {
            "name": name, "unit": unit, "better": "lower" if unit == "s" else "higher", "timer": "clock",
            "samples": [0.25], "median": 0.25, "stop": "samples", "warmups": 1,
        }
        for name, unit in UNITS.items()
    ]  # fmt: skip
    return {
        "schema": "isthmus.record/3",
        "run": {
            "id": "00000000", "time": "2026-11-21T00:00:00Z", "git": None, "dirty": None,
            "system": os.environ.get("ISTHMUS_SYSTEM"), "partition": os.environ.get("ISTHMUS_PARTITION"),
            "node": "fake", "job": os.environ.get("SLURM_JOB_ID"), "process": 1,
            "command": sys.argv, "allocation": allocation(),
        },
        "devices": [device(backend)] if backend != "host" else [], "host": host(),
        "build": {"compiler": "none", "flags": "", "code": None},
        "emulated": backend == "emulator", "profiler": os.environ.get("ISTHMUS_PROFILER"),
        "workload": workload, "version": 1, "placement": placement, "staging": staging, "mode": mode, "fallback": None,
        "size": size, "preset": None, "axes": {"n": 1024}, "seed": 42, "metrics": metrics, "kernels": [],
        "submission": None, "host_turns": None, "tables": [],
        "memory": {"peak_host_bytes": None, "peak_device_bytes": None},
        "verify": {"status": "pass", "method": "fake", "error": 0.0, "tolerance": 0.0},
        "warnings": [], "skipped": None, "error": None,
    }  # fmt: skip


def write_table(fate, case):
    """Writes a table of the record. If `fate` is "altered", writes only a part of it; if "gone", nothing."""
    data = gzip.compress(b"time,bytes\n0.5,4096\n", mtime=0)
    file = pathlib.Path("record.tables/batches.csv.gz")
    file.parent.mkdir(exist_ok=True)
    if fate != "gone":
        file.write_bytes(data[:-1] if fate == "altered" else data)
    entry = {"name": "batches", "columns": ["time", "bytes"], "file": str(file), "rows": 1}
    case["tables"].append({**entry, "sha256": hashlib.sha256(data).hexdigest()})


# Changes that misbehaviours make to the verification, to the metric NAME, and to the case.
VERIFICATIONS = {
    "wrong_result": {"status": "fail", "error": 1.0, "detail": "element 3 is 7, expected 8"},
    "wrong_result_exit_0": {"status": "fail", "error": 1.0, "detail": "element 3 is 7, expected 8"},
    "not_verified": {"status": "not_run"},
    "beyond_tolerance": {"error": 1e9, "tolerance": 1.0},
    "not_applicable": {"status": "not_applicable", "method": None, "error": None, "tolerance": None},
    "error": {"status": "not_run"},
}
METRICS = {
    "counts": {"samples": [12288.0], "median": 12288.0},
    "null_metric": {"median": None, "invalid": [0]},
    "zero_metric": {"samples": [0.0], "median": 0.0},
    "beyond_limit": {"limit": {"value": 0.5, "unit": "s", "source": "PCIe 5 x16"}, "share": 2.0},
}
CASES = {
    "error": {"error": "cudaMalloc: out of memory", "metrics": []},
    "other_case": {"size": "small"},
    "profiled": {"profiler": "nsys"},
}


def misbehave(what, argument, case):
    """Changes `case` as the misbehaviour `what` requires. Returns the program's exit code."""
    case["verify"].update(VERIFICATIONS.get(what, {}))
    for invalidate in (invalidate_metrics, invalidate_case, invalidate_machine, invalidate_ranks):
        invalidate(what, argument, case)
    return int(argument) if what == "exit" else {"wrong_result": 1, "interrupted": 3}.get(what, 0)


def invalidate_metrics(what, argument, case):
    metric = next((m for m in case["metrics"] if m["name"] == argument), None)
    if what in METRICS:
        metric.update(METRICS[what])
    elif what == "missing_metric":
        case["metrics"].remove(metric)
    elif what == "one_sample":
        next(m for m in case["metrics"] if m["name"] == "kernel").update(samples=[0.25])
    elif what == "interrupted":
        for m in case["metrics"]:
            m["stop"] = "interrupted"
    elif what == "slow":
        for m in case["metrics"]:
            m.update(samples=[0.5], median=0.5)
    elif what == "varies":
        chance = random.Random(" ".join(os.environ[name] for name in VARYING))  # the same numbers in every session
        for m in case["metrics"]:
            value = m["median"] * math.exp(chance.gauss(0, 0.01)) * (1 + int(argument) / 100) ** WORSE[m["unit"]]
            m.update(samples=[value], median=value)


def invalidate_case(what, argument, case):
    case.update(CASES.get(what, {}))
    if what == "other_way":
        case[argument] = {"placement": "pageable", "staging": "async"}[argument]
    elif what == "other_axis":
        case["axes"][argument] = 1
    elif what == "skip":
        skip(case, argument)
    elif what == "lacks" and argument in map(str, case["axes"].values()):
        skip(case, "unsupported")
    elif what == "table":
        write_table(argument, case)
    elif what == "another":
        case["run"][argument] = "2020-01-01T00:00:00Z" if argument == "time" else "another"
    elif what == "sets":
        path, _, value = argument.partition("=")
        *parents, last = path.split(".")
        for name in parents:
            case = case[name]
        case[last] = json.loads(value)
    elif what == "warns":
        case["warnings"].append({"code": argument, "message": WARNINGS[argument], "samples": None})


def invalidate_machine(what, argument, case):
    """Changes what the record states about the machine's devices and the job's allocation."""
    if what == "emulated":
        case.update(emulated=True, devices=[device("emulator")])
    elif what == "lanes":
        case["devices"][0]["pcie"] = {"gen": 5, "width": int(argument), "gen_max": 5, "width_max": 16}
        rate = next(m for m in case["metrics"] if m["name"] == "in_rate")
        limit = {"value": 3.94e9 * int(argument), "unit": "B/s", "source": f"PCIe 5 x{argument}"}
        rate.update(bytes_moved=1 << 30, limit=limit, share=0.88, samples=[0.88 * limit["value"]])
        rate["median"] = rate["samples"][0]
    elif what == "granted":
        case["run"]["allocation"] = {"gpus": int(argument)}
    elif what == "company":
        warning = {"code": "foreign_processes", "message": "other processes use memory on the device (pid 7)"}
        case["warnings"].append(warning | {"samples": None})
        case["devices"][0].update(state={"foreign_processes": [7]},
                                  state_after={"foreign_processes": [7] if argument == "stays" else []})  # fmt: skip


def invalidate_ranks(what, argument, case):
    if what == "ranks":
        each = [
            {"node": case["run"]["node"], "local_rank": rank, "device": f"GPU-{rank}", "cpus": str(rank)}
            for rank in range(int(argument))
        ]
        case["ranks"] = {"count": len(each), "library": "fake", "each": each}
    elif what == "rank_lost":
        case["ranks"]["each"].pop()
    elif what == "rank_twice":
        case["ranks"]["each"][-1] = case["ranks"]["each"][0]
    elif what == "one_gpu":
        for rank in case["ranks"]["each"]:
            rank["device"] = "GPU-0"
    elif what == "unbound":
        for rank in case["ranks"]["each"]:
            rank["cpus"] = "0-7"


def command_line():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    list_ = commands.add_parser("list")
    list_.add_argument("pattern", nargs="?", default="*")
    list_.add_argument("--json", action="store_true")
    commands.add_parser("info").add_argument("--json", action="store_true")
    run = commands.add_parser("run")
    run.add_argument("pattern", nargs="+")
    run.add_argument("--mode", default="baseline")
    run.add_argument("--placement")
    run.add_argument("--staging")
    run.add_argument("--observe")
    run.add_argument("--size")
    run.add_argument("--oversubscribe")
    run.add_argument("--allow-oversubscription", action="store_true")
    run.add_argument("--size-sweep", action="store_true")
    run.add_argument("--set", action="append", default=[])
    run.add_argument("--record")
    run.add_argument("--dry-run", action="store_true")
    run.add_argument("--processes", type=int, default=1)
    run.add_argument("--samples")
    run.add_argument("--budget")
    run.add_argument("--warmups")
    run.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def measure(arguments, wanted, workloads, backend):
    """Returns the lines of the record, with all misbehaviours applied, and the program's exit code."""
    code, lines = 0, []
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    invocation = {"id": os.urandom(4).hex(), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "node": node}
    for process in range(1, arguments.processes + 1):
        if any(w.get("family") and fnmatch.fnmatchcase(w["name"], arguments.pattern[0]) for w in workloads):
            cases = listed_cases(arguments, workloads, backend)
        else:
            cases = cases_of(arguments, backend)
        for what, (argument, workload) in wanted.items():
            misbehave_at_a_point(what, argument, cases)
            if what == "missing_case":
                cases = [case for case in cases if case["workload"] != workload]
        for case in cases:
            case["run"].update(process=process, **invocation)
            for metric in case["metrics"] if arguments.samples else ():
                metric["samples"] = metric["samples"] * int(arguments.samples)
            invalid = {w: argument for w, (argument, workload) in wanted.items() if workload in ("", case["workload"])}
            code = max([code] + [misbehave(what, argument, case) for what, argument in invalid.items()])
            lines.append(json.dumps(case) + "\n")
    return lines, code


def write(arguments, wanted, lines):
    """Writes the record, or what a misbehaviour leaves of it."""
    text = "".join(lines)
    if "empty_record" in wanted or "full_disk" in wanted:
        text = ""
    elif "cut_record" in wanted:
        text = text[: len(text) // 2]
    elif "foreign_record" in wanted:
        text = '{"benchmark": "another", "value": 1}\n'
    elif "extra_record" in wanted:
        text *= 2
    whole, workload = wanted.get("hangs", ("", None))
    hangs = workload in ("", arguments.pattern[0])
    if hangs:
        text = "".join(lines[: int(whole)]) + lines[int(whole)][: len(lines[int(whole)]) // 2]
    with open(arguments.record, "a", encoding="utf-8") as file:
        file.write(text)
    if "padded" in wanted:
        os.truncate(arguments.record, int(wanted["padded"][0]) << 20)
    if hangs:
        signal.pause()


def speak(wanted, argument_of):
    if "mutters" in wanted:
        print(f"isthmus-bench: {argument_of['mutters'].replace('-', ' ')}", file=sys.stderr)
    if "shouts" in wanted:
        half = ("x" * 127 + "\n") * (int(argument_of["shouts"]) << 12)
        for number, noise in (("first", half), ("second", half), ("third", "")):
            print(f"isthmus-bench: the {number}\n{noise}", file=sys.stderr)


def main():
    arguments = command_line()
    asked = [item.partition("@") for item in os.environ.get("FAKE_BENCH", "").split(",") if item]
    wanted = {what.partition(":")[0]: (what.partition(":")[2], workload) for what, _, workload in asked}
    for what in wanted:
        if what not in MISBEHAVIOURS:
            sys.exit(f"FAKE_BENCH={what}: choose from {', '.join(MISBEHAVIOURS)}")
    once, of = wanted.pop("first_try", ("", ""))
    if once and of in ("", *getattr(arguments, "pattern", ())):
        wanted = {} if os.path.exists(once) else wanted
        pathlib.Path(once).touch()
    argument_of = {what: argument for what, (argument, _) in wanted.items()}
    speak(wanted, argument_of)
    backend = argument_of.get("gpu", "emulator")
    listed = listing(int(argument_of.get("sees", 1)), int(argument_of.get("nodes", 1)))
    if arguments.command == "list":
        listed["workloads"] = [w for w in listed["workloads"] if fnmatch.fnmatchcase(w["name"], arguments.pattern)]
        text = json.dumps(listed)
        print(text[: len(text) // 2] if "cut_list" in wanted else text)
        return 2 if "no_list" in wanted else 0
    if arguments.command == "info":
        print(json.dumps({"backend": backend, "emulated": backend == "emulator", "devices": [device(backend)],
                          "host": host(), "build": {}, "problem": None}))  # fmt: skip
        return 0
    if arguments.dry_run:
        print(f"{arguments.pattern[0]}: about 3 min\n1 case, about 3 min in all")
        return 0
    if "no_record" in wanted:
        return 0
    lines, code = measure(arguments, wanted, listed["workloads"], backend)
    write(arguments, wanted, lines)
    time.sleep(float(argument_of.get("stays", 0)))
    if "killed" in wanted:
        os.kill(os.getpid(), 9)
    if "full_disk" in wanted:
        print("isthmus-bench: the record record.jsonl could not be written (No space left on device)", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
