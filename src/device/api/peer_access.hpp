#pragma once

#include "device/api/device.hpp"

namespace isthmus::device {

/// Two devices reach each other's memory as long as one of these exists. Not for several threads at once.
class PeerAccess {
 public:
  /// Throws Error, unsupported, where they cannot.
  PeerAccess(int device, int peer);
  ~PeerAccess();  ///< never throws
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;

 private:
  int device_, peer_;
};

}  // namespace isthmus::device
