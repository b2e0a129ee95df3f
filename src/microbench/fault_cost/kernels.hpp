#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench::fault_cost {

/// Returns the word that the GPU writes into the page of touch `index`.
constexpr std::uint64_t stamp_of(std::uint64_t first, std::size_t index) {
  return first + index;
}

/// Queues a kernel that writes stamp_of(first, i) to `words` + i · `step`, one thread for each i below `count`.
void queue_stamps(device::Stream& stream, std::uint64_t* words, std::size_t step, std::size_t count,
                  std::uint64_t first);

}  // namespace isthmus::microbench::fault_cost
