#pragma once

// Operations on the CPU, by one thread.

#include <cstddef>

#include "microbench/stream/operation.hpp"

namespace isthmus::microbench::stream {

/// Instructions that write results to memory.
enum class Stores {
  standard,   ///< written through the caches, which fetch a line before they change it
  streaming,  ///< written past the caches (non-temporal)
};

/// Number of elements in a work item. Threads process whole work items, and arrays consist of whole work items.
inline constexpr std::size_t kPiece = 8;  // a cache line of 64 bytes

/// Returns whether this build has non-temporal stores for this CPU.
bool has_streaming_stores() noexcept;

/// Applies the operation to elements [first, last). Both bounds are multiples of kPiece, and the arrays are aligned to
/// a piece. Returns the sum of the elements for Operation::read, else 0. Operation::read ignores `stores`.
double run_on_host(Operation operation, Stores stores, const Arrays& arrays, std::size_t first, std::size_t last);

}  // namespace isthmus::microbench::stream
