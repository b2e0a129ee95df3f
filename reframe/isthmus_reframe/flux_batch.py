"""Scheduler `flux-batch` and launcher `flux-run` for ReFrame, which use Flux's own commands.

ReFrame's own scheduler `flux` needs Flux's Python bindings wherever a site configuration is read, and requests one core
without a queue, an exclusive node or a GPU. `flux-batch` submits the job script with `flux batch`; the partition's
`access` and `resources` are directives in the script, as for Slurm and PBS. A site configuration registers both by
importing this file.
"""

import re
import time

from reframe.core.backends import register_launcher, register_scheduler
from reframe.core.exceptions import JobError, JobSchedulerError
from reframe.core.launchers import JobLauncher
from reframe.core.schedulers import Job, JobScheduler

from isthmus import tools
from isthmus_reframe.steady_clock import STEADY

_POLL = ("flux", "jobs", "--no-header", "--format={id.f58plain}|{state}|{result}|{returncode}|{nodelist}")
_WAITING = ("DEPEND", "PRIORITY", "SCHED")
_PATIENCE = 10  # consecutive polls without news of a job before it is given up; a broker may be restarting


def _asked(*command: str, timeout: float | None) -> str:
    """Returns the output of a Flux command. Raises JobSchedulerError with one sentence if the command fails.

    The locale is not changed, because `flux batch` passes its environment on to the job.
    """
    answer = tools.ask(*command, timeout=timeout or tools.LONGEST, c_locale=False)
    if not answer.ok:
        raise JobSchedulerError(answer.why)
    return answer.out


def _plain(jobid: str) -> str:
    """Returns a job identifier with a plain f at the beginning; depending on the locale, Flux prints ƒ or f."""
    return "f" + jobid[1:] if jobid[:1] in "ƒf" else jobid


def _nodes(job) -> int:
    return max(1, (job.num_tasks or 1) // (job.num_tasks_per_node or 1))


class FluxBatchJob(Job):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.completed = self.cancelled = False
        self.unknown = 0

    def take(self, state: str, result: str, returncode: str, nodes: str):
        """Sets the job's state from the output of `flux jobs`."""
        self._state = state if state != "INACTIVE" else result
        self._nodelist = nodes.split()
        if state == "INACTIVE":
            self._exitcode = int(returncode) if re.fullmatch(r"-?\d+", returncode) else None
            self.completed = True
            if result == "TIMEOUT":
                self._exception = JobError("the job hit its time limit", self.jobid)


@register_scheduler("flux-batch")
class FluxBatchScheduler(JobScheduler):
    def __init__(self):
        self._timeout = self.get_option("job_submit_timeout")

    def make_job(self, *args, **kwargs):
        return FluxBatchJob(*args, **kwargs)

    def emit_preamble(self, job):
        files = [f"--output={job.stdout}", f"--error={job.stderr}"]
        options = [f"--job-name={job.name}", *files, f"--nodes={_nodes(job)}"]
        if job.time_limit is not None:
            options.append(f"--time-limit={int(job.time_limit)}s")
        if job.exclusive_access:
            options.append("--exclusive")
        options += [*job.sched_access, *job.options, *job.cli_options]
        return [option if option.startswith("#") else f"#flux: {option}" for option in dict.fromkeys(options)]

    def submit(self, job):
        answer = _asked("flux", "batch", job.script_filename, timeout=self._timeout).split()
        if not answer:
            raise JobSchedulerError("flux batch gave no job identifier")
        job._jobid = _plain(answer[-1])
        job._submit_time = STEADY.time()

    def poll(self, *jobs):
        jobs = [job for job in jobs if job is not None and not job.completed]
        if not jobs:
            return
        answer = tools.ask(*_POLL, *(job.jobid for job in jobs)).out
        known = {_plain(words[0]): words[1:] for line in answer.splitlines() if len(words := line.split("|")) == 5}
        for job in jobs:
            job.unknown = 0 if job.jobid in known else job.unknown + 1
            if job.unknown > _PATIENCE:
                raise JobSchedulerError(f"flux jobs does not know {job.jobid}")
            if job.unknown:
                continue
            job.take(*known[job.jobid])
            waited = STEADY.time() - job.submit_time
            if job.state in _WAITING and job.max_pending_time and waited >= job.max_pending_time:
                self.cancel(job)
                job._exception = JobError("maximum pending time exceeded", job.jobid)

    def wait(self, job):
        while not self.finished(job):
            self.poll(job)
            time.sleep(0.5)

    def cancel(self, job):
        _asked("flux", "cancel", job.jobid, timeout=self._timeout)
        job.cancelled = True

    def finished(self, job):
        return job.completed

    def allnodes(self):
        raise NotImplementedError("flux-batch cannot list nodes; name them with --nodelist or a queue")

    def filternodes(self, job, nodes):
        raise NotImplementedError("flux-batch cannot filter nodes")


@register_launcher("flux-run")
class FluxRunLauncher(JobLauncher):
    """Launcher of ranks on whole nodes. Each rank sees all GPUs of its node and uses the one with its local rank's
    number."""

    def command(self, job):
        tasks = job.num_tasks_per_node or 1
        return ["flux", "run", "--exclusive", f"--nodes={_nodes(job)}", f"--tasks-per-node={tasks}"]
