# %% [markdown]
# # Transfer bandwidth
#
# For readers of "Evaluating Characteristics of CUDA Communication Primitives on High-Bandwidth Interconnects"
# (Comm|Scope, ICPE 2019): how fast bytes move between the memories of one NVIDIA H200 host (PCIe 5 ×16) and between
# GPUs of one host (18 NVLinks each), compared with the paper's Figures 2 and 6 to 11. The paper measured POWER9 and
# POWER8 with NVLink and Xeon with PCIe 3.
#
# The records are in [`papers/data`](../data/README.md), the paper's figures in
# [`published/commscope.csv`](../data/published/commscope.csv). Every number below is computed from these files.

# %%
from pathlib import Path

from IPython.display import Markdown, display

from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import transfers

DATA = Path("../data")
KiB, MiB, GiB = 2**10, 2**20, 2**30

one = readings.example(DATA / "h200/transfer.jsonl.gz").where(metric="rate")
pitfalls = readings.example(DATA / "h200/pitfalls.jsonl.gz").where(metric="rate")
two = readings.example(DATA / "h200-x2/transfer.jsonl.gz").where(metric="rate")
four = readings.example(DATA / "h200-x4/transfer.jsonl.gz").where(metric="rate")


def rate(path, bytes, of=one):
    return transfers.rate(of, path, bytes)


def sizes(path):
    return transfers.sizes(one, path)


# %% [markdown]
# ## Figure 2: effect of CPU caches on a copy
#
# Comm|Scope flushes the caches of the host before each copy, and so do we. The same copies with the buffer left in the
# caches (`cache=warm`) show whether that matters here.

# %%
figure = transfers.caches(pitfalls)

# %%
warm = {
    (workload, size): pitfalls.value(workload=f"transfer/{workload}", bytes=size, cache="warm")
    / pitfalls.value(workload=f"transfer/{workload}", bytes=size, cache="flushed")
    for workload in ("pinned-gpu0/ce", "gpu0-pinned/ce")
    for size in (64 * KiB, MiB, 32 * MiB)
}
Markdown(
    "Their Figure 2 shows that flushing strongly influences some transfers. Here a copy engine reads "
    f"{min(warm.values()):.0%} to {max(warm.values()):.0%} as fast with the buffer in the caches as with it flushed: "
    + ("it hardly matters for page-locked memory." if max(warm.values()) < 1.15 else "it matters.")
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
figure = transfers.zero_copy(one)

# %% [markdown]
# ## Figures 10 and 11: managed memory, by page faults and by prefetch

# %%
figure = transfers.managed(one)

# %%
large = {
    way: {kind: rate(f"{path}/{kind}", GiB) for kind in ("prefetch", "fault", "ce")}
    for way, path in {"in": "managed-gpu0", "out": "gpu0-managed"}.items()
}
Markdown(
    f"To the GPU a prefetch of 1 GiB comes near a copy of page-locked memory ({large['in']['prefetch'] / 1e9:.0f} "
    f"GB/s), six times as fast as page faults ({large['in']['fault'] / 1e9:.1f}) or a copy out of the managed memory "
    f"itself ({large['in']['ce'] / 1e9:.1f}). Back to the host all are slow: {large['out']['prefetch'] / 1e9:.1f}, "
    f"{large['out']['fault'] / 1e9:.1f} and, as a copy into managed memory, {large['out']['ce'] / 1e9:.1f} GB/s."
)

# %% [markdown]
# The same two figures in Comm|Scope's own geometry (`--preset paper-commscope`: 256 blocks of 256 threads, one byte
# written per page) on an H100: registered memory in two processes, page faults in one.

# %%
commscope = readings.example(DATA / "h100/memory.jsonl.gz").where(metric="rate", preset="paper-commscope")
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
# Page faults back to the host by several host threads, whole pages written, on a host of two H100s (Figure 10 b, d, f):

# %%
threaded = readings.example(DATA / "h100-x2/memory.jsonl.gz").where(
    workload="transfer/gpu0-managed/fault", metric="rate", touch="whole", preset=None
)
THREADS = [count for count in threaded.values("threads") if count > 1]
lines = ["| | " + " | ".join(f"{count} threads" for count in THREADS) + " |", "|---" * (1 + len(THREADS)) + "|"]
for size in threaded.values("bytes"):
    of = threaded.where(bytes=size).by("threads")
    cells = [f"{of[count] / 1e9:.2f} GB/s" if count in of else "-" for count in THREADS]
    lines.append(f"| {size // KiB} KiB | " + " | ".join(cells) + " |")
Markdown("\n".join(lines))

# %% [markdown]
# ## Compared with the paper
#
# Ratios are at the same size, 1 GiB unless stated; *intermediate* is 32 MiB. Between 4 KiB and 32 MiB the largest
# ratio represents all sizes. The paper's remote processor is missing here (one NUMA node). A copy to pageable memory
# is missing on the host whose page faults by several threads are shown above.

# %%
middle = [size for size in sizes("pinned-gpu0/ce") if 4 * KiB <= size < 32 * MiB]
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
    "zero-copy-read": rate("mapped-gpu0/sm-read", 32 * MiB) / rate("pinned-gpu0/ce", 32 * MiB),
    "zero-copy-write": rate("gpu0-mapped/sm-write", 32 * MiB) / rate("gpu0-pinned/ce", 32 * MiB),
    "zero-copy-large": rate("mapped-gpu0/sm-read", GiB) / rate("mapped-gpu0/sm-read", 32 * MiB),
    "fault-in": rate("managed-gpu0/fault", GiB) / rate("pageable-gpu0/ce", GiB),
    "fault-out": None,
    "prefetch-large": rate("managed-gpu0/prefetch", GiB) / rate("pinned-gpu0/ce", GiB),
    "prefetch-middle": max(rate("managed-gpu0/prefetch", n) / rate("pinned-gpu0/ce", n) for n in middle),
})  # fmt: skip
display(rows)

# %%
figure, axes = plots.panels(1, width=11, height=2.4)
plots.comparison(axes[0], rows)

# %%
Markdown(published.sentence(rows))
