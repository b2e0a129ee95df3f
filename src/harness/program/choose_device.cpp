#include "harness/program/choose_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "harness/plan/request.hpp"
#include "memory/numa_nodes.hpp"

namespace isthmus::harness {

int require_device() {
  const int count = device::count();
  if (count == 0)
    throw device::Error(device::ErrorKind::failure, "count", no_device_sentence(), "run `isthmus-bench info`");
  return count;
}

std::optional<device::DeviceInfo> choose_device(const std::optional<std::string>& asked, bool needed, int local_rank) {
  if (!needed && !asked && device::count() == 0) return std::nullopt;
  const int count = require_device();
  if (!asked) return device::info(local_rank % count);
  int index = -1;
  const auto [end, failure] = std::from_chars(asked->data(), asked->data() + asked->size(), index);
  if (failure == std::errc{} && end == asked->data() + asked->size()) {
    if (index < 0 || index >= count)
      throw InputError(fmt::format("there is no device {}; this process sees {} (0 to {})", index, count, count - 1));
    return device::info(index);
  }
  std::string known;
  for (int i = 0; i < count; ++i) {
    auto info = device::info(i);
    if (info.uuid == *asked) return info;
    known += (known.empty() ? "" : ", ") + info.uuid;
  }
  throw InputError(fmt::format("there is no device '{}'; give an index or one of {}", *asked, known));
}

int choose_numa_node(const std::optional<int>& asked, const std::optional<device::DeviceInfo>& device) {
  if (asked) {
    const int highest = memory::highest_numa_node();
    if (highest < 0)
      throw InputError(
          "--numa names a node, but the kernel does not list nodes; omit it, or make /sys/devices/system/node visible "
          "to this process");
    if (!memory::numa_node_usable(*asked))
      throw InputError(fmt::format("there is no usable NUMA node {}; the highest is {}", *asked, highest));
    if (!memory::bind_thread(*asked))
      throw InputError(fmt::format("the system refuses to bind to NUMA node {}", *asked));
    return *asked;
  }
  if (device && memory::highest_numa_node() > 0 && memory::numa_node_usable(device->numa_node))
    return device->numa_node;
  return -1;
}

std::string no_device_sentence() {
  if (device::backend() == device::Backend::emulator) return "the emulator has no device";
  return fmt::format("this build measures {} GPUs, but the driver reports none",
                     device::backend() == device::Backend::cuda ? "NVIDIA" : "AMD");
}

}  // namespace isthmus::harness
