"""Whole programs: every one × transfer mode × size, one check each."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from mode_check import MODES, ModeCheck

CATALOGUE = catalogue.load()
WORKLOADS = sorted(w["name"] for w in CATALOGUE["workloads"] if w["name"].startswith("apps/"))

# Papers that measured a program; a tag each.
SUITES = {
    "pipelining": {"backprop", "bayesian", "hotspot", "kmeans", "knn", "lavamd", "lud", "nw", "pathfinder", "srad"},
    "gpuvm": {"atax", "bfs", "bicg", "cc", "mvt", "sssp", "va"},
}
SMOKE = {True: {"pm_async", "uvm"}, False: {"pm", "uvm"}}  # of a program with stagings, and of one without
NO_FLOPS = {"bayesian", "bfs", "cc", "sssp"}  # programs that do no floating-point work


@rfm.simple_test
class Application(ModeCheck):
    """One program in one transfer mode at one size."""

    workload = builtins.parameter(WORKLOADS, fmt=lambda name: name.removeprefix("apps/"))
    mode = builtins.parameter(list(MODES))
    size = builtins.parameter(CATALOGUE["sizes"])

    @builtins.run_after("init")
    def tag(self):
        self.name_of_program = self.workload.removeprefix("apps/")
        self.tags |= {suite for suite, names in SUITES.items() if self.name_of_program in names}
        if self.size == "tiny" and self.mode in SMOKE[self.is_staged]:
            self.tags.add("smoke")
        if self.size == "large":
            self.tags.add("default")

    def required_metrics(self, point):
        lacking = {"kernel_flop_rate"} if self.name_of_program in NO_FLOPS else set()
        return super().required_metrics(point) - lacking
