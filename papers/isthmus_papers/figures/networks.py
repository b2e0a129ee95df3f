"""Figures of networks in six modes, compared with the pipelining paper's Figure 6, and the cost of page-locking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.modes import MODES
from isthmus_papers.figures.registry import figure, over, present

if TYPE_CHECKING:
    from collections.abc import Callable

NETWORKS = ("resnet18", "resnet50", "yolov3-tiny", "yolov3")
ALLOCATIONS = ("tensor", "arena")
#: Phases that occur once, and phases that occur for each image if weights are copied with it, with their labels.
ONCE = {"host_alloc": "on the host", "host_touch": "first touch", "device_alloc": "on the device"}
EACH = {"in": "in", "kernel": "kernels", "out": "out"}
#: Parts of the bars as in the paper, which does not count the first touch.
_BARS = {"kernels": ("kernel",), "copies": ("in", "out"), "on the device": ("device_alloc",),
         "on the host": ("host_alloc",)}  # fmt: skip
_COUNTS = tuple(2**power for power in range(8))
_WORKLOAD = "apps/network"
_TRAINING = "apps/network_training"


def case(found: Readings, network: str, allocation: str, mode: str) -> Readings:
    """Returns the readings of one image, with windows copied into a matrix as in darknet."""
    return found.where(
        workload=_WORKLOAD, network=network, allocation=allocation, mode=mode, batch=1, convolution="patches"
    )


def phases(found: Readings, network: str, allocation: str, mode: str) -> dict[str, float]:
    """Returns the seconds of each phase, 0 for a phase that the mode lacks; empty if the mode was not measured."""
    return _phases(case(found, network, allocation, mode))


def step(found: Readings, network: str, mode: str) -> dict[str, float]:
    """Returns the seconds of each phase for one training step with the paper's batch, with one arena for weights and
    one for tensors."""
    batch = 4 if network.startswith("yolo") else 32
    of = found.where(workload=_TRAINING, network=network, batch=batch, allocation="arena", mode=mode, steps=1)
    return _phases(of)


def _phases(of: Readings) -> dict[str, float]:
    return {phase: of.value(metric=phase) or 0.0 for phase in (*ONCE, *EACH)} if len(of) else {}


def total(found: Readings, network: str, allocation: str, mode: str, touched: bool):
    """Returns the seconds of all phases together, with the first touch if `touched`; None if the mode was not
    measured."""
    return _sum(phases(found, network, allocation, mode), touched)


def _sum(of: dict[str, float], touched: bool):
    return sum(seconds for phase, seconds in of.items() if touched or phase != "host_touch") or None


def over_baseline(found: Readings, allocation: str, mode: str, touched: bool) -> dict[str, float]:
    """Returns the total relative to that of mode baseline, keyed by network."""
    of = {n: [total(found, n, allocation, each, touched) for each in (mode, "baseline")] for n in NETWORKS}
    return present({network: over(*pair) for network, pair in of.items()})


def by_images(found: Readings, network: str, images: int):
    """Returns the seconds of `images` images in page-locked memory divided by those in pageable memory, with one
    arena."""

    def seconds(mode: str):
        of = phases(found, network, "arena", mode)
        return sum(of.get(phase, 0) for phase in ONCE) + images * sum(of.get(phase, 0) for phase in EACH)

    return over(seconds("pm") or None, seconds("baseline"))


def images_until_paid(found: Readings) -> dict[str, float]:
    """Returns, for each network, the number of images after which faster copies have paid for page-locking an arena."""
    paid = {}
    for network in NETWORKS:
        pinned, pageable = (phases(found, network, "arena", mode) for mode in ("pm", "baseline"))
        if pinned and pageable:
            paid[network] = over(sum(pinned[phase] - pageable[phase] for phase in ONCE), pageable["in"] - pinned["in"])
    return present(paid)


@figure("networks-parts", "where the time of four networks goes, one image, in six modes", _WORKLOAD)
def where_time_goes(found: Readings):
    return _parts(lambda network, mode: phases(found, network, "tensor", mode))


@figure("networks-training", "where the time of a step of training four networks goes, in six modes", _TRAINING)
def where_a_step_goes(found: Readings):
    return _parts(lambda network, mode: step(found, network, mode))


def _parts(phases_of: Callable[[str, str], dict[str, float]]):
    """Draws the parts of each mode's total relative to the total of mode baseline, as the paper does."""
    made, panels = plots.panels(len(NETWORKS), width=13, height=3.2)
    for axes, network in zip(panels, NETWORKS, strict=True):
        of = {mode: phases_of(network, mode) for mode in MODES}
        whole = _sum(of["baseline"], touched=False)
        bars = {
            mode: {bar: over(sum(seconds[each] for each in parts), whole) for bar, parts in _BARS.items()}
            for mode, seconds in of.items() if seconds
        }  # fmt: skip
        plots.stacked(axes, bars if whole else {}, "1", title=network, legend=network == NETWORKS[-1])
    panels[0].set_ylabel("over baseline's total")
    return made


@figure("networks-locking", "page-locking and first touch of networks, by tensor and in an arena", _WORKLOAD)
def locking(found: Readings):
    made, panels = plots.panels(len(NETWORKS), rows=len(ALLOCATIONS), width=13, height=3)
    for row, allocation in enumerate(ALLOCATIONS):
        for column, network in enumerate(NETWORKS):
            words = ONCE | EACH
            bars = {
                mode: {words[phase]: value for phase, value in phases(found, network, allocation, mode).items()}
                for mode in ("baseline", "uvm", "pm")
            }
            plots.stacked(
                panels[len(NETWORKS) * row + column], present(bars), "s", title=f"{network}, {allocation}",
                legend=(row, column) == (0, len(NETWORKS) - 1),
            )  # fmt: skip
    return made


@figure("networks-images", "number of images after which page-locking an arena pays off", _WORKLOAD)
def images(found: Readings):
    made, [axes] = plots.panels(1, width=8)
    lines = {network: present({n: by_images(found, network, n) for n in _COUNTS}) for network in NETWORKS}
    plots.curves(axes, present(lines), "1", title="pm over baseline, weights travel for each image", x="images")
    axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
    return made
