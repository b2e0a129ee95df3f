#include "microbench/fault_patterns/kernels.hpp"

namespace isthmus::microbench::fault_patterns {

namespace {

constexpr unsigned kThreads = 256, kBlocksOfMultiprocessor = 2;

// for (page : order)
//   for (slot = first; slot < first + sharers; ++slot)
//     sum += words[page][slot], or words[page][slot] = or += stamp_of(page, slot);
//
// Neighbouring threads share a page, then go to the next one of the order.
template <Access access>
__global__ void touch(unsigned long long* words, const std::uint32_t* order, std::size_t count, unsigned first,
                      unsigned sharers, unsigned long long* sums) {
  const std::size_t thread = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long sum = 0;
  for (std::size_t i = thread; i < count * sharers; i += threads) {
    const std::size_t at = order[i / sharers] * kWordsOfPage + first + i % sharers;
    [[maybe_unused]] const unsigned long long stamp = kStamp * (at + 1);
    if constexpr (access == Access::read) sum += words[at];
    if constexpr (access == Access::write) words[at] = stamp;
    if constexpr (access == Access::atomic) atomicAdd(words + at, stamp);
  }
  sums[thread] = sum;
}

}  // namespace

device::LaunchShape shape_of(const device::DeviceInfo& device) {
  return {.grid = kBlocksOfMultiprocessor * static_cast<unsigned>(device.multiprocessors), .block = kThreads};
}

std::size_t threads_of(const device::DeviceInfo& device) {
  const auto shape = shape_of(device);
  return shape.grid.size() * shape.block.size();
}

void queue_touches(device::Stream& stream, Access access, const Touches& touches, const device::DeviceInfo& device) {
  const auto queue = [&](auto kernel) {
    launch(stream, kernel, shape_of(device), reinterpret_cast<unsigned long long*>(touches.words), touches.order,
           touches.count, touches.first, touches.sharers, reinterpret_cast<unsigned long long*>(touches.sums));
  };
  switch (access) {
    case Access::read:
      queue(ISTHMUS_KERNEL(touch<Access::read>));
      break;
    case Access::write:
      queue(ISTHMUS_KERNEL(touch<Access::write>));
      break;
    case Access::atomic:
      queue(ISTHMUS_KERNEL(touch<Access::atomic>));
      break;
  }
}

}  // namespace isthmus::microbench::fault_patterns
