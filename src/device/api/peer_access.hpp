#pragma once

#include "device/api/device.hpp"

namespace isthmus::device {

/// Scope in which two devices can access each other's memory; access remains enabled while at least one such object
/// exists. Not thread-safe.
class PeerAccess {
 public:
  /// Enables access in both directions. Throws Error (unsupported) if the devices cannot access each other's memory.
  PeerAccess(int device, int peer);
  ~PeerAccess();  ///< never throws
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;

 private:
  int device_, peer_;
};

}  // namespace isthmus::device
