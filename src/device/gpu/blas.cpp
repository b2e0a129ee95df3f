// Wrapper of cuBLAS or hipBLAS, with our own definitions of the few functions and constants needed.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "device/api/library_arguments.hpp"
#include "device/gpu/check.hpp"
#include "device/gpu/vendor_library.hpp"

namespace isthmus::device {

namespace {

#if defined(ISTHMUS_BACKEND_CUDA)
constexpr const char* library_name = "cuBLAS";
constexpr auto library_files = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
#define ISTHMUS_BLAS(function) "cublas" #function "_v2"
constexpr int as_is = 0, transposed = 1;  // cublasOperation_t
#else
constexpr const char* library_name = "hipBLAS";
constexpr auto library_files = {"libhipblas.so.3", "libhipblas.so.2", "libhipblas.so.1", "libhipblas.so.0",
                                "libhipblas.so"};
#define ISTHMUS_BLAS(function) "hipblas" #function
constexpr int as_is = 111, transposed = 112;  // hipblasOperation_t
#endif

using Handle = void*;
using Create = int (*)(Handle*);
using Destroy = int (*)(Handle);
using SetStream = int (*)(Handle, void*);
using Sgemm = int (*)(Handle, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                      float*, int);
using Sgemv = int (*)(Handle, int, int, int, const float*, const float*, int, const float*, int, const float*, float*,
                      int);

void check_blas(const char* call, const char* function, int status) {
  if (status == 0) return;
  // Status codes that need a specific error: 3 is out of memory in cuBLAS.
  const bool out_of_memory = status == 3 && std::string_view(library_name) == "cuBLAS";
  throw Error(out_of_memory ? ErrorKind::out_of_memory : ErrorKind::failure, call,
              fmt::format("{} of {} returned status {}", function, library_name, status),
              out_of_memory ? "free device memory" : "look up the status in the library's reference");
}

}  // namespace

struct Blas::Library {
  gpu::VendorLibrary file{library_name, library_files, "blas_create"};
  Handle handle = nullptr;
  Create create = file.look_up<Create>(ISTHMUS_BLAS(Create));
  Destroy destroy = file.look_up<Destroy>(ISTHMUS_BLAS(Destroy));
  SetStream set_stream = file.look_up<SetStream>(ISTHMUS_BLAS(SetStream));
  Sgemm sgemm = file.look_up<Sgemm>(ISTHMUS_BLAS(Sgemm));
  Sgemv sgemv = file.look_up<Sgemv>(ISTHMUS_BLAS(Sgemv));

  ~Library() {
    if (handle != nullptr) static_cast<void>(destroy(handle));
  }
  void use(const char* call, Stream& stream) {
    check_blas(call, ISTHMUS_BLAS(SetStream), set_stream(handle, stream.native_handle()));
  }
};

Blas::Blas() : library_(nullptr) {
  injection_point("blas_create");
  auto library = std::make_unique<Library>();
  check_blas("blas_create", ISTHMUS_BLAS(Create), library->create(&library->handle));
#if defined(ISTHMUS_BACKEND_CUDA)
  // The default mode computes in fp32. TF32 and emulated fp32 are used only if requested here or in the environment.
  using SetMathMode = int (*)(Handle, int);
  const auto set_math_mode = library->file.look_up<SetMathMode>("cublasSetMathMode");
  constexpr int default_math = 0;
  check_blas("blas_create", "cublasSetMathMode", set_math_mode(library->handle, default_math));
#endif
  library_ = library.release();
}

Blas::~Blas() {
  delete library_;
}

std::string Blas::version() const {
#if defined(ISTHMUS_BACKEND_CUDA)
  using GetVersion = int (*)(Handle, int*);
  if (auto get = reinterpret_cast<GetVersion>(library_->file.find("cublasGetVersion_v2"))) {
    int version = 0;
    if (get(library_->handle, &version) == 0) {
      return fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
    }
  }
#endif
  return fmt::format("{} ({})", library_name, library_->file.path());
}

// The libraries are column-major. A row-major matrix is the transpose of the column-major matrix in the same memory,
// and C = A·B means Cᵀ = Bᵀ·Aᵀ, so swapping the operands replaces transposing them.
void Blas::sgemm(Stream& stream, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                 const float* b, std::int64_t ldb, float* c, std::int64_t ldc, float alpha, float beta) {
  constexpr const char* call = "blas_sgemm";
  injection_point(call);
  const int rows = library_extent(call, "m", m), columns = library_extent(call, "n", n),
            depth = library_extent(call, "k", k);
  const int pitch_a = library_pitch(call, "lda", lda, k), pitch_b = library_pitch(call, "ldb", ldb, n),
            pitch_c = library_pitch(call, "ldc", ldc, n);
  library_->use(call, stream);
  check_blas(call, ISTHMUS_BLAS(Sgemm),
             library_->sgemm(library_->handle, as_is, as_is, columns, rows, depth, &alpha, b, pitch_b, a, pitch_a,
                             &beta, c, pitch_c));
}

void Blas::sgemv(Stream& stream, std::int64_t rows, std::int64_t cols, const float* a, std::int64_t lda, const float* x,
                 float* y) {
  constexpr const char* call = "blas_sgemv";
  injection_point(call);
  const float one = 1, zero = 0;
  const int height = library_extent(call, "rows", rows), width = library_extent(call, "columns", cols),
            pitch = library_pitch(call, "lda", lda, cols);
  library_->use(call, stream);
  check_blas(call, ISTHMUS_BLAS(Sgemv),
             library_->sgemv(library_->handle, transposed, width, height, &one, a, pitch, x, 1, &zero, y, 1));
}

}  // namespace isthmus::device
