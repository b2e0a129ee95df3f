#pragma once

// Library calls as device work: they are checked like copies and kernels, queued in stream order, and recorded by a
// capture.

#include <functional>
#include <vector>

#include "emulator/device.hpp"

namespace emulator {

/// Memory that a call reads or writes, as rows that are `pitch` bytes apart.
struct Operand {
  const char* name;
  const void* pointer;
  std::size_t row_bytes;
  std::size_t rows;
  std::size_t pitch;
  bool written;
};

/// Queues a library call. `device` is the library's device. `work` runs in stream order and may access the operands.
void queue_library_call(const char* call, int device, Stream& stream, std::vector<Operand> operands,
                        std::function<void()> work);

/// Throws if kernels of the device cannot access the memory.
void require_device_memory(const char* call, int device, const char* name, const void* pointer, std::size_t bytes);

}  // namespace emulator
