# SPDX-License-Identifier: Apache-2.0

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Isthmus(CMakePackage, CudaPackage, ROCmPackage):
    """Measures how data moves between CPU and GPU memory: every number verified, one record schema.

    Without +cuda and +rocm the kernels run on an emulator that looks for bugs; its device times mean nothing.
    """

    # The package lives in the source tree it builds: its `main` is this clone's.
    git = str(pathlib.Path(__file__).resolve().parents[5])

    license("Apache-2.0")
    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.24:", type="build")
    depends_on("pkgconfig", type="build")
    generator("ninja")

    variant("mpi", default=False, description="Measure with several processes, started by mpirun or srun")

    depends_on("boost@1.74: +context")
    depends_on("cli11@2:")
    depends_on("fmt@8:")
    depends_on("hwloc@2:")
    depends_on("nlohmann-json@3.10:")
    depends_on("numactl")
    depends_on("googletest@1.11:", type="test")
    depends_on("mpi", when="+mpi")

    depends_on("cuda@12:", when="+cuda")
    depends_on("hip@5.2:", when="+rocm")

    conflicts("+cuda", when="+rocm", msg="one backend per build: choose +cuda or +rocm")
    conflicts("cuda_arch=none", when="+cuda", msg="say for which GPUs: cuda_arch=90 is Hopper, 80 Ampere")
    conflicts("amdgpu_target=none", when="+rocm", msg="say for which GPUs: amdgpu_target=gfx942 is MI300")
    conflicts("%gcc@:10", msg="C++20 is needed: GCC 11 or newer")
    conflicts("%clang@:14", msg="C++20 is needed: Clang 15 or newer")
    conflicts("platform=windows", msg="Linux only: NUMA and memory policies are asked of its kernel")
    conflicts("platform=darwin", msg="Linux only: NUMA and memory policies are asked of its kernel")

    def cmake_args(self):
        args = [
            self.define("ISTHMUS_TESTS", self.run_tests),
            self.define_from_variant("ISTHMUS_MPI", "mpi"),
            self.define("ISTHMUS_WERROR", False),  # warnings of a compiler that we have not seen stop nobody
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("ISTHMUS_BACKEND", "cuda"))
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        elif self.spec.satisfies("+rocm"):
            args.append(self.define("ISTHMUS_BACKEND", "hip"))
            args.append(self.define("CMAKE_HIP_ARCHITECTURES", self.spec.variants["amdgpu_target"].value))
        else:
            args.append(self.define("ISTHMUS_BACKEND", "host"))
        return args

    def test_list(self):
        """the catalogue is printed"""
        bench = which(self.prefix.bin.join("isthmus-bench"), required=True)
        assert "microbench/saxpy" in bench("list", output=str.split, error=str.split)

    def test_smoke(self):
        """one verified case leaves a record"""
        bench = which(self.prefix.bin.join("isthmus-bench"), required=True)
        bench("run", "microbench/saxpy", "--size", "tiny", "--record", "record.jsonl")
        text = pathlib.Path("record.jsonl").read_text(encoding="utf-8")
        assert '"status":"pass"' in text.replace(" ", ""), "the case was not verified"
