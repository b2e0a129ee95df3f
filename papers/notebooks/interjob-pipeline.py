# %% [markdown]
# # The inter-job pipeline
#
# For readers of "Performance Implications of Pipelining the Data Transfer in CPU-GPU Heterogeneous Systems" (TACO
# 2025), and for anybody who runs batches of jobs on one GPU: batches of one kernel on one NVIDIA H200 host, with the
# jobs one after the other and overlapped, compared with the paper's Figure 16 (section 8.3, an H100).
# [docs/interjob.md](../../docs/interjob.md) explains the modes and metrics.
#
# Unless a section says otherwise, sixteen jobs are overlapped by force, whether that pays or not; three of them hold
# memory at once, host buffers are page-locked once for all jobs, and nothing limits the device's memory.

# %%
import functools
from pathlib import Path

from IPython.display import Markdown, display

from isthmus.advise import batches as study_records
from isthmus.advise import overlap as batches
from isthmus.figures import plots
from isthmus.records import fields, load
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import interjob
from isthmus_papers.figures.interjob import KERNELS

DATA = Path("../data")
FILE = DATA / "h200/interjob.jsonl.gz"
study = readings.example(FILE)
cases = fields.that_count(study_records.of_study(load.read(FILE)), emulated=False)


cases_of = functools.partial(interjob.cases_of, study)
by_size = functools.partial(interjob.by_size, study)


def one_line(axis):
    axis.axhline(1, color="black", linewidth=0.8, linestyle="--")


def between(values):
    """The smallest and the largest, in words."""
    values = list(values)
    return f"×{min(values):.2f} to ×{max(values):.2f}"


# %% [markdown]
# ## Figure 16: allocation while kernels run
#
# As in the paper's listing: serial with `cudaMalloc`, overlapped with stream-ordered allocations (`pool`). That changes
# two things at once, so the second picture separates them: the same pool, serial and overlapped.

# %%
paper = published.load(DATA / "published/pipelining.csv")
figure = interjob.allocation(study, {4096: (paper["interjob-best"].low, paper["interjob-best"].low)})

# %%
gain = {kernel: by_size(kernel, "overlap_alloc_over_device") for kernel in KERNELS}
overlap = {kernel: by_size(kernel, "overlap_alloc_speedup") for kernel in KERNELS}
kept = {kernel: by_size(kernel, "overlap_alloc_speedup", "device") for kernel in KERNELS}
small = min(gain["gemv"])
Markdown(
    f"The gain is largest for small jobs and falls with size, from ×{gain['gemv'][small]:.2f} (gemv, {small}²) to "
    f"×{gain['gemv'][max(gain['gemv'])]:.2f}. It is the pool's: with the pool on both sides, overlapping allocations "
    f"alone gives {between(v for of in overlap.values() for v in of.values())}. With `cudaMalloc` on both sides it "
    f"gives {between(v for of in kept.values() for v in of.values())}, and at {small}² it loses "
    f"(×{kept['gemv'][small]:.2f} and ×{kept['gemm'][small]:.2f}), as the paper says of its smallest size: `cudaFree` "
    "waits for the device."
)

# %% [markdown]
# Larger jobs, on an H100 host: gemv of 32768², three samples, and gemm of 16384², one sample only.

# %%
larger = readings.example(DATA / "h100/interjob.jsonl.gz").where(force=1)
LARGER = {"gemv": 32768, "gemm": 16384}
rows = []
for kernel, n in LARGER.items():
    case = larger.where(workload=KERNELS[kernel], allocation="pool", n=n)
    taken = len(case.samples(metric="overlap_alloc_time"))
    values = [case.value(metric=metric) for metric in ("serial_time", "overlap_alloc_over_device", "serial_over_device",
                                                       "overlap_alloc_speedup", "overlap_all_speedup")]  # fmt: skip
    rows.append(f"| {kernel}, {n}² | {taken} | {values[0]:.2f} s | {' | '.join(f'×{v:.3f}' for v in values[1:])} |")
Markdown("\n".join([
    "| | samples | serial, pool | overlapped allocation over serial with cudaMalloc | of it the pool "
    "| overlap alone | copies, too |",
    "|---|---|---|---|---|---|---|", *rows,
]))  # fmt: skip


# %%
def of_larger(metric):
    return {kernel: larger.value(workload=KERNELS[kernel], n=n, metric=metric) for kernel, n in LARGER.items()}


of_large, alone, copied = map(of_larger, ("overlap_alloc_over_device", "overlap_alloc_speedup", "overlap_all_speedup"))
beyond = max(gain["gemv"])
Markdown(
    f"Over serial with `cudaMalloc` gemv gains ×{of_large['gemv']:.2f} and gemm ×{of_large['gemm']:.2f}, all of it by "
    f"the pool: to overlap allocations as well gives ×{alone['gemv']:.3f} and ×{alone['gemm']:.3f}. At {beyond}² on "
    f"the H200 it was ×{gain['gemv'][beyond]:.2f} for gemv. As the paper says, gemm gains less, since it computes for "
    f"most of its time. With its copies overlapped, too, gemm gains ×{copied['gemm']:.2f}; the paper has no such mode."
)

# %% [markdown]
# ## Beyond the paper: overlapped copies
#
# `overlap_all` runs copies while kernels of other jobs run; `recycled` passes memory on to the next job. Both sides use
# the pool, so the ratio shows overlap alone.

# %%
figure = interjob.copies(study)

# %%
both = {kernel: by_size(kernel, "overlap_all_speedup") for kernel in KERNELS}
best = max(both["gemm"], key=both["gemm"].get)
Markdown(
    f"gemm computes about as long as it copies at {best}², so hiding one behind the other gives "
    f"×{both['gemm'][best]:.2f}; at {max(both['gemm'])}² the kernel is most of a job, "
    f"×{both['gemm'][max(both['gemm'])]:.2f} is left. gemv is its copy in: from 4096² on there is next to nothing to "
    f"hide (×{both['gemv'][4096]:.2f}, at {max(both['gemv'])}² ×{both['gemv'][max(both['gemv'])]:.2f}). Its gain at "
    f"{small}² is the calls of several threads side by side."
)

# %% [markdown]
# ## Kinds of memory, 4096²
#
# Relative to serial with `cudaMalloc`, so the ratio contains the effects of both the memory and the overlap.

# %%
figure = interjob.memory(study)
memory = interjob.by_memory(study)

# %%
of = {
    (kernel, name): max(value for mode, value in found.items() if mode != "recycled" or name != "device")
    for (kernel, name), found in memory.items()
}
handed = {key: found["recycled"] for key, found in memory.items()}
Markdown(
    f"The pool gives ×{of['gemv', 'pool']:.2f} (gemv) and ×{of['gemm', 'pool']:.2f} (gemm). Plain device memory, "
    f"which is freed while others work, gives ×{of['gemv', 'device']:.2f} and ×{of['gemm', 'device']:.2f}; handed on "
    f"(`recycled`) it comes as far as the pool, or nearly (×{handed['gemv', 'device']:.2f} and "
    f"×{handed['gemm', 'device']:.2f}). Managed memory stays below serial with `cudaMalloc`, handed on, too "
    f"(×{handed['gemv', 'managed']:.2f} and ×{handed['gemm', 'managed']:.2f}): its pages fault."
)

# %% [markdown]
# ## How much of the ideal is reached
#
# In a mode's ideal, its busiest resource (a copy direction, the kernels, a thread) never waits. 1 is the ideal.

# %%
figure = interjob.ideal(study)

# %%
reached = [v for kernel in KERNELS for n, v in by_size(kernel, "overlap_all_of_ideal").items() if n >= 4096]
short = [v for kernel in KERNELS for n, v in by_size(kernel, "overlap_all_of_ideal", "device").items() if n <= 2048]
Markdown(
    f"From 4096² on the pool reaches {min(reached):.0%} to {max(reached):.0%} of the ideal. Up to 2048² plain device "
    f"memory reaches {min(short):.0%} to {max(short):.0%}: its frees wait for the device, and calls of the driver for "
    "each other, which the ideal does not know."
)

# %% [markdown]
# ## Depth: how many jobs hold memory at once
#
# The time of a batch relative to depth 3; values below 1 are faster.

# %%
figure = interjob.depth(study)
depths = {(name, n): of for name, lines in interjob.by_depth(study).items() for n, of in lines.items()}

# %%
large = [ratio for (_, n), of in depths.items() if n in ("2048²", "4096²") for ratio in of.values()]
Markdown(
    f"From 2048² on depth changes nothing ({between(large)}): one job's head start is enough where jobs are alike. Of "
    f"the smallest, 512², eight at once take ×{depths['pool', '512²'][8]:.2f} of the time, since calls are all there "
    "is to overlap; memory that is handed on is freed in the end, so that four at once cost more than two (1024²: "
    f"×{depths['device', '1024²'][4]:.2f} and ×{depths['device', '1024²'][2]:.2f})."
)

# %% [markdown]
# ## Memory for little more than one job
#
# Eight large jobs, where the batch may hold 1.3 (gemv) or 1.75 (gemm) times what one job needs, relative to serial with
# `cudaMalloc`. The paper names running out of memory as the price of overlap, and allocation in chunks as the solution.

# %%
figure = interjob.cap(study)
caps = interjob.capped(study)
whole = [value for of in caps.values() for name, value in of.items() if "whole blocks" in name]
failed = {
    kernel: cases_of(kernel, jobs=8, cap=None, room="fail").value(metric="overlap_all_failed") for kernel in KERNELS
}
Markdown(
    f"A batch that does not wait for room loses {failed['gemv']:.0f} (gemv) and {failed['gemm']:.0f} (gemm) of its 8 "
    "jobs, as the paper says of its largest size. Whole blocks that wait for each other gain nothing "
    f"({between(whole)}); chunks still overlap ({between(of['capped, chunks'] for of in caps.values())} under the "
    f"cap, {between(of['no cap, chunks'] for of in caps.values())} without)."
)

# %% [markdown]
# ## How large a chunk
#
# Mapping a chunk is a driver call. The program of these records used a sixteenth of the largest operand by default, as
# in the sections above; because of these curves the default is now a quarter.

# %%
figure = interjob.chunk(study)
lines = interjob.by_chunk(study)

# %%
small_chunk, large_chunk = (lines["serial"]["gemv 8192²"][n] for n in (2**21, 2**25))
over = {kernel: by_size(kernel, "overlap_all_over_device")[4096] for kernel in KERNELS}
Markdown(
    f"Chunks of 2 MiB cost gemv 8192² half of its speed even serially (×{small_chunk:.2f}); of 32 MiB they cost "
    f"nothing (×{large_chunk:.2f}). Overlapped, the largest are best or as good: "
    f"×{lines['overlap_all']['gemv 4096²'][2**25]:.2f} for gemv 4096², where the pool has ×{over['gemv']:.2f}."
)

# %% [markdown]
# ## Host buffers page-locked for each job, or not at all
#
# gemv 4096² in the pool, relative to serial with the same host memory: six of sixteen jobs at once, with two and four
# threads that allocate; and three of 64 jobs at once (`recycled` only, a single sample). The record of one thread is
# left out, because another process held memory on the device at the time.

# %%
figure = interjob.host(study)
locked, pageable = interjob.locked(study), interjob.pageable(study)

# %%
locking = {"host": "per-job", "depth": 6, "threads": 2}
seconds = {
    name: cases_of("gemv", allocation="pool", n=4096, **other).value(metric="serial_time")
    for name, other in {"pinned": {}, "pageable": {"host": "pageable"}, "per-job": locking}.items()
}
Markdown(
    "Page-locking and filling buffers for each job makes the serial batch "
    f"{seconds['per-job'] / seconds['pinned']:.0f} times as long ({seconds['per-job']:.2f} s; "
    f"{seconds['pinned'] * 1e3:.0f} ms with buffers locked once, {seconds['pageable'] * 1e3:.0f} ms with pageable "
    f"ones). Two threads that allocate hide little of it (×{locked['2 threads']['overlap_alloc']:.2f}), four no more "
    f"(×{locked['4 threads']['overlap_alloc']:.2f}): calls of the driver wait for each other. Handing buffers on "
    f"helps far more (×{locked['2 threads']['recycled']:.1f}), and the more the more jobs there are "
    f"(×{locked['64 jobs, 1 thread']['recycled']:.1f} of 64). With pageable buffers nothing is gained "
    f"({between(v for of in pageable.values() for v in of.values())}): the calls that copy wait."
)

# %% [markdown]
# ## Without force
#
# Without force, the library times the first jobs and overlaps where it expects to save a tenth. Each mark is one
# mode of one case, gemv and gemm of 512² to 4096²; left of 1, forced overlap is slower than serial. The program of
# these records compared the fastest of its overlapped batches with any serial batch, even a slow one; since then it
# uses the fastest of both.

# %%
ran = {}
for case in cases:
    axes_of = case["axes"]
    if not axes_of["force"]:
        forced = study.where(workload=case["workload"], metric="*_speedup", **axes_of | {"force": 1})
        for mode in batches.MODES:
            free = fields.metrics(case)[f"{mode}_speedup"]["median"]
            overlapped = not case["notes"][f"{mode}_ran"].startswith("serial")
            ran[f"{study_records.label(case)}, {mode}"] = (overlapped, forced.value(metric=f"{mode}_speedup"), free)
figure, axes = plots.panels(1, width=6, height=4)
for color, overlapped in zip(plots.COLOURS, (True, False)):
    points = [(x, y) for what, x, y in ran.values() if what == overlapped and x is not None]
    axes[0].plot(
        *zip(*points), "o", markersize=5, color=color, label="it overlapped" if overlapped else "it stayed serial"
    )
one_line(axes[0])
axes[0].axvline(1, color="black", linewidth=0.8, linestyle="--")
axes[0].set_xlabel("speed-up by force")
axes[0].set_ylabel("speed-up without force")
axes[0].legend()
slow = {name: (what, free) for name, (what, _, free) in ran.items() if free < 0.95}
by_force = [forced for _, forced, _ in ran.values() if forced is not None]
Markdown(
    f"By force {sum(v < 0.95 for v in by_force)} of {len(by_force)} are more than 5% slower than serial, "
    f"×{min(by_force):.2f} at worst; without force {len(slow)} of {len(ran)}, so *never slower* is not quite reached: "
    + "; ".join(
        f"{name}, ×{free:.2f}, " + ("overlapped" if what else "stayed serial, so noise")
        for name, (what, free) in sorted(slow.items(), key=lambda item: item[1][1])
    )
    + "."
)

# %% [markdown]
# ## Prediction
#
# `isthmus advise interjob` predicts a batch from the phases of one job alone.

# %%
misses = [miss for case in cases for miss in study_records.errors(case)]
figure, axes = plots.panels(1, width=5, height=4.4)
for color, mode in zip(plots.COLOURS, ("serial", *batches.MODES)):
    points = [miss for miss in misses if miss.mode == mode]
    axes[0].loglog(
        [p.measured for p in points], [p.predicted for p in points], "o", markersize=4, color=color, label=mode
    )
ends = [min(m.measured for m in misses), max(m.measured for m in misses)]
axes[0].plot(ends, ends, color="black", linewidth=0.8)
axes[0].set_xlabel("measured, s")
axes[0].set_ylabel("predicted, s")
axes[0].legend()
overlapped = [miss for miss in misses if miss.mode != "serial"]
near, near_overlapped = (sum(miss.near for miss in of) for of in (misses, overlapped))
losses = study_records.picked_losses(cases)
Markdown(
    f"{near} of {len(misses)} predictions ({near / len(misses):.0%}) lie within 15% of what was measured; of those of "
    f"overlapped batches {near_overlapped} of {len(overlapped)} ({near_overlapped / len(overlapped):.0%}). The mode "
    f"picked is within 5% of the best in {sum(loss <= study_records.WELL_PICKED for loss in losses)} of {len(losses)} "
    "cases."
)

# %% [markdown]
# ## Compared with the paper

# %%
rows = published.compared(paper, {
    "interjob-best": max(of[4096] for of in gain.values()),
    "interjob-gemv-gemm": gain["gemv"][4096] / gain["gemm"][4096],
    "interjob-tiny": min(of[small] for of in gain.values()),
})  # fmt: skip
display(rows)

# %%
figure, axes = plots.panels(1, width=9, height=1.4)
plots.comparison(axes[0], rows)

# %%
Markdown(
    published.sentence(rows)
    + f" The last is the pool's doing: with `cudaMalloc` on both sides overlap reduces performance at {small}² here, "
    f"too (×{kept['gemv'][small]:.2f} and ×{kept['gemm'][small]:.2f})."
)
