#pragma once

// Functions that write a word into every page and check that the page contains it.

#include <cstddef>
#include <cstdint>

#include "device/api/device.hpp"

namespace isthmus::microbench::accounting {

/// Returns the word in page `page` after it was touched.
constexpr std::uint64_t word_of(std::size_t page) {
  return 0x9e3779b97f4a7c15ULL * (page + 1);
}

/// Touches the pages on the calling thread.
void touch_on_cpu(std::byte* begin, std::size_t bytes, std::size_t page);
/// Queues a kernel that touches the pages.
void queue_touch_on_gpu(device::Stream& stream, std::byte* begin, std::size_t bytes, std::size_t page);
/// Returns the number of pages that do not contain their word. Unless `host_reaches`, the pages are copied to the host.
std::size_t wrong_pages(const std::byte* begin, std::size_t bytes, std::size_t page, bool host_reaches);

}  // namespace isthmus::microbench::accounting
