# SPDX-License-Identifier: Apache-2.0

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyReframeHpc(PythonPackage):
    """ReFrame: regression tests and benchmarks of HPC systems.

    Spack's own package `reframe` ends at 4.9; this is the release on PyPI.
    """

    homepage = "https://reframe-hpc.readthedocs.io/"
    pypi = "reframe-hpc/reframe_hpc-4.10.4.tar.gz"

    license("BSD-3-Clause")
    version("4.10.4", sha256="0d3b0246664fa5b98dc50deed239282300fd74684c607f6b23b5484b924e988b")

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-hatchling", type="build")
    with default_args(type="run"):
        # ReFrame requires the newest releases of these, but was also run with the older ones that Spack has. Polars,
        # for --performance-compare only, is left out: ReFrame reports it where it is missing.
        depends_on("py-archspec@0.2.4:")
        depends_on("py-argcomplete@3.6:3")
        depends_on("py-clustershell@1.8:1")
        depends_on("py-fasteners@0.20:0")
        depends_on("py-jinja2@3.1:3")
        depends_on("py-jsonschema@4.25:4")
        depends_on("py-lxml@6")
        depends_on("py-pyyaml@6")
        depends_on("py-requests@2.32:2")
        depends_on("py-semver@3")
        depends_on("py-tabulate@0.9:")
