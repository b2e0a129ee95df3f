"""Configuration of a cluster with Flux. Its nodes have four AMD APUs, whose GPU and CPU share one memory. example-slurm
explains every line."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path += [str(HERE.parents[1]), str(HERE.parents[2] / "reframe")]
from site_common import KEPT_BY, account, modes, modules_system

from isthmus_reframe import flux_batch  # noqa: F401, registers the scheduler and the launcher

site_configuration = {
    "systems": [
        {
            "name": "example-flux",
            "descr": "one queue, jobs through flux batch and flux run",
            "hostnames": [r"^example-flux-login\d+"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    "name": "main",
                    "descr": "whole nodes with four MI300A",
                    "scheduler": "flux-batch",
                    "launcher": "flux-run",
                    # The bank pays for jobs. Other options, such as --setattr=thp=always, are one line each.
                    "access": ["--queue=main", "--exclusive", account("--bank=")],
                    "env_vars": [["HSA_XNACK", "1"]],  # lets the GPU access memory that has no page yet
                    "environs": ["gnu-rocm"],
                    "features": ["gpu", "hip", "numa", "unified", "xnack"],
                    "devices": [{"type": "gpu", "arch": "gfx942", "num_devices": 4}],
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
            "name": "gnu-rocm",
            "target_systems": ["example-flux"],
            "modules": ["PrgEnv-gnu", "craype-accel-amd-gfx942", "rocm", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/generic"},
        }
    ],
    "modes": modes(),
}
