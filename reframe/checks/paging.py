"""Checks of host memory that the GPU pages: random pages, sweeps compared with a plain pointer, and patterns compared
with rival methods.

Checks of programs in the placement `paged` are in applications.py, because a build without programs cannot run them.
"""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.catalogue_check import CatalogueCheck, pages

WORKLOADS = catalogue.family("paging/")


@rfm.simple_test
class Paging(CatalogueCheck):
    """Check of one paging workload at one size, with small and large pages. Pages in random order are read and written,
    with frames for all of them and for a quarter of them."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("paging/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    published = ("time", "rate")
    time_limit = "20m"

    @builtins.run_after("init")
    def tag(self):
        if self.size == "large":
            self.tags.add("default")

    def asked(self):
        random = {"frames": [25, 100], "access": ["read", "write"]} if self.workload == "paging/random" else {}
        return {"page": pages(self.size), **random}

    def required_metrics(self, point):
        """Returns the usual metrics and the counts, because evictions and write-backs are half of the result. Rival
        methods have no counts."""
        counts = set() if point.workload == "paging/pattern" else set(WORKLOADS[point.workload]["observed"])
        return super().required_metrics(point) | counts

    def denied(self, point, case, stated):
        """Returns the stated capabilities that a skip contradicts: "mapped", because pages are in host memory that is
        mapped for the GPU."""
        return stated & {"mapped"}
