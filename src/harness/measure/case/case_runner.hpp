#pragma once

#include <optional>
#include <vector>

#include "harness/measure/passes/case_state.hpp"
#include "harness/measure/results/result.hpp"
#include "harness/measure/results/stopping.hpp"
#include "harness/plan/estimate.hpp"
#include "harness/ranks/watchdog.hpp"

namespace isthmus::harness {

struct RunContext {
  std::optional<device::DeviceInfo> device;  ///< nullopt if every case uses the CPU alone
  std::uint64_t seed = 42;
  SamplingOptions sampling;
  StoppingRule stopping_rule = end_when_settled;
  int numa_node = -1;
  std::optional<std::string> governor;
  std::vector<AskedObserver> observers;
  Watchdog* watchdog = nullptr;  ///< receives each case's progress; may be nullptr
  Ranks* ranks = nullptr;        ///< ranks that run the same cases in step; nullptr if this process runs alone
};

/// Runs one case. Throws nothing: errors are part of the result. With several ranks, each rank's result has its own
/// samples, and the errors, skips and warnings of all ranks.
CaseResult run_case(const CaseSpec& spec, const RunContext& context);

/// Returns the footprint of a case, from its declarations alone.
CaseFootprint footprint(const CaseSpec& spec, const RunContext& context);

/// Returns the device on which a case of this workload is monitored: the first one in its name if that exists, else the
/// session's; nullopt for a workload of the CPU alone.
std::optional<device::DeviceInfo> device_of(const Workload& workload, const std::optional<device::DeviceInfo>& session);

}  // namespace isthmus::harness
