"""The six transfer modes: every microbenchmark × mode × size, one check each."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
from mode_check import MODES, ModeCheck

CATALOGUE = catalogue.load()
WORKLOADS = sorted(w["name"] for w in CATALOGUE["workloads"] if w["name"].startswith("microbench/"))


@rfm.simple_test
class TransferModes(ModeCheck):
    """One microbenchmark in one transfer mode at one size."""

    workload = builtins.parameter(WORKLOADS, fmt=lambda name: name.removeprefix("microbench/"))
    mode = builtins.parameter(list(MODES))
    size = builtins.parameter(CATALOGUE["sizes"])

    @builtins.run_after("init")
    def tag(self):
        self.tags.add("micro")
        if self.size == "tiny":
            self.tags.add("smoke")
