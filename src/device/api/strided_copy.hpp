#pragma once

// What every backend asks of a StridedCopy before it is queued.

#include "device/api/device.hpp"

namespace isthmus::device {

/// A StridedCopy with its defaults filled in, and the bytes from the first to behind the last at each end.
struct StridedExtent {
  StridedCopy shape;
  std::size_t destination_bytes = 0, source_bytes = 0;
};
/// Throws where rows or planes would overlap, or the bytes cannot be counted. Nothing to copy gives 0 bytes.
StridedExtent strided_extent(const StridedCopy& shape);

}  // namespace isthmus::device
