"""Vista at TACC: one GH200 a node, and nodes of two Grace. From public documentation, not run there yet; README.md says
what is known."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from site_common import KEPT_BY, account, modes, modules_system

GRACE_NODE = {
    "scheduler": "slurm",
    "extras": {"isthmus": KEPT_BY},
    "sched_options": {"use_nodes_option": True},  # sbatch wants --nodes here
    "launcher": "ibrun",
}
GH200_NODE = {
    **GRACE_NODE,
    "environs": ["gnu-cuda"],
    "features": ["gpu", "cuda", "ats", "managed", "async", "bulk"],
    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 1}],
    "resources": [{"name": "gpu", "options": []}],  # it comes with the node; --gres is refused
}

site_configuration = {
    "systems": [
        {
            "name": "vista",
            "descr": "Vista, TACC",
            "hostnames": [r"^(login\d+|c\d+-\d+)\.vista"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    **GH200_NODE,
                    "name": "gh",
                    "descr": "one GH200",
                    "access": ["--partition=gh", account("--account=")],
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
                {
                    **GH200_NODE,
                    "name": "gh-dev",
                    "descr": "the same for two hours, one job a user",
                    "access": ["--partition=gh-dev", account("--account=")],
                    "time_limit": "1h",
                    "max_jobs": 1,
                },
                {
                    **GRACE_NODE,
                    "name": "gg",
                    "descr": "two Grace CPUs",
                    "access": ["--partition=gg", account("--account=")],
                    "environs": ["gnu"],
                    "features": ["numa"],
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu-cuda",
            "target_systems": ["vista"],
            "modules": ["gcc", "cuda", "openmpi", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/vista"},
        },
        {
            "name": "gnu",
            "target_systems": ["vista"],
            "modules": ["gcc", "openmpi", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/vista"},
        },
    ],
    "modes": modes(),  # none on every node: jobs that name their nodes are deleted there
}
