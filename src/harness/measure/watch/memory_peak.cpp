#include "harness/measure/watch/memory_peak.hpp"

#include "memory/host_memory.hpp"

namespace isthmus::harness {

std::optional<std::size_t> memory_in_use(const std::optional<device::DeviceInfo>& device) {
  const auto host = memory::proc_bytes("/proc/self/status", "VmRSS");
  if (!host || !device || (device->integrated && device::backend() == device::Backend::cuda)) return std::nullopt;
  const device::Selected on(device->index);
  const auto card = device::memory_info();
  return *host + (card.total - card.free);
}

}  // namespace isthmus::harness
