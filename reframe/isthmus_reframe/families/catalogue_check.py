"""Checks of one workload of the catalogue at one size."""

import itertools

import reframe.core.builtins as builtins

from isthmus_reframe import catalogue
from isthmus_reframe.check import IsthmusCheck


def pages(size: str) -> list[int]:
    """Returns the page sizes in bytes for workloads whose kernels fetch pages. At size tiny, a quarter of the large
    pages would be too few for a block of warps."""
    return [4096] if size == "tiny" else [4096, 65536]


class CatalogueCheck(IsthmusCheck):
    """Check of one workload at one size; a subclass has the parameters `workload` and `size`."""

    mode = None
    published = ()

    @builtins.run_after("init")
    def describe(self):
        workload = catalogue.find(self.workload)
        self.descr = f"{workload['summary']}, {self.size} size"
        self.tags = {self.size, self.workload.partition("/")[2], *workload["tags"]}
        self.varied = workload.get("varied", {}).get(self.size, {}) | self.asked()
        self.cpu_only = workload["cpu_only"]
        if self.size == "tiny":
            self.tags.add("smoke")
        elif not self.cpu_only:
            self.valid_systems = ["+gpu"]  # larger sizes show nothing new on the emulator
        if self.size not in workload["sizes"]:
            self.valid_systems = []

    def asked(self) -> dict[str, list]:
        """Returns the axes whose values this check requests, in addition to the axes that the program sweeps by
        default."""
        return {}

    def request(self):
        named = [f"{axis}={','.join(map(str, values))}" for axis, values in self.asked().items()]
        return [*super().request(), *itertools.chain.from_iterable(("--set", each) for each in named)]

    def required_metrics(self, point):
        return set(catalogue.find(self.workload)["metrics"])
