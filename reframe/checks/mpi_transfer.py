"""Checks with several ranks, one per GPU: messages between ranks, and the host bandwidth of ranks that compete for it.

They run in environments with the feature `mpi`; docs/mpi.md describes what a site has to state.
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

# Prefixes of workloads whose message buffers a GPU can access. They are skipped if the MPI does not accept such
# buffers.
GPU_MEMORY = ("mpi/gpu-", "mpi/managed-")


# Part of the message that a program without MPI prints if it is started with several ranks.
NO_MPI = "ranks of a build without MPI were started"


@rfm.simple_test
class MpiTransfer(CatalogueCheck):
    """Check of one workload with several ranks at one size."""

    workload = builtins.parameter(list(WORKLOADS), fmt=lambda name: name.removeprefix("mpi/"))
    size = builtins.parameter(catalogue.sizes(WORKLOADS))
    #: Number of ranks per node, each with its own GPU. Use -S ranks=4 for nodes with four GPUs, and -S nodes=2 for two
    #: nodes.
    ranks = builtins.variable(int, value=2)
    nodes = builtins.variable(int, value=1)
    valid_prog_environs = ["+mpi"]
    time_limit = "20m"

    @builtins.run_after("init")
    def ask_for_ranks(self):
        self.num_tasks, self.num_tasks_per_node = self.ranks * self.nodes, self.ranks

    @builtins.run_before("run")
    def bind_ranks(self):
        """Binds each rank to a core. The record contains where ranks ran; the check fails if two ran on one core."""
        launcher = self.job.launcher
        option = jobs.BIND_TO_CORES.get(launcher.registered_name)
        if option and option not in launcher.options:
            launcher.options.append(option)

    def excuse(self):
        """Returns a reason if the program was built without MPI, otherwise None. Only a program that was built
        beforehand may lack MPI; a program that the session builds has it."""
        said = pathlib.Path(self.job.workdir, self.job.stderr)  # correct in a bundle as well
        if self.bench and said.is_file() and NO_MPI in inputs.read_ends(said).text:
            return f"{self.bench} is built without MPI; build it with scripts/build --mpi"
        return None

    def denied(self, point, case, stated):
        return stated & {"gpu_aware_mpi"} if point.workload.startswith(GPU_MEMORY) else set()
