#include "trace/uvm/read_page.hpp"

#include "device/kernel/kernel.hpp"

namespace isthmus::trace::uvm {

namespace {

// *seen = *page;
__global__ void read_page(const unsigned char* page, unsigned char* seen) {
  *seen = *page;
}

}  // namespace

void queue_read(device::Stream& stream, const unsigned char* page, unsigned char* seen) {
  launch(stream, ISTHMUS_KERNEL(read_page), {.grid = 1, .block = 1}, page, seen);
}

}  // namespace isthmus::trace::uvm
