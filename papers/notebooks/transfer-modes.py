# %% [markdown]
# # Transfer modes
#
# For readers of "Performance Implications of Pipelining the Data Transfer in CPU-GPU Heterogeneous Systems" (TACO
# 2025), and for anybody who has to choose a transfer mode: seven microbenchmarks in six modes on one NVIDIA H200 host,
# compared with the paper's Figures 3, 4 and 7 to 13 and section 8.1. The paper's machines B and C have an A100; D has
# an H100 with PCIe 5, which is nearest to ours.
#
# | mode | host memory | how tiles get into shared memory |
# |---|---|---|
# | baseline, async | pageable | direct, asynchronously |
# | uvm, uvm_async | managed, prefetched to the GPU | direct, asynchronously |
# | pm, pm_async | page-locked | direct, asynchronously |
#
# The records are in [`papers/data/h200`](../data/README.md), the paper's figures in
# [`published/pipelining.csv`](../data/published/pipelining.csv), converted to ratios of times: "48.13% improvement
# over baseline" is read as 48.13% less time, 0.519 of it. Bars and totals contain what the paper's contain: kernel,
# copies, and calls that allocate device or managed memory. They leave out page-locking, which is drawn separately
# below.

# %%
import functools
from pathlib import Path
from statistics import median

from IPython.display import Markdown, display

from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import counters, modes
from isthmus_papers.figures.modes import MODES, WORKLOADS
from isthmus_papers.figures.registry import mean, over, present

DATA = Path("../data/h200")

found = readings.example(*(DATA / f"{file}.jsonl" for file in ("smoke", "super", "mega", "paper-fig4")))


def total(size, workload, mode):
    return modes.total(found, size, workload, mode)


def over_baseline(size, mode, of=total):
    """The mean over the seven of the time relative to baseline."""
    return mean(of(size, workload, mode) / of(size, workload, "baseline") for workload in WORKLOADS)


# %% [markdown]
# ## Figure 3: how much runs vary
#
# Every sample of `paper_total` over its median, all seven workloads in one box. Each case ran in one process.


# %%
figure = modes.spread(found)


def spread_of(size):
    """The median, over workloads and modes, of the middle half's width relative to the median."""
    return median(
        modes.middle_half(of) / median(of)
        for workload in WORKLOADS
        for mode in MODES
        if (of := modes.samples(found, size, workload, mode))
    )


Markdown(f"Half of the samples lie within {spread_of('tiny'):.1%} at tiny, {spread_of('super'):.2%} at super.")

# %% [markdown]
# The paper starts its programs 30 times. At large (1 GiB per array) every sample below is from a separate process.
# There are 30 samples of saxpy in each mode, on one H100. Of the others there are 11 or 12 on that host and 20 on
# another.

# %%
HOSTS = {"one host": "repetition", "another": "repetition-second"}
repeated = {host: readings.example(DATA.parent / f"h100/{file}.jsonl.gz") for host, file in HOSTS.items()}
figure = modes.spread(repeated["one host"])

# %%
figure = modes.spread(repeated["another"])


# %%
def varies(of, mode, metric):
    """The median over workloads of the middle half's width, relative to the median of the whole."""
    cases = [modes.case(of, "large", workload, mode) for workload in WORKLOADS]
    wholes = {each: median(whole) for each in cases if (whole := each.samples(metric="paper_total"))}
    shares = [modes.middle_half(each.samples(metric=metric)) / whole for each, whole in wholes.items()]
    return f"{median(shares):.1%}" if shares else "-"


rows = [
    f"| {mode} | {host} | " + " | ".join(varies(of, mode, metric) for metric in ("paper_total", *modes.PHASES)) + " |"
    for mode in MODES
    for host, of in repeated.items()
]
Markdown(
    "Width of the middle half, of the whole and of its parts, over the whole's median; the median of the workloads.\n\n"
    "| | | whole | kernel | to the GPU | to the CPU | allocation |\n|---|---|---|---|---|---|---|\n" + "\n".join(rows)
)


# %%
def apart(mode):
    """Difference of the hosts' total medians: the median over the workloads that both have."""
    medians = [
        [median(modes.samples(of, "large", workload, mode) or [0]) for of in repeated.values()]
        for workload in WORKLOADS
    ]
    return median(abs(b / a - 1) for a, b in medians if a and b)


Markdown("Medians of the two hosts are apart by " + ", ".join(f"{apart(mode):.1%} in {mode}" for mode in MODES) + ".")

# %% [markdown]
# Kernels take the same time in every process. Copies of pageable memory, and copies of managed memory to the CPU, do
# not, and they make up most of the time. Page-locked memory varies least. How much runs vary is a property of the host.

# %% [markdown]
# ## Figure 4: where the time goes
#
# Relative to baseline; from the bottom: kernel, copies, allocation.

# %%
figure = modes.where_time_goes(found)

# %% [markdown]
# The same at mega, with page-locking and everything else from the first allocation to the last free (`wall`).
# Page-locking costs several times what pinned memory saves in one pass over the data.

# %%
figure = modes.wall(found)

# %% [markdown]
# ## Effect of asynchronous staging on a kernel
#
# In the paper's geometry (64 blocks of 256 threads) half of an H200's multiprocessors are idle. With a full grid, other
# blocks hide the waits that the asynchronous copy would hide. Values above 1 are slower than direct staging.

# %%
figure = modes.staging(found)

# %% [markdown]
# The paper's geometry at super, on another H200, relative to baseline: the kernel, and the whole without allocation.

# %%
papers = readings.example(DATA / "paper-fig4-memories.jsonl.gz").where(preset="paper-fig4", size="super")


def in_papers_geometry(workload, mode, *parts):
    """Seconds of some parts, None where there is no record."""
    of = modes.parts_of(papers.where(workload=f"microbench/{workload}", mode=mode))
    return sum(of[part] for part in parts) if of else None


def over_papers(mode, *parts):
    """Ratios to baseline by workload; the mean last."""
    ratios = {
        workload: over(*(in_papers_geometry(workload, each, *parts) for each in (mode, "baseline")))
        for workload in WORKLOADS
    }
    return ratios | {"mean": mean(present(ratios).values())}


columns = {
    f"{mode}, {what}": over_papers(mode, *parts)
    for what, parts in {"kernel": ["kernel"], "whole": ["kernel", "copies"]}.items()
    for mode in ("async", "uvm", "uvm_async")
}
Markdown(
    f"| | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|\n"
    + "\n".join(
        f"| {name} | " + " | ".join(f"×{of[name]:.3f}" if of[name] else "-" for of in columns.values()) + " |"
        for name in (*WORKLOADS, "mean")
    )
)

# %% [markdown]
# With 64 blocks little else hides a wait, so every kernel gains from asynchronous staging, whereas the paper's conv3d
# loses. Kernels of uvm take as long as baseline's, because their pages were prefetched.

# %% [markdown]
# ## Section 8.1: shares of the time
#
# Means over the seven workloads at mega. The paper's means are over 18 applications, which move less and compute more,
# so they are only shown next to ours. Its three shares for baseline (58% copies, 42% kernel, 19% allocation) add up to
# 119%, so they cannot be shares of one total. Our total is kernel, copies and allocation.

# %%
figure = modes.shares(found)

# %% [markdown]
# ## Figures 10, 11 and 13: blocks, threads, shared memory
#
# vector_seq at super, 100 passes over a tile in shared memory, geometries as in the paper: six modes, five processes
# each, on one H200 host.

# %%
geometries = readings.example(DATA.parent / "h200-ac574039/paper-geometry.jsonl.gz").where(
    workload="microbench/vector_seq"
)
figure = modes.geometry(geometries)


def study(preset, mode, metric="paper_total"):
    """Seconds by the axis of a figure, of those values that were measured."""
    return modes.by_geometry(geometries, preset, mode, metric)


# %%
blocks = {mode: study("paper-fig10", mode) for mode in MODES}
threads = {mode: study("paper-fig11", mode, "kernel") for mode in MODES}
shared = {mode: study("paper-fig13", mode, "kernel") for mode in MODES}
full = [seconds for n, seconds in blocks["pm"].items() if n >= 128]
KiB = 1024


def kernels(preset, of, base):
    """Kernels in one mode over those in another, by the axis of a figure."""
    by, others = (study(preset, mode, "kernel") for mode in (of, base))
    return {value: by[value] / others[value] for value in sorted({*by} & {*others})}


def staged(preset, value):
    """Kernels that stage asynchronously over those that do not: with copies, and in managed memory."""
    return f"×{kernels(preset, 'async', 'baseline')[value]:.2f} and ×{kernels(preset, 'uvm_async', 'uvm')[value]:.2f}"


same = [
    ratio
    for preset in modes.GEOMETRIES
    for ratio in (*kernels(preset, "uvm", "baseline").values(), *kernels(preset, "uvm_async", "async").values())
]
few = study("paper-fig11", "baseline", "kernel")[32] / study("paper-fig11", "baseline")[32]
Markdown(
    "- **Blocks.** The paper sees no effect of 16 to 4096 blocks. Here, pm varies by at most "
    f"{max(full) / min(full) - 1:.1%} from 128 blocks on, but with fewer blocks some of the 132 multiprocessors are "
    f"idle: 16 blocks take ×{blocks['baseline'][16] / min(blocks['baseline'].values()):.2f} (baseline) and "
    f"×{blocks['pm'][16] / min(blocks['pm'].values()):.2f} (pm) of the fastest.\n"
    "- **Threads.** As in the paper, few threads per block are slow, and asynchronous staging helps them most. With 32 "
    f"threads the kernel takes ×{threads['pm'][32] / threads['pm'][1024]:.1f} of the time with 1024 (in the paper "
    f"×17.8), and pm_async takes ×{threads['pm_async'][32] / threads['pm'][32]:.2f} of pm. From 512 threads on, "
    f"staging hardly matters (×{threads['pm_async'][512] / threads['pm'][512]:.2f} at 512).\n"
    "- **Shared memory.** As in the paper, more of it helps, and too much hurts: the kernel takes "
    f"×{shared['pm'][2 * KiB] / shared['pm'][64 * KiB]:.1f} of the time with 2 KiB as with 64 KiB (pm_async "
    f"×{shared['pm_async'][2 * KiB] / shared['pm_async'][64 * KiB]:.1f}), and "
    f"×{shared['pm'][128 * KiB] / shared['pm'][64 * KiB]:.2f} with 128 KiB "
    f"(×{shared['pm_async'][128 * KiB] / shared['pm_async'][64 * KiB]:.2f}).\n"
    f"- **Managed memory.** A kernel whose pages were prefetched takes ×{min(same):.2f} to ×{max(same):.2f} of the "
    "time of one whose arrays were copied, in every geometry.\n"
    "- **Asynchronous staging**, kernel over the kernel without it, with copies and in managed memory: with 32 threads "
    f"{staged('paper-fig11', 32)}, with 1024 {staged('paper-fig11', 1024)}; with 16 blocks "
    f"{staged('paper-fig10', 16)}; with 2 KiB {staged('paper-fig13', 2 * KiB)}, with 128 KiB "
    f"{staged('paper-fig13', 128 * KiB)}. In the paper, whole runs gain 29% with 32 threads and 5% with 1024. The "
    f"kernel is {few:.0%} of our whole runs with 32 threads."
)

# %% [markdown]
# ## Figures 7, 8, 9 and 12: counters
#
# `ncu` counted what kernels do, on several H100 hosts. The paper counts at mega. Here the size is medium for Figure 7
# and large for the others; the work per element is the same. For lud only the first 200 launches are counted.
#
# Figure 7: accesses to shared memory, as the hardware counts them, and floating-point operations. A kernel that has
# none of either has no bar.

# %%
H100 = DATA.parent
counted = readings.example(H100 / "h100/profiled.jsonl.gz", H100 / "h100-x2/profiled.jsonl.gz", profiled=True)
figure = counters.shared(counted)

# %% [markdown]
# Figure 8: shares of instructions, bytes at each level, and warps that wait at each issue. L1 is what kernels request.
# The network is YOLOv3 with one image; its first 200 kernels are counted, as for lud. lud has no staging, so it was
# counted in pm only.

# %%
figure = counters.by_modes(counted)


# %%
def fewer(workload):
    """Memory stalls with asynchronous over direct staging, in page-locked memory."""
    of = [counters.stalls(counted, workload, mode)["memory"] for mode in ("pm_async", "pm")]
    return of[0] / of[1]


Markdown(
    "With asynchronous staging, fewer warps wait for memory: "
    + ", ".join(
        f"×{fewer(workload):.2f} of direct in {workload.split('/')[1]}"
        for workload in counters.MIXED
        if counters.stalls(counted, workload, "pm_async")
    )
    + "."
)

# %% [markdown]
# Figure 9: baseline and prefetched managed memory, on other hosts with the same GPU. `cupti` counts the page faults.
# Prefetched pages do not fault.

# %%
figure = counters.managed(counted)

# %% [markdown]
# Figure 12: vector_seq by threads per block.

# %%
figure = counters.threads(counted)

# %% [markdown]
# ## Compared with the paper
#
# Means are over the seven workloads, of times relative to baseline. Kernels of vector_seq and conv3d are compared in
# the paper's geometry, for which there are records at super. There vector_seq works in shared memory; with its value
# in a register (`reuse=register`) async took 44% less ([notes](../../src/microbench/kernels/NOTES.md), no record
# kept). The paper states uvm on machine C at mega twice, as 50.53% and 51.53%; the first value is used. Means of Figure
# 10 are over all numbers of blocks. Figure 11's kernels are those of pm, which uses baseline's kernel.


# %%
def work(size, workload, mode):
    return total(size, workload, mode) - modes.parts(found, size, workload, mode)["allocation"]


def whole_of(preset, value):
    """Whole runs in async over baseline."""
    return study(preset, "async")[value] / study(preset, "baseline")[value]


stated = published.load(DATA.parent / "published/pipelining.csv")
share = functools.partial(modes.share, found)
geometry = modes.geometries(found)

ours = {
    **dict.fromkeys(("async-super", "async-super-c"), over_baseline("super", "async")),
    **dict.fromkeys(("async-mega", "async-mega-c"), over_baseline("mega", "async")),
    "kernel-vector-seq": geometry["the paper's geometry, super"]["vector_seq"],
    "kernel-conv3d": geometry["the paper's geometry, super"]["conv3d"],
    "total-vector-seq": total("mega", "vector_seq", "async") / total("mega", "vector_seq", "baseline"),
    "uvm-async-mega-c": over_baseline("mega", "uvm_async"),
    "pm-async-mega-c": over_baseline("mega", "pm_async"),
    "noise-size": spread_of("super") / spread_of("tiny"),
    "blocks": max(blocks["baseline"].values()) / min(blocks["baseline"].values()),
    "blocks-async": mean(whole_of("paper-fig10", n) for n in blocks["baseline"]),
    "threads-kernel": threads["pm"][32] / threads["pm"][1024],
    "threads-async-32": whole_of("paper-fig11", 32),
    "threads-async-1024": whole_of("paper-fig11", 1024),
    "shared-baseline": study("paper-fig13", "baseline")[64 * KiB] / study("paper-fig13", "baseline")[2 * KiB],
    "shared-pm-async": study("paper-fig13", "pm_async")[64 * KiB] / study("paper-fig13", "pm_async")[2 * KiB],
    "share-idle-uvm-async": 1 - share("uvm_async", "kernel"),
    "share-idle-pm-async": 1 - share("pm_async", "kernel"),
}
for mode in ("pm", "pm_async"):
    ours[f"blocks-{mode.replace('_', '-')}"] = mean(
        seconds / blocks["baseline"][n] for n, seconds in blocks[mode].items()
    )
for size in ("super", "mega"):
    for machine in ("", "-c", "-b"):
        ours[f"pm-{size}{machine}"] = over_baseline(size, "pm")
        if machine:
            ours[f"uvm-{size}{machine}"] = over_baseline(size, "uvm")
    ours[f"uvm-work-{size}-c"] = over_baseline(size, "uvm", work)
for workload in ("vector_seq", "vector_rand"):
    for mode in ("uvm", "uvm_async"):
        ours[f"{mode}-{workload}".replace("_", "-")] = total("mega", workload, mode) / total(
            "mega", workload, "baseline"
        )
for mode in ("baseline", "uvm", "pm"):
    ours[f"share-transfer-{mode}"] = share(mode, "copies")
    ours[f"share-kernel-{mode}"] = share(mode, "kernel")
ours["share-alloc-baseline"], ours["share-alloc-uvm-async"] = (
    share("baseline", "allocation"),
    share("uvm_async", "allocation"),
)


def counted_over(workload, name, mode="async", base="baseline"):
    """Ratio of a counter in two modes, None where one was not counted."""
    return over(*(counters.counter(counted, workload, counters.MIXED[workload], each, name) for each in (mode, base)))


for name, counter in {
    "control": "control_instructions", "memory": "memory_instructions", "rate": "global_rate",
    "stalls": "stall_memory_dependency", "busy": "stall_pipe_busy",
}.items():  # fmt: skip
    for workload in ("microbench/vector_seq", "microbench/conv3d", "apps/lud", "apps/knn"):
        if (key := f"counters-{workload.split('/')[1].replace('_', '-')}-{name}") in stated:
            ours[key] = counted_over(workload, counter)
ours["counters-uvm-b"] = None
ours["counters-uvm-d"] = mean(
    over(*(counters.counter(counted, workload, "large", mode, "global_rate") for mode in ("uvm", "baseline")))
    for workload in counters.FAULTING
)
rows = published.compared(stated, ours)
display(rows)

# %%
figure, axes = plots.panels(1, width=11, height=6.5)
plots.comparison(axes[0], rows)

# %%
Markdown(published.sentence(rows))
