#pragma once

#include "device/api/device.hpp"

namespace isthmus::device {

/// copy_batch_async() for copies that a kernel waits for while it runs: by the copy engines. A runtime that may choose
/// may copy by a kernel of its own, for which there is no room beside one that fills the device.
void copy_batch_by_engines_async(std::span<const CopyItem> items, Stream& stream);

}  // namespace isthmus::device
