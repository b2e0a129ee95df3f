"""Polaris at ALCF: four A100 a node, PBS. From public documentation, not run there yet; see README.md."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from site_common import account, modules_system

A100_NODE = {
    "scheduler": "pbs",
    "launcher": "mpiexec",
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
            "hostnames": [r"^polaris-login-\d+"],
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
            "modules": ["PrgEnv-gnu", "craype-accel-nvidia80", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/polaris"},
        }
    ],
}
