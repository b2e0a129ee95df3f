"""Figures of the memory families, compared with the MI300A paper's Figures 2 to 8 and 10."""

from __future__ import annotations

import re

from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.registry import figure, in_geometry, present

GiB = 2**30
CHASED = {
    "GPU": {"device": "gpu0-gpu0", "managed": "managed-gpu0", "static": "static-gpu0", "pinned": "pinned-gpu0"},
    "CPU": {name: f"{name}-cpu" for name in ("pageable", "managed", "static", "pinned")},
}
BINS = {1: "2⁰", 2**10: "2¹⁰", 2**20: "2²⁰", 2**30: "2³⁰"}
ALLOCATORS = ("pageable", "mmap", "device", "pool", "managed", "pinned", "registered", "vmm")


def latencies(found: Readings) -> dict[tuple[str, str], dict[float, float]]:
    """Returns the seconds of one access, keyed by (side, memory) and size. If the paper's geometry was measured, uses
    only that."""
    chases = found.where(metric="latency")
    return {
        (side, name): in_geometry(chases.where(workload=f"latency/{path}/chase"), "paper-fig2").by("bytes")
        for side, paths in CHASED.items() for name, path in paths.items()
    }  # fmt: skip


def of_nodes(found: Readings) -> dict[str, dict[float, float]]:
    """Returns the seconds of one access, keyed by the NUMA nodes of memory and reader, and by size."""
    chases = found.where(metric="latency", preset=None)
    routes = filter(None, (re.fullmatch(r"latency/(node\d+)-(node\d+)/chase", w) for w in chases.values("workload")))
    return {f"{route[1]} from {route[2]}": chases.by("bytes", workload=route[0]) for route in routes}


@figure("memory-latency", "one access by size and memory, and at 1 GiB in every memory", "latency/*/chase")
def latency(found: Readings, stated: dict[float, tuple[float, float]] | None = None):
    """Draws latencies; `stated` has the paper's latencies of the GPU, keyed by size."""
    made, panels = plots.panels(3, width=15)
    of = latencies(found)
    for axes, side in zip(panels, CHASED):
        lines = present({name: of[side, name] for name in CHASED[side]})
        if side == "CPU":
            lines |= of_nodes(found)
        plots.curves(axes, lines, "s", title=f"one access of the {side}", log=True)
    if stated:
        plots.stated(panels[0], stated, label="MI300A, stated")
    usual = found.where(metric="latency", preset=None)
    both = {
        name: present({
            reader: usual.value(workload=f"latency/{'gpu0' if name == 'device' else name}-{place}/chase", bytes=GiB)
            for reader, place in {"GPU": "gpu0", "CPU": "cpu"}.items()
        })
        for name in ("device", "pool", "managed", "static", "mapped", "pinned", "pageable")
    }  # fmt: skip
    plots.bars(panels[2], present(both), "s", title="1 GiB", log=True)
    return made


def triads(found: Readings, side: str) -> dict[str, float]:
    """Returns the rates of the "gpu" or the "cpu" in B/s, keyed by memory. If the paper's geometry was measured, uses
    only that."""
    workload = {"gpu": "stream/gpu0/triad", "cpu": "stream/gpu0/cpu-triad"}[side]
    return in_geometry(found.where(metric="rate", workload=workload), "paper-fig3").by("memory")


def triads_by_threads(found: Readings) -> dict[str, dict[float, float]]:
    """Returns the CPU's rates in plain memory in B/s, keyed by kind of store and number of threads (0 is all)."""
    plain = found.where(metric="rate", workload="stream/cpu/triad", preset=None)
    stores = {"through the caches": "standard", "past the caches": "streaming"}
    return {words: plain.by("threads", stores=kind) for words, kind in stores.items()}


@figure("memory-triad", "triad by allocator and by threads", "stream/gpu0/triad", "stream/gpu0/cpu-triad",
        "stream/cpu/triad")  # fmt: skip
def triad(found: Readings):
    made, panels = plots.panels(3, width=16)
    plots.bars(panels[0], {name: {"GPU": rate} for name, rate in triads(found, "gpu").items()}, "B/s", title="GPU",
               log=True)  # fmt: skip
    plots.bars(panels[1], {name: {"CPU": rate} for name, rate in triads(found, "cpu").items()}, "B/s",
               title="CPU, all cores")  # fmt: skip
    by_threads = triads_by_threads(found)
    plots.bars(panels[2], present({
        "all" if not threads else f"{threads} thread{'s' if threads > 1 else ''}":
            present({words: of.get(threads) for words, of in by_threads.items()}) for threads in (1, 8, 0)
    }), "B/s", title="CPU, plain memory, stores")  # fmt: skip
    return made


def updates(found: Readings, side: str, bins: int, kind: str):
    """Returns the updates per second of one side alone ("cpu" or "gpu0"), or None if they were not measured."""
    more = {"scope": "system", "gpu_threads": [None, 0]} if side == "gpu0" else {"threads": 0}
    return found.value(workload=f"atomics/{side}/histogram", metric="rate", elements=bins, type=kind, **more)


def at_once(found: Readings, metric: str, bins: int, kind: str = "u64"):
    """Returns the share of a side's update rate that remains while the other side updates as well."""
    every = {"threads": [None, 0], "gpu_threads": [None, 0]}
    return found.value(workload="atomics/gpu0/shared-histogram", metric=metric, elements=bins, type=kind, **every)


def at_once_by_threads(found: Readings, kind: str) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the shares of at_once(), keyed by side ("CPU", "GPU"), by bins and threads of the CPU, and by threads of
    the GPU."""
    of = found.where(workload="atomics/gpu0/shared-histogram", type=kind)
    cases = [(bins, threads) for bins in BINS for threads in of.values("threads") if threads]

    def shares(side: str, bins: int, threads: int) -> dict[str, float]:
        by = of.by("gpu_threads", metric=f"{side.lower()}_relative", elements=bins, threads=threads)
        return {f"{count} of the GPU": share for count, share in by.items() if count}

    return {
        side: present({f"{BINS[bins]} bins,\n{threads} CPU": shares(side, bins, threads) for bins, threads in cases})
        for side in ("CPU", "GPU")
    }


@figure("memory-atomics-threads", "f64 updates of CPU and GPU at once over alone, by threads",
        "atomics/gpu0/shared-histogram")  # fmt: skip
def atomics_by_threads(found: Readings):
    made, panels = plots.panels(2, width=12)
    for axes, (side, groups) in zip(panels, at_once_by_threads(found, "f64").items()):
        plots.bars(axes, groups, "1", title=f"{side}, at once over alone, f64", log=True)
    return made


@figure("memory-atomics", "atomic updates of CPU and GPU, alone and at once", "atomics/*histogram")
def atomics(found: Readings):
    made, panels = plots.panels(3, width=12)
    for axes, (side, title) in zip(panels, {"cpu": "CPU, all cores", "gpu0": "GPU"}.items()):
        rates = {
            word: present({kind: updates(found, side, bins, kind) for kind in ("u64", "f64")})
            for bins, word in BINS.items()
        }
        plots.bars(axes, present(rates), "1/s", title=title, log=True)
    shares = {
        word: present({side: at_once(found, f"{side.lower()}_relative", bins) for side in ("CPU", "GPU")})
        for bins, word in BINS.items() if bins < GiB
    }  # fmt: skip
    plots.bars(panels[2], present(shares), "1", title="at once over alone, u64", line=1)
    for axes in panels:
        axes.set_xlabel("bins")
    return made


def allocations(found: Readings) -> dict[str, dict[float, float]]:
    """Returns the seconds of the allocating call, keyed by allocator and size."""
    calls = found.where(metric="alloc", preset=None)
    return present({kind: calls.by("bytes", workload=f"alloc/{kind}") for kind in ALLOCATORS})


def large_blocks(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the seconds of a call while 24 blocks of 1 GiB are allocated, keyed by allocator, in the paper's
    geometry."""
    blocks = found.where(preset="paper-fig6", bytes=GiB, at_once=24)
    calls = {"allocate": "alloc", "free": "free"}
    return present({
        kind: present({
            words: blocks.value(workload=f"alloc/{kind}", metric=metric) for words, metric in calls.items()
        })
        for kind in ALLOCATORS
    })  # fmt: skip


@figure("memory-allocation", "the call that allocates, by allocator and size",
        *(f"alloc/{kind}" for kind in ALLOCATORS))  # fmt: skip
def allocation(found: Readings):
    made, panels = plots.panels(2, width=12, height=4)
    plots.curves(panels[0], allocations(found), "s", log=True)
    title = "1 GiB, 24 blocks at once"
    plots.bars(panels[1], large_blocks(found), "s", title=title, log=True)
    return made


def single_faults(found: Readings) -> dict[str, Readings]:
    """Returns the readings of page faults on one page at a time, keyed by kind."""
    return {
        "GPU, untouched": in_geometry(found.where(workload="fault/gpu0/major"), "paper-fig8"),
        "GPU, migrating": in_geometry(found.where(workload="fault/gpu0/migration"), "paper-fig8"),
        "one core": found.where(workload="fault/cpu/zero-page", threads=1, at_once=1, preset=None),
    }


#: Largest points of Figure 7: (workload, preset, pages touched at once).
MANY = {
    "GPU, untouched": ("fault/gpu0/major", "paper-fig7", 2**23),
    "one core": ("fault/cpu/zero-page", "paper-fig7-1cpu", 2**22),
    "all cores": ("fault/cpu/zero-page", "paper-fig7-cpus", 2**22),
}


def many_faults(found: Readings) -> dict[str, float]:
    """Returns the pages per second at the paper's largest number of pages touched at once, in Figure 7."""
    return present({
        name: found.value(workload=workload, preset=preset, at_once=pages, metric="rate")
        for name, (workload, preset, pages) in MANY.items()
    })  # fmt: skip


@figure("memory-faults", "page faults per second, and the time of one", "fault/gpu0/major", "fault/gpu0/migration",
        "fault/cpu/zero-page")  # fmt: skip
def faults(found: Readings):
    made, panels = plots.panels(3, width=15)
    rates = found.where(metric="rate", preset=None)
    managed = rates.where(memory="managed", pages="small")
    cores = max(rates.where(workload="fault/cpu/zero-page").values("threads"), default=0)
    plots.curves(panels[0], present({
        "GPU, untouched": managed.by("at_once", workload="fault/gpu0/major"),
        "GPU, migrating": managed.by("at_once", workload="fault/gpu0/migration"),
        "one core": rates.by("at_once", workload="fault/cpu/zero-page", threads=1),
        f"{cores} cores": rates.by("at_once", workload="fault/cpu/zero-page", threads=cores) if cores > 1 else None,
    }), "1/s", title="pages a second", log=True, x="pages touched at once")  # fmt: skip
    plots.bars(panels[1], present({
        name: present({percentile: of.value(metric=percentile) for percentile in ("p50", "p95", "p99")})
        for name, of in single_faults(found).items()
    }), "s", title="one page at a time", log=True)  # fmt: skip
    many = {f"{name},\n{MANY[name][2] >> 20} Mi": {"rate": rate} for name, rate in many_faults(found).items()}
    plots.bars(panels[2], many, "1/s", title="pages a second, millions at once")
    return made


RUN = {"until written": ("init_page_faults", 1), "first pass": ("first_pass_page_faults", 1),
       "nine more passes": ("page_faults_per_pass", 9)}  # fmt: skip


def stream_faults(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the CPU's page faults in ten passes of triad, keyed by memory and first touch, and by part of the run."""
    of = found.where(preset="paper-fig3")
    cases = {"malloc": of.where(workload="stream/cpu/triad", threads=max(of.values("threads"), default=0))}
    cases |= {
        f"{memory}, {first} first": of.where(workload="stream/gpu0/cpu-triad", memory=memory, first_touch=first)
        for memory in ("managed", "mapped", "registered") for first in ("cpu", "gpu")
    }  # fmt: skip
    return present({
        name: present({
            part: value * times
            for part, (metric, times) in RUN.items()
            if (value := case.value(metric=metric)) is not None
        })
        for name, case in cases.items()
    })  # fmt: skip
