# %% [markdown]
# # End to end: from Spack's program to a verdict
#
# For anybody who wants to know how much figures vary before trusting a verdict: results of the jobs of
# [`tests/end_to_end/run`](../../docs/end-to-end.md), with one program that Spack built, a Slurm of one node, and hosts
# with one NVIDIA H200 each, one after the other. The notebook shows how far jobs differ, how far hosts differ, what a
# disturbed session looks like, and what another CUDA toolkit changes.

# %%
import collections
import contextlib
import io
import math
from pathlib import Path

import numpy as np
from IPython.display import Markdown

from isthmus import cli
from isthmus.figures import plots
from isthmus.records import load, store
from isthmus.records.measurements import literal
from isthmus.statistics import series, spread
from isthmus.tables import readings
from isthmus.verdicts import comparison, noise

DATA = Path("../data/end_to_end")
MEASURED = DATA / "measured.jsonl.gz"
FAMILIES = {
    "microbench": "microbenchmarks: kernels, copies", "transfer": "transfers", "driver": "driver's calls",
    "alloc": "allocators",
    "fault/cpu": "faults of the CPU", "fault/gpu0": "faults of the GPU", "atomics": "atomics", "latency": "latency",
    "interjob": "batches of jobs",
}  # fmt: skip


AROUND = (
    "host_alloc",
    "device_alloc",
    "host_touch",
    "free",
    "wall",
)  # of a microbenchmark: what its kernels do not see


def family(label):
    """Name of a series in words: the workload first and the metric last."""
    if label.startswith("microbench/") and label.split()[-1] in AROUND:
        return "microbenchmarks: allocation, wall time"
    return next(words for prefix, words in FAMILIES.items() if label.startswith(prefix))


with store.open_store([MEASURED]) as opened:
    jobs = opened.rows(
        "SELECT node, min(time) AS first, max(time) AS last, count(DISTINCT job) AS jobs, "
        "count(*) FILTER (metric_index = 0) AS records, count(DISTINCT workload) AS workloads "
        "FROM measurements GROUP BY node ORDER BY first"
    )
hosts = [row["node"] for row in jobs]
Markdown(
    "| host | from | to | jobs | records | workloads |\n|---|---|---|---|---|---|\n"
    + "\n".join(
        f"| {row['node']} | {row['first']:%H:%M:%S} | {row['last']:%H:%M:%S} | {row['jobs']} | {row['records']} "
        f"| {row['workloads']} |"
        for row in jobs
    )
)

# %% [markdown]
# ## Jobs differ more than samples
#
# Each dot is a series (a workload with its parameters, one metric) on a host that ran it in four or more jobs. Above
# the line, jobs differ more than the samples of one job, so an interval from one job would be too narrow. (A few
# series whose samples are all alike, such as ticks of a timer, are further to the left.)

# %%
dots, of_host, named = collections.defaultdict(list), {}, {}
for host in hosts:  # one at a time: on either, Slurm numbered its jobs from 1
    with store.open_store([MEASURED], wanted=(*comparison.WANTED, "mad"), where=f"node = {literal(host)}") as opened:
        of_host[host] = {each.key: each for each in series.load(opened, "'A'") if each.jobs("A") >= 4}
        named.update(series.labels(list(of_host[host].values())))
        for each in noise.measure(opened, step=0.03):
            if each.jobs >= 4 and each.within and each.between > 0:
                dots[family(each.label)].append((each.within, each.between))
figure, axes = plots.panels(1, width=8, height=5)
for (words, of), colour, marker in zip(sorted(dots.items()), (*plots.COLOURS, "#0072B2"), "osD^vPX*d"):
    axes[0].loglog(*zip(*of), marker, markersize=3, color=colour, label=f"{words} ({len(of)})")
axes[0].loglog([1e-4, 2], [1e-4, 2], color="black", linewidth=0.8)
axes[0].set_xlim(1e-4, 2)
axes[0].set_ylim(1e-4, 2)
axes[0].set_xlabel("standard deviation of a job's samples, share")
axes[0].set_ylabel("standard deviation between jobs, share")
axes[0].legend()
total, above = sum(map(len, dots.values())), sum(b > w for of in dots.values() for w, b in of)
lines = []
for words, of in sorted(dots.items()):
    ordered = sorted(b for _, b in of)
    lines.append(f"| {words} | {len(of)} | {ordered[len(of) // 2]:.2%} | {ordered[math.ceil(0.9 * len(of)) - 1]:.2%} |")
Markdown(
    f"{above} of {total} series vary more between jobs than within one.\n\n"
    "| | series | between jobs, median | nine of ten below |\n|---|---|---|---|\n" + "\n".join(lines)
)

# %% [markdown]
# ## Hosts differ more than jobs
#
# The same program, the same GPU model, the same driver: medians of the jobs of each host over those of the first host.
# Each dot is a series. Figures that depend on the host are valid for that host only.

# %%
ratios = collections.defaultdict(list)
for node in hosts[1:]:
    for key in set(of_host[hosts[0]]) & set(of_host[node]):
        first, other = (float(np.median(of_host[host][key].all("A"))) for host in (hosts[0], node))
        if first > 0 and other > 0:
            ratios[family(named[key]), node].append(other / first)
figure, axes = plots.panels(1, width=9, height=0.45 * len(ratios) + 1)
for y, ((_, node), of) in enumerate(sorted(ratios.items(), reverse=True)):
    offsets = [y + 0.5 * ((k * 0.618) % 1 - 0.5) for k in range(len(of))]
    axes[0].semilogx(of, offsets, ".", markersize=3, color=plots.COLOURS[hosts.index(node) - 1])
axes[0].set_yticks(range(len(ratios)), [f"{words}, {node}" for words, node in sorted(ratios, reverse=True)])
axes[0].axvline(1, color="black", linewidth=0.8)
axes[0].set_xticks(marks := [0.5, 0.7, 0.9, 1, 1.1, 1.4, 2, 3], [f"{mark:g}" for mark in marks])
axes[0].minorticks_off()
axes[0].set_xlabel(f"over {hosts[0]}")
Markdown(
    "| | host | series | median | range |\n|---|---|---|---|---|\n"
    + "\n".join(
        f"| {words} | {node} | {len(of)} | {np.median(of):.2f} | {min(of):.2f}–{max(of):.2f} |"
        for (words, node), of in sorted(ratios.items())
    )
)

# %% [markdown]
# The commands name none of these hosts: `nodes` compares a node with at least three equal nodes, but there are only two
# here.


# %%
def command(*words, show=6):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = cli.main([str(word) for word in words])
    text = said.getvalue().splitlines()
    print("$ isthmus", *(str(word).replace("../data/", "") for word in words))
    print("\n".join([*text[:show], *(["…"] if len(text) > show + 3 else []), *text[max(len(text) - 3, show) :]]))
    print(f"exit code {status}\n")


command("nodes", MEASURED)
command(
    "compare", MEASURED, "--by", "node", "--workload", "microbench/*", "--metric", "kernel", "--metric", "in", show=12
)

# %% [markdown]
# ## A disturbed session
#
# The same checks ran again while another program, to which Slurm had not given the GPU, copied to and from it. Each of
# these records names the processes that it saw, and its samples do not count.

# %%
said = {}
for name in ("held", "crowded"):
    of = [case for case in load.read(DATA / f"{name}.jsonl.gz") if case["devices"]]
    invalid = [case for case in of if any("process" in warning for warning in map(str, case["warnings"]))]
    said[name] = (len(of), len(invalid))
Markdown(
    "| session | records with a GPU | of these with foreign processes named |\n|---|---|---|\n"
    + "\n".join(f"| {name} | {count} | {invalid} |" for name, (count, invalid) in said.items())
)

# %% [markdown]
# ## Another toolkit
#
# The same sources built by Spack with CUDA 12.4 and 13.0, alternating on one host.

# %%
TOOLKITS = DATA / "toolkits.jsonl.gz"
with store.open_store([TOOLKITS], wanted=comparison.WANTED) as opened:
    side = comparison.sides(series.condition("runtime=13.0"), series.condition("runtime=12.4"))
    outcome = comparison.outcome(opened, side, asked="runtime=13.0,runtime=12.4")
shown = [
    each for each in outcome.results
    if each.label.split()[-1] not in AROUND and each.ratio and each.low is not None
    and math.isfinite(each.high - each.low)
]  # fmt: skip
shown.sort(key=lambda each: each.label)
figure, axes = plots.panels(1, width=9, height=0.17 * len(shown) + 0.8)
plots.ratios(
    axes[0],
    {
        each.label: readings.Value(1 + each.estimate, spread.Spread(1 + each.low, 1 + each.high, "jobs", each.jobs))
        for each in shown
    },
    title="13.0 → 12.4; each end of a whisker 95%",
)
verdicts = collections.Counter(each.verdict for each in outcome.results)
equal = sum(each.verdict == "equivalent" for each in shown)
print(f"{equal} of these {len(shown)} series are equivalent.")
Markdown(
    "Of all series, allocation and wall time among them: "
    + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    + f" of {len(outcome.results)} series."
)
