// Convolutions by cuDNN's older interface, with our own definitions of the few functions and numbers of it that are
// needed.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/gpu/vendor_library.hpp"
#include "device/injection.hpp"
#include "device/library_arguments.hpp"

namespace isthmus::device {

namespace {

constexpr auto library_files = {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"};
constexpr int fp32_data = 0, by_channel = 0, cross_correlation = 1;  // cudnnDataType_t, …Format_t, …Mode_t
constexpr int may_use_tf32 = 0, strict_fp32 = 3;                     // cudnnMathType_t
constexpr std::size_t most_workspace = std::size_t{2} << 30;

struct AlgorithmName {
  const char* name;
  bool transforms;
};
/// cudnnConvolutionFwdAlgo_t
constexpr std::array<AlgorithmName, 8> algorithm_names = {{{"IMPLICIT_GEMM", false},
                                                           {"IMPLICIT_PRECOMP_GEMM", false},
                                                           {"GEMM", false},
                                                           {"DIRECT", false},
                                                           {"FFT", true},
                                                           {"FFT_TILING", true},
                                                           {"WINOGRAD", true},
                                                           {"WINOGRAD_NONFUSED", true}}};

/// cudnnConvolutionFwdAlgoPerf_t
struct Trial {
  int algorithm, status;
  float milliseconds;
  std::size_t workspace_bytes;
  int same_bits, math;
  int reserved[3];
};

using Handle = void*;
using Create = int (*)(Handle*);
using Destroy = int (*)(Handle);
using SetStream = int (*)(Handle, void*);
using SetTensor = int (*)(Handle, int type, int n, int c, int h, int w, int n_stride, int c_stride, int h_stride,
                          int w_stride);
using SetFilter = int (*)(Handle, int type, int format, int k, int c, int h, int w);
using SetConvolution = int (*)(Handle, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w,
                               int mode, int type);
using SetMath = int (*)(Handle, int math);
using Find = int (*)(Handle, Handle in, Handle filter, Handle convolution, Handle out, int asked, int* returned,
                     Trial*);
using Forward = int (*)(Handle, const void* alpha, Handle in, const void* x, Handle filter, const void* w,
                        Handle convolution, int algorithm, void* workspace, std::size_t workspace_bytes,
                        const void* beta, Handle out, void* y);
using GetVersion = std::size_t (*)();
using GetErrorString = const char* (*)(int);

/// What a shape was found to be fastest with.
struct Found {
  int algorithm, math;
  std::size_t workspace_bytes;
};

std::array<std::int64_t, 13> numbers(const ConvolutionShape& s) {
  return {s.images, s.channels, s.height,   s.width,      s.filters,   s.window_height, s.window_width,
          s.stride, s.padding,  s.in_image, s.in_channel, s.out_image, s.out_channel};
}

}  // namespace

struct Convolutions::Library {
  /// Stays loaded, with the kernels that it has tried: they could not be loaded behind a latch.
  static const gpu::VendorLibrary& loaded() {
    static const auto* const library = new gpu::VendorLibrary("cuDNN", library_files, "convolutions_create");
    return *library;
  }

  const gpu::VendorLibrary& file = loaded();
  Math math;
  Algorithms algorithms;
  int device = selected();
  Handle handle = nullptr;
  SetStream set_stream = file.look_up<SetStream>("cudnnSetStream");
  Forward forward = file.look_up<Forward>("cudnnConvolutionForward");

  void check(const char* call, const char* function, int status) const {
    if (status == 0) return;
    // Of cuDNN 8, and of 9: the numbers that say something beyond "failed".
    const bool out_of_memory = status == 2 || status == 4003 || status == 4004;
    const bool unsupported = status == 9 || status / 1000 == 3;
    const auto words = reinterpret_cast<GetErrorString>(file.find("cudnnGetErrorString"));
    throw Error(out_of_memory ? ErrorKind::out_of_memory
                : unsupported ? ErrorKind::unsupported
                              : ErrorKind::failure,
                call,
                fmt::format("{} of {} returned status {}{}", function, file.path(), status,
                            words == nullptr ? "" : fmt::format(" ({})", words(status))),
                out_of_memory ? "free device memory"
                : unsupported ? "convolve by kernels of ours"
                              : "look the status up in cuDNN's reference");
  }

  /// A handle or a descriptor, and how it is given back.
  class Held {
   public:
    Held(const Library& library, const char* call, const char* create, const char* destroy)
        : destroy_(library.file.look_up<Destroy>(destroy)) {
      library.check(call, create, library.file.look_up<Create>(create)(&handle_));
    }
    Held(Held&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (handle_ != nullptr) static_cast<void>(destroy_(handle_));
    }
    Handle get() const { return handle_; }

   private:
    Handle handle_ = nullptr;
    Destroy destroy_;
  };
  struct Plan {
    Held in, out, filter, convolution;
    int algorithm;
    Chosen chosen;
  };
  std::vector<Plan> plans{};

  Library(Math math_, Algorithms algorithms_) : math(math_), algorithms(algorithms_) {}
  ~Library() {
    plans.clear();
    if (handle != nullptr) static_cast<void>(file.look_up<Destroy>("cudnnDestroy")(handle));
  }

  Held descriptor(const char* call, const char* create, const char* destroy) const {
    return {*this, call, create, destroy};
  }
  bool suits(const Trial& trial) const {
    return trial.status == 0 && trial.same_bits == 1 && trial.workspace_bytes <= most_workspace &&
           trial.algorithm >= 0 && static_cast<std::size_t>(trial.algorithm) < algorithm_names.size() &&
           (algorithms == Algorithms::any || !algorithm_names[static_cast<std::size_t>(trial.algorithm)].transforms);
  }
  Found find(const char* call, const Plan& plan) const {
    std::array<Trial, 32> trials{};
    int count = 0;
    check(call, "cudnnFindConvolutionForwardAlgorithm",
          file.look_up<Find>("cudnnFindConvolutionForwardAlgorithm")(
              handle, plan.in.get(), plan.filter.get(), plan.convolution.get(), plan.out.get(),
              static_cast<int>(trials.size()), &count, trials.data()));
    const Trial* best = nullptr;
    std::vector<std::string> told;
    for (const Trial& trial : std::span(trials.data(), static_cast<std::size_t>(count))) {
      told.push_back(fmt::format("{}: status {}, {} bytes", trial.algorithm, trial.status, trial.workspace_bytes));
      if (suits(trial) && (best == nullptr || trial.milliseconds < best->milliseconds)) best = &trial;
    }
    if (best == nullptr)
      throw Error(ErrorKind::unsupported, call,
                  fmt::format("cuDNN has no algorithm here whose results are the same each time and whose workspace is "
                              "at most {} bytes ({})",
                              most_workspace, fmt::join(told, "; ")),
                  "make the batch smaller, or convolve by kernels of ours");
    // What was strict stays so, whatever a trial says of itself.
    return {best->algorithm, math == Math::fp32 ? strict_fp32 : best->math, best->workspace_bytes};
  }
  const Found& found(const char* call, const ConvolutionShape& shape, const Plan& plan) const {
    using Key = std::tuple<int, Math, Algorithms, std::array<std::int64_t, 13>>;
    static std::mutex mutex;
    static std::map<Key, Found> all;
    const std::lock_guard lock(mutex);
    const Key key{device, math, algorithms, numbers(shape)};
    const auto known = all.find(key);
    return known != all.end() ? known->second : all.emplace(key, find(call, plan)).first->second;
  }
};

Convolutions::Convolutions(Math math, Algorithms algorithms) : library_(nullptr) {
  constexpr const char* call = "convolutions_create";
  injection_point(call);
  auto library = std::make_unique<Library>(math, algorithms);
  library->check(call, "cudnnCreate", library->file.look_up<Create>("cudnnCreate")(&library->handle));
  library_ = library.release();
}

Convolutions::~Convolutions() {
  delete library_;
}

std::string Convolutions::version() const {
  const std::size_t version = library_->file.look_up<GetVersion>("cudnnGetVersion")();
  // 91900 is 9.19.0; before 9, 8906 was 8.9.6.
  const std::size_t of_major = version >= 90000 ? 10000 : 1000;
  return fmt::format("cuDNN {}.{}.{}", version / of_major, version % of_major / 100, version % 100);
}

std::size_t Convolutions::plan(const ConvolutionShape& shape) {
  constexpr const char* call = "convolutions_plan";
  injection_point(call);
  check_shape(call, shape);
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  const auto& file = library_->file;
  const auto descriptor = [&](const char* create, const char* destroy) {
    return library_->descriptor(call, create, destroy);
  };
  const auto tensor = [&] { return descriptor("cudnnCreateTensorDescriptor", "cudnnDestroyTensorDescriptor"); };
  Library::Plan plan{.in = tensor(),
                     .out = tensor(),
                     .filter = descriptor("cudnnCreateFilterDescriptor", "cudnnDestroyFilterDescriptor"),
                     .convolution = descriptor("cudnnCreateConvolutionDescriptor", "cudnnDestroyConvolutionDescriptor"),
                     .algorithm = 0,
                     .chosen = {}};
  const auto set_tensor = file.look_up<SetTensor>("cudnnSetTensor4dDescriptorEx");
  library_->check(
      call, "cudnnSetTensor4dDescriptorEx",
      set_tensor(plan.in.get(), fp32_data, number(shape.images), number(shape.channels), number(shape.height),
                 number(shape.width), number(shape.in_image), number(shape.in_channel), number(shape.width), 1));
  library_->check(call, "cudnnSetTensor4dDescriptorEx",
                  set_tensor(plan.out.get(), fp32_data, number(shape.images), number(shape.filters),
                             number(shape.out_height()), number(shape.out_width()), number(shape.out_image),
                             number(shape.out_channel), number(shape.out_width()), 1));
  library_->check(call, "cudnnSetFilter4dDescriptor",
                  file.look_up<SetFilter>("cudnnSetFilter4dDescriptor")(
                      plan.filter.get(), fp32_data, by_channel, number(shape.filters), number(shape.channels),
                      number(shape.window_height), number(shape.window_width)));
  const int padding = number(shape.padding), stride = number(shape.stride);
  library_->check(call, "cudnnSetConvolution2dDescriptor",
                  file.look_up<SetConvolution>("cudnnSetConvolution2dDescriptor")(
                      plan.convolution.get(), padding, padding, stride, stride, 1, 1, cross_correlation, fp32_data));
  const auto set_math = [&](int math) {
    library_->check(call, "cudnnSetConvolutionMathType",
                    file.look_up<SetMath>("cudnnSetConvolutionMathType")(plan.convolution.get(), math));
  };
  set_math(library_->math == Math::fp32 ? strict_fp32 : may_use_tf32);
  const Found found = library_->found(call, shape, plan);
  set_math(found.math);
  const auto& name = algorithm_names[static_cast<std::size_t>(found.algorithm)];
  plan.algorithm = found.algorithm;
  plan.chosen = {.algorithm = name.name,
                 .tf32 = found.math != strict_fp32,
                 .transforms = name.transforms,
                 .workspace_bytes = found.workspace_bytes};
  library_->plans.push_back(std::move(plan));
  return library_->plans.size() - 1;
}

const Convolutions::Chosen& Convolutions::chosen(std::size_t number) const {
  return library_->plans.at(number).chosen;
}

void Convolutions::run(Stream& stream, std::size_t number, const float* in, const float* filters, float* out,
                       void* workspace) {
  constexpr const char* call = "convolutions_run";
  injection_point(call);
  const auto& plan = library_->plans.at(number);
  need_workspace(call, workspace, plan.chosen.workspace_bytes);
  const float one = 1, zero = 0;
  library_->check(call, "cudnnSetStream", library_->set_stream(library_->handle, stream.native_handle()));
  library_->check(
      call, "cudnnConvolutionForward",
      library_->forward(library_->handle, &one, plan.in.get(), in, plan.filter.get(), filters, plan.convolution.get(),
                        plan.algorithm, workspace, plan.chosen.workspace_bytes, &zero, plan.out.get(), out));
}

}  // namespace isthmus::device
