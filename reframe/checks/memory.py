"""Checks of the memory system: one check per family, with one performance variable per workload.

Workloads that need only the CPU are real measurements on every machine, including those without a GPU.
"""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe.families.listed_check import SIZES, ListedCheck
from isthmus_reframe.families.memory_families import FAMILIES, needs
from isthmus_reframe.stated import stated_backend


@rfm.simple_test
class Memory(ListedCheck):
    """Check of one family at one size, over its default sweeps, or over all sizes."""

    family = builtins.parameter(list(FAMILIES))
    size = builtins.parameter(list(SIZES))

    @builtins.run_after("init")
    def describe(self):
        family = FAMILIES[self.family]
        self.descr = f"{family.summary}, {self.size} size{'' if self.size == 'tiny' else 's'}"
        self.tags = {"memory", family.tag or self.family, self.size, *({"smoke"} if self.size == "tiny" else ())}
        self.published, self.largest = family.published, family.largest

    def patterns(self):
        """Returns globs for the whole family. Without a GPU, sizes above tiny include only workloads that run without
        emulation."""
        if self.size == "tiny" or stated_backend(self.current_partition) or self.is_dry_run():
            return ("*",)
        listed = self.listing.workloads.items()
        return tuple(
            name.removeprefix(self.prefix) for name, w in listed if name.startswith(self.prefix) and w["cpu_only"]
        )

    @property
    def prefix(self):
        return f"{self.family}/"

    def record_name(self):
        return f"{self.family}-{self.size}"

    def denied(self, point, case, stated):
        """Returns the capabilities that the case needs if the site states all of them: a skip then contradicts these
        statements. Otherwise returns none, because the reason for the skip may be a capability that is not stated."""
        needed = needs(point.workload, case["axes"], self.is_cpu_only(case))
        return needed if needed <= stated else set()
