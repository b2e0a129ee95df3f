"""Request that a check makes to the program; a subclass may override it."""

from isthmus_reframe import catalogue
from isthmus_reframe.judge import record_gates
from isthmus_reframe.points import Point, points_of


class Request:
    """Mixin that derives a check's request; a subclass has `workload`, `mode` and `size`."""

    def request(self) -> list[str]:
        """Returns the program's arguments that select what to run."""
        return [self.workload, "--size", self.size, *(["--mode", self.mode] if self.mode else [])]

    def points(self) -> list[Point]:
        """Returns the cases of the request, each of which produces one record per process."""
        return points_of(self.workload, self.varied)

    def settled(self) -> dict[str, str | None]:
        """Returns the fields that have the same value in every record."""
        mode = catalogue.load()["modes"].get(self.mode, {"placement": None, "staging": None})
        return {"mode": self.mode, "size": self.size, **mode}

    def axes_of(self, point: Point) -> dict:
        """Returns the values of all axes that were requested from the program, except those in bench_options."""
        known = catalogue.find(point.workload)
        return {**known.get("axes", {}), **known.get("sizes", {}).get(self.size, {}), **dict(point.settings)}

    def known_axes(self, point: Point) -> set[str] | None:
        """Returns the names of the axes that a record of this case may have; None for a workload outside the
        catalogue."""
        listed = catalogue.find(point.workload).get("axes")
        return None if listed is None else {*listed, *dict(point.settings)}

    def record_name(self) -> str:
        return f"{self.workload}-{self.mode or ''}-{self.size}"

    def required_metrics(self, point: Point) -> set[str]:
        """Returns the metrics that a record of this case must have: those that are shown, and a program's phases."""
        promised = set(catalogue.find(point.workload).get("metrics", ()))
        return promised & (set(self.published) | record_gates.phases(self.settled()["placement"]))

    def is_cpu_only(self, case: dict) -> bool:
        """Returns whether the case needs only the CPU, so that it is not emulated on a machine without a GPU."""
        return self.cpu_only

    def denied(self, point: Point, case: dict, stated: set[str]) -> set[str]:
        """Returns the stated capabilities that this case contradicts by being unsupported."""
        return stated & {case["placement"], case["staging"]}

    def shown(self, points) -> set[Point]:
        """Returns the measured cases that ReFrame shows in full. Of other cases it shows only figures with a
        reference."""
        return set(points)

    def variable_name(self, point: Point, metric: str, shown: bool) -> str:
        """Returns the name of a performance variable."""
        return "/".join([metric, *(f"{axis}={value}" for axis, value in point.settings)])

    def excuse(self) -> str | None:
        """Returns a reason why the program cannot measure this at all, although nothing failed. Returns None if the
        program can measure it."""
        return None

    def uses_gpus(self) -> bool:
        return not self.cpu_only
