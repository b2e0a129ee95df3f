"""Whole programs: every one × transfer mode × size, one check each; and those whose kernels fetch pages themselves."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.catalogue_check import CatalogueCheck, pages
from isthmus_reframe.families.mode_check import MODES, TIME_LIMITS, ModeCheck

WORKLOADS = catalogue.family("apps/")

SMOKE = {True: {"pm_async", "uvm"}, False: {"pm", "uvm"}}  # of a program with stagings, and of one without
# Metrics of the pages of a program in placement paged.
PAGED = {"fetches", "fetched", "evictions", "written_back", "waits", "table_bytes", "paging_setup"}


@rfm.simple_test
class Application(ModeCheck):
    """One program in one transfer mode at one size."""

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
    """One program in placement paged at one size: small and large pages, room for all of them and for a quarter."""

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
        """Pages come while the kernel runs, and there may be nothing else to copy."""
        always = {"kernel", "kernel_rate", "kernel_flop_rate", "overlapped", "wall"}
        return PAGED | always & set(WORKLOADS[self.workload]["metrics"])
