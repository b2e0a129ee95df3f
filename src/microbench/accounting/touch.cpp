#include "microbench/accounting/touch.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench::accounting {

namespace {

// for (page = 0; page < pages; ++page) begin[page * step] = word_of(page);
__global__ void touch(std::uint64_t* begin, std::size_t pages, std::size_t step) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t page = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; page < pages; page += stride)
    begin[page * step] = 0x9e3779b97f4a7c15ULL * (page + 1);
}

}  // namespace

void touch_on_cpu(std::byte* begin, std::size_t bytes, std::size_t page) {
  for (std::size_t i = 0; i < bytes / page; ++i)
    *reinterpret_cast<volatile std::uint64_t*>(begin + i * page) = word_of(i);
}

void queue_touch_on_gpu(device::Stream& stream, std::byte* begin, std::size_t bytes, std::size_t page) {
  constexpr std::size_t kThreads = 128, kMostBlocks = 512;
  const std::size_t pages = bytes / page;
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(pages / kThreads, 1, kMostBlocks));
  launch(stream, ISTHMUS_KERNEL(touch), {.grid = blocks, .block = kThreads}, reinterpret_cast<std::uint64_t*>(begin),
         pages, page / sizeof(std::uint64_t));
}

std::size_t wrong_pages(const std::byte* begin, std::size_t bytes, std::size_t page, bool host_reaches) {
  constexpr std::size_t kBounce = std::size_t{16} << 20;
  const std::size_t at_once = host_reaches ? bytes / page : std::clamp<std::size_t>(kBounce / page, 1, bytes / page);
  std::vector<std::byte> bounce(host_reaches ? 0 : at_once * page);
  std::size_t wrong = 0;
  for (std::size_t first = 0; first < bytes / page; first += at_once) {
    const std::size_t last = std::min(first + at_once, bytes / page);
    if (!host_reaches) device::copy(bounce.data(), begin + first * page, (last - first) * page);
    const std::byte* from = host_reaches ? begin + first * page : bounce.data();
    for (std::size_t i = first; i < last; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, from + (i - first) * page, sizeof word);
      wrong += word != word_of(i);
    }
  }
  return wrong;
}

}  // namespace isthmus::microbench::accounting
