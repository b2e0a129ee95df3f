#pragma once

// Calls of a library as device work: checked as copies and kernels are, queued in stream order, kept by a capture.

#include <functional>
#include <vector>

#include "emulator/device.hpp"

namespace emulator {

/// What a call reads or writes: rows that lie `pitch` bytes apart.
struct Operand {
  const char* name;
  const void* pointer;
  std::size_t row_bytes;
  std::size_t rows;
  std::size_t pitch;
  bool written;
};

/// `device` is the library's own. `work` runs when the stream comes to it, and may touch the operands there.
void queue_library_call(const char* call, int device, Stream& stream, std::vector<Operand> operands,
                        std::function<void()> work);

/// Refuses memory that kernels of the device cannot reach.
void need_device_memory(const char* call, int device, const char* name, const void* pointer, std::size_t bytes);

}  // namespace emulator
