"""The six transfer modes: every microbenchmark × mode × size, one check each.

The modes are those of the pipelining paper: where the buffers live (pageable, pinned, managed) × how a kernel moves
its data into shared memory (direct or asynchronous copy).
"""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from isthmus_check import IsthmusCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("microbench/")}

# Figures that a placement may leave out: what it moves by page faults, no phase can show.
FAULTED = {"managed_in": {"out", "out_rate"}}
TIME_LIMITS = {"tiny": "10m", "small": "10m", "medium": "10m", "large": "20m", "super": "40m", "mega": "2h"}


@rfm.simple_test
class TransferModes(IsthmusCheck):
    """One microbenchmark in one transfer mode at one size."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("microbench/"))
    mode = builtins.parameter(list(CATALOGUE["modes"]))
    size = builtins.parameter(CATALOGUE["sizes"])

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        mode = CATALOGUE["modes"][self.mode]
        self.placement, self.staging = mode["placement"], mode["staging"]
        self.descr = f"{workload['summary']}: {self.placement} memory, {self.staging} staging, {self.size} size"
        self.tags = {"micro", "modes", self.size, self.mode, self.workload.rpartition("/")[2], *workload["tags"]}
        self.tags.discard("smoke")  # a first run is a matter of size
        if self.time_limit is None:  # -S time_limit=…
            self.time_limit = TIME_LIMITS[self.size]
        self.native = workload["native"]
        if self.size == "tiny":
            self.tags.add("smoke")
        else:
            self.valid_systems = ["+gpu"]  # larger ones teach nothing on the emulator
        supported = self.placement in workload["placements"] and self.staging in workload["stagings"]
        if not supported or self.size not in workload["sizes"]:
            self.valid_systems = []  # not a case of this workload

    def required_metrics(self, point):
        return super().required_metrics(point) - FAULTED.get(self.placement, set())
