"""Figures of kernels' events that a profiler counts, compared with the pipelining paper's Figures 7 to 9 and 12."""

from __future__ import annotations

from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.modes import MODES, WORKLOADS
from isthmus_papers.figures.programs import TEN, case
from isthmus_papers.figures.registry import figure, over, present

COUNTED = (*(f"microbench/{workload}" for workload in WORKLOADS), *(f"apps/{program}" for program in TEN))
MIXED = {"microbench/vector_seq": "large", "microbench/conv3d": "large", "apps/lud": "large", "apps/knn": "large",
         "apps/network": "super"}  # fmt: skip
FAULTING = ("microbench/vector_seq", "microbench/saxpy", "microbench/conv2d", "apps/srad")
INSTRUCTIONS = ("fp32", "integer", "memory", "control")
STALLS = {"memory_dependency": "memory", "pipe_busy": "pipe", "barrier": "barrier", "shared_memory": "shared"}
_SECTOR = 32  # bytes


def counter(found: Readings, workload: str, size: str, mode: str, name: str):
    """Returns the value of a counter in a mode, with the workload's default geometry, or None if it was not counted."""
    return case(found, workload, mode, size).value(metric=f"profiled_{name}")


def mix(found: Readings, workload: str, mode: str) -> dict[str, float]:
    """Returns the shares of the kinds of instructions, at the workload's size in MIXED."""
    of = {name: counter(found, workload, MIXED[workload], mode, f"{name}_instructions") for name in INSTRUCTIONS}
    whole = sum(value for value in of.values() if value is not None)
    return present({name: over(value, whole) for name, value in of.items()})


def traffic(found: Readings, workload: str, mode: str) -> dict[str, float]:
    """Returns the bytes that kernels request, the bytes that pass the L2 cache, and the bytes that the device's memory
    reads and writes."""

    def of(*names: str):
        values = [counter(found, workload, MIXED[workload], mode, name) for name in names]
        return None if None in values else sum(values)

    sectors = of("l2_sectors")
    return present({
        "L1": of("global_load_bytes", "global_store_bytes"), "L2": None if sectors is None else _SECTOR * sectors,
        "DRAM": of("dram_read_bytes", "dram_write_bytes"),
    })  # fmt: skip


def stalls(found: Readings, workload: str, mode: str) -> dict[str, float]:
    """Returns the number of warps that wait at each issue, keyed by reason."""
    return present({
        words: counter(found, workload, MIXED[workload], mode, f"stall_{name}") for name, words in STALLS.items()
    })  # fmt: skip


def _by_mode(found: Readings, size: str, workloads, modes, name: str) -> dict[str, dict[str, float]]:
    """Returns the values of a counter, keyed by workload and mode."""
    of = {workload: {mode: counter(found, workload, size, mode, name) for mode in modes} for workload in workloads}
    return present({workload.split("/")[1]: present(by) for workload, by in of.items()})


def by_threads(found: Readings) -> dict[float, float]:
    """Returns the operations per access to shared memory of vector_seq, keyed by threads per block."""
    of = found.where(workload="microbench/vector_seq", preset="paper-fig11", metric="profiled_flops_per_shared_access")
    return of.where(mode="pm").by("threads")


@figure("counters-shared", "operations and cycles per access to shared memory, at medium", *COUNTED, profiled=True)
def shared(found: Readings):
    made, panels = plots.panels(1, rows=2, width=12, height=3.2)
    shown = {"flops_per_shared_access": "operations a shared access, medium",
             "shared_accesses_per_cycle": "shared accesses a cycle, medium"}  # fmt: skip
    for axes, (name, title) in zip(panels, shown.items(), strict=True):
        of = _by_mode(found, "medium", COUNTED, ("pm", "pm_async"), name)
        of = {workload: present({mode: value or None for mode, value in by.items()}) for workload, by in of.items()}
        plots.bars(axes, present(of), "1", title=title, log=True)
    return made


@figure("counters-modes", "instructions, bytes and stalls of kernels in six modes", *MIXED, profiled=True)
def by_modes(found: Readings):
    made, panels = plots.panels(len(MIXED), rows=3, width=16, height=3)
    for column, workload in enumerate(MIXED):
        name, last = workload.split("/")[1], column == len(MIXED) - 1
        rows = ((mix, "1", "instructions"), (stalls, "1", "stalls"))
        for row, (of, unit, what) in zip((0, 2), rows):
            bars = present({mode: of(found, workload, mode) for mode in MODES})
            plots.stacked(panels[len(MIXED) * row + column], bars, unit, title=f"{name}, {what}", legend=last)
        moved = present({mode: traffic(found, workload, mode) for mode in MODES})
        plots.bars(panels[len(MIXED) + column], moved, "B", title=f"{name}, bytes")
        if legend := panels[len(MIXED) + column].get_legend():
            legend.remove()
        if last and moved:
            panels[len(MIXED) + column].legend(loc="upper left", bbox_to_anchor=(1, 1))
    panels[0].set_ylabel("share")
    panels[2 * len(MIXED)].set_ylabel("warps that wait, an issue")
    return made


@figure("counters-uvm", "throughput, stalls and page faults, baseline and uvm, at large", *FAULTING, profiled=True)
def managed(found: Readings):
    shown = {"global_rate": ("B/s", "throughput of global memory"),
             "stall_memory_dependency": ("1", "warps that wait for memory"),
             "gpu_page_faults": ("1", "page faults")}  # fmt: skip
    made, panels = plots.panels(len(shown), width=13)
    for axes, (name, (unit, title)) in zip(panels, shown.items(), strict=True):
        plots.bars(axes, _by_mode(found, "large", FAULTING, ("baseline", "uvm"), name), unit, title=title)
        axes.set_ylim(bottom=0)
    return made


@figure("counters-threads", "operations per shared access of vector_seq, by threads per block", "microbench/vector_seq",
        profiled=True)  # fmt: skip
def threads(found: Readings):
    made, [axes] = plots.panels(1, width=7)
    lines = present({"pm": by_threads(found)})
    plots.curves(axes, lines, "1", title="operations a shared access, vector_seq", x="threads of a block")
    axes.set_ylim(0, 1.2 * max(by_threads(found).values(), default=1))
    return made
