#include "harness/plan/modes.hpp"

namespace isthmus::harness {

namespace {

constexpr Mode kModes[] = {
    {"baseline", "pageable", Staging::direct}, {"async", "pageable", Staging::async},
    {"uvm", "managed_in", Staging::direct},    {"uvm_async", "managed_in", Staging::async},
    {"pm", "pinned", Staging::direct},         {"pm_async", "pinned", Staging::async},
};

constexpr Staging kStagings[] = {Staging::none, Staging::direct, Staging::async, Staging::bulk};

constexpr std::string_view kMeasured[] = {
    "host_alloc",   "host_touch",    "device_alloc", "graph_build", "in",          "kernel",           "out",
    "free",         "first_in",      "first_kernel", "first_out",   "overlapped",  "sync_cost",        "overlap",
    "wall",         "paper_total",   "in_rate",      "out_rate",    "kernel_rate", "kernel_flop_rate", "first_repeat",
    "later_repeat", "kernel_sum",    "turn_cost",    "body_in",     "body_out",    "memory_peak",      "file",
    "file_rate",    "file_resident", "total"};

}  // namespace

std::span<const Mode> all_modes() noexcept {
  return kModes;
}

const Mode* find_mode(memory::Placement placement, Staging staging) noexcept {
  for (const auto& mode : kModes) {
    if (mode.placement == memory::name(placement) && mode.staging == staging) return &mode;
  }
  return nullptr;
}

std::span<const Staging> all_stagings() noexcept {
  return kStagings;
}

std::span<const std::string_view> measured_metrics() noexcept {
  return kMeasured;
}

}  // namespace isthmus::harness
