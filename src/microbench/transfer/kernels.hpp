#pragma once

// Kernels that move or touch bytes, and the geometry of their launches.

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"
#include "microbench/launch_shape.hpp"

namespace isthmus::microbench::transfer {

/// Order in which the threads of a copy kernel handle the elements. Each element is copied once.
enum class Order {
  contiguous,  ///< neighbouring threads copy neighbouring elements
  strided,     ///< neighbouring threads copy elements `stride` bytes apart
  chunked,     ///< each thread copies a run of `stride` bytes
};

struct CopyGeometry {
  unsigned width = 16;     ///< bytes of one access: 4, 8 or 16
  unsigned grid = 0;       ///< number of blocks; 0 for as many as suit the device
  unsigned sharers = 1;    ///< number of kernels that must be resident at once
  unsigned threads = 512;  ///< threads per block
  Order order = Order::contiguous;
  std::size_t stride = 128;
};

/// Rows of a box that are not contiguous: `rows` rows of `row_bytes` in each of `planes` planes.
struct Box {
  std::size_t row_bytes = 0, rows = 1, planes = 1;
  std::size_t pitch = 0;       ///< bytes from row to row
  std::size_t plane_rows = 1;  ///< rows from plane to plane

  std::size_t payload() const { return row_bytes * rows * planes; }
  /// Returns the number of bytes from the first byte to the last, including gaps.
  std::size_t extent() const { return ((planes - 1) * plane_rows + rows - 1) * pitch + row_bytes; }
  /// Returns a box of the same rows without gaps.
  Box packed() const { return {row_bytes, rows, planes, row_bytes, rows}; }
};

DescribedLaunch describe_copy(const CopyGeometry& geometry, std::size_t bytes, const device::DeviceInfo& device);

/// Queues a kernel that copies `bytes` (a multiple of the width, both ends aligned to it).
void queue_copy(device::Stream& stream, void* to, const void* from, std::size_t bytes, const CopyGeometry& geometry,
                const device::DeviceInfo& device);
/// Queues a kernel that copies the rows of one box to the rows of another box of the same shape.
void queue_box_copy(device::Stream& stream, void* to, const Box& to_box, const void* from, const Box& from_box,
                    const CopyGeometry& geometry, const device::DeviceInfo& device);
/// Method of touching a page.
enum class Touch {
  whole,  ///< reads every word
  page,   ///< reads the first word
  write,  ///< overwrites the first byte with zero
};
/// Queues a kernel that touches every `page` bytes of the range and adds the 8-byte words that it reads to `*sum`.
void queue_touch(device::Stream& stream, std::byte* range, std::size_t bytes, std::size_t page, Touch touch,
                 std::uint64_t* sum, const CopyGeometry& geometry, const device::DeviceInfo& device);
/// Queues kernels that follow a chain of `hops` indices from its first and write the last one to `*end`. Each index is
/// the place of the next one in units of `step` words. One thread runs at a time, in each of `blocks` blocks in turn.
/// With one block per multiprocessor, every multiprocessor has its turn, whether near to the memory or far.
void queue_chase(device::Stream& stream, const std::uint64_t* chain, std::size_t step, std::size_t hops,
                 unsigned blocks, std::uint64_t* end);

}  // namespace isthmus::microbench::transfer
