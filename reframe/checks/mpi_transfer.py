"""Several ranks, one for each GPU: messages between them, and what they leave each other of the host's side.

For environments with the feature `mpi`; docs/mpi.md says what a site states.
"""

import pathlib
import sys

import reframe as rfm
import reframe.core.builtins as builtins

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from isthmus import inputs
from isthmus_reframe import catalogue, jobs
from isthmus_reframe.families.catalogue_check import CatalogueCheck

WORKLOADS = catalogue.family("mpi/")

# Messages whose buffers a GPU reaches: an MPI that does not take them skips these.
GPU_MEMORY = ("mpi/gpu-", "mpi/managed-")


# How a program without MPI refuses several ranks.
NO_MPI = "ranks were started of a build without MPI"


@rfm.simple_test
class MpiTransfer(CatalogueCheck):
    """One workload of several ranks at one size."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("mpi/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    #: Ranks on a node, each with a GPU of its own; -S ranks=4 for a node of four. More nodes: -S nodes=2.
    ranks = builtins.variable(int, value=2)
    nodes = builtins.variable(int, value=1)
    valid_prog_environs = ["+mpi"]
    time_limit = "20m"

    @builtins.run_after("init")
    def ask_for_ranks(self):
        self.num_tasks, self.num_tasks_per_node = self.ranks * self.nodes, self.ranks

    @builtins.run_before("run")
    def bind_ranks(self):
        """A core for each rank; the record says where they ran, and two on one are red."""
        launcher = self.job.launcher
        option = jobs.BIND_TO_CORES.get(launcher.registered_name)
        if option and option not in launcher.options:
            launcher.options.append(option)

    def excuse(self):
        """A program that the session was given may be built without MPI; one that it builds here is not."""
        said = pathlib.Path(self.job.workdir, self.job.stderr)  # of a bundle, too
        if self.bench and said.is_file() and NO_MPI in inputs.read_ends(said).text:
            return f"{self.bench} is built without MPI; build it with scripts/build --mpi"
        return None

    def denied(self, point, case, stated):
        return stated & {"gpu_aware_mpi"} if point.workload.startswith(GPU_MEMORY) else set()
