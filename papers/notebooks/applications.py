# %% [markdown]
# # Programs in six modes
#
# For readers of "Performance Implications of Pipelining the Data Transfer in CPU-GPU Heterogeneous Systems" (TACO
# 2025), and for anybody who has to choose a placement for a whole program: the paper's ten programs and four of
# "GPUVM" (2024) on one NVIDIA H200 host, compared with Figure 5 and section 4.2 of the first paper. Its machine C has
# an A100; D has an H100 with PCIe 5, which is nearest to ours. Its Figure 6, training and inference of four networks
# by darknet, is not in this notebook.
#
# The programs were rewritten ([what each is](../../docs/applications.md)): they have the same inputs and outputs but
# different kernels. So a ratio of copies can be compared with the paper's, but a ratio of totals only where the kernel
# does not matter: where our kernel is faster, copies and allocation weigh more.
#
# | mode | host memory | how tiles get into shared memory |
# |---|---|---|
# | baseline, async | pageable | direct, asynchronously |
# | uvm, uvm_async | managed, prefetched to the GPU, results back by page faults | direct, asynchronously |
# | pm, pm_async | page-locked | direct, asynchronously |
#
# `hotspot` and `lud` have no staging: hotspot loads its tiles once into registers, and lud's products are the vendor's
# GEMM. They are shown in the three memories only.

# %%
import functools
from math import exp, log
from pathlib import Path

from IPython.display import Markdown, display

from isthmus import units
from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import programs
from isthmus_papers.figures.programs import FLOORS, MODES, PLAIN, TEN
from isthmus_papers.figures.registry import over as ratio_of

DATA = Path("../data/h200")

pilots = readings.example(DATA / "apps.jsonl.gz")
at_super = readings.example(DATA / "apps-modes.jsonl.gz").where(size="super")
mega = readings.example(DATA / "apps-mega.jsonl.gz").where(size="mega", placement="pinned")
time, parts, total = (functools.partial(of, at_super) for of in (programs.time, programs.parts, programs.total))


def over(program, mode, of=total, base="baseline"):
    """Ratio to the same figure of baseline; None where either was not measured."""
    return ratio_of(of(program, mode), of(program, base))


def copies(program, mode):
    return parts(program, mode).get("copies")


def kernel(program, mode):
    return parts(program, mode).get("kernel")


def geometric_mean(values):
    """Ratio with the interval that follows from those of the values."""
    values = list(values)
    if not values:
        return None
    sides = [readings.ends(value) for value in values]
    middle, low, high = (
        exp(sum(map(log, each)) / len(values)) for each in (values, [a for a, _ in sides], [b for _, b in sides])
    )
    sure = next((value.spread for value in values if getattr(value, "spread", None)), None)
    return readings.Value(middle, type(sure)(low, high, sure.kind, sure.jobs) if sure else None)


def over_all(mode, of=total):
    return geometric_mean(ratio for program in TEN if (ratio := over(program, mode, of)))


# %% [markdown]
# ## Figure 5: where the time goes
#
# At super (the paper's bars are at mega), relative to baseline; from the bottom: kernel, copies, calls that allocate
# device or managed memory. No bar contains page-locking, as in the paper. The modes of nw, kmeans, lavamd, pathfinder
# and backprop come from two hosts, whose kernels agree within 2% but whose pageable copies may differ.

# %%
figure = programs.where_time_goes(at_super)

# %% [markdown]
# Seconds of the three modes with direct staging, and of page-locking, which the bars leave out.


# %%
def seconds(value):
    return units.quantity(value, "s") if value else "-"


rows = []
for program in TEN:
    locking = time(program, "pm", "host_alloc")
    shares = {mode: total(program, mode) for mode in ("baseline", "uvm", "pm")}
    best = min((mode for mode in MODES if total(program, mode)), key=lambda m: total(program, m), default="-")
    rows.append(
        f"| {program} | {' | '.join(seconds(each) for each in shares.values())} | {best} | {seconds(locking)} |"
    )
lacking = {p: [mode for mode in MODES if not parts(p, mode)] for p in TEN if p not in PLAIN}
absent = "; ".join(f"{p}: {', '.join(of) if len(of) < len(MODES) else 'any'}" for p, of in lacking.items() if of)
Markdown(
    "\n".join(["| | baseline | uvm | pm | shortest | page-locking |", "|---|---|---|---|---|---|", *rows])
    + (f"\n\nThe run was cut short; not measured are {absent}." if absent else "")
)

# %% [markdown]
# ## Effect of asynchronous staging on a kernel
#
# Asynchronous over direct staging in the three memories; values above 1 are slower. The kernels have the same source.

# %%
figure = programs.staging(at_super)

# %%
ratios = programs.staged(at_super)
PREFERRED = ("page-locked", "managed", "pageable")
staged = {program: next(of[memory] for memory in PREFERRED if memory in of) for program, of in ratios.items() if of}
gain = [f"{p} ({v - 1:+.1%})" for p, v in sorted(staged.items(), key=lambda item: item[1]) if v <= 0.97]
lose = [f"{p} ({v - 1:+.1%})" for p, v in sorted(staged.items(), key=lambda item: -item[1]) if v >= 1.03]
differ = max((max(of.values()) / min(of.values()) - 1 for of in ratios.values() if of), default=0.0)
Markdown(
    f"By 3% and more: shorter {', '.join(gain) or 'none'}; longer {', '.join(lose) or 'none'}. The memories of one "
    f"program agree within {float(differ):.1%}. Which programs gain could not have been known beforehand, not reliably "
    "([advice](../../docs/advice.md))."
)

# %% [markdown]
# ## Kernels at mega, compared with their floor
#
# A floor is the time to move the program's bytes at 4.2 TB/s or to execute its operations at the hardware's rate,
# whichever limits it ([notes](../../src/apps)). An aim was set before the program was written. Times are for the best
# staging in page-locked memory: of one iteration after the first for srad and kmeans, of the first for bayesian, and of
# one step (a 64th of the kernel) for hotspot, whose floor is the traffic of a pass divided by the 8 steps that it
# fuses. backprop and bayesian need less work than their aims assumed, so their floors are lower (4.2 instead of 5.6 ms,
# 22 instead of 90 ms).

# %%
AIMED = {"backprop": 5.6e-3, "bayesian": 90e-3}  # floors that the aims were made from, where ours are lower


# hotspot's and lud's are older than the others'.
newer = {each.removeprefix("apps/") for each in mega.values("workload")}
at_mega = readings.Readings([
    *mega.found,
    *(each for each in pilots.where(size="mega", placement="pinned").found if each.get("workload")[5:] not in newer),
])  # fmt: skip
best = functools.partial(programs.best, at_mega)


rows, reached = [], {}
for program, (size, _, _, floor, aim) in FLOORS.items():
    if (found := best(program)) is None:
        rows.append(f"| {program} | {size} | {seconds(floor)} | no record | - | {seconds(aim)} | |")
        continue
    staging, value = found
    reached[program] = floor / value
    verdict = "reached" if value <= aim else f"missed by {value / aim - 1:.1%}"
    rows.append(
        f"| {program} | {size} | {seconds(floor)} | {seconds(value)} ({staging}) | {floor / value:.2f} "
        f"| {seconds(aim)} | {verdict} |"
    )
Markdown(
    "\n".join(["| | size | floor | measured | floor over measured | aim | |", "|---|---|---|---|---|---|---|", *rows])
    + f"\n\nGeometric mean of floor over measured, {len(reached)} of {len(FLOORS)} programs: "
    f"**{float(geometric_mean(reached.values())):.2f}** (aim 0.6); with the floors that the aims were made from "
    f"{float(geometric_mean(v * AIMED.get(p, FLOORS[p][3]) / FLOORS[p][3] for p, v in reached.items())):.2f}."
)

# %%
figure = programs.floors(at_mega)

# %% [markdown]
# Time of a whole pass at mega in page-locked memory, over the sum of copies and kernel measured separately (1 means
# that nothing is lost between them).

# %%
rows = []
for program in FLOORS:
    found = best(program)
    if not found:
        continue
    of_program = at_mega.where(workload=f"apps/{program}", staging=found[0])
    one = {m: of_program.value(metric=m) for m in ("in", "kernel", "out", "overlapped")}
    if None in one.values():
        continue
    apart = one["in"] + one["kernel"] + one["out"]
    rows.append(
        f"| {program} | {seconds(one['in'])} | {seconds(one['kernel'])} | {seconds(one['out'])} "
        f"| {seconds(one['overlapped'])} | {float(one['overlapped'] / apart):.3f} |"
    )
Markdown("\n".join(["| | in | kernel | out | a pass | over the sum |", "|---|---|---|---|---|---|", *rows]))

# %% [markdown]
# For the two programs that were measured in chunks on that host (`streamed`, 16 chunks): a pass over the longest of its
# parts (1 means that everything else is hidden; the aim is 1.10).

# %%
streamed = readings.example(DATA / "apps-streamed.jsonl.gz").where(size="mega", placement="streamed", staging="none")
rows = []
for program in FLOORS:
    chosen = streamed.where(workload=f"apps/{program}")
    one = {m: chosen.value(metric=m) for m in ("in", "kernel", "out", "overlapped")}
    if None in one.values():
        continue
    longest = max(one["in"], one["kernel"], one["out"])
    rows.append(
        f"| {program} | {seconds(one['in'])} | {seconds(one['kernel'])} | {seconds(one['out'])} "
        f"| {seconds(one['overlapped'])} | {float(one['overlapped'] / longest):.3f} |"
    )
Markdown("\n".join(["| | in | kernel | out | a pass | over the longest |", "|---|---|---|---|---|---|", *rows]))

# %% [markdown]
# ## All placements, at medium
#
# The time of a pass over that of `pinned`, without staging. A pass is copies and kernel; page faults count as part of
# the kernel.

# %%
medium = readings.Readings([*pilots.found, *readings.example(DATA / "apps-medium.jsonl.gz").found])
figure = programs.placements(medium)

# %%
untaken = [program for program in FLOORS if program not in {name for name, _ in programs.passes(medium)}]
Markdown(f"Not measured at medium: {', '.join(untaken) or 'none'}.")

# %% [markdown]
# ## Compared with the paper
#
# All aggregates of the abstract, section 4.2 and section 8.1 that do not involve networks. The paper's figures are at
# mega, ours at super and for other kernels. Means are geometric, as the paper says of its own; shares are arithmetic
# means, over 18 programs there and over ours here. Section 4.2's figure for knn is compared with our kernel, because
# pageable copies vary from case to case by as much as the kernel takes. The abstract's figure is compared with the
# whole. Section 8.1 says that GPUs are idle for over 60% of the time, which contradicts its own shares of kernels in
# uvm and pm (59% and 64%).


# %%
def shares(mode, part):
    found = [parts(program, mode)[part] / total(program, mode) for program in TEN if parts(program, mode)]
    return sum(found) / len(found)


ours = {
    "apps-uvm-c": over_all("uvm"),
    "apps-pm-c": over_all("pm"),
    "apps-uvm-copies-c": over_all("uvm", copies),
    "apps-pm-copies-c": over_all("pm", copies),
    "apps-async-c": over_all("async"),
    "apps-async-lud": over("lud", "async"),
    "apps-async-knn": over("knn", "async", kernel),
    "apps-abstract-knn": over("knn", "async"),
    **{
        f"apps-abstract-{program}-{memory}": over(program, f"{memory}_async", base=memory)
        for program in ("kmeans", "lud")
        for memory in ("uvm", "pm")
    },
    "apps-uvm-kmeans": over("kmeans", "uvm", kernel),
    "apps-uvm-async-kmeans": over("kmeans", "uvm_async", kernel),
}
for machine in ("b", "d"):
    ours |= {f"{name[:-1]}{machine}": value for name, value in list(ours.items()) if name == "apps-uvm-c"}
ours |= {f"{name[:-1]}d": ours[name] for name in ("apps-pm-c", "apps-uvm-copies-c", "apps-pm-copies-c", "apps-async-c")}
for mode in ("uvm_async", "pm_async"):
    ours[f"share-idle-{mode.replace('_', '-')}"] = 1 - shares(mode, "kernel")
for mode in ("baseline", "uvm_async"):
    ours[f"share-alloc-{mode.replace('_', '-')}"] = shares(mode, "allocation")
for mode in ("baseline", "uvm", "pm"):
    ours[f"share-transfer-{mode}"] = shares(mode, "copies")
    ours[f"share-kernel-{mode}"] = shares(mode, "kernel")
rows = published.compared(published.load(DATA.parent / "published/pipelining.csv"), ours)
display(rows)

# %%
figure, axes = plots.panels(1, width=11, height=5)
plots.comparison(axes[0], rows)

# %%
counts = {mode: sum(over(program, mode) is not None for program in TEN) for mode in ("uvm", "pm", "async")}
Markdown(
    f"Our means are of the programs that were measured: {counts['uvm']} in uvm, {counts['pm']} in pm, "
    f"{counts['async']} in async. {published.sentence(rows)}"
)

# %% [markdown]
# ## Figure 11 of the MI300A paper: six programs, managed over explicit
#
# From "Dissecting CPU-GPU Unified Physical Memory on AMD MI300A APUs" (2025). Its programs have one allocation in place
# of two with copies between them. On an APU that is one physical memory. Here it is managed memory of an NVIDIA H200
# behind a link: a page migrates when the GPU or the CPU first touches it. So the data whose copy the paper saves has to
# move here, by page faults instead of copies, and it cannot be shown here that no copy is needed.
#
# The input is read from a file (preset `paper-mi300a`), bypassing the host's page cache. `kernel` is the kernel alone.
# `compute` includes copies, as in the paper: a pass, `overlapped`. `total` is everything that the program does,
# including reading the file. Memory is `memory_peak` ([method](../../docs/method.md)).

# %%
six = readings.example(DATA.parent / "h200-6ec2326f/unified.jsonl.gz")
figure = programs.unified_over_explicit(six)

# %%
unified = programs.unified(six)
from_file = six.where(preset="paper-mi300a", placement="pageable")


def reading(version):
    """The share of reading the file in the total, explicit copies."""
    of = from_file.where(**programs.VERSIONS[version])
    return ratio_of(of.value(metric="file"), of.value(metric="total"))


BARS = ("kernel", "compute", "total", "memory")
rows = [
    f"| {version} | {' | '.join(f'{float(bars[bar]):.2f}' if bar in bars else '-' for bar in BARS)} "
    + (f"| {float(share):.0%} |" if (share := reading(version)) else "| - |")
    for version, bars in unified.items()
]
Markdown("\n".join([
    "| managed over explicit | kernel | compute | total | peak of memory | the file, of the total of explicit copies |",
    "|---|---|---|---|---|---|", *rows,
]))  # fmt: skip

# %%
stated = published.load(DATA.parent / "published/mi300a.csv")
BAR = {f"apps-{name}": (version, bar) for version, bar, name in (
    ("backprop", "compute", "backprop-compute"), ("backprop", "total", "backprop-total"),
    ("dwt2d", "compute", "dwt2d-compute"), ("dwt2d", "total", "dwt2d-total"),
    ("heartwall, static", "total", "heartwall-static"), ("heartwall", "total", "heartwall"),
    ("nn", "compute", "nn-compute"), ("srad_v1", "compute", "srad-compute"),
    *((version, "memory", f"{version.removesuffix('_v1')}-memory") for version in programs.SIX),
)}  # fmt: skip
rows = published.compared(stated, {name: unified.get(version, {}).get(bar) for name, (version, bar) in BAR.items()})
display(rows)

# %%
totals, computes = ({v: float(bars[bar]) for v, bars in unified.items() if bar in bars} for bar in ("total", "compute"))
least, most = min(totals, key=totals.get), max(totals, key=totals.get)
faster = ", ".join(version for version, value in totals.items() if value < 1) or "none"
peaks = {version: float(bars["memory"]) for version, bars in unified.items() if "memory" in bars}
memory = stated["apps-backprop-memory"]


def shorter(bar, program="backprop"):
    return f"{1 - stated[f'apps-{program}-{bar}'].low:.0%}"


saved = ", ".join(version for version, value in peaks.items() if value <= 0.9) or "none"
hungriest = max(peaks, key=peaks.get)
Markdown(
    f"The paper finds backprop's compute {shorter('compute')} and its total {shorter('total')} shorter, and dwt2d's "
    f"compute {shorter('compute', 'dwt2d')}, with as long a total. Four programs save {1 - memory.high:.0%} to "
    f"{1 - memory.low:.0%} of memory. Here compute takes {min(computes.values()):.2f} to "
    f"{max(computes.values()):.2f} times as long in managed memory. Of the total the file is a large part, so it takes "
    f"{totals[least]:.2f} ({least}) to {totals[most]:.2f} times as long ({most}); shorter are: {faster}. A tenth of "
    f"memory and more is saved by {saved}; {hungriest} takes ×{peaks[hungriest]:.1f}. {published.sentence(rows)}"
)
