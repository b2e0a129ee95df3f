"""A cluster with Slurm: the template to copy to site-configs/<site>/. tests/slurm runs sessions with it.

Every line is what a site engineer decides; what is commented out is what other sites need. docs/adding-a-site.md says
in which order, `isthmus site check <site>` what was forgotten.
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "reframe"))
from isthmus_reframe.gates import session_gate  # noqa: F401, a session that finds no check fails

site_configuration = {
    "systems": [
        {
            "name": "example-slurm",  # as in the records; the folder has the same name
            "descr": "one partition, jobs through sbatch and srun",
            "hostnames": [".*"],  # yours: [r"login\d+\.cluster"], so that no other machine takes this file for its own
            "modules_system": "nomod",  # yours: "lmod", "tmod4", …
            "partitions": [
                {
                    "name": "main",
                    "descr": "compute nodes without GPU",
                    # "slurm" where sacct answers. Without accounting it gives up: "squeue", which loses exit codes; the
                    # checks note them.
                    "scheduler": "squeue",
                    "launcher": "srun",  # or "mpirun", "mpiexec", "ibrun"; "local" would run on the login node
                    # One string per option of sbatch. Who pays, which nodes, how they are had: one line each.
                    "access": [
                        "--partition=main",
                        # "--account=PROJECT",
                        # "--qos=debug",
                        # "--reservation=NAME",
                        "--exclusive",  # other work on the node or the GPU spoils samples: without it a check is red
                    ],
                    "env_vars": [
                        ["SLURM_MPI_TYPE", "pmix"],  # how srun starts ranks of Open MPI
                        # ["SLURM_CPU_BIND", "none"],  # else srun may bind a task to one core of a whole node
                    ],
                    "environs": ["builtin"],
                    "max_jobs": 1,  # more at once only where each has a node of its own
                    "time_limit": "30m",  # of jobs that set none
                    # What the nodes have; a check that finds less is red. site-configs/generic/README.md has the words.
                    # "features": ["gpu", "cuda", "peer", "managed", "numa"],
                    # "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}],
                    # How GPUs are asked for; [] as options where they come with the node.
                    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
                    # Whom a red check names. With "device_memory": "80GiB" a case that fits, and is skipped for memory,
                    # is red.
                    "extras": {"isthmus": {"maintainers": ["you"]}},
                },
            ],
        }
    ],
    "environments": [
        {
            "name": "builtin",
            "target_systems": ["example-slurm"],
            "features": ["mpi"],  # a compiler wrapper of MPI is there, and the launcher above starts ranks
            # "modules": ["gcc", "cuda", "openmpi", "cmake"],
            # "extras": {"spack_environment": "environments/<site>"},
        }
    ],
    # Selections with a name: reframe --mode=nightly -r
    "modes": [
        {"name": "smoke", "options": ["--tag=smoke"]},
        {"name": "nightly", "options": ["--tag=default", "--performance-report"]},
        {"name": "every-node", "options": ["--tag=smoke", "--distribute=idle"]},
    ],
}
