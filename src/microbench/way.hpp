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
  malloced,        ///< malloc
  registered,      ///< malloc, touched, then page-locked
  pinned,          ///< allocated page-locked
  write_combined,  ///< allocated page-locked, not cached by the CPU
  mapped,          ///< allocated page-locked, with an address for kernels
  managed,         ///< managed
  static_managed,  ///< a managed variable (`static __managed__`)
  pool,            ///< device memory, stream-ordered
  device,          ///< device memory
};
std::span<const Way> all_ways() noexcept;
/// "malloc", "registered", "pinned", "wc", "mapped", "managed", "static", "pool", "device".
std::string_view name(Way) noexcept;
/// Whether its pages may change place between CPU and device.
bool is_managed(Way) noexcept;
/// Whether it is memory of a device, which the CPU reaches only where both share it.
bool on_device(Way) noexcept;

/// Why a device cannot give memory this way, or cannot make `way` reachable from a side, in words after its name;
/// nullopt where it can. `reader` is who accesses it: the CPU, or the device itself.
enum class Reader { cpu, gpu };
std::optional<std::string> obstacle(Way way, Reader reader, const device::DeviceInfo& info);
/// Throws harness::Skip with that reason.
void need_way(Way way, Reader reader, const device::DeviceInfo& info);

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
