"""A launcher `pals` for ReFrame: the `mpiexec` of HPE's PALS, as on machines of HPE Cray with PBS.

ReFrame's `mpiexec` says how many ranks there are and leaves their nodes to the launcher's default, and the command of
the same name of Open MPI or MPICH binds by other options. A site configuration registers this one by importing this
file.
"""

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("pals")
class PalsLauncher(JobLauncher):
    def command(self, job):
        return ["mpiexec", "-n", str(job.num_tasks or 1), "--ppn", str(job.num_tasks_per_node or 1)]
