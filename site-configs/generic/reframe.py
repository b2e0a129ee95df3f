"""Any machine, as it is: the local scheduler, and a GPU if scripts/detect-backend finds one.

Copy this folder to site-configs/<site>/ and state what the site has; README.md beside this file says how.
"""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def detected_backend():
    """cuda, hip or host; stderr, which says why, is left to the terminal."""
    result = subprocess.run([ROOT / "scripts/detect-backend"], stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.strip()


backend = detected_backend()
has_gpu = backend != "host"

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
                    "extras": {"isthmus": {"require_reference": False}},
                }
            ],
        }
    ],
    "environments": [{"name": "builtin", "target_systems": ["this-machine"]}],
}
