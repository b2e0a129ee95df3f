"""Checks of batches of GPU jobs: the speed-up of overlapping jobs over running them one after the other, per kind of
memory."""

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
    """Check of batches of one kind of job at one size. Each sample runs the batch in every mode and serially; every
    job's result is verified."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("interjob/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    #: 1 to overlap jobs in any case; 0 to overlap them only if the library expects a gain, so that speed-ups are at
    #: least 1.
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
