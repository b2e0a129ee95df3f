"""Launcher `pals` for ReFrame: the `mpiexec` of HPE's PALS, as on HPE Cray machines with PBS.

ReFrame's own launcher `mpiexec` passes only the number of ranks, and their nodes are the command's default. Also, the
`mpiexec` of Open MPI or MPICH has other options for binding. A site configuration registers `pals` by importing this
file.
"""

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("pals")
class PalsLauncher(JobLauncher):
    def command(self, job):
        return ["mpiexec", "-n", str(job.num_tasks or 1), "--ppn", str(job.num_tasks_per_node or 1)]
