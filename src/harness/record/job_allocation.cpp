#include "harness/record/job_allocation.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

namespace isthmus::harness {

namespace {

using nlohmann::json;

json text_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? json(value) : json(nullptr);
}

json number_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return nullptr;
  const std::string_view text = value;
  int number = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc{} && stop == text.data() + text.size() && number >= 0 ? json(number) : json(nullptr);
}

/// Returns whether the job has its nodes to itself: `scontrol show job` prints OverSubscribe=NO. Its other values (OK,
/// YES, USER and MCS) allow sharing. Returns null if the value is unknown.
json exclusive() {
  const auto sharing = text_of("ISTHMUS_JOB_SHARING");
  return sharing.is_null() ? json(nullptr) : json(sharing == "NO");
}

}  // namespace

json allocation_json() {
  if (text_of("SLURM_JOB_ID").is_null()) return nullptr;
  return {{"account", text_of("SLURM_JOB_ACCOUNT")},
          {"partition", text_of("SLURM_JOB_PARTITION")},
          {"qos", text_of("SLURM_JOB_QOS")},
          {"reservation", text_of("SLURM_JOB_RESERVATION")},
          {"nodes", text_of("SLURM_JOB_NODELIST")},
          {"node_count", number_of("SLURM_JOB_NUM_NODES")},
          {"cpus", number_of("SLURM_CPUS_ON_NODE")},
          {"gpus", number_of("SLURM_GPUS_ON_NODE")},
          {"exclusive", exclusive()}};
}

std::string number_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace isthmus::harness
