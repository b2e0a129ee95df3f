#include "harness/plan/old_names.hpp"

#include "harness/plan/names.hpp"

namespace isthmus::harness {

namespace {

std::string current_kind(std::string_view name) {
  if (name == "wc") return "write_combined";
  return std::string(name == "malloc" || name == "system" ? "pageable" : name);
}

}  // namespace

std::string current_workload(std::string_view workload) {
  auto parts = split(workload, '/');
  const bool names_kinds =
      parts[0] == "accounting" || parts[0] == "alloc" || parts[0] == "latency" || parts[0] == "transfer";
  if (!names_kinds || parts.size() < 2) return std::string(workload);
  parts[1] = join(mapped(split(parts[1], '-'), current_kind), "-");
  return join(parts, "/");
}

workload::AxisSettings current_memory(std::string_view workload, std::string_view value) {
  const bool pages_apart = workload == "faults/random" || workload == "faults/regular" || workload == "faults/strided";
  if (!pages_apart) return {{"memory", current_kind(value)}};
  if (value == "managed") return {{"memory", "managed"}, {"pages", "small"}};
  if (value == "small" || value == "huge") return {{"memory", "pageable"}, {"pages", std::string(value)}};
  return {{"memory", std::string(value)}};
}

}  // namespace isthmus::harness
