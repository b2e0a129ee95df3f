#include "harness/record/facts_json.hpp"

#include <nlohmann/json.hpp>

#include "build_info.hpp"
#include "harness/record/host_facts.hpp"
#include "harness/record/host_speed.hpp"
#include "harness/record/json_values.hpp"

namespace isthmus::harness {

namespace {

using nlohmann::json;

json pcie_json(const device::Telemetry& state) {
  const auto positive = [](const std::optional<int>& value) {
    return value && *value > 0 ? json(*value) : json(nullptr);
  };
  if (!state.pcie_generation && !state.pcie_width) return nullptr;
  return {{"gen", positive(state.pcie_generation)},
          {"width", positive(state.pcie_width)},
          {"gen_max", positive(state.pcie_generation_max)},
          {"width_max", positive(state.pcie_width_max)}};
}

json state_json(const std::optional<device::Telemetry>& state) {
  if (!state || state->source.empty()) return nullptr;
  return {{"source", state->source},
          {"pcie", pcie_json(*state)},
          {"sm_clock_hz", or_null(state->sm_clock_hz)},
          {"sm_clock_max_hz", or_null(state->sm_clock_max_hz)},
          {"memory_clock_hz", or_null(state->memory_clock_hz)},
          {"temperature_c", or_null(state->temperature_c)},
          {"power_w", or_null(state->power_w)},
          {"power_limit_w", or_null(state->power_limit_w)},
          {"power_limit_default_w", or_null(state->power_limit_default_w)},
          {"ecc", or_null(state->ecc)},
          {"ecc_uncorrected", or_null(state->ecc_uncorrected)},
          {"xids", or_null(state->xids)},
          {"persistence", or_null(state->persistence)},
          {"mig", or_null(state->mig)},
          {"vbios", or_null(state->vbios)},
          {"gsp_firmware", or_null(state->gsp_firmware)},
          {"compute_mode", or_null(state->compute_mode)},
          {"throttle", or_null(state->throttle)},
          {"foreign_processes", or_null(state->foreign_processes)}};
}

json speed_json() {
  const auto& speed = host_speed();
  const auto known = [](double rate) { return rate > 0 ? or_null(rate) : json(nullptr); };
  return {{"integer_rate", known(speed.integer_rate)},
          {"touch_rate", known(speed.touch_rate)},
          {"copy_rate", known(speed.copy_rate)}};
}

json caches_json(const std::vector<CacheFacts>& caches) {
  json list = json::array();
  for (const auto& cache : caches)
    list.push_back({{"level", cache.level},
                    {"holds", cache.instructions ? "instructions"
                              : cache.level == 1 ? "data"
                                                 : "both"},
                    {"bytes", cache.bytes},
                    {"line_bytes", cache.line_bytes},
                    {"processors", cache.processors},
                    {"count", cache.count}});
  return list;
}

}  // namespace

json device_json(const device::DeviceInfo& info, const std::optional<device::Telemetry>& before,
                 const std::optional<device::Telemetry>& after) {
  json capabilities = json::array();
  const auto capability = [&](bool has, const char* name) {
    if (has) capabilities.push_back(name);
  };
  capability(info.integrated, "integrated");
  capability(info.managed, "managed");
  capability(info.concurrent_managed, "concurrent_managed");
  capability(info.pageable_access, "pageable_access");
  capability(info.host_native_atomics, "host_native_atomics");
  capability(info.memory_pools, "memory_pools");
  capability(info.virtual_memory, "virtual_memory");
  capability(info.can_map_host, "can_map_host");
  capability(info.cooperative, "cooperative");
  capability(info.async_shared_copy, "async_shared_copy");
  capability(info.bulk_shared_copy, "bulk_shared_copy");
  // The state after the case shows the link while it was busy; an idle link sleeps at a low generation.
  const auto& busy = after ? after : before;
  return {{"backend", device::name(device::backend())},
          {"index", info.index},
          {"name", info.name},
          {"uuid", or_null(info.uuid)},
          {"arch", info.arch},
          {"driver", or_null(info.driver)},
          {"runtime", or_null(info.runtime)},
          {"pci_bus", or_null(info.pci_bus)},
          {"warp_size", info.warp_size},
          {"multiprocessors", info.multiprocessors},
          {"memory_bytes", info.memory_bytes},
          {"l2_bytes", info.l2_bytes},
          {"shared_per_block", info.shared_per_block},
          {"clock_hz", or_null(info.clock_hz)},
          {"memory_bandwidth", or_null(info.memory_bandwidth)},
          {"fp32_rate", or_null(info.fp32_rate)},
          {"numa_node", info.numa_node},
          {"pcie", busy ? pcie_json(*busy) : json(nullptr)},
          {"capabilities", capabilities},
          {"links", busy ? json(busy->links) : json::array()},
          {"state", state_json(before)},
          {"state_after", state_json(after)}};
}

json host_json(int numa_node) {
  const auto& facts = host_facts();
  json host = {{"cpu", facts.cpu},
               {"kernel", facts.kernel},
               {"numa_nodes", or_null(facts.numa_nodes)},
               {"thp", or_null(facts.thp)},
               {"cores", or_null(facts.cores)},
               {"processors_allowed", or_null(facts.processors_allowed)},
               {"memory_bytes", or_null(facts.memory_bytes)},
               {"caches", caches_json(facts.caches)},
               {"governor", or_null(facts.governor)},
               {"iommu", or_null(facts.iommu)},
               {"os", or_null(facts.os)},
               {"boot_id", or_null(facts.boot_id)},
               {"numa_balancing", or_null(facts.numa_balancing)},
               {"uvm_parameters", or_null(facts.uvm_parameters)},
               {"speed", speed_json()}};
  if (numa_node >= 0) host["numa_node"] = numa_node;
  return host;
}

json build_json() {
  return {{"compiler", build_info::compiler},
          {"flags", build_info::flags},
          {"type", build_info::type},
          {"backend", device::name(device::backend())},
          {"code", build_info::code},
          {"package", build_info::package.empty() ? json(nullptr) : json(build_info::package)}};
}

std::string version_text() {
  std::string text(build_info::version);
  if (!build_info::git.empty()) text += ", commit " + std::string(build_info::git);
  if (build_info::dirty.value_or(false)) text += ", changed";
  return text;
}

}  // namespace isthmus::harness
