// Convolutions with MIOpen, with our own definitions of the few functions and constants needed. "Find 2.0" tries the
// algorithms on memory that MIOpen allocates; the immediate mode runs an algorithm selected by its number.

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/gpu/convolution_library.hpp"

namespace isthmus::device::gpu {

namespace {

constexpr int fp32_data = 1;                        // miopenDataType_t
constexpr int cross_correlation = 0;                // miopenConvolutionMode_t
constexpr int deterministic = 1;                    // miopenConvolutionAttrib_t
constexpr int forward_direction = 0;                // miopenProblemDirection_t
constexpr int input = 1, weights = 2, results = 3;  // miopenTensorArgumentId_t

struct Algorithm {
  int number;
  const char* name;
  bool transforms;
};
/// miopenConvAlgorithm_t
constexpr std::array<Algorithm, 5> algorithms = {
    {{0, "GEMM", false}, {1, "DIRECT", false}, {2, "FFT", true}, {3, "WINOGRAD", true}, {5, "IMPLICIT_GEMM", false}}};

/// Environment variables for a search that does all its trials and, in versions that support it, does not use TF32.
/// Previous values are overwritten and not restored. A user's find database is neither read nor written: it does not
/// take our workspace limit into account, and our results would invalidate it.
constexpr std::array<std::array<const char*, 2>, 3> environment = {
    {{"MIOPEN_FIND_MODE", "NORMAL"}, {"MIOPEN_DEBUG_DISABLE_FIND_DB", "1"}, {"MIOPEN_TF32_OVERRIDE", "0"}}};

using SetStream = int (*)(Handle, void*);
using SetTensor = int (*)(Handle, int type, int n, int c, int h, int w);
using SetConvolution = int (*)(Handle, int mode, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                               int dilation_w);
using SetAttribute = int (*)(Handle, int attribute, int value);
using SetProblemTensor = int (*)(Handle, int argument, Handle tensor);
using SetWorkspaceLimit = int (*)(Handle, std::size_t);
using Find = int (*)(Handle, Handle problem, Handle options, Handle* solutions, std::size_t* returned,
                     std::size_t asked);
using GetTime = int (*)(Handle, float*);
using GetWorkspace = int (*)(Handle, std::size_t*);
using GetSolver = int (*)(Handle, std::uint64_t*);
using GetAlgorithm = int (*)(std::uint64_t solver, int*);
using Compile = int (*)(Handle, Handle filter, Handle in, Handle convolution, Handle out, std::uint64_t solver);
using Forward = int (*)(Handle, Handle filter, const void* w, Handle in, const void* x, Handle convolution, Handle out,
                        void* y, void* workspace, std::size_t workspace_bytes, std::uint64_t solver);
using GetVersion = int (*)(std::size_t* major, std::size_t* minor, std::size_t* patch);

/// Returns the library. It is never unloaded, so the kernels that it has compiled stay loaded.
const CheckedLibrary& miopen() {
  static const auto* const library = [] {
    for (const auto& [variable, value] : environment) static_cast<void>(setenv(variable, value, 1));
    return new CheckedLibrary("MIOpen", {"libMIOpen.so.1", "libMIOpen.so"},
                              {.words = "miopenGetErrorString",
                               .out_of_memory = [](int status) { return status == 4; },
                               .unsupported = [](int status) { return status == 6 || status == 8; }});
  }();
  return *library;
}

Owned make(const char* create, const char* destroy) {
  return {miopen(), plan_call, create, destroy};
}

Owned tensor(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  auto made = make("miopenCreateTensorDescriptor", "miopenDestroyTensorDescriptor");
  miopen().invoke<SetTensor>(plan_call, "miopenSet4dTensorDescriptor", made.get(), fp32_data, as_int(n), as_int(c),
                             as_int(h), as_int(w));
  return made;
}

/// Throws unless planes have no gaps: no fast algorithm of MIOpen supports interleaved planes, and few support gaps.
void require_packed_images(const ConvolutionShape& s) {
  const auto packed = [&s](std::int64_t image, std::int64_t channels, std::int64_t channel, std::int64_t plane) {
    return (s.images == 1 || image == channels * plane) && (channels == 1 || channel == plane);
  };
  if (packed(s.in_image, s.channels, s.in_channel, s.height * s.width) &&
      packed(s.out_image, s.filters, s.out_channel, s.out_height() * s.out_width()))
    return;
  throw Error(ErrorKind::unsupported, plan_call, "MIOpen needs images that are contiguous in memory",
              "set layout=images, or use convolution kernels of Isthmus");
}

/// Handle and the stream that was last set for it; remembered because setting the stream takes time.
struct Session {
  Owned handle;
  void* stream = nullptr;
};

class Plan : public ConvolutionPlan {
 public:
  Plan(Session& session, const ConvolutionShape& s)
      : session_(session),
        in_(tensor(s.images, s.channels, s.height, s.width)),
        out_(tensor(s.images, s.filters, s.out_height(), s.out_width())),
        filter_(tensor(s.filters, s.channels, s.window_height, s.window_width)),
        convolution_(make("miopenCreateConvolutionDescriptor", "miopenDestroyConvolutionDescriptor")) {
    const int padding = as_int(s.padding), stride = as_int(s.stride);
    miopen().invoke<SetConvolution>(plan_call, "miopenInitConvolutionDescriptor", convolution_.get(), cross_correlation,
                                    padding, padding, stride, stride, 1, 1);
    miopen().invoke<SetAttribute>(plan_call, "miopenSetConvolutionAttribute", convolution_.get(), deterministic, 1);
    use(plan_call, nullptr);  // a search runs kernels, and the stream of the last run may have been destroyed
  }

  std::vector<Trial> trials() override {
    const Owned problem(miopen(), plan_call, "miopenCreateConvProblem", "miopenDestroyProblem", convolution_.get(),
                        forward_direction);
    for (const auto& [argument, descriptor] : {std::pair{input, &in_}, {weights, &filter_}, {results, &out_}})
      miopen().invoke<SetProblemTensor>(plan_call, "miopenSetProblemTensorDescriptor", problem.get(), argument,
                                        descriptor->get());
    const Owned options = make("miopenCreateFindOptions", "miopenDestroyFindOptions");
    miopen().invoke<SetWorkspaceLimit>(plan_call, "miopenSetFindOptionWorkspaceLimit", options.get(), most_workspace);
    const auto destroy = miopen().look_up<Owned::Destroy>("miopenDestroySolution");
    std::array<Handle, 32> found{};
    std::size_t count = 0;
    miopen().invoke<Find>(plan_call, "miopenFindSolutions", session_.handle.get(), problem.get(), options.get(),
                          found.data(), &count, found.size());
    std::vector<Owned> solutions;
    for (std::size_t i = 0; i < count; ++i) solutions.emplace_back(found[i], destroy);
    std::vector<Trial> all;
    for (const Owned& solution : solutions) all.push_back(trial(solution.get()));
    return all;
  }

  /// Compiles the solution, so that the first run does not have to.
  void take(const Trial& trial) override {
    miopen().invoke<Compile>(plan_call, "miopenConvolutionForwardCompileSolution", session_.handle.get(), filter_.get(),
                             in_.get(), convolution_.get(), out_.get(), trial.number);
    solver_ = trial.number;
    workspace_bytes_ = trial.workspace_bytes;
  }

  void run(Stream& stream, const float* in, const float* filters, float* out, void* workspace) override {
    use(run_call, stream.native_handle());
    // MIOpen does not accept a non-null workspace of 0 bytes.
    miopen().check(run_call, "miopenConvolutionForwardImmediate",
                   forward_(session_.handle.get(), filter_.get(), filters, in_.get(), in, convolution_.get(),
                            out_.get(), out, workspace_bytes_ == 0 ? nullptr : workspace, workspace_bytes_, solver_));
  }

 private:
  void use(const char* call, void* stream) {
    if (session_.stream == stream) return;
    miopen().check(call, "miopenSetStream", set_stream_(session_.handle.get(), stream));
    session_.stream = stream;
  }
  static Trial trial(Handle solution) {
    Trial trial;
    int algorithm = 0;
    miopen().invoke<GetTime>(plan_call, "miopenGetSolutionTime", solution, &trial.milliseconds);
    miopen().invoke<GetWorkspace>(plan_call, "miopenGetSolutionWorkspaceSize", solution, &trial.workspace_bytes);
    miopen().invoke<GetSolver>(plan_call, "miopenGetSolutionSolverId", solution, &trial.number);
    miopen().invoke<GetAlgorithm>(plan_call, "miopenGetSolverIdConvAlgorithm", trial.number, &algorithm);
    for (const auto& one : algorithms) {
      if (one.number != algorithm) continue;
      trial.name = fmt::format("{} (solver {})", one.name, trial.number);
      trial.transforms = one.transforms;
    }
    return trial;
  }

  SetStream set_stream_ = miopen().look_up<SetStream>("miopenSetStream");
  Forward forward_ = miopen().look_up<Forward>("miopenConvolutionForwardImmediate");
  Session& session_;
  Owned in_, out_, filter_, convolution_;
  std::uint64_t solver_ = 0;
  std::size_t workspace_bytes_ = 0;
};

class Miopen : public ConvolutionLibrary {
 public:
  Miopen() : ConvolutionLibrary(miopen()) {
    // Look up the newest function that is needed, so that a version without it is rejected before any search.
    static_cast<void>(file_.look_up<GetAlgorithm>("miopenGetSolverIdConvAlgorithm"));
  }

  std::string version() const override {
    std::size_t major = 0, minor = 0, patch = 0;
    file_.invoke<GetVersion>(create_call, "miopenGetVersion", &major, &minor, &patch);
    return fmt::format("MIOpen {}.{}.{}", major, minor, patch);
  }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override {
    require_packed_images(shape);
    return std::make_unique<Plan>(session_, shape);
  }

 private:
  Session session_{.handle = {file_, create_call, "miopenCreate", "miopenDestroy"}};
};

}  // namespace

std::unique_ptr<ConvolutionLibrary> load_convolution_library(Convolutions::Math math) {
  if (math != Convolutions::Math::fp32)
    throw Error(ErrorKind::unsupported, create_call,
                "MIOpen does not report which of its algorithms round their factors", "use strict fp32");
  return std::make_unique<Miopen>();
}

}  // namespace isthmus::device::gpu
