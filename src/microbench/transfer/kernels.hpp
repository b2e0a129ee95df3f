#pragma once

// The kernels that move bytes or ask for them, and how they are launched.

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"
#include "microbench/launch_shape.hpp"

namespace isthmus::microbench::transfer {

/// In which order the threads of a copying kernel take the elements; each element is taken once.
enum class Order {
  contiguous,  ///< neighbouring threads take neighbouring elements
  strided,     ///< neighbouring threads take elements `stride` bytes apart
  chunked,     ///< each thread takes a run of `stride` bytes
};

struct CopyGeometry {
  unsigned width = 16;     ///< bytes of one access: 4, 8 or 16
  unsigned grid = 0;       ///< blocks; 0: as many as suit the device
  unsigned sharers = 1;    ///< kernels that run there at once, which all find room
  unsigned threads = 512;  ///< of a block
  Order order = Order::contiguous;
  std::size_t stride = 128;
};

/// Rows of a box that lie apart: `rows` rows of `row_bytes` in each of `planes` planes.
struct Box {
  std::size_t row_bytes = 0, rows = 1, planes = 1;
  std::size_t pitch = 0;       ///< bytes from row to row
  std::size_t plane_rows = 1;  ///< rows from plane to plane

  std::size_t payload() const { return row_bytes * rows * planes; }
  /// From the first byte to the last.
  std::size_t extent() const { return ((planes - 1) * plane_rows + rows - 1) * pitch + row_bytes; }
  /// The same rows with nothing between them.
  Box packed() const { return {row_bytes, rows, planes, row_bytes, rows}; }
};

DescribedLaunch describe_copy(const CopyGeometry& geometry, std::size_t bytes, const device::DeviceInfo& device);

/// Queues a kernel that copies `bytes` (a multiple of the width, both ends aligned to it).
void queue_copy(device::Stream& stream, void* to, const void* from, std::size_t bytes, const CopyGeometry& geometry,
                const device::DeviceInfo& device);
/// Queues a kernel that copies the rows of one box to those of another of the same shape.
void queue_box_copy(device::Stream& stream, void* to, const Box& to_box, const void* from, const Box& from_box,
                    const CopyGeometry& geometry, const device::DeviceInfo& device);
/// How a page is asked for.
enum class Touch {
  whole,  ///< every word of it is read
  page,   ///< its first word is read
  write,  ///< its first byte is overwritten with zero
};
/// Queues a kernel that touches every `page` bytes of the range; what it reads, in words of 8 bytes, is added to
/// `*sum`.
void queue_touch(device::Stream& stream, std::byte* range, std::size_t bytes, std::size_t page, Touch touch,
                 std::uint64_t* sum, const CopyGeometry& geometry, const device::DeviceInfo& device);
/// Queues kernels that follow a chain of `hops` indices from its first, each telling in units of `step` words where the
/// next one lies, and write where it ends to `*end`. One thread at a time does, in one block after the other of as many
/// `blocks`: where they are as many as the multiprocessors, each of these has its turn, near to the memory or far.
void queue_chase(device::Stream& stream, const std::uint64_t* chain, std::size_t step, std::size_t hops,
                 unsigned blocks, std::uint64_t* end);

}  // namespace isthmus::microbench::transfer
