#include <algorithm>

#include "device/kernel/kernel.hpp"
#include "microbench/latency/follow.hpp"

namespace isthmus::microbench::latency {

namespace {

// for (hop = 0; hop < hops; ++hop) *at = **at;
__global__ void follow_on_gpu(std::uint64_t* at, std::size_t hops) {
  std::uint64_t place = *at;
#pragma unroll 32
  for (std::size_t hop = 0; hop < hops; ++hop)
    place = device::load_global(reinterpret_cast<const std::uint64_t*>(place));
  *at = place;
}

// for (i = 0; i < pages; ++i) *sum += from[i * step];
__global__ void visit(const std::uint64_t* from, std::size_t pages, std::size_t step, unsigned long long* sum) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < pages; i += stride)
    mine += from[i * step];
  if (mine != 0) atomicAdd(sum, mine);
}

}  // namespace

void queue_follow(device::Stream& stream, std::uint64_t* at, std::size_t hops) {
  launch(stream, ISTHMUS_KERNEL(follow_on_gpu), {.grid = 1, .block = 1}, at, hops);
}

void queue_visit(device::Stream& stream, const std::byte* begin, std::size_t bytes, std::size_t page,
                 std::uint64_t* sum) {
  constexpr std::size_t kThreads = 128, kMostBlocks = 512;
  const std::size_t pages = std::max<std::size_t>(bytes / page, 1);
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(pages / kThreads, 1, kMostBlocks));
  launch(stream, ISTHMUS_KERNEL(visit), {.grid = blocks, .block = kThreads},
         reinterpret_cast<const std::uint64_t*>(begin), pages, page / sizeof(std::uint64_t),
         reinterpret_cast<unsigned long long*>(sum));
}

}  // namespace isthmus::microbench::latency
