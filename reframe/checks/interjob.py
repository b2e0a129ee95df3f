"""Batches of GPU jobs: what overlapping them gains over running them one after the other, in each kind of memory."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.catalogue_check import CatalogueCheck

WORKLOADS = catalogue.family("interjob/")
MODES = ("overlap_alloc", "overlap_all", "recycled")


@rfm.simple_test
class InterJob(CatalogueCheck):
    """Batches of one kind of job at one size, every mode beside serial in each sample, every job's result looked at."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("interjob/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    #: 1: overlap whatever it costs; 0: where the library expects a gain, so that no speed-up is below 1.
    force = builtins.variable(int, value=0)
    jobs = builtins.variable(int, value=16)
    published = tuple(f"{mode}_speedup" for mode in MODES)
    time_limit = "30m"

    def request(self):
        return [*super().request(), "--set", f"force={self.force}", "--set", f"jobs={self.jobs}"]

    def axes_of(self, point):
        return super().axes_of(point) | {"force": self.force, "jobs": self.jobs}

    def required_metrics(self, point):
        of_modes = {f"{mode}_{what}" for mode in MODES for what in ("time", "speedup", "ideal", "of_ideal")}
        return {"serial_time", "serial_job", *of_modes}

    def denied(self, point, case, stated):
        return stated & {case["axes"].get("allocation")}
