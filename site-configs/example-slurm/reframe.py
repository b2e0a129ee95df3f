"""A cluster with Slurm and no accounting, to copy from; tests/slurm runs a session with it on a throwaway Slurm.

Without accounting ReFrame's `slurm` scheduler gives up: use `squeue`. It loses exit codes; the checks note them.
"""

site_configuration = {
    "systems": [
        {
            "name": "example-slurm",
            "descr": "one partition, jobs through sbatch and srun",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "main",
                    "descr": "compute nodes without GPU",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "access": ["--partition=main"],
                    "env_vars": [["SLURM_MPI_TYPE", "pmix"]],  # how srun starts ranks of Open MPI
                    "environs": ["builtin"],
                    "max_jobs": 1,
                    "resources": [{"name": "gpu", "options": ["--gpus-per-node={num_gpus_per_node}"]}],
                },
            ],
        }
    ],
    "environments": [{"name": "builtin", "target_systems": ["example-slurm"], "features": ["mpi"]}],
}
