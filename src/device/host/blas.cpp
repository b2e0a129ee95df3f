// Blas in plain loops: sums are accumulated in double precision and rounded once.

#include <vector>

#include "device/api/injection.hpp"
#include "device/api/library_arguments.hpp"
#include "device/host/library.hpp"

namespace isthmus::device {

using emulator::Operand;

namespace {

Operand matrix(const char* name, const float* pointer, std::int64_t rows, std::int64_t columns, std::int64_t pitch,
               bool written = false) {
  return {name,
          pointer,
          static_cast<std::size_t>(columns) * sizeof(float),
          static_cast<std::size_t>(rows),
          static_cast<std::size_t>(pitch) * sizeof(float),
          written};
}

/// Adds factor · row[j] to sum[j], for every j.
void add_row(std::vector<double>& sum, double factor, const float* row) {
  for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += factor * static_cast<double>(row[j]);
}

}  // namespace

struct Blas::Library {
  int device;
};

Blas::Blas() : library_(nullptr) {
  injection_point("blas_create");
  library_ = new Library{selected()};
}

Blas::~Blas() {
  delete library_;
}

std::string Blas::version() const {
  return "emulated BLAS";
}

void Blas::sgemm(Stream& stream, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                 const float* b, std::int64_t ldb, float* c, std::int64_t ldc, float alpha, float beta) {
  constexpr const char* call = "blas_sgemm";
  injection_point(call);
  library_extent(call, "m", m);
  library_extent(call, "n", n);
  library_extent(call, "k", k);
  library_pitch(call, "lda", lda, k);
  library_pitch(call, "ldb", ldb, n);
  library_pitch(call, "ldc", ldc, n);
  queue_library_call(call, library_->device, stream,
                     {matrix("A", a, m, k, lda), matrix("B", b, k, n, ldb), matrix("C", c, m, n, ldc, true)}, [=] {
                       std::vector<double> sum(static_cast<std::size_t>(n));
                       for (std::int64_t i = 0; i < m; ++i) {
                         sum.assign(sum.size(), 0.0);
                         for (std::int64_t l = 0; l < k; ++l) add_row(sum, a[i * lda + l], b + l * ldb);
                         for (std::int64_t j = 0; j < n; ++j) {
                           float& out = c[i * ldc + j];
                           const double product = alpha * sum[static_cast<std::size_t>(j)];
                           out = static_cast<float>(beta == 0 ? product : product + double{beta} * out);
                         }
                       }
                     });
}

void Blas::sgemv(Stream& stream, std::int64_t rows, std::int64_t cols, const float* a, std::int64_t lda, const float* x,
                 float* y) {
  constexpr const char* call = "blas_sgemv";
  injection_point(call);
  library_extent(call, "rows", rows);
  library_extent(call, "columns", cols);
  library_pitch(call, "lda", lda, cols);
  queue_library_call(
      call, library_->device, stream,
      {matrix("A", a, rows, cols, lda), matrix("x", x, 1, cols, cols), matrix("y", y, 1, rows, rows, true)}, [=] {
        for (std::int64_t i = 0; i < rows; ++i) {
          double sum = 0;
          for (std::int64_t j = 0; j < cols; ++j) sum += double{a[i * lda + j]} * x[j];
          y[i] = static_cast<float>(sum);
        }
      });
}

}  // namespace isthmus::device
