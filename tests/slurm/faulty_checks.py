"""ReFrame checks, one for each fault of faults.py, which inject the fault into their job."""

import pathlib
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "reframe")]

import reframe as rfm
import reframe.core.builtins as builtins

from faults import FAULTS, HOST
from isthmus_reframe.check import IsthmusCheck


@rfm.simple_test
class Faulty(IsthmusCheck):
    fault = builtins.parameter(name for name, fault in FAULTS.items() if HOST.exists() or not fault.real)
    workload, mode, size = "microbench/saxpy", "pm", "tiny"

    def record_name(self):
        return self.fault

    @builtins.run_after("init")
    def choose(self):
        given = FAULTS[self.fault]
        self.processes = given.processes
        if given.real:
            self.bench, self.bench_options = str(HOST), given.samples.split()

    @builtins.run_before("run", always_last=True)
    def inject(self):
        given = FAULTS[self.fault]
        self.env_vars.update(given.environment)
        self.prerun_cmds += given.before
        self.postrun_cmds += given.after
        self.executable = given.program or self.executable
        self.executable_opts = [given.workload or w if w == self.workload else w for w in self.executable_opts]
        if given.through:
            words = ["sh", "-c", shlex.quote(given.through), "sh", self.executable, *self.executable_opts]
            self.executable, self.executable_opts = words[0], words[1:]
