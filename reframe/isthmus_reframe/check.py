"""The base class of every check of isthmus-bench.

ReFrame lets several failures pass silently; docs/decisions/0004-reframe-gates.md lists them with the gate for each. A
check reads only the record that isthmus-bench wrote.
"""

import pathlib
import typing

import reframe.core.builtins as builtins
import reframe.core.runtime as runtime
import reframe.utility.typecheck as typ
from reframe.core.exceptions import SanityError

from isthmus_reframe import profilers, steady_clock
from isthmus_reframe.build import IsthmusBuild
from isthmus_reframe.gates import (
    figure_lines,
    quick_start,
    retries,
    selections,
    session,
    session_files,
)
from isthmus_reframe.job_files import PROGRAM, RECORD, WITHOUT_PROFILER
from isthmus_reframe.judge.case import CaseJudge
from isthmus_reframe.judge.figures import FigureJudge
from isthmus_reframe.judge.records import RecordKeeper
from isthmus_reframe.judge.run import RunJudge
from isthmus_reframe.judge.skips import SkipJudge
from isthmus_reframe.points import naming
from isthmus_reframe.program import IsthmusProgram, begun
from isthmus_reframe.request import Request
from isthmus_reframe.results_database import Fingerprinted
from isthmus_reframe.stated import site_setting, stated_capabilities, stated_gpus


class IsthmusCheck(Request, RunJudge, CaseJudge, SkipJudge, FigureJudge, RecordKeeper, IsthmusProgram, Fingerprinted):
    """Check that runs cases of isthmus-bench and compares their records with everything that is known about them.

    A subclass sets `workload`, `size` and `mode`, and may add to required_metrics(). If it sets `varied`, there is a
    case for every combination of those values. A check of several workloads overrides points() and request(). Records
    are judged in ReFrame's sanity function, because an exception there fails the check, whereas in a performance
    function it is only a warning.
    """

    #: Profiler that runs each rank: nsys, ncu, rocprofv3, cupti or perf (docs/profiling.md); empty for none.
    profiler = builtins.variable(str, value="")
    samples = builtins.variable(int, type(None), value=None)
    processes = builtins.variable(int, value=1)
    bench_options = builtins.variable(typ.List[str], value=[])
    #: True if a session in which every check was skipped may pass.
    may_skip_all = builtins.variable(typ.Bool, value=False)

    workload: str
    mode: str | None
    size: str
    cpu_only = False
    #: True if at least one case was measured.
    has_measured = False
    #: Workloads without a result that could be verified. All other workloads must be verified.
    unverified: typing.ClassVar[frozenset[str]] = frozenset()
    #: Axes and their values that one run measures, as in the catalogue. The name of a performance variable contains
    #: them after the metric's name, as in submit/argument_bytes=256.
    varied: typing.ClassVar[dict[str, list]] = {}

    #: Metrics that ReFrame shows, or empty if it shows all metrics. Other metrics are only in the record.
    published = (
        "in", "kernel", "out", "overlapped", "paper_total", "wall",
        "in_rate", "out_rate", "kernel_rate", "kernel_flop_rate",
    )  # fmt: skip

    @builtins.run_after("init")
    def note_maintainers(self):
        """Sets the site's maintainers, whom ReFrame names if a check fails, and by whom --maintainer selects checks."""
        stated = [name for p in runtime.runtime().system.partitions for name in site_setting(p, "maintainers", [])]
        self.maintainers = [*self.maintainers, *dict.fromkeys(stated)]

    @builtins.run_after("init", always_last=True)
    def note_gpus(self):
        """Sets the number of GPUs that --gpu-only, --cpu-only and -E use. These options act before a partition is
        chosen, so it is the largest number that any partition has."""
        gpus = max(map(stated_gpus, runtime.runtime().system.partitions), default=0)
        if gpus and self.uses_gpus():
            self.num_gpus_per_node = gpus if self.all_gpus else self.num_tasks_per_node or 1

    # Preparing the job.

    @builtins.run_before("run")
    def command(self):
        self.executable_opts = ["run", *self.request(), "--record", RECORD]
        if self.samples is not None:
            self.executable_opts += ["--samples", str(self.samples)]
        if self.processes != 1:
            self.executable_opts += ["--processes", str(self.processes)]
        self.executable_opts += self.bench_options
        if self.profiler:
            profilers.wrap(self, RECORD)

    # Judging the results, beginning with the gates whose messages explain the most.

    @builtins.sanity_function
    def judge(self):
        if why := self.excuse():
            self.skip(why)
        if self.profiler:
            self._judge_profile()
        cases = self._read_record(PROGRAM)
        self._publish(self._without_skips(self._judge_run(PROGRAM, cases)))
        return True

    def _judge_profile(self):
        """Judges the run without the profiler, and adds the profiler's results to the profiled run's record. Skips the
        check if its profiler is not permitted."""
        stage = pathlib.Path(self.stagedir)
        try:
            with naming(f"without {self.profiler}"):
                plain = self._read_record(WITHOUT_PROFILER)
                self._judge_run(WITHOUT_PROFILER, plain)
            self._judge_refusal(stage, plain)
            profilers.amend(self.profiler, stage, RECORD, plain)
        except SanityError:
            if (path := stage / RECORD).exists():  # even if the profile cannot be used
                profilers.keep(stage, self._keep_record(path))
            raise

    def _judge_refusal(self, stage, plain):
        """Skips the check if its profiler is not permitted, unless the site states that it is."""
        reason = profilers.refused(self.profiler, stage / profilers.FOLDER, plain)
        if reason is None:
            return
        uses_gpu = any(case["devices"] and not case["emulated"] for case in plain)
        if uses_gpu and self.profiler in stated_capabilities(self.current_partition):
            raise SanityError(f"{reason}, but {self.current_partition.fullname} states {self.profiler}")
        self.skip(reason)


for each in (quick_start, steady_clock, selections, session_files, retries, figure_lines):
    each.install()
session.install(session.Ours(IsthmusCheck, IsthmusProgram, IsthmusBuild, begun))
