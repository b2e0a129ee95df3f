"""Comparison of our figures with those of trusted programs: nvbandwidth, BabelStream, the OSU micro-benchmarks.

One job runs the other program, ours, and the other one again. Its output is kept next to our record. docs/yardsticks.md
describes where to get the programs.
"""

import pathlib
import shutil
import sys
import typing

import reframe as rfm
import reframe.core.builtins as builtins
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus import inputs
from isthmus.records import fields, load
from isthmus_reframe import yardsticks
from isthmus_reframe.check import IsthmusCheck
from isthmus_reframe.points import Point
from isthmus_reframe.yardsticks import Same

MIB = 1 << 20
BEFORE, AFTER = "theirs-before.out", "theirs-after.out"


class Yard(typing.NamedTuple):
    """Program to compare with: how it is run, and which of our workloads is compared."""

    summary: str
    command: str
    read: typing.Callable[[str], dict[str, float]]
    same: tuple[Same, ...]
    axes: dict
    ranks: int = 1


YARDS = {
    "nvbandwidth": Yard(
        "copy engines between pinned memory and a GPU, and within it",
        "nvbandwidth --json --bufferSize 512 --testSamples 10 "
        "--testcase host_to_device_memcpy_ce device_to_host_memcpy_ce",
        yardsticks.nvbandwidth,
        (Same("host_to_device_memcpy_ce", "transfer/pinned-gpu0/ce", "rate"),
         Same("device_to_host_memcpy_ce", "transfer/gpu0-pinned/ce", "rate")),
        {"bytes": 512 * MIB},
    ),
    "babelstream": Yard(
        "triad in the memory of a GPU, arrays of 512 MiB",
        f"cuda-stream --csv --arraysize {64 * MIB}",
        yardsticks.babelstream,
        (Same("Triad", "stream/gpu0/triad", "rate", best=True),),
        {"bytes": 512 * MIB, "memory": "device"},
    ),
    "osu": Yard(
        "messages of 4 MiB between the memories of two GPUs, 64 at once",
        f"osu_bw -d cuda -m {4 * MIB}:{4 * MIB} -W 64 D D",
        yardsticks.osu,
        (Same("bandwidth", "mpi/gpu-gpu/send", "rate"),),
        {"bytes": 4 * MIB, "window": 64},
        ranks=2,
    ),
}  # fmt: skip


@rfm.simple_test
class Yardstick(IsthmusCheck):
    """Check that another program and our own measurement of the same figures agree within 1%."""

    peer = builtins.parameter(sorted(YARDS))
    mode, size = None, None
    valid_systems = ["+gpu"]
    published = ("rate",)
    time_limit = "15m"

    @builtins.run_after("init")
    def describe(self):
        self.descr = f"{self.peer}: {self.yard.summary}"
        self.tags = {"yardstick", self.peer}
        if self.yard.ranks > 1:
            self.num_tasks = self.num_tasks_per_node = self.yard.ranks
            self.valid_prog_environs = ["+mpi"]

    @property
    def yard(self) -> Yard:
        return YARDS[self.peer]

    # The run of our program.

    @property
    def workload(self):
        return f"yardstick/{self.peer}"

    def request(self):
        settings = [word for axis, value in self.yard.axes.items() for word in ("--set", f"{axis}={value}")]
        return [*(same.workload for same in self.yard.same), *settings]

    def points(self):
        return [Point(same.workload) for same in self.yard.same]

    def settled(self):
        return {"mode": None, "placement": None, "staging": None, "size": None}

    def axes_of(self, point):
        return self.yard.axes

    def record_name(self):
        return self.workload

    def required_metrics(self, point):
        return {same.metric for same in self.yard.same if same.workload == point.workload}

    def denied(self, point, case, stated):
        """Returns the stated capabilities that a skip contradicts: the GPU, because skipped figures cannot be
        compared."""
        return stated & {"gpu", "cuda", "hip"}

    def variable_name(self, point, metric, shown):
        return f"{point.workload}/{metric}"

    # The runs of the other program, before and after ours.

    @builtins.run_before("run")
    def run_theirs(self):
        start = f"{self.job.launcher.run_command(self.job)} " if self.yard.ranks > 1 else ""
        for place, commands in ((BEFORE, self.prerun_cmds), (AFTER, self.postrun_cmds)):
            commands.append(f"{start}{self.yard.command} > {place} 2>&1")

    def _keep_record(self, path, contents=None):
        """Keeps the other program's outputs before anything is judged: NAME.theirs-before.out and NAME.theirs-after.out
        next to NAME.jsonl."""
        kept = super()._keep_record(path, contents)
        for place in (BEFORE, AFTER):
            if (said := path.parent / place).exists():
                shutil.copyfile(said, kept.with_suffix(f".{place}"))
        return kept

    @builtins.sanity_function
    def judge(self):
        sn.evaluate(super().judge())
        path = pathlib.Path(self.stagedir)
        cases = {case["workload"]: case for case in load.read(path / "record.jsonl")}
        theirs = [self._theirs(path / place) for place in (BEFORE, AFTER)]
        for same in self.yard.same:
            metric = fields.metrics(cases[same.workload])[same.metric]
            ours = max(metric["samples"]) if same.best else metric["median"]
            reported = [figures.get(same.theirs, float("nan")) for figures in theirs]
            if why := yardsticks.disagreement(same, self.peer, ours, reported):
                raise SanityError(why)
        return True

    def _theirs(self, path) -> dict[str, float]:
        try:
            text = inputs.read_small(path).decode("utf-8", errors="replace") if path.exists() else ""
        except OSError as error:
            program = self.yard.command.split()[0]
            raise SanityError(f"{program} wrote output that is {error.strerror}: see {path}") from None
        if "command not found" in text or not text:
            program = self.yard.command.split()[0]
            raise SanityError(f"{program} did not run: load environments/yardsticks first (docs/yardsticks.md)")
        try:
            return self.yard.read(text)
        except yardsticks.YardstickError as error:
            raise SanityError(f"{error}; see {path.name} in {self.stagedir}") from None
