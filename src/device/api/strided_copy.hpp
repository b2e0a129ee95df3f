#pragma once

// Validation of a StridedCopy, shared by all backends.

#include "device/api/device.hpp"

namespace isthmus::device {

/// StridedCopy with its defaults set, and the size in bytes of the region that it spans in the destination and the
/// source.
struct StridedExtent {
  StridedCopy shape;
  std::size_t destination_bytes = 0, source_bytes = 0;
};
/// Returns the extent; 0 bytes if there is nothing to copy. Throws if rows or planes would overlap, or if the size
/// overflows.
StridedExtent strided_extent(const StridedCopy& shape);

}  // namespace isthmus::device
