#pragma once

#include "device/api/device.hpp"

namespace isthmus::trace::uvm {

/// Queues a single-threaded kernel that does *seen = *page.
void queue_read(device::Stream& stream, const unsigned char* page, unsigned char* seen);

}  // namespace isthmus::trace::uvm
