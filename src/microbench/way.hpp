#pragma once

// The ways of allocating memory that CPU and GPU may share, each as one block, and who reaches it.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "memory/host_block.hpp"

namespace isthmus::microbench {

enum class Way {
  device,          ///< device memory
  pool,            ///< device memory, stream-ordered
  managed,         ///< managed: pages go where they are used
  static_managed,  ///< a managed variable (`static __managed__`)
  mapped,          ///< allocated page-locked, with an address for kernels
  pinned,          ///< allocated page-locked
  registered,      ///< malloc, touched, then page-locked
  write_combined,  ///< as mapped, but the CPU does not cache it
  malloced,        ///< malloc: kernels reach it by themselves or not at all (HMM, ATS, XNACK)
};
std::span<const Way> all_ways() noexcept;
/// "device", "pool", "managed", "static", "mapped", "pinned", "registered", "wc", "malloc".
std::string_view name(Way) noexcept;
/// Throws std::invalid_argument for a name that none has.
Way way(std::string_view name);
/// Whether its pages may change place between CPU and device.
bool is_managed(Way) noexcept;
/// Whether it is memory of a device, which the CPU reaches only where both share it.
bool on_device(Way) noexcept;

/// Whether it lies on the host for good, so that kernels reach it over the link (of a device that has a link).
bool page_locked(Way) noexcept;

/// Why a device cannot give memory this way, or the reader cannot reach it there, as a sentence about the device;
/// nullopt where it can. `reader` is who accesses it: the CPU, or the device itself.
enum class Reader { cpu, gpu };
std::optional<std::string> obstacle(Way way, Reader reader, const device::DeviceInfo& info);
/// Throws workload::Skip with that reason.
void need_way(Way way, Reader reader, const device::DeviceInfo& info);
/// Whether CPU and GPU may use it at the same time.
bool shared_at_once(Way way, const device::DeviceInfo& info);

/// One block, of the device that is selected when it is made. Nobody has touched it, but that registered memory was
/// touched before it was locked and a driver may touch what it locks.
class WayBlock {
 public:
  /// NUMA node and pages count where the memory is the host's. Throws device::Error.
  WayBlock(Way way, std::size_t bytes, memory::HostBlockOptions options = {});
  ~WayBlock();  ///< never throws
  WayBlock(const WayBlock&) = delete;
  WayBlock& operator=(const WayBlock&) = delete;

  Way way() const noexcept { return way_; }
  std::size_t size() const noexcept { return bytes_; }
  std::byte* data() const noexcept { return data_; }
  /// For kernels.
  std::byte* device_data() const;
  /// By the CPU, on the node asked for; not for device memory.
  void touch();
  /// What was asked, checked against what was given; as HostBlock has it.
  std::vector<std::string> disagreements(std::string_view what) const;

 private:
  Way way_;
  std::size_t bytes_;
  int device_, numa_node_;
  std::optional<memory::HostBlock> host_;
  std::optional<device::Stream> stream_;  // of `pool`
  std::byte* data_ = nullptr;
};

}  // namespace isthmus::microbench
