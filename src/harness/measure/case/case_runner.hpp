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
  std::optional<device::DeviceInfo> device;  ///< none where all cases are the CPU's alone and there is no device
  std::uint64_t seed = 42;
  SamplingOptions sampling;
  StoppingRule stopping_rule = end_when_settled;
  int numa_node = -1;
  std::optional<std::string> governor;
  std::vector<AskedObserver> observers;
  Watchdog* watchdog = nullptr;  ///< hears that a case goes on
  Ranks* ranks = nullptr;        ///< that run the same cases in step; nullptr: this process is alone
};

/// Runs one case; whatever happens ends up in the result, never in an exception. Of several ranks each has the result
/// of its own readings and what happened to any of them.
CaseResult run_case(const CaseSpec& spec, const RunContext& context);

/// From its declarations alone.
CaseFootprint footprint(const CaseSpec& spec, const RunContext& context);

/// The device that a case of this workload is watched on: the first that its name says, where that is there, else the
/// session's; none for work of the CPU alone.
std::optional<device::DeviceInfo> device_of(const Workload& workload, const std::optional<device::DeviceInfo>& session);

}  // namespace isthmus::harness
