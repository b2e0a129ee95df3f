// Convolutions with the vendor's library. The fastest suitable algorithm is searched for once per process and shape.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/api/injection.hpp"
#include "device/api/library_arguments.hpp"
#include "device/gpu/convolution_library.hpp"

namespace isthmus::device {

namespace gpu {

void CheckedLibrary::check(const char* call, const char* function, int status) const {
  if (status == 0) return;
  const bool out_of_memory = statuses_.out_of_memory(status), unsupported = statuses_.unsupported(status);
  const auto words = reinterpret_cast<const char* (*)(int)>(find(statuses_.words));
  throw Error(out_of_memory ? ErrorKind::out_of_memory
              : unsupported ? ErrorKind::unsupported
                            : ErrorKind::failure,
              call,
              fmt::format("{} of {} returned status {}{}", function, path(), status,
                          words == nullptr ? "" : fmt::format(" ({})", words(status))),
              out_of_memory ? "free device memory"
              : unsupported ? "use convolution kernels of Isthmus"
                            : fmt::format("look up the status in {}'s reference", name()));
}

}  // namespace gpu

namespace {

std::array<std::int64_t, 13> numbers(const ConvolutionShape& s) {
  return {s.images, s.channels, s.height,   s.width,      s.filters,   s.window_height, s.window_width,
          s.stride, s.padding,  s.in_image, s.in_channel, s.out_image, s.out_channel};
}

}  // namespace

struct Convolutions::Library {
  Math math;
  Algorithms algorithms;
  int device = selected();
  std::unique_ptr<gpu::ConvolutionLibrary> vendor = gpu::load_convolution_library(math);
  struct Planned {
    std::unique_ptr<gpu::ConvolutionPlan> plan;
    Chosen chosen;
  };
  std::vector<Planned> plans{};

  bool suits(const gpu::Trial& trial) const {
    return trial.status == 0 && trial.same_bits && trial.workspace_bytes <= gpu::most_workspace &&
           !trial.name.empty() && (algorithms == Algorithms::any || !trial.transforms);
  }
  gpu::Trial fastest(const std::vector<gpu::Trial>& trials) const {
    const gpu::Trial* best = nullptr;
    std::vector<std::string> told;
    for (const auto& trial : trials) {
      told.push_back(fmt::format("{}: status {}, {} bytes", trial.number, trial.status, trial.workspace_bytes));
      if (suits(trial) && (best == nullptr || trial.milliseconds < best->milliseconds)) best = &trial;
    }
    if (best == nullptr)
      throw Error(
          ErrorKind::unsupported, gpu::plan_call,
          fmt::format(
              "{} has no deterministic algorithm for this convolution with a workspace of at most {} bytes ({})",
              vendor->name(), gpu::most_workspace, fmt::join(told, "; ")),
          "choose a smaller batch, or use convolution kernels of Isthmus");
    return *best;
  }
  const gpu::Trial& found(const ConvolutionShape& shape, gpu::ConvolutionPlan& plan) const {
    using Key = std::tuple<int, Math, Algorithms, std::array<std::int64_t, 13>>;
    static std::mutex mutex;
    static std::map<Key, gpu::Trial> all;
    const std::lock_guard lock(mutex);
    const Key key{device, math, algorithms, numbers(shape)};
    const auto known = all.find(key);
    return known != all.end() ? known->second : all.emplace(key, fastest(plan.trials())).first->second;
  }
};

Convolutions::Convolutions(Math math, Algorithms algorithms) : library_(nullptr) {
  injection_point(gpu::create_call);
  library_ = new Library{.math = math, .algorithms = algorithms};
}

Convolutions::~Convolutions() {
  delete library_;
}

std::string Convolutions::version() const {
  return library_->vendor->version();
}

std::size_t Convolutions::plan(const ConvolutionShape& shape) {
  injection_point(gpu::plan_call);
  check_shape(gpu::plan_call, shape);
  auto plan = library_->vendor->plan(shape);
  const gpu::Trial& found = library_->found(shape, *plan);
  plan->take(found);
  library_->plans.push_back({std::move(plan),
                             {.algorithm = found.name,
                              .tf32 = found.tf32,
                              .transforms = found.transforms,
                              .workspace_bytes = found.workspace_bytes}});
  return library_->plans.size() - 1;
}

const Convolutions::Chosen& Convolutions::chosen(std::size_t number) const {
  return library_->plans.at(number).chosen;
}

void Convolutions::run(Stream& stream, std::size_t number, const float* in, const float* filters, float* out,
                       void* workspace) {
  injection_point(gpu::run_call);
  const auto& [plan, chosen] = library_->plans.at(number);
  require_workspace(gpu::run_call, workspace, chosen.workspace_bytes);
  plan->run(stream, in, filters, out, workspace);
}

}  // namespace isthmus::device
