// Links from NVML: NVLink between two GPUs, C2C or PCIe to the host.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "device/telemetry/link.hpp"
#include "device/telemetry/nvml.hpp"

namespace isthmus::device {
namespace {

using nvml::Asker;
using nvml::NvLink;
using Links = std::vector<NvLink>;

/// nvmlPciInfo_t, for calls whose names end in _v2 or _v3.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

bool same_place(const PciInfo& a, const PciInfo& b) {
  return a.domain == b.domain && a.bus == b.bus && a.device == b.device;
}

/// Active NVLinks of one GPU, by their destination; in a virtual machine, destinations may be unknown.
struct NvLinks {
  Links all, to_the_peer, to_switches;
};
NvLinks nvlinks(const Asker& ask, const Asker& peer) {
  constexpr unsigned is_gpu = 0, is_switch = 2, is_unknown = 0xff;
  PciInfo wanted{};
  const bool peer_is_known = peer.nvml().call("nvmlDeviceGetPciInfo_v3", peer.device(), &wanted);
  NvLinks links;
  links.all = nvml::active_nvlinks(ask);
  for (const NvLink& link : links.all) {
    const unsigned type = ask.number("nvmlDeviceGetNvLinkRemoteDeviceType", link.number).value_or(is_unknown);
    PciInfo remote{};
    if (type == is_switch) {
      links.to_switches.push_back(link);
    } else if (ask.nvml().call("nvmlDeviceGetNvLinkRemotePciInfo_v2", ask.device(), link.number, &remote)) {
      nvml::Device gpu = nullptr;
      if (peer_is_known && same_place(remote, wanted)) {
        links.to_the_peer.push_back(link);
      } else if (type != is_gpu && !ask.nvml().call("nvmlDeviceGetHandleByPciBusId_v2", remote.bus_id, &gpu)) {
        links.to_switches.push_back(link);
      }
    }
  }
  return links;
}

/// Combines links of the same kind. Rates are in B/s, as reported by the driver.
std::optional<Link> bundle(const char* kind, const char* name, const std::vector<std::optional<double>>& rates,
                           std::string& reason) {
  Link link{kind, static_cast<int>(rates.size()), 0, ""};
  for (const auto& rate : rates) {
    if (!rate) {
      reason = fmt::format("the driver does not report the rate of the {}s", name);
      return std::nullopt;
    }
    link.rate += *rate;
  }
  const bool alike = std::all_of(rates.begin(), rates.end(), [&](const auto& rate) { return rate == rates.front(); });
  const std::string many = fmt::format("{} {}{}", rates.size(), name, rates.size() == 1 ? "" : "s");
  link.text = alike ? fmt::format("{} of {:.2f} GB/s", many, *rates.front() * 1e-9)
                    : fmt::format("{}, {:.2f} GB/s together", many, link.rate * 1e-9);
  return link;
}

std::optional<Link> bundle(const Links& links, std::string& reason) {
  std::vector<std::optional<double>> rates;
  for (const NvLink& link : links) rates.push_back(link.rate);
  return bundle("nvlink", "NVLink", rates, reason);
}

std::optional<Link> pcie_end(const Asker& ask, std::string& reason) {
  return pcie_link(ask.integer("nvmlDeviceGetCurrPcieLinkGeneration"), ask.integer("nvmlDeviceGetCurrPcieLinkWidth"),
                   reason);
}

std::optional<Link> between(const Asker& device, const Asker& peer, std::string& reason) {
  constexpr unsigned over_nvlink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
  constexpr unsigned ok = 0;
  unsigned status = 0;
  std::optional<bool> joined;
  if (device.nvml().call("nvmlDeviceGetP2PStatus", device.device(), peer.device(), over_nvlink, &status)) {
    joined = status == ok;
  }
  if (joined.value_or(true)) {
    const NvLinks near = nvlinks(device, peer), far = nvlinks(peer, device);
    const auto both = [&](const Links NvLinks::* way) { return !(near.*way).empty() && !(far.*way).empty(); };
    const auto smaller = [&](const Links NvLinks::* way) {
      return slower(bundle(near.*way, reason), bundle(far.*way, reason));
    };
    if (both(&NvLinks::to_the_peer)) return smaller(&NvLinks::to_the_peer);
    if (both(&NvLinks::to_switches)) return smaller(&NvLinks::to_switches);
    if (joined && both(&NvLinks::all)) {
      auto link = smaller(&NvLinks::all);
      if (link)
        link->text += ", all active ones: the driver reports that NVLink connects the two, but not by which links";
      return link;
    }
  }
  return slower(pcie_end(device, reason), pcie_end(peer, reason));
}

std::optional<Link> to_the_host(const Asker& device, std::string& reason) {
  unsigned chip_to_chip = 0;  // nvmlC2cModeInfo_v1_t, which has only this member
  if (!device.nvml().call("nvmlDeviceGetC2cModeInfoV", device.device(), &chip_to_chip) || chip_to_chip == 0) {
    return pcie_end(device, reason);
  }
  constexpr unsigned link_count = 170, link_rate = 172;  // NVML_FI_DEV_C2C_LINK_…; the rate is in MB/s
  std::vector<std::optional<double>> rates;
  const auto count = static_cast<unsigned>(device.field(link_count, 0).value_or(0));
  for (unsigned link = 0; link < count; ++link) {
    const auto rate = device.field(link_rate, link);
    if (rate && *rate > 0) rates.emplace_back(*rate * 1e6);
  }
  if (rates.empty()) rates.emplace_back();
  return bundle("c2c", "C2C link", rates, reason);
}

}  // namespace

std::optional<Link> link_nvml(const LinkEnd& device, const std::optional<LinkEnd>& peer, std::string& reason,
                              const std::string& library) noexcept {
  try {
    const auto near = nvml::find(device.uuid, device.pci_bus, library);
    const auto far = peer ? nvml::find(peer->uuid, peer->pci_bus, library) : std::nullopt;
    if (!near || (peer && !far)) {
      reason = "NVML cannot be loaded or does not know the device";
      return std::nullopt;
    }
    return peer ? between(*near, *far, reason) : to_the_host(*near, reason);
  } catch (...) {
    return std::nullopt;
  }
}

}  // namespace isthmus::device
