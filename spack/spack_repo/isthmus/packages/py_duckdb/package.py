# SPDX-License-Identifier: Apache-2.0

from spack_repo.builtin.build_systems.python import PythonPackage
from spack_repo.isthmus.build_systems.wheels import wheels

from spack.package import *


class PyDuckdb(PythonPackage):
    """DuckDB, an in-process database, for Python.

    The package uses its makers' wheels, since building a database takes long.
    """

    homepage = "https://duckdb.org"
    license("MIT")

    wheels(
        "duckdb",
        "1.5.6",
        "manylinux_2_26_{0}.manylinux_2_28_{0}",
        {
            ("310", "aarch64"): (
                "e0/3e/eeeef69e0c3cf3bb463b544435695647a4802437cfcc2b94035026bf5f84",
                "95a6b91bb9149950baeb5d02466c006550d0ea98b9d10f15f7d614a8eb32e174",
            ),
            ("310", "x86_64"): (
                "58/05/4ed0a651d55c8cbf9f7e826cfa95e67c9955a5db22a0c7c0cc5378f4a90c",
                "dbd348e9ebdc8b28f1f9930efb5a74a382063c35d9c43901075566fbae50ab5c",
            ),
            ("311", "aarch64"): (
                "57/ec/97f595214b3a27b4ca42b8cab6d8121c06f3537dcc4d2da7bca0332de4c5",
                "56c0f71c6bee982e9c30568bb12371bf66b26bf129c75d8d7f60bc69d6590a2c",
            ),
            ("311", "x86_64"): (
                "68/4a/ab59f4c1f76fb89e28d23f19b2729538e0723c8d328a07e1b8c37f9ee128",
                "73b108c04c932b36c2fa4e41110cc1c3c8cd510eb49f065f92d050be8e6929fd",
            ),
            ("312", "aarch64"): (
                "53/04/f65ccfaa5a833f2e570c4a140f03c8f95da416da9fe8ed08401f81f8242a",
                "ce89a1025a5317ebe9c520876c48032b5247ac574865486648b1a004f6009875",
            ),
            ("312", "x86_64"): (
                "4c/99/be75c788a492f8d77b7a1cdc1b19939ae7be0007f2028691ad371a1a33ee",
                "bc9619ed7d4ffa117b5155d84b44794366bb6635178d78ed5e13a6024845c757",
            ),
            ("313", "aarch64"): (
                "31/e0/38095c8e140ecfbe847519ac07bcba94301b8fbb76b2870015e33e07f179",
                "364992ba1089a2b327391cfcb68fd0bd0ce9090cf293baef861a0ba6847abfee",
            ),
            ("313", "x86_64"): (
                "70/21/61dd2876bbaa69cf77d7b5c620e52e8b25faae7096f4d2e4a812b52095d7",
                "644f54ce99b3b61844bc9a3fe80e0aecb1ea4084b1fffc4396d1569db6111679",
            ),
            ("314", "aarch64"): (
                "9d/08/cc510a7952aba69d5cdca17f3ef61c95713d86143f2ee9aa3e097d38f50b",
                "1052b8050ef5696e2c0d8c836949c72f3dd11f0690466acbea739613e8e2750b",
            ),
            ("314", "x86_64"): (
                "ef/a5/6f8099d9a5a02ddff89e5c85875df3465054845b0920fb0703fbdf8dd2ec",
                "19c5e485e59613b8878d1670bcaa7a010f53c5a4da5ae8e08863e5e529ca6182",
            ),
        },
    )
