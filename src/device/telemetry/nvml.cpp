#include "device/telemetry/nvml.hpp"

namespace isthmus::device::nvml {

std::vector<NvLink> active_nvlinks(const Asker& ask) {
  constexpr unsigned most_links = 18;
  constexpr unsigned speed_of_link = 164, speed_common = 90;  // NVML_FI_DEV_NVLINK_…, in MB/s
  std::vector<NvLink> links;
  for (unsigned link = 0; link < most_links; ++link) {
    const auto active = ask.number("nvmlDeviceGetNvLinkState", link);
    if (!active || *active == 0) continue;
    auto speed = ask.field(speed_of_link, link);
    if (!speed || *speed <= 0)
      speed = ask.field(link < 6 ? 84 + link : 132 + link - 6, 0);  // one field for each link up to link 11
    if (!speed || *speed <= 0) speed = ask.field(speed_common, 0);
    links.push_back({link, speed && *speed > 0 ? std::optional(*speed * 1e6) : std::nullopt});
  }
  return links;
}

std::optional<Asker> find(const std::string& uuid, const std::string& pci_bus, const std::string& library) {
  const Library* nvml = Library::instance(library);
  Device device = nullptr;
  if (nvml == nullptr || (!nvml->call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device) &&
                          !nvml->call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus.c_str(), &device))) {
    return std::nullopt;
  }
  Device parent = nullptr;
  if (nvml->call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", device, &parent)) device = parent;
  return Asker(*nvml, device);
}

}  // namespace isthmus::device::nvml
