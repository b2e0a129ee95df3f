#pragma once

// Writing a word into every page, and whether it is there.

#include <cstddef>
#include <cstdint>

#include "device/api/device.hpp"

namespace isthmus::microbench::accounting {

/// What page `page` holds once it was touched.
constexpr std::uint64_t word_of(std::size_t page) {
  return 0x9e3779b97f4a7c15ULL * (page + 1);
}

/// By the calling thread.
void touch_on_cpu(std::byte* begin, std::size_t bytes, std::size_t page);
/// Queues a kernel that does.
void queue_touch_on_gpu(device::Stream& stream, std::byte* begin, std::size_t bytes, std::size_t page);
/// Pages that do not hold their word; read by copies where the host does not reach them.
std::size_t wrong_pages(const std::byte* begin, std::size_t bytes, std::size_t page, bool host_reaches);

}  // namespace isthmus::microbench::accounting
