"""Checks of transfer/*: one check per class of pairs, with one performance variable per pair."""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.core.runtime as runtime

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus_reframe.families.listed_check import SIZES, ListedCheck
from isthmus_reframe.families.transfer_pairs import FAMILY, PAIRS, needs
from isthmus_reframe.stated import stated_backend, stated_gpus


@rfm.simple_test
class Transfer(ListedCheck):
    """Check of one class of pairs at one size, over its default sweeps, or over all sizes."""

    pairs = builtins.parameter(list(PAIRS))
    size = builtins.parameter(list(SIZES))
    prefix, published = FAMILY, ("rate", "latency")
    largest, apart, on_each_node = frozenset({"bytes"}), frozenset({"node"}), True

    @builtins.run_after("init")
    def describe(self):
        pairs = PAIRS[self.pairs]
        self.descr = f"{pairs.summary}, {self.size} size{'' if self.size == 'tiny' else 's'}"
        self.tags = {"transfer", self.size, *pairs.tags, *({"smoke"} if self.size == "tiny" else ())}
        self.valid_systems = [p.fullname for p in runtime.runtime().system.partitions if self._teaches(p)]

    def _teaches(self, partition) -> bool:
        pairs = PAIRS[self.pairs]
        measures = pairs.gpus == 0 or self.size == "tiny" or stated_backend(partition)  # not the emulator
        return bool(measures) and (pairs.gpus < 2 or stated_gpus(partition) >= pairs.gpus)

    def uses_gpus(self):
        return PAIRS[self.pairs].gpus > 0

    def patterns(self):
        return PAIRS[self.pairs].patterns

    def record_name(self):
        return f"{FAMILY}{self.pairs}-{self.size}"

    def denied(self, point, case, stated):
        """Returns the capabilities that the transfer needs if the site states all of them: a skip then contradicts
        these statements. Otherwise returns none."""
        needed = needs(point.workload) | PAIRS[self.pairs].needs
        return needed if needed <= stated else set()
