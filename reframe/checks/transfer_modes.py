"""Checks of the six transfer modes: one per microbenchmark × mode × size."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe import catalogue
from isthmus_reframe.families.mode_check import MODES, ModeCheck

WORKLOADS = catalogue.family("microbench/")


@rfm.simple_test
class TransferModes(ModeCheck):
    """Check of one microbenchmark in one transfer mode at one size."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("microbench/"))
    mode = builtins.parameter(list(MODES))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))

    @builtins.run_after("init")
    def tag(self):
        self.tags.add("micro")
        if self.size == "tiny":
            self.tags.add("smoke")
