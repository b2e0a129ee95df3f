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
from pathlib import Path

from IPython.display import Markdown

from isthmus import figures, published, readings

DATA = Path("../analysis/data/h200")
KiB, MiB, GiB = 2**10, 2**20, 2**30

chases = readings.load(DATA / "latency-fig2.jsonl.gz").where(metric="latency")
others = readings.load(DATA / "latency.jsonl.gz").where(metric="latency")
stream = readings.load(DATA / "stream.jsonl.gz").where(metric="rate")
atomics = readings.load(DATA / "atomics.jsonl.gz")
allocating = readings.load(DATA / "alloc.jsonl.gz").where(metric="alloc")
faults = readings.load(DATA / "fault.jsonl.gz")
copies = readings.load(DATA / "transfer.jsonl.gz").where(metric="rate", bytes=GiB)

# %% [markdown]
# ## Figure 2: latency by size
#
# Left: managed memory, 1 KiB to 4 GiB, one access every 256 bytes as in the paper. Right: 1 GiB of every memory that
# we have records of, from both sides.

# %%
figure, axes = figures.panels(2)
lines = {
    "GPU": chases.by("bytes", workload="latency/managed-gpu0/chase"),
    "CPU": chases.by("bytes", workload="latency/managed-cpu/chase"),
}
figures.curves(axes[0], lines, "s", title="managed memory", log=True)
both = {}
for name in ("device", "pool", "managed", "static", "mapped", "pinned", "malloc"):
    start = "gpu0" if name == "device" else name
    both[name] = {
        reader: value for reader, place in (("GPU", "gpu0"), ("CPU", "cpu"))
        if (value := others.value(workload=f"latency/{start}-{place}/chase", bytes=GiB)) is not None
    }  # fmt: skip
figures.bars(axes[1], both, "s", title="1 GiB", log=True)

# %% [markdown]
# ## Figure 3: triad by allocator
#
# 256 MiB on the GPU and 610 MiB on the CPU, as in the paper. What one access of `mapped`, `registered` and `wc`
# memory costs the GPU here is a way over the link; on the MI300A it is not.

# %%
figure, axes = figures.panels(2)
gpu_triad = stream.by("memory", workload="stream/gpu0/triad", preset="paper-fig3")
cpu_triad = stream.by("memory", workload="stream/gpu0/cpu-triad", preset="paper-fig3")
figures.bars(axes[0], {name: {"GPU": rate} for name, rate in gpu_triad.items()}, "B/s", title="GPU", log=True)
figures.bars(axes[1], {name: {"CPU": rate} for name, rate in cpu_triad.items()}, "B/s", title="CPU, all cores")

# %% [markdown]
# ## Figures 4 and 5: atomics alone, and of both sides at once
#
# Updates a second of a histogram with 2⁰, 2¹⁰ or 2²⁰ bins. At once, both sides update the same managed memory, which
# has to go to and fro; the MI300A's does not move.

# %%
figure, axes = figures.panels(3, width=12)
bins = {1: "2⁰", 1024: "2¹⁰", 1048576: "2²⁰"}


def alone(side, n, kind):
    more = {"scope": "system"} if side == "gpu0" else {"threads": 0}
    return atomics.value(workload=f"atomics/{side}/histogram", metric="rate", elements=n, type=kind, **more)


def together(metric, n, kind="u64"):
    return atomics.value(workload="atomics/gpu0/shared-histogram", metric=metric, elements=n, type=kind)


for axis, (side, title) in zip(axes, {"cpu": "CPU, all cores", "gpu0": "GPU"}.items()):
    rates = {word: {kind: alone(side, n, kind) for kind in ("u64", "f64")} for n, word in bins.items()}
    figures.bars(axis, rates, "1/s", title=title, log=True)
figures.bars(
    axes[2],
    {word: {side: together(f"{side.lower()}_relative", n) for side in ("CPU", "GPU")} for n, word in bins.items()},
    "1", title="at once over alone, u64", line=1,
)  # fmt: skip

# %% [markdown]
# ## Figure 6: allocating
#
# The call alone, without the first touch.

# %%
figure, axes = figures.panels(1, width=8, height=4)
kinds = ("malloc", "mmap", "device", "pool", "managed", "pinned", "registered", "vmm")
lines = {kind: allocating.by("bytes", workload=f"alloc/{kind}") for kind in kinds}
figures.curves(axes[0], lines, "s", log=True)

# %% [markdown]
# ## Figures 7 and 8: page faults
#
# *Minor* faults of the GPU, of pages that the CPU has touched, do not exist here: such pages migrate over the link,
# which is another thing and drawn apart.

# %%
figure, axes = figures.panels(2)
managed = faults.where(memory="managed", pages="small", preset=None)
figures.curves(axes[0], {
    "GPU, untouched": managed.by("at_once", workload="fault/gpu0/major", metric="rate"),
    "GPU, migrating": managed.by("at_once", workload="fault/gpu0/migration", metric="rate"),
    "one core": faults.by("at_once", workload="fault/cpu/anonymous", metric="rate", pages="small", threads=1),
    "16 cores": faults.by("at_once", workload="fault/cpu/anonymous", metric="rate", pages="small", threads=16),
}, "1/s", title="pages a second, by pages touched at once", log=True, of_bytes=False)  # fmt: skip
single = {
    "GPU, untouched": faults.where(workload="fault/gpu0/major", preset="paper-fig8"),
    "GPU, migrating": faults.where(workload="fault/gpu0/migration", preset="paper-fig8"),
    "one core": faults.where(workload="fault/cpu/anonymous", pages="small", threads=1, at_once=1),
}
figures.bars(axes[1], {
    name: {percentile: of.value(metric=percentile) for percentile in ("p50", "p95", "p99")}
    for name, of in single.items()
}, "s", title="one page at a time", log=True)  # fmt: skip

# %% [markdown]
# ## Beside the paper
#
# Figures 9 (TLB misses) and 10 (page faults under STREAM) are counters of a profiler; no such record is here yet
# ([how to make one](../docs/memory.md)).

# %%
gpu, cpu = (chases.by("bytes", workload=f"latency/managed-{side}/chase") for side in ("gpu0", "cpu"))
own = [others.value(workload=f"latency/{m}-gpu0/chase", bytes=GiB) for m in ("gpu0", "pool", "managed", "static")]
host = [rate for memory, rate in gpu_triad.items() if memory in ("mapped", "registered")]
figures_of = published.load(DATA.parent / "published/mi300a.csv")
rows = published.beside(figures_of, dict.fromkeys(figures_of) | {
    "gpu-latency-1KiB": gpu[KiB],
    "gpu-latency-1MiB": gpu[MiB],
    "gpu-latency-128MiB": gpu[128 * MiB],
    "gpu-latency-4GiB": gpu[4 * GiB],
    "cpu-latency-1KiB": cpu[KiB],
    "cpu-latency-4GiB": cpu[4 * GiB],
    "latency-cpu-gpu": cpu[4 * GiB] / gpu[4 * GiB],
    "latency-allocators": max(own) / min(own),
    "triad-best": gpu_triad["device"],
    "triad-best-share": stream.share(workload="stream/gpu0/triad", preset="paper-fig3", memory="device"),
    "triad-best-others": gpu_triad["device"] / min(host),
    "triad-static": gpu_triad["static"] / gpu_triad["device"],
    "triad-cpu": max(cpu_triad.values()),
    "copy-host": copies.value(workload="transfer/pinned-gpu0/ce"),
    "copy-device": copies.value(workload="transfer/gpu0-gpu0/ce"),
    "atomics-cpu-types": alone("cpu", 1, "u64") / alone("cpu", 1, "f64"),
    "atomics-gpu-types": alone("gpu0", 1048576, "u64") / alone("gpu0", 1048576, "f64"),
    "atomics-gpu-cpu": alone("gpu0", 1048576, "u64") / alone("cpu", 1048576, "u64"),
    "together-cpu-1K": together("cpu_relative", 1024),
    "together-gpu-1K": together("gpu_relative", 1024),
    "together-cpu-1M": together("cpu_relative", 1048576),
    "together-gpu-1M": together("gpu_relative", 1048576),
    "malloc-32B": lines["malloc"][32],
    "device-16KiB": lines["device"][4096],
    "pinned-16KiB": lines["pinned"][4096],
    "fastest-allocator": lines["malloc"][32] / min(lines[kind][32] for kind in kinds if kind not in ("malloc", "mmap")),
    "fault-gpu-major": managed.value(workload="fault/gpu0/major", metric="rate", at_once=65536),
    "fault-cpu-1": faults.value(
        workload="fault/cpu/anonymous", metric="rate", pages="small", threads=1, at_once=4096
    ),
    "fault-cpu-12": faults.value(
        workload="fault/cpu/anonymous", metric="rate", pages="small", threads=16, at_once=4096
    ),
    "latency-fault-cpu": single["one core"].value(metric="time"),
    "latency-fault-major": single["GPU, untouched"].value(metric="time"),
    "latency-fault-ratio": single["GPU, untouched"].value(metric="time") / single["one core"].value(metric="time"),
})  # fmt: skip
Markdown(published.markdown(rows))

# %%
Markdown(published.sentence(rows))
