#pragma once

// Sources of Telemetry. The code is vendor-neutral and built for every backend, so that both sources are tested without
// a GPU.

#include <filesystem>
#include <optional>
#include <string>

#include "device/api/device.hpp"

namespace isthmus::device {

/// Returns telemetry from NVML, loaded from `library` (empty: $ISTHMUS_NVML, else the driver's default name). Values
/// that the library, the chip or the driver does not report stay null. Without a library or a matching device, all
/// values stay null and source is "".
Telemetry telemetry_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library = {}) noexcept;
/// Updates the values that change while a case runs and leaves the others unchanged; leaves all unchanged if NVML does
/// not answer.
void refresh_nvml(Telemetry& telemetry, const std::string& uuid, const std::string& pci_bus,
                  const std::string& library = {}) noexcept;
/// Returns the bytes of device memory in use.
std::optional<std::size_t> memory_used_nvml(const std::string& uuid, const std::string& pci_bus,
                                            const std::string& library = {}) noexcept;
/// Returns the users of the device; nullopt for whatever NVML does not report.
Occupancy occupancy_nvml(const std::string& uuid, const std::string& pci_bus, const std::string& library = {}) noexcept;
/// Returns the driver version as nvidia-smi prints it, such as "580.159.04".
std::optional<std::string> nvml_driver_version(const std::string& library = {}) noexcept;
/// Returns true if NVML finds `hex` ("xxxxxxxx-xxxx-…") as a MIG instance ("MIG-…") and not as a whole GPU ("GPU-…").
bool nvml_is_mig(const std::string& hex, const std::string& library = {}) noexcept;

/// Returns telemetry from the amdgpu driver's files under `root`/sys.
Telemetry telemetry_sysfs(const std::string& pci_bus, const std::filesystem::path& root = "/") noexcept;
/// Returns the bytes of VRAM in use; on an APU, of the memory that is reserved as VRAM.
std::optional<std::size_t> memory_used_sysfs(const std::string& pci_bus,
                                             const std::filesystem::path& root = "/") noexcept;
/// Returns the NUMA node of a PCI device; -1 if unknown.
int numa_node_sysfs(const std::string& pci_bus, const std::filesystem::path& root = "/") noexcept;

}  // namespace isthmus::device
