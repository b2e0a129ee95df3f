#pragma once

#include <cstdint>

#include "device/api/device.hpp"
#include "device/api/ignoring_errors.hpp"

namespace isthmus::microbench {

/// A pool that keeps what it got for the life of a scope, as programs that use pools want it.
class KeepingPool {
 public:
  explicit KeepingPool(bool wanted) : wanted_(wanted) {
    if (wanted) device::set_pool_release_threshold(UINT64_MAX);
  }
  ~KeepingPool() {
    if (!wanted_) return;
    device::ignoring_errors([] {
      device::set_pool_release_threshold(0);
      device::synchronize();  // gives the memory back
    });
  }
  KeepingPool(const KeepingPool&) = delete;
  KeepingPool& operator=(const KeepingPool&) = delete;

 private:
  bool wanted_;
};

}  // namespace isthmus::microbench
