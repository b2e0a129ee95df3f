"""Checks of workloads that a machine makes for itself: which there are, the program says, in a job of its own.

One run measures many of them, at many values of their axes, and each must come back in the record.
"""

import fnmatch
import functools
import pathlib
import re

import reframe.core.builtins as builtins
from reframe.core.exceptions import SanityError

from isthmus import inputs, spelling
from isthmus_reframe import jobs
from isthmus_reframe.check import IsthmusCheck
from isthmus_reframe.job_files import LISTING
from isthmus_reframe.points import Point, points_of
from isthmus_reframe.program import IsthmusProgram
from isthmus_reframe.stated import stated_capabilities, stated_gpus

#: Per size: how the program is asked for it. The last two measure the default sweep of every axis, or run through them.
SIZES = {"tiny": ["--size", "tiny"], "default": [], "sweep": ["--size-sweep"]}


class Listing(IsthmusProgram):
    """The workloads that this partition's machines have."""

    descr = "list of the workloads that there are"
    all_gpus = True
    time_limit = "5m"

    @builtins.run_before("run")
    def command(self):
        self.executable_opts = ["list", "--json", ">", LISTING]

    @functools.cached_property
    def workloads(self) -> dict[str, dict]:
        path = pathlib.Path(self.stagedir) / LISTING
        try:
            return {w["name"]: w for w in inputs.json_of(inputs.read_small(path))["workloads"]}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or spelling.shorten(str(error))
            raise SanityError(f"{path} is no list of workloads, or was cut short ({why}); run again") from None

    @builtins.sanity_function
    def as_many_as_stated(self):
        """Of each family that names GPUs or NUMA nodes, so that none can be missing without a word."""
        code = self._exit_code()
        if end := jobs.abnormal_end(self.job, well=code == 0):
            raise SanityError(end)
        if code != 0:
            raise SanityError(f"isthmus-bench list ended with exit code {code}{self._complaint()}")
        self.judge_environment()
        partition = self.current_partition
        nodes = 2 if "numa" in stated_capabilities(partition) else 1
        for kind, stated in (("gpu", stated_gpus(partition)), ("node", nodes)):
            seen = {}
            for name in self.workloads:
                family, _, rest = name.partition("/")
                if named := {word for word in re.split("[/-]", rest) if re.fullmatch(rf"{kind}\d+", word)}:
                    seen.setdefault(family, set()).update(named)
            fewest = min(seen, key=lambda family: len(seen[family]), default=None)
            found = len(seen[fewest]) if seen else 0
            if found < stated:
                where = f" in {fewest}/*" if seen else ""
                raise SanityError(
                    f"{partition.fullname} states {stated} × {kind} at least, isthmus-bench sees {found}{where}"
                )
        return True


class ListedCheck(IsthmusCheck):
    """A class of listed workloads at one size, or over the default sweeps or all values of their axes.

    A subclass has the parameter `size`, one of SIZES, and says which workloads in prefix and patterns().
    """

    listing = builtins.fixture(Listing, scope="environment")
    #: What the names begin with, and a performance variable leaves out.
    prefix: str
    mode = None
    all_gpus = True

    #: Axes of which ReFrame shows the largest value that was measured; of the others it shows the default.
    largest = frozenset()
    #: Axes of which it shows every value.
    apart = frozenset()
    #: Whether host memory is to be on each NUMA node in turn, where the site states several.
    on_each_node = False

    def patterns(self) -> tuple[str, ...]:
        """Globs on names, without the family's; each has to choose something."""
        raise NotImplementedError

    # What is asked for.

    def request(self):
        names = [f"'{self.prefix}{pattern}'" for pattern in self.patterns()]
        return [*names, *SIZES[self.size], *(["--set", "node=all"] if self._on_each_node() else [])]

    def settled(self):
        settled = {"mode": None, "placement": None, "staging": None}
        return settled | ({"size": self.size} if self.size == "tiny" else {})

    def known_axes(self, point):
        return set(self.axes[point.workload])

    def axes_of(self, point):
        axes = self.axes[point.workload]
        asked = {name: (self._values(point.workload, axis) or [axis["default"]])[0] for name, axis in axes.items()}
        settled = self.workloads[point.workload]["sizes"]["tiny"] if self.size == "tiny" else {}
        return asked | settled | dict(point.settings)

    @functools.cached_property
    def workloads(self) -> dict[str, dict]:
        """Those of the list that this check's patterns choose."""
        chosen = {}
        for pattern in self.patterns():
            names = fnmatch.filter(self.listing.workloads, self.prefix + pattern)
            if not names:
                raise SanityError(f"isthmus-bench lists nothing like {self.prefix}{pattern}")
            chosen |= {name: self.listing.workloads[name] for name in names}
        return chosen

    @functools.cached_property
    def axes(self) -> dict[str, dict[str, dict]]:
        return {name: {axis["name"]: axis for axis in w["axes"]} for name, w in self.workloads.items()}

    def _on_each_node(self) -> bool:
        return (
            self.on_each_node
            and "numa" in stated_capabilities(self.current_partition)
            and not self.is_dry_run()
            and any("node" in axes for axes in self.axes.values())
        )

    def _values(self, workload: str, axis: dict) -> list:
        """Of an axis in a run of this size, as the program goes through them; none: only one."""
        if axis["name"] == "node" and self._on_each_node():
            return axis["all_values"]
        if self.size == "tiny" and axis["name"] in self.workloads[workload]["sizes"]["tiny"]:
            return []
        return (self.size == "sweep" and axis["size_sweep"]) or axis["default_sweep"]

    def points(self):
        points = []
        for name, axes in self.axes.items():
            varied = {axis: self._values(name, described) for axis, described in axes.items()}
            points += points_of(name, {axis: values for axis, values in varied.items() if len(values) > 1})
        return points

    @builtins.run_before("run")
    def limit_time(self):
        if self.time_limit is None and not self.is_dry_run():
            self.time_limit = f"{120 + 20 * len(self.points()) * self.processes}s"

    # What came back.

    def is_cpu_only(self, case):
        return self.workloads[case["workload"]]["cpu_only"]

    def required_metrics(self, point):
        return set(self.workloads[point.workload]["metrics"])

    def shown(self, points):
        """Of each workload the point that tells the most."""
        best = {}
        for point in points:
            kept = point._replace(settings=tuple(s for s in point.settings if s[0] in self.apart))
            best[kept] = max(best.get(kept, point), point, key=self._telling)
        return set(best.values())

    def _telling(self, point: Point) -> list[float]:
        """The larger, the more a point tells of its workload: an axis's default, else what comes first in its list."""
        ranks = []
        for axis, value in point.settings:
            described = self.axes[point.workload][axis]
            if axis in self.largest:
                ranks.append(value)
            else:
                ranks.append(
                    1 if value == described["default"] else -self._values(point.workload, described).index(value)
                )
        return ranks

    def variable_name(self, point, metric, shown):
        axes = self.axes[point.workload]
        settings = [
            f"{axis}{value}"
            for axis, value in point.settings
            if not shown or axis in self.apart or (axis not in self.largest and value != axes[axis]["default"])
        ]
        return re.sub(r"\W+", "_", "_".join([point.workload.removeprefix(self.prefix), *settings, metric]))
