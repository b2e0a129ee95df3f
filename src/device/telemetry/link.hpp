#pragma once

// Where Link comes from. Vendor-neutral code, built in every backend: both sources are tested without a GPU.
// Without a peer the link is the one to the host. Where it is unknown, `reason` says why in one sentence.

#include <filesystem>
#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::device {

/// How the two ends of a link are known to NVML.
struct LinkEnd {
  std::string uuid, pci_bus;
};
/// NVML, loaded from `library` (empty: $ISTHMUS_NVML, else the driver's own name).
std::optional<Link> link_nvml(const LinkEnd& device, const std::optional<LinkEnd>& peer, std::string& reason,
                              const std::string& library = {}) noexcept;

/// The files of the amdgpu driver and of the PCI bus under `root`/sys.
std::optional<Link> link_sysfs(const std::string& pci_bus, const std::optional<std::string>& peer_bus,
                               std::string& reason, const std::filesystem::path& root = "/") noexcept;

/// "PCIe 5 x16", from what a device reports of its own end.
std::optional<Link> pcie_link(std::optional<int> generation, std::optional<int> width, std::string& reason);
/// The one that limits a path over both; null where either is.
std::optional<Link> slower(const std::optional<Link>& one, const std::optional<Link>& other);

}  // namespace isthmus::device
