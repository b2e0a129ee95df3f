# SPDX-License-Identifier: Apache-2.0

import json
import os
import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *

# Groups of workloads that a build may leave out, and the checks that need them.
WORKLOADS = {
    "apps": ("whole programs: apps/*", ["applications.py"]),
    "driver": ("the driver's own costs: driver/*", ["driver_costs.py"]),
    "interjob": ("batches of jobs: interjob/*", ["interjob.py"]),
    "memory": (
        "the memory system: latency/*, stream/*, atomics/*, alloc/*, fault/*, faults/*, accounting/*",
        ["memory.py", "faults.py"],
    ),
    "microbench": ("seven kernels in every placement and staging: microbench/*", ["transfer_modes.py"]),
    "paging": ("memory of the host, paged by the GPU: paging/*", ["paging.py"]),
    "reference": ("what the vendor's own libraries reach: reference/*", ["reference.py"]),
    "transfer": (
        "from each memory to each other: transfer/*, with +mpi also mpi/*",
        ["transfer.py", "mpi_transfer.py"],
    ),
}


# MPIs that accept a GPU's memory where they have the variant of its toolkit.
GPU_AWARE = {
    toolkit: [f"^[virtuals=mpi] {provider} +{toolkit}" for provider in providers.split()]
    for toolkit, providers in {
        "cuda": "openmpi mpich mvapich mvapich2 mvapich-plus cray-mpich",
        "rocm": "openmpi mpich mvapich-plus cray-mpich",
    }.items()
}


def clone() -> pathlib.Path:
    """Returns Isthmus' source tree: $ISTHMUS_GIT, else the one that contains this file.

    A copy of the package repository is in none, nor is the copy that Spack keeps next to what it installed. The path
    is then a sentence, which git shows when it cannot clone.
    """
    named = os.environ.get("ISTHMUS_GIT")
    if named:
        return pathlib.Path(named).absolute()
    for folder in pathlib.Path(__file__).resolve().parents:
        if (folder / ".git").exists() and (folder / "spack/spack_repo/isthmus/repo.yaml").is_file():
            return folder
    return pathlib.Path("/set ISTHMUS_GIT to a clone of Isthmus: this package repository is a copy")


class Isthmus(CMakePackage, CudaPackage, ROCmPackage):
    """Measures how data moves between CPU and GPU memory: every number verified, one record schema.

    Without +cuda and +rocm the kernels run on an emulator that looks for bugs; its device times mean nothing.
    """

    # The package is part of the source tree it builds: its `main` is this clone's, and the default version. A release
    # will be a tag that this recipe builds; tests/python/test_spack.py compares these lines with the tags, and with
    # what each version has. None has been released yet.
    git = str(clone())
    homepage = f"file://{git}/README.md"

    maintainers("isthmus")
    license("Apache-2.0")
    version("main", branch="main", preferred=True)

    variant("mpi", default=False, description="Measure with several processes, started by mpirun or srun")
    for toolkit in GPU_AWARE:
        variant(
            "gpu_aware_mpi",
            default=True,
            sticky=True,  # else Spack turns it off where that suits an installed MPI
            when=f"+mpi +{toolkit}",
            description="An MPI that takes memory of the GPU",
        )
    variant("tests", default=False, description="Build the C++ tests; those of the device layer are installed")
    variant("checks", default=False, description="ReFrame, the checks and the site configurations in share/isthmus")
    variant("analysis", default=False, description="The command isthmus: from records to answers")
    for group, (what, _) in WORKLOADS.items():
        variant(group, default=True, description=f"Workloads: {what}")

    generator("ninja")
    with default_args(type="build"):
        depends_on("c")
        depends_on("cxx")
        depends_on("cmake@3.24:")
        depends_on("pkgconfig")
    depends_on("boost@1.74: +context", when="~cuda~rocm")  # the emulator's fibers
    depends_on("cli11@2:")
    depends_on("fmt@8:")
    depends_on("hwloc@2:")
    depends_on("nlohmann-json@3.10:")
    depends_on("numactl")
    depends_on("openssl@1.1:")
    depends_on("zlib-api")
    depends_on("googletest@1.11:", type="test")
    depends_on("googletest@1.11:", type=("build", "link"), when="+tests")
    depends_on("mpi", when="+mpi")
    for toolkit, providers in GPU_AWARE.items():
        requires(
            *providers,
            policy="any_of",
            when=f"+mpi +{toolkit} +gpu_aware_mpi",
            msg=f"+{toolkit} +mpi sends from GPU memory: use an MPI with +{toolkit} (stated in its external), or "
            "~gpu_aware_mpi",
        )
    depends_on("cuda@12:", when="+cuda")
    depends_on("hip@5.2:", when="+rocm")

    # Versions are those of pyproject.toml.
    with default_args(type="run"):
        for variant_of_python in ("+checks", "+analysis"):
            with when(variant_of_python):
                depends_on("python@3.10:")
                depends_on("py-jsonschema@4.18:")
                depends_on("py-pyyaml@6:")
        with when("+checks"):
            depends_on("py-reframe-hpc@4.10")
        with when("+analysis"):
            depends_on("py-duckdb@1.3:")
            depends_on("py-jinja2@3:")
            depends_on("py-matplotlib@3.10:")
            depends_on("py-msgspec@0.18:")
            depends_on("py-numpy@1.24:")
            depends_on("py-plotly@5:")
            depends_on("py-scipy@1.10:")
            depends_on("py-tomli", when="^python@:3.10")
    # Tests of the build start the program from Python.
    depends_on("python@3.10:", type="test")

    conflicts("+cuda", when="+rocm", msg="one backend per build: choose +cuda or +rocm")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPUs: cuda_arch=90 is Hopper, 80 Ampere")
    conflicts("amdgpu_target=none", when="+rocm", msg="say for which GPUs: amdgpu_target=gfx942 is MI300")
    conflicts(
        "~microbench", when="+interjob", msg="batches of jobs are batches of its kernels: +interjob needs +microbench"
    )
    for group in WORKLOADS:
        conflicts(f"~{group}", when="+tests", msg=f"the tests need all workloads: +tests needs +{group}")
    conflicts(
        "~apps~driver~interjob~memory~microbench~paging~reference~transfer",
        msg="nothing is left to measure: choose a group of workloads",
    )
    conflicts("%gcc@:10", msg="C++20 is needed: GCC 11 or newer")
    conflicts("%clang@:14", msg="C++20 is needed: Clang 15 or newer")
    conflicts("platform=windows", msg="Linux only: the program reads NUMA and memory policies from its kernel")
    conflicts("platform=darwin", msg="Linux only: the program reads NUMA and memory policies from its kernel")

    def cmake_args(self):
        args = [
            self.define("ISTHMUS_TESTS", self.run_tests or self.spec.satisfies("+tests")),
            self.define_from_variant("ISTHMUS_MPI", "mpi"),
            self.define("ISTHMUS_WERROR", False),  # warnings of compilers that we have not tried do not stop the build
            self.define("ISTHMUS_CCACHE", False),  # Spack's own setting, config:ccache, decides
            self.define("ISTHMUS_PACKAGE", f"spack {self.spec.name}@{self.spec.version}/{self.spec.dag_hash()}"),
        ]
        args += [self.define_from_variant(f"ISTHMUS_WORKLOADS_{group.upper()}", group) for group in WORKLOADS]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("ISTHMUS_BACKEND", "cuda"))
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        elif self.spec.satisfies("+rocm"):
            clang = self.spec["llvm-amdgpu"].prefix.bin.join("amdclang++")
            args.append(self.define("ISTHMUS_BACKEND", "hip"))
            args.append(self.define("ISTHMUS_ROCM_CLANG", clang))
            args.append(self.define("CMAKE_HIP_COMPILER", clang))
            args.append(self.define("CMAKE_HIP_ARCHITECTURES", self.spec.variants["amdgpu_target"].value))
        else:
            args.append(self.define("ISTHMUS_BACKEND", "host"))
        return args

    # --- the Python side: files, in the layout of the source tree, so that each finds the others ---------

    @property
    def share(self):
        return self.prefix.share.isthmus

    @run_after("install")
    def install_python_side(self):
        if self.spec.satisfies("~checks~analysis"):
            return
        source = self.stage.source_path
        with working_dir(source):
            for folder in ("analysis/isthmus", "schema"):
                install_tree(folder, join_path(self.share, folder), ignore=lambda name: "__pycache__" in name)
        if self.spec.satisfies("+analysis"):
            python = self.spec["python"].command.path
            command = pathlib.Path(self.prefix.bin, "isthmus")
            command.write_text(
                f"#!{python}\n"
                f"import sys\n\n"
                f"sys.path.insert(0, {str(self.share.analysis)!r})\n"
                f"from isthmus.start import main\n\n"
                f"sys.exit(main())\n",
                encoding="utf-8",
            )
            command.chmod(0o755)
        if self.spec.satisfies("+checks"):
            with working_dir(source):
                for folder in ("reframe", "site-configs"):
                    install_tree(folder, join_path(self.share, folder), ignore=lambda name: "__pycache__" in name)
                mkdirp(self.share.scripts)
                for script in ("run-checks", "detect-backend"):
                    install(f"scripts/{script}", self.share.scripts)
            # A check of workloads that this program lacks would only be red.
            for group, (_, checks) in WORKLOADS.items():
                for check in checks if self.spec.satisfies(f"~{group}") else []:
                    pathlib.Path(self.share.reframe.checks, check).unlink()

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        if self.spec.satisfies("+checks"):
            env.set("ISTHMUS_BENCH", self.prefix.bin.join("isthmus-bench"))
            env.set("ISTHMUS_SHARE", self.share)

    # --- stand-alone tests: spack test run isthmus ------------------------------------------------------

    def _bench(self):
        return which(self.prefix.bin.join("isthmus-bench"), required=True)

    def _listed(self):
        listing = self._bench()("list", "--json", output=str.split, error=str)
        return [workload["name"] for workload in json.loads(listing)["workloads"]]

    def _needs_gpu(self):
        """Skips a test where a build for GPUs finds none to measure."""
        output = self._bench()("info", output=str.split, error=str.split, fail_on_error=False)
        if "the driver reports none" in output:
            raise SkipTest("this build measures GPUs and there is none here: run the test on a node that has one")

    def test_list(self):
        """the catalogue has the groups that were chosen, and no other"""
        of_group = {
            "memory": ("latency", "stream", "atomics", "alloc", "fault", "faults", "accounting"),
            "transfer": ("transfer", "mpi"),
        }
        families = {name.partition("/")[0] for name in self._listed()}
        for group in WORKLOADS:
            found = families.intersection(of_group.get(group, (group,)))
            assert bool(found) == self.spec.satisfies(f"+{group}"), f"{group}: {sorted(found) or 'nothing'} is listed"

    def test_smoke(self):
        """one verified case leaves a record"""
        self._needs_gpu()
        names = self._listed()
        chosen = "microbench/saxpy" if "microbench/saxpy" in names else names[0]
        self._bench()("run", chosen, "--size", "tiny", "--record", "record.jsonl")
        lines = pathlib.Path("record.jsonl").read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) for line in lines]
        statuses = [record["verify"]["status"] for record in records]
        assert statuses and set(statuses) <= {"pass", "not_applicable"}, f"{chosen} was not verified: {statuses}"
        built = {record["build"]["package"] for record in records}
        assert built == {f"spack {self.spec.name}@{self.spec.version}/{self.spec.dag_hash()}"}, f"built by {built}"

    def test_ranks(self):
        """two processes send each other a message"""
        if self.spec.satisfies("~mpi"):
            raise SkipTest("this build has no MPI: +mpi builds with it")
        if "mpi/host-host/send" not in self._listed():
            raise SkipTest("the messages are not in this build: +transfer has them")
        start = which("mpiexec", path=self.spec["mpi"].prefix.bin)
        if start is None:
            raise SkipTest("this MPI has no mpiexec; a session starts ranks as the site does")
        bench = self.prefix.bin.join("isthmus-bench")
        start("-n", "2", bench, "run", "mpi/host-host/send", "--size", "tiny", "--record", "ranks.jsonl")
        record = json.loads(pathlib.Path("ranks.jsonl").read_text(encoding="utf-8"))
        assert record["ranks"]["count"] == 2 and record["verify"]["status"] == "pass", record["verify"]

    def test_device_layer(self):
        """every call and every kernel name on this machine's device"""
        if self.spec.satisfies("~tests"):
            raise SkipTest("the tests are not installed: +tests installs them")
        self._needs_gpu()
        which(self.prefix.libexec.isthmus.join("test_device_gpu"), required=True)()

    def test_command(self):
        """the command isthmus reads a record"""
        if self.spec.satisfies("~analysis"):
            raise SkipTest("the command isthmus is not installed: +analysis installs it")
        self._needs_gpu()
        name = self._listed()[0]
        self._bench()("run", name, "--size", "tiny", "--record", "command.jsonl")
        isthmus = which(self.prefix.bin.join("isthmus"), required=True)
        assert name in isthmus("table", "command.jsonl", output=str.split, error=str.split)

    def test_checks(self):
        """ReFrame lists the checks"""
        if self.spec.satisfies("~checks"):
            raise SkipTest("the checks are not installed: +checks installs them")
        run_checks = which(self.share.scripts.join("run-checks"), required=True)
        with set_env(RFM_PREFIX=str(pathlib.Path.cwd())):
            output = run_checks("-l", output=str.split, error=str.split)
        assert "Found 0 check" not in output and "Found " in output, output
