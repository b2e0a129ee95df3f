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
  vmm,      ///< malloc_mapped: addresses and memory apart, in one piece
  chunked,  ///< a ChunkedBlock of the batch: the next job's grows as this job's shrinks
};
inline constexpr Kind kKinds[] = {Kind::device, Kind::pool, Kind::pinned, Kind::managed, Kind::vmm, Kind::chunked};
std::string_view name(Kind) noexcept;

enum class Phase { in, kernel, out, finish };

struct Request {
  Kind kind = Kind::device;
  std::size_t bytes = 0;
  /// The first and the last phase that use it. Chunked memory is mapped and unmapped by them; other kinds are there
  /// from the first phase to the last.
  Phase from = Phase::in, until = Phase::finish;
  bool operator==(const Request&) const = default;
};

/// Bytes of device memory that it takes: none for pinned memory; managed memory may all come to the device. Chunked
/// memory is counted by its pool.
std::size_t device_bytes(const Request& request) noexcept;

/// The request with its bytes in the whole units that its kind comes in (vmm), as the calls below want it. Throws
/// device::Error.
Request in_whole_units(Request request);

/// Not for chunked memory. Pooled memory is usable by what is queued on `stream` from then on. Throws device::Error.
void* allocate(const Request& request, device::Stream& stream);
/// Nothing on the device may use it any more, but, of pooled memory, what was queued on `stream`. Throws device::Error.
void release(const Request& request, void* pointer, device::Stream& stream);

}  // namespace isthmus::interjob
