#pragma once

// Memory that jobs ask for.

#include <cstddef>
#include <optional>
#include <string_view>

#include "memory/kind.hpp"

namespace isthmus::interjob {

using memory::Kind;

/// What gives the memory: the call of a kind, any but `registered`, or, for none, a ChunkedBlock of the batch. Chunks
/// are no kind: no one call gives them, and the next job's memory grows as this job's shrinks.
using Source = std::optional<Kind>;
inline constexpr Source kChunked = std::nullopt;
std::string_view name(Source) noexcept;

enum class Phase { in, kernel, out, finish };

struct Request {
  Source source = Kind::device;
  std::size_t bytes = 0;
  /// The first and the last phase that use it. Chunked memory is mapped and unmapped by them; other memory is there
  /// from the first phase to the last.
  Phase from = Phase::in, until = Phase::finish;
  bool operator==(const Request&) const = default;
};

/// Bytes of device memory that it takes: none for host memory; managed memory may all come to the device. Chunked
/// memory is counted by its pool.
std::size_t device_bytes(const Request& request) noexcept;

/// The request with its bytes in the whole units that its kind comes in (vmm). Throws std::invalid_argument for
/// registered memory, device::Error.
Request in_whole_units(Request request);

/// Not for chunked memory. Pooled memory is usable by what is queued on `stream` from then on. Throws device::Error.
void* allocate(const Request& request, device::Stream& stream);
/// Nothing on the device may use it any more, but, of pooled memory, what was queued on `stream`. Throws device::Error.
void release(const Request& request, void* pointer, device::Stream& stream);

}  // namespace isthmus::interjob
