"""Judge that compares skips with what the site states."""

from reframe.core.exceptions import SanityError

from isthmus import units
from isthmus_reframe.points import naming
from isthmus_reframe.stated import site_setting, stated_capabilities

# Share of the memory stated by a site that a program can allocate; the driver and the system use the rest.
USABLE = 0.95


class SkipJudge:
    """Judge of skips: a skip is accepted unless it contradicts what the site states."""

    def _without_skips(self, points):
        """Returns the points that were measured, and adds the others to `skipped_cases`. Skips the check if none was
        measured."""
        measured, reasons = {}, []
        for point, cases in points.items():
            with naming(point):
                reason = self._judge_skips(point, cases)
            if reason is None:
                measured[point] = cases
                continue
            reasons.append(reason)
            self.skipped_cases = [*self.skipped_cases, f"{point}: {reason}"]
        if not measured:
            self.skip(reasons[0])
        self.has_measured = True
        return measured

    def _judge_skips(self, point, cases) -> str | None:
        """Returns why all processes skipped a case, or None if they measured it."""
        reasons = [c["skipped"] for c in cases if c["skipped"]]
        if not reasons:
            return None
        if len(reasons) != len(cases):
            raise SanityError(f"{len(reasons)} of {len(cases)} processes skipped: {reasons[0]}")
        partition, case = self.current_partition, cases[0]
        denied = self.denied(point, case, stated_capabilities(partition))
        if case.get("skip_kind") == "unsupported" and denied:
            raise SanityError(f"skipped ({reasons[0]}), but {partition.fullname} states {', '.join(sorted(denied))}")
        for case in cases:
            self._judge_memory(case)
        return reasons[0]

    def _judge_memory(self, case):
        """Raises SanityError if a case was skipped for lack of memory although it fits into the memory that the site
        states, because then another process uses the memory."""
        if not (short := case.get("short_of")):
            return
        memory, needed = short["memory"], short["needed"]
        stated = site_setting(self.current_partition, f"{memory}_memory")
        if stated is not None and needed <= USABLE * units.amount(str(stated)):
            raise SanityError(
                f"skipped ({case['skipped']}), but {self.current_partition.fullname} states {stated} of {memory} "
                "memory: end what uses the rest"
            )
