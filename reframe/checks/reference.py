"""The references: vendor libraries, and copies within the device, beside which the figures of a session stand."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from isthmus_check import IsthmusCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("reference/")}


@rfm.simple_test
class Reference(IsthmusCheck):
    """One reference at one size; on a GPU only."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("reference/"))
    size = builtins.parameter(CATALOGUE["sizes"])
    valid_systems = ["+gpu"]
    mode = None
    published = ()
    time_limit = "30m"

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        self.descr = f"{workload['summary']}, {self.size} size"
        self.tags = {"reference", self.size, self.workload.rpartition("/")[2], *workload["tags"]} - {"smoke"}
        if self.size == "tiny":
            self.tags.add("smoke")
        if self.size not in workload["sizes"]:
            self.valid_systems = []

    def required_metrics(self, point):
        return set(WORKLOADS[self.workload]["metrics"])
