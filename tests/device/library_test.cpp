// Tests of Blas, Fft and Convolutions on any available device, including the emulated one, against sums in double
// precision.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "device/api/libraries.hpp"

namespace isthmus::device {
namespace {

using Complex = std::complex<float>;

template <class T>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<T>& values)
      : bytes_(values.size() * sizeof(T)), data_(static_cast<T*>(malloc_device(bytes_))) {
    device::copy(data_, values.data(), bytes_);
  }
  ~DeviceCopy() { free_device(data_); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(bytes_ / sizeof(T));
    device::copy(values.data(), data_, bytes_);
    return values;
  }

 private:
  std::size_t bytes_;
  T* data_;
};

/// Returns a value from -1 to 1 that differs from the values of i - 1 and i + 1.
float value(std::size_t i) {
  return static_cast<float>(i * 2654435761u % 2003) / 1001 - 1;
}

class LibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (count() == 0) GTEST_SKIP() << "no device is visible";
    select(0);
  }
};

class BlasTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    if (IsSkipped()) return;
    try {
      blas_ = std::make_unique<Blas>();
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::unsupported);
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Blas> blas_;
};

TEST_F(BlasTest, SgemmScalesAndAdds) {
  constexpr std::size_t m = 33, n = 20, k = 47, pitch = 64;
  std::vector<float> a(m * pitch), b(k * pitch), c(m * pitch);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = value(i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = value(i + 7);
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = value(i + 11);
  for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {-1.0f, 1.0f}, {0.5f, -2.0f}}) {
    std::vector<float> before = c;
    if (beta == 0) std::fill(before.begin(), before.end(), std::nanf(""));
    DeviceCopy device_a(a), device_b(b), device_c(before);
    Stream stream;
    blas_->sgemm(stream, m, n, k, device_a.get(), pitch, device_b.get(), pitch, device_c.get(), pitch, alpha, beta);
    stream.synchronize();
    const std::vector<float> got = device_c.host();
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t l = 0; l < k; ++l) sum += double{a[i * pitch + l]} * b[l * pitch + j];
        const double expected = alpha * sum + (beta == 0 ? 0 : double{beta} * before[i * pitch + j]);
        ASSERT_NEAR(got[i * pitch + j], expected, 1e-4) << i << ", " << j << " alpha " << alpha;
      }
      ASSERT_EQ(std::isnan(got[i * pitch + n]), beta == 0) << "padding was written";
    }
  }
}

TEST_F(BlasTest, WrongNumbersAreRefusedInASentence) {
  DeviceCopy memory(std::vector<float>(64));
  Stream stream;
  float* p = memory.get();
  try {
    blas_->sgemm(stream, 4, 4, 4, p, 3, p + 16, 4, p + 32, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.call(), "blas_sgemm");
    EXPECT_NE(std::string(error.what()).find("lda 3 is less than the row's 4"), std::string::npos) << error.what();
  }
  EXPECT_THROW(blas_->sgemv(stream, 0, 4, p, 4, p + 16, p + 32), Error);
  EXPECT_THROW(blas_->sgemv(stream, std::int64_t{1} << 31, 4, p, 4, p + 16, p + 32), Error);
}

class FftTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    if (IsSkipped()) return;
    try {
      const Fft fft(8);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::unsupported);
      GTEST_SKIP() << error.what();
    }
  }
};

/// FFT plan with device memory for its workspace.
struct PlanWithWorkspace {
  PlanWithWorkspace(std::size_t n, std::size_t batch)
      : fft(n, batch), workspace(std::vector<char>(std::max<std::size_t>(fft.workspace_bytes(), 1))) {
    fft.set_workspace(workspace.get());
  }
  Fft fft;
  DeviceCopy<char> workspace;
};

std::vector<Complex> signals(std::size_t size) {
  std::vector<Complex> all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = {value(i), value(i + 5)};
  return all;
}

double norm(const std::vector<Complex>& values) {
  double sum = 0;
  for (const Complex& v : values) sum += std::norm(std::complex<double>(v));
  return std::sqrt(sum);
}

TEST_F(FftTest, IsTheSumOfItsDefinition) {
  for (const std::size_t n : {1u, 2u, 8u, 60u, 97u, 128u, 384u}) {
    constexpr std::size_t batch = 3;
    const std::vector<Complex> in = signals(n * batch);
    for (const auto direction : {Fft::Direction::forward, Fft::Direction::inverse}) {
      PlanWithWorkspace plan(n, batch);
      DeviceCopy from(in), to(std::vector<Complex>(n * batch));
      Stream stream;
      plan.fft.run(stream, from.get(), to.get(), direction);
      stream.synchronize();
      EXPECT_EQ(from.host(), in) << "the input was written";
      const std::vector<Complex> got = to.host();
      std::vector<Complex> wrong(n * batch);
      for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t k = 0; k < n; ++k) {
          std::complex<double> sum = 0;
          for (std::size_t j = 0; j < n; ++j) {
            const double turn = static_cast<double>(j * k % n) / static_cast<double>(n);
            const double sign = direction == Fft::Direction::forward ? -1 : 1;
            sum += std::complex<double>(in[b * n + j]) * std::polar(1.0, sign * 2 * std::numbers::pi * turn);
          }
          wrong[b * n + k] = Complex(std::complex<double>(got[b * n + k]) - sum);
        }
      }
      // Bound on the rounding error of a single-precision FFT, relative to the norm of the result.
      EXPECT_LT(norm(wrong), 3e-7 * (1 + std::log2(static_cast<double>(n))) * norm(got)) << n;
    }
  }
}

TEST_F(FftTest, InPlaceAndBackGivesNTimesTheSignal) {
  for (const std::size_t n : {1024u, 1000u}) {
    constexpr std::size_t batch = 4;
    const std::vector<Complex> in = signals(n * batch);
    PlanWithWorkspace plan(n, batch);
    DeviceCopy data(in);
    Stream stream;
    plan.fft.run(stream, data.get(), data.get(), Fft::Direction::forward);
    plan.fft.run(stream, data.get(), data.get(), Fft::Direction::inverse);
    stream.synchronize();
    const std::vector<Complex> got = data.host();
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_LT(std::abs(got[i] / static_cast<float>(n) - in[i]), 1e-5) << i << " of " << n;
    }
  }
}

TEST_F(FftTest, AWorkspaceThatIsMissingIsNamed) {
  // Long enough for an FFT of at least two passes, for which the libraries need a workspace.
  Fft fft(std::size_t{1} << 20);
  if (fft.workspace_bytes() == 0) GTEST_SKIP() << fft.version() << " needs none";
  DeviceCopy data(std::vector<Complex>(std::size_t{1} << 20));
  Stream stream;
  try {
    fft.run(stream, data.get(), data.get(), Fft::Direction::forward);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.call(), "fft_run");
    EXPECT_NE(std::string(error.what()).find("set_workspace"), std::string::npos) << error.what();
  }
}

TEST_F(FftTest, LengthsThatAreNoneAreRefused) {
  EXPECT_THROW(Fft(0), Error);
  EXPECT_THROW(Fft(8, 0), Error);
}

// Captures library calls and other work into a graph, in order, and launches the graph repeatedly.
TEST_F(FftTest, LibraryCallsAreCaptured) {
  constexpr std::size_t n = 64;
  std::unique_ptr<Blas> blas;
  try {
    blas = std::make_unique<Blas>();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  PlanWithWorkspace plan(n, 1);
  std::vector<float> three_times(n * n);
  for (std::size_t i = 0; i < n; ++i) three_times[i * n + i] = 3;
  DeviceCopy signal(std::vector<Complex>(n, Complex(1, 0)));
  DeviceCopy matrix(three_times), tripled(std::vector<float>(n * 2));
  const auto queue = [&](Stream& stream) {
    plan.fft.run(stream, signal.get(), signal.get(), Fft::Direction::forward);
    blas->sgemm(stream, n, 2, n, matrix.get(), n, reinterpret_cast<float*>(signal.get()), 2, tripled.get(), 2);
    copy_async(signal.get(), tripled.get(), n * sizeof(Complex), stream);
  };
  Stream stream;
  queue(stream);  // the first call of a library initialises it, which a capture may forbid
  stream.synchronize();
  EXPECT_EQ(signal.host()[0], Complex(3 * n, 0));
  const Graph graph(stream, [&] { queue(stream); });
  ExecutableGraph executable(graph);
  stream.synchronize();
  EXPECT_EQ(signal.host()[0], Complex(3 * n, 0)) << "it ran while it was captured";
  executable.launch(stream);
  stream.synchronize();
  // All elements of the transform of (3n, 0, 0, …) are 3n, and the product triples them.
  for (const Complex& v : signal.host()) ASSERT_EQ(v, Complex(9 * n, 0));
}

class ConvolutionsTest : public LibraryTest {
 protected:
  using Math = Convolutions::Math;
  using Algorithms = Convolutions::Algorithms;

  static std::unique_ptr<Convolutions> library(Math math, Algorithms algorithms) {
    try {
      return std::make_unique<Convolutions>(math, algorithms);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
      return nullptr;
    }
  }

  /// Returns `s` with the strides of images one after the other, or of images whose planes are interleaved.
  static ConvolutionShape laid_out(ConvolutionShape s, bool by_image) {
    const std::int64_t in = s.height * s.width, out = s.out_height() * s.out_width();
    s.in_image = by_image ? s.channels * in : in;
    s.in_channel = by_image ? in : s.images * in + 5;
    s.out_image = by_image ? s.filters * out : out;
    s.out_channel = by_image ? out : s.images * out + 3;
    return s;
  }

  static double expected(const ConvolutionShape& s, const std::vector<float>& in, const std::vector<float>& filters,
                         std::int64_t b, std::int64_t m, std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      for (std::int64_t r = 0; r < s.window_height; ++r) {
        for (std::int64_t q = 0; q < s.window_width; ++q) {
          const std::int64_t y = row * s.stride + r - s.padding, x = column * s.stride + q - s.padding;
          if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
          const auto from = static_cast<std::size_t>(b * s.in_image + c * s.in_channel + y * s.width + x);
          const auto by = static_cast<std::size_t>(((m * s.channels + c) * s.window_height + r) * s.window_width + q);
          sum += double{in[from]} * filters[by];
        }
      }
    }
    return sum;
  }

  /// Convolves and compares all numbers with sums in double precision. Memory between planes must be unchanged. A
  /// library may refuse interleaved planes, as MIOpen does, but must accept everything else.
  void expect_right(Convolutions& library, const ConvolutionShape& s, double tolerance) {
    const auto extent = [](std::int64_t images, std::int64_t image, std::int64_t channels, std::int64_t channel,
                           std::int64_t plane) {
      return static_cast<std::size_t>((images - 1) * image + (channels - 1) * channel + plane);
    };
    const std::int64_t plane = s.out_height() * s.out_width();
    std::vector<float> in(extent(s.images, s.in_image, s.channels, s.in_channel, s.height * s.width)),
        filters(static_cast<std::size_t>(s.filters * s.channels * s.window_height * s.window_width)),
        before(extent(s.images, s.out_image, s.filters, s.out_channel, plane), -77.0f);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(i);
    for (std::size_t i = 0; i < filters.size(); ++i) filters[i] = value(i + 7);
    std::size_t number = 0;
    try {
      number = library.plan(s);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
      ASSERT_NE(s.in_channel, s.height * s.width) << error.what();
      return;
    }
    const auto& chosen = library.chosen(number);
    chosen_.push_back(chosen);
    DeviceCopy device_in(in), device_filters(filters), out(before);
    DeviceCopy workspace(std::vector<char>(std::max<std::size_t>(chosen.workspace_bytes, 1)));
    Stream stream;
    library.run(stream, number, device_in.get(), device_filters.get(), out.get(), workspace.get());
    stream.synchronize();
    std::vector<float> rest = out.host();
    double off = 0;
    for (std::int64_t b = 0; b < s.images; ++b) {
      for (std::int64_t m = 0; m < s.filters; ++m) {
        for (std::int64_t i = 0; i < plane; ++i) {
          float& actual = rest[static_cast<std::size_t>(b * s.out_image + m * s.out_channel + i)];
          const double right = expected(s, in, filters, b, m, i / s.out_width(), i % s.out_width());
          ASSERT_NEAR(actual, right, tolerance) << chosen.algorithm << ": " << b << ", " << m << ", " << i;
          off = std::max(off, std::abs(actual - right));
          actual = -77;
        }
      }
    }
    EXPECT_EQ(rest, before) << "more was written than the planes";
    EXPECT_GT(off, 0) << "nothing was rounded, so that nothing was computed";
  }

  std::vector<Convolutions::Chosen> chosen_{};  ///< algorithms for the shapes that were not refused

  static std::vector<ConvolutionShape> shapes() {
    std::vector<ConvolutionShape> all;
    for (const bool by_image : {false, true}) {
      for (const ConvolutionShape& s :
           {ConvolutionShape{.images = 3, .channels = 5, .height = 9, .width = 11, .filters = 6},
            ConvolutionShape{.images = 2,
                             .channels = 16,
                             .height = 12,
                             .width = 10,
                             .filters = 8,
                             .window_height = 3,
                             .window_width = 3,
                             .padding = 1},
            ConvolutionShape{.images = 2,
                             .channels = 3,
                             .height = 21,
                             .width = 18,
                             .filters = 7,
                             .window_height = 5,
                             .window_width = 3,
                             .stride = 2,
                             .padding = 2}})
        all.push_back(laid_out(s, by_image));
    }
    return all;
  }
};

TEST_F(ConvolutionsTest, AreTheSumsOfTheirDefinition) {
  for (const auto algorithms : {Algorithms::any, Algorithms::products}) {
    const auto strict = library(Math::fp32, algorithms);
    if (!strict) GTEST_SKIP() << "there is no library";
    for (const auto& shape : shapes()) expect_right(*strict, shape, 1e-4);
    EXPECT_GE(chosen_.size(), shapes().size() / 2);
    for (const auto& chosen : std::exchange(chosen_, {})) {
      EXPECT_FALSE(chosen.tf32);
      EXPECT_FALSE(chosen.algorithm.empty());
      EXPECT_FALSE(algorithms == Algorithms::products && chosen.transforms);
    }
  }
}

// Sums have 144 products of numbers up to 1. TF32 changes each factor by at most 2^-11, or by twice as much if the
// library truncates instead of rounding.
TEST_F(ConvolutionsTest, MayRoundFactors) {
  const auto rounding = library(Math::tf32, Algorithms::products);
  if (!rounding) GTEST_SKIP() << "there is no library";
  for (const auto& shape : shapes()) expect_right(*rounding, shape, 0.05);
}

TEST_F(ConvolutionsTest, WrongNumbersAreRefusedInASentence) {
  const auto strict = library(Math::fp32, Algorithms::any);
  if (!strict) GTEST_SKIP() << "there is no library";
  const auto refused = [&](const ConvolutionShape& shape, const char* why) {
    try {
      strict->plan(shape);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.call(), "convolutions_plan");
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  const auto right = laid_out({.images = 2, .channels = 3, .height = 4, .width = 4, .filters = 2}, true);
  auto wrong = right;
  wrong.filters = 0;
  refused(wrong, "filters 0 is not in 1…2147483647");
  wrong = right;
  wrong.padding = -1;
  refused(wrong, "padding -1");
  wrong = right;
  wrong.window_height = 5;
  refused(wrong, "the window's height 5 is more than the plane's 4 with its padding");
  wrong = right;
  wrong.out_channel = 15;
  refused(wrong, "the distance of result channels 15 is less than a plane's 16");
  EXPECT_THROW(strict->chosen(0), std::out_of_range);
}

TEST_F(LibraryTest, VersionsNameTheLibrary) {
  try {
    EXPECT_FALSE(Blas().version().empty());
    EXPECT_FALSE(Fft(16).version().empty());
    using enum Convolutions::Math;
    using enum Convolutions::Algorithms;
    EXPECT_FALSE(Convolutions(fp32, any).version().empty());
    std::printf("%s, %s, %s\n", Blas().version().c_str(), Fft(16).version().c_str(),
                Convolutions(fp32, any).version().c_str());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("tried"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace isthmus::device
