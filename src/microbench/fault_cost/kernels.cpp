#include "microbench/fault_cost/kernels.hpp"

namespace isthmus::microbench::fault_cost {

namespace {

constexpr unsigned kThreads = 256;

// for (i = 0; i < count; ++i) words[i * step] = first + i;
//
// Each thread touches one page, so that the maximum number of faults that the device supports is pending.
__global__ void stamp_pages(unsigned long long* words, std::size_t step, std::size_t count, unsigned long long first) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) words[i * step] = first + i;
}

}  // namespace

void queue_stamps(device::Stream& stream, std::uint64_t* words, std::size_t step, std::size_t count,
                  std::uint64_t first) {
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  launch(stream, ISTHMUS_KERNEL(stamp_pages), {.grid = blocks, .block = kThreads},
         reinterpret_cast<unsigned long long*>(words), step, count, static_cast<unsigned long long>(first));
}

}  // namespace isthmus::microbench::fault_cost
