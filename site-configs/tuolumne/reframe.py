"""Tuolumne at LLNL: four MI300A a node, Flux. From public documentation, not run there yet; README.md says what is
known."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2] / "reframe/plugins")]
import flux_batch  # noqa: F401, registers the scheduler and the launcher
from site_common import KEPT_BY, account, modes, modules_system

APU_NODE = {
    "scheduler": "flux-batch",
    "extras": {"isthmus": KEPT_BY},
    "launcher": "flux-run",
    "env_vars": [["HSA_XNACK", "1"]],  # the GPU reaches memory that has no page yet
    "environs": ["gnu-rocm"],
    "features": ["gpu", "hip", "numa", "unified", "xnack"],
    "devices": [{"type": "gpu", "arch": "gfx942", "num_devices": 4}],
    "resources": [{"name": "gpu", "options": []}],  # they come with the node
}

site_configuration = {
    "systems": [
        {
            "name": "tuolumne",
            "descr": "Tuolumne, LLNL, of El Capitan's kind",
            "hostnames": [r"^tuolumne\d+"],
            "modules_system": modules_system(),
            "partitions": [
                {
                    **APU_NODE,
                    "name": "pbatch",
                    "descr": "whole nodes with four MI300A",
                    # The bank pays; --setattr=thp=always, and other attributes: one line each.
                    "access": ["--queue=pbatch", "--exclusive", account("--bank=")],
                    "time_limit": "1h",
                    "max_jobs": 4,
                },
                {
                    **APU_NODE,
                    "name": "pdebug",
                    "descr": "the same, for short jobs",
                    "access": ["--queue=pdebug", "--exclusive", account("--bank=")],
                    "time_limit": "1h",
                    "max_jobs": 1,
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "gnu-rocm",
            "target_systems": ["tuolumne"],
            "modules": ["PrgEnv-gnu", "craype-accel-amd-gfx942", "rocm", "cmake"],
            "features": ["mpi"],
            "extras": {"spack_environment": "environments/tuolumne"},
        }
    ],
    "modes": modes(),
}
