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
constexpr double kHostShare = 1.1;                         // the checks have lists of pages, the host has other work
constexpr std::size_t kHostMargin = std::size_t{2} << 30;  // of the system
constexpr double kGi = 1 << 30;
constexpr double kLeastHangLimit = 120, kHangSecondsPerGi = 20;  // a page fault takes 20 µs, an eviction more
constexpr double kLeastHangAfter = 1;                            // signs of life come ten times a second at most

constexpr RefusedDriver kRefusedDrivers[] = {
    {595,
     "it is untested, and with HMM it is reported to deadlock the whole machine (NVIDIA/open-gpu-kernel-modules"
     " issue 1223)"},
};

std::string text(double bytes) {
  return memory::format_bytes(bytes);
}

/// The axis that is its managed bytes; nullptr where it cannot have more than the device has.
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
    throw InputError(fmt::format("{} takes no --oversubscribe; choose from {}", spec.workload->name(),
                                 able.empty() ? "nothing: this program has no such workload" : join(able, ", ")));
  }
  if (const auto* memory = spec.find("memory"); memory != nullptr && *memory != AxisValue("managed"))
    throw InputError(fmt::format("--oversubscribe is for managed memory, and {} has memory={}; set memory=managed",
                                 spec.workload->name(), to_text(*memory)));
}

/// Empty where the driver is not refused.
std::string refused_driver(const DeviceState& state) {
  if (state.backend == device::Backend::emulator) return "";
  if (state.backend == device::Backend::hip)
    return "--oversubscribe is for NVIDIA GPUs: what AMD's driver does when memory is short has not been checked";
  const auto version = trace::uvm::parse_driver_version(state.driver);
  if (!version)
    return fmt::format(
        "--oversubscribe is refused, since the driver does not report its version ('{}') and some versions hang the "
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
    throw InputError(
        fmt::format("--oversubscribe is {}, which is out of range: it must be above 1, where all fits, and at most "
                    "{:g}",
                    words, kMostRatio));
  return ratio;
}

void check_oversubscription(const Oversubscription& asked, const Request& request, const std::vector<CaseSpec>& cases,
                            int processes, int ranks) {
  if (!asked.ratio) {
    if (asked.allowed) throw InputError("--allow-oversubscription allows nothing without --oversubscribe RATIO");
    if (asked.hang_after)
      throw InputError("--hang-after is for runs that may hang a GPU, and this has no --oversubscribe RATIO");
    return;
  }
  if (!asked.allowed)
    throw InputError(
        "--oversubscribe is refused: a driver that evicts can hang the GPU and the host and disturb all who use them, "
        "so "
        "it is never for shared hosts; where nobody else uses this host, say so by --allow-oversubscription");
  if (ranks > 1)
    throw InputError(
        fmt::format("--oversubscribe is for one process, and {} ranks were started: together they would want {} times "
                    "the memory; start one",
                    ranks, ranks));
  if (asked.hang_after && *asked.hang_after < kLeastHangAfter)
    throw InputError(
        fmt::format("--hang-after {:g} would end any run; take {:g} s or more", *asked.hang_after, kLeastHangAfter));
  if (getpid() == 1)
    throw InputError(
        "--oversubscribe is refused in a container's first process, since nothing in it can end that one; start the "
        "container with an init");
  if (processes > 1)
    throw InputError("--oversubscribe is for one process that is watched by another; leave --processes out");
  if (const auto* preset = request.workloads.front().preset)
    throw InputError(
        fmt::format("--oversubscribe says how many bytes, and so does preset {}; leave one of them out", preset->name));
  for (const auto& spec : cases) check_case(spec);
  const auto sets_bytes = [&](const CaseSpec& spec) {
    return std::ranges::find(request.settings, *bytes_axis_of(spec), &Setting::axis) != request.settings.end();
  };
  if (request.names_sizes || std::ranges::any_of(cases, sets_bytes))
    throw InputError("--oversubscribe says how many bytes; leave --size, --size-sweep and --set of the bytes out");
}

std::span<const RefusedDriver> refused_drivers() {
  return kRefusedDrivers;
}

std::string refused_on(const DeviceState& state) {
  const auto& [processes, mig] = state.occupancy;
  if (auto refused = refused_driver(state); !refused.empty()) return refused;
  if (!mig)
    return "--oversubscribe is refused, since NVML does not report whether the GPU is split (MIG); check the NVML "
           "library";
  if (*mig)
    return "--oversubscribe is refused on a GPU in MIG mode: whoever has the other instances would hang with it";
  if (!processes)
    return "--oversubscribe is refused, since NVML does not report who uses the GPU; check the NVML library";
  if (!processes->empty())
    return fmt::format("--oversubscribe is refused, since other processes use the GPU ({}); wait until they have ended",
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
        "--oversubscribe is refused, since the amount of available host memory is unknown; set "
        "ISTHMUS_HOST_MEMORY");
  if (wanted > static_cast<double>(*available))
    throw InputError(
        fmt::format("--oversubscribe {:g} wants {} of host memory for {} and what goes with it, and {} are "
                    "available; choose a smaller ratio",
                    ratio, text(wanted), text(bytes), text(static_cast<double>(*available))));
  for (auto& spec : cases) {
    if (const auto* value = spec.find(workload::kDriverPrefetch)) {
      const auto name = to_text(*value);
      if (const auto most = workload::most_driver_prefetch_bytes(name); footprint > most)
        throw InputError(
            fmt::format("driver_prefetch={} is for {} of managed memory at most, and --oversubscribe {:g} is "
                        "{}: each piece is a range of its own to the driver; leave it out",
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
