"""Judge that compares a whole run of the program with its request."""

from reframe.core.exceptions import SanityError

from isthmus.records import fields
from isthmus_reframe import jobs
from isthmus_reframe.gates import retries
from isthmus_reframe.points import Point, naming
from isthmus_reframe.stated import site_setting

# Warnings about other users' work during a measurement, with the remedies.
_COMPANY = {
    "shared_node": ": make {} request exclusive nodes (access: --exclusive), or state shared_nodes in its extras",
    fields.FOREIGN: ": end them, or state shared_nodes in the extras of {}",
}


def _ended(code: int) -> type[SanityError]:
    """Returns the kind of error for an exit code of the program."""
    return retries.Interrupted if code == jobs.INTERRUPTED else SanityError


class RunJudge:
    """Judge of the number of records, the end of the program, and other users' work during the run."""

    def _judge_run(self, run, cases) -> dict[Point, list[dict]]:
        """Compares a run of the program with its request, and returns its records, keyed by case."""
        points = self._by_point(cases)
        for point, found in points.items():
            with naming(point):
                for case in found:
                    self._judge_case(case)
                    self._judge_request(point, case)
        code = self._exit_code(run)
        self._judge_end(code)
        self._judge_number(points, code, run)
        if code != 0:
            words = jobs.exit_code_in_words(code)
            raise _ended(code)(f"isthmus-bench ended with exit code {words}{self._complaint(run)}")
        self.judge_environment()
        for case in cases:
            self._judge_invalid(case)
            self._judge_grant(case)
        return points

    def _by_point(self, cases) -> dict[Point, list[dict]]:
        """Returns the records of each requested case, one from every process."""
        points = {point: [] for point in self.points()}
        axes = {point.workload: [axis for axis, _ in point.settings] for point in points}
        for case in cases:
            varied = axes.get(case["workload"], ())
            point = Point(case["workload"], tuple((axis, case["axes"].get(axis)) for axis in varied))
            if point not in points:
                raise SanityError(f"a record of {point}, which was not requested")
            points[point].append(case)
        return points

    def _judge_end(self, code):
        """Judges the end of the job. The programs of a bundle share a job, whose end the bundle judges, so here it is
        queried only for a program that failed."""
        if (self.has_own_job or code != 0) and (end := jobs.abnormal_end(self.job, well=code == 0)):
            error = retries.Interrupted if jobs.was_interrupted(self.job) else SanityError
            raise error(f"{end}; isthmus-bench ended with exit code {jobs.exit_code_in_words(code)}")

    def _judge_number(self, points, code, run):
        for point, found in points.items():
            if len(found) != self.processes:
                total, asked = sum(map(len, points.values())), self.processes * len(points)
                end = f"; isthmus-bench ended with exit code {jobs.exit_code_in_words(code)}" if code else ""
                if total < asked:
                    end = f"{end or '; isthmus-bench ended successfully'}{self._complaint(run)}"
                raise _ended(code)(f"{total} records where {asked} were requested, {len(found)} of {point}{end}")
            numbers = sorted(case["run"]["process"] for case in found)
            if numbers != list(range(1, self.processes + 1)):
                shown = ", ".join(map(str, numbers))
                raise SanityError(f"the records of {point} are of processes {shown}: that of another is lost")
        runs = sorted({case["run"]["id"] for found in points.values() for case in found})
        if len(runs) > 1:
            raise SanityError(
                f"the records are of {len(runs)} runs ({', '.join(runs)}), but this job made one: others are another's"
            )

    def _judge_invalid(self, case):
        """Raises SanityError for figures that must not be compared, unless the site states that the reason is
        normal."""
        where = self.current_partition
        stated = {"pcie_downtrained"} if site_setting(where, "pcie") else set()
        if site_setting(where, "shared_nodes", False):
            stated |= set(_COMPANY)
        # A foreign process that was gone after the case may be the job's own previous program, whose memory the driver
        # was still freeing. The record cannot be used, but the node is fine.
        if not any((device.get("state_after") or {}).get("foreign_processes") for device in case["devices"]):
            stated.add(fields.FOREIGN)
        for warning in fields.invalidating(case):
            if warning["code"] not in stated:
                mend = _COMPANY.get(warning["code"], "").format(where.fullname)
                raise SanityError(f"{warning['message']}; this invalidates what was measured{mend}")

    def _judge_grant(self, case):
        """Raises SanityError if the node may be shared, because the two queries for other jobs do not see a job that
        ran only between them."""
        where = self.current_partition
        if not site_setting(where, "shared_nodes", False) and (why := jobs.shared_grant(case, self.job)):
            raise SanityError(f"{why}{_COMPANY['shared_node'].format(where.fullname)}")
