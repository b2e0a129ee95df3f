#pragma once

#include "device/api/device.hpp"

namespace isthmus::device {

/// Queues a batch like copy_batch_async(), but always on the copy engines, for copies that a running kernel waits for.
/// A runtime that is free to choose may copy with its own kernel, which cannot start while another kernel occupies the
/// whole device.
void copy_batch_by_engines_async(std::span<const CopyItem> items, Stream& stream);

}  // namespace isthmus::device
