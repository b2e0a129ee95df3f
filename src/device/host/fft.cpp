// FFT in double precision, rounded to float at the end. Lengths that are powers of two use Stockham's radix-2
// algorithm; other lengths use Bluestein's algorithm, which is a convolution whose length is a power of two.

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <vector>

#include "device/api/injection.hpp"
#include "device/api/library_arguments.hpp"
#include "device/host/library.hpp"

namespace isthmus::device {
namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

/// Returns exp(-2πi·k/n).
Complex root(std::size_t k, std::size_t n) {
  return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
}

/// Forward transforms whose length is a power of two.
class PowerOfTwo {
 public:
  explicit PowerOfTwo(std::size_t n) : roots_(n / 2) {
    for (std::size_t k = 0; k < roots_.size(); ++k) roots_[k] = root(k, n);
  }
  /// Transforms `x` in place. Each step halves the length of the transforms and doubles their number; results come out
  /// in order.
  void transform(Signal& x) const {
    const std::size_t n = x.size();
    Signal y(n);
    for (std::size_t half = n / 2, count = 1; half >= 1; half /= 2, count *= 2) {
      for (std::size_t p = 0; p < half; ++p) {
        for (std::size_t q = 0; q < count; ++q) {
          const Complex a = x[q + count * p], b = x[q + count * (p + half)];
          y[q + count * 2 * p] = a + b;
          y[q + count * (2 * p + 1)] = (a - b) * roots_[p * count];
        }
      }
      x.swap(y);
    }
  }

 private:
  Signal roots_;
};

/// Forward transforms of any length.
class Transform {
 public:
  explicit Transform(std::size_t n) : n_(n), inner_(std::has_single_bit(n) ? n : std::bit_ceil(2 * n - 1)) {
    if (std::has_single_bit(n)) return;
    // jk = (j² + k² - (k - j)²) / 2, so the sum over j is a convolution with chirps; their squares are reduced mod 2n
    // so that the angles stay exact.
    const std::size_t padded = std::bit_ceil(2 * n - 1);
    chirp_.resize(n);
    for (std::size_t k = 0; k < n; ++k) chirp_[k] = root(k * k % (2 * n), 2 * n);
    filter_.resize(padded);
    filter_[0] = std::conj(chirp_[0]);
    for (std::size_t k = 1; k < n; ++k) filter_[k] = filter_[padded - k] = std::conj(chirp_[k]);
    inner_.transform(filter_);
  }
  void run(Signal& x) const {
    if (chirp_.empty()) return inner_.transform(x);
    Signal padded(filter_.size());
    for (std::size_t k = 0; k < n_; ++k) padded[k] = x[k] * chirp_[k];
    inner_.transform(padded);
    // Invert the transform by conjugation.
    for (std::size_t k = 0; k < padded.size(); ++k) padded[k] = std::conj(padded[k] * filter_[k]);
    inner_.transform(padded);
    const double scale = 1 / static_cast<double>(padded.size());
    for (std::size_t k = 0; k < n_; ++k) x[k] = std::conj(padded[k]) * scale * chirp_[k];
  }

 private:
  std::size_t n_;
  PowerOfTwo inner_;
  Signal chirp_, filter_;
};

}  // namespace

struct Fft::Plan {
  int device;
  std::size_t n, batch;
  std::shared_ptr<const Transform> transform;
  void* workspace = nullptr;
  std::size_t workspace_bytes() const { return n * batch * sizeof(std::complex<float>); }
};

Fft::Fft(std::size_t n, std::size_t batch) : plan_(nullptr) {
  injection_point("fft_create");
  library_extent("fft_create", "n", static_cast<std::int64_t>(n));
  library_extent("fft_create", "batch", static_cast<std::int64_t>(batch));
  plan_ = new Plan{selected(), n, batch, std::make_shared<const Transform>(n)};
}

Fft::~Fft() {
  delete plan_;
}

std::string Fft::version() const {
  return "emulated FFT";
}

std::size_t Fft::workspace_bytes() const {
  return plan_->workspace_bytes();
}

void Fft::set_workspace(void* device_memory) {
  injection_point("fft_set_workspace");
  translated([&] {
    emulator::require_device_memory("fft_set_workspace", plan_->device, "the workspace", device_memory,
                                    workspace_bytes());
  });
  plan_->workspace = device_memory;
}

void Fft::run(Stream& stream, const std::complex<float>* in, std::complex<float>* out, Direction direction) {
  constexpr const char* call = "fft_run";
  injection_point(call);
  require_workspace(call, plan_->workspace, workspace_bytes());
  const std::size_t bytes = plan_->n * plan_->batch * sizeof *in;
  std::vector<emulator::Operand> operands{{"the output", out, bytes, 1, bytes, true},
                                          {"the workspace", plan_->workspace, bytes, 1, bytes, true}};
  if (in != out) operands.push_back({"the input", in, bytes, 1, bytes, false});
  queue_library_call(call, plan_->device, stream, std::move(operands),
                     [in, out, n = plan_->n, batch = plan_->batch, transform = plan_->transform,
                      workspace = plan_->workspace, bytes, inverse = direction == Direction::inverse] {
                       // Overwrite the workspace, so that callers cannot rely on data in it.
                       std::memset(workspace, 0xff, bytes);
                       Signal signal(n);
                       for (std::size_t i = 0; i < batch; ++i) {
                         // The inverse transform is the conjugate of the transform of the conjugate.
                         for (std::size_t k = 0; k < n; ++k) {
                           const Complex value = in[i * n + k];
                           signal[k] = inverse ? std::conj(value) : value;
                         }
                         transform->run(signal);
                         for (std::size_t k = 0; k < n; ++k) {
                           out[i * n + k] = std::complex<float>(inverse ? std::conj(signal[k]) : signal[k]);
                         }
                       }
                     });
}

}  // namespace isthmus::device
