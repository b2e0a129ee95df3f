"""Polaris at ALCF: four A100 a node, PBS. From public documentation, not run there yet; see README.md."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "reframe/plugins")]
import pals  # noqa: F401, registers the launcher
from site_common import KEPT_BY, account, modes, modules_system

A100_NODE = {
    "scheduler": "pbs",
    "extras": {"isthmus": KEPT_BY},
    "launcher": "pals",
    "environs": ["gnu-cuda"],
    "features": ["gpu", "cuda", "peer", "numa", "managed", "async"],
    "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 4}],
    "resources": [{"name": "gpu", "options": []}],  # they come with the node
}


def access(queue: str) -> list[str]:
    """Words without a dash go into -l select=…"""
    return ["system=polaris", "-l place=scatter", "-l filesystems=home:eagle", f"-q {queue}", account("-A ")]


site_configuration = {
    "systems": [
        {
            "name": "polaris",
            "descr": "Polaris, ALCF",
            "hostnames": [r"^polaris-login-\d\d"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    **A100_NODE,
                    "name": "debug",
                    "descr": "four A100 of 40 GB for an hour, two nodes at most",
                    "access": access("debug"),
                    "time_limit": "1h",
                    "max_jobs": 1,
                },
                {
                    **A100_NODE,
                    "name": "preemptable",
                    "descr": "the same for up to three days; a job may be killed for one of the queue demand",
                    "access": access("preemptable"),
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu-cuda",
            "target_systems": ["polaris"],
            "modules": [
                "libfabric",
                "PrgEnv-gnu",
                "craype-accel-nvidia80",
                {"name": "cudatoolkit-standalone", "path": "/soft/modulefiles"},
                {"name": "spack-pe-base", "path": "/soft/modulefiles"},
                "cmake",  # of spack-pe-base
            ],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/polaris"},
        }
    ],
    "modes": modes(),
}
