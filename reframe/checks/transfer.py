"""transfer/*: one check per class of pairs, a performance variable per pair.

Which pairs there are follows from the machine: the program is asked once per session, and every pair of its list must
come back in the record.
"""

import fnmatch
import functools
import json
import pathlib
import re
import sys

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.core.runtime as runtime
from reframe.core.exceptions import SanityError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

from isthmus_check import IsthmusCheck, IsthmusProgram, points_of, stated_backend, stated_capabilities, stated_gpus
from transfer_pairs import FAMILY, PAIRS, ends_and_way, needs

LISTING = "listing.json"

#: Per size: how the program is asked for it, and which list of an axis's values it then runs through.
SIZES = {"tiny": (["--size", "tiny"], None), "default": ([], "usual"), "sweep": (["--size-sweep"], "sweep")}
TAGS = {"tiny": {"smoke", "tiny"}, "default": {"default"}, "sweep": {"sweep"}}


class TransferListing(IsthmusProgram):
    """The transfers that this partition's machines have."""

    descr = "list of the transfers that there are"
    all_gpus = True
    time_limit = "5m"

    @builtins.run_before("run")
    def command(self):
        self.executable_opts = ["list", "--json", f"'{FAMILY}*'", ">", LISTING]

    @functools.cached_property
    def workloads(self) -> dict[str, dict]:
        path = pathlib.Path(self.stagedir) / LISTING
        return {w["name"]: w for w in json.loads(path.read_text(encoding="utf-8"))["workloads"]}

    @builtins.sanity_function
    def as_many_as_stated(self):
        code = self._exit_code()
        if code != 0:
            raise SanityError(f"isthmus-bench list ended with exit code {code}; see {self.stderr} in {self.stagedir}")
        partition = self.current_partition
        ends = {end for name in self.workloads for end in ends_and_way(name)[:2]}
        nodes = 2 if "numa" in stated_capabilities(partition) else 1
        for kind, stated in (("gpu", stated_gpus(partition)), ("node", nodes)):
            found = sum(re.fullmatch(kind + r"\d+", end) is not None for end in ends)
            if found < stated:
                raise SanityError(f"{partition.fullname} states {stated} × {kind} at least, isthmus-bench sees {found}")
        return True


@rfm.simple_test
class Transfer(IsthmusCheck):
    """One class of pairs at one size, or over the usual or all sizes."""

    pairs = builtins.parameter(list(PAIRS))
    size = builtins.parameter(list(SIZES))
    listing = builtins.fixture(TransferListing, scope="environment")
    mode = None
    published = ("rate", "latency")
    all_gpus = True

    @builtins.run_after("init")
    def describe(self):
        pairs = PAIRS[self.pairs]
        self.descr = f"{pairs.summary}, {self.size} size{'' if self.size == 'tiny' else 's'}"
        self.tags = {"transfer", *pairs.tags, *TAGS[self.size]}
        self.native = pairs.gpus == 0
        self.valid_systems = [p.fullname for p in runtime.runtime().system.partitions if self._teaches(p)]

    def _teaches(self, partition) -> bool:
        pairs = PAIRS[self.pairs]
        measures = pairs.gpus == 0 or self.size == "tiny" or stated_backend(partition)  # more than the emulator's
        return bool(measures) and (pairs.gpus < 2 or stated_gpus(partition) >= pairs.gpus)

    # What is asked for.

    def request(self):
        options, _ = SIZES[self.size]
        patterns = [f"'{FAMILY}{pattern}'" for pattern in PAIRS[self.pairs].patterns]
        return [*patterns, *options, *(["--set", "node=all"] if self._on_each_node() else [])]

    def settled(self):
        return {"mode": None} | ({"size": self.size} if self.size == "tiny" else {})

    def record_name(self):
        return f"{FAMILY}{self.pairs}-{self.size}"

    @functools.cached_property
    def workloads(self) -> dict[str, dict]:
        """Those of the list that this check's patterns choose."""
        chosen = {}
        for pattern in PAIRS[self.pairs].patterns:
            names = fnmatch.filter(self.listing.workloads, FAMILY + pattern)
            if not names:
                raise SanityError(f"isthmus-bench lists nothing like {FAMILY}{pattern}")
            chosen |= {name: self.listing.workloads[name] for name in names}
        return chosen

    def _on_each_node(self) -> bool:
        """Where the site states several NUMA nodes, the host's memory is on each in turn."""
        return (
            "numa" in stated_capabilities(self.current_partition)
            and not self.is_dry_run()
            and any(axis["name"] == "node" for w in self.workloads.values() for axis in w["axes"])
        )

    def points(self):
        _, values_of = SIZES[self.size]
        points = []
        for name, workload in self.workloads.items():
            varied = {axis["name"]: axis[values_of] for axis in workload["axes"] if values_of}
            if self._on_each_node():
                varied |= {axis["name"]: axis["listed"] for axis in workload["axes"] if axis["name"] == "node"}
            points += points_of(name, {axis: values for axis, values in varied.items() if len(values) > 1})
        return points

    @builtins.run_before("run")
    def limit_time(self):
        if self.time_limit is None and not self.is_dry_run():
            self.time_limit = f"{120 + 20 * len(self.points()) * self.processes}s"

    # What came back.

    def required_metrics(self, point):
        return set(self.workloads[point.workload]["metrics"])

    def denied(self, point, case, stated):
        """A transfer needs all of these, so it denies the statement only where all are stated."""
        needed = needs(point.workload) | PAIRS[self.pairs].needs
        return needed if needed <= stated else set()

    def shown(self, points):
        """Of each pair the largest size that was measured."""
        largest = {}
        for point in sorted(points, key=lambda point: dict(point.settings).get("bytes", 0)):
            pair = point._replace(settings=tuple(s for s in point.settings if s[0] != "bytes"))
            largest[pair] = point
        return set(largest.values())

    def variable_name(self, point, metric, shown):
        settings = [f"{axis}{value}" for axis, value in point.settings if not (shown and axis == "bytes")]
        return re.sub(r"\W+", "_", "_".join([point.workload.removeprefix(FAMILY), *settings, metric]))
