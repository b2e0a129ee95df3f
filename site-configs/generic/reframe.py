"""Any machine, as it is: the local scheduler, and a GPU if scripts/detect-backend finds one.

Copy this folder to site-configs/<site>/ and state what the site has; README.md beside this file says how.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.insert(0, str(ROOT / "site-configs"))
from site_common import KEPT_BY, detected_backend, modes


def visible_gpus():
    """How many NVIDIA GPUs a process sees here; 0 where nothing says so."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len(list(filter(None, chosen.split(","))))
    if not shutil.which("nvidia-smi"):
        return 0
    result = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=False)
    return sum(line.startswith("GPU ") for line in result.stdout.splitlines())


backend = detected_backend()
has_gpu = backend != "host"
gpus = visible_gpus() if backend == "cuda" else 0

site_configuration = {
    "systems": [
        {
            "name": "this-machine",
            "descr": "whatever machine this is",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "local",
                    "descr": f"local jobs, {backend}",
                    "scheduler": "local",
                    "launcher": "local",
                    "environs": ["builtin"],
                    "max_jobs": 1,  # measurements side by side perturb each other
                    "features": ["gpu", backend] if has_gpu else [],
                    "devices": [{"type": "gpu", "num_devices": gpus}] if gpus else [],
                    "extras": {"isthmus": {"require_reference": False, **KEPT_BY}},
                }
            ],
        }
    ],
    "environments": [{"name": "builtin", "target_systems": ["this-machine"]}],
    "modes": modes(),
}
