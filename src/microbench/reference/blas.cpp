// The vendor's sgemm and sgemv on the shapes of microbench/gemm and microbench/gemv: fp32 without TF32.

#include <cmath>
#include <memory>

#include "harness/workload.hpp"

namespace isthmus::microbench {
namespace {

using namespace harness;

std::unique_ptr<device::Blas> load_blas() {
  try {
    return std::make_unique<device::Blas>();
  } catch (const device::Error& error) {
    if (error.kind() == device::ErrorKind::unsupported) throw Skip(error.what());
    throw;
  }
}

/// A pitched matrix of uniform values on the device (vectors have one row).
class Matrix {
 public:
  Matrix(Case& c, std::size_t rows, std::size_t columns, const Uniform* values)
      : rows_(rows), pitch_(rows == 1 ? columns : row_pitch<float>(columns)) {
    host_.resize(rows * pitch_, std::nanf(""));
    if (values != nullptr) {
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t col = 0; col < columns; ++col) host_[r * pitch_ + col] = (*values)(r * columns + col);
      }
    }
    device_ = static_cast<float*>(device::malloc_device(bytes()));
    device::copy_async(device_, host_.data(), bytes(), c.stream());
    c.stream().synchronize();
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() {
    try {
      device::free_device(device_);
    } catch (const device::Error&) {  // the first failure is the one to report
    }
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

template <class Call>
double time_call(Case& c, Call call) {
  device::Stream& stream = c.stream();
  device::Event begin, end;
  begin.record(stream);
  call(stream);
  end.record(stream);
  stream.synchronize();
  return device::elapsed(begin, end);
}

Metric metric(std::string name, std::string unit, Better better, double bytes) {
  return {.name = std::move(name),
          .unit = std::move(unit),
          .better = better,
          .timer = "event",
          .direction = {},
          .bytes_needed = bytes,
          .bytes_moved = 0,
          .limit = {},
          .limit_source = {}};
}

constexpr std::size_t samples = 64;

void sgemm(Case& c) {
  const std::size_t m = c.extent("m"), n = c.extent("n"), k = c.extent("k");
  const auto blas = load_blas();
  const auto a_values = uniform(c.seed(), 0, -1, 1), b_values = uniform(c.seed(), 1, -1, 1);
  const Matrix a(c, m, k, &a_values), b(c, k, n, &b_values);
  Matrix out(c, m, n, nullptr);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  c.verify(
      "sampled double dot products",
      [&] {
        out.fetch();
        double worst = 0;
        for (std::size_t s = 0; s < samples; ++s) {
          const std::size_t row = hash(c.seed(), 103, s) % m, column = hash(c.seed(), 104, s) % n;
          double sum = 0;
          for (std::size_t l = 0; l < k; ++l) sum += double{a_values(row * k + l)} * b_values(l * n + column);
          const double error = std::abs(sum - out.at(row, column));
          worst = error <= worst ? worst : error;  // keeps a NaN
        }
        return worst;
      },
      static_cast<double>(k) * 0x1p-24 * (2 + 10 * std::sqrt(static_cast<double>(k)) / 3));
  const auto call = [&](device::Stream& stream) {
    blas->sgemm(stream, static_cast<std::int64_t>(m), static_cast<std::int64_t>(n), static_cast<std::int64_t>(k),
                a.device(), a.pitch(), b.device(), b.pitch(), out.device(), out.pitch());
  };
  c.sample(metric("kernel_flop_rate", "FLOP/s", Better::higher, 4.0 * static_cast<double>(m * k + k * n + m * n)),
           [&] { return flops / time_call(c, call); });
}

void sgemv(Case& c) {
  const std::size_t rows = c.extent("rows"), cols = c.extent("cols");
  const auto blas = load_blas();
  const auto a_values = uniform(c.seed(), 0, -1, 1), x_values = uniform(c.seed(), 1, -1, 1);
  const Matrix a(c, rows, cols, &a_values), x(c, 1, cols, &x_values);
  Matrix y(c, 1, rows, nullptr);
  const double bytes = 4.0 * static_cast<double>(rows * cols + rows + cols);
  c.verify(
      "sampled double dot products",
      [&] {
        y.fetch();
        double worst = 0;
        for (std::size_t s = 0; s < samples; ++s) {
          const std::size_t row = hash(c.seed(), 103, s) % rows;
          double sum = 0;
          for (std::size_t j = 0; j < cols; ++j) sum += double{a_values(row * cols + j)} * x_values(j);
          const double error = std::abs(sum - y.at(0, row));
          worst = error <= worst ? worst : error;
        }
        return worst;
      },
      static_cast<double>(cols) * 0x1p-24 * (2 + 10 * std::sqrt(static_cast<double>(cols)) / 3));
  const auto call = [&](device::Stream& stream) {
    blas->sgemv(stream, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), a.device(), a.pitch(),
                x.device(), y.device());
  };
  c.sample(metric("kernel_rate", "B/s", Better::higher, bytes), [&] { return bytes / time_call(c, call); });
}

Workload blas_workload(const char* name, void (*function)(Case&), const char* summary, const char* metric_name,
                       const std::vector<std::string>& extents, std::int64_t super) {
  Workload w(name, function);
  w.version(1).summary(summary).source("isthmus").tags({"reference"}).stagings({}).metrics({metric_name});
  for (const std::string& extent : extents) {
    w.axis({.name = extent,
            .help = "as in the workload of the same name",
            .default_value = std::int64_t{1024},
            .allowed = {},
            .minimum = 1});
  }
  const auto square = [&](std::int64_t value) {
    AxisSettings settings;
    for (const std::string& extent : extents) settings.emplace_back(extent, value);
    return settings;
  };
  w.size("tiny", square(512))
      .size("small", square(1024))
      .size("medium", square(4096))
      .size("large", square(8192))
      .size("super", square(super));
  return w;
}

const Registration sgemm_registration = blas_workload("reference/sgemm", sgemm, "the vendor's C = A*B in fp32, no TF32",
                                                      "kernel_flop_rate", {"m", "n", "k"}, 16384);
const Registration sgemv_registration =
    blas_workload("reference/sgemv", sgemv, "the vendor's y = A*x in fp32", "kernel_rate", {"rows", "cols"}, 32768);

}  // namespace
}  // namespace isthmus::microbench
