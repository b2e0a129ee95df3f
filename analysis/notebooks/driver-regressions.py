# %% [markdown]
# # Driver regressions
#
# For operators who update drivers: how `isthmus noise`, `regress` and `trial` find the effect of a new driver, and how
# many runs they need ([statistics](../../docs/statistics.md)).
#
# **What is real here and what is not.** All committed records were made with one driver, so they cannot show a change
# that really happened. The noise is real: it comes from runs of the same cases on one host (an A/A run). Everything
# under *Simulated* is drawn at random with that noise, by the generator that the tests use, and the titles say so.

# %%
import contextlib
import io
import math
import sys
import tempfile
from pathlib import Path

from IPython.display import Markdown

from isthmus import cli
from isthmus.figures import plots
from isthmus.records import store
from isthmus.statistics import rank_test, series, spread
from isthmus.tables import readings
from isthmus.verdicts import comparison, noise

sys.path.insert(0, "../../tests/python")
import histories

DATA = Path("../../papers/data")
ROUNDS = DATA / "h200-x2/beside-nvbandwidth.jsonl.gz"

with store.open_store([DATA]) as opened:
    drivers = opened.rows(
        "SELECT driver, count(*) FILTER (metric_index = 0) AS records, count(DISTINCT job) AS runs FROM measurements "
        "WHERE driver <> '' GROUP BY driver ORDER BY driver"
    )
Markdown("\n".join(f"- driver {row['driver']}: {row['records']} records of {row['runs']} runs" for row in drivers))

# %% [markdown]
# ## Noise: three rounds of the same cases
#
# `beside-nvbandwidth.jsonl.gz` contains three rounds on one host, a minute apart.

# %%
with store.open_store([ROUNDS], wanted=(*comparison.WANTED, "mad")) as opened:
    found = [each for each in noise.measure(opened, step=0.03) if each.label.endswith((" rate", " latency"))]
figure, axes = plots.panels(1, width=10, height=0.2 * len(found) + 0.8)
factors = {each.label: rank_test.spread_factors(tuple(map(len, each.series.by_place("A").values()))) for each in found}


def between(each):
    low, high = (each.between * factor for factor in factors[each.label])
    return readings.Value(each.between, spread.Spread(low, high, "normal", each.jobs))


plots.lying(axes[0], {
    each.label: {"between rounds": between(each), "within a round": each.within}
    for each in sorted(found, key=lambda each: each.between)
}, title="standard deviation, share of the value; whiskers: 95%, were the noise normal")  # fmt: skip
axes[0].set_xscale("log")
more = sum(each.between > each.within for each in found)
Markdown(
    f"{more} of {len(found)} series vary more from round to round than from sample to sample within one. The whiskers "
    "are 95% intervals were the noise normal: three rounds tell a standard deviation within a factor of "
    f"{max(high for _, high in factors.values()):.0f}."
)

# %% [markdown]
# Three rounds give only a rough estimate of the noise, and a few minutes do not represent the days that a change of
# driver takes. With this noise, `trial plan` would print:

# %%
typical = sorted(each.between for each in found if each.between > 0)
middle, noisy = typical[len(typical) // 2], typical[math.ceil(0.9 * len(typical)) - 1]
lines = ["| noise between jobs | step | one metric | one of 500 metrics |", "|---|---|---|---|"]
low, high = rank_test.spread_factors((3,))
for words, sigma, ends in (
    ("the median series", middle, (low, high)), ("nine of ten series", noisy, (low, high)),
    ("1%, as in the tests", 0.01, (1, 1)),
):  # fmt: skip
    for step in (0.01, 0.03):
        cells = []
        for count in (1, 500):
            least, needed, most = (
                rank_test.jobs_needed(math.log1p(step) / (factor * sigma), metrics=count)
                for factor in (ends[0], 1, ends[1])
            )
            cells.append(f"{needed} [{least}, {most}]" if most > least else f"{needed}")
        lines.append(f"| {words}, {sigma:.2%} | {step:.0%} | {cells[0]} | {cells[1]} |")
Markdown("Jobs a side on one node for 90% power, [for the ends of the noise's 95% interval]:\n\n" + "\n".join(lines))

# %% [markdown]
# ## An A/A comparison of real runs
#
# The first round is compared with the third. Two runs cannot show anything, and `regress` says so, whatever their
# figures are.


# %%
def command(*words, show=6):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = cli.main([str(word) for word in words])
    text = said.getvalue().splitlines()
    print("\n".join([*text[:show], *(["…"] if len(text) > show + 3 else []), *text[max(len(text) - 3, show) :]]))
    print(f"exit code {status}")


with store.open_store([ROUNDS], wanted=("time", "job", "metric")) as opened:
    times = [row["time"] for row in opened.rows("SELECT DISTINCT time FROM measurements ORDER BY time")]
middle_of = times[len(times) // 2]
command(
    "regress", ROUNDS, "--from", f"..{middle_of:%Y-%m-%dT%H:%M:%S}", "--to", f"{middle_of:%Y-%m-%dT%H:%M:%S}..",
    "--metric", "rate", "--metric", "latency",
)  # fmt: skip

# %% [markdown]
# ## Simulated: a change from driver 570 to 580
#
# Eight jobs per side on two nodes, with noise between jobs as measured above for nine of ten series. Of three
# workloads the first is unchanged, the second takes 3% longer with the new driver, and the third is 3% faster.

# %%
chances = {
    "nothing": ("microbench/saxpy", 0.0),
    "slower": ("microbench/gemv", 0.03),
    "faster": ("microbench/gemm", -0.03),
}


def simulated(folder, jobs, sigma, nodes=2):
    cases = []
    for seed, (workload, step) in enumerate(chances.values()):
        history = histories.History(between=sigma, within=sigma / 3, nodes=nodes, node_effect=0.02, step=step)
        cases += histories.jobs_of(history, seed, jobs, workloads=(workload,))
    return histories.write(Path(folder), cases)


with tempfile.TemporaryDirectory() as folder:
    simulated(folder, 8, noisy)
    with store.open_store([folder], wanted=comparison.WANTED) as opened:
        side = comparison.sides(series.condition("driver=570"), series.condition("driver=580"))
        outcome = comparison.outcome(opened, side, asked="driver=570,driver=580")
        values = {each.workload: {name: each.by_node(name) for name in "AB"} for each in series.load(opened, side)}
    command("regress", folder, "--from", "driver=570", "--to", "driver=580", show=12)

# %%
figure, axes = plots.panels(3, width=12)
for axis, (words, (workload, step)) in zip(axes, chances.items()):
    result = next(r for r in outcome.results if r.label.startswith(workload))
    for x, name in enumerate(("A", "B")):
        for color, ((node,), points) in zip(plots.COLOURS, sorted(values[workload][name].items())):
            axis.plot([x + 0.02 * i - 0.07 for i in range(len(points))], [1000 * v for v in points], "o", markersize=4,
                      color=color, label=node if name == "A" else None)  # fmt: skip
    axis.set_xticks([0, 1], ["driver 570", "driver 580"])
    axis.set_ylabel("ms")
    change = f"{result.estimate:+.1%} [{result.low:+.1%}, {result.high:+.1%}]"
    axis.set_title(f"SIMULATED, {words} ({step:+.0%}): {result.verdict}\n{change}, each end 95%", loc="left")
    axis.legend()

# %% [markdown]
# ## Simulated: the same with three jobs per side, on one node

# %%
with tempfile.TemporaryDirectory() as folder:
    simulated(folder, 3, noisy, nodes=1)
    command("regress", folder, "--from", "driver=570", "--to", "driver=580", show=8)

# %%
told = {words: next(r.verdict for r in outcome.results if r.label.startswith(w)) for words, (w, _) in chances.items()}
wanted = {"nothing": "equivalent", "slower": "regressed", "faster": "improved"}
right = [words for words in told if told[words] == wanted[words]]
Markdown(
    f"Of three simulated truths the verdict is right in {len(right)} "
    f"({', '.join(f'{w}: {v}' for w, v in told.items())}). "
    "No paper of the four states figures of a driver change to compare with these; how often the verdicts are wrong "
    "is measured by the tests, with 10,000 and more histories ([statistics](../../docs/statistics.md))."
)
