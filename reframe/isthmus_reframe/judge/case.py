"""Judge that compares a record with the request, with the device that the site states, and with its own
verification."""

from reframe.core.exceptions import SanityError

from isthmus_reframe import jobs
from isthmus_reframe.gates import retries
from isthmus_reframe.judge import record_gates
from isthmus_reframe.stated import stated_backend


class CaseJudge:
    """Judge of one record at a time."""

    def _judge_case(self, case):
        if why := jobs.foreign(case, self.job, self.current_system.name, self.current_partition.name):
            raise SanityError(why)
        for field, asked in self.settled().items():
            if case.get(field) != asked:
                raise SanityError(f"the record's {field} is {case.get(field)!r}, but {asked!r} was requested")
        ranks = case.get("ranks", {"count": 1, "each": [None]})
        if ranks["count"] != self.num_tasks:
            raise SanityError(f"the record is of {ranks['count']} ranks, but {self.num_tasks} were started")
        if len(ranks["each"]) != self.num_tasks:
            raise SanityError(f"the record has {len(ranks['each'])} ranks, but {self.num_tasks} ran: one is lost")
        if case["error"]:
            raise SanityError(f"failed: {case['error']}")
        gpus = self.extra_resources.get("gpu", {}).get("num_gpus_per_node", 0)
        on_gpus = not (case["emulated"] or self.is_cpu_only(case))
        for why in (
            jobs.short_grant(case, gpus),
            jobs.crowded_ranks(case, on_gpus=on_gpus),
            record_gates.misnamed_device(case),
        ):
            if why:
                raise SanityError(why)
        self._judge_device(case)
        if case["skipped"]:
            return
        if why := record_gates.interrupted(case):
            raise retries.Interrupted(why)
        self._judge_result(case)

    def _judge_result(self, case):
        """Raises SanityError if the record's verdict on the result does not match its error and tolerance."""
        workload, verify = case["workload"], case["verify"]
        status, error, tolerance = verify["status"], verify["error"], verify["tolerance"]
        if status == "not_applicable" and workload in self.unverified:
            return
        within = error is not None and tolerance is not None and error <= tolerance
        if status != "pass" or not within:
            detail = verify.get("detail") or f"error {error}, tolerance {tolerance}"
            raise retries.WrongResult(f"wrong result ({status}, {verify['method']}): {detail}")
        if why := record_gates.loose_tolerance(case):
            raise SanityError(why)

    def _judge_request(self, point, case):
        """Compares a record with the options that its program was given."""
        for why in (
            record_gates.unknown_axes(case, self.known_axes(point)),
            record_gates.few_samples(case, self.samples),
        ):
            if why:
                raise SanityError(why)
        if "--preset" not in self.bench_options:
            self._judge_axes(point, case)

    def _judge_axes(self, point, case):
        chosen = {word.partition("=")[0] for word in self.bench_options}  # --set AXIS=VALUE
        for axis, asked in self.axes_of(point).items():
            if axis not in chosen and case["axes"].get(axis) != asked:
                raise SanityError(f"the record's {axis} is {case['axes'].get(axis)!r}, but {asked!r} was requested")

    def _judge_device(self, case):
        """Raises SanityError unless a stated GPU did the work, so that a broken driver does not lead to emulated
        figures."""
        if self.is_cpu_only(case):
            if case["emulated"]:
                raise SanityError("the CPU alone does this, but the record is emulated")
            return
        stated = stated_backend(self.current_partition)
        if stated is None:
            return
        where = self.current_partition.fullname
        if case["emulated"]:
            raise SanityError(f"{where} states a GPU ({stated}), but the record is emulated: driver, build or request")
        backends = {d["backend"] for d in case["devices"]}
        if not backends and not case["skipped"]:
            raise SanityError(f"{where} states a GPU ({stated}), but the record names no device")
        if stated != "gpu" and backends - {stated}:
            raise SanityError(f"{where} states {stated}, but {', '.join(sorted(backends))} ran")
