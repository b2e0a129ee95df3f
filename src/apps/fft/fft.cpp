// Discrete Fourier transforms of complex numbers. Only the vendor's library computes them; there is no kernel here.

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <vector>

#include "apps/checks.hpp"
#include "apps/watched.hpp"
#include "workload/library.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using Direction = device::Fft::Direction;
using Complex = std::complex<double>;

/// Returns exp(2πi·turns/n); callers reduce `turns` mod n so that the angle is exact.
Complex root(std::size_t turns, std::size_t n) {
  return std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(turns) / static_cast<double>(n));
}

/// Returns y[k] = sum_j x[j]·exp(sign·2πi·jk/n), where x is interleaved like the buffers. Roots of unity are computed
/// directly at the beginning of each piece and by repeated multiplication within it.
Complex transform_at(const float* x, std::size_t n, std::size_t k, int sign) {
  constexpr std::size_t piece = 256;
  const std::size_t turns = sign > 0 ? k : (n - k) % n;
  const Complex step = root(turns, n);
  Complex sum = 0;
  for (std::size_t first = 0; first < n; first += piece) {
    const auto begin = static_cast<unsigned __int128>(first) * turns % n;
    Complex factor = root(static_cast<std::size_t>(begin), n);
    for (std::size_t j = first; j < std::min(first + piece, n); ++j, factor *= step)
      sum += factor * Complex(x[2 * j], x[2 * j + 1]);
  }
  return sum;
}

/// Computes the transforms by their definition. Each root of unity is computed once.
void serial_transforms(const Uniform& values, std::size_t n, std::size_t batch, int sign, std::span<float> y) {
  std::vector<Complex> roots(n), x(n);
  for (std::size_t k = 0; k < n; ++k) roots[k] = root(k, n);
  if (sign < 0) std::reverse(roots.begin() + 1, roots.end());
  for (std::size_t s = 0; s < batch; ++s) {
    for (std::size_t j = 0; j < n; ++j) x[j] = Complex(values(2 * (s * n + j)), values(2 * (s * n + j) + 1));
    for (std::size_t k = 0; k < n; ++k) {
      Complex sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += x[j] * roots[j * k % n];
      y[2 * (s * n + k)] = static_cast<float>(sum.real());
      y[2 * (s * n + k) + 1] = static_cast<float>(sum.imag());
    }
  }
}

/// Returns the largest relative difference between the energy of a signal, times n, and the energy of its bins. The two
/// should be equal.
double energy_error(const float* x, const float* y, std::size_t n, std::size_t batch) {
  const auto add = [](double sum, double value) { return sum + value * value; };
  return worst_of(batch, 1 + (1 << 16) / n, [&](std::size_t s) {
    const double signal = std::accumulate(x + 2 * s * n, x + 2 * (s + 1) * n, 0.0, add);
    const double bins = std::accumulate(y + 2 * s * n, y + 2 * (s + 1) * n, 0.0, add);
    return std::abs(bins / (signal * static_cast<double>(n)) - 1);
  });
}

/// Returns the largest error of sampled bins, each summed from the whole signal and divided by √n, and of sampled
/// points of the signal, each summed from all bins and divided by n. An error in a few bins shows in every point, and
/// an error that comes from a few points shows in every bin.
double sampled_error(const float* x, const float* y, std::size_t n, std::size_t batch, int sign, std::uint64_t seed) {
  return worst_of(32, 1, [&](std::size_t i) {
    const bool bin = i % 2 == 0;
    const std::size_t edges[] = {0, n / 2, n - 1};  // bins (even i), points (odd i) always checked in the first signal
    const std::size_t k = i < 6 ? edges[i / 2] : hash(seed, 1, i) % n;
    const std::size_t signal = i < 6 ? 0 : i < 12 ? batch - 1 : hash(seed, 2, i) % batch, begin = 2 * signal * n;
    const float *from = (bin ? x : y) + begin, *to = (bin ? y : x) + begin;
    const auto length = static_cast<double>(n);
    const Complex sum = transform_at(from, n, k, bin ? sign : -sign), actual(to[2 * k], to[2 * k + 1]);
    return bin ? std::abs(actual - sum) / std::sqrt(length) : std::abs(sum / length - actual);
  });
}

void fft(Case& c) {
  const std::size_t n = c.extent("n"), batch = c.extent("batch");
  const auto direction = c.choice("direction") == "forward" ? Direction::forward : Direction::inverse;
  const int sign = direction == Direction::forward ? -1 : 1;
  const auto plan = load_library<device::Fft>(n, batch);
  const Uniform values = uniform(c.seed(), 0, -1, 1);
  auto x = c.input<float>("signal", 2 * n * batch, values);
  auto y = c.output<float>("transform", 2 * n * batch);
  auto workspace = c.scratch<std::byte>("workspace", std::max<std::size_t>(plan->workspace_bytes(), 1));
  c.note("library", plan->version());

  const double length = static_cast<double>(n), root = std::sqrt(length), stages = std::log2(length);
  // A length that is not a power of two may be computed as a convolution: three transforms of
  // a power of two below 4·n.
  const double depth = std::has_single_bit(n) ? std::max(stages, 1.0) : 3 * (stages + 2);
  const double tolerance = 40 * 0x1p-24 * std::sqrt(depth);
  if (length * length * static_cast<double>(batch) <= 0x1p26) {
    c.verify_all(y, [=](std::span<float> expected) { serial_transforms(values, n, batch, sign, expected); },
                 {.absolute = tolerance * root});
  }
  c.verify("energy of each signal", [=] { return energy_error(x.host(), y.host(), n, batch); }, tolerance);
  c.verify(
      "sampled bins and points, summed in double",
      [=, seed = c.seed()] { return sampled_error(x.host(), y.host(), n, batch, sign, seed); }, tolerance);
  c.verify_same(y);

  const double numbers = length * static_cast<double>(batch);
  const Traffic traffic{.bytes_read = 8 * numbers, .bytes_written = 8 * numbers, .flops = 5 * numbers * stages};
  c.measure(Control::queued, [=](Run& run) {
    run.call("fft", traffic, [&](device::Stream& stream) {
      plan->set_workspace(workspace.device());
      plan->run(stream, reinterpret_cast<const std::complex<float>*>(x.device()),
                reinterpret_cast<std::complex<float>*>(y.device()), direction);
    });
  });
}

}  // namespace

Workload fft_program(const std::string& name) {
  return Workload(name, fft)
      .version(1)
      .summary("complex Fourier transforms in fp32 by the vendor's library, out of place")
      .source("isthmus")
      .tags({"app", "uvm-batches"})
      .placements(memory::all_placements())
      .stagings({Staging::none})
      .axis(number_axis("n", "complex numbers per signal", 1 << 20))
      .axis(number_axis("batch", "signals transformed at once", 1))
      .axis(choice_axis("direction", "sign of the exponent: exp(-2πi·jk/n) or exp(+2πi·jk/n), unscaled",
                        {"forward", "inverse"}))
      .sizes({"n"}, {1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 26, 1 << 28});
}
const Registration registration = fft_program("apps/fft");

}  // namespace isthmus::apps
