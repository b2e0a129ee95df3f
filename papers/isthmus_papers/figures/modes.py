"""Figures of the seven microbenchmarks in six modes, compared with the pipelining paper's Figures 3, 4, 10, 11, 13
and 8.1."""

from __future__ import annotations

from statistics import median

from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.registry import figure, mean, over, present

WORKLOADS = ("vector_seq", "vector_rand", "saxpy", "gemv", "gemm", "conv2d", "conv3d")
MODES = ("baseline", "async", "uvm", "uvm_async", "pm", "pm_async")
PHASES = ("kernel", "in", "out", "device_alloc")
PARTS = ("kernel", "copies", "allocation")
GEOMETRIES = {  # preset: axis, title, label of the axis
    "paper-fig10": ("blocks", "Figure 10: number of blocks", "blocks"),
    "paper-fig11": ("threads", "Figure 11: threads a block", "threads of a block"),
    "paper-fig13": ("shared_bytes", "Figure 13: shared memory a block", "bytes of a block"),
}
_PATTERN = "microbench/*"


def case(found: Readings, size: str, workload: str, mode: str) -> Readings:
    """Returns the readings of one workload in one mode, with its default geometry."""
    return found.where(workload=f"microbench/{workload}", size=size, mode=mode, preset=None)


def parts_of(of: Readings) -> dict[str, float]:
    """Returns the seconds of the parts of the paper's bars for a case, or an empty dict if one is missing."""
    times = {phase: value for phase in PHASES if (value := of.value(metric=phase)) is not None}
    if len(times) < len(PHASES):
        return {}
    return {"kernel": times["kernel"], "copies": times["in"] + times["out"], "allocation": times["device_alloc"]}


def parts(found: Readings, size: str, workload: str, mode: str) -> dict[str, float]:
    """Returns the seconds of the parts of the paper's bars for one workload in one mode."""
    return parts_of(case(found, size, workload, mode))


def total(found: Readings, size: str, workload: str, mode: str):
    """Returns the seconds of all parts together, or None if one is missing."""
    return sum(parts(found, size, workload, mode).values()) or None


def samples(found: Readings, size: str, workload: str, mode: str) -> list[float]:
    """Returns every sample of the paper's total."""
    return case(found, size, workload, mode).samples(metric="paper_total")


def middle_half(values: list[float]) -> float:
    """Returns the distance between the quartiles of samples, in the samples' unit."""
    ordered = sorted(values)
    return ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4]


def _spreads(found: Readings, size: str, mode: str) -> list[float]:
    """Returns all samples of all workloads, each divided by the median of its case."""
    cases = (samples(found, size, workload, mode) for workload in WORKLOADS)
    return [value / median(of) for of in cases for value in of]


@figure("modes-spread", "how much samples of the seven microbenchmarks vary, by mode and size", _PATTERN)
def spread(found: Readings):
    found = found.where(preset=None, metric="paper_total")
    of = {
        size: present({mode: _spreads(found, size, mode) or None for mode in MODES})
        for size in ("tiny", "large", "super", "mega")
    }
    of = {size: boxes for size, boxes in of.items() if len(boxes) == len(MODES)}
    made, panels = plots.panels(max(len(of), 1), width=12)
    for axes, (size, boxes) in zip(panels, of.items()):
        plots.boxes(axes, boxes, "1", title=size)
        axes.set_ylabel("sample over its median")
        axes.tick_params(axis="x", rotation=45)
    return made


@figure("modes-parts", "where the time of the seven microbenchmarks goes, in six modes", _PATTERN)
def where_time_goes(found: Readings):
    found = found.where(preset=None, size=["super", "mega"], metric=PHASES)
    made, panels = plots.panels(len(WORKLOADS), rows=2, width=14, height=3)
    for row, size in enumerate(("super", "mega")):
        for column, workload in enumerate(WORKLOADS):
            whole = total(found, size, workload, "baseline")
            shares = {
                mode: {part: over(value, whole) for part, value in parts(found, size, workload, mode).items()}
                for mode in MODES
            }
            plots.stacked(
                panels[len(WORKLOADS) * row + column], present(shares) if whole else {}, "1",
                title=f"{workload}, {size}", legend=(row, column) == (0, len(WORKLOADS) - 1),
            )  # fmt: skip
        panels[len(WORKLOADS) * row].set_ylabel("over baseline's total")
    return made


@figure("modes-wall", "wall time with page-locking, over baseline's, at mega", _PATTERN)
def wall(found: Readings):
    made, [axes] = plots.panels(1, width=9)
    times = {
        workload: {mode: case(found, "mega", workload, mode).value(metric="wall") for mode in ("baseline", "uvm", "pm")}
        for workload in WORKLOADS
    }
    ratios = {
        workload: present({mode: over(value, of["baseline"]) for mode, value in of.items()})
        for workload, of in times.items()
    }
    plots.bars(axes, present(ratios), "1", title="wall over baseline's, mega", line=1)
    return made


def staged(found: Readings, preset: str | None, size: str) -> dict[str, float]:
    """Returns the kernel's time with asynchronous staging divided by that with direct staging, in page-locked memory,
    keyed by workload."""
    ratios = {}
    for workload in WORKLOADS:
        kernels = found.where(workload=f"microbench/{workload}", metric="kernel", placement="pinned")
        by = kernels.where(preset=preset, size=size, mode=["pm", "pm_async"]).by("staging")
        ratios[workload] = over(by.get("async"), by.get("direct"))
    return present(ratios)


def geometries(found: Readings) -> dict[str, dict[str, float]]:
    """Returns staged() for the paper's grid and for a full grid."""
    return {
        "the paper's geometry, super": staged(found, "paper-fig4", "super"),
        "full grid, super": staged(found, None, "super"),
        "full grid, mega": staged(found, None, "mega"),
    }


@figure("modes-staging", "kernels with asynchronous over direct staging", _PATTERN)
def staging(found: Readings):
    of = geometries(found)
    made, [axes] = plots.panels(1, width=10)
    groups = {w: present({name: ratios.get(w) for name, ratios in of.items()}) for w in WORKLOADS}
    plots.bars(axes, present(groups), "1", title="kernel, async over direct", line=1)
    return made


def share(found: Readings, mode: str, part: str):
    """Returns a part's share of the total at mega, as the mean over the seven workloads."""
    of = ((parts(found, "mega", w, mode).get(part), total(found, "mega", w, mode)) for w in WORKLOADS)
    return mean(over(value, whole) for value, whole in of if whole)


@figure("modes-shares", "shares of kernel, copies and allocation, means over the seven at mega", _PATTERN)
def shares(found: Readings):
    found = found.where(preset=None, size="mega", metric=PHASES)
    made, [axes] = plots.panels(1, width=6)
    bars = present({mode: present({part: share(found, mode, part) for part in PARTS}) for mode in MODES})
    plots.stacked(axes, bars, "1", title="shares of kernel, copies and allocation, mega")
    axes.set_ylabel("share of the total")
    return made


def by_geometry(found: Readings, preset: str, mode: str, metric: str = "paper_total") -> dict[float, float]:
    """Returns the seconds of vector_seq, keyed by the values of the preset's axis."""
    of = found.where(workload="microbench/vector_seq", preset=preset, mode=mode, metric=metric)
    return of.by(GEOMETRIES[preset][0])


@figure("modes-geometry", "vector_seq by blocks, threads and shared memory", "microbench/vector_seq")
def geometry(found: Readings):
    made, panels = plots.panels(len(GEOMETRIES), rows=2, width=13, height=3)
    for row, metric in enumerate(("paper_total", "kernel")):
        for column, (preset, (_, title, x)) in enumerate(GEOMETRIES.items()):
            lines = {mode: by_geometry(found, preset, mode, metric) for mode in MODES}
            plots.curves(
                panels[len(GEOMETRIES) * row + column], present(lines), "s",
                title=title if row == 0 else "kernel alone", x=x,
            )  # fmt: skip
    return made
