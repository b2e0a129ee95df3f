"""Checks of workloads that depend on the machine: the program lists them in a separate job.

One run measures many workloads at many values of their axes, and the record must contain every case.
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

#: Program options for each size. "default" measures the default sweep of every axis, "sweep" all sizes.
SIZES = {"tiny": ["--size", "tiny"], "default": [], "sweep": ["--size-sweep"]}


class Listing(IsthmusProgram):
    """Job that lists the workloads of this partition's machines."""

    descr = "list of the available workloads"
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
            raise SanityError(f"{path} is not a list of workloads, or was cut short ({why}); run again") from None

    @builtins.sanity_function
    def as_many_as_stated(self):
        """Raises SanityError if a family that names GPUs or NUMA nodes lists fewer than the site states, so that a
        missing GPU or node is noticed."""
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
                    f"{partition.fullname} states at least {stated} × {kind}, but isthmus-bench sees {found}{where}"
                )
        return True


class ListedCheck(IsthmusCheck):
    """Check of a class of listed workloads at one size, over the default sweeps, or over all values of their axes.

    A subclass has the parameter `size`, one of SIZES, and selects workloads by `prefix` and patterns().
    """

    listing = builtins.fixture(Listing, scope="environment")
    #: Common prefix of the workloads' names, which performance variables omit.
    prefix: str
    mode = None
    all_gpus = True

    #: Axes for which ReFrame shows the point with the largest measured value, instead of the default.
    largest = frozenset()
    #: Axes for which ReFrame shows every value.
    apart = frozenset()
    #: True if host memory is placed on each NUMA node in turn, provided that the site states several.
    on_each_node = False

    def patterns(self) -> tuple[str, ...]:
        """Returns globs for names without the family's prefix. Each of them must match a workload."""
        raise NotImplementedError

    # The request.

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
        """Returns the listed workloads that this check's patterns match."""
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
        """Returns the values of an axis in a run of this size, in the program's order, or an empty list if the axis
        does not vary."""
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

    # The results.

    def is_cpu_only(self, case):
        return self.workloads[case["workload"]]["cpu_only"]

    def required_metrics(self, point):
        return set(self.workloads[point.workload]["metrics"])

    def shown(self, points):
        """Returns the most informative point of each workload."""
        best = {}
        for point in points:
            kept = point._replace(settings=tuple(s for s in point.settings if s[0] in self.apart))
            best[kept] = max(best.get(kept, point), point, key=self._telling)
        return set(best.values())

    def _telling(self, point: Point) -> list[float]:
        """Returns a rank for comparing the points of a workload; a larger rank is more informative. An axis's default
        ranks highest, then the values in the order of its list."""
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
