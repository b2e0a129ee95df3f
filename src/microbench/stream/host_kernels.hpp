#pragma once

// The operations on the CPU, by one thread.

#include <cstddef>

#include "microbench/stream/operation.hpp"

namespace isthmus::microbench::stream {

/// With which instructions results go to memory.
enum class Stores {
  standard,   ///< through the caches, which fetch a line before they change it
  streaming,  ///< past the caches (non-temporal)
};

/// Elements of a piece of work: threads take whole ones, and arrays are whole ones.
inline constexpr std::size_t kPiece = 8;  // a cache line of 64 bytes

/// Whether this build has such stores for this CPU.
bool has_streaming_stores() noexcept;

/// Does the operation on elements [first, last), both multiples of kPiece, arrays being aligned to as much. Returns the
/// sum of what was read where the operation is read, else 0. `stores` means nothing to read.
double run_on_host(Operation operation, Stores stores, const Arrays& arrays, std::size_t first, std::size_t last);

}  // namespace isthmus::microbench::stream
