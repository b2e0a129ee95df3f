#pragma once

// Memory that jobs request.

#include <cstddef>
#include <optional>
#include <string_view>

#include "memory/kind.hpp"

namespace isthmus::interjob {

using memory::Kind;

/// Source of the memory: a kind (any except `registered`), whose call allocates it, or, if empty, a ChunkedBlock of the
/// batch. Chunked memory is not a kind: it is not allocated by a single call, and the next job's memory grows as this
/// job's shrinks.
using Source = std::optional<Kind>;
inline constexpr Source kChunked = std::nullopt;
std::string_view name(Source) noexcept;

enum class Phase { in, kernel, out, finish };

struct Request {
  Source source = Kind::device;
  std::size_t bytes = 0;
  /// First and last phase that use the memory. They decide when chunked memory is mapped and unmapped; other memory
  /// exists from the first phase to the last.
  Phase from = Phase::in, until = Phase::finish;
  bool operator==(const Request&) const = default;
};

/// Returns the bytes of device memory that the request may need: 0 for host memory, all bytes for managed memory,
/// because all of it may move to the device, and 0 for chunked memory, because its pool counts it.
std::size_t device_bytes(const Request& request) noexcept;

/// Returns the request with its bytes rounded up to the units of its kind (vmm). Throws std::invalid_argument for
/// registered memory, device::Error if the unit cannot be queried.
Request in_whole_units(Request request);

/// Allocates memory that is not chunked. Work queued on `stream` afterwards may use pooled memory. Throws
/// device::Error.
void* allocate(const Request& request, device::Stream& stream);
/// Frees memory. The device must no longer use it, except that for pooled memory, work already queued on `stream` may
/// still use it. Throws device::Error.
void release(const Request& request, void* pointer, device::Stream& stream);

}  // namespace isthmus::interjob
