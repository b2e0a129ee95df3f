# SPDX-License-Identifier: Apache-2.0

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPlotly(PythonPackage):
    """Interactive charts for Python.

    The package uses its makers' wheel: Spack's own package first builds Rust or Node.js for the notebook extension.
    """

    homepage = "https://plotly.com/python/"
    license("MIT")
    version(
        "7.1.0",
        url="https://files.pythonhosted.org/packages/e5/7d/905a3a3d51087515719058c94cfbda2ff0fc14417c20d557ae3e82d8b250/plotly-7.1.0-py3-none-any.whl",
        sha256="dbb7fa18afce40d0a8e80d1bf162eceb3faa0ce5a77fe741ad09a74cf78f53f3",
        expand=False,
    )

    with default_args(type=("build", "run")):
        depends_on("python@3.8:")
        depends_on("py-narwhals@1.15.1:")
        depends_on("py-packaging")
