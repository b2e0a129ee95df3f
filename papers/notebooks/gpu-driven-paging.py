# %% [markdown]
# # Paging by the GPU
#
# For readers of "GPUVM: GPU-driven Unified Virtual Memory" (2024), and for anybody whose data do not fit on the GPU:
# kernels that fetch pages of host memory themselves ([how](../../docs/paging.md)), on one NVIDIA H200 host (PCIe 5,
# driver 580.159.04) and others, compared with the paper's Figures 8, 9, 12 to 14 and 16. The paper's machine has a V100
# behind PCIe 3, and network cards fetch its pages. So its rates are only shown next to ours, and ratios are compared.
#
# The records are in [`papers/data`](../data/README.md), the paper's figures in
# [`published/gpuvm.csv`](../data/published/gpuvm.csv). Nothing was read off a picture: where the text states no figure,
# none is given here.

# %%
import functools
import os
from pathlib import Path

from IPython.display import Markdown, display

from isthmus import units
from isthmus.figures import plots
from isthmus.records import reading
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import paging
from isthmus_papers.figures.paging import PAGES, PROGRAMS, ROOM, WAYS
from isthmus_papers.figures.registry import mean, over, present

DATA = Path("../data/h200")
PROGRAMS_FILE = DATA / "paged-programs.jsonl.gz"

pages = readings.example(DATA / "paging.jsonl.gz", DATA / "transfer.jsonl.gz")
rates = paging.random_rates(pages)
programs = readings.example(PROGRAMS_FILE).where(size="super", staging="none")
transfers = readings.example(DATA / "transfer.jsonl.gz").where(metric="rate", bytes=2**30)
link = paging.link(pages)


def table(head, rows):
    return Markdown("\n".join(f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows]))


def shown(value, unit="s"):
    return units.quantity(value, unit) if value is not None else "-"


def ratio(value):
    return f"{value:.1f}" if value else "-"


# %% [markdown]
# ## Figure 8: rate by page size
#
# 1 GiB in random order, each page once. The line is the rate of kernels that read page-locked memory in order. The
# paper's 6.5 GB/s are one network card's share of PCIe 3.

# %%
figure = paging.rate(pages, {4096: (6.5e9, 6.5e9)})
kinds = paging.by_page(pages)

# %%
rows = [
    [name, PAGES[page], shown(rate, "B/s"), f"{rate / link:.2f}" if link else "-"]
    for name, of in kinds.items() for page, rate in of.items()
]  # fmt: skip
few = pages.where(size="super", workload="paging/random", metric="time", touched=5)
rows += [
    [f"5% of them, room for all, in {shown(time)}", PAGES[page], shown(rates.value(touched=5, page=page), "B/s"), ""]
    for page, time in few.by("page").items()
]
table(["", "page", "rate", "of kernel reads in order"], rows)

# %% [markdown]
# The paper's case, 12 GiB in order (preset `paper-gpuvm-fig8`), on H100 hosts: paged by the GPU, and by copies of one
# page each that 16 CPU threads request. The paper's 16 threads request GPUDirect RDMA. There is no network card here,
# so copies replace it.

# %%
ordered = paging.in_order(readings.example(DATA.parent / "h100/paging.jsonl.gz"))
figure, axes = plots.panels(1, width=9, height=4)
plots.curves(axes[0], ordered, "B/s", title="12 GiB in order", x="bytes of a page")
plots.stated(axes[0], {4096: (6.5e9, 6.5e9)}, label="the paper: V100, PCIe 3, one NIC")

# %%
paged, copied = ordered["paged by the GPU"], ordered["copies of 16 threads"]
least, most = min(copied), max(copied)
near = min(page for page, rate in copied.items() if rate >= 0.9 * paged[page])
Markdown(
    f"Paged, it comes at {shown(min(paged.values()), 'B/s')} to {shown(max(paged.values()), 'B/s')}, by any page. "
    f"By copies it is {shown(copied[least], 'B/s')} at {units.byte_text(least)}, and {shown(copied[most], 'B/s')} at "
    f"{units.byte_text(most)}: each copy costs a call of the CPU. At {units.byte_text(least)} paging is "
    f"{paged[least] / copied[least]:.0f} times as fast. The paper says the same: paging has all its link gives with "
    f"pages of 4 KiB, and RDMA from 512 KiB on. Copies reach 90% of paging from {units.byte_text(near)} on."
)

# %% [markdown]
# Small pages cost nothing in random order either. With evictions the rate falls by 7 to 8%, whatever the eviction
# policy. Pages of 2 MiB were measured with a quarter of the frames only; they lose more.
#
# ## Two links
#
# On a host of two H200s a kernel on the second GPU fetches pages over its own link and writes them into the first
# GPU's memory (`relay`). With `pull_and_relay` warps fetch only as many pages as fill their own link, and the relay
# fetches the others.

# %%
two = readings.example(DATA.parent / "h200-x2/transports.jsonl.gz")
figure = paging.links(two)

# %%
rows = [
    [group, *(shown(of.get(way), "B/s") for way in paging.TRANSPORTS)]
    for group, of in paging.by_transport(two).items()
]  # fmt: skip
table(["page, room for", *(f"`{way}`" for way in paging.TRANSPORTS)], rows)

# %% [markdown]
# ## Writing pages back
#
# The same, with each page changed and written back within the measured time. The rate counts the bytes in one
# direction; the same number goes in the other. With frames for all pages, the pages are fetched first and written back
# by a separate kernel. With frames for a quarter, both happen at once.

# %%
figure = paging.write_back(pages)
groups = paging.written_back(pages)

# %%
duplex = transfers.value(workload="transfer/mapped-gpu0/sm-read-duplex")
best = max((of["written back, too"] for of in groups.values() if "written back, too" in of), default=None)
Markdown(
    f"Kernels that read and write the host's memory at once reach {shown(duplex, 'B/s')} both ways together. Paging "
    f"with a quarter of the frames moves {shown(2 * best if best else None, 'B/s')} both ways, "
    f"{float(2 * best / duplex):.2f} of it."
    if best and duplex
    else "No record of both ways at once."
)

# %% [markdown]
# ## Sweeps over resident memory
#
# 1 GiB with every page on the GPU, which shows the cost of the page table and the counts. The line is a plain pointer's
# time.

# %%
figure = paging.sweep(pages)
found = paging.sweeps(pages)

# %%
rows = [
    [way.replace("_", " "), *(f"{shown(of.get(way))} ({of[way] / of['pointer']:.2f})" for of in found.values())]
    for way in WAYS if all(way in of for of in found.values())
]  # fmt: skip
table(["time (over the pointer)", *(f"pages of {PAGES[page]}" for page in found)], rows)

# %% [markdown]
# ## Figure 13: programs in every placement
#
# At super: va has three vectors of 1 GiB, the others a matrix of 1 GiB. A pass is the copies in, the kernels, and the
# copies out (`overlapped`). Kernels read managed memory on demand; what the host reads back counts in `out`. mvt,
# atax and bicg cannot be streamed. Pages are 4 KiB.

# %%
figure = paging.programs(programs)

# %%
passes = functools.partial(paging.passes, programs)
COMES = {"va": 2 * 2**30}  # bytes of the inputs that have to come; the others' matrix
rows = []
for program in PROGRAMS:
    for name, value in passes(program).items():
        rate = COMES.get(program, 2**30) / value
        rows.append([program, name, shown(value), shown(passes(program, "kernel").get(name)), shown(rate, "B/s"),
                     f"{rate / link:.0%}" if link else "-"])  # fmt: skip
table(["program", "placement", "a pass", "kernel", "inputs over a pass", "of kernel reads in order"], rows)

# %% [markdown]
# va, mvt and bicg read nothing twice, so reading in place (`mapped`) takes as long as paging, without a table and with
# fewer registers. The advantage of paging is that a page that is needed again is already there. In `paged` atax reads
# its matrix twice: with frames for all pages it moves once, with fewer frames twice.
#
# ## Figure 14: fewer frames
#
# `kernel` with frames for half and for a quarter of the pages, relative to frames for all. The paper has up to 2. UVM
# with less memory than its data was not measured, because a driver that evicts can stop a host that others share.

# %%
figure = paging.less_room(programs)

# %%
rows = []
for program in PROGRAMS:
    for page in (4096, 65536):
        of = programs.where(workload=f"apps/{program}", placement="paged", page=page)
        for room in ROOM:
            case = of.where(frames=room)
            at = {name: case.value(metric=name) for name in ("kernel", "fetched", "written_back", "evictions")}
            if None in at.values():
                continue
            again = at["fetched"] / COMES.get(program, 2**30)
            rows.append([program, PAGES[page], f"{room}%", shown(at["kernel"]), f"{float(again):.2f}",
                         shown(at["fetched"] / at["kernel"], "B/s"), f"{at['evictions']:.0f}",
                         f"{at['written_back'] / 2**30:.2f} GiB"])  # fmt: skip
table(["program", "page", "room", "kernel", "fetched / inputs", "fetched a second", "evictions", "written back"], rows)

# %% [markdown]
# ## Cost of large pages here
#
# A row of the matrix is 64 KiB, and a block's tile uses 4 KiB of it. So a small page belongs to one block, whose other
# seven warps find it in transfer and wait. A large page belongs to 16 blocks, that is 128 warps, and one of them
# fetches it. Neighbouring blocks work on the same rows, so few pages are in transfer at any time. The counts confirm
# this: `waits` per page would be 7 and 127.

# %%
rows = []
for program in ("mvt", "atax", "bicg"):
    times = {}
    for page in (4096, 65536):
        of = programs.where(workload=f"apps/{program}", placement="paged", page=page, frames=100)
        times[page] = {name: of.value(metric=name) for name in ("kernel", "waits", "fetches")}
    if None in [value for of in times.values() for value in of.values()]:
        continue
    small, large = times[4096], times[65536]
    rows.append([program, shown(small["kernel"]), shown(large["kernel"]), f"{large['kernel'] / small['kernel']:.1f}",
                 f"{small['waits'] / small['fetches']:.1f}", f"{large['waits'] / large['fetches']:.1f}"])  # fmt: skip
table(["room for all", "4 KiB", "64 KiB", "over", "waits a page, 4 KiB", "64 KiB"], rows)

# %% [markdown]
# With fewer frames a large page takes up to 4 times as long as small pages do. va has no such rows: each warp has its
# own pages and waits for none, so it takes as long with either size while there are frames for all pages.
#
# ## Figures 9, 12 and 14: graphs
#
# GAP's uniform random graph of 2²⁷ vertices, with 17.2 GB of edges, on one H100. All placements run the same algorithm,
# and pages are 4 KiB. For SSSP by page faults, only the first pass was measured.

# %%
graphs = readings.example(DATA.parent / "h100/graphs.jsonl.gz").where(scale=27)
GRAPHS = ("bfs", "cc", "sssp")
MEMORY = {f"paged, {room}%": {"placement": "paged", "frames": room} for room in ROOM}
MEMORY |= {each: {"placement": each} for each in ("mapped", "managed_demand")}


def of_graph(program, memory):
    of = graphs.where(workload=f"apps/{program}", **MEMORY[memory])
    return of.value(metric="kernel") or of.value(metric="first_kernel")


table(["", *GRAPHS], [[name, *(shown(of_graph(program, name)) for program in GRAPHS)] for name in MEMORY])

# %% [markdown]
# The other graphs, on two H200 hosts: GAP's Kronecker graph with as many vertices and edges, and
# [stand-ins](../../docs/graphs.md) for Friendster (14.4 GB of edges) and MOLIERE_2016 (26.7 GB). Page faults were
# measured without and with advice (`cudaMemAdvise`, the paper's *wm*).

# %%
others = readings.example(DATA / "graphs.jsonl.gz").where(scale=27, metric="kernel")
OTHERS = ("kronecker", "friendster-like", "moliere-like")
FAULTS = ("managed_demand", "managed_advise")


def over_paged(times):
    """UVM, the faster of its two, over paging by the GPU; None where one is missing."""
    uvm = [times[name] for name in FAULTS if times.get(name)]
    return over(min(uvm, default=None), times.get("paged"))


def of_other(graph, program):
    """Seconds by placement."""
    of = others.where(workload=f"apps/{program}", graph=graph)
    return {name: value for name in ("paged", *FAULTS) if (value := of.value(placement=name)) is not None}


rows = [
    [graph, program, *(shown(of.get(name)) for name in ("paged", *FAULTS)), ratio(over_paged(of))]
    for graph in OTHERS
    for program in GRAPHS
    if (of := of_other(graph, program))
]
table(["graph", "", "paged", *FAULTS, "page faults / paged"], rows)

# %% [markdown]
# ## Figure 11: number of queues
#
# The same graph, with all edges in pages of 4 KiB that a relay on a second H100 fetches, by the relay's number of
# blocks. Below: pages in random order through a relay, on two H200s. The paper's queues are those of its NICs: both
# programs are fastest from 48 on.

# %%
QUEUES = (32, 128, 256)
relayed = readings.example(DATA.parent / "h100-x2/graphs.jsonl.gz").where(placement="paged", transport="relay")
alone = readings.example(DATA.parent / "h200-x2/transports.jsonl.gz").where(
    workload="paging/random", transport="relay", page=4096, frames=100, access="read", touched=100, passes=1
)
by_queues = {
    program: [relayed.value(workload=f"apps/{program}", queues=queues, metric="kernel") for queues in QUEUES]
    for program in ("bfs", "cc")
}
rows = [[name, *map(shown, times)] for name, times in by_queues.items()]
rows.append(["pages in random order", *(
    shown(alone.value(queues=queues, metric="rate"), "B/s") for queues in QUEUES
)])  # fmt: skip
table(["", *(f"{queues} queues" for queues in QUEUES)], rows)

# %%
Markdown(
    " ".join(
        f"With 32 queues {name} takes {times[0] / times[1]:.2f} times as long as with 128, with 256 "
        f"{times[2] / times[1]:.2f} times."
        for name, times in by_queues.items()
        if None not in times
    )
)

# %% [markdown]
# ## Figure 16: registers
# Registers of the kernels that read data that may be on pages, as compiled for sm_90. The plain kernels are the same in
# every other memory, including UVM. For a query, either all columns travel, or the column that selects rows is resident
# on the GPU. The paper's text has no numbers for its figure. It states that nothing spills, with UVM or with GPUVM.

# %%
own = os.environ.get(readings.DATA)
sources = [own] if own else [PROGRAMS_FILE, DATA.parent / "h100/graphs.jsonl.gz", DATA / "query.jsonl.gz"]
OF_PAPER = tuple(f"apps/{program}" for program in (*PROGRAMS, *GRAPHS, "query"))
measured = [each for each in reading.read_files(sources)[0] if each["workload"] in OF_PAPER]
registers = paging.registers(measured)
figure, axes = plots.panels(1, width=12, height=3.6)
plots.bars(axes[0], {name.replace(", ", ",\n"): of for name, of in registers.items()}, "1", title="registers a thread")

# %%
rows = [[name, of["plain"], of["paged"], f"{of['paged'] / of['plain']:.2f}"] for name, of in registers.items()]
table(["registers a thread", "plain, as by UVM", "paged", "over"], rows)

# %%
tables = programs.where(placement="paged", metric="table_bytes")
setup = programs.where(placement="paged", metric="paging_setup")
rows = [
    [program, PAGES[page], *(f"{tables.value(**case) / 2**20:.2f} MiB" for case in cases),
     " to ".join(shown(f(setup.value(**case) for case in cases)) for f in (min, max))]
    for program in PROGRAMS for page in (4096, 65536)
    if len(cases := [{"workload": f"apps/{program}", "page": page, "frames": room} for room in ROOM]) == 3
    and all(tables.value(**case) is not None for case in cases)
]  # fmt: skip
table(["tables on the GPU", "page", *(f"{room}%" for room in ROOM), "set-up"], rows)

# %%
local = sum(each.get("local_bytes") or 0 for case in measured for each in case["kernels"])
Markdown(
    f"Bytes of local memory in all kernels of these programs: {local}. The paper has up to 8 MB of tables; here they "
    "are a share of the pages, so smaller with larger pages."
)

# %% [markdown]
# ## Compared with the paper
#
# UVM is the faster of `managed_demand` and `managed_advise`, and GPUVM is `paged` with 4 KiB pages and frames for all;
# both are kernel times. *Less room* is a quarter of the frames.


# %%
def uvm_over_paged(program):
    of = passes(program, "kernel")
    return over_paged(of | {"paged": of.get("paged, 100%")})


def less_room(program):
    of = passes(program, "kernel")
    return of["paged, 25%"] / of["paged, 100%"] if {"paged, 25%", "paged, 100%"} <= set(of) else None


def of_graphs_over_paged(program):
    """The ratio of each graph by page faults to paged, where both were measured."""
    uniform = {"paged": of_graph(program, "paged, 100%"), "managed_demand": of_graph(program, "managed_demand")}
    every = {"uniform": uniform} | {graph: of_other(graph, program) for graph in OTHERS}
    return present({graph: over_paged(of) for graph, of in every.items()})


va = passes("va", "kernel").get("managed_demand")
by_graph = {program: of_graphs_over_paged(program) for program in GRAPHS}
ours = {
    "rate-one-nic": paged.get(4096),
    "rate-uvm": COMES["va"] / va if va else None,
    "rate-small-pages": paged[4096] / paged[2097152] if {4096, 2097152} <= set(paged) else None,
    "mvt-one-nic": uvm_over_paged("mvt"),
    "va": uvm_over_paged("va"),
    **{f"{program}-two-nics": uvm_over_paged(program) for program in ("mvt", "atax", "bicg")},
    **{f"{program}-limited": less_room(program) for program in ("mvt", "atax", "bicg")},
    **{program: mean(by_graph[program].values()) for program in ("bfs", "cc")},
}
figures = published.load("../data/published/gpuvm.csv")
rows = published.compared(figures, dict.fromkeys(figures) | ours)
display(rows)

# %%
figure, axes = plots.panels(1, width=11, height=3.4)
plots.comparison(axes[0], rows)


# %%
def means_of(program):
    return f"{program.upper()} is the mean of {', '.join(by_graph[program])}. " if by_graph[program] else ""


sssp = mean(by_graph["sssp"].values())
Markdown(
    f"{published.sentence(rows)} {means_of('bfs')}{means_of('cc')}"
    + (
        f"With room for all, SSSP takes {sssp:.1f} times as long by UVM, the mean of {len(by_graph['sssp'])} graphs. "
        if sssp
        else ""
    )
    + "Queries are in [paging](../../docs/paging.md). Subway itself is not measured, nor is anything with less GPU "
    "memory than managed data."
)
