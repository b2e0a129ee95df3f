#pragma once

// Memory that jobs ask for, by the call that gives it.

#include <cstddef>
#include <string_view>

#include "device/device.hpp"

namespace isthmus::interjob {

enum class Kind {
  device,   ///< malloc_device
  pool,     ///< malloc_pooled: stream-ordered
  pinned,   ///< page-locked host memory
  managed,  ///< malloc_managed
};
std::string_view name(Kind) noexcept;

struct Request {
  Kind kind = Kind::device;
  std::size_t bytes = 0;
  bool operator==(const Request&) const = default;
};

/// Bytes of device memory that it takes: none for pinned memory; managed memory may all come to the device.
std::size_t device_bytes(const Request& request) noexcept;

/// Pooled memory is usable by what is queued on `stream` from then on. Throws device::Error.
void* allocate(const Request& request, device::Stream& stream);
/// Nothing on the device may use it any more, but, of pooled memory, what was queued on `stream`. Throws device::Error.
void release(const Request& request, void* pointer, device::Stream& stream);

}  // namespace isthmus::interjob
