"""Build of the isthmus-bench that a session's checks run."""

import os
import pathlib

import reframe as rfm
import reframe.core.builtins as builtins
from reframe.core.exceptions import ReframeError, SanityError
from reframe.core.logging import getlogger

from isthmus import inputs
from isthmus_reframe import ROOT, jobs, spack_build
from isthmus_reframe.gates import job_warnings
from isthmus_reframe.job_files import BUILT, judge_environment, said
from isthmus_reframe.stated import stated_architectures, stated_backend
from isthmus_reframe.store import absolute


class IsthmusBuild(rfm.CompileOnlyRegressionTest):
    """Build of isthmus-bench, which is done once per sources and environment (scripts/build-once). If $ISTHMUS_BENCH
    names a program, that is used instead."""

    descr = "build isthmus-bench"
    #: Path of an isthmus-bench that is already built; if empty, one is built.
    bench = builtins.variable(str, value=os.environ.get("ISTHMUS_BENCH", ""))
    #: Builder: cmake, or spack in a copy of the site's Spack environment (docs/spack.md). If empty, spack is used if
    #: the site has such an environment, otherwise cmake.
    build_with = builtins.variable(str, value="")
    sourcesdir = None
    build_system = "CustomBuild"
    build_time_limit = "30m"

    @property
    def path(self) -> str:
        if self.bench:
            return str(absolute(self.bench))
        if self.builder == "spack":
            return os.path.join(self.stagedir, spack_build.INSTALLED, "bin/isthmus-bench")
        return os.path.join(self._note()[1], "bin/isthmus-bench")

    def _note(self) -> tuple[str, str]:
        """Returns what scripts/build-once noted: whether it built or reused the program, and the program's folder."""
        try:
            words = inputs.read_note(pathlib.Path(self.stagedir) / BUILT).split(maxsplit=1)
            return words[0], words[1].strip()
        except (OSError, LookupError):
            return "", "not-built"

    @property
    def builder(self) -> str:
        """Returns the builder that is used: "cmake" or "spack"."""
        has_environment = spack_build.has_environment(self.current_environ, self.current_system.name)
        return self.build_with or ("spack" if has_environment else "cmake")

    @builtins.run_before("compile")
    def choose_backend(self):
        if self.bench:
            self.build_system.commands = [f"test -x '{self.path}'"]
            return
        backend = stated_backend(self.current_partition, self.current_environ)
        if self.builder == "spack":
            spack_build.prepare(self, backend, stated_architectures(self.current_partition))
            return
        if self.builder != "cmake":
            raise ReframeError(f"build_with is {self.build_with!r}: choose cmake or spack")
        libraries = os.environ.get("ISTHMUS_LIBRARIES")
        if libraries:
            self.env_vars["ISTHMUS_LIBRARIES"] = str(absolute(libraries))
        self.prebuild_cmds = jobs.note_environment(self.current_partition.local_env, self.current_environ)
        if folder := os.environ.get("ISTHMUS_BUILDS"):
            self.env_vars["ISTHMUS_BUILDS"] = str(absolute(folder))
        command = [str(ROOT / "scripts/build-once"), "--note", BUILT]
        if backend in ("cuda", "hip"):
            command += ["--backend", backend]
        architectures = stated_architectures(self.current_partition)
        if "mpi" in self.current_environ.features:
            command += ["--mpi"]
        if architectures:
            command += ["--architectures", "';'".join(architectures)]
        self.build_system.commands = [" ".join(command)]

    @builtins.sanity_function
    def program_is_there(self):
        if not os.access(self.path, os.X_OK):
            raise SanityError(f"{self.path} was not built")
        job_warnings.note(self, str(self.stderr), said(self))
        judge_environment(self)
        if done := self._note()[0]:
            getlogger().info(f"The program: {'reused from' if done == 'reused' else 'built in'} {self._note()[1]}")
        return True
