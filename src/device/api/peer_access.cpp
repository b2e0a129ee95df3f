#include "device/api/peer_access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "device/api/ignoring_errors.hpp"

namespace isthmus::device {

namespace {

/// Returns the number of existing PeerAccess objects for each pair of devices.
std::map<std::pair<int, int>, int>& holders() {
  static std::map<std::pair<int, int>, int> all;
  return all;
}

std::pair<int, int> key(int device, int peer) {
  return {std::min(device, peer), std::max(device, peer)};
}

void set(int device, int peer, bool open) {
  for (const auto& [from, to] : {std::pair{device, peer}, std::pair{peer, device}}) {
    const Selected on(from);
    open ? enable_peer_access(to) : disable_peer_access(to);
  }
}

}  // namespace

PeerAccess::PeerAccess(int device, int peer) : device_(device), peer_(peer) {
  if (device == peer) return;
  if (!peer_info(device, peer).access || !peer_info(peer, device).access)
    throw Error(ErrorKind::unsupported, "PeerAccess",
                fmt::format("gpu{} and gpu{} have no peer access to each other", device, peer),
                "choose two GPUs that reach each other's memory");
  if (holders()[key(device, peer)]++ == 0) set(device, peer, true);
}

PeerAccess::~PeerAccess() {
  if (device_ == peer_ || --holders()[key(device_, peer_)] > 0) return;
  ignoring_errors([this] { set(device_, peer_, false); });
}

}  // namespace isthmus::device
