"""The base class of every check of isthmus-bench.

ReFrame lets several failures through without a word; docs/decisions/0004-reframe-gates.md lists them and what closes
each. A check reads the record that isthmus-bench wrote and nothing else.
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
    """Runs cases of isthmus-bench and holds their records to everything that can be known about them.

    A subclass sets `workload`, `size` and `mode`, and may add to required_metrics(). Where it sets `varied`, there is a
    case for every combination of those values; a run of several workloads says so in points() and request(). What
    ReFrame calls sanity is everything here: there an exception fails the check, while in a performance function it is a
    warning.
    """

    #: nsys, ncu, rocprofv3, cupti or perf around each rank (docs/profiling.md); empty: none.
    profiler = builtins.variable(str, value="")
    samples = builtins.variable(int, type(None), value=None)
    processes = builtins.variable(int, value=1)
    bench_options = builtins.variable(typ.List[str], value=[])
    #: Whether a session may be green in which every check was skipped.
    may_skip_all = builtins.variable(typ.Bool, value=False)

    workload: str
    mode: str | None
    size: str
    cpu_only = False
    #: Whether at least one case was measured.
    has_measured = False
    #: Workloads that leave nothing behind which could be wrong; every other one has to be verified.
    unverified: typing.ClassVar[frozenset[str]] = frozenset()
    #: Axes and the values that one run measures, as the catalogue has them; their names and values follow the metric's
    #: in a performance variable: submit/argument_bytes=256.
    varied: typing.ClassVar[dict[str, list]] = {}

    #: Shown by ReFrame, everything else stays in the record; empty: all metrics.
    published = (
        "in", "kernel", "out", "overlapped", "paper_total", "wall",
        "in_rate", "out_rate", "kernel_rate", "kernel_flop_rate",
    )  # fmt: skip

    @builtins.run_after("init")
    def note_maintainers(self):
        """Those who look after the site: ReFrame names them where a check is red, and chooses by --maintainer."""
        stated = [name for p in runtime.runtime().system.partitions for name in site_setting(p, "maintainers", [])]
        self.maintainers = [*self.maintainers, *dict.fromkeys(stated)]

    @builtins.run_after("init", always_last=True)
    def note_gpus(self):
        """For --gpu-only, --cpu-only and -E, before a partition is chosen: as many as any has."""
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

    # Judging what came back, in order of what explains the most.

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
        """Judges the run without the profiler, and adds to the other what the profiler saw. A check whose profiler may
        not run is skipped."""
        stage = pathlib.Path(self.stagedir)
        try:
            with naming(f"without {self.profiler}"):
                plain = self._read_record(WITHOUT_PROFILER)
                self._judge_run(WITHOUT_PROFILER, plain)
            self._judge_refusal(stage, plain)
            profilers.amend(self.profiler, stage, RECORD, plain)
        except SanityError:
            if (path := stage / RECORD).exists():  # whatever became of the profile
                profilers.keep(stage, self._keep_record(path))
            raise

    def _judge_refusal(self, stage, plain):
        """Skips the check where its profiler may not run, unless the site states it."""
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
