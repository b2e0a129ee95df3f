// The vendor's sgemm and sgemv on the shapes of microbench/gemm and microbench/gemv: fp32 without TF32.

#include <cmath>
#include <functional>

#include "device/api/ignoring_errors.hpp"
#include "memory/parallel.hpp"
#include "microbench/products.hpp"
#include "workload/lanes.hpp"
#include "workload/library.hpp"
#include "workload/workload.hpp"
#include "workload/worst.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;

/// Pitched matrix of uniform values on the device. A vector is a matrix with one row.
class Matrix {
 public:
  static std::size_t pitch_of(std::size_t rows, std::size_t columns) {
    return rows == 1 ? columns : row_pitch<float>(columns);
  }
  static std::size_t bytes(std::size_t rows, std::size_t columns) {
    return memory::byte_count(rows, memory::byte_count(pitch_of(rows, columns), sizeof(float)));
  }
  Matrix(Case& c, std::size_t rows, std::size_t columns, const Uniform* values)
      : rows_(rows), pitch_(pitch_of(rows, columns)) {
    host_.resize(rows * pitch_, std::nanf(""));
    if (values != nullptr) {
      memory::parallel_for(rows, 1, [&](std::size_t first, std::size_t last) {
        for (std::size_t r = first; r < last; ++r) {
          for (std::size_t col = 0; col < columns; ++col) host_[r * pitch_ + col] = (*values)(r * columns + col);
        }
      });
    }
    device_ = static_cast<float*>(device::malloc_device(bytes()));
    device::copy_async(device_, host_.data(), bytes(), c.stream());
    c.stream().synchronize();
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() {
    device::ignoring_errors([this] { device::free_device(device_); });
  }
  float* device() const { return device_; }
  std::int64_t pitch() const { return static_cast<std::int64_t>(pitch_); }
  void fetch() { device::copy(host_.data(), device_, bytes()); }
  double at(std::size_t row, std::size_t column) const { return host_[row * pitch_ + column]; }

 private:
  std::size_t bytes() const { return rows_ * pitch_ * sizeof(float); }
  std::size_t rows_, pitch_;
  std::vector<float> host_;
  float* device_ = nullptr;
};

/// Samples a call in the same way as transfers: behind a latch, and in batches if one call is short.
void sample(Case& c, Metric metric, double amount, const std::function<void(device::Stream&)>& call) {
  Lane lane;
  lane.device = c.device().index;
  lane.queue = call;
  Lanes lanes(c, {lane});
  const int batch = c.sampling().batch_for("event", c.sampling().largest_batch(),
                                           [&](int times) { return times * lanes.run(times).all; });
  metric.timer = lanes.timer();
  c.sampling().sample(std::move(metric), [&] { return amount / read(c, lanes, batch).all; });
}

/// Verifies sampled elements of `out` against `expected(row, column)`.
void verify_sampled(Case& c, Matrix& out, std::size_t rows, std::size_t columns, double tolerance,
                    const std::function<double(std::size_t, std::size_t)>& expected) {
  constexpr std::size_t samples = 64;
  c.verify(
      "sampled double dot products",
      [&c, &out, rows, columns, expected] {
        out.fetch();
        double all = 0;
        for (std::size_t s = 0; s < samples; ++s) {
          const std::size_t row = hash(c.seed(), 103, s) % rows, column = hash(c.seed(), 104, s) % columns;
          all = worst(all, std::abs(expected(row, column) - out.at(row, column)));
        }
        return all;
      },
      tolerance);
}

void sgemm(Case& c) {
  const std::size_t m = c.extent("m"), n = c.extent("n"), k = c.extent("k");
  const auto blas = load_library<device::Blas>();
  const auto a_values = uniform(c.seed(), 0, -1, 1), b_values = uniform(c.seed(), 1, -1, 1);
  const std::size_t bytes = Matrix::bytes(m, k) + Matrix::bytes(k, n) + Matrix::bytes(m, n);
  c.needs(bytes, bytes);
  const Matrix a(c, m, k, &a_values), b(c, k, n, &b_values);
  Matrix out(c, m, n, nullptr);
  verify_sampled(c, out, m, n, gemm_tolerance(k), [=](std::size_t row, std::size_t column) {
    return gemm_element(row, column, n, k, a_values, b_values);
  });
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto length = [](std::size_t extent) { return static_cast<std::int64_t>(extent); };
  sample(c,
         rate_metric("kernel_flop_rate", "FLOP/s", "event",
                     {c.device().fp32_rate, "peak fp32 rate", "the device does not report its fp32 rate"})
             .moving(4.0 * static_cast<double>(m * k + k * n + m * n), 0),
         flops, [&](device::Stream& stream) {
           blas->sgemm(stream, length(m), length(n), length(k), a.device(), a.pitch(), b.device(), b.pitch(),
                       out.device(), out.pitch());
         });
}

void sgemv(Case& c) {
  const std::size_t rows = c.extent("rows"), cols = c.extent("cols");
  const auto blas = load_library<device::Blas>();
  const auto a_values = uniform(c.seed(), 0, -1, 1), x_values = uniform(c.seed(), 1, -1, 1);
  const std::size_t held = Matrix::bytes(rows, cols) + Matrix::bytes(1, cols) + Matrix::bytes(1, rows);
  c.needs(held, held);
  const Matrix a(c, rows, cols, &a_values), x(c, 1, cols, &x_values);
  Matrix y(c, 1, rows, nullptr);
  verify_sampled(c, y, 1, rows, gemm_tolerance(cols),
                 [=](std::size_t, std::size_t row) { return gemv_element(row, cols, a_values, x_values); });
  const double bytes = 4.0 * static_cast<double>(rows * cols + rows + cols);
  sample(c,
         rate_metric("kernel_rate", "B/s", "event",
                     {c.device().memory_bandwidth, "peak device memory bandwidth",
                      "the device does not report its memory bandwidth"})
             .moving(bytes, 0),
         bytes, [&](device::Stream& stream) {
           blas->sgemv(stream, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), a.device(), a.pitch(),
                       x.device(), y.device());
         });
}

Workload blas_workload(const char* name, void (*function)(Case&), const char* summary, const char* metric_name,
                       const std::vector<std::string>& extents, std::int64_t super) {
  Workload w(name, function);
  w.version(2).summary(summary).source("isthmus").tags({"reference"}).stagings({}).metrics({metric_name});
  for (const std::string& extent : extents) w.axis(number_axis(extent, "as in the workload of the same name", 1024));
  w.sizes(extents, {512, 1024, 4096, 8192, super});
  return w;
}

const Registration sgemm_registration = blas_workload("reference/sgemm", sgemm, "the vendor's C = A*B in fp32, no TF32",
                                                      "kernel_flop_rate", {"m", "n", "k"}, 16384);
const Registration sgemv_registration =
    blas_workload("reference/sgemv", sgemv, "the vendor's y = A*x in fp32", "kernel_rate", {"rows", "cols"}, 32768);

}  // namespace
}  // namespace isthmus::microbench
