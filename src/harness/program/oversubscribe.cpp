#include "harness/program/oversubscribe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "harness/plan/names.hpp"
#include "harness/plan/registry.hpp"
#include "memory/host_memory.hpp"
#include "trace/uvm/driver.hpp"
#include "trace/uvm/source.hpp"
#include "workload/driver_prefetch.hpp"

namespace isthmus::harness {

namespace {

constexpr double kMostRatio = 4;
constexpr std::size_t kBlock = std::size_t{2} << 20;
constexpr double kHostShare = 1.1;                         // leaves room for page lists of the checks and other work
constexpr std::size_t kHostMargin = std::size_t{2} << 30;  // reserved for the system
constexpr double kGi = 1 << 30;
constexpr double kLeastHangLimit = 120, kHangSecondsPerGi = 20;  // a page fault takes 20 µs, an eviction longer
constexpr double kLeastHangAfter = 1;                            // progress is reported at most ten times per second

constexpr RefusedDriver kRefusedDrivers[] = {
    {595,
     "it is untested, and with HMM it is reported to deadlock the whole machine (NVIDIA/open-gpu-kernel-modules"
     " issue 1223)"},
};

std::string text(double bytes) {
  return memory::format_bytes(bytes);
}

/// Returns the axis that sets the case's managed bytes; nullptr if they cannot exceed the device's memory.
const std::string* bytes_axis_of(const CaseSpec& spec) {
  const auto& axis = spec.workload->description().oversubscribed;
  return axis ? &*axis : nullptr;
}

void check_case(const CaseSpec& spec) {
  const auto* axis = bytes_axis_of(spec);
  if (axis == nullptr) {
    std::vector<std::string> able;
    for (const auto* workload : all_workloads()) {
      if (workload->description().oversubscribed) able.push_back(workload->name());
    }
    throw InputError(
        fmt::format("{} does not support --oversubscribe; choose from {}", spec.workload->name(),
                    able.empty() ? "nothing, because this program has no such workload" : join(able, ", ")));
  }
  if (const auto* memory = spec.find("memory"); memory != nullptr && *memory != AxisValue("managed"))
    throw InputError(fmt::format("--oversubscribe is for managed memory, but {} has memory={}; set memory=managed",
                                 spec.workload->name(), to_text(*memory)));
}

/// Returns why the driver is refused; empty if it is not.
std::string refused_driver(const DeviceState& state) {
  if (state.backend == device::Backend::emulator) return "";
  if (state.backend == device::Backend::hip)
    return "--oversubscribe is for NVIDIA GPUs only, because AMD's driver has not been tested with more managed memory "
           "than the GPU has";
  const auto version = trace::uvm::parse_driver_version(state.driver);
  if (!version)
    return fmt::format(
        "--oversubscribe is refused, because the driver does not report its version ('{}') and some versions hang the "
        "machine",
        state.driver);
  for (const auto& [branch, reason] : kRefusedDrivers) {
    if (branch == version->branch)
      return fmt::format("--oversubscribe is refused on driver branch {}: {}; use another driver", branch, reason);
  }
  if (!trace::uvm::is_known_branch(version->branch))
    return fmt::format("--oversubscribe is refused on driver branch {}, which has not been checked; use another driver",
                       version->branch);
  return "";
}

}  // namespace

double parse_ratio(const std::string& words) {
  char* end = nullptr;
  const double ratio = std::strtod(words.c_str(), &end);
  if (words.empty() || *end != '\0' || !std::isfinite(ratio))
    throw InputError(fmt::format("--oversubscribe takes a ratio such as 1.25, not '{}'", words));
  if (!(ratio > 1) || ratio > kMostRatio)
    throw InputError(fmt::format("--oversubscribe is {}, which is out of range: it must be above 1 and at most {:g}",
                                 words, kMostRatio));
  return ratio;
}

void check_oversubscription(const Oversubscription& asked, const Request& request, const std::vector<CaseSpec>& cases,
                            int processes, int ranks) {
  if (!asked.ratio) {
    if (asked.allowed) throw InputError("--allow-oversubscription has no effect without --oversubscribe RATIO");
    if (asked.hang_after) throw InputError("--hang-after has no effect without --oversubscribe RATIO");
    return;
  }
  if (!asked.allowed)
    throw InputError(
        "--oversubscribe is refused, because a driver that evicts pages can hang the GPU and the host for all of their "
        "users; if nobody else uses this host, add --allow-oversubscription");
  if (ranks > 1)
    throw InputError(
        fmt::format("--oversubscribe is for one process, but {} ranks were started, which together would need {} times "
                    "the memory; start one",
                    ranks, ranks));
  if (asked.hang_after && *asked.hang_after < kLeastHangAfter)
    throw InputError(
        fmt::format("--hang-after {:g} would end any run; choose {:g} s or more", *asked.hang_after, kLeastHangAfter));
  if (getpid() == 1)
    throw InputError(
        "--oversubscribe is refused in a container's first process, because nothing in the container can end it; start "
        "the container with an init");
  if (processes > 1) throw InputError("--oversubscribe runs in one process that another one watches; omit --processes");
  if (const auto* preset = request.workloads.front().preset)
    throw InputError(fmt::format("--oversubscribe and preset {} both set the bytes; omit one of them", preset->name));
  for (const auto& spec : cases) check_case(spec);
  const auto sets_bytes = [&](const CaseSpec& spec) {
    return std::ranges::find(request.settings, *bytes_axis_of(spec), &Setting::axis) != request.settings.end();
  };
  if (request.names_sizes || std::ranges::any_of(cases, sets_bytes))
    throw InputError("--oversubscribe sets the bytes; omit --size, --size-sweep and --set of the bytes");
}

std::span<const RefusedDriver> refused_drivers() {
  return kRefusedDrivers;
}

std::string refused_on(const DeviceState& state) {
  const auto& [processes, mig] = state.occupancy;
  if (auto refused = refused_driver(state); !refused.empty()) return refused;
  if (!mig)
    return "--oversubscribe is refused, because NVML does not report whether the GPU is split (MIG); check the NVML "
           "library";
  if (*mig)
    return "--oversubscribe is refused on a GPU in MIG mode, because it could hang the users of the other instances";
  if (!processes)
    return "--oversubscribe is refused, because NVML does not report who uses the GPU; check the NVML library";
  if (!processes->empty())
    return fmt::format(
        "--oversubscribe is refused, because other processes use the GPU ({}); wait until they have ended",
        fmt::join(*processes, ", "));
  return "";
}

std::size_t oversubscribed_bytes(double ratio, std::size_t free) {
  const double wanted = ratio * static_cast<double>(free);
  return static_cast<std::size_t>(std::ceil(wanted / static_cast<double>(kBlock))) * kBlock;
}

double hang_limit(std::size_t footprint) {
  return kLeastHangLimit + kHangSecondsPerGi * static_cast<double>(footprint) / kGi;
}

void set_footprints(std::vector<CaseSpec>& cases, double ratio, std::size_t free,
                    std::optional<std::size_t> available) {
  const std::size_t footprint = oversubscribed_bytes(ratio, free);
  const double bytes = static_cast<double>(footprint), wanted = kHostShare * bytes + kHostMargin;
  if (!available)
    throw InputError(
        "--oversubscribe is refused, because the amount of available host memory is unknown; set ISTHMUS_HOST_MEMORY");
  if (wanted > static_cast<double>(*available))
    throw InputError(
        fmt::format("--oversubscribe {:g} needs {} of host memory for {} and its overhead, but {} are available; "
                    "choose a smaller ratio",
                    ratio, text(wanted), text(bytes), text(static_cast<double>(*available))));
  for (auto& spec : cases) {
    if (const auto* value = spec.find(workload::kDriverPrefetch)) {
      const auto name = to_text(*value);
      if (const auto most = workload::most_driver_prefetch_bytes(name); footprint > most)
        throw InputError(
            fmt::format("driver_prefetch={} supports at most {} of managed memory, but --oversubscribe {:g} is {}: the "
                        "driver keeps a range for each piece; omit it",
                        name, text(static_cast<double>(most)), ratio, text(bytes)));
    }
    for (auto& [axis, value] : spec.axes) {
      if (axis == *bytes_axis_of(spec)) value = static_cast<std::int64_t>(footprint);
    }
    spec.size.reset();
    spec.oversubscribed = fmt::format("{:g} times the {} bytes that were free on the device", ratio, free);
  }
}

void EventFile::begin(const std::string& path, const std::string& label) {
  const std::lock_guard lock(mutex_);
  path_ = path;
  problem_.clear();
  try {
    trace::uvm::TraceFacts facts{{"case", label}, {"source", "isthmus-bench"}};
    if (const auto driver = trace::uvm::driver_of_device()) facts["driver"] = driver->driver_version();
    file_.emplace(path, facts);
  } catch (const std::exception& failure) {
    problem_ = failure.what();
  }
}

void EventFile::end(bool failed) {
  const std::lock_guard lock(mutex_);
  if (!file_) return;
  try {
    if (failed && problem_.empty()) file_->end();
  } catch (const std::exception& failure) {
    problem_ = failure.what();
  }
  file_.reset();
  if (!failed) static_cast<void>(std::remove(path_.c_str()));
}

void EventFile::keep(std::span<const trace::uvm::Entry> entries, std::uint64_t dropped) noexcept {
  watchdog_.progress();
  const std::lock_guard lock(mutex_);
  if (!file_ || !problem_.empty()) return;
  try {
    file_->append(entries, dropped, 0);
  } catch (const std::exception& failure) {
    problem_ = failure.what();
  }
}

std::string EventFile::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace isthmus::harness
