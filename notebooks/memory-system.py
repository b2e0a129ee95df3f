# %% [markdown]
# # The memory system
#
# Latency, bandwidth, atomics, allocators and page faults of one NVIDIA H200 host, beside Figures 2 to 10 of
# "Dissecting CPU-GPU Unified Physical Memory on AMD MI300A APUs" (2025). Theirs is one memory that CPU and GPU
# share; here a PCIe 5 link lies between two. So absolute figures stand beside each other, and what is judged are
# ratios.
#
# The records are in [`analysis/data/h200`](../analysis/data/README.md), the paper's figures in
# [`published/mi300a.csv`](../analysis/data/published/mi300a.csv). The paper's geometry is used wherever records of
# it exist (presets `paper-fig2`, `paper-fig3`, `paper-fig8`).

# %%
import functools
from pathlib import Path

from IPython.display import Markdown

from isthmus.figures import memory, plots
from isthmus.references import published
from isthmus.tables import readings

DATA = Path("../analysis/data/h200")
KiB, MiB, GiB = 2**10, 2**20, 2**30

paper = published.load("../analysis/data/published/mi300a.csv")
chases = readings.example(DATA / "latency-fig2.jsonl.gz", DATA / "latency.jsonl.gz")
stream = readings.example(DATA / "stream.jsonl.gz").where(metric="rate")
atomics = readings.example(DATA / "atomics.jsonl.gz")
allocating = readings.example(DATA / "alloc.jsonl.gz")
faults = readings.example(DATA / "fault.jsonl.gz")
copies = readings.example(DATA / "transfer.jsonl.gz").where(metric="rate", bytes=GiB)

# %% [markdown]
# ## Figure 2: latency by size
#
# 1 KiB to 4 GiB, one access every 256 bytes as in the paper. `static` (`__managed__`) variables end at 512 MiB from the
# GPU. Right: 1 GiB of every memory that we have records of, from both sides.

# %%
stated = {name: each for name, each in paper.items() if name.startswith("gpu-latency")}
figure = memory.latency(chases, {
    int(float(name.removeprefix("gpu-latency-")[:-3]) * {"K": KiB, "M": MiB, "G": GiB}[name[-3]]):
        (each.low, each.high or each.low) for name, each in stated.items()
})  # fmt: skip

# %%
latency = memory.latencies(chases)
own = [latency["GPU", name] for name in ("device", "managed", "static")]
apart = max(max(of[n] for of in own) / min(of[n] for of in own) for n in own[-1])
pinned, device = latency["GPU", "pinned"], latency["GPU", "device"]
far = [of[4 * GiB] * 1e9 for (side, _), of in latency.items() if side == "CPU"]
Markdown(
    f"The GPU does not tell device, managed and static memory apart ({apart - 1:.1%} at most, once managed pages are "
    f"there), as on the MI300A: {device[KiB] * 1e9:.0f} ns, {device[MiB] * 1e9:.0f} ns and "
    f"{device[4 * GiB] * 1e9:.0f} ns from its L1, its L2 and its memory. Host memory it keeps in its L1 too "
    f"({pinned[KiB] * 1e9:.0f} ns); beyond that each access goes over the link, {pinned[MiB] * 1e6:.2f} µs, at 4 GiB "
    f"{pinned[4 * GiB] * 1e6:.2f} µs. The CPU sees {min(far):.0f} to {max(far):.0f} ns at 4 GiB, whoever allocated; "
    "of each there is one run, so an order among these says nothing."
)

# %% [markdown]
# ## Figure 3: triad by allocator
#
# 256 MiB on the GPU and 610 MiB on the CPU, as in the paper. What one access of `mapped`, `registered` and
# `write_combined` memory costs the GPU here is a way over the link; on the MI300A it is not.

# %%
figure = memory.triad(stream)

# %%
gpu_triad, cpu_triad = (memory.triads(stream, side) for side in ("gpu", "cpu"))
by_threads = memory.triads_by_threads(stream)
past = by_threads["past the caches"]
Markdown(
    "For the GPU the four kinds of its own memory are alike, static variables among them, where the MI300A's fall to "
    f"3%; what differs is host memory, {gpu_triad['device'] / gpu_triad['mapped']:.0f} times slower over the link. "
    f"For the CPU the allocator matters as little ({min(cpu_triad.values()) / 1e9:.0f} to "
    f"{max(cpu_triad.values()) / 1e9:.0f} GB/s). One thread reaches {past[1] / past[0]:.0%} of all, eight "
    f"{past[8] / past[0]:.0%}; stores past the caches, which need not read what they overwrite, gain "
    f"{past[0] / by_threads['through the caches'][0] - 1:.0%}."
)

# %% [markdown]
# ## Figures 4 and 5: atomics alone, and of both sides at once
#
# Updates a second of a histogram with 2⁰ to 2³⁰ bins (f64 to 2²⁰). At once, to 2²⁰, both sides update the same managed
# memory, which has to go to and fro; the MI300A's does not move.

# %%
figure = memory.atomics(atomics)

# %%
alone = functools.partial(memory.updates, atomics)
together = functools.partial(memory.at_once, atomics)
side = {name: {n: alone(name, n, "u64") for n in memory.BINS} for name in ("cpu", "gpu0")}
Markdown(
    f"One bin holds both up. From there the GPU gains up to 2²⁰ bins ({side['gpu0'][2**20] / 1e9:.0f} G updates a "
    f"second, in its L2) and falls to {side['gpu0'][2**30] / 1e9:.0f} G with 8 GiB of them in its memory; all cores "
    f"together make {side['cpu'][2**20] / 1e9:.2f} G and {side['cpu'][2**30] / 1e9:.2f} G. So the GPU is "
    f"{side['gpu0'][2**20] / side['cpu'][2**20]:.0f} and {side['gpu0'][2**30] / side['cpu'][2**30]:.0f} times as "
    "fast: the paper's *significantly higher* holds. That both may update at once without loss, as there, does not: "
    "pages move."
)

# %% [markdown]
# ## Figure 6: allocating
#
# The call alone, without the first touch.

# %%
figure = memory.allocation(allocating)
lines = memory.allocations(allocating)

# %% [markdown]
# ## Figures 7 and 8: page faults
#
# *Minor* faults of the GPU, of pages that the CPU has touched, do not exist here: such pages migrate over the link,
# which is another thing and drawn apart. The CPU reads a page, as in the paper; for one that is written
# (`fault/cpu/anonymous`) memory has to be found and cleared as well.

# %%
figure = memory.faults(faults)
managed = faults.where(memory="managed", pages="small", preset=None)
single = memory.single_faults(faults)

# %% [markdown]
# ## Beside the paper
#
# Figures 9 (TLB misses) and 10 (page faults under STREAM) are counters of a profiler; no such record is here yet
# ([how to make one](../docs/memory.md)).

# %%
gpu, cpu = latency["GPU", "managed"], latency["CPU", "managed"]
host = [rate for memory, rate in gpu_triad.items() if memory in ("mapped", "registered")]
own_exhibits = [name for name, each in paper.items() if each.figure != "11"]  # that is in applications
rows = published.beside(paper, dict.fromkeys(own_exhibits) | {
    "gpu-latency-1KiB": gpu[KiB],
    "gpu-latency-1MiB": gpu[MiB],
    "gpu-latency-128MiB": gpu[128 * MiB],
    "gpu-latency-4GiB": gpu[4 * GiB],
    "cpu-latency-1KiB": cpu[KiB],
    "cpu-latency-4GiB": cpu[4 * GiB],
    "latency-cpu-gpu": cpu[4 * GiB] / gpu[4 * GiB],
    "latency-allocators": max(of[GiB // 2] for of in own) / min(of[GiB // 2] for of in own),
    "triad-best": gpu_triad["device"],
    "triad-best-share": stream.share(workload="stream/gpu0/triad", preset="paper-fig3", memory="device"),
    "triad-best-others": gpu_triad["device"] / min(host),
    "triad-static": gpu_triad["static"] / gpu_triad["device"],
    "triad-mapped": gpu_triad["mapped"],
    "triad-registered": gpu_triad["registered"],
    "triad-managed": gpu_triad["managed"],
    "triad-cpu": max(*cpu_triad.values(), *past.values()),
    "copy-host": copies.value(workload="transfer/pinned-gpu0/ce"),
    "copy-device": copies.value(workload="transfer/gpu0-gpu0/ce"),
    "atomics-cpu-types": alone("cpu", 1, "u64") / alone("cpu", 1, "f64"),
    "atomics-gpu-types": alone("gpu0", 1048576, "u64") / alone("gpu0", 1048576, "f64"),
    "atomics-gpu-cpu": alone("gpu0", 1048576, "u64") / alone("cpu", 1048576, "u64"),
    "together-cpu-1K": together("cpu_relative", 1024),
    "together-gpu-1K": together("gpu_relative", 1024),
    "together-cpu-1M": together("cpu_relative", 1048576),
    "together-gpu-1M": together("gpu_relative", 1048576),
    "malloc-32B": lines["pageable"][32],
    "device-16KiB": lines["device"][4096],
    "pinned-16KiB": lines["pinned"][4096],
    "fastest-allocator": lines["pageable"][32] / min(lines[k][32] for k in lines if k not in ("pageable", "mmap")),
    "fault-gpu-major": managed.value(workload="fault/gpu0/major", metric="rate", at_once=65536),
    "fault-cpu-1": faults.value(workload="fault/cpu/zero-page", metric="rate", threads=1, at_once=4096),
    "fault-cpu-12": faults.value(workload="fault/cpu/zero-page", metric="rate", threads=16, at_once=4096),
    "latency-fault-cpu": single["one core"].value(metric="time"),
    "latency-fault-major": single["GPU, untouched"].value(metric="time"),
    "latency-fault-cpu-p95": single["one core"].value(metric="p95"),
    "latency-fault-major-p95": single["GPU, untouched"].value(metric="p95"),
    "latency-fault-ratio": single["GPU, untouched"].value(metric="time") / single["one core"].value(metric="time"),
})  # fmt: skip
Markdown(published.markdown(rows))

# %%
figure, axes = plots.panels(1, width=11, height=6)
plots.beside(axes[0], rows)

# %%
Markdown(published.sentence(rows))
