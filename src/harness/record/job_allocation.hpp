#pragma once

// What the scheduler granted the job that this process runs in.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isthmus::harness {

/// Slurm's word from the environment of a job: account, partition, QoS, reservation, nodes, CPUs and GPUs of this node.
/// Null outside a job of Slurm. `exclusive` is what the job script asked scontrol (ISTHMUS_JOB_SHARING), null where it
/// did not: the environment of a job does not tell.
nlohmann::json allocation_json();

/// "0-3,8" of ascending numbers.
std::string number_ranges(const std::vector<int>& numbers);

}  // namespace isthmus::harness
