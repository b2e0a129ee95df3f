"""Any machine, as it is: the local scheduler, and a GPU if scripts/detect-backend finds one.

Copy this folder to site-configs/<site>/ and state what the site has; README.md beside this file says how.
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
    """How many NVIDIA GPUs a process sees here; 0 where there is no nvidia-smi. A lost one may not be left out."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return len(list(filter(None, chosen.split(","))))
    answer = tools.ask("nvidia-smi", "-L")
    listed, why = hardware.listed_by_nvidia_smi(answer)
    if why and answer.is_here:
        raise OSError(
            f"how many GPUs there are is not known: {why}; mend the driver, name those to be measured in "
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
