"""Configuration of LUMI-G at CSC: nodes with four MI250X, which a program sees as eight GPUs. It was written from
public documentation and has not been run there yet; README.md states what is known."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from site_common import KEPT_BY, account, modes, modules_system

GPU_NODE = {
    "scheduler": "slurm",
    "extras": {"isthmus": KEPT_BY},
    "launcher": "srun",
    "env_vars": [
        ["SLURM_CPU_BIND", "none"],  # the program places its threads itself
        ["MPICH_GPU_SUPPORT_ENABLED", "1"],
    ],
    "modules": ["LUMI", "partition/G"],  # the software stack, and the part of it for these nodes
    "environs": ["gnu-rocm"],
    "features": ["gpu", "hip", "numa", "gpu_aware_mpi"],
    "devices": [{"type": "gpu", "arch": "gfx90a", "num_devices": 8}],  # Slurm and HIP count a die (GCD) as a GPU
    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
}

site_configuration = {
    "systems": [
        {
            "name": "lumi",
            "descr": "LUMI, CSC",
            "hostnames": [r"^(lumi-)?uan\d+", r"^ln\d+-nmn"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    **GPU_NODE,
                    "name": "standard-g",
                    "descr": "whole nodes with eight dies of MI250X",
                    "access": ["--partition=standard-g", account("--account=project_")],
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
                {
                    **GPU_NODE,
                    "name": "dev-g",
                    "descr": "the same for three hours at most, one running job a user",
                    # Nodes of this partition are shared unless requested exclusively.
                    "access": ["--partition=dev-g", "--exclusive", account("--account=project_")],
                    "time_limit": "1h",
                    "max_jobs": 1,
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu-rocm",
            "target_systems": ["lumi"],
            "modules": ["PrgEnv-gnu", "craype-accel-amd-gfx90a", "rocm", "buildtools"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/lumi"},
        }
    ],
    "modes": modes(every_node=True),
}
