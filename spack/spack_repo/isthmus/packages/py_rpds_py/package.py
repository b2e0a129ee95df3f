# SPDX-License-Identifier: Apache-2.0

from spack_repo.builtin.build_systems.python import PythonPackage
from spack_repo.isthmus.build_systems.wheels import wheels

from spack.package import *


class PyRpdsPy(PythonPackage):
    """Persistent data structures for Python, which py-jsonschema needs.

    The package uses its makers' wheels: Spack's own package builds Rust for it, and downloads crates while it
    builds.
    """

    homepage = "https://rpds.readthedocs.io/"
    license("MIT")

    wheels(
        "rpds_py",
        "0.30.0",
        "manylinux_2_17_{0}.manylinux2014_{0}",
        {
            ("310", "aarch64"): (
                "cd/7c/e4933565ef7f7a0818985d87c15d9d273f1a649afa6a52ea35ad011195ea",
                "389a2d49eded1896c3d48b0136ead37c48e221b391c052fba3f4055c367f60a6",
            ),
            ("310", "x86_64"): (
                "61/b5/707f6cf0066a6412aacc11d17920ea2e19e5b2f04081c64526eb35b5c6e7",
                "0c0e95f6819a19965ff420f65578bacb0b00f251fefe2c8b23347c37174271f3",
            ),
            ("311", "aarch64"): (
                "84/86/04dbba1b087227747d64d80c3b74df946b986c57af0a9f0c98726d4d7a3b",
                "422c3cb9856d80b09d30d2eb255d0754b23e090034e1deb4083f8004bd0761e4",
            ),
            ("311", "x86_64"): (
                "f8/1e/372195d326549bb51f0ba0f2ecb9874579906b97e08880e7a65c3bef1a99",
                "33f559f3104504506a44bb666b93a33f5d33133765b0c216a5bf2f1e1503af89",
            ),
            ("312", "aarch64"): (
                "65/1c/ae157e83a6357eceff62ba7e52113e3ec4834a84cfe07fa4b0757a7d105f",
                "ca28829ae5f5d569bb62a79512c842a03a12576375d5ece7d2cadf8abe96ec28",
            ),
            ("312", "x86_64"): (
                "60/1b/6f8f29f3f995c7ffdde46a626ddccd7c63aefc0efae881dc13b6e5d5bb16",
                "47f236970bccb2233267d89173d3ad2703cd36a0e2a6e92d0560d333871a3d23",
            ),
            ("313", "aarch64"): (
                "58/70/faed8186300e3b9bdd138d0273109784eea2396c68458ed580f885dfe7ad",
                "2771c6c15973347f50fece41fc447c054b7ac2ae0502388ce3b6738cd366e3d4",
            ),
            ("313", "x86_64"): (
                "b7/de/f7192e12b21b9e9a68a6d0f249b4af3fdcdff8418be0767a627564afa1f1",
                "9027da1ce107104c50c81383cae773ef5c24d296dd11c99e2629dbd7967a20c6",
            ),
            ("314", "aarch64"): (
                "bf/c4/76eb0e1e72d1a9c4703c69607cec123c29028bff28ce41588792417098ac",
                "f251c812357a3fed308d684a5079ddfb9d933860fc6de89f2b7ab00da481e65f",
            ),
            ("314", "x86_64"): (
                "ce/81/9a91c0111ce1758c92516a3e44776920b579d9a7c09b2b06b642d4de3f0f",
                "47e77dc9822d3ad616c3d5759ea5631a75e5809d5a28707744ef79d7a1bcfcad",
            ),
        },
    )
