# %% [markdown]
# # The inter-job pipeline
#
# Sixteen jobs of one kernel, run one after the other and overlapped, on one NVIDIA H200 host; beside Figure 16 of
# "Performance Implications of Pipelining the Data Transfer in CPU-GPU Heterogeneous Systems" (TACO 2025, section
# 8.3, an H100). What the modes and metrics mean: [docs/interjob.md](../docs/interjob.md).

# %%
from pathlib import Path

from IPython.display import Markdown

from isthmus import figures, interjob, published, readings, records

DATA = Path("../analysis/data")
FILE = DATA / "h200/interjob.jsonl.gz"
KERNELS = {"gemv": "interjob/gemv", "gemm": "interjob/gemm"}
found = readings.load(FILE).where(jobs=16, cap=0, chunk=0, depth=3, room="wait")


def by_size(kernel, metric, allocation="pool"):
    return found.by("n", workload=KERNELS[kernel], metric=metric, allocation=allocation)


# %% [markdown]
# ## Figure 16: allocation beside the kernels
#
# As in the paper's listing: serially with `cudaMalloc`, overlapped with stream-ordered allocations (`pool`). That
# changes two things at once, so the second picture takes them apart: the same pool, serially and overlapped.

# %%
figure, axes = figures.panels(2)
figures.curves(
    axes[0], {kernel: by_size(kernel, "overlap_alloc_over_device") for kernel in KERNELS}, "1",
    title="over serial with cudaMalloc", of_bytes=False,
)  # fmt: skip
figures.curves(
    axes[1],
    {f"{kernel}: {words}": by_size(kernel, metric) for kernel in KERNELS
     for words, metric in {"the pool alone": "serial_over_device", "overlap alone": "overlap_alloc_speedup"}.items()},
    "1", title="what of it is the pool, what the overlap", of_bytes=False,
)  # fmt: skip
for axis in axes:
    axis.axhline(1, color="black", linewidth=0.8, linestyle="--")
    axis.set_xlabel("n of n × n matrices")

# %% [markdown]
# ## Further than the paper: copies, too
#
# `overlap_all` runs copies beside the kernels of other jobs, `recycled` hands memory on to the next job.

# %%
figure, axes = figures.panels(2)
for axis, kernel in zip(axes, KERNELS):
    figures.curves(axis, {
        mode: by_size(kernel, f"{mode}_over_device") for mode in ("overlap_alloc", "overlap_all", "recycled")
    }, "1", title=f"{kernel}, over serial with cudaMalloc", of_bytes=False)  # fmt: skip
    axis.axhline(1, color="black", linewidth=0.8, linestyle="--")

# %% [markdown]
# ## Kinds of memory, 4096²
#
# The best mode of each over serial with the same memory.

# %%
figure, axes = figures.panels(1, width=9)
rows = {}
for allocation in found.values("allocation"):
    rows[allocation] = {}
    for kernel in KERNELS:
        at = found.where(workload=KERNELS[kernel], allocation=allocation, n=4096, mode=None)
        speedups = [value for mode in interjob.MODES if (value := at.value(metric=f"{mode}_speedup")) is not None]
        if speedups:
            rows[allocation][kernel] = max(speedups)
figures.bars(axes[0], rows, "1", line=1)

# %% [markdown]
# ## Prediction
#
# `isthmus advise interjob` predicts a batch from the phases of one job alone.

# %%
cases = interjob.of_study(records.read(FILE))
misses = [miss for case in cases for miss in interjob.errors(case)]
figure, axes = figures.panels(1, width=5, height=4.4)
for color, mode in zip(figures.COLOURS, ("serial", *interjob.MODES)):
    points = [miss for miss in misses if miss.mode == mode]
    axes[0].loglog(
        [p.measured for p in points], [p.predicted for p in points], "o", markersize=4, color=color, label=mode
    )
ends = [min(m.measured for m in misses), max(m.measured for m in misses)]
axes[0].plot(ends, ends, color="black", linewidth=0.8)
axes[0].set_xlabel("measured, s")
axes[0].set_ylabel("predicted, s")
axes[0].legend()
near = sum(abs(miss.relative) <= 0.15 for miss in misses)
Markdown(f"{near} of {len(misses)} predictions ({near / len(misses):.0%}) lie within 15% of what was measured.")

# %% [markdown]
# ## Beside the paper

# %%
gain = {kernel: by_size(kernel, "overlap_alloc_over_device") for kernel in KERNELS}
small = min(gain["gemv"])
rows = published.beside(published.load(DATA / "published/pipelining.csv"), {
    "interjob-best": max(of[4096] for of in gain.values()),
    "interjob-gemv-gemm": gain["gemv"][4096] / gain["gemm"][4096],
    "interjob-tiny": min(of[small] for of in gain.values()),
})  # fmt: skip
Markdown(published.markdown(rows))

# %%
overlap = {kernel: by_size(kernel, "overlap_alloc_speedup") for kernel in KERNELS}
lowest, highest = (f(v for of in overlap.values() for v in of.values()) for f in (min, max))
Markdown(
    published.sentence(rows)
    + f" With the pool on both sides, overlapping allocations gives ×{lowest:.2f} to ×{highest:.2f}: "
    + ("the gain over `cudaMalloc` is the pool's." if highest < 1.1 else "overlap has a part of its own in it.")
)
