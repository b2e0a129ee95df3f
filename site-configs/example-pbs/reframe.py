"""Configuration of a cluster with PBS and the mpiexec of HPE's PALS. Its nodes have four NVIDIA GPUs. example-slurm
explains every line."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path += [str(HERE.parents[1]), str(HERE.parents[2] / "reframe")]
from site_common import KEPT_BY, account, modes, modules_system

from isthmus_reframe import pals  # noqa: F401, registers the launcher

site_configuration = {
    "systems": [
        {
            "name": "example-pbs",
            "descr": "one queue, jobs through qsub and mpiexec",
            "hostnames": [r"^example-pbs-login\d+"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    "name": "main",
                    "descr": "whole nodes with four A100",
                    "scheduler": "pbs",
                    "launcher": "pals",
                    # Words without a dash become part of -l select=…
                    "access": ["system=example", "-l place=scatter", "-l filesystems=home", "-q main", account("-A ")],
                    "environs": ["gnu-cuda"],
                    "features": ["gpu", "cuda", "peer", "numa", "managed", "async"],
                    "devices": [{"type": "gpu", "arch": "sm_80", "num_devices": 4}],
                    "resources": [{"name": "gpu", "options": []}],  # GPUs are part of the node, so none are requested
                    "time_limit": "1h",
                    "max_jobs": 4,
                    "extras": {"isthmus": KEPT_BY},
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu-cuda",
            "target_systems": ["example-pbs"],
            "modules": ["PrgEnv-gnu", "craype-accel-nvidia80", {"name": "cuda", "path": "/soft/modulefiles"}, "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/generic"},
        }
    ],
    "modes": modes(),
}
