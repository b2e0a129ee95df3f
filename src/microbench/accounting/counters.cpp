#include "microbench/accounting/counters.hpp"

#include <array>

#include "device/api/device.hpp"
#include "memory/host_memory.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"

namespace isthmus::microbench::accounting {

namespace {

std::optional<std::size_t> nodes_free(const Watched&) {
  std::optional<std::size_t> sum;
  for (const int node : memory::usable_numa_nodes()) {
    if (const auto free = memory::numa_node_free_bytes(node)) sum = sum.value_or(0) + *free;
  }
  return sum;
}

std::optional<std::size_t> device_free(const Watched& watched) {
  const device::Selected on(watched.device);
  return device::memory_info().free;
}

using memory::proc_bytes;
constexpr const char *kMeminfo = "/proc/meminfo", *kStatus = "/proc/self/status", *kRollup = "/proc/self/smaps_rollup";

constexpr std::array kCounters{
    Counter{"meminfo_free", "/proc/meminfo MemFree", -1, false,
            [](const Watched&) { return proc_bytes(kMeminfo, "MemFree"); }},
    Counter{"meminfo_available", "/proc/meminfo MemAvailable", -1, false,
            [](const Watched&) { return proc_bytes(kMeminfo, "MemAvailable"); }},
    Counter{"meminfo_anon_huge", "/proc/meminfo AnonHugePages", 1, false,
            [](const Watched&) { return proc_bytes(kMeminfo, "AnonHugePages"); }, false},
    // This counter reads the NUMA node of the allocation, because a GPU's number is not the number of a node.
    Counter{"node_free", "libnuma, free memory of the allocation's node", -1, false,
            [](const Watched& watched) { return memory::numa_node_free_bytes(watched.node); }, false},
    Counter{"nodes_free", "libnuma, free memory of all nodes", -1, false, nodes_free, false},
    Counter{"status_rss", "/proc/self/status VmRSS", 1, false,
            [](const Watched&) { return proc_bytes(kStatus, "VmRSS"); }},
    Counter{"rollup_rss", "/proc/self/smaps_rollup Rss", 1, false,
            [](const Watched&) { return proc_bytes(kRollup, "Rss"); }},
    Counter{"rollup_pss", "/proc/self/smaps_rollup Pss", 1, false,
            [](const Watched&) { return proc_bytes(kRollup, "Pss"); }},
    Counter{"mapping_rss", "/proc/self/smaps Rss of the allocation's mapping", 1, false,
            [](const Watched& watched) -> std::optional<std::size_t> {
              if (watched.begin == nullptr) return 0;  // not yet allocated
              return memory::mapping_bytes(watched.begin, watched.bytes, "Rss");
            }},
    Counter{"device_free", "the device API's free memory", -1, true, device_free},
    Counter{"driver_used", "NVML's used memory, or amdgpu's used VRAM", 1, true,
            [](const Watched& watched) { return device::driver_memory_used(watched.device); }, false},
};

}  // namespace

std::span<const Counter> counters() noexcept {
  return kCounters;
}

Reading read_all(const Watched& watched) {
  Reading reading;
  for (const auto& counter : kCounters) {
    std::optional<double> value;
    if (!counter.of_device || watched.device >= 0) {
      if (const auto bytes = counter.read(watched)) value = counter.sign * static_cast<double>(*bytes);
    }
    reading.push_back(value);
  }
  return reading;
}

Reading growth(const Reading& before, const Reading& now) {
  Reading grown;
  for (std::size_t i = 0; i < now.size(); ++i)
    grown.push_back(before[i] && now[i] ? std::optional(*now[i] - *before[i]) : std::nullopt);
  return grown;
}

}  // namespace isthmus::microbench::accounting
