#pragma once

#include <cstdint>

#include "device/api/device.hpp"
#include "device/api/ignoring_errors.hpp"

namespace isthmus::microbench {

/// Scope in which the pool keeps freed memory, as programs that use pools usually request.
class KeepingPool {
 public:
  explicit KeepingPool(bool wanted) : wanted_(wanted) {
    if (wanted) device::set_pool_release_threshold(UINT64_MAX);
  }
  ~KeepingPool() {
    if (!wanted_) return;
    device::ignoring_errors([] {
      device::set_pool_release_threshold(0);
      device::synchronize();  // releases the memory
    });
  }
  KeepingPool(const KeepingPool&) = delete;
  KeepingPool& operator=(const KeepingPool&) = delete;

 private:
  bool wanted_;
};

}  // namespace isthmus::microbench
