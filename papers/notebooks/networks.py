# %% [markdown]
# # Networks
#
# Inference of four convolutional networks in six modes, one image, on two NVIDIA H100s of one host, and one step of
# their training on another H100, beside Figure 6 of "Performance Implications of Pipelining the Data Transfer in
# CPU-GPU Heterogeneous Systems" (TACO 2025). [docs/networks.md](../../docs/networks.md) says what a network is here,
# and gives the same figures as tables.
#
# The records are in [`papers/data/h100-x2`](../data/README.md#h100-x2-two-nvidia-h100s-of-one-host) and
# [`h100`](../data/README.md#h100-one-nvidia-h100).
# resnet50 in pm was measured twice: here is the median of both, on the page the first.

# %%
from pathlib import Path
from statistics import mean

from IPython.display import Markdown

from isthmus.tables import readings
from isthmus_papers.figures import networks

found = readings.example(Path("../data/h100-x2/networks.jsonl.gz"))

# %% [markdown]
# ## Figure 6: where the time goes
#
# One allocation a tensor, as in darknet. Bars are as the paper counts: kernels, copies, allocation on the device and on
# the host, where page-locking is. The first touch is not in them.

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
# Of yolov3, which the paper's Figure 8 has beside programs, counters are in [transfer modes](transfer-modes.ipynb).
#
# ## What page-locking costs
#
# The same in seconds, with the first touch: memory of malloc pays when it is first written what page-locking pays at
# once. An arena is one allocation for all.

# %%
figure = networks.locking(found)

# %%
Markdown(
    f"With the first touch, pm takes {over('tensor', True):.2f} times as long as baseline by tensor, and "
    f"{over('arena', True):.1f} times in an arena, which all cores touch at once."
)

# %% [markdown]
# ## In how many images it pays
#
# An arena is page-locked once. Weights travel for each image; where they stay on the device, it never pays.

# %%
figure = networks.images(found)

# %%
paid = networks.images_until_paid(found)
Markdown("Paid after " + ", ".join(f"{count:.1f} images ({network})" for network, count in paid.items()) + ".")

# %% [markdown]
# ## A step of training
#
# Batches of 32 (resnet) and 4 (yolov3), weights and tensors in an arena each. All between images and losses stays on
# the device. Of resnet50 and yolov3 these are records of version 2, of which pm_async is of another host than the other
# modes; of the two smaller ones of version 1.

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
