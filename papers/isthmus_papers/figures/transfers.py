"""Figures of `transfer/*`, compared with Comm|Scope's Figures 2 and 6 to 11."""

from __future__ import annotations

from isthmus import spelling
from isthmus.figures import plots
from isthmus.tables.readings import Readings
from isthmus_papers.figures.registry import figure, present

KiB, MiB, GiB = 2**10, 2**20, 2**30
KINDS = ("pageable", "pinned", "registered", "managed")


def rate(found: Readings, path: str, size: int):
    """Returns the rate of one path at one size in B/s, or None if it was not measured."""
    return found.value(metric="rate", workload=f"transfer/{path}", bytes=size)


def sizes(found: Readings, path: str) -> dict[float, float]:
    """Returns the rates of one path in B/s, keyed by size."""
    return found.by("bytes", metric="rate", workload=f"transfer/{path}")


def _by_size(axes, found: Readings, paths: dict[str, str], **words) -> None:
    plots.curves(axes, present({name: sizes(found, path) for name, path in paths.items()}), "B/s", **words)


@figure("transfer-caches", "copies with the CPU's caches flushed and warm", "transfer/p*-gpu0/ce")
def caches(found: Readings):
    made, panels = plots.panels(2)
    for axes, kind in zip(panels, ("pinned", "pageable")):
        copies = found.where(metric="rate", workload=f"transfer/{kind}-gpu0/ce")
        copies = copies.where(bytes=copies.where(cache="warm").values("bytes"))
        lines = {cache: copies.by("bytes", cache=cache) for cache in ("flushed", "warm")}
        plots.curves(axes, present(lines), "B/s", title=f"{kind} → GPU")
    return made


@figure("transfer-pageable", "copies of pageable memory, and their two halves", "transfer/pageable-*",
        "transfer/pinned-*", "transfer/gpu0-p*")  # fmt: skip
def pageable(found: Readings):
    made, panels = plots.panels(2)
    _by_size(panels[0], found, {
        "pageable → GPU": "pageable-gpu0/ce",
        "pageable → pinned": "pageable-pinned/runtime",
        "pinned → GPU": "pinned-gpu0/ce",
    }, title="to the GPU", log=True)  # fmt: skip
    _by_size(panels[1], found, {
        "GPU → pageable": "gpu0-pageable/ce",
        "pinned → pageable": "pinned-pageable/runtime",
        "GPU → pinned": "gpu0-pinned/ce",
    }, title="from the GPU", log=True)  # fmt: skip
    return made


def matrix(found: Readings, size: int = GiB) -> dict[tuple[str, str], float]:
    """Returns the rates of the runtime's copies, keyed by the kinds of memory (from, to)."""
    ends = (*KINDS, "gpu0")
    return present({
        (a, b): rate(found, f"{a}-{b}/{'ce' if 'gpu0' in (a, b) else 'runtime'}", size)
        for a in ends for b in ends if a != b or a != "gpu0"
    })  # fmt: skip


@figure("transfer-matrix", "copies by the runtime between all kinds of memory, 1 GiB", "transfer/*/ce",
        "transfer/*/runtime")  # fmt: skip
def between_kinds(found: Readings):
    made, [axes] = plots.panels(1, width=8, height=3.4)
    plots.heat(axes, matrix(found), "B/s", title="1 GiB")
    return made


def duplex(found: Readings, size: int = GiB) -> dict[str, dict[str, float]]:
    """Returns the rates in each direction and in both at once, keyed by kind of memory."""
    return present({
        kind: present({
            "to the GPU": rate(found, f"{kind}-gpu0/ce", size),
            "from the GPU": rate(found, f"gpu0-{kind}/ce", size),
            "both at once, sum": rate(found, f"{kind}-gpu0/ce-duplex", size),
        }) for kind in (*KINDS, "write_combined")
    })  # fmt: skip


@figure("transfer-duplex", "copies one way and both ways at once, by size and at 1 GiB", "transfer/*/ce",
        "transfer/*/ce-duplex")  # fmt: skip
def both_ways(found: Readings):
    made, panels = plots.panels(3, width=15)
    for axes, kind in zip(panels, ("pinned", "pageable")):
        _by_size(axes, found, {
            "to the GPU": f"{kind}-gpu0/ce",
            "from the GPU": f"gpu0-{kind}/ce",
            "both at once, sum": f"{kind}-gpu0/ce-duplex",
        }, title=kind, log=True)  # fmt: skip
    plots.bars(panels[2], duplex(found), "B/s", title="1 GiB")
    return made


@figure("transfer-peers", "copies between GPUs, with peer access and without",
        "transfer/gpu[0-9]-gpu[0-9]/ce", "transfer/gpu[0-9]-gpu[0-9]/ce-nopeer")  # fmt: skip
def peers(found: Readings, pairs: Readings | None = None):
    """Draws copies between GPUs; `pairs` are the readings for the matrix if they are from another host than those for
    the curves."""
    made, panels = plots.panels(2)
    paths = {"peer access": "gpu0-gpu1/ce", "without": "gpu0-gpu1/ce-nopeer"}
    _by_size(panels[0], found, paths, title="gpu0 → gpu1", log=True)
    all_of = pairs or found
    cells = {}
    for workload in all_of.where(metric="rate", workload="transfer/gpu?-gpu?/ce").values("workload"):
        path = workload.split("/")[1]
        start, end = path.split("-")
        if (value := rate(all_of, f"{path}/ce", GiB)) is not None and start != end:
            cells[start, end] = value
    plots.heat(panels[1], cells, "B/s", title="copy engine, 1 GiB")
    return made


@figure("transfer-zero-copy", "kernels that read and write host memory", "transfer/pinned-gpu0/ce",
        "transfer/gpu0-pinned/ce", "transfer/mapped-gpu0/sm-read", "transfer/gpu0-mapped/sm-write")  # fmt: skip
def zero_copy(found: Readings):
    made, panels = plots.panels(2)
    _by_size(panels[0], found, {"copy engine": "pinned-gpu0/ce", "kernel reads": "mapped-gpu0/sm-read"},
             title="host → GPU")  # fmt: skip
    _by_size(panels[1], found, {"copy engine": "gpu0-pinned/ce", "kernel writes": "gpu0-mapped/sm-write"},
             title="GPU → host")  # fmt: skip
    return made


@figure("transfer-managed", "managed memory, by page faults, prefetch and copy", "transfer/managed-gpu0/*",
        "transfer/gpu0-managed/*", "transfer/p*-gpu0/ce", "transfer/gpu0-p*/ce")  # fmt: skip
def managed(found: Readings):
    made, panels = plots.panels(2)
    _by_size(panels[0], found, {
        "pinned, copy": "pinned-gpu0/ce",
        "managed, prefetch": "managed-gpu0/prefetch",
        "managed, page faults": "managed-gpu0/fault",
        "managed, copy": "managed-gpu0/ce",
        "pageable, copy": "pageable-gpu0/ce",
    }, title="host → GPU", log=True)  # fmt: skip
    _by_size(panels[1], found.where(threads=[None, 1]), {
        "pinned, copy": "gpu0-pinned/ce",
        "managed, prefetch": "gpu0-managed/prefetch",
        "managed, page faults of one thread": "gpu0-managed/fault",
        "managed, copy": "gpu0-managed/ce",
        "pageable, copy": "gpu0-pageable/ce",
    }, title="GPU → host", log=True)  # fmt: skip
    return made


@figure("transfer-threads", "page faults of host threads, and a copy to pageable memory", "transfer/gpu0-managed/fault",
        "transfer/gpu0-pageable/ce")  # fmt: skip
def host_threads(found: Readings):
    made, panels = plots.panels(2)
    _by_size(panels[0], found, {"page faults": "managed-gpu0/fault", "copy of pageable memory": "pageable-gpu0/ce"},
             title="host → GPU", log=True)  # fmt: skip
    faults = found.where(metric="rate", workload="transfer/gpu0-managed/fault", touch="whole", preset=None)
    lines = {f"page faults, {spelling.counted(n, 'thread')}": faults.by("bytes", threads=n)
             for n in faults.values("threads")}  # fmt: skip
    lines["copy to pageable memory"] = sizes(found.where(cache=["flushed", None]), "gpu0-pageable/ce")
    plots.curves(panels[1], present(lines), "B/s", title="GPU → host", log=True)
    return made
