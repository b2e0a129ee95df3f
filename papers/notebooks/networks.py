# %% [markdown]
# # Networks
#
# For readers of "Performance Implications of Pipelining the Data Transfer in CPU-GPU Heterogeneous Systems" (TACO
# 2025): inference of four convolutional networks in six modes, one image, on two NVIDIA H100s of one host, and one
# step of their training on another H100, compared with the paper's Figure 6.
# [docs/networks.md](../../docs/networks.md) describes the networks and has the same figures as tables.
#
# The records are in [`papers/data/h100-x2`](../data/README.md#h100-x2-two-nvidia-h100s-of-one-host) and
# [`h100`](../data/README.md#h100-one-nvidia-h100). resnet50 in pm was measured twice: this notebook shows the median of
# both, the page the first.

# %%
from pathlib import Path
from statistics import mean

from IPython.display import Markdown, display

from isthmus.tables import readings
from isthmus_papers import published
from isthmus_papers.figures import networks

found = readings.example(Path("../data/h100-x2/networks.jsonl.gz"))

# %% [markdown]
# ## Figure 6: where the time goes
#
# One allocation per tensor, as in darknet. Bars count what the paper counts: kernels, copies, and allocation on the
# device and on the host, which includes page-locking. They leave out the first touch.

# %%
figure = networks.where_time_goes(found)


# %%
def over(allocation, touched):
    return mean(networks.over_baseline(found, allocation, "pm", touched).values())


copies = [
    1 - networks.phases(found, n, "tensor", "pm")["in"] / networks.phases(found, n, "tensor", "baseline")["in"]
    for n in networks.NETWORKS
]
Markdown(
    f"The paper (section 4.1.3) finds pm 196% slower; here it is {over('tensor', False) - 1:.0%} slower, mean of four. "
    f"Its copies take 29.75% less time, here {min(copies):.0%} to {max(copies):.0%}."
)

# %% [markdown]
# Counters of yolov3, which the paper's Figure 8 shows next to programs, are in [transfer modes](transfer-modes.ipynb).
#
# ## Cost of page-locking
#
# The same in seconds, with the first touch: `malloc` memory pays at its first write what page-locking pays at once. An
# arena is one allocation for everything.

# %%
figure = networks.locking(found)

# %%
Markdown(
    f"With the first touch, pm takes {over('tensor', True):.2f} times as long as baseline by tensor, and "
    f"{over('arena', True):.1f} times in an arena, which all cores touch at once."
)

# %% [markdown]
# ## How many images until it pays
#
# An arena is page-locked once. Weights travel for each image; if they stay on the device, page-locking never pays.

# %%
figure = networks.images(found)

# %%
paid = networks.images_until_paid(found)
Markdown("Paid after " + ", ".join(f"{count:.1f} images ({network})" for network, count in paid.items()) + ".")

# %% [markdown]
# ## A step of training
#
# Batches of 32 (resnet) and 4 (yolov3), with one arena for weights and one for tensors. Everything between images and
# losses stays on the device. The records of resnet50 and yolov3 are of version 2, with pm_async from another host than
# the other modes; those of the two smaller networks are of version 1.

# %%
H100 = Path("../data/h100")
smaller = readings.example(H100 / "networks.jsonl.gz").where(network=["resnet18", "yolov3-tiny"])
trained = readings.Readings(smaller.found + readings.example(H100 / "networks-second.jsonl.gz").found)
figure = networks.where_a_step_goes(trained)

# %%
slower, staged = [], []
for network in networks.NETWORKS:
    pinned, pageable = (networks.step(trained, network, mode) for mode in ("pm", "baseline"))
    if pinned and pageable:
        slower.append(sum(pinned.values()) / sum(pageable.values()))
    for mode in ("uvm", "pm"):
        direct, asynchronous = (networks.step(trained, network, each) for each in (mode, f"{mode}_async"))
        if direct and asynchronous:
            staged.append(asynchronous["kernel"] / direct["kernel"])
Markdown(
    f"With the first touch a step in pm takes {min(slower):.2f} to {max(slower):.2f} times as long as in baseline. "
    f"Kernels with asynchronous staging take {min(staged):.2f} to {max(staged):.2f} times as long."
    if slower and staged
    else "No record of training."
)

# %% [markdown]
# ## Compared with the paper
#
# The values of section 4.3. Means are over the four networks, and totals leave out the first touch, as in the paper.
# Training uses one arena for all tensors, whereas the paper's framework allocates each tensor.


# %%
def mean_of(ratios):
    return mean(ratio for ratio in ratios if ratio)


def training(*parts):
    """Ratios of some phases of a step, or of all, in pm to those in baseline, by network."""
    for network in networks.NETWORKS:
        pinned, pageable = (networks.step(trained, network, mode) for mode in ("pm", "baseline"))
        if pinned and pageable:
            names = parts or [name for name in pinned if name != "host_touch"]
            yield sum(pinned[name] for name in names) / sum(pageable[name] for name in names)


rows = published.compared(published.load("../data/published/pipelining.csv"), {
    "network-pm-inference": over("tensor", False),
    "network-pm-training": mean_of(training()),
    "network-pm-inference-copies": mean_of(1 - saved for saved in copies),
    "network-pm-training-copies": mean_of(training("in", "out")),
})  # fmt: skip
display(rows)

# %%
Markdown(published.sentence(rows))
