#pragma once

// How much more memory is in use than before a case allocated any.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "device/api/device.hpp"

namespace isthmus::harness {

/// What the process has on the host (VmRSS) and what is taken of the selected device, together. accounting/* has each
/// kind of memory of one GPU in exactly one of the two, once it is touched. nullopt where there is no such counter, or
/// where the device's counts host memory, too: an integrated one of CUDA.
std::optional<std::size_t> memory_in_use(const std::optional<device::DeviceInfo>& device);

/// The most that was seen over what was in use when it was made.
class MemoryPeak {
 public:
  using Read = std::function<std::optional<std::size_t>()>;
  explicit MemoryPeak(Read read) : read_(std::move(read)), before_(read_()), most_(before_) {}
  void look() { most_ = std::max(most_, read_()); }
  std::optional<double> bytes() const {
    return before_ ? std::optional(static_cast<double>(*most_ - *before_)) : std::nullopt;
  }

 private:
  Read read_;
  std::optional<std::size_t> before_, most_;
};

}  // namespace isthmus::harness
