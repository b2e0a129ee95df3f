#pragma once

// Resources that the scheduler granted the job of this process.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isthmus::harness {

/// Returns Slurm's data from the environment of a job: account, partition, QoS, reservation, nodes, CPUs and GPUs of
/// this node. Returns null outside a Slurm job. `exclusive` is not in a job's environment, so the job script has to
/// query scontrol for it (ISTHMUS_JOB_SHARING); null if the script did not.
nlohmann::json allocation_json();

/// Formats ascending numbers as "0-3,8".
std::string number_ranges(const std::vector<int>& numbers);

}  // namespace isthmus::harness
