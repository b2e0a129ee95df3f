#include "microbench/empty_kernel.hpp"

#include "microbench/call_cost.hpp"

namespace isthmus::microbench {

void launch_empty(device::Stream& stream) {
  launch_empty(stream, {.grid = 1, .block = kEmptyThreads}, Argument<8>{});
}

}  // namespace isthmus::microbench
