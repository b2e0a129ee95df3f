"""Configuration of a cluster with Slurm: a template to copy to site-configs/<site>/. tests/slurm also uses it.

A site engineer decides on every line; lines that are commented out are for other sites. docs/adding-a-site.md describes
the order of work, and `isthmus site check <site>` finds what was forgotten.
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "reframe"))
from isthmus_reframe.gates import session_gate  # noqa: F401, a session that finds no check fails

site_configuration = {
    "systems": [
        {
            "name": "example-slurm",  # same name as in the records and of the folder
            "descr": "one partition, jobs through sbatch and srun",
            "hostnames": [".*"],  # yours: [r"login\d+\.cluster"], so that no other machine uses this file
            "modules_system": "nomod",  # yours: "lmod", "tmod4", …
            "partitions": [
                {
                    "name": "main",
                    "descr": "compute nodes without GPU",
                    # Use "slurm" if sacct works; without accounting, "slurm" gives up. "squeue" loses exit codes, but
                    # the checks note them.
                    "scheduler": "squeue",
                    "launcher": "srun",  # or "mpirun", "mpiexec", "ibrun"; "local" would run on the login node
                    # One string per option of sbatch: who pays, which nodes, how they are shared; one line each.
                    "access": [
                        "--partition=main",
                        # "--account=PROJECT",
                        # "--qos=debug",
                        # "--reservation=NAME",
                        "--exclusive",  # other work on the node or the GPU invalidates samples, and checks would fail
                    ],
                    "env_vars": [
                        ["SLURM_MPI_TYPE", "pmix"],  # how srun starts ranks of Open MPI
                        # ["SLURM_CPU_BIND", "none"],  # otherwise srun may bind a task to one core of a whole node
                    ],
                    "environs": ["builtin"],
                    "max_jobs": 1,  # more only if each job has its own node
                    "time_limit": "30m",  # limit of jobs that do not set one
                    # Capabilities of the nodes; a check that finds fewer fails. site-configs/generic/README.md lists
                    # the words.
                    # "features": ["gpu", "cuda", "peer", "managed", "numa"],
                    # "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
                    # Request for GPUs; the options are [] if GPUs are part of the node.
                    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
                    # People whom a failed check names. With "device_memory": "80GiB", a case that fits into this memory
                    # fails if it is skipped for lack of memory.
                    "extras": {"isthmus": {"maintainers": ["you"]}},
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "builtin",
            "target_systems": ["example-slurm"],
            "features": ["mpi"],  # MPI's compiler wrapper is available, and the launcher above starts ranks
            # "modules": ["gcc", "cuda", "openmpi", "cmake"],
            # "extras": {"spack_environment": "environments/<site>"},
        }
    ],
    # Named selections: reframe --mode=nightly -r
    "modes": [
        {"name": "smoke", "options": ["--tag=smoke"]},
        {"name": "nightly", "options": ["--tag=default", "--performance-report"]},
        {"name": "every-node", "options": ["--tag=smoke", "--distribute=idle"]},
    ],
}
