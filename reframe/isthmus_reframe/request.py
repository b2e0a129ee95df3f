"""What a check asks of the program; a subclass may ask otherwise."""

from isthmus_reframe import catalogue
from isthmus_reframe.judge import record_gates
from isthmus_reframe.points import Point, points_of


class Request:
    """A subclass has `workload`, `mode` and `size`."""

    def request(self) -> list[str]:
        """What the program is to run."""
        return [self.workload, "--size", self.size, *(["--mode", self.mode] if self.mode else [])]

    def points(self) -> list[Point]:
        """The cases of that, each of which leaves a record per process."""
        return points_of(self.workload, self.varied)

    def settled(self) -> dict[str, str | None]:
        """Fields that are the same in every record."""
        mode = catalogue.load()["modes"].get(self.mode, {"placement": None, "staging": None})
        return {"mode": self.mode, "size": self.size, **mode}

    def axes_of(self, point: Point) -> dict:
        """The values of all axes that the program has been asked for, but those of bench_options."""
        known = catalogue.find(point.workload)
        return {**known.get("axes", {}), **known.get("sizes", {}).get(self.size, {}), **dict(point.settings)}

    def known_axes(self, point: Point) -> set[str] | None:
        """Names of the axes that a record of this case may have; None of a workload that is not in the catalogue."""
        listed = catalogue.find(point.workload).get("axes")
        return None if listed is None else {*listed, *dict(point.settings)}

    def record_name(self) -> str:
        return f"{self.workload}-{self.mode or ''}-{self.size}"

    def required_metrics(self, point: Point) -> set[str]:
        """Metrics without which this case has not been measured: what is shown, and a program's phases."""
        promised = set(catalogue.find(point.workload).get("metrics", ()))
        return promised & (set(self.published) | record_gates.phases(self.settled()["placement"]))

    def is_cpu_only(self, case: dict) -> bool:
        """Whether the CPU measures this case by itself, so that it is no emulation where there is no GPU."""
        return self.cpu_only

    def denied(self, point: Point, case: dict, stated: set[str]) -> set[str]:
        """What the site states, and this case denies by saying that it is unsupported."""
        return stated & {case["placement"], case["staging"]}

    def shown(self, points) -> set[Point]:
        """Of the measured cases those that ReFrame shows; of the others only what a reference holds."""
        return set(points)

    def variable_name(self, point: Point, metric: str, shown: bool) -> str:
        """The name of a performance variable."""
        return "/".join([metric, *(f"{axis}={value}" for axis, value in point.settings)])

    def excuse(self) -> str | None:
        """Why the program cannot measure this at all, where that is no fault."""
        return None

    def uses_gpus(self) -> bool:
        return not self.cpu_only
