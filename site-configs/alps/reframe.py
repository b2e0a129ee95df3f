"""Alps at CSCS, its cluster Daint: four GH200 a node. From public documentation, not run there yet; README.md says what
is known."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from site_common import KEPT_BY, account, modes

GH200_NODE = {
    "scheduler": "slurm",
    "extras": {"isthmus": KEPT_BY},
    "launcher": "srun",
    "env_vars": [["SLURM_CPU_BIND", "none"]],  # the program places its threads itself
    "environs": ["prgenv-gnu"],
    "features": ["gpu", "cuda", "peer", "numa", "ats", "managed", "async", "bulk"],
    "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
}

site_configuration = {
    "systems": [
        {
            "name": "alps",
            "descr": "Daint on Alps, CSCS",
            "hostnames": [r"^daint-ln\d+", "^alps-daint"],
            "modules_system": "nomod",  # software comes as uenv, below
            "partitions": [
                {
                    **GH200_NODE,
                    "name": "normal",
                    "descr": "whole nodes with four GH200",
                    # --constraint=nvidia_vboost_enabled, thp_always, …: one line each, other figures
                    "access": ["--partition=normal", account("--account=")],
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
                {
                    **GH200_NODE,
                    "name": "debug",
                    "descr": "the same for half an hour, two nodes at most",
                    "access": ["--partition=debug", account("--account=")],
                    "time_limit": "30m",
                    "max_jobs": 1,
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "prgenv-gnu",
            "target_systems": ["alps"],
            # The uenv of the shell that starts ReFrame goes with its jobs; README.md has the line.
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/alps"},
        }
    ],
    "modes": modes(every_node=True),
}
