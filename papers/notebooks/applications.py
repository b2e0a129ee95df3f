# %% [markdown]
# # Programs in six modes
#
# The ten programs of "Performance Implications of Pipelining the Data Transfer in CPU-GPU Heterogeneous Systems"
# (TACO 2025) and four of "GPUVM" (2024) on one NVIDIA H200 host, beside Figure 5 and section 4.2 of the first. Its
# machine C has an A100, D an H100 with PCIe 5, which is nearest to ours. Figure 6 is training and inference of four
# networks by darknet, which are not here.
#
# The programs are written anew ([what each is](../../docs/applications.md)): same inputs and outputs, other kernels. So
# a ratio of copies can be compared with the paper's, and a ratio of totals only where the kernel does not matter:
# where ours is faster, copies and allocation weigh more.
#
# | mode | host memory | how tiles get into shared memory |
# |---|---|---|
# | baseline, async | pageable | direct, asynchronously |
# | uvm, uvm_async | managed, prefetched to the GPU, results back by page faults | direct, asynchronously |
# | pm, pm_async | page-locked | direct, asynchronously |
#
# `hotspot` and `lud` stage nothing: hotspot loads its tiles once into registers, lud's products are the vendor's GEMM.
# They stand in the three memories only.

# %%
import functools
from math import exp, log
from pathlib import Path

from IPython.display import Markdown

from isthmus import units
from isthmus.figures import plots
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import programs
from isthmus_papers.figures.named import over as ratio_of
from isthmus_papers.figures.programs import FLOORS, MODES, PLAIN, TEN

DATA = Path("../data/h200")

pilots = readings.example(DATA / "apps.jsonl.gz")
at_super = readings.example(DATA / "apps-modes.jsonl.gz").where(size="super")
mega = readings.example(DATA / "apps-mega.jsonl.gz").where(size="mega", placement="pinned")
time, parts, total = (functools.partial(of, at_super) for of in (programs.time, programs.parts, programs.total))


def over(program, mode, of=total, base="baseline"):
    """Over the same of baseline, None where either was not measured."""
    return ratio_of(of(program, mode), of(program, base))


def copies(program, mode):
    return parts(program, mode).get("copies")


def kernel(program, mode):
    return parts(program, mode).get("kernel")


def geometric_mean(values):
    """With the interval that those of the values allow."""
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
# At super (the paper's bars are at mega), relative to baseline; kernel, copies, calls that allocate device or managed
# memory, from the bottom. Page-locking is in no bar, as in the paper. The modes of nw, kmeans, lavamd, pathfinder and
# backprop are of two hosts. Their kernels agree within 2%, their pageable copies need not.

# %%
figure = programs.where_time_goes(at_super)

# %% [markdown]
# Seconds of the three modes with direct staging, and page-locking, which the bars leave out.


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
# ## What asynchronous staging does to a kernel
#
# Asynchronous over direct in the three memories; above 1 is slower. The kernels are the same program text.

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
# ## Kernels at mega, beside their floor
#
# A floor is what bytes over 4.2 TB/s, or operations over their rate, allow ([notes](../../src/apps)); an aim was set
# before the program was written. Times are of the best staging, in page-locked memory; where a program iterates, of an
# iteration after the first. hotspot's floor is at the 8 steps that a pass fuses. backprop and bayesian need less work
# than their aims were made from, so their floors are lower (4.2 for 5.6 ms, 22 for 90 ms).

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
# What a whole pass takes at mega in page-locked memory, over the sum of copies and kernel measured apart (1 says that
# nothing is lost between them).

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
# The two programs that were measured in chunks there (`streamed`, 16 chunks): a pass over the longest of its parts (1
# says that all else is hidden; the aim is 1.10).

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
# A pass (copies and kernel; what page faults move is in the kernel) over that of `pinned`, without staging.

# %%
medium = readings.Readings([*pilots.found, *readings.example(DATA / "apps-medium.jsonl.gz").found])
figure = programs.placements(medium)

# %%
untaken = [program for program in FLOORS if program not in {name for name, _ in programs.passes(medium)}]
Markdown(f"Not measured at medium: {', '.join(untaken) or 'none'}.")

# %% [markdown]
# ## Beside the paper
#
# Every aggregate of the abstract, section 4.2 and section 8.1 that networks have no part in. The paper's figures
# are at mega, ours at super, and of other kernels. Means are geometric, as the paper says of its own; shares are
# arithmetic, of 18 programs there and of ours here. Section 4.2's figure of knn stands beside our kernel: pageable
# copies vary from case to case by as much as the kernel takes. The abstract's stands beside the whole. That GPUs
# are idle for over 60% of the time, as section 8.1 has it, does not go with its own shares of kernels in uvm and pm
# (59% and 64%).


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
rows = published.beside(published.load(DATA.parent / "published/pipelining.csv"), ours)
Markdown(published.markdown(rows))

# %%
figure, axes = plots.panels(1, width=11, height=5)
plots.beside(axes[0], rows)

# %%
counts = {mode: sum(over(program, mode) is not None for program in TEN) for mode in ("uvm", "pm", "async")}
Markdown(
    f"Our means are of the programs that were measured: {counts['uvm']} in uvm, {counts['pm']} in pm, "
    f"{counts['async']} in async. {published.sentence(rows)}"
)

# %% [markdown]
# ## Figure 11 of the MI300A paper: six programs, managed over explicit
#
# Of "Dissecting CPU-GPU Unified Physical Memory on AMD MI300A APUs" (2025). Its programs have one allocation where
# they had two and copies between them. On an APU that is one physical memory. Ours is managed memory of NVIDIA H100s
# behind a link: a page migrates when the GPU or the CPU first touches it. So what the paper saves has to move here,
# too, by page faults in place of copies. That no copy is needed cannot be shown here.
#
# The input is read from a file (preset `paper-mi300a`), past the host's cache of files. `kernel` is the kernel alone.
# `compute` has copies in it, as in the paper: a pass, `overlapped`. `total` is all the program does, and reading the
# file. Memory is `memory_peak` ([method](../../docs/method.md)).

# %%
six = readings.example(DATA.parent / "h100/programs.jsonl.gz")
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
rows = published.beside(stated, {name: unified.get(version, {}).get(bar) for name, (version, bar) in BAR.items()})
Markdown(published.markdown(rows))

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
