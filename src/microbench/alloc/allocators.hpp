#pragma once

// The ways to get memory, each with the call that takes it back.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "device/device.hpp"

namespace isthmus::microbench::alloc {

/// What a call is given.
struct AllocationRequest {
  std::size_t bytes = 0;
  device::Stream* stream = nullptr;  ///< of stream-ordered memory; none without a device
  int numa_node = 0;                 ///< of libnuma's
  void* memory = nullptr;            ///< what is to be registered
};

struct Allocator {
  std::string_view name, words;
  bool on_host;         ///< where its bytes are
  bool native;          ///< needs no device
  bool up_front;        ///< its pages are there when the call returns; else the first touch brings them
  bool by_cpu, by_gpu;  ///< who can write it
  /// What the driver calls it; none: it need not know it.
  std::optional<device::PointerKind> kind;
  /// Throws device::Error where there is no memory.
  void* (*allocate)(const AllocationRequest& request);
  void (*release)(void* pointer, const AllocationRequest& request);
  /// Whether a device has it; nullptr: any has.
  bool (*offered)(const device::DeviceInfo& device);
};

std::span<const Allocator> allocators() noexcept;
/// Throws std::logic_error where there is none of this name.
const Allocator& allocator(std::string_view name);

}  // namespace isthmus::microbench::alloc
