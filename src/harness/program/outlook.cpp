#include "harness/program/outlook.hpp"

#include <fmt/format.h>

#include "memory/host_memory.hpp"

namespace isthmus::harness {

std::optional<double> estimate_of(const CaseSpec& spec, const SamplingOptions& sampling) {
  return spec.not_applicable ? 0 : estimate_seconds(spec, sampling);
}

std::string outlook(const std::vector<CaseSpec>& cases, const SamplingOptions& sampling, int processes, bool resume) {
  Estimate all;
  for (const auto& spec : cases) all.add(estimate_of(spec, sampling));
  return all.sentence(processes) + (resume ? ", less what the record holds already" : "") +
         (all.unknown == all.cases ? "; --dry-run estimates how long they take" : "");
}

void dry_run(const std::vector<CaseSpec>& cases, const RunContext& context, int processes) {
  Estimate all;
  for (const auto& spec : cases) {
    const auto found = footprint(spec, context);
    if (found.skipped) {
      fmt::print("{}: would be skipped: {}\n", spec.label(), *found.skipped);
      all.add(0);
      continue;
    }
    const auto seconds = estimate_seconds(spec, context.sampling, found);
    all.add(seconds);
    fmt::print("{}: host {}, device {}, {}\n", spec.label(),
               memory::format_bytes(static_cast<double>(found.host_bytes)),
               memory::format_bytes(static_cast<double>(found.device_bytes)),
               seconds ? about(*seconds * processes) : "for an unknown time");
  }
  fmt::print("{} in all\n", all.sentence(processes));
}

}  // namespace isthmus::harness
