# %% [markdown]
# # Batches of page faults
#
# For readers of "Fine-grain Quantitative Analysis of Demand Paging in Unified Virtual Memory" (TACO 2024), and for
# anybody who wonders where the time of managed memory goes: what NVIDIA's driver did on two H200 and three H100 hosts
# (driver 580.159.04), from its own event queue ([`--observe uvm`](../../docs/uvm.md)), compared with the paper's
# Figures 1, 4 to 8, 12, 15 and Table 3. The paper put timers into its own version of the driver, on Titan V and V100
# behind PCIe 3; here the driver is unmodified. The figures that the paper's text states are in
# [`published/uvm-batches.csv`](../data/published/uvm-batches.csv).
#
# The records are in [`papers/data`](../data/README.md), `h200`, `h100` and `h100-x2`. Metrics cover whole samples.
# Tables from the H100 have every batch of a sample, tables from the H200 the first ones. No record is emulated or
# invalid.

# %%
import collections
from pathlib import Path

import numpy as np
from IPython.display import Markdown, display

from isthmus import units
from isthmus.figures import plots
from isthmus.records import fields, load
from isthmus.statistics import rank_test
from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.batches import model, sampling
from isthmus_papers.figures import paging

DATA = Path("../data/h200/faults.jsonl.gz")
MiB, GiB = 2**20, 2**30

SECOND = DATA.with_name("faults-second.jsonl.gz")
H100 = Path("../data/h100/faults.jsonl.gz")
found = [each for each in load.read(DATA) if each["metrics"]]
second = load.read(SECOND)  # of another host: stream and sgemm, and what the model is held to
h100 = load.read(H100)
pair = load.read("../data/h100-x2/faults.jsonl.gz")
assert not any(each["emulated"] or fields.invalidating(each) for each in [*found, *second, *h100, *pair])
paper = published.load("../data/published/uvm-batches.csv")


def median(record, metric):
    return float(np.median(fields.samples(record, metric)))


def chosen(workload, among=found, **axes):
    def fits(have):
        return all(have.get(name) == value for name, value in axes.items())

    return [each for each in among if each["workload"] == f"faults/{workload}" and fits(each["axes"])]


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return Markdown("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines))


# %% [markdown]
# ## The counts are complete
#
# New pages of the host, each read once by the GPU. Without the prefetcher the pages that faulted are exactly the pages
# touched, and the bytes moved are exactly theirs. With it the bytes by cause add up to the footprint. `64KiB` and
# `2MiB` are driver groups that limit the prefetcher to pieces of that size.

# %%
rows = []
CAUSES = ("fault", "prefetch", "user", "eviction")
for record in [*chosen("regular"), *chosen("random"), *chosen("strided")]:
    axes = record["axes"]
    if axes["bytes"] not in (64 * MiB, GiB) or (axes["visit"], axes["host_threads"]) != ("first", 1):
        continue
    if not fields.samples(record, "uvm_pages") or (axes["bytes"], axes["driver_prefetch"]) == (GiB, "default"):
        continue
    stride = axes.get("stride", 1)
    pages = axes["bytes"] // 4096 // stride
    moved = [sum(each) for each in zip(*(fields.samples(record, f"uvm_{cause}_bytes") for cause in CAUSES))]
    whole = pages * 4096 if axes["driver_prefetch"] == "off" else axes["bytes"]
    faulted = fields.samples(record, "uvm_pages")
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
# Bytes that the prefetcher moved into a 64 KiB piece in which no page had faulted in the same batch: with `64KiB`
# there are none, so the groups limit it exactly.


# %%
rows = []
for prefetch in ("default", "2MiB", "64KiB"):
    [record] = chosen("regular", bytes=64 * MiB, driver_prefetch=prefetch, visit="first")
    brought, outside = sampling.prefetched(DATA, record)
    rows.append([prefetch, f"{brought / MiB:.1f} MiB", f"{outside / MiB:.1f} MiB"])
markdown(["prefetcher (regular, 64 MiB)", "brought by it", "of these in pieces without a fault"], rows)

# %% [markdown]
# ## Table 3: blocks per batch, faults per block
#
# A block is 2 MiB. The prefetcher is off; regular and random are 1 GiB, the programs use `--preset paper-table3`. For
# each there is one pass on an H100, with every batch of it; the paper's figures, for a Titan V, are in brackets.
# `multigrid` replaces its HPGMG.
#
# The paper: blocks per batch and faults per block differ from program to program and from block to block, so dividing
# work by blocks would be uneven. Only random reads differ little, and they leave little work per block.


# %%
PROGRAMS = ("regular", "random", "sgemm", "stream", "fft", "gauss_seidel", "multigrid")
FIELDS = {
    "blocks": "uvm_batch_blocks", "faults": "uvm_block_faults", "deviation": "uvm_block_faults_deviation",
    "least": "uvm_block_faults_least", "most": "uvm_block_faults_most",
}  # fmt: skip
tabled = [each for each in h100 if each["tables"]]
table3 = {name: next(each for each in tabled if each["workload"] == f"faults/{name}") for name in PROGRAMS}
ours = {
    name: {field: fields.samples(record, metric)[0] for field, metric in FIELDS.items()}
    for name, record in table3.items()
}
markdown(
    ["", "blocks / batch", "faults / block", "deviation", "least", "most"],
    [
        [name, *(f"{value:.4g} ({paper[f'{name}-{field}'].low:g})" for field, value in of.items())]
        for name, of in ours.items()
    ],
)

# %%
uneven = [name for name in PROGRAMS if ours[name]["deviation"] > ours[name]["faults"]]
theirs = [name for name in PROGRAMS if paper[f"{name}-deviation"].low > paper[f"{name}-faults"].low]
whole = [name for name in PROGRAMS if ours[name]["most"] == 256]
even = min(PROGRAMS, key=lambda name: ours[name]["deviation"] / ours[name]["faults"])
agree = [
    name for name in PROGRAMS
    if all(published.judge(paper[f"{name}-{field}"], ours[name][field]) == "agrees" for field in ("blocks", "faults"))
]  # fmt: skip


def by_chance(faults, blocks=512):
    """Blocks that so many faults in no order meet, of so many."""
    return blocks * (1 - (1 - 1 / blocks) ** faults)


faults = fields.samples(table3["random"], "uvm_batch_faults")[0]
of_paper = paper["random-blocks"].low * paper["random-faults"].low
needed = next(blocks for blocks in range(512, 10**5) if by_chance(of_paper, blocks) >= paper["random-blocks"].low)
Markdown(
    f"Here too: the deviation of the faults of a block is {ours[even]['deviation'] / ours[even]['faults']:.1f} to "
    f"{max(of['deviation'] / of['faults'] for of in ours.values()):.1f} times their mean, and {even} differs least. It "
    f"is over the mean of {', '.join(uneven)} (the paper's: {', '.join(theirs)}). A whole batch of 256 faults lies in "
    f"one block at some time in {', '.join(whole)}.\n\nWithin a tenth of the paper in blocks and in faults: "
    f"{', '.join(agree)}. The programs are other code for another GPU. Random reads meet as many blocks as chance "
    f"gives: {by_chance(faults):.1f} of 512 with {faults:.0f} faults. The paper's "
    f"{paper['random-blocks'].low:.0f} with "
    f"{of_paper:.0f} would be those of some {round(needed, -2):,}, so of a larger array."
)

# %% [markdown]
# The same on three more hosts, means of samples: regular, random, sgemm and stream on the H200s, the others on a second
# H100.

# %%
elsewhere = {
    **{name: chosen(name, bytes=GiB, driver_prefetch="off")[0] for name in ("regular", "random")},
    **{name: chosen(name, second, driver_prefetch="off")[0] for name in ("sgemm", "stream")},
    **{name: next(each for each in chosen(name, h100) if not each["tables"])
       for name in ("fft", "gauss_seidel", "multigrid")},
}  # fmt: skip
rows, apart = [], []
for name, record in elsewhere.items():
    of = [np.mean(fields.samples(record, FIELDS[field])) for field in ("blocks", "faults")]
    apart += [abs(value / ours[name][field] - 1) for value, field in zip(of, ("blocks", "faults"))]
    count = len(fields.samples(record, "uvm_batches"))
    rows.append([name, record["devices"][0]["name"].split()[1], count, f"{of[0]:.2f}", f"{of[1]:.2f}"])
display(markdown(["", "GPU", "samples", "blocks / batch", "faults / block"], rows))
Markdown(f"All are within {max(apart):.0%} of those above.")

# %% [markdown]
# ## Figure 1: time until the GPU has read a number of bytes
#
# From the host's call to the end, one word of each page: by page faults, or after a copy that the program requests.
# Above: an H200, pages in sequential order. Below: an H100, pages in sequential and in random order.
#
# The paper: one or more orders of magnitude slower than explicit management.


# %%
def first_reads(path):
    """The picture, and how far page faults are over copies."""
    of = readings.load(path)
    paging.latency(of)
    times = paging.first_reads(of)
    over = paging.over_explicit(times)
    words = [
        f"{name} {min(map(float, of.values())):.1f} to {max(map(float, of.values())):.1f} times"
        for name, of in over.items()
    ]
    return times, over, f"{sum(map(len, times.values()))} cases, page faults " + ", ".join(words)


alone, one_order, of_h200 = first_reads(DATA)
times, both_orders, of_h100 = first_reads(H100)
cheap = next(
    size for size in sorted(one_order["over pageable"])
    if all(ratio <= 1 for at, ratio in one_order["over pageable"].items() if at >= size)
)  # fmt: skip
orders = {size: float(times["managed, random"][size] / value) for size, value in times["managed, regular"].items()}
quicker = [size for size, ratio in orders.items() if ratio < 0.75]
highest = max(float(ratio) for over in (one_order, both_orders) for of in over.values() for ratio in of.values())
Markdown(
    f"H200: {of_h200}. H100: {of_h100}. (`pinned` is a copy of page-locked memory, `pageable` of malloc's.) So with "
    f"the prefetcher {'no case is' if highest < 10 else 'some cases are'} an order of magnitude over a copy. On the "
    f"H200 page faults cost no more than a copy of malloc's memory from {cheap / MiB:g} MiB on. Pages in no order "
    f"take {min(orders.values()):.2f} to {max(orders.values()):.2f} times as long as pages in their order, and less "
    f"than three quarters at {', '.join(f'{size / MiB:g} MiB' for size in quicker)}."
)

# %% [markdown]
# ## Figure 4: where the time goes
#
# The queue has timestamps of a batch's first fault, its last fault and its replay, and of each move. So a kernel's
# time splits into service, the time between batches, and the rest; transfer (on the GPU's clock, of moves in batches)
# is part of the service. The paper's other parts (fetching, preprocessing, waiting for the tracker, unmapping, DMA
# mapping) cannot be separated in an unmodified driver; time before a batch's first timestamp counts as between
# batches.
#
# The paper: servicing dominates, over 70% of the driver's time in sgemm.

# %%
moved = {name: sampling.moved(H100, record) for name, record in table3.items()}
rows, services = [], []
for name, record in table3.items():
    kernel = median(record, "time" if fields.samples(record, "time") else "kernel")
    service, between = (median(record, f"uvm_{each}_time") for each in ("service", "between"))
    services.append(service / kernel)
    rows.append([
        name, units.quantity(kernel, "s"), f"{service / kernel:.0%}", f"{between / kernel:.0%}",
        f"{moved[name].transfer.sum() / kernel:.0%}", units.quantity(service / median(record, "uvm_batches"), "s"),
    ])  # fmt: skip
display(markdown(["prefetcher off", "kernel", "service", "between batches", "transfer", "service a batch"], rows))
Markdown(f"Here it is {min(services):.0%} to {max(services):.0%} of the kernel's time.")

# %% [markdown]
# ## Figures 5 and 8: cost of a batch
#
# Each dot is a batch; every batch of the seven passes of Table 3 is here. Left: service by bytes moved, with each
# program's best-fitting straight line, which looks bent on these axes (Figure 5). Right: service by blocks with a
# fault (Figure 8).
#
# The paper: the cost rises linearly with the bytes, with a different slope in each program and with much variance;
# among batches that move the same amount, those with more blocks cost more.

# %%
figure, axes = plots.panels(2, width=14, height=4.6)
features, rows = {}, []


def explained(columns, service):
    """Share of the variance that a straight line explains, and its coefficients."""
    terms = np.column_stack([np.ones(len(service)), *columns])
    fit = np.linalg.lstsq(terms, service, rcond=None)[0]
    return 1 - np.var(service - terms @ fit) / np.var(service), fit


for (name, of), colour in zip(moved.items(), plots.COLOURS):
    table = load.read_table(H100, table3[name], "uvm_batches")
    assert len(table) == len(of.bytes) == median(table3[name], "uvm_batches")  # every batch
    blocks = np.array([row["blocks"] for row in table])
    features[name] = of.bytes, blocks
    by_bytes, (constant, slope) = explained([of.bytes], of.service)
    style = {"markersize": 1.2, "color": colour, "linestyle": ""}
    axes[0].loglog(of.bytes / 1024, of.service * 1e3, "o", **style)
    reach = np.geomspace(of.bytes[of.bytes > 0].min(), of.bytes.max(), 40)
    line = reach / 1024, (constant + slope * reach) * 1e3
    axes[0].loglog(*line, color="black", linewidth=2.6, zorder=3)
    axes[0].loglog(*line, color=colour, linewidth=1.4, zorder=3, label=name)
    axes[1].loglog(blocks, of.service * 1e3, "o", **style)
    axes[1].loglog([], [], "o", color=colour, linestyle="", label=name)
    rows.append([
        name, len(table), units.quantity(slope * 4096, "s"), f"{by_bytes:.0%}",
        f"{explained([blocks], of.service)[0]:.0%}", f"{explained(features[name], of.service)[0]:.0%}",
    ])  # fmt: skip
for axis, words in zip(axes, ("KiB moved", "blocks with a fault")):
    axis.set_xlabel(words)
    axis.set_ylabel("service, ms")
    axis.legend()
display(markdown(
    ["", "batches", "a further page of 4 KiB", "explained by bytes", "by blocks", "by both"], rows
))  # fmt: skip


def overall(names):
    """Share that bytes, blocks, and both explain of the batches of these programs."""
    service = np.concatenate([moved[name].service for name in names])
    columns = [np.concatenate(each) for each in zip(*(features[name] for name in names))]
    return [explained(each, service)[0] for each in ([columns[0]], [columns[1]], columns)]


everything, ordered = overall(PROGRAMS), overall([name for name in PROGRAMS if name != "random"])
Markdown(
    f"Here too the slope differs, and both count. Over all {sum(len(of.service) for of in moved.values()):,} batches "
    f"one straight line by bytes explains {everything[0]:.0%} of the variance of their service, one by blocks "
    f"{everything[1]:.0%}, and both {everything[2]:.0%}; without random reads {ordered[0]:.0%}, {ordered[1]:.0%} and "
    f"{ordered[2]:.0%}."
)

# %% [markdown]
# ## Figure 6: share of the transfer in a batch
#
# Left: every batch of sgemm by bytes moved. Right: what part of each program's batches has at most a given share. The
# line is the paper's 25%. The paper's batches include the time before the first fault is taken up (fetching). So the
# share of the time since the previous replay, which is longer than a batch, is also given.
#
# The paper: at most about 25% of a batch's time, in almost all batches of sgemm, and typically far less.

# %%
figure, axes = plots.panels(2, width=14, height=4.2)
shares = {name: of.transfer / of.service for name, of in moved.items()}
limit = paper["sgemm-transfer"].neutral
axes[0].plot(moved["sgemm"].bytes / 1024, 100 * shares["sgemm"], "o", markersize=2, color=plots.COLOURS[2])
axes[0].axhline(100 * limit, color="black", linewidth=0.8)
axes[0].set_xlabel("KiB moved")
axes[0].set_ylabel("transfer of service, %")
axes[0].set_ylim(0, 100)
axes[0].set_title("sgemm", loc="left")
for (name, share), colour in zip(shares.items(), plots.COLOURS):
    axes[1].plot(100 * np.sort(share), 100 * np.arange(1, len(share) + 1) / len(share), color=colour, label=name)
axes[1].axvline(100 * limit, color="black", linewidth=0.8)
axes[1].set_xlabel("transfer of service, at most %")
axes[1].set_ylabel("of the batches, %")
axes[1].legend()
share = shares["sgemm"]
below = {name: np.mean(each < limit) for name, each in shares.items()}
table = sorted(load.read_table(H100, table3["sgemm"], "uvm_batches"), key=lambda row: row["begin"])
ends = np.array([table[0]["begin"], *(row["replay"] for row in table)])
since = np.array([row["transfer"] for row in table]) / np.diff(ends)
Markdown(
    f"Here {below['sgemm']:.0%} of sgemm's {len(share)} batches spend less than {limit:.0%} in transfer; the median is "
    f"{np.median(share):.0%}, the most {share.max():.0%}, and of all their service together it is "
    f"{moved['sgemm'].transfer.sum() / moved['sgemm'].service.sum():.0%}. Of the time since the previous replay "
    f"{np.mean(since < limit):.0%} spend less, the median is {np.median(since):.0%}, and of all of it together it is "
    f"{moved['sgemm'].transfer.sum() / (ends[-1] - ends[0]):.0%}. So most of a batch is management here too, but the "
    f"paper's limit is passed by more than a few. At least nine of ten batches keep to it in "
    f"{', '.join(name for name, part in below.items() if part >= 0.9)}."
)

# %% [markdown]
# ## Figure 12: with and without the prefetcher
#
# 64 MiB. The paper's base case has the prefetcher off for the whole machine. Here `off` divides the memory into groups
# of 4 KiB, which cost the driver extra time; `64KiB` lies between `off` and `default`. So the factor of `off`
# (`× default`) is an upper bound on the prefetcher's effect.

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
# ## Figures 4b and 12: from GPU to GPU
#
# 64 MiB that one H100 has and another reads, one word of each page, over 18 NVLinks. Medians of six fresh processes,
# one sample each. The paper has two GPUs behind PCIe 3. Its base case is the upper row of each order.

# %%
rows, factors, served = [], {}, []
for order in ("regular", "random"):
    by = {prefetch: chosen("peers", pair, order=order, driver_prefetch=prefetch) for prefetch in ("off", "default")}
    times = {prefetch: [fields.samples(each, "time")[0] for each in of] for prefetch, of in by.items()}
    for prefetch, of in by.items():
        middle = {
            metric: float(np.median([fields.samples(each, f"uvm_{metric}")[0] for each in of]))
            for metric in ("batches", "faults", "service_time", "between_time", "transfer_time")
        }
        kernel = float(np.median(times[prefetch]))
        served.append(middle["service_time"] / kernel)
        rows.append([
            order, prefetch, units.quantity(kernel, "s"),
            f"{units.quantity(min(times[prefetch]), 's')} to {units.quantity(max(times[prefetch]), 's')}",
            f"{middle['batches']:.0f}", f"{middle['faults']:.0f}",
            *(f"{middle[f'{part}_time'] / kernel:.0%}" for part in ("service", "between", "transfer")),
        ])  # fmt: skip
    factors[order] = float(np.median(times["off"]) / np.median(times["default"]))
display(markdown(
    ["order", "prefetcher", "kernel", "of six", "batches", "faults", "service", "between batches", "transfer"], rows
))  # fmt: skip
Markdown(
    f"Service is {min(served):.0%} to {max(served):.0%} of the kernel. Without the prefetcher a kernel "
    f"takes {factors['regular']:.1f} (regular) and {factors['random']:.1f} times (random) as long."
)

# %% [markdown]
# ## Figure 15: sgemm with the prefetcher
#
# 4096² on the second H200 host. Left: each batch of one pass by the bytes that it moved; batches that visit a block for
# the first time are drawn separately. Right: the same batches in their order.
#
# The paper: 93% fewer batches with the prefetcher.


# %%
Dots = collections.namedtuple("Dots", "bytes visits service")


def dots(record, path):
    samples, why = sampling.of_record(str(path), record)
    assert samples, why
    features = np.concatenate([each.features for each in samples])
    return Dots(
        *(features[:, sampling.TERMS.index(term)] for term in ("bytes", "first_visits")),
        np.concatenate([each.service for each in samples]),
    )  # fmt: skip


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
fewer = 1 - median(with_prefetcher[0], "uvm_batches") / median(elsewhere["sgemm"], "uvm_batches")
Markdown(
    f"{len(first)} batches, {fewer:.0%} fewer than without the prefetcher. The largest moves "
    f"{of.bytes.max() / MiB:.1f} MiB. {np.mean(first):.0%} of the batches visit a block for the first time; they take "
    f"{of.service[first].sum() / of.service.sum():.0%} of the service."
)

# %% [markdown]
# ## Parts of a batch's cost
#
# `isthmus faults model` fits the service of these batches. In all of them bytes and host pages rise together, because
# no pattern with pages unmapped on the host could be measured.

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
display(markdown(["term", "first host, seconds each", "95%", "second host", "95%"], rows))
Markdown("\n".join(
    f"- {name} host: {fit.batches} batches of {fit.jobs} jobs. {fit.explained:.1%} of the variance of their service is "
    f"explained; of patterns left out whole, {fit.explained_left:.1%}." for name, fit in zip(("First", "Second"), fits)
))  # fmt: skip

# %% [markdown]
# Kernels of `stream` and `sgemm` on the second host: the sum that the model predicts for their batches, fitted on the
# simple patterns alone, compared with the kernel's time.

# %%
rows = [
    [each.pattern, each.batches, units.quantity(each.measured, "s"), units.quantity(each.predicted, "s"),
     f"{each.error:+.0%}"] for each in fits[1].kernels
]  # fmt: skip
markdown(["kernel", "batches", "measured", "predicted", "error"], rows)

# %% [markdown]
# ## Figure 7: pages touched by many host threads; and the cost of observation
#
# 40 pairs of processes, alternating with and without observation (regular, 1 GiB, prefetcher at its default, one
# sample each). And pages that 16 host threads wrote first, relative to one thread: the paper's unmapping on many
# processors. Six jobs; each ratio has its 95% interval over pairs or jobs.


# %%
def ratio(over):
    """Geometric mean with its 95% interval."""
    middle, low, high = rank_test.ratio_interval(over)
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


both = chosen("regular", bytes=GiB, driver_prefetch="default")
watched, plain = (
    [fields.samples(each, "time")[0] for each in both if bool(fields.samples(each, "uvm_faults")) == seen]
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
# ## Compared with the paper
#
# The values that the paper's text and Table 3 state. *Almost all batches* is the 90th percentile. The tables come from
# one pass per program, so the figures have the interval of a single process.

# %%
tabled = {f"{name}-{field}": value for name, of in ours.items() for field, value in of.items()}
rows = published.compared(paper, tabled | {
    "sgemm-transfer": float(np.quantile(share, 0.9)),
    "sgemm-prefetched": 1 - fewer,
})  # fmt: skip
display(rows)

# %%
Markdown(published.sentence(rows))

# %% [markdown]
# Observation costs time when only one byte per page is read. Six jobs on this host cannot show whether pages touched
# by 16 threads cost more: all four intervals include 1.
#
# ## What cannot be separated, or was not measured
#
# - Fetching, preprocessing, tracker, unmapping, DMA mapping: the driver has no events for them.
# - Pages that the host has unmapped: an explicit prefetch to the host maps them on this driver.
# - GPU to GPU over PCIe (Figures 9, 10), oversubscription (11, 13, 14, 16), HPGMG itself (7): no records.
