"""Figures of batches of jobs, compared with the pipelining paper's Figure 16 and beyond it."""

from __future__ import annotations

from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.registry import figure, present

KERNELS = {"gemv": "interjob/gemv", "gemm": "interjob/gemm"}
MODES = ("overlap_alloc", "overlap_all", "recycled")
MEMORIES = ("device", "pool", "vmm", "chunked", "managed")
USUAL = {"force": 1, "host": "pinned", "threads": 1, "jobs": 16, "depth": 3, "cap": 0, "chunk": 0, "room": "wait"}
CAPS = (("gemm", 8192, 175), ("gemv", 16384, 130), ("gemv", 32768, 130))  # kernel, n, percent of one job's memory
CHUNKED = (("gemv", 2048), ("gemv", 4096), ("gemv", 8192), ("gemm", 4096))
_SIDE = "n of n × n matrices"
_BATCHES = tuple(KERNELS.values())


def cases_of(found: Readings, kernel: str, **other) -> Readings:
    """Returns the usual cases of a kernel, changed by `other`; None means any value."""
    wanted = {name: value for name, value in (USUAL | other).items() if value is not None}
    return found.where(workload=KERNELS[kernel], **wanted)


def by_size(found: Readings, kernel: str, metric: str, allocation: str = "pool", **other) -> dict[float, float]:
    return cases_of(found, kernel, allocation=allocation, **other).by("n", metric=metric)


def _one_line(axes) -> None:
    axes.axhline(1, color="black", linewidth=0.8, linestyle="--")


@figure("interjob-allocation", "allocation during the kernels of other jobs", *_BATCHES)
def allocation(found: Readings, stated: dict[float, tuple[float, float]] | None = None):
    """Draws the gains from the memory pool and from overlap; `stated` is the paper's gain, keyed by n."""
    made, panels = plots.panels(2)
    gains = {kernel: by_size(found, kernel, "overlap_alloc_over_device") for kernel in KERNELS}
    plots.curves(panels[0], present(gains), "1", title="over serial with cudaMalloc", x=_SIDE)
    apart = {"the pool alone": "serial_over_device", "overlap alone": "overlap_alloc_speedup"}
    plots.curves(
        panels[1],
        present({f"{kernel}: {words}": by_size(found, kernel, metric, mode="all")
                 for kernel in KERNELS for words, metric in apart.items()}),
        "1", title="what of it is the pool, what the overlap", x=_SIDE,
    )  # fmt: skip
    if stated:
        plots.stated(panels[0], stated, label="H100, stated")
    for axes in panels:
        _one_line(axes)
    return made


@figure("interjob-copies", "copies and allocation during the kernels of other jobs", *_BATCHES)
def copies(found: Readings):
    made, panels = plots.panels(2)
    for axes, kernel in zip(panels, KERNELS):
        lines = {mode: by_size(found, kernel, f"{mode}_speedup") for mode in MODES}
        plots.curves(axes, present(lines), "1", title=f"{kernel}, pool: over serial with the pool", x=_SIDE)
        _one_line(axes)
    return made


def by_memory(found: Readings) -> dict[tuple[str, str], dict[str, float]]:
    """Returns the gain of each mode over serial with cudaMalloc, at 4096², keyed by (kernel, memory)."""
    gains = {}
    for kernel in KERNELS:
        for name in MEMORIES:
            # For plain device memory, which is the base of the gains, the metric has a different name.
            end = "speedup" if name == "device" else "over_device"
            of = cases_of(found, kernel, allocation=name, n=4096)
            gains[kernel, name] = present({mode: of.value(metric=f"{mode}_{end}") for mode in MODES})
    return gains


@figure("interjob-memory", "kinds of memory of the jobs, 4096²", *_BATCHES)
def memory(found: Readings):
    made, panels = plots.panels(2, width=11)
    gains = by_memory(found)
    for axes, kernel in zip(panels, KERNELS):
        plots.bars(axes, present({name: gains[kernel, name] for name in MEMORIES}), "1", title=kernel, line=1)
    return made


@figure("interjob-ideal", "how much of the ideal overlap is reached", *_BATCHES)
def ideal(found: Readings):
    made, panels = plots.panels(2, width=11, height=2.8)
    for axes, kernel in zip(panels, KERNELS):
        cells = {
            (name, str(n)): share
            for name in MEMORIES for n, share in by_size(found, kernel, "overlap_all_of_ideal", name).items()
        }  # fmt: skip
        plots.heat(axes, cells, "1", title=f"overlap_all, {kernel}", corner="memory \\ n")
    return made


def by_depth(found: Readings) -> dict[str, dict[str, dict[float, float]]]:
    """Returns the time of a batch relative to its time at depth 3, keyed by memory, n and depth."""
    of = {}
    for name, mode in {"pool": "overlap_all", "device": "recycled"}.items():
        lines = {}
        for n in (512, 1024, 2048, 4096):
            cases = cases_of(found, "gemv", allocation=name, n=n, depth=None)
            times = cases.by("depth", metric=f"{mode}_time")
            if len(times) > 1 and 3 in times:
                lines[f"{n}²"] = {depth: time / times[3] for depth, time in times.items()}
        of[name] = lines
    return of


@figure("interjob-depth", "number of jobs that have memory at once", "interjob/gemv")
def depth(found: Readings):
    made, panels = plots.panels(2)
    for axes, (name, lines) in zip(panels, by_depth(found).items()):
        mode = {"pool": "overlap_all", "device": "recycled"}[name]
        plots.curves(axes, lines, "1", title=f"gemv, {name}, {mode}: time over depth 3's", x="depth")
        _one_line(axes)
    return made


def capped(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the gain of each batch over serial with cudaMalloc if memory suffices for little more than one job."""
    gains = {}
    for kernel, n, cap in CAPS:
        of = cases_of(found, kernel, n=n, jobs=8, cap=None)
        gains[f"{kernel} {n}²"] = present({
            "capped, whole blocks, jobs wait": of.value(allocation="device", cap=cap, metric="overlap_all_speedup"),
            "capped, chunks": of.value(allocation="chunked", cap=cap, metric="overlap_all_over_device"),
            "no cap, chunks": of.value(allocation="chunked", cap=0, metric="overlap_all_over_device"),
        })  # fmt: skip
    return present(gains)


@figure("interjob-cap", "memory for little more than one job", *_BATCHES)
def cap(found: Readings):
    made, [axes] = plots.panels(1, width=10)
    plots.bars(axes, capped(found), "1", line=1)
    axes.set_ylim(0, 1.6)
    axes.set_ylabel("over serial with cudaMalloc")
    return made


def by_chunk(found: Readings) -> dict[str, dict[str, dict[float, float]]]:
    """Returns the gain over serial with cudaMalloc, keyed by mode, batch and bytes per chunk."""
    lines: dict[str, dict] = {"serial": {}, "overlap_all": {}}
    for kernel, n in CHUNKED:
        of = cases_of(found, kernel, allocation="chunked", n=n, chunk=[2**21, 2**23, 2**24, 2**25, 2**26])
        for mode in lines:
            lines[mode][f"{kernel} {n}²"] = of.by("chunk", metric=f"{mode}_over_device")
    return {mode: present(of) for mode, of in lines.items()}


@figure("interjob-chunk", "size of a chunk of mapped memory", *_BATCHES)
def chunk(found: Readings):
    made, panels = plots.panels(2)
    for axes, (mode, lines) in zip(panels, by_chunk(found).items()):
        plots.curves(axes, lines, "1", title=f"{mode}, over serial with cudaMalloc", x="bytes of a chunk")
        _one_line(axes)
    return made


def locked(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the gains of each mode for gemv 4096² with host buffers that each job page-locks."""
    gains = {}
    for threads in (2, 4):
        of = cases_of(found, "gemv", allocation="pool", host="per-job", depth=6, threads=threads, n=4096)
        gains[f"{threads} threads"] = present({mode: of.value(metric=f"{mode}_speedup") for mode in MODES})
    of = cases_of(found, "gemv", allocation="pool", host="per-job", jobs=64)
    gains["64 jobs, 1 thread"] = present({"recycled": of.value(metric="recycled_speedup")})
    return present(gains)


def pageable(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the gains of each mode for gemv with pageable host buffers."""
    of = {n: cases_of(found, "gemv", allocation="pool", host="pageable", n=n) for n in (1024, 2048, 4096)}
    return present({
        f"{n}²": present({mode: cases.value(metric=f"{mode}_speedup") for mode in MODES}) for n, cases in of.items()
    })  # fmt: skip


@figure("interjob-host", "host buffers page-locked for each job, or not at all", "interjob/gemv")
def host(found: Readings):
    made, panels = plots.panels(2, width=11)
    plots.bars(panels[0], locked(found), "1", title="page-locked for each job", line=1)
    plots.bars(panels[1], pageable(found), "1", title="pageable", line=1)
    for axes in panels:
        axes.set_ylabel("over serial")
    return made
