#pragma once

// Where Telemetry comes from. Vendor-neutral code, built in every backend: both sources are tested without a GPU.

#include <filesystem>
#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::device {

/// NVML, loaded from `library` (empty: $ISTHMUS_NVML, else the driver's own name). Facts that the library, the chip or
/// the driver does not give stay null; so does everything, with source "", where there is no library or no such device.
Telemetry telemetry_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library = {}) noexcept;
/// Asks again for what changes while a case runs; leaves the rest as it is, and all of it where nothing answers.
void refresh_nvml(Telemetry& telemetry, const std::string& uuid, const std::string& pci_bus,
                  const std::string& library = {}) noexcept;
/// Bytes of its memory that are in use.
std::optional<std::size_t> memory_used_nvml(const std::string& uuid, const std::string& pci_bus,
                                            const std::string& library = {}) noexcept;
/// Who is on the device; what NVML does not tell is nullopt.
Occupancy occupancy_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library = {}) noexcept;
/// "580.159.04", as nvidia-smi prints it.
std::optional<std::string> nvml_driver_version(const std::string& library = {}) noexcept;
/// `hex` is "xxxxxxxx-xxxx-…"; whether NVML knows it as a MIG instance ("MIG-…") and not as a whole GPU ("GPU-…").
bool nvml_is_mig(const std::string& hex, const std::string& library = {}) noexcept;

/// The amdgpu driver's files under `root`/sys.
Telemetry telemetry_sysfs(const std::string& pci_bus, const std::filesystem::path& root = "/") noexcept;
/// Bytes of its VRAM (of an APU: of the part that is set aside for it) that are in use.
std::optional<std::size_t> memory_used_sysfs(const std::string& pci_bus,
                                             const std::filesystem::path& root = "/") noexcept;
/// NUMA node of a PCI device; -1 where unknown.
int numa_node_sysfs(const std::string& pci_bus, const std::filesystem::path& root = "/") noexcept;

}  // namespace isthmus::device
