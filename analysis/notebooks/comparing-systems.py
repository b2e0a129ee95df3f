# %% [markdown]
# # Comparing systems
#
# For procurement and for anybody who has to compare machines: how to use `isthmus compare` and `isthmus score`, shown
# on the machines in [`papers/data`](../../papers/data/README.md). These are the processors of an H200 host and of a
# small machine without a GPU, and hosts with two and with four H200s.
#
# There are one or few hosts of each kind, and one or few jobs on each, so the ratios are valid for these machines and
# these runs, as the output says. Figures measured in one boot have no interval, because another boot may differ by
# more than jobs of one boot do. Whiskers are the widest that the two figures' own intervals allow: they show how
# certain these runs are, not how similar the next ones would be.

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
    """Returns what the command prints."""
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
# The CPU's half of the memory families needs no GPU, so any two machines can be compared. Some default parameters
# depend on the machine (the arrays of `stream/*` on its caches, threads on its cores). Such cases are the same on two
# machines only if the parameters are given (`--set bytes=…`), and different cases are not compared. `threads=0` means
# all cores: sixteen on the H200 host, two here.

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
# The model and the links are the same; only the number of GPUs that share the host differs.

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
# A procurement weighs what matters to it. Here half of the weight is on what the GPUs together get from the host, and
# half on what they send each other. Figures that one system lacks are listed and do not count.

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
