// cuBLAS or hipBLAS, loaded at run time and without their headers: reference figures need them, nothing else does.

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu/check.hpp"

namespace isthmus::device {

namespace {

#if defined(ISTHMUS_BACKEND_CUDA)
constexpr const char* library_name = "cuBLAS";
constexpr std::array library_files{"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
constexpr std::array home_variables{"CUDA_HOME", "CUDA_PATH"};
constexpr const char* usual_home = "/usr/local/cuda";
constexpr const char* folders[] = {"lib64", "lib"};
struct Names {
  const char* create = "cublasCreate_v2";
  const char* destroy = "cublasDestroy_v2";
  const char* set_stream = "cublasSetStream_v2";
  const char* sgemm = "cublasSgemm_v2";
  const char* sgemv = "cublasSgemv_v2";
};
constexpr int as_is = 0, transposed = 1;  // cublasOperation_t
#else
constexpr const char* library_name = "hipBLAS";
constexpr std::array library_files{"libhipblas.so.3", "libhipblas.so.2", "libhipblas.so.1", "libhipblas.so.0",
                                   "libhipblas.so"};
constexpr std::array home_variables{"ROCM_PATH", "HIP_PATH"};
constexpr const char* usual_home = "/opt/rocm";
constexpr const char* folders[] = {"lib", "lib64"};
struct Names {
  const char* create = "hipblasCreate";
  const char* destroy = "hipblasDestroy";
  const char* set_stream = "hipblasSetStream";
  const char* sgemm = "hipblasSgemm";
  const char* sgemv = "hipblasSgemv";
};
constexpr int as_is = 111, transposed = 112;  // hipblasOperation_t
#endif
constexpr Names names{};

using Handle = void*;
using Create = int (*)(Handle*);
using Destroy = int (*)(Handle);
using SetStream = int (*)(Handle, void*);
using Sgemm = int (*)(Handle, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                      float*, int);
using Sgemv = int (*)(Handle, int, int, int, const float*, const float*, int, const float*, int, const float*, float*,
                      int);

void check_blas(const char* call, int status) {
  if (status == 0) return;
  // The numbers that say something beyond "failed": 3 is a lack of memory in both libraries.
  const bool out_of_memory = status == 3 && std::string_view(library_name) == "cuBLAS";
  throw Error(out_of_memory ? ErrorKind::out_of_memory : ErrorKind::failure, "blas",
              fmt::format("{} of {} returned status {}", call, library_name, status),
              out_of_memory ? "free device memory" : "look the status up in the library's reference");
}

int narrow(const char* what, std::int64_t value) {
  if (value < 1 || value > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::unsupported, "blas",
                fmt::format("{} {} does not fit the library's 32-bit numbers", what, value), "use a smaller size");
  }
  return static_cast<int>(value);
}

}  // namespace

struct Blas::Library {
  void* file = nullptr;
  std::string path;
  Handle handle = nullptr;
  Create create = nullptr;
  Destroy destroy = nullptr;
  SetStream set_stream = nullptr;
  Sgemm sgemm = nullptr;
  Sgemv sgemv = nullptr;

  template <class Function>
  void look_up(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(file, name));
    if (function == nullptr) {
      throw Error(ErrorKind::unsupported, "blas_create", fmt::format("{} has no {}", path, name),
                  fmt::format("install another version of {}", library_name));
    }
  }

  ~Library() {
    if (handle != nullptr) static_cast<void>(destroy(handle));
    if (file != nullptr) dlclose(file);
  }
};

namespace {

/// Bare names first, for the loader's path; then the folders of an installation.
std::vector<std::string> candidates() {
  std::vector<std::string> paths(library_files.begin(), library_files.end());
  std::vector<std::string> homes;
  for (const char* variable : home_variables) {
    if (const char* home = std::getenv(variable)) homes.emplace_back(home);
  }
  homes.emplace_back(usual_home);
  for (const auto& home : homes) {
    for (const char* folder : folders) {
      for (const char* file : library_files) paths.push_back(home + "/" + folder + "/" + file);
    }
  }
  return paths;
}

}  // namespace

Blas::Blas() : library_(nullptr) {
  injection_point("blas_create");
  auto library = std::make_unique<Library>();
  for (const auto& path : candidates()) {
    library->file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library->file != nullptr) {
      library->path = path;
      break;
    }
  }
  if (library->file == nullptr) {
    throw Error(ErrorKind::unsupported, "blas_create",
                fmt::format("{} could not be loaded (tried {} in the loader's path and under {})", library_name,
                            fmt::join(library_files, ", "), usual_home),
                fmt::format("install {} or set {}", library_name, home_variables.front()));
  }
  library->look_up(library->create, names.create);
  library->look_up(library->destroy, names.destroy);
  library->look_up(library->set_stream, names.set_stream);
  library->look_up(library->sgemm, names.sgemm);
  library->look_up(library->sgemv, names.sgemv);
  check_blas(names.create, library->create(&library->handle));
#if defined(ISTHMUS_BACKEND_CUDA)
  // The default mode computes in fp32; TF32 and emulated fp32 have to be asked for, or to be set by the environment.
  using SetMathMode = int (*)(Handle, int);
  SetMathMode set_math_mode = nullptr;
  library->look_up(set_math_mode, "cublasSetMathMode");
  constexpr int default_math = 0;
  check_blas("cublasSetMathMode", set_math_mode(library->handle, default_math));
#endif
  library_ = library.release();
}

Blas::~Blas() {
  delete library_;
}

std::string Blas::version() const {
#if defined(ISTHMUS_BACKEND_CUDA)
  using GetVersion = int (*)(Handle, int*);
  if (auto get = reinterpret_cast<GetVersion>(dlsym(library_->file, "cublasGetVersion_v2"))) {
    int version = 0;
    if (get(library_->handle, &version) == 0) {
      return fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
    }
  }
#endif
  return fmt::format("{} ({})", library_name, library_->path);
}

// The libraries are column-major. A row-major matrix is the transpose of the column-major one that lies in the same
// memory, and C = A·B is Cᵀ = Bᵀ·Aᵀ: the operands change places, nothing is transposed.
void Blas::sgemm(Stream& stream, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                 const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  const float one = 1, zero = 0;
  check_blas("set_stream", library_->set_stream(library_->handle, stream.native()));
  check_blas("sgemm",
             library_->sgemm(library_->handle, as_is, as_is, narrow("n", n), narrow("m", m), narrow("k", k), &one, b,
                             narrow("ldb", ldb), a, narrow("lda", lda), &zero, c, narrow("ldc", ldc)));
}

void Blas::sgemv(Stream& stream, std::int64_t rows, std::int64_t cols, const float* a, std::int64_t lda, const float* x,
                 float* y) {
  const float one = 1, zero = 0;
  check_blas("set_stream", library_->set_stream(library_->handle, stream.native()));
  check_blas("sgemv", library_->sgemv(library_->handle, transposed, narrow("columns", cols), narrow("rows", rows), &one,
                                      a, narrow("lda", lda), x, 1, &zero, y, 1));
}

}  // namespace isthmus::device
