# %% [markdown]
# # Batches of page faults
#
# What NVIDIA's driver did with managed memory on two H200 hosts (driver 580.159.04), from its own queue of events
# ([`--observe uvm`](../docs/uvm.md)), beside Figures 1, 4 to 8, 12, 15 and Table 3 of "Fine-grain Quantitative
# Analysis of Demand Paging in Unified Virtual Memory" (TACO 2024). The paper put timers into a driver of its own, on
# Titan V and V100 behind PCIe 3; here the driver is as it comes.
#
# The records are in [`analysis/data/h200`](../analysis/data/README.md). Metrics are of whole samples; tables are of
# the first batches of one sample a case. Emulated records have no place here.

# %%
import collections
from pathlib import Path

import numpy as np
from IPython.display import Markdown

from isthmus import units
from isthmus.batches import model, sampling
from isthmus.figures import paging, plots
from isthmus.records import content, load
from isthmus.statistics import rank_test
from isthmus.tables import readings

DATA = Path("../analysis/data/h200/faults.jsonl.gz")
MiB, GiB = 2**20, 2**30

SECOND = DATA.with_name("faults-second.jsonl.gz")
found = [each for each in load.read(DATA) if each["metrics"]]
second = load.read(SECOND)  # of another host: Table 3's programs, and what the model is held to
assert not any(each["emulated"] for each in [*found, *second])


def median(record, metric):
    return float(np.median(content.samples(record, metric)))


def chosen(workload, among=found, **axes):
    def fits(have):
        return all(have.get(name) == value for name, value in axes.items())

    return [each for each in among if each["workload"] == f"faults/{workload}" and fits(each["axes"])]


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return Markdown("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines))


# %% [markdown]
# ## What was counted is whole
#
# New pages of the host, each read once by the GPU. Without the prefetcher the pages that faulted are the pages
# touched, and the bytes are theirs, to the byte. With it the bytes by cause make the footprint up. `64KiB` and `2MiB`
# are groups of the driver that hold the prefetcher to pieces of that size.

# %%
rows = []
CAUSES = ("fault", "prefetch", "user", "eviction")
for record in [*chosen("regular"), *chosen("random"), *chosen("strided")]:
    axes = record["axes"]
    if axes["bytes"] not in (64 * MiB, GiB) or (axes["visit"], axes["host_threads"]) != ("first", 1):
        continue
    if not content.samples(record, "uvm_pages") or (axes["bytes"], axes["driver_prefetch"]) == (GiB, "default"):
        continue
    stride = axes.get("stride", 1)
    pages = axes["bytes"] // 4096 // stride
    moved = [sum(each) for each in zip(*(content.samples(record, f"uvm_{cause}_bytes") for cause in CAUSES))]
    whole = pages * 4096 if axes["driver_prefetch"] == "off" else axes["bytes"]
    faulted = content.samples(record, "uvm_pages")
    rows.append([
        record["workload"], f"{axes['bytes'] // MiB} MiB", axes["driver_prefetch"], pages,
        "all" if set(faulted) == {pages} else f"{np.median(faulted):.0f}",
        "all" if set(moved) == {whole} else "not all",
        f"{median(record, 'uvm_prefetch_bytes') / whole:.0%}",
        sum(warning["code"] == "uvm_dropped" for warning in record["warnings"]),
    ])  # fmt: skip
markdown(
    ["workload", "bytes", "prefetcher", "pages touched", "faulted", "bytes of the footprint that moved",
     "by the prefetcher", "samples with dropped events"], rows,
)  # fmt: skip


# %% [markdown]
# Bytes that the prefetcher brought into a piece of 64 KiB in which no page had faulted in the same batch: with
# `64KiB` none, so groups hold it back exactly.


# %%
rows = []
for prefetch in ("default", "2MiB", "64KiB"):
    [record] = chosen("regular", bytes=64 * MiB, driver_prefetch=prefetch, visit="first")
    brought, outside = sampling.prefetched(DATA, record)
    rows.append([prefetch, f"{brought / MiB:.1f} MiB", f"{outside / MiB:.1f} MiB"])
markdown(["prefetcher (regular, 64 MiB)", "brought by it", "of these in pieces without a fault"], rows)

# %% [markdown]
# ## Table 3: blocks of a batch, faults of a block
#
# A block is 2 MiB. Prefetcher off; regular and random 1 GiB, `sgemm` and `stream` three arrays of 64 MiB on the second
# host. The means of samples; the deviation, least and most faults of a block are not in these records (`isthmus faults
# report` has them of a trace). Faults in no order meet as many blocks as chance gives: of $N$ blocks $N(1-(1-1/N)^f)$
# with $f$ faults. The paper's 233 blocks of 242 faults would be those of some 3,000 blocks, so of a larger array.

# %%
PAPER = {"regular": (41.27, 5.93), "random": (233.09, 1.04), "sgemm": (6.96, 9.81), "stream": (3.93, 15.37)}
table3 = {
    **{name: chosen(name, bytes=GiB, driver_prefetch="off") for name in ("regular", "random")},
    **{name: chosen(name, second, driver_prefetch="off") for name in ("sgemm", "stream")},
}
rows = []
for name, of in table3.items():
    theirs = f"{PAPER[name][0]:.2f}", f"{PAPER[name][1]:.2f}"
    ours = {each: np.mean(content.samples(of[0], f"uvm_batch_{each}")) for each in ("blocks", "faults")}
    blocks = 512 if name == "random" else None
    chance = f"{blocks * (1 - (1 - 1 / blocks) ** ours['faults']):.1f}" if blocks else ""
    faults = np.mean(content.samples(of[0], "uvm_block_faults"))
    rows.append([name, f"{ours['blocks']:.2f}", theirs[0], f"{faults:.2f}", theirs[1], f"{ours['faults']:.1f}", chance])
markdown(["", "blocks / batch", "paper", "faults / block", "paper", "faults / batch", "blocks by chance"], rows)

# %% [markdown]
# ## Figure 1: until the GPU has read so many bytes
#
# From the host's call to the end, a word of each page: by page faults, or after a copy that the program asks for. The
# paper states one or more orders of magnitude over explicit management.

# %%
watched_alone = readings.load(DATA)
figure = paging.latency(watched_alone)
latency = paging.first_reads(watched_alone)
over = paging.over_explicit(latency)
least, most = ([round(float(of(over[each].values())), 1) for each in over] for of in (min, max))
Markdown(
    f"{sum(map(len, latency.values()))} cases. Over page-locked memory {least[0]} to {most[0]} times, over malloc's "
    f"{least[1]} to {most[1]} times: from 128 MiB on, faults with the prefetcher cost no more than that copy."
)

# %% [markdown]
# ## Figure 4: where the time goes
#
# The queue stamps a batch's first fault, its last and its replay, and each move. So a kernel's time splits into
# service, what lies between batches, and the rest; transfer (on the GPU's clock) lies mostly inside the service. The
# paper's other parts (fetching, preprocessing, waiting for the tracker, unmapping, DMA mapping) cannot be told from
# each other in a driver that nobody changed; what lies before a batch's first stamp counts as between batches.

# %%
rows = []
for name, of in table3.items():
    for record in of[:1]:
        kernel = median(record, "time" if content.samples(record, "time") else "kernel")
        service, between, transfer = (median(record, f"uvm_{each}_time") for each in ("service", "between", "transfer"))
        rows.append([
            name, units.quantity(kernel, "s"), f"{service / kernel:.0%}", f"{between / kernel:.0%}",
            f"{transfer / kernel:.0%}", units.quantity(service / median(record, "uvm_batches"), "s"),
        ])  # fmt: skip
markdown(["prefetcher off", "kernel", "service", "between batches", "transfer", "service a batch"], rows)


# %% [markdown]
# (The transfers of `sgemm` and `stream` include the way back to the host.)
#
# ## Figures 5, 6 and 8: what a batch costs
#
# A dot is a batch. Left: service by bytes moved (Figure 5). Middle: by blocks served, which says more (Figure 8).
# Right: share of the transfer in sgemm's batches (Figure 6; moves at the same time count twice); the paper's line is
# 25%.

# %%
Dots = collections.namedtuple("Dots", "bytes blocks visits service")


def dots(record, path=DATA):
    samples, why = sampling.of_record(str(path), record)
    assert samples, why
    features = np.concatenate([each.features for each in samples])
    return Dots(
        *(features[:, sampling.TERMS.index(term)] for term in ("bytes", "blocks", "first_visits")),
        np.concatenate([each.service for each in samples]),
    )  # fmt: skip


shown = {f"{name}, off": table3[name][0] for name in ("regular", "random")}
shown["sgemm, off"] = chosen("sgemm", driver_prefetch="off")[0]  # 8192², cut short
shown["regular"] = next(each for each in chosen("regular", bytes=GiB, driver_prefetch="default") if each["tables"])
shown["random, 256 MiB"] = next(
    each for each in chosen("random", bytes=256 * MiB, driver_prefetch="default") if each["tables"]
)
figure, axes = plots.panels(3, width=15, height=4)
for (name, record), colour, marker in zip(shown.items(), plots.COLOURS, "osD^v"):
    of = dots(record)
    size = {"markersize": 2.5, "color": colour, "linestyle": "", "label": name}
    axes[0].loglog(of.bytes / MiB, of.service * 1e3, marker, **size)
    axes[1].loglog(of.blocks, of.service * 1e3, marker, **size)
    if name.startswith("sgemm"):
        moved = sampling.moved(DATA, record)
        share = moved.transfer / moved.service
        axes[2].plot(moved.bytes / MiB, 100 * share, marker, **size)
axes[2].axhline(25, color="black", linewidth=0.8)
for axis, words in zip(axes, ("MiB moved", "blocks served", "MiB moved")):
    axis.set_xlabel(words)
    axis.legend()
axes[0].set_ylabel("service, ms")
axes[2].set_ylabel("transfer of service, %")
axes[2].set_ylim(0, 100)
Markdown(
    f"Of sgemm's first {len(share)} batches {np.mean(share < 0.25):.0%} spend less than a quarter in transfer; the "
    f"median is {np.median(share):.0%}."
)

# %% [markdown]
# ## Figure 12: with and without the prefetcher
#
# 64 MiB. The paper's base case has the prefetcher off for the whole machine; `off` here is 4 KiB groups, whose
# handling is the driver's work too, and `64KiB` stands between. So the factor is an upper bound of the prefetcher's.

# %%
rows = []
for name in ("regular", "random", "strided"):
    base = None
    for prefetch in ("default", "2MiB", "64KiB", "off"):
        for record in chosen(name, bytes=64 * MiB, driver_prefetch=prefetch, visit="first"):
            time = median(record, "time")
            base = base or time
            batches = median(record, "uvm_batches")
            rows.append([
                name, prefetch, units.quantity(time, "s"), f"{time / base:.1f}", f"{batches:.0f}",
                f"{median(record, 'uvm_faults'):.0f}",
                units.quantity(median(record, "uvm_service_time") / batches, "s"),
            ])  # fmt: skip
markdown(["64 MiB", "prefetcher", "kernel", "× default", "batches", "faults", "service a batch"], rows)

# %% [markdown]
# ## Figure 15: sgemm with the prefetcher
#
# 4096² on the second host. Left: each batch of one pass by the bytes that it moved; those that visit a block for the
# first time are apart. Right: the same batches in their order. The paper has 93% fewer batches with the prefetcher.

# %%
with_prefetcher = [each for each in chosen("sgemm", second, n=4096, driver_prefetch="default") if each["tables"]]
of = dots(with_prefetcher[0], SECOND)  # the first job's table is whole
figure, axes = plots.panels(2, width=12, height=4)
first = of.visits > 0
for chosen_ones, colour, marker, words in (
    (first, plots.COLOURS[0], "o", "first visit of a block"), (~first, plots.COLOURS[1], "s", "blocks visited before"),
):  # fmt: skip
    style = {"markersize": 3, "color": colour, "linestyle": "", "label": words}
    axes[0].loglog(of.bytes[chosen_ones] / MiB, of.service[chosen_ones] * 1e3, marker, **style)
    axes[1].semilogy(np.flatnonzero(chosen_ones), of.service[chosen_ones] * 1e3, marker, **style)
for axis, words in zip(axes, ("MiB moved", "batch of the pass")):
    axis.set_xlabel(words)
    axis.set_ylabel("service, ms")
    axis.legend()
fewer = 1 - median(with_prefetcher[0], "uvm_batches") / median(table3["sgemm"][0], "uvm_batches")
Markdown(
    f"{len(first)} batches, {fewer:.0%} fewer than without the prefetcher. The largest moves "
    f"{of.bytes.max() / MiB:.1f} MiB. {np.mean(first):.0%} of the batches visit a block for the first time; they take "
    f"{of.service[first].sum() / of.service.sum():.0%} of the service."
)

# %% [markdown]
# ## What a batch is made of
#
# `isthmus faults model` fits the service of these batches. Bytes and pages of the host go together in all of them: no
# pattern with pages unmapped on the host could be had.

# %%
fits = [model.fits(sampling.read([path], emulated=False, absent=[])[0])[0] for path in (DATA, SECOND)]
rows = []
for term, name in enumerate(sampling.TERMS):
    row = [name]
    for fit in fits:
        known = fit.status(term) == "identified"
        row.append(f"{fit.values[term]:.3g}" if known else "with " + fit.partners(term) if fit.values[term] == 0 else (
            f"{fit.values[term]:.3g} together with {fit.partners(term)}"
        ))  # fmt: skip
        row.append(f"{fit.low[term]:.3g} to {fit.high[term]:.3g}" if known and fit.low is not None else "")
    rows.append(row)
display(markdown(["term", "first host, seconds each", "95%", "second host", "95%"], rows))  # noqa: F821
Markdown("\n".join(
    f"- {name} host: {fit.batches} batches of {fit.jobs} jobs. {fit.explained:.1%} of the variance of their service is "
    f"explained; of patterns left out whole, {fit.explained_left:.1%}." for name, fit in zip(("First", "Second"), fits)
))  # fmt: skip

# %% [markdown]
# Kernels of `stream` and `sgemm` on the second host: the sum of what the model says of their batches, fitted on the
# simple patterns alone, beside the kernel's time.

# %%
rows = [
    [each.pattern, each.batches, units.quantity(each.measured, "s"), units.quantity(each.predicted, "s"),
     f"{each.error:+.0%}"] for each in fits[1].kernels
]  # fmt: skip
markdown(["kernel", "batches", "measured", "predicted", "error"], rows)

# %% [markdown]
# ## Figure 7: pages that many threads of the host touched; and what watching costs
#
# 40 pairs of processes in turns, watched and not (regular, 1 GiB, prefetcher as it is, one sample each). And pages
# that 16 threads of the host wrote first, over one thread: the paper's unmapping on many processors. Six jobs; each
# ratio with its 95% interval over pairs or jobs.


# %%
def ratio(over):
    """Geometric mean with its 95% interval."""
    middle, low, high = rank_test.ratio_interval(over)
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


both = chosen("regular", bytes=GiB, driver_prefetch="default")
watched, plain = (
    [content.samples(each, "time")[0] for each in both if bool(content.samples(each, "uvm_faults")) == seen]
    for seen in (True, False)
)
rows = [[f"watched over not, {len(watched)} pairs", ratio(np.array(watched) / np.array(plain))]]
for name in ("regular", "random"):
    for prefetch in ("default", "64KiB"):
        of = chosen(name, bytes=256 * MiB, driver_prefetch=prefetch)
        by = collections.defaultdict(dict)
        for each in of:
            by[each["axes"]["host_threads"]][each["run"]["id"]] = median(each, "time")
        over = np.array([by[16][job] / by[1][job] for job in by[1]])
        rows.append([f"16 threads over 1, {name}, {prefetch}, {len(over)} jobs", ratio(over)])
markdown(["", "time, ratio [95%]"], rows)

# %% [markdown]
# Watching is not free where a byte a page is all that is read. Whether 16 threads that touched the pages cost more
# cannot be said from six jobs of this host: all four intervals include 1.
#
# ## What cannot be split, or was not had
#
# - Fetching, preprocessing, tracker, unmapping, DMA mapping: the driver has no events of them.
# - Pages that the host has unmapped: an explicit prefetch to the host maps them on this driver.
# - GPU to GPU (Figures 4b, 9, 10), oversubscription (11, 13, 14, 16), HPGMG (7) itself: no records.
