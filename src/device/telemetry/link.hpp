#pragma once

// Sources of Link. The code is vendor-neutral and built for every backend, so that both sources are tested without a
// GPU. Without a peer, the link is that to the host. If the link is unknown, `reason` explains why in one sentence.

#include <filesystem>
#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::device {

/// Identity of one end of a link, as NVML needs it.
struct LinkEnd {
  std::string uuid, pci_bus;
};
/// Returns the link according to NVML, loaded from `library` (empty: $ISTHMUS_NVML, else the driver's default name).
std::optional<Link> link_nvml(const LinkEnd& device, const std::optional<LinkEnd>& peer, std::string& reason,
                              const std::string& library = {}) noexcept;

/// Returns the link according to the files of the amdgpu driver and the PCI bus under `root`/sys.
std::optional<Link> link_sysfs(const std::string& pci_bus, const std::optional<std::string>& peer_bus,
                               std::string& reason, const std::filesystem::path& root = "/") noexcept;

/// Returns "PCIe 5 x16", from values that a device reports for its end of the link.
std::optional<Link> pcie_link(std::optional<int> generation, std::optional<int> width, std::string& reason);
/// Returns the slower link, which limits a path over both links; null if either is null.
std::optional<Link> slower(const std::optional<Link>& one, const std::optional<Link>& other);

}  // namespace isthmus::device
