"""Several ranks, one for each GPU: messages between them, and what they leave each other of the host's side.

For environments with the feature `mpi`; docs/mpi.md says what a site states.
"""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "plugins"))

import catalogue
import jobs
from isthmus_check import IsthmusCheck

CATALOGUE = catalogue.load()
WORKLOADS = {w["name"]: w for w in CATALOGUE["workloads"] if w["name"].startswith("mpi/")}

# Messages whose buffers a GPU reaches: an MPI that does not take them skips these.
GPU_MEMORY = ("mpi/gpu-", "mpi/managed-")


@rfm.simple_test
class MpiTransfer(IsthmusCheck):
    """One workload of several ranks at one size."""

    workload = builtins.parameter(sorted(WORKLOADS), fmt=lambda name: name.removeprefix("mpi/"))
    size = builtins.parameter(CATALOGUE["sizes"])
    #: Ranks on a node, each with a GPU of its own; -S ranks=4 for a node of four. More nodes: -S nodes=2.
    ranks = builtins.variable(int, value=2)
    nodes = builtins.variable(int, value=1)
    valid_prog_environs = ["+mpi"]
    mode = None
    published = ()
    time_limit = "20m"

    @builtins.run_after("init")
    def describe(self):
        workload = WORKLOADS[self.workload]
        self.descr = f"{workload['summary']}, {self.size} size"
        self.tags = {"mpi", self.size, self.workload.partition("/")[2], *workload["tags"]}
        self.native = workload["native"]
        self.num_tasks, self.num_tasks_per_node = self.ranks * self.nodes, self.ranks
        if self.size == "tiny":
            self.tags.add("smoke")
        elif not self.native:
            self.valid_systems = ["+gpu"]  # larger ones teach nothing on the emulator
        if self.size not in workload["sizes"]:
            self.valid_systems = []

    @builtins.run_before("run")
    def bind_ranks(self):
        """A core for each rank; the record says where they ran, and two on one are red."""
        launcher = self.job.launcher
        option = jobs.BIND_TO_CORES.get(launcher.registered_name)
        if option and option not in launcher.options:
            launcher.options.append(option)

    def required_metrics(self, point):
        return set(WORKLOADS[self.workload]["metrics"])

    def denied(self, point, case, stated):
        return stated & {"gpu_aware_mpi"} if point.workload.startswith(GPU_MEMORY) else set()
