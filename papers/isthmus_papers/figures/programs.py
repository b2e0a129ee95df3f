"""Figures of programs, compared with the pipelining paper's Figure 5 and section 4.2."""

from __future__ import annotations

from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.modes import PHASES, parts_of
from isthmus_papers.figures.registry import figure, over, present

TEN = ("backprop", "bayesian", "hotspot", "kmeans", "knn", "lavamd", "lud", "nw", "pathfinder", "srad")
#: Placement that each mode uses; it selects the records of programs without staging.
MODES = {"baseline": "pageable", "async": "pageable", "uvm": "managed_in", "uvm_async": "managed_in", "pm": "pinned",
         "pm_async": "pinned"}  # fmt: skip
PLAIN = ("hotspot", "lud")  # programs that have no staging
STAGED = tuple(program for program in TEN if program not in PLAIN)
PAIRS = {"pageable": ("async", "baseline"), "managed": ("uvm_async", "uvm"), "page-locked": ("pm_async", "pm")}
FLOORS = {  # program at mega: (size, metric, share of the metric, floor in s, aim in s)
    "pathfinder": ("20M × 100", "kernel", 1, 2.0e-3, 2.8e-3),
    "nw": ("40960²", "kernel", 1, 3.2e-3, 9e-3),
    "srad": ("40960², a step", "later_repeat", 1, 3.2e-3, 6e-3),
    "backprop": ("64M", "kernel", 1, 4.2e-3, 7.5e-3),
    "hotspot": ("12288², a step", "kernel", 1 / 64, 0.43e-3 / 8, 0.15e-3),
    "lud": ("65536²", "kernel", 1, 3.5, 5.0),
    "kmeans": ("16M × 64, an iteration", "later_repeat", 1, 1.03e-3, 1.4e-3),
    "knn": ("32768², d 512", "kernel", 1, 20.4e-3, 30e-3),
    "lavamd": ("128³ × 100", "kernel", 1, 0.9, 1.6),
    "bayesian": ("125 nodes, scores and one order", "first_repeat", 1, 22e-3, 140e-3),
    "mvt": ("32768²", "kernel", 1, 1.02e-3, 1.3e-3),
    "atax": ("32768²", "kernel", 1, 1.02e-3, 1.7e-3),
    "bicg": ("32768²", "kernel", 1, 1.02e-3, 1.3e-3),
    "va": ("2^30", "kernel", 1, 3.07e-3, 3.4e-3),
}
_TEN = tuple(f"apps/{program}" for program in TEN)


def case(found: Readings, workload: str, mode: str, size: str) -> Readings:
    """Returns the readings of a workload in a mode; empty if the mode has a staging that the workload does not
    support."""
    of = found.where(size=size, workload=workload, preset=None)
    if workload.removeprefix("apps/") not in PLAIN:
        return of.where(mode=mode)
    return of.where(staging="none", placement=MODES[mode] if not mode.endswith("async") else [])


def time(found: Readings, program: str, mode: str, metric: str, size: str = "super"):
    """Returns the median seconds of a phase, or None if it was not measured."""
    return case(found, f"apps/{program}", mode, size).value(metric=metric)


def parts(found: Readings, program: str, mode: str, size: str = "super") -> dict[str, float]:
    """Returns the seconds of the parts of the paper's bars, or an empty dict if the mode was not measured."""
    return parts_of(case(found, f"apps/{program}", mode, size))


def total(found: Readings, program: str, mode: str, size: str = "super"):
    """Returns the seconds of all parts together, or None if one is missing."""
    return sum(parts(found, program, mode, size).values()) or None


@figure("programs-parts", "where the time of ten programs goes, in six modes, at super", *_TEN)
def where_time_goes(found: Readings):
    found = found.where(size="super", metric=PHASES)
    made, panels = plots.panels(5, rows=2, width=14, height=3)
    for axes, program in zip(panels, TEN, strict=True):
        whole = total(found, program, "baseline")
        bars = {mode: {part: over(v, whole) for part, v in parts(found, program, mode).items()} for mode in MODES}
        plots.stacked(axes, present(bars) if whole else {}, "1", title=program, legend=program == TEN[4])
    for axes in panels[::5]:
        axes.set_ylabel("over baseline's total")
    return made


def staged(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the kernel's time with asynchronous staging divided by that with direct staging at super, keyed by
    program and memory."""
    found = found.where(size="super", metric=PHASES)
    kernels = {(p, mode): parts(found, p, mode).get("kernel") for p in STAGED for mode in MODES}
    return present({
        p: present({memory: over(kernels[p, a], kernels[p, b]) for memory, (a, b) in PAIRS.items()}) for p in STAGED
    })  # fmt: skip


@figure("programs-staging", "kernels of programs with asynchronous over direct staging, at super", *_TEN)
def staging(found: Readings):
    made, [axes] = plots.panels(1, width=11)
    plots.bars(axes, staged(found), "1", title="kernel, async over direct, super", line=1)
    return made


def best(found: Readings, program: str) -> tuple[str, float] | None:
    """Returns (staging, seconds) of the shortest kernel at mega in page-locked memory, or None without a record."""
    _, metric, part, _, _ = FLOORS[program]
    of = found.where(workload=f"apps/{program}", size="mega", placement="pinned", preset=None)
    by = of.by("staging", metric=metric)
    return min(((staging, value * part) for staging, value in by.items()), key=lambda pair: pair[1], default=None)


def over_floors(found: Readings) -> dict[str, float]:
    """Returns each program's floor divided by the time of its shortest kernel at mega."""
    shortest = {program: best(found, program) for program in FLOORS}
    return {program: FLOORS[program][3] / of[1] for program, of in shortest.items() if of}


@figure("programs-floors", "floors over measured kernels at mega", *(f"apps/{program}" for program in FLOORS))
def floors(found: Readings):
    made, [axes] = plots.panels(1, width=11, height=3.8)
    plots.bars(axes, {program: {"floor over kernel": value} for program, value in over_floors(found).items()}, "1",
               line=1, title="floor over measured kernel, mega, best staging")  # fmt: skip
    axes.tick_params(axis="x", rotation=30)
    return made


def passes(found: Readings) -> dict[tuple[str, str], float]:
    """Returns the time of a pass at medium without staging, relative to placement pinned, keyed by (program,
    placement)."""
    cells: dict[tuple[str, str], float] = {}
    plain = found.where(size="medium", staging="none", preset=None, metric="overlapped")
    for workload in plain.where(workload="apps/*").values("workload"):
        by = plain.by("placement", workload=workload)
        if "pinned" in by:
            name = workload.removeprefix("apps/")
            cells |= {(name, placement): value / by["pinned"] for placement, value in by.items()}
    return cells


@figure("programs-placements", "a pass of every program in every placement, at medium", "apps/*")
def placements(found: Readings):
    cells = passes(found)
    made, [axes] = plots.panels(1, width=12, height=1 + 0.42 * max(len({program for program, _ in cells}), 4))
    plots.heat(axes, cells, "1", title="a pass over that of pinned, medium", corner="program \\ placement")
    return made


SIX = ("backprop", "dwt2d", "heartwall", "hotspot", "nn", "srad_v1")  #: programs of the MI300A paper
#: Groups of bars in Figure 11. heartwall has both of the paper's versions: v2, and v1 with static arrays.
VERSIONS: dict[str, dict[str, str]] = {
    **{program: {"workload": f"apps/{program}"} for program in SIX},
    "heartwall": {"workload": "apps/heartwall", "form": "double"},
    "heartwall, static": {"workload": "apps/heartwall", "form": "static"},
}
#: Bars of Figure 11 and their metrics, of which the first that was measured is shown: without an input file there is no
#: `total`. The paper's compute time includes copies, which its unified version does not need.
UNIFIED = {"kernel": ["kernel"], "compute": ["overlapped"], "total": ["total", "wall"], "memory": ["memory_peak"]}


def unified(found: Readings) -> dict[str, dict[str, float]]:
    """Returns figures with managed memory divided by those with explicit copies, keyed by version and bar: with
    Figure 11's preset if that was measured, otherwise in the default forms."""
    large = found.where(size="large", placement=["pageable", "managed_demand"])
    forms = [None, "double", "static", "merged"]
    default = large.where(preset=None, form=forms, loop=[None, "device"], data=[None, "generated"])

    def ratio(version: dict[str, str], metrics: list[str]):
        for of in (large.where(preset="paper-mi300a"), default):
            for metric in metrics:
                by = of.by("placement", metric=metric, **version)
                if len(by) == 2:
                    return by["managed_demand"] / by["pageable"]
        return None

    return present({
        name: present({bar: ratio(version, metrics) for bar, metrics in UNIFIED.items()})
        for name, version in VERSIONS.items()
    })  # fmt: skip


@figure("programs-unified", "time and peak memory of six programs, managed over explicit copies, at large",
        *(f"apps/{program}" for program in SIX))  # fmt: skip
def unified_over_explicit(found: Readings):
    made, panels = plots.panels(2, width=14)
    over_explicit = unified(found)
    for axes, words, shown in zip(panels, ("time", "peak of memory"), (("compute", "total"), ("memory",))):
        groups = {name: {bar: bars[bar] for bar in shown if bar in bars} for name, bars in over_explicit.items()}
        plots.bars(axes, present(groups), "1", line=1, title=f"{words}, managed over explicit, large")
    return made
