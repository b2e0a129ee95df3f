#include "device/api/strided_copy.hpp"

#include <fmt/format.h>

namespace isthmus::device {
namespace {

[[noreturn]] void refuse(const std::string& reason, const std::string& hint) {
  throw Error(ErrorKind::failure, "copy_strided_async", reason, hint);
}

/// Sets the defaults of the source or the destination (`end`) and returns its size in bytes.
std::size_t complete(const char* end, const StridedCopy& shape, std::size_t& pitch, std::size_t& rows) {
  if (pitch == 0) pitch = shape.row_bytes;
  if (rows == 0) rows = shape.rows;
  if (pitch < shape.row_bytes) {
    refuse(fmt::format("the {}'s pitch of {} bytes is less than the {} of a row", end, pitch, shape.row_bytes),
           "make the pitch at least row_bytes, or 0 for contiguous rows");
  }
  if (rows < shape.rows) {
    refuse(fmt::format("the {}'s {} rows per plane are fewer than the {} to copy", end, rows, shape.rows),
           "make them at least rows, or 0 for contiguous planes");
  }
  std::size_t before_last_row = 0, bytes = 0;
  if (__builtin_mul_overflow(shape.planes - 1, rows, &before_last_row) ||
      __builtin_add_overflow(before_last_row, shape.rows - 1, &before_last_row) ||
      __builtin_mul_overflow(before_last_row, pitch, &bytes) ||
      __builtin_add_overflow(bytes, shape.row_bytes, &bytes)) {
    refuse(fmt::format("the size of the {} in bytes overflows", end), "copy less");
  }
  return bytes;
}

}  // namespace

StridedExtent strided_extent(const StridedCopy& shape) {
  StridedExtent extent{.shape = shape};
  StridedCopy& whole = extent.shape;
  if (shape.row_bytes == 0 || shape.rows == 0 || shape.planes == 0) return extent;
  extent.destination_bytes = complete("destination", shape, whole.destination_pitch, whole.destination_rows);
  extent.source_bytes = complete("source", shape, whole.source_pitch, whole.source_rows);
  return extent;
}

}  // namespace isthmus::device
