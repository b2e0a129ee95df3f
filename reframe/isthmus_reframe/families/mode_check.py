"""Checks of one workload in one of the pipelining paper's transfer modes at one size.

A mode combines a placement of the buffers (pageable, pinned, managed) with the way in which a kernel copies data into
shared memory (directly or asynchronously).
"""

import reframe.core.builtins as builtins

from isthmus_reframe import catalogue
from isthmus_reframe.check import IsthmusCheck

MODES = catalogue.load()["modes"]
TIME_LIMITS = {"tiny": "10m", "small": "10m", "medium": "10m", "large": "20m", "super": "40m", "mega": "2h"}
FAULTED = {"managed_in": {"out", "out_rate", "first_out"}}  # page faults move this data, so no phase shows it


class ModeCheck(IsthmusCheck):
    """Check of one workload in one mode at one size; a subclass has these as parameters, and adds tags.

    A workload whose kernels do not copy data into shared memory runs with the placements of the modes, without staging.
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
        self.tags.discard("smoke")  # only the size decides which checks are smoke tests
        if self.time_limit is None:  # not set by -S time_limit=…
            self.time_limit = TIME_LIMITS[self.size]
        self.cpu_only = workload["cpu_only"]
        if self.size != "tiny":
            self.valid_systems = ["+gpu"]  # larger sizes show nothing new on the emulator
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
