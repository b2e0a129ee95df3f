"""MareNostrum 5 ACC at BSC: four H100 a node. From public documentation, not run there yet; see README.md."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from site_common import KEPT_BY, account, modes, modules_system

ACC_NODE = {
    "scheduler": "slurm",
    "extras": {"isthmus": KEPT_BY},
    "launcher": "srun",
    "env_vars": [["SLURM_CPU_BIND", "none"]],  # the program places its threads itself
    "environs": ["gcc-cuda"],
    "features": ["gpu", "cuda", "numa", "managed", "async", "bulk"],
    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
    "resources": [{"name": "gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
}

site_configuration = {
    "systems": [
        {
            "name": "marenostrum5",
            "descr": "MareNostrum 5, accelerated partition, BSC",
            "hostnames": [r"^alogin\d+"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    **ACC_NODE,
                    "name": "acc",
                    "descr": "whole nodes with four H100 of 64 GB",
                    # The QoS depends on who gave the project: acc_ehpc, acc_bsccs, acc_resa, …
                    "access": ["--partition=acc", "--qos=acc_ehpc", "--exclusive", account("--account=")],
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
                {
                    **ACC_NODE,
                    "name": "acc-debug",
                    "descr": "the same for two hours",
                    "access": ["--partition=acc", "--qos=acc_debug", "--exclusive", account("--account=")],
                    "time_limit": "1h",
                    "max_jobs": 1,
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gcc-cuda",
            "target_systems": ["marenostrum5"],
            "modules": ["gcc", "cuda", "openmpi", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/marenostrum5"},
        }
    ],
    "modes": modes(every_node=True),
}
