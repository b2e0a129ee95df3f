"""Judge that compares figures with their limits and references, and publishes them to ReFrame."""

import math
import statistics

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from isthmus.profiles import as_record, profile
from isthmus.records import doubts, fields, validate
from isthmus.references import lookup
from isthmus_reframe.gates import site_gates
from isthmus_reframe.points import naming
from isthmus_reframe.stated import site_setting

# Factor by which a figure may exceed its physical limit because of clock errors. Beyond it, the figure or the limit is
# wrong.
LIMIT_SLACK = 1.05


def find_references(case: dict, partition: str) -> dict[str, tuple]:
    """Returns bounds for one record: {metric: (value, lower, upper, unit)}. For a profiled run, only its counts have
    bounds."""
    found = lookup.find(site_gates.references(), lookup.case_of(case, partition), case["axes"])
    profiled = case["profiler"] is not None
    found = {name: b for name, b in found.items() if name.startswith(profile.PROFILED) == profiled}
    for name, bound in found.items():
        if profiled and not as_record.is_held(name, bound.unit):
            raise lookup.BadReference(f"a reference for {name!r}: for a profiled run, only counts have references")
    return {name: tuple(bound) for name, bound in found.items()}


class FigureJudge(rfm.RegressionTestPlugin):
    """Mixin that publishes the metrics of each case as performance variables."""

    def _publish(self, points):
        """Fills perf_variables with plain numbers, and compares every case with its limits and references."""
        bounds, shown = {}, self.shown(points)
        self.doubts = {}  # doubts shown next to a figure, keyed by performance variable
        for point, cases in points.items():
            with naming(point):
                figures = self._figures(point, cases)
                names = [n for n in self.published or figures if n in figures] if point in shown else []
                names += [n for n in figures if n.startswith(profile.PROFILED) and n not in names]
                held = self._references(cases[0], figures, set(names))
            for metric in dict.fromkeys([*names, *held]):
                value, unit = figures[metric]
                name = self.variable_name(point, metric, point in shown)
                self.perf_variables[name] = sn.make_performance_function(sn.defer(value), unit)
                reference = held[metric][0] if metric in held else None
                found = [(case, fields.metrics(case).get(metric)) for case in cases]
                self.doubts[name] = doubts.say_of_equals([each for each in found if each[1]], reference)
                if metric in held:
                    bounds[name] = held[metric]
        if bounds:
            self.reference = {self.current_partition.fullname: bounds}
        for name, function in self.perf_variables.items():  # a subclass may add some; an exception here fails the check
            value = function.evaluate()
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise SanityError(f"the performance variable {name!r} is {value!r}, not a number")
        self._published = set(self.perf_variables)

    def _figures(self, point, cases) -> dict[str, tuple]:
        """Returns the metrics of one case with their units; values are medians over the case's processes."""
        try:
            medians = [fields.metrics(case) for case in cases]
        except validate.RecordError as error:
            raise SanityError(str(error).removeprefix(f"{point.workload}: ")) from None
        # Under a profiler, streams are not held back by a latch, so metrics that need one are not measured.
        required = set() if self.profiler else self.required_metrics(point)
        for metrics in medians:
            for name in sorted(required - set(metrics)):
                raise SanityError(f"the record lacks the metric {name!r}")
            for name, metric in metrics.items():
                self._judge_metric(name, metric, cases[0])
        figures = {}
        for name, metric in medians[0].items():
            value = statistics.median(m[name]["median"] for m in medians if name in m)
            figures[name] = (value, metric["unit"])
        return figures

    def _judge_metric(self, name, metric, case):
        value = metric["median"]
        if value is None:
            invalid = ", ".join(sorted({w["code"] for w in case["warnings"]})) or "no warning says why"
            raise SanityError(f"{name}: every sample is invalid ({invalid})")
        if name.startswith(profile.PROFILED):
            return
        if name in (self.published or (name,)) and value <= 0 and metric["unit"] != "1":  # a share may be 0
            why = "no operation takes zero time" if metric["unit"] == "s" else "nothing was moved"
            raise SanityError(f"{name} is {value} {metric['unit']}: {why}")
        share, limit = metric.get("share"), metric.get("limit")
        if share is not None and share > LIMIT_SLACK and not case["emulated"]:
            source = limit["source"] if limit else "its limit"
            raise SanityError(f"{name} is {share:.0%} of what {source} allows: the figure or the limit is wrong")

    def _references(self, case, figures, shown) -> dict[str, tuple]:
        """Returns the references of this case's figures; empty if the case is emulated. Raises SanityError if a shown
        figure has none although the partition requires one (`require_reference`)."""
        partition = self.current_partition
        try:
            found = find_references(case, partition.name)
            self._judge_unreferenced(case, set(figures) - set(found))
        except lookup.BadReference as error:
            raise SanityError(str(error)) from None
        required = site_setting(partition, "require_reference", False)
        required = shown if required is True else shown & set(required or [])
        if self.profiler:
            required = set()  # a profiler was requested, so only counts are compared
        if required and (case["emulated"] or case["profiler"]):
            what = "emulated" if case["emulated"] else f"profiled by {case['profiler']}"
            raise SanityError(f"{partition.fullname} requires references, but these times are {what}")
        for name in sorted(required - set(found)):
            raise SanityError(f"no reference for {name!r}, but {partition.fullname} requires one")
        for name in sorted(set(found) - set(figures)):
            raise SanityError(f"there is a reference for {name!r}, which this case does not report")
        if case["emulated"]:
            return {}  # such times cannot be compared with a reference
        for name, bound in found.items():
            if bound[3] != figures[name][1]:
                unit = figures[name][1]
                raise SanityError(f"the reference for {name} is in {bound[3]!r}, but the metric is in {unit!r}")
        return found

    def _judge_unreferenced(self, case, metrics):
        """Compares figures without a reference with the limit of the hardware."""
        if case["emulated"] or case["profiler"]:
            return
        partition = self.current_partition
        stated = {name: site_setting(partition, name) for name in ("pcie", "links")}
        stated = {name: value for name, value in stated.items() if value is not None}
        selectors = lookup.case_of(case, partition.name)
        for name, metric in fields.metrics(case).items():
            if name in metrics:
                why = lookup.insane(site_gates.references(), metric, case, selectors, stated)
                if why:
                    raise SanityError(why)
                site_gates.note_limits(metric, case, selectors)

    @builtins.run_after("performance")
    def nothing_dropped(self):
        """Raises SanityError for a performance variable that ReFrame could not evaluate, because ReFrame drops it with
        only a warning."""
        if self.unjudged:  # nothing was published
            return
        prefix = f"{self.current_partition.fullname}:"
        dropped = self._published - {key.removeprefix(prefix) for key in self.perfvalues}
        if dropped:
            raise SanityError(f"ReFrame dropped the performance variable {sorted(dropped)[0]!r}")
