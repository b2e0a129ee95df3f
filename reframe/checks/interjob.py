"""Batches of GPU jobs: what overlapping them gains over running them one after the other, in each kind of memory."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from isthmus_check import IsthmusCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("interjob/")}
MODES = ("overlap_alloc", "overlap_all", "recycled")


@rfm.simple_test
class InterJob(IsthmusCheck):
    """Batches of one kind of job at one size, every mode beside serial in each sample, every job's result looked at."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("interjob/"))
    size = builtins.parameter(CATALOGUE["sizes"])
    #: 1: overlap whatever it costs; 0: where the library expects a gain, so that no speed-up is below 1.
    force = builtins.variable(int, value=0)
    jobs = builtins.variable(int, value=16)
    mode = None
    published = tuple(f"{mode}_speedup" for mode in MODES)
    time_limit = "30m"

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        self.descr = f"{workload['summary']}, {self.size} size"
        self.tags = {self.size, self.workload.rpartition("/")[2], *workload["tags"]}
        self.varied = workload["varied"].get(self.size, {})
        if self.size == "tiny":
            self.tags.add("smoke")
        else:
            self.valid_systems = ["+gpu"]  # larger jobs teach nothing on the emulator
        if self.size not in workload["sizes"]:
            self.valid_systems = []

    def request(self):
        return [*super().request(), "--set", f"force={self.force}", "--set", f"jobs={self.jobs}"]

    def axes_of(self, point):
        return super().axes_of(point) | {"force": self.force, "jobs": self.jobs}

    def required_metrics(self, point):
        of_modes = {f"{mode}_{what}" for mode in MODES for what in ("time", "speedup", "ideal", "of_ideal")}
        return {"serial_time", "serial_job", *of_modes}

    def denied(self, point, case, stated):
        return stated & {case["axes"].get("allocation")}
