#pragma once

// The ways of allocating memory that kernels reach, as a run-time choice.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/device.hpp"
#include "memory/host_block.hpp"

namespace isthmus::memory {

enum class Way {
  device,          ///< device memory
  pool,            ///< stream-ordered, from the device's pool
  managed,         ///< pages that go where they are used
  mapped,          ///< allocated page-locked; kernels read it over the link
  registered,      ///< malloc'd, touched, then page-locked
  write_combined,  ///< as mapped, but the CPU does not cache it
  system,          ///< malloc'd, which kernels reach by themselves (HMM, ATS, XNACK)
};
std::string_view name(Way) noexcept;
std::span<const Way> all_ways() noexcept;
/// Throws std::invalid_argument for a name that none has.
Way way(std::string_view name);

/// Why this device cannot have such memory, as a sentence about it; nullopt where it can.
std::optional<std::string> lack(Way way, const device::DeviceInfo& device);
/// Whether such memory lies on the host for good, so that kernels reach it over the link (of a device that has a link).
bool stays_on_host(Way way) noexcept;
/// Whether the CPU can use it as it is.
bool host_reaches(Way way, const device::DeviceInfo& device) noexcept;
/// Whether CPU and GPU may use it at the same time.
bool shared_at_once(Way way, const device::DeviceInfo& device) noexcept;

/// Memory of the selected device, for the life of a scope. Throws device::Error.
class WayBlock {
 public:
  WayBlock(Way way, std::size_t bytes, HostBlockOptions options = {});
  ~WayBlock();  ///< never throws
  WayBlock(const WayBlock&) = delete;
  WayBlock& operator=(const WayBlock&) = delete;

  Way way() const noexcept { return way_; }
  std::size_t size() const noexcept { return bytes_; }
  /// By which the host and copies reach it.
  std::byte* data() const noexcept { return data_; }
  /// By which kernels reach it.
  std::byte* device_data() const;
  /// What was asked, checked against what the driver says; one sentence each. Call after touching.
  std::vector<std::string> disagreements(std::string_view what) const;

 private:
  Way way_;
  std::size_t bytes_;
  int device_;
  std::optional<HostBlock> host_;
  std::optional<device::Stream> stream_;
  std::byte* data_ = nullptr;
};

}  // namespace isthmus::memory
