#pragma once

// Peak of the memory that a case uses.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "device/api/device.hpp"

namespace isthmus::harness {

/// Returns the process's host memory (VmRSS) plus the used memory of the selected device. accounting/* shows that each
/// kind of memory of one GPU is in exactly one of the two once it is touched. Returns nullopt if there is no such
/// counter, or if the device's counter includes host memory, like that of an integrated CUDA device.
std::optional<std::size_t> memory_in_use(const std::optional<device::DeviceInfo>& device);

/// Maximum of the memory in use, relative to its value at construction.
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
