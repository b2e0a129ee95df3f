# %% [markdown]
# # Transfer bandwidth
#
# For readers of "Evaluating Characteristics of CUDA Communication Primitives on High-Bandwidth Interconnects"
# (Comm|Scope, ICPE 2019): how fast bytes move between the memories of NVIDIA H200 hosts (PCIe 5 ×16) and between GPUs
# of one host (18 NVLinks each), compared with the paper's Figures 2 and 6 to 11. The paper measured POWER9 and POWER8
# with NVLink and Xeon with PCIe 3. All records of one figure of the paper come from one host: Figure 2 from one,
# Figures 6 and 7 from another, and Figures 8 to 11 from a third, which has two GPUs.
#
# The records are in [`papers/data`](../data/README.md), the paper's figures in
# [`published/commscope.csv`](../data/published/commscope.csv). Every number below is computed from these files.

# %%
from pathlib import Path

from IPython.display import Markdown, display

from isthmus import spelling, units
from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import transfers

DATA = Path("../data")
KiB, MiB, GiB = 2**10, 2**20, 2**30

one = readings.example(DATA / "h200/transfer.jsonl.gz").where(metric="rate")
caches = readings.example(DATA / "h200-ac574039/commscope.jsonl.gz").where(metric="rate")
of_two = readings.example(DATA / "h200-x2-8590ff01/commscope.jsonl.gz").where(metric="rate")
two = of_two.where(preset=None, cache=[None, "flushed"])
of_pair = readings.example(DATA / "h200-x2/transfer.jsonl.gz").where(metric="rate")
four = readings.example(DATA / "h200-x4/transfer.jsonl.gz").where(metric="rate")


def rate(path, bytes, of=one):
    return transfers.rate(of, path, bytes)


# %% [markdown]
# ## Figure 2: effect of CPU caches on a copy
#
# Comm|Scope flushes the caches of the host before each copy, and so do we. The same copies with the buffer left in the
# caches (`cache=warm`) show whether that matters here.

# %%
figure = transfers.caches(caches)


# %%
def warm_over_flushed(kind):
    """The smallest and the largest ratio of the rates over sizes, in words."""
    copies = caches.where(workload=f"transfer/{kind}-gpu0/ce")
    warm, flushed = (copies.by("bytes", cache=cache) for cache in ("warm", "flushed"))
    ratios = [rate / flushed[size] for size, rate in warm.items()]
    return f"{min(ratios):.0%} to {max(ratios):.0%}"


Markdown(
    "The paper's Figure 2 shows that flushing strongly influences some transfers. Here a copy to the GPU from buffers "
    f"that are in the caches is {warm_over_flushed('pinned')} as fast as from flushed ones if they are page-locked, "
    f"and {warm_over_flushed('pageable')} as fast if they are pageable."
)

# %% [markdown]
# ## Figure 6: pageable memory
#
# A copy of pageable memory has two parts: the processor copies into the driver's page-locked buffers, and the copy
# engine reads these. The first part limits the rate.

# %%
figure = transfers.pageable(one)

# %% [markdown]
# ## Copies by the runtime between all kinds of memory
#
# 1 GiB, `cudaMemcpy`. Copies between two host memories and copies of managed memory were measured later, on another of
# the hosts; copies between pageable and page-locked memory were measured on both.

# %%
figure = transfers.between_kinds(one)

# %%
cells = transfers.matrix(one)
within = [value for pair, value in cells.items() if not {"gpu0", "managed"} & set(pair)]
left = readings.example(DATA / "h200/transfer.jsonl.gz").where(metric="pages_moved", bytes=GiB)
moved = [left.value(workload=f"transfer/managed-{end}") for end in ("gpu0/ce", "pinned/runtime", "pageable/runtime")]
Markdown(
    f"A copy between plain host memories is one thread's work, {min(within) / 1e9:.1f} to {max(within) / 1e9:.1f} "
    "GB/s, whether page-locked or not; only page-locked memory and the GPU reach the link's rate. Out of managed "
    f"memory it is {cells['managed', 'gpu0'] / 1e9:.1f} GB/s to the GPU, for the pages migrate: after a copy to the "
    f"GPU, to page-locked and to pageable memory at least {min(moved):.0%} of them have left the host."
)

# %% [markdown]
# ## Figure 7: both ways at once

# %%
figure = transfers.both_ways(one)

# %%
gains = {
    kind: of["both at once, sum"] / max(of["to the GPU"], of["from the GPU"])
    for kind, of in transfers.duplex(one).items()
}
locked = [gains[kind] for kind in ("pinned", "registered", "write_combined")]
Markdown(
    f"Page-locked memory, however it came to be, copies ×{min(locked):.2f} to ×{max(locked):.2f} as much both ways at "
    f"once; pageable ×{gains['pageable']:.2f} and managed memory ×{gains['managed']:.2f}, as Comm|Scope says of "
    "pageable memory: the processor is what bounds them, not the link."
)

# %% [markdown]
# ## Figure 8: between GPUs, with peer access and without

# %%
figure = transfers.peers(two, four)

# %% [markdown]
# ## Figure 9: kernels that read and write host memory

# %%
figure = transfers.zero_copy(two)

# %% [markdown]
# ## Figures 10 and 11: managed memory, by page faults and by prefetch

# %%
figure = transfers.managed(two)

# %%
one_thread = two.where(threads=[None, 1])
large = {
    way: {kind: rate(f"{path}/{kind}", GiB, one_thread) for kind in ("prefetch", "fault")}
    for way, path in {"in": "managed-gpu0", "out": "gpu0-managed"}.items()
}
Markdown(
    f"To the GPU a prefetch of 1 GiB nearly reaches the rate of a copy of page-locked memory "
    f"({large['in']['prefetch'] / 1e9:.0f} GB/s) and is {large['in']['prefetch'] / large['in']['fault']:.1f} times as "
    f"fast as page faults ({large['in']['fault'] / 1e9:.1f} GB/s). Back to the host both are slow: "
    f"{large['out']['prefetch'] / 1e9:.1f} GB/s by prefetch and {large['out']['fault'] / 1e9:.1f} GB/s by page faults "
    "of one thread."
)

# %% [markdown]
# The same two figures in Comm|Scope's own geometry (`--preset paper-commscope`: 256 blocks of 256 threads, one byte
# written per page):

# %%
commscope = of_two.where(preset="paper-commscope")
WAYS = {
    "kernels read registered memory": "registered-gpu0/sm-read", "kernels write it": "gpu0-registered/sm-write",
    "page faults to the GPU": "managed-gpu0/fault", "page faults back, one thread": "gpu0-managed/fault",
}  # fmt: skip
lines = ["| | least | 1 MiB | 8 GiB |", "|---|---|---|---|"]
for words, path in WAYS.items():
    of = commscope.where(workload=f"transfer/{path}").by("bytes")
    least = min(of, default=0)
    cells = [f"{of[size] / 1e9:.2f} GB/s" if size in of else "-" for size in (least, MiB, 8 * GiB)]
    lines.append(f"| {words} | {cells[0]} ({least} B) | {cells[1]} | {cells[2]} |")
Markdown("\n".join(lines))

# %% [markdown]
# Figure 10 b, d and f: page faults back to the host by several host threads, whole pages written.

# %%
figure = transfers.host_threads(two)

# %%
back = two.where(workload="transfer/gpu0-managed/fault", touch="whole")
THREADS = back.values("threads")
lines = ["| | " + " | ".join(spelling.counted(count, "thread") for count in THREADS) + " |"]
lines.append("|---" * (1 + len(THREADS)) + "|")
for size in back.values("bytes"):
    of = back.where(bytes=size).by("threads")
    cells = [f"{of[count] / 1e9:.2f} GB/s" if count in of else "-" for count in THREADS]
    lines.append(f"| {units.byte_text(size)} | " + " | ".join(cells) + " |")
Markdown("\n".join(lines))

# %% [markdown]
# ## Table 1: transfers that are measured
#
# The rows of the paper's table, and the rate of each at 1 GiB, the only size that all of them have. The records are
# from several hosts; the paper's NUMA rows are missing, because each host has one NUMA node.

# %%
every = [of.where(bytes=GiB, touch=[None, "whole"], threads=[None, 1]) for of in (one, two, of_pair)]
COVERED = {
    "pageable, explicit": ("pageable-gpu0/ce", "gpu0-pageable/ce", "pageable-gpu0/ce-duplex"),
    "pinned, explicit": ("pinned-gpu0/ce", "gpu0-pinned/ce", "pinned-gpu0/ce-duplex"),
    "mapped, zero-copy": ("mapped-gpu0/sm-read", "gpu0-mapped/sm-write", "mapped-gpu0/sm-read-duplex"),
    "device, zero-copy": ("gpu0-gpu1/sm-read", "gpu0-gpu1/sm-write", "gpu0-gpu1/sm-read-duplex"),
    "device, explicit, peer access": ("gpu0-gpu1/ce", "gpu1-gpu0/ce", "gpu0-gpu1/ce-duplex"),
    "device, explicit, no peer access": ("gpu0-gpu1/ce-nopeer", "gpu1-gpu0/ce-nopeer", "gpu0-gpu1/ce-nopeer-duplex"),
    "managed, page faults": ("managed-gpu0/fault", "gpu0-managed/fault", "managed-gpu0/fault-duplex"),
    "managed, page faults between GPUs": ("gpu0-gpu1/fault", "gpu1-gpu0/fault", "gpu0-gpu1/fault-duplex"),
    "managed, prefetch": ("managed-gpu0/prefetch", "gpu0-managed/prefetch", "managed-gpu0/prefetch-duplex"),
    "managed, prefetch between GPUs": ("gpu0-gpu1/prefetch", "gpu1-gpu0/prefetch", "gpu0-gpu1/prefetch-duplex"),
}
lines = ["| transfer | one way | the other way | both at once |", "|---|---|---|---|"]
for words, paths in COVERED.items():
    rates = [next((value for of in every if (value := rate(path, GiB, of)) is not None), None) for path in paths]
    lines.append(f"| {words} | " + " | ".join(units.quantity(value, "B/s") for value in rates) + " |")
Markdown("\n".join(lines))

# %% [markdown]
# ## Compared with the paper
#
# Ratios are at the same size, 1 GiB unless stated; *intermediate* is 32 MiB. Between 4 KiB and 32 MiB the largest
# ratio represents all sizes. The paper's remote processor is missing here (one NUMA node). Page faults of the host are
# those of the number of threads that is fastest at 1 GiB.

# %%
middle = [size for size in transfers.sizes(two, "pinned-gpu0/ce") if 4 * KiB <= size < 32 * MiB]
fastest = max(back.where(bytes=GiB).by("threads").values())
rows = published.compared(published.load(DATA / "published/commscope.csv"), {
    "pinned-share": one.share(workload="transfer/pinned-gpu0/ce", bytes=GiB),
    "pinned-rate": rate("pinned-gpu0/ce", GiB),
    "pinned-remote": None,
    "pageable-pinned": rate("pageable-gpu0/ce", GiB) / rate("pinned-gpu0/ce", GiB),
    "pageable-staging": rate("pageable-gpu0/ce", GiB) / rate("pageable-pinned/runtime", GiB),
    "duplex-pinned": gains["pinned"],
    "duplex-pageable": gains["pageable"],
    "peer-ratio": rate("gpu0-gpu1/ce", GiB, two) / rate("gpu0-gpu1/ce-nopeer", GiB, two),
    "peer-gain": rate("gpu0-gpu1/ce", GiB, two) - rate("gpu0-gpu1/ce-nopeer", GiB, two),
    "zero-copy-read": rate("mapped-gpu0/sm-read", 32 * MiB, two) / rate("pinned-gpu0/ce", 32 * MiB, two),
    "zero-copy-write": rate("gpu0-mapped/sm-write", 32 * MiB, two) / rate("gpu0-pinned/ce", 32 * MiB, two),
    "zero-copy-large": rate("mapped-gpu0/sm-read", GiB, two) / rate("mapped-gpu0/sm-read", 32 * MiB, two),
    "fault-in": rate("managed-gpu0/fault", GiB, two) / rate("pageable-gpu0/ce", GiB, two),
    "fault-out": fastest / rate("gpu0-pageable/ce", GiB, two),
    "prefetch-large": rate("managed-gpu0/prefetch", GiB, two) / rate("pinned-gpu0/ce", GiB, two),
    "prefetch-middle": max(
        rate("managed-gpu0/prefetch", n, two) / rate("pinned-gpu0/ce", n, two) for n in middle
    ),
})  # fmt: skip
display(rows)

# %%
figure, axes = plots.panels(1, width=11, height=2.4)
plots.comparison(axes[0], rows)

# %%
Markdown(published.sentence(rows))
