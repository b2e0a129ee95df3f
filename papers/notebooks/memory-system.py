# %% [markdown]
# # The memory system
#
# For readers of "Dissecting CPU-GPU Unified Physical Memory on AMD MI300A APUs" (2025) and for anybody who needs the
# latency, bandwidth, atomics, allocators and page faults of an NVIDIA H200 host (or an H100 host, where a section says
# so). The notebook compares them with the paper's Figures 2 to 10. In the paper CPU and GPU share one memory; here a
# PCIe 5 link connects two memories. So absolute figures are only shown next to each other, and ratios are compared.
#
# The records are in `h200` and `h100` of [`papers/data`](../data/README.md), the paper's figures in
# [`published/mi300a.csv`](../data/published/mi300a.csv). The paper's geometry is used wherever there are records of it
# (presets `paper-fig2`, `paper-fig3`, `paper-fig6` to `paper-fig8`).

# %%
import functools
from math import prod
from pathlib import Path

from IPython.display import Markdown, display

from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import memory

DATA = Path("../data/h200")
KiB, MiB, GiB = 2**10, 2**20, 2**30

paper = published.load("../data/published/mi300a.csv")
chases = readings.example(DATA / "latency-fig2.jsonl.gz", DATA / "latency.jsonl.gz")
stream = readings.example(DATA / "stream.jsonl.gz").where(metric="rate")
LARGE = DATA.parent / "h100/memory.jsonl.gz"  # what the hosts of the H200 were not asked for
large = readings.example(LARGE)
atomics = readings.Readings([
    *readings.example(DATA.parent / "h200-x2-b8d34e37/atomics.jsonl.gz").found,
    *readings.example(DATA / "atomics.jsonl.gz").where(workload="atomics/gpu0/shared-histogram").found,
])  # fmt: skip
allocating = readings.example(DATA / "alloc.jsonl.gz", LARGE)
faults = readings.example(DATA / "fault.jsonl.gz", LARGE)
copies = readings.example(DATA / "transfer.jsonl.gz").where(metric="rate", bytes=GiB)

# %% [markdown]
# ## Figure 2: latency by size
#
# 1 KiB to 4 GiB, one access every 256 bytes as in the paper. From the GPU, `static` (`__managed__`) variables end at
# 512 MiB. Right: 1 GiB of every memory with records, from both sides.

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
# 256 MiB on the GPU and 610 MiB on the CPU, as in the paper. Here each GPU access to `mapped`, `registered` and
# `write_combined` memory crosses the link; on the MI300A it does not.

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
# ## Figures 4 and 5: atomics from one side and from both at once
#
# Updates per second of a histogram with 2⁰ to 2³⁰ bins, on one H200 host. In the runs with both sides at once, up to
# 2²⁰ bins, from another host, both update the same managed memory, which has to move back and forth; the MI300A's
# memory does not move.

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
# f64 by number of threads on both sides, on one H200 host. In the paper the GPU loses nothing with 1 M bins. With 1 K
# bins it keeps 79% or more, and the CPU keeps 11% to 25% next to 3328 or more GPU threads.

# %%
at_once = readings.example(DATA.parent / "h200-ac574039/atomics.jsonl.gz")
figure = memory.atomics_by_threads(at_once)

# %%
by_side = memory.at_once_by_threads(at_once, "f64")
millions = [
    share for case, of in by_side["GPU"].items() if case.startswith(memory.BINS[2**20]) for share in of.values()
]
mean_of_millions = prod(millions) ** (1 / len(millions)) if millions else None


def kept(side, digits):
    found = [share for of in by_side[side].values() for share in of.values()]
    return f"{min(found):.{digits}%} to {max(found):.{digits}%}"


Markdown(
    f"Of what it does alone the CPU keeps {kept('CPU', 2)} here, and the GPU {kept('GPU', 1)}. With 2²⁰ bins it is "
    f"{mean_of_millions:.1%} for the GPU (geometric mean; the MI300A's is {paper['together-gpu-1M-f64'].low:.0%}). The "
    "memory is managed, so a page moves to whoever updates it."
)

# %% [markdown]
# ## Figure 6: allocation
#
# The call alone, without the first touch. Right: the paper's geometry, but with 24 blocks at once on H100 hosts,
# because a hundred do not fit.

# %%
figure = memory.allocation(allocating)
lines = memory.allocations(allocating)
blocks = memory.large_blocks(allocating)

# %%
Markdown(
    f"A block of 1 GiB takes {blocks['device']['allocate'] * 1e3:.1f} ms of device memory, "
    f"{blocks['pinned']['allocate'] * 1e3:.0f} ms page-locked, and {blocks['managed']['allocate'] * 1e6:.0f} µs "
    "managed, since managed memory is found when it is touched. The paper has "
    f"{paper['device-1GiB'].low * 1e3:.0f} ms, and {paper['pinned-1GiB'].low * 1e3:.0f} to "
    f"{paper['pinned-1GiB'].high * 1e3:.0f} ms for the other two. Page-locked memory is freed in "
    f"{blocks['pinned']['free'] * 1e3:.0f} ms."
)

# %% [markdown]
# ## Figures 7 and 8: page faults
#
# *Minor* page faults of the GPU, on pages that the CPU has touched, do not exist here: such pages migrate over the
# link, which is a different operation and is drawn separately. The CPU reads a page, as in the paper; when it writes
# one (`fault/cpu/anonymous`), memory must also be found and cleared. Right: as many pages as at the end of the paper's
# curves, on an H100.

# %%
figure = memory.faults(faults)
managed = faults.where(memory="managed", pages="small", preset=None)
single = memory.single_faults(faults)

# %%
many = memory.many_faults(faults)
of_small = {
    "GPU, untouched": managed.value(workload="fault/gpu0/major", metric="rate", at_once=65536),
    "one core": faults.value(workload="fault/cpu/zero-page", metric="rate", threads=1, at_once=4096),
    "all cores": faults.value(workload="fault/cpu/zero-page", metric="rate", threads=16, at_once=4096),
}
Markdown(
    "The paper's curves end in a plateau. Here "
    + "; ".join(
        f"{memory.MANY[name][2] >> 20} Mi pages ({name}) come at {rate / 1e6:.2f} M a second, "
        f"{rate / of_small[name]:.2f} times as fast as the last point at the left, which is of another host"
        for name, rate in many.items()
    )
    + "."
)

# %% [markdown]
# ## Figure 10: page faults of the CPU in STREAM
#
# Ten passes of triad by the CPU of an H100 host over three arrays of 610 MiB: page faults until the arrays are written,
# in the first pass, and in nine more passes ([metrics](../../docs/memory-bandwidth.md#page-faults-of-the-cpu)).
# `hipMalloc` memory used from the CPU has no counterpart here.

# %%
in_stream = memory.stream_faults(large)
total = {name: sum(parts.values()) for name, parts in in_stream.items()}
bars = {name.replace(", ", ",\n"): {"faults": count} for name, count in total.items()}
figure, axes = plots.panels(1, width=11, height=4)
plots.bars(axes[0], bars, "1", log=True, title="page faults of the CPU, triad, ten passes")

# %%
Markdown("\n".join([
    f"| | {' | '.join(memory.RUN)} |", f"|---|{'---|' * len(memory.RUN)}",
    *(f"| {name} | {' | '.join(f'{parts[part]:,.0f}' for part in memory.RUN)} |" for name, parts in in_stream.items()),
]))  # fmt: skip

# %%
Markdown(
    f"malloc faults once for every small page ({total['malloc']:,.0f} faults; the paper has "
    f"{paper['cpu-faults-malloc'].low:,.0f}). Managed memory, which faults there as often as malloc with XNACK, faults "
    f"{total['malloc'] / total['managed, cpu first']:.0f} times less often here: the driver brings many pages with one "
    "fault. If the GPU touched them first, the faults are in the first pass of the CPU, since pages come back then. "
    f"Page-locked memory, `mapped` and `registered`, has as many as malloc ({total['mapped, cpu first']:,.0f}), all "
    f"before the first pass. The MI300A's `hipHostMalloc` has {paper['cpu-faults-pinned'].low:,.0f} to "
    f"{paper['cpu-faults-pinned-gpu'].high:,.0f}, since it comes in larger pieces. No memory faults in later passes."
)

# %% [markdown]
# ## Compared with the paper
#
# Figure 9 (TLB misses) comes from a profiler counter on AMD's GPUs; there is no such record here
# ([how to make one](../../docs/memory.md)).

# %%
gpu, cpu = latency["GPU", "managed"], latency["CPU", "managed"]
host = [rate for memory, rate in gpu_triad.items() if memory in ("mapped", "registered")]
own_exhibits = [name for name, each in paper.items() if each.figure != "11"]  # that is in applications
rows = published.compared(paper, dict.fromkeys(own_exhibits) | {
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
    "together-gpu-1M-f64": mean_of_millions,
    "together-cpu-1K": together("cpu_relative", 1024),
    "together-gpu-1K": together("gpu_relative", 1024),
    "together-cpu-1M": together("cpu_relative", 1048576),
    "together-gpu-1M": together("gpu_relative", 1048576),
    "malloc-32B": lines["pageable"][32],
    "device-16KiB": lines["device"][4096],
    "pinned-16KiB": lines["pinned"][4096],
    "device-1GiB": blocks["device"]["allocate"],
    "pinned-1GiB": blocks["pinned"]["allocate"],
    "fastest-allocator": lines["pageable"][32] / min(lines[k][32] for k in lines if k not in ("pageable", "mmap")),
    "fault-gpu-major": many["GPU, untouched"],
    "fault-cpu-1": many["one core"],
    "fault-cpu-12": many["all cores"],
    "cpu-faults-malloc": total["malloc"],
    "cpu-faults-managed": total["managed, cpu first"],
    "cpu-faults-pinned": total["mapped, cpu first"],
    "cpu-faults-pinned-gpu": total["mapped, gpu first"],
    "latency-fault-cpu": single["one core"].value(metric="time"),
    "latency-fault-major": single["GPU, untouched"].value(metric="time"),
    "latency-fault-cpu-p95": single["one core"].value(metric="p95"),
    "latency-fault-major-p95": single["GPU, untouched"].value(metric="p95"),
    "latency-fault-ratio": single["GPU, untouched"].value(metric="time") / single["one core"].value(metric="time"),
})  # fmt: skip
display(rows)

# %%
figure, axes = plots.panels(1, width=11, height=6)
plots.comparison(axes[0], rows)

# %%
Markdown(published.sentence(rows))
