"""Checks of one workload of the catalogue at one size."""

import reframe.core.builtins as builtins

import catalogue
from isthmus_check import IsthmusCheck


class CatalogueCheck(IsthmusCheck):
    """A subclass has the parameters `workload` and `size`."""

    mode = None
    published = ()

    @builtins.run_after("init")
    def describe(self):
        workload = catalogue.find(self.workload)
        self.descr = f"{workload['summary']}, {self.size} size"
        self.tags = {self.size, self.workload.partition("/")[2], *workload["tags"]}
        self.varied = workload["varied"].get(self.size, {})
        self.cpu_only = workload["cpu_only"]
        if self.size == "tiny":
            self.tags.add("smoke")
        elif not self.cpu_only:
            self.valid_systems = ["+gpu"]  # larger ones teach nothing on the emulator
        if self.size not in workload["sizes"]:
            self.valid_systems = []

    def required_metrics(self, point):
        return set(catalogue.find(self.workload)["metrics"])
