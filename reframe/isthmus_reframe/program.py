"""Runs of isthmus-bench in a job."""

import os
import pathlib
import shutil

import reframe as rfm
import reframe.core.builtins as builtins
from reframe.core.environments import Environment
from reframe.core.exceptions import ReframeError, SanityError

from isthmus import inputs
from isthmus_reframe import jobs, profilers
from isthmus_reframe.build import IsthmusBuild
from isthmus_reframe.gates import job_warnings, retries, session_files
from isthmus_reframe.job_files import EXIT_CODE, PROGRAM, WRITTEN, Run, judge_environment, said
from isthmus_reframe.stated import stated_gpus
from isthmus_reframe.store import absolute

begun = []  # programs of this session that run in their own job, including repeated ones


class IsthmusProgram(rfm.RunOnlyRegressionTest):
    """Run of isthmus-bench: of the program that $ISTHMUS_BENCH names, otherwise of the one that this session builds."""

    bench = builtins.variable(str, value=os.environ.get("ISTHMUS_BENCH", ""))
    build_with = builtins.variable(str, value="")  # the build's variable; without it, ReFrame warns about -S
    if not os.environ.get("ISTHMUS_BENCH"):
        build = builtins.fixture(IsthmusBuild, scope="environment")

    sourcesdir = None
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1

    #: True if the job needs all GPUs that the site states, false if it needs one per rank.
    all_gpus = False
    #: True if this program is alone in its job; the members of a bundle share a job.
    has_own_job = True

    @builtins.run_before("run")
    def program(self):
        path = str(absolute(self.bench)) if self.bench else self.build.path
        if not self.is_dry_run() and not os.access(path, os.X_OK):
            raise ReframeError(f"{path}: no such program; set ISTHMUS_BENCH to a built isthmus-bench, or leave it out")
        self.executable = path
        if self.has_own_job:
            begun.append(self)
            self.prerun_cmds = [*self._note_environment(), *self.prerun_cmds]
        self._forget_last_job()
        # The job script notes the exit code, because some schedulers lose it (squeue does), and ReFrame ignores it.
        self.postrun_cmds = [f"echo $? > {EXIT_CODE}"]
        self.env_vars["ISTHMUS_SYSTEM"] = self.current_system.name
        self.env_vars["ISTHMUS_PARTITION"] = self.current_partition.name
        gpus = stated_gpus(self.current_partition)
        if gpus:
            wanted = gpus if self.all_gpus else self.num_tasks_per_node or 1
            self.extra_resources.setdefault("gpu", {"num_gpus_per_node": wanted})

    @builtins.run_before("run")
    def watch_job(self):
        jobs.prepare(self)

    @builtins.run_after("run")
    def note_job(self):
        session_files.note_job(self)

    def _note_environment(self) -> list[str]:
        own = Environment(self.unique_name, self.modules)
        return jobs.note_environment(self.current_partition.local_env, self.current_environ, own)

    @builtins.run_before("sanity")
    def look_at_job(self):
        """Waits for the job's end and checks that its stage folder exists, because ReFrame assumes the end if squeue
        fails, and does not check the folder."""
        jobs.wait_for_end(self.job)
        if not os.path.isdir(self.stagedir):
            raise SanityError(f"the stage folder {self.stagedir} is gone: something removed it; run again")
        for name in (str(self.stderr), profilers.UNPROFILED_SAID):
            job_warnings.note(self, name, said(self, name))

    def _forget_last_job(self):
        """Removes an earlier job's files from a stage folder that was kept. They are removed at once, because this job
        may never start, and again by its script, because the earlier job may still have been running."""
        for name in WRITTEN:
            path = pathlib.Path(self.stagedir) / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.prerun_cmds = [f"rm -rf {' '.join(WRITTEN)}", *self.prerun_cmds]

    def _complaint(self, run: Run = PROGRAM) -> str:
        """Returns the end of a sentence about a failure: the message in the output, and where the whole output is."""
        heard = said(self, run.said)
        why = jobs.complaint(heard.text)
        return f"{f' ({why})' if why else ''}; see {run.said or self.stderr} in {self.stagedir}{heard.gap}"

    def judge_environment(self):
        if self.has_own_job:
            judge_environment(self)

    def _exit_code(self, run: Run = PROGRAM) -> int:
        try:
            return int(inputs.read_note(pathlib.Path(self.stagedir) / run.exit_code))
        except (OSError, ValueError):
            error = retries.Interrupted if jobs.was_interrupted(self.job) else SanityError
            raise error(jobs.unnoted_end(self.job, self.stagedir)) from None
