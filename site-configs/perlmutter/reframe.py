"""Configuration of Perlmutter at NERSC: nodes with four A100. It was written from public documentation and has not been
run there yet; README.md states what is known."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from site_common import KEPT_BY, account, modes, modules_system

WHOLE_NODE = [["SLURM_CPU_BIND", "none"]]  # the program places its threads itself

site_configuration = {
    "systems": [
        {
            "name": "perlmutter",
            "descr": "Perlmutter, NERSC",
            "hostnames": [r"^login\d\d(\.chn\.perlmutter\.nersc\.gov)?$"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    "name": "gpu",
                    "descr": "four A100 of 40 GB, NVLink between all of them",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    # Projects for GPU nodes end in _g. Use --qos=debug for up to half an hour. For a reservation, add
                    # a line with --reservation=….
                    "access": ["--constraint=gpu&hbm40g", "--qos=regular", account("--account=")],
                    "env_vars": WHOLE_NODE,
                    "environs": ["gnu-cuda"],
                    "time_limit": "1h",
                    "extras": {"isthmus": KEPT_BY},
                    "max_jobs": 4,
                    "features": ["gpu", "cuda", "peer", "managed", "async"],
                    "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 4}],
                    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
                },
                {
                    "name": "gpu80",
                    "descr": "the 256 nodes with four A100 of 80 GB",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--constraint=gpu&hbm80g", "--qos=regular", account("--account=")],
                    "env_vars": WHOLE_NODE,
                    "environs": ["gnu-cuda"],
                    "time_limit": "1h",
                    "extras": {"isthmus": KEPT_BY},
                    "max_jobs": 4,
                    "features": ["gpu", "cuda", "peer", "managed", "async"],
                    "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 4}],
                    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
                },
                {
                    "name": "cpu",
                    "descr": "two EPYC 7763",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--constraint=cpu", "--qos=regular", account("--account=")],
                    "env_vars": WHOLE_NODE,
                    "environs": ["gnu"],
                    "time_limit": "1h",
                    "extras": {"isthmus": KEPT_BY},
                    "max_jobs": 4,
                    "features": ["numa"],
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu-cuda",
            "target_systems": ["perlmutter"],
            "modules": ["gpu", "PrgEnv-gnu", "craype-accel-nvidia80", "cudatoolkit", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/perlmutter"},
        },
        {
            "name": "gnu",
            "target_systems": ["perlmutter"],
            "modules": ["cpu", "PrgEnv-gnu", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/perlmutter"},
        },
    ],
    "modes": modes(every_node=True),
}
