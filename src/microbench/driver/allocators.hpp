#pragma once

// The ways in which the device layer gives memory, each with the call that takes it back.

#include <cstddef>
#include <span>
#include <string_view>

#include "device/device.hpp"

namespace isthmus::microbench::driver {

struct Allocator {
  std::string_view name;
  bool on_host;
  /// `memory` is what register_host() locks; the others ignore it.
  void* (*allocate)(void* memory, std::size_t bytes, device::Stream& stream);
  void (*release)(void* pointer, device::Stream& stream);
  /// Whether a device has it.
  bool (*offered)(const device::DeviceInfo& device);
};

std::span<const Allocator> allocators() noexcept;
/// Throws std::logic_error where there is none of this name.
const Allocator& allocator(std::string_view name);

/// Memory for the life of a scope. Throws device::Error.
class Allocation {
 public:
  Allocation(std::string_view allocator_name, std::size_t bytes, device::Stream& stream);
  ~Allocation();  ///< never throws
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  std::byte* data() const noexcept { return static_cast<std::byte*>(pointer_); }

 private:
  const Allocator& allocator_;
  device::Stream& stream_;
  void* pointer_;
};

}  // namespace isthmus::microbench::driver
