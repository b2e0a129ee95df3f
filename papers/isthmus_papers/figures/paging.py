"""Figures of GPU-driven paging and of page faults, compared with Figures 8, 13 and 14 of the GPUVM paper and Figure 1
of the paper on UVM batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isthmus import units
from isthmus.figures import plots
from isthmus.tables import readings
from isthmus.tables.readings import Readings
from isthmus_papers.figures.registry import figure, present

PAGES = {4096: "4 KiB", 65536: "64 KiB", 2097152: "2 MiB"}
PROGRAMS = ("va", "mvt", "atax", "bicg")
TRANSPORTS = ("pull", "relay", "pull_and_relay")
ROOM = (100, 50, 25)  # frames, in percent of the pages
PLACEMENTS = ("pinned", "streamed", "mapped", "managed_in", "managed_demand", "managed_advise")
WAYS = ("pointer", "window", "read_only_window", "reader", "read_only_reader", "element", "read_only_element")
KINDS = {
    "room for all": (100, "fifo"),
    "a quarter, FIFO": (25, "fifo"),
    "a quarter, second chance": (25, "second_chance"),
    "a quarter, scan-resistant": (25, "scan_resistant"),
}
_PROGRAMS = tuple(f"apps/{program}" for program in PROGRAMS)
_LINK = "transfer/mapped-gpu0/sm-read"


def link(found: Readings):
    """Returns the rate in B/s of a kernel that reads page-locked memory in order."""
    return found.value(workload=_LINK, metric="rate", bytes=2**30)


def random_rates(found: Readings) -> Readings:
    """Returns the readings of 1 GiB in random order, which the warps themselves copy in from the host."""
    alone = {"transport": [None, "pull"], "backing": [None, "host"]}
    return found.where(
        workload="paging/random", metric="rate", size="super", clean_ahead=0, passes=[None, 1, "one"], **alone
    )


def by_page(found: Readings) -> dict[str, dict[float, float]]:
    """Returns the rates in B/s if each page is read once, keyed by share of frames with eviction, and by page size."""
    read = random_rates(found).where(access="read", touched=100)
    return {name: read.by("page", frames=frames, eviction=kind) for name, (frames, kind) in KINDS.items()}


def in_order(found: Readings) -> dict[str, dict[float, float]]:
    """Returns the rates in B/s for 12 GiB in order, as in GPUVM's Figure 8, keyed by method and page size."""
    of = found.where(preset="paper-gpuvm-fig8", metric="rate")
    return present({
        "paged by the GPU": of.by("page", workload="paging/pattern", way="paged"),
        "copies of 16 threads": of.by("page", workload="paging/copies", threads=16),
    })  # fmt: skip


@figure("paging-rate", "pages in random order, by size of a page", "paging/random", _LINK)
def rate(found: Readings, stated: dict[float, tuple[float, float]] | None = None):
    """Draws rates against page size; `stated` are the paper's rates."""
    made, [axes] = plots.panels(1, width=9, height=4)
    kinds = by_page(found)
    lines = {"room for all": kinds["room for all"], "room for a quarter": kinds["a quarter, second chance"]}
    plots.curves(axes, present(lines), "B/s", title="pages in random order, read", x="bytes of a page")
    if in_order := link(found):
        axes.axhline(in_order, color="black", linewidth=0.8, linestyle="--", label="kernel reads in order")
    if stated:
        plots.stated(axes, stated, label="the paper: V100, PCIe 3, one NIC")
    axes.set_ylim(top=1.1 * axes.get_ylim()[1])
    axes.legend(loc="center right")
    return made


def by_transport(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the rates in B/s with the default numbers of queues and pulls, keyed by page size with share of frames,
    and by transport."""
    read = found.where(workload="paging/random", metric="rate", size="super", access="read", touched=100,
                       backing="host", passes=[None, 1, "one"], queues=[None, 0], pulls=[None, 0])  # fmt: skip
    rooms = {100: "all", 25: "a quarter"}
    return {
        f"{PAGES[page]}, {room}": {
            str(way): value for way in TRANSPORTS if (value := read.value(page=page, frames=frames, transport=way))
        }
        for page in (4096, 65536)
        for frames, room in rooms.items()
    }


@figure("paging-links", "pages in random order, by the GPU's own link and by that of a second GPU", "paging/random")
def links(found: Readings):
    made, [axes] = plots.panels(1, width=9, height=4)
    groups = present(by_transport(found))
    plots.bars(axes, groups, "B/s", title="pages in random order, read: page, room for")
    return made


def written_back(found: Readings) -> dict[str, dict[str, float]]:
    """Returns the rates to the GPU in B/s if pages are only read and if they are also written back, keyed by page size
    with share of frames."""
    groups = {}
    for page in (4096, 65536):
        for frames, words in ((100, "room for all"), (25, "a quarter")):
            of = random_rates(found).where(page=page, frames=frames, touched=100, eviction="fifo").by("access")
            groups[f"{PAGES[page]}, {words}"] = present({
                "read": of.get("read"), "written back, too": of.get("write")
            })  # fmt: skip
    return present(groups)


@figure("paging-write-back", "pages that are written and written back", "paging/random", _LINK)
def write_back(found: Readings):
    made, [axes] = plots.panels(1, width=9, height=3.8)
    title = "bytes to the GPU a second, 1 GiB in random order"
    plots.bars(axes, written_back(found), "B/s", title=title, line=link(found))
    return made


def sweeps(found: Readings) -> dict[int, dict[str, float]]:
    """Returns the seconds of a sweep over 1 GiB that is already on the GPU, keyed by page size and method."""
    of = found.where(workload="paging/sweep", metric="time", size="super")
    return {page: of.by("through", page=page) for page in (4096, 65536)}


@figure("paging-sweep", "a sweep over pages that are all on the GPU, by method", "paging/sweep")
def sweep(found: Readings):
    of = sweeps(found)
    groups = {
        way.replace("read_only_", "read-only\n"): present({PAGES[page]: times.get(way) for page, times in of.items()})
        for way in WAYS
    }
    made, [axes] = plots.panels(1, width=11, height=4)
    plots.bars(axes, present(groups), "s", title="a sweep over 1 GiB", log=True, line=of[4096].get("pointer"))
    return made


def passes(found: Readings, program: str, metric: str = "overlapped") -> dict[str, float]:
    """Returns the seconds of a pass at super, keyed by placement, and by share of frames for placement paged."""
    of = found.where(workload=f"apps/{program}", metric=metric, size="super", staging="none")
    by = {each: of.value(placement=each) for each in PLACEMENTS}
    by |= {f"paged, {room}%": of.value(placement="paged", page=4096, frames=room) for room in ROOM}
    return present(by)


@figure("paging-programs", "transfer-bound programs in every placement", *_PROGRAMS)
def programs(found: Readings):
    made, panels = plots.panels(2, rows=2, width=13, height=3.4)
    for axes, program in zip(panels, PROGRAMS, strict=True):
        of = dict(reversed(passes(found, program).items()))
        plots.lying(axes, {name: {"a pass": value} for name, value in of.items()}, title=f"{program}, a pass")
        for y, value in enumerate(of.values()):
            axes.text(readings.ends(value)[1], y, f" {units.quantity(value, 's')}", va="center", fontsize=8)
        axes.margins(x=0.15)
        axes.set_xticks([])
        axes.tick_params(axis="y", labelsize=8)
    return made


@figure("paging-room", "transfer-bound programs with less room", *_PROGRAMS)
def less_room(found: Readings):
    made, panels = plots.panels(2, width=13, height=3.8)
    paged = found.where(placement="paged", metric="kernel", size="super", staging="none")
    for axes, page in zip(panels, (4096, 65536), strict=True):
        groups = {}
        for program in PROGRAMS:
            of = paged.by("frames", workload=f"apps/{program}", page=page)
            groups[program] = {f"{room}%": of[room] / of[100] for room in ROOM if {room, 100} <= set(of)}
        plots.bars(axes, present(groups), "1", title=f"kernel over room for all, pages of {PAGES[page]}", line=1)
    return made


def registers(cases: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Returns, for each program, the maximum number of registers per thread of its kernels without paging ("plain") and
    with paging ("paged"). A kernel that occurs with and without paging does not read data that may be paged, and does
    not count."""
    kernels: dict[str, dict[str, dict[str, int]]] = {}
    for case in cases:
        axes = case["axes"]
        if axes.get("edges", "all") != "all":
            continue  # edges packed by the host: neither plain nor paged
        words = [axes["query"], axes["predicate"]] if "query" in axes else []
        name = ", ".join([case["workload"].removeprefix("apps/"), *words])
        side = kernels.setdefault(name, {"plain": {}, "paged": {}})[
            "paged" if case["placement"] == "paged" else "plain"
        ]
        side |= {each["name"]: each["registers"] for each in case["kernels"] if each.get("registers")}
    own = {
        name: {
            way: max((most for kernel, most in of.items() if kernel not in other), default=0)
            for way, of, other in (("plain", sides["plain"], sides["paged"]), ("paged", sides["paged"], sides["plain"]))
        }
        for name, sides in kernels.items()
    }
    return {name: sides for name, sides in own.items() if all(sides.values())}


def first_reads(found: Readings) -> dict[str, dict[float, float]]:
    """Returns the seconds until the GPU has read a number of bytes, keyed by memory, with the order if records have it,
    and by bytes."""
    of = found.where(workload="faults/latency", metric="time")
    return present({
        f"{memory}, {order}" if order else memory: of.by("bytes", memory=memory, order=order)
        for order in (None, "regular", "random") for memory in ("managed", "pinned", "pageable")
    })  # fmt: skip


def over_explicit(times: dict[str, dict[float, float]]) -> dict[str, dict[float, float]]:
    """Returns the time with page faults divided by that with explicit access in the same order, keyed by the memory of
    the latter."""
    managed = {name.partition(", ")[2]: of for name, of in times.items() if name.startswith("managed")}
    return present({
        f"over {name}": {size: faulted[size] / value for size, value in of.items() if size in faulted}
        for name, of in times.items() if not name.startswith("managed")
        for faulted in [managed.get(name.partition(", ")[2], {})]
    })  # fmt: skip


@figure(
    "faults-latency", "time until the GPU has read a number of bytes, by page faults and by copies", "faults/latency"
)
def latency(found: Readings):
    made, panels = plots.panels(2, width=12)
    times = first_reads(found)
    plots.curves(panels[0], times, "s", title="time of one read", log=True)
    plots.curves(panels[1], over_explicit(times), "1", title="managed over explicit")
    return made
