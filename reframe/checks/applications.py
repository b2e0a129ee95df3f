"""Checks of the programs: one per program × transfer mode × size, and one per program × size in placement `paged`."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.catalogue_check import CatalogueCheck, pages
from isthmus_reframe.families.mode_check import MODES, TIME_LIMITS, ModeCheck

WORKLOADS = catalogue.family("apps/")

SMOKE = {True: {"pm_async", "uvm"}, False: {"pm", "uvm"}}  # modes of smoke tests; key: whether the program has staging
# Metrics that a program reports about its pages in placement `paged`.
PAGED = {"fetches", "fetched", "evictions", "written_back", "waits", "table_bytes", "paging_setup"}


@rfm.simple_test
class Application(ModeCheck):
    """Check of one program in one transfer mode at one size."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("apps/"))
    mode = builtins.parameter(list(MODES))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))

    @builtins.run_after("init")
    def tag(self):
        if self.size == "tiny" and self.mode in SMOKE[self.is_staged]:
            self.tags.add("smoke")
        if self.size == "large":
            self.tags.add("default")


@rfm.simple_test
class PagedApplication(CatalogueCheck):
    """Check of one program in placement `paged` at one size, with small and large pages, and with frames for all pages
    and for a quarter of them."""

    workload = builtins.parameter(
        [name for name, workload in WORKLOADS.items() if "paged" in workload["placements"]],
        fmt=lambda name: name.removeprefix("apps/"),
    )
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    published = (*ModeCheck.published, "fetched")

    @builtins.run_after("init")
    def tag(self):
        self.descr += ", pages fetched by its kernels"
        self.tags.add("paging")
        if self.size == "large":
            self.tags.add("default")
        if self.time_limit is None:
            self.time_limit = TIME_LIMITS[self.size]

    def asked(self):
        return {"page": pages(self.size), "frames": [100, 25]}

    def request(self):
        return [*super().request(), "--placement", "paged", "--staging", "none"]

    def settled(self):
        return super().settled() | {"placement": "paged", "staging": "none"}

    def record_name(self):
        return f"{self.workload}-paged-{self.size}"

    def required_metrics(self, point):
        """Returns the paging metrics and the usual metrics except those of copies, because pages move while the kernel
        runs."""
        always = {"kernel", "kernel_rate", "kernel_flop_rate", "overlapped", "wall"}
        return PAGED | always & set(WORKLOADS[self.workload]["metrics"])
