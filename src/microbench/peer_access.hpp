#pragma once

#include "device/device.hpp"

namespace isthmus::microbench {

/// Two devices reach each other's memory as long as one of these exists.
class PeerAccess {
 public:
  /// Throws workload::Skip where they cannot.
  PeerAccess(int device, int peer);
  ~PeerAccess();  ///< never throws
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;

 private:
  int device_, peer_;
};

}  // namespace isthmus::microbench
