// Convolutions with cuDNN's legacy API, with our own definitions of the few functions and constants needed.

#include <fmt/format.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/gpu/convolution_library.hpp"

namespace isthmus::device::gpu {

namespace {

constexpr int fp32_data = 0, by_channel = 0, cross_correlation = 1;  // cudnnDataType_t, …Format_t, …Mode_t
constexpr int may_use_tf32 = 0, strict_fp32 = 3;                     // cudnnMathType_t

struct Algorithm {
  const char* name;
  bool transforms;
};
/// cudnnConvolutionFwdAlgo_t
constexpr std::array<Algorithm, 8> algorithms = {{{"IMPLICIT_GEMM", false},
                                                  {"IMPLICIT_PRECOMP_GEMM", false},
                                                  {"GEMM", false},
                                                  {"DIRECT", false},
                                                  {"FFT", true},
                                                  {"FFT_TILING", true},
                                                  {"WINOGRAD", true},
                                                  {"WINOGRAD_NONFUSED", true}}};

/// cudnnConvolutionFwdAlgoPerf_t
struct Performance {
  int algorithm, status;
  float milliseconds;
  std::size_t workspace_bytes;
  int same_bits, math;
  int reserved[3];
};

using SetStream = int (*)(Handle, void*);
using SetTensor = int (*)(Handle, int type, int n, int c, int h, int w, int n_stride, int c_stride, int h_stride,
                          int w_stride);
using SetFilter = int (*)(Handle, int type, int format, int k, int c, int h, int w);
using SetConvolution = int (*)(Handle, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                               int mode, int type);
using SetMath = int (*)(Handle, int math);
using Find = int (*)(Handle, Handle in, Handle filter, Handle convolution, Handle out, int asked, int* returned,
                     Performance*);
using Forward = int (*)(Handle, const void* alpha, Handle in, const void* x, Handle filter, const void* w,
                        Handle convolution, int algorithm, void* workspace, std::size_t workspace_bytes,
                        const void* beta, Handle out, void* y);
using GetVersion = std::size_t (*)();

/// Returns the library. It is never unloaded, and the kernels of its trials stay loaded, because they could not be
/// loaded behind a latch.
const CheckedLibrary& cudnn() {
  // Status codes of cuDNN 8 and 9 that need a specific error.
  static const auto* const library =
      new CheckedLibrary("cuDNN", {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"},
                         {.words = "cudnnGetErrorString",
                          .out_of_memory = [](int status) { return status == 2 || status == 4003 || status == 4004; },
                          .unsupported = [](int status) { return status == 9 || status / 1000 == 3; }});
  return *library;
}

Owned descriptor(const char* create, const char* destroy) {
  return {cudnn(), plan_call, create, destroy};
}

Owned tensor(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t n_stride,
             std::int64_t c_stride) {
  auto made = descriptor("cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor");
  cudnn().invoke<SetTensor>(plan_call, "cudnnSetTensor4dDescriptorEx", made.get(), fp32_data, as_int(n), as_int(c),
                            as_int(h), as_int(w), as_int(n_stride), as_int(c_stride), as_int(w), 1);
  return made;
}

class Plan : public ConvolutionPlan {
 public:
  Plan(Handle handle, bool strict, const ConvolutionShape& s)
      : handle_(handle),
        strict_(strict),
        in_(tensor(s.images, s.channels, s.height, s.width, s.in_image, s.in_channel)),
        out_(tensor(s.images, s.filters, s.out_height(), s.out_width(), s.out_image, s.out_channel)),
        filter_(descriptor("cudnnCreateFilterDescriptor", "cudnnDestroyFilterDescriptor")),
        convolution_(descriptor("cudnnCreateConvolutionDescriptor", "cudnnDestroyConvolutionDescriptor")) {
    cudnn().invoke<SetFilter>(plan_call, "cudnnSetFilter4dDescriptor", filter_.get(), fp32_data, by_channel,
                              as_int(s.filters), as_int(s.channels), as_int(s.window_height), as_int(s.window_width));
    const int padding = as_int(s.padding), stride = as_int(s.stride);
    cudnn().invoke<SetConvolution>(plan_call, "cudnnSetConvolution2dDescriptor", convolution_.get(), padding, padding,
                                   stride, stride, 1, 1, cross_correlation, fp32_data);
    use(plan_call, nullptr);  // a search runs kernels, and the stream of the last run may have been destroyed
    set_math(strict ? strict_fp32 : may_use_tf32);
  }

  std::vector<Trial> trials() override {
    std::array<Performance, 32> found{};
    int count = 0;
    cudnn().invoke<Find>(plan_call, "cudnnFindConvolutionForwardAlgorithm", handle_, in_.get(), filter_.get(),
                         convolution_.get(), out_.get(), static_cast<int>(found.size()), &count, found.data());
    std::vector<Trial> all;
    for (const Performance& one : std::span(found.data(), static_cast<std::size_t>(count))) {
      const auto number = static_cast<std::size_t>(one.algorithm);
      const bool known = number < algorithms.size();
      // A strict plan stays strict, no matter what a trial reports.
      const int math = strict_ ? strict_fp32 : one.math;
      all.push_back({.number = number,
                     .name = known ? algorithms[number].name : "",
                     .status = one.status,
                     .milliseconds = one.milliseconds,
                     .workspace_bytes = one.workspace_bytes,
                     .same_bits = one.same_bits == 1,
                     .transforms = known && algorithms[number].transforms,
                     .tf32 = math != strict_fp32,
                     .math = math});
    }
    return all;
  }

  void take(const Trial& trial) override {
    set_math(trial.math);
    algorithm_ = static_cast<int>(trial.number);
    workspace_bytes_ = trial.workspace_bytes;
  }

  void run(Stream& stream, const float* in, const float* filters, float* out, void* workspace) override {
    const float one = 1, zero = 0;
    use(run_call, stream.native_handle());
    cudnn().check(run_call, "cudnnConvolutionForward",
                  forward_(handle_, &one, in_.get(), in, filter_.get(), filters, convolution_.get(), algorithm_,
                           workspace, workspace_bytes_, &zero, out_.get(), out));
  }

 private:
  void use(const char* call, void* stream) { cudnn().check(call, "cudnnSetStream", set_stream_(handle_, stream)); }
  void set_math(int math) {
    cudnn().invoke<SetMath>(plan_call, "cudnnSetConvolutionMathType", convolution_.get(), math);
  }

  SetStream set_stream_ = cudnn().look_up<SetStream>("cudnnSetStream");
  Forward forward_ = cudnn().look_up<Forward>("cudnnConvolutionForward");
  Handle handle_;
  bool strict_;
  Owned in_, out_, filter_, convolution_;
  int algorithm_ = 0;
  std::size_t workspace_bytes_ = 0;
};

class Cudnn : public ConvolutionLibrary {
 public:
  explicit Cudnn(bool strict) : ConvolutionLibrary(cudnn()), strict_(strict) {}

  std::string version() const override {
    const std::size_t version = file_.look_up<GetVersion>("cudnnGetVersion")();
    // Version 91900 means 9.19.0; before version 9, 8906 meant 8.9.6.
    const std::size_t of_major = version >= 90000 ? 10000 : 1000;
    return fmt::format("cuDNN {}.{}.{}", version / of_major, version % of_major / 100, version % 100);
  }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override {
    return std::make_unique<Plan>(handle_.get(), strict_, shape);
  }

 private:
  bool strict_;
  Owned handle_{file_, create_call, "cudnnCreate", "cudnnDestroy"};
};

}  // namespace

std::unique_ptr<ConvolutionLibrary> load_convolution_library(Convolutions::Math math) {
  return std::make_unique<Cudnn>(math == Convolutions::Math::fp32);
}

}  // namespace isthmus::device::gpu
