"""Checks of one workload in one of the pipelining paper's transfer modes at one size.

A mode is where the buffers live (pageable, pinned, managed) × how a kernel moves its data into shared memory (direct or
asynchronous copy).
"""

import reframe.core.builtins as builtins

from isthmus_reframe import catalogue
from isthmus_reframe.check import IsthmusCheck

MODES = catalogue.load()["modes"]
TIME_LIMITS = {"tiny": "10m", "small": "10m", "medium": "10m", "large": "20m", "super": "40m", "mega": "2h"}
FAULTED = {"managed_in": {"out", "out_rate", "first_out"}}  # what a placement moves by page faults, no phase can show


class ModeCheck(IsthmusCheck):
    """A subclass has the parameters `workload`, `mode` and `size`, and adds tags.

    A workload whose kernels copy nothing into shared memory runs in the memories of the modes, without staging.
    """

    @builtins.run_after("init")
    def describe(self):
        workload = catalogue.find(self.workload)
        self.placement, self.staging = MODES[self.mode]["placement"], MODES[self.mode]["staging"]
        self.is_staged = "direct" in workload["stagings"]
        has_mode = self.staging in workload["stagings"]
        if not self.is_staged:
            has_mode, self.staging = self.staging == "direct", "none"
        self.descr = f"{workload['summary']}: {self.placement} memory, {self.staging} staging, {self.size} size"
        self.tags = {"modes", self.size, self.mode, self.workload.rpartition("/")[2], *workload["tags"]}
        self.tags.discard("smoke")  # a first run is a matter of size
        if self.time_limit is None:  # -S time_limit=…
            self.time_limit = TIME_LIMITS[self.size]
        self.cpu_only = workload["cpu_only"]
        if self.size != "tiny":
            self.valid_systems = ["+gpu"]  # larger ones teach nothing on the emulator
        if not has_mode or self.placement not in workload["placements"] or self.size not in workload["sizes"]:
            self.valid_systems = []  # not a case of this workload

    def request(self):
        if self.is_staged:
            return super().request()
        return [self.workload, "--size", self.size, "--placement", self.placement, "--staging", self.staging]

    def settled(self):
        mode = self.mode if self.is_staged else None
        return super().settled() | {"mode": mode, "placement": self.placement, "staging": self.staging}

    def required_metrics(self, point):
        return super().required_metrics(point) - FAULTED.get(self.placement, set())
