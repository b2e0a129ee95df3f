// Telemetry from files of the amdgpu driver and the PCI bus. Any file may be missing; none requires root.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "device/telemetry/link.hpp"
#include "device/telemetry/telemetry.hpp"

namespace isthmus::device {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.empty()) return std::nullopt;
  return line;
}

/// Reads the number at the beginning of a file, such as "16.0 GT/s PCIe" or "283000000", and multiplies it by `unit`.
std::optional<double> read_number(const fs::path& path, double unit = 1) {
  const auto line = read_line(path);
  double value = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), value).ec != std::errc{}) return std::nullopt;
  return value * unit;
}

std::optional<int> read_integer(const fs::path& path) {
  const auto value = read_number(path);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

/// Returns the PCIe generation from its transfer rate in GT/s.
std::optional<int> generation(const fs::path& path) {
  const auto rate = read_number(path);
  if (!rate) return std::nullopt;
  constexpr double rates[] = {2.5, 5, 8, 16, 32, 64};
  for (int i = 0; i < 6; ++i) {
    if (*rate == rates[i]) return i + 1;
  }
  return std::nullopt;
}

/// Clocks from a pp_dpm file, which has lines such as "1: 1700Mhz *"; the star marks the active clock.
struct Clocks {
  std::optional<double> now, most;
};
Clocks read_clocks(const fs::path& path) {
  Clocks clocks;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto digit = line.find_first_of("0123456789", colon);
    if (digit == std::string::npos) continue;
    double megahertz = 0;
    if (std::from_chars(line.data() + digit, line.data() + line.size(), megahertz).ec != std::errc{}) continue;
    clocks.most = std::max(clocks.most.value_or(0), megahertz * 1e6);
    if (line.find('*') != std::string::npos) clocks.now = megahertz * 1e6;
  }
  return clocks;
}

/// Returns the device's hwmon folder, no matter which number it has.
std::optional<fs::path> hardware_monitor(const fs::path& device) {
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(device / "hwmon", problem)) return entry.path();
  return std::nullopt;
}

/// Returns the temperature of the hottest sensor on the chip: the junction if there is such a sensor, else the edge.
std::optional<double> temperature(const fs::path& monitor) {
  std::optional<double> edge;
  for (int i = 1; i <= 8; ++i) {
    const auto value = read_number(monitor / fmt::format("temp{}_input", i), 1e-3);
    if (!value) continue;
    if (read_line(monitor / fmt::format("temp{}_label", i)).value_or("") == "junction") return value;
    if (!edge) edge = value;
  }
  return edge;
}

/// Returns the number of uncorrectable errors since boot, summed over all blocks that count them, from lines such as
/// "ue: 0".
std::optional<std::uint64_t> uncorrectable_errors(const fs::path& device) {
  std::optional<std::uint64_t> total;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(device / "ras", problem)) {
    if (!entry.path().filename().string().ends_with("_err_count")) continue;
    std::ifstream file(entry.path());
    for (std::string word; file >> word;) {
      std::uint64_t count = 0;
      if (word == "ue:" && file >> count) total = total.value_or(0) + count;
    }
  }
  return total;
}

/// Reads "name value" lines of the kfd topology.
std::map<std::string, std::uint64_t> read_properties(const fs::path& path) {
  std::map<std::string, std::uint64_t> properties;
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) properties[name] = value;
  return properties;
}

/// Parts of a PCI address such as "0000:c1:00.0"; parse_address() returns nullopt for anything else.
struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
};
std::optional<PciAddress> parse_address(const std::string& text) {
  PciAddress a;
  if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &a.domain, &a.bus, &a.device, &a.function) != 4) return std::nullopt;
  return a;
}

/// Returns the kfd topology node of a PCI device.
std::optional<fs::path> topology_node(const fs::path& root, const std::string& pci_bus) {
  const auto address = parse_address(pci_bus);
  if (!address) return std::nullopt;
  const std::uint64_t location = address->bus << 8 | address->device << 3 | address->function;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(root / "sys/class/kfd/kfd/topology/nodes", problem)) {
    const auto properties = read_properties(entry.path() / "properties");
    const auto of = [&](const char* name) {
      const auto found = properties.find(name);
      return found == properties.end() ? std::uint64_t{0} : found->second;
    };
    if (of("simd_count") != 0 && of("location_id") == location && of("domain") == address->domain) return entry.path();
  }
  return std::nullopt;
}

struct XgmiLink {
  std::string node_to;  // name of a folder in the topology
  double rate;          // B/s, 0 if the driver does not report it
};
std::vector<XgmiLink> xgmi_links(const fs::path& node) {
  constexpr std::uint64_t xgmi = 11;  // CRAT_IOLINK_TYPE_XGMI
  std::vector<XgmiLink> links;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(node / "io_links", problem)) {
    auto properties = read_properties(entry.path() / "properties");
    if (properties["type"] != xgmi) continue;
    links.push_back({std::to_string(properties["node_to"]), 1e6 * static_cast<double>(properties["max_bandwidth"])});
  }
  return links;
}

/// Returns the pids of other processes with memory on this device; nullopt if the driver does not report them.
std::optional<std::vector<unsigned>> foreign_processes(const fs::path& root, const fs::path& node) {
  const auto gpu_id = read_line(node / "gpu_id");
  std::error_code problem;
  const fs::directory_iterator entries(root / "sys/class/kfd/kfd/proc", problem);
  if (!gpu_id || problem) return std::nullopt;
  std::vector<unsigned> pids;
  for (const auto& entry : entries) {
    const auto name = entry.path().filename().string();
    unsigned pid = 0;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (failed != std::errc{} || end != name.data() + name.size() || pid == static_cast<unsigned>(getpid())) continue;
    if (read_number(entry.path() / ("vram_" + *gpu_id)).value_or(0) > 0) pids.push_back(pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

fs::path pci_device(const fs::path& root, const std::string& pci_bus) {
  return root / "sys/bus/pci/devices" / pci_bus;
}

}  // namespace

Telemetry telemetry_sysfs(const std::string& pci_bus, const fs::path& root) noexcept {
  try {
    const fs::path device = pci_device(root, pci_bus);
    if (pci_bus.empty() || !fs::exists(device)) return {};
    Telemetry t;
    t.source = "sysfs";
    t.pcie_generation = generation(device / "current_link_speed");
    t.pcie_width = read_integer(device / "current_link_width");
    t.pcie_generation_max = generation(device / "max_link_speed");
    t.pcie_width_max = read_integer(device / "max_link_width");
    const Clocks shader = read_clocks(device / "pp_dpm_sclk"), memory = read_clocks(device / "pp_dpm_mclk");
    t.sm_clock_hz = shader.now;
    t.sm_clock_max_hz = shader.most;
    t.memory_clock_hz = memory.now;
    if (const auto monitor = hardware_monitor(device)) {
      t.temperature_c = temperature(*monitor);
      t.power_w = read_number(*monitor / "power1_average", 1e-6);
      if (!t.power_w) t.power_w = read_number(*monitor / "power1_input", 1e-6);
      t.power_limit_w = read_number(*monitor / "power1_cap", 1e-6);
      t.power_limit_default_w = read_number(*monitor / "power1_cap_default", 1e-6);
      if (!t.sm_clock_hz) t.sm_clock_hz = read_number(*monitor / "freq1_input");
      if (!t.memory_clock_hz) t.memory_clock_hz = read_number(*monitor / "freq2_input");
    }
    t.ecc_uncorrected = uncorrectable_errors(device);
    if (t.ecc_uncorrected) t.ecc = true;  // the driver counts errors only if the memory has ECC
    t.vbios = read_line(device / "vbios_version");
    // Partitioning of the chip (SPX, CPX) and of its memory (NPS1, NPS4), which is AMD's counterpart of a compute mode.
    if (const auto compute = read_line(device / "current_compute_partition")) {
      t.compute_mode = *compute;
      if (const auto nps = read_line(device / "current_memory_partition")) *t.compute_mode += ", " + *nps;
    }
    if (const auto node = topology_node(root, pci_bus)) {
      for (const auto& link : xgmi_links(*node)) {
        t.links.push_back(link.rate > 0 ? fmt::format("xgmi {:.3f} GB/s", link.rate * 1e-9) : "xgmi");
      }
      t.foreign_processes = foreign_processes(root, *node);
    }
    return t;
  } catch (...) {
    return {};
  }
}

namespace {

/// Returns the xGMI links from a device to a peer, or to any CPU; nullopt if there are none.
std::optional<Link> xgmi(const fs::path& root, const std::string& pci_bus, const std::optional<std::string>& peer_bus) {
  const auto node = topology_node(root, pci_bus);
  const auto peer = peer_bus ? topology_node(root, *peer_bus) : std::nullopt;
  if (!node || (peer_bus && !peer)) return std::nullopt;
  Link link{"xgmi", 0, 0, ""};
  for (const auto& [node_to, rate] : xgmi_links(*node)) {
    const bool wanted = peer ? node_to == peer->filename().string()
                             : read_properties(node->parent_path() / node_to / "properties")["simd_count"] == 0;
    if (!wanted) continue;
    ++link.count;
    link.rate += rate;
  }
  if (link.count == 0) return std::nullopt;
  link.text = link.count == 1 ? fmt::format("xGMI of {:.2f} GB/s", link.rate * 1e-9)
                              : fmt::format("{} xGMI links, {:.2f} GB/s together", link.count, link.rate * 1e-9);
  return link;
}

}  // namespace

std::optional<Link> link_sysfs(const std::string& pci_bus, const std::optional<std::string>& peer_bus,
                               std::string& reason, const fs::path& root) noexcept {
  try {
    if (auto link = xgmi(root, pci_bus, peer_bus)) {
      if (link->rate > 0) return link;
      reason = "the driver does not report the rate of xGMI";
      return std::nullopt;
    }
    const auto end = [&](const std::string& bus) {
      const fs::path device = pci_device(root, bus);
      return pcie_link(generation(device / "current_link_speed"), read_integer(device / "current_link_width"), reason);
    };
    return peer_bus ? slower(end(pci_bus), end(*peer_bus)) : end(pci_bus);
  } catch (...) {
    return std::nullopt;
  }
}

std::optional<std::size_t> memory_used_sysfs(const std::string& pci_bus, const fs::path& root) noexcept {
  try {
    if (pci_bus.empty()) return std::nullopt;
    const auto used = read_number(pci_device(root, pci_bus) / "mem_info_vram_used");
    return used ? std::optional(static_cast<std::size_t>(*used)) : std::nullopt;
  } catch (...) {
    return std::nullopt;
  }
}

int numa_node_sysfs(const std::string& pci_bus, const fs::path& root) noexcept {
  try {
    if (pci_bus.empty()) return -1;
    return read_integer(pci_device(root, pci_bus) / "numa_node").value_or(-1);
  } catch (...) {
    return -1;
  }
}

}  // namespace isthmus::device
