// Blas in plain loops: sums are kept in double and rounded once.

#include <vector>

#include "device/emulator/library.hpp"
#include "device/injection.hpp"
#include "device/library_arguments.hpp"

namespace isthmus::device {

using emulator::Operand;
using emulator::queue_library_call;

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

/// sum[j] += factor · row[j]
void add_row(std::vector<double>& sum, double factor, const float* row) {
  for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += factor * static_cast<double>(row[j]);
}

/// A square matrix of which one triangle is read.
struct Triangular {
  const float* values;
  std::int64_t pitch, size;
  bool lower, unit;
  double at(std::int64_t row, std::int64_t column) const { return values[row * pitch + column]; }
  double diagonal(std::int64_t i) const { return unit ? 1.0 : at(i, i); }
};

/// T·X = B, a row of X after another: each needs those that its row of T names.
void solve_left(const Triangular& t, std::int64_t n, float* b, std::int64_t ldb) {
  std::vector<double> row(static_cast<std::size_t>(n));
  for (std::int64_t step = 0; step < t.size; ++step) {
    const std::int64_t i = t.lower ? step : t.size - 1 - step;
    row.assign(b + i * ldb, b + i * ldb + n);
    for (std::int64_t l = t.lower ? 0 : i + 1; l < (t.lower ? i : t.size); ++l) add_row(row, -t.at(i, l), b + l * ldb);
    for (std::int64_t j = 0; j < n; ++j) {
      b[i * ldb + j] = static_cast<float>(row[static_cast<std::size_t>(j)] / t.diagonal(i));
    }
  }
}

/// X·T = B: the rows of X do not need one another.
void solve_right(const Triangular& t, std::int64_t m, float* b, std::int64_t ldb) {
  std::vector<double> row(static_cast<std::size_t>(t.size));
  for (std::int64_t i = 0; i < m; ++i) {
    row.assign(b + i * ldb, b + i * ldb + t.size);
    for (std::int64_t step = 0; step < t.size; ++step) {
      const std::int64_t j = t.lower ? t.size - 1 - step : step;
      const double x = row[static_cast<std::size_t>(j)] /= t.diagonal(j);
      for (std::int64_t l = t.lower ? 0 : j + 1; l < (t.lower ? j : t.size); ++l) {
        row[static_cast<std::size_t>(l)] -= x * t.at(j, l);
      }
    }
    for (std::int64_t j = 0; j < t.size; ++j) b[i * ldb + j] = static_cast<float>(row[static_cast<std::size_t>(j)]);
  }
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

void Blas::strsm(Stream& stream, Side side, Triangle triangle, Diagonal diagonal, std::int64_t m, std::int64_t n,
                 const float* t, std::int64_t ldt, float* b, std::int64_t ldb) {
  constexpr const char* call = "blas_strsm";
  injection_point(call);
  library_extent(call, "m", m);
  library_extent(call, "n", n);
  const std::int64_t size = side == Side::left ? m : n;
  library_pitch(call, "ldt", ldt, size);
  library_pitch(call, "ldb", ldb, n);
  const Triangular triangular{t, ldt, size, triangle == Triangle::lower, diagonal == Diagonal::unit};
  queue_library_call(
      call, library_->device, stream, {matrix("T", t, size, size, ldt), matrix("B", b, m, n, ldb, true)},
      [=] { side == Side::left ? solve_left(triangular, n, b, ldb) : solve_right(triangular, m, b, ldb); });
}

}  // namespace isthmus::device
