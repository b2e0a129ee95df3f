"""Configuration for any machine: the local scheduler, and a GPU if scripts/detect-backend finds one.

Copy this folder to site-configs/<site>/ and state what the site has; README.md next to this file describes how.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

sys.path.append(str(ROOT / "site-configs"))
from site_common import KEPT_BY, detected_backend, modes

from isthmus import tools
from isthmus.site import hardware


def visible_gpus():
    """Returns the number of NVIDIA GPUs that a process sees here, which is 0 without nvidia-smi. Raises OSError if
    nvidia-smi fails, for example because of a lost GPU."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len(list(filter(None, chosen.split(","))))
    answer = tools.ask("nvidia-smi", "-L")
    listed, why = hardware.listed_by_nvidia_smi(answer)
    if why and answer.is_here:
        raise OSError(
            f"how many GPUs there are is not known: {why}; repair the driver, name those to be measured in "
            "CUDA_VISIBLE_DEVICES, or measure without them by ISTHMUS_BACKEND=host"
        )
    return len(listed)


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
                    "max_jobs": 1,  # simultaneous measurements perturb each other
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
