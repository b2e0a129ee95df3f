# %% [markdown]
# # Comparing systems
#
# What `isthmus compare` and `isthmus score` say of the machines in [`papers/data`](../../papers/data/README.md):
# the processors of an H200 host and of a small machine without a GPU, and hosts with two and with four H200s.
#
# One host of each kind, or few, and one job or few on each: the ratios are of these machines and these runs, and the
# answer says so. What was measured in one boot has no interval, since another boot may be off by more than jobs of
# one boot are. Whiskers are the widest that the two figures' own intervals allow: how sure these runs are, not how
# alike the next would be.

# %%
import argparse
import contextlib
import io
from pathlib import Path

from isthmus import cli
from isthmus.figures import plots
from isthmus.statistics import series
from isthmus.tables import readings
from isthmus.verdicts import compare

DATA = Path("../../papers/data")


def command(*words):
    """What the command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = cli.main([str(word) for word in words])
    print("$ isthmus", *(str(word).replace("../../papers/data/", "") for word in words))
    print(said.getvalue() + (f"exit code {status}" if status else ""))


def systems(*words):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return compare.load(parser.parse_args([str(word) for word in words]))


# %% [markdown]
# ## Two processors
#
# The CPU's half of the memory families needs no GPU, so any two machines can be compared. Where the usual parameters
# follow the machine (the arrays of `stream/*` its caches, threads its cores), cases are alike only when they are
# given (`--set bytes=…`): what is not the same case is not compared. `threads=0` are all cores: sixteen of the H200
# host, two here.

# %%
command("compare", DATA / "h200", DATA / "cpu-only", "--workload", "latency/pageable-cpu/chase", "--metric", "latency")
command(
    "compare", DATA / "h200", DATA / "cpu-only", "--workload", "atomics/cpu/histogram", "--workload", "fault/cpu/*",
    "--metric", "rate",
)  # fmt: skip

# %%
found = systems(
    DATA / "h200", DATA / "cpu-only", "--workload", "fault/cpu/anonymous", "--workload", "latency/pageable-cpu/chase",
    "--workload", "atomics/cpu/histogram", "--workload", "alloc/pageable-touched",
    "--workload", "alloc/m*-touched",
    "--metric", "latency", "--metric", "rate", "--metric", "touch",
)  # fmt: skip
names = series.labels([each for system in found for each in system.series.values()])
ratios = {}
for key, each in found[0].series.items():
    first, other = compare.cells(found, key)
    if other is not None and other.ratio:
        a, b = (readings.Value(cell.value, cell.interval) for cell in (first, other))
        ratios[names[key]] = b / a if each.better == "higher" else a / b
figure, axes = plots.panels(1, width=9, height=0.17 * len(ratios) + 0.8)
plots.ratios(axes[0], ratios, title="cpu-only over h200; to the right of 1 the small machine is better")

# %% [markdown]
# ## Two GPUs and four
#
# The same model and the same links; what differs is how many share the host.

# %%
command(
    "compare", DATA / "h200-x2", DATA / "h200-x4", "--workload", "transfer/pinned-all/*",
    "--workload", "transfer/all-pinned/*", "--workload", "transfer/gpu0-gpu1/*",
    "--workload", "transfer/gpu1-gpu0/*", "--metric", "rate",
)  # fmt: skip

# %%
each = {
    name: readings.load(DATA / name / "transfer.jsonl.gz").where(bytes=2**30, metric="rate")
    for name in ("h200-x2", "h200-x4")
}
routes = {
    "gpu0 → gpu1": "transfer/gpu0-gpu1/ce", "pinned → all": "transfer/pinned-all/ce",
    "all → pinned": "transfer/all-pinned/ce",
    "mapped → all, kernels": "transfer/mapped-all/sm-read",
}  # fmt: skip
figure, axes = plots.panels(1, width=9)
plots.bars(axes[0], {
    words: {name: value for name, of in each.items()
            if (value := of.value(workload=workload)) is not None}
    for words, workload in routes.items()
}, "B/s", title="sum of all GPUs, 1 GiB")  # fmt: skip

# %% [markdown]
# ## One figure
#
# A procurement weighs what matters to it. Here half of the weight is on what GPUs get from the host together, half
# on what they give each other; what one system lacks is listed, and counts for none.

# %%
weights = Path("weights-of-this-notebook.toml")
weights.write_text("""[metrics]
"transfer/pinned-all/ce rate bytes=1073741824" = 1
"transfer/all-pinned/ce rate bytes=1073741824" = 1
"transfer/gpu0-gpu1/ce rate bytes=1073741824" = 1
"transfer/all-all/sm-write rate bytes=1073741824" = 1
""")
try:
    command("score", DATA / "h200-x2", DATA / "h200-x4", "--weights", weights, "--reference", "h200-x2")
finally:
    weights.unlink()
