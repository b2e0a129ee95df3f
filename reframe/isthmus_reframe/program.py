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

begun = []  # programs of this session that have a job of their own, repeated ones too


class IsthmusProgram(rfm.RunOnlyRegressionTest):
    """A run of isthmus-bench: the one that $ISTHMUS_BENCH names, else the one that this session builds."""

    bench = builtins.variable(str, value=os.environ.get("ISTHMUS_BENCH", ""))
    build_with = builtins.variable(str, value="")  # the build's; here too, or ReFrame warns that -S finds no such
    if not os.environ.get("ISTHMUS_BENCH"):
        build = builtins.fixture(IsthmusBuild, scope="environment")

    sourcesdir = None
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1

    #: Whether the job needs all GPUs that the site states, or one for each rank.
    all_gpus = False
    #: Whether this program alone runs in its job; a bundle's members share one.
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
        # Schedulers lose exit codes (squeue does), and ReFrame looks at none: the job script writes it down.
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
        """ReFrame believes squeue where it failed, and does not look whether there still is a stage folder."""
        jobs.wait_for_end(self.job)
        if not os.path.isdir(self.stagedir):
            raise SanityError(f"the stage folder {self.stagedir} is gone: something removed it; run again")
        for name in (str(self.stderr), profilers.UNPROFILED_SAID):
            job_warnings.note(self, name, said(self, name))

    def _forget_last_job(self):
        """Removes what an earlier job left in a stage folder that was kept: here, as this one may never start, and in
        its script, as the earlier one may still end.
        """
        for name in WRITTEN:
            path = pathlib.Path(self.stagedir) / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.prerun_cmds = [f"rm -rf {' '.join(WRITTEN)}", *self.prerun_cmds]

    def _complaint(self, run: Run = PROGRAM) -> str:
        """The end of a sentence: what was said, and where the rest of it is."""
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
