"""Memory of the host, paged by the GPU: pages in random order, sweeps beside a plain pointer, patterns beside rivals.

Programs in the placement `paged` are in applications.py: a build without programs has no such checks.
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
    """Small and large pages; in random order with room for a quarter and for all of them, read and written."""

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
        """The counts, too: what was evicted and written back is half of the answer. A pattern's rivals have none."""
        counts = set() if point.workload == "paging/pattern" else set(WORKLOADS[point.workload]["observed"])
        return super().required_metrics(point) | counts

    def denied(self, point, case, stated):
        """The pages lie in memory that the host maps for the GPU."""
        return stated & {"mapped"}
