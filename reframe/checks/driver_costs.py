"""What the driver takes for itself: launches, graphs, waits, contexts."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from isthmus_check import IsthmusCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("driver/")}


@rfm.simple_test
class DriverCosts(IsthmusCheck):
    """One kind of call: at one point (tiny), or over the usual values of its axes (small)."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("driver/"))
    size = builtins.parameter([s for s in CATALOGUE["sizes"] if any(s in w["sizes"] for w in WORKLOADS.values())])
    mode = None
    unverified = frozenset(WORKLOADS) - {"driver/copy_call", "driver/prefetch_call"}
    published = ()
    time_limit = "10m"

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        self.descr = f"{workload['summary']}, {self.size} size"
        self.tags = {"driver", self.size, self.workload.rpartition("/")[2], *workload["tags"]}
        self.varied = workload["varied"].get(self.size, {})
        if self.size == "tiny":
            self.tags.add("smoke")
        else:
            self.valid_systems = ["+gpu"]  # more points teach nothing on the emulator
        if self.size not in workload["sizes"]:
            self.valid_systems = []

    def required_metrics(self, point):
        return set(WORKLOADS[self.workload]["metrics"])
