#include "microbench/peer_access.hpp"

#include <map>
#include <utility>

#include "device/ignoring_errors.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench {

namespace {

/// How many hold each pair open.
std::map<std::pair<int, int>, int>& holders() {
  static std::map<std::pair<int, int>, int> all;
  return all;
}

std::pair<int, int> key(int device, int peer) {
  return {std::min(device, peer), std::max(device, peer)};
}

void set(int device, int peer, bool open) {
  for (const auto& [from, to] : {std::pair{device, peer}, std::pair{peer, device}}) {
    const device::Selected on(from);
    open ? device::enable_peer_access(to) : device::disable_peer_access(to);
  }
}

}  // namespace

PeerAccess::PeerAccess(int device, int peer) : device_(device), peer_(peer) {
  if (device == peer) return;
  if (!device::peer_info(device, peer).access || !device::peer_info(peer, device).access)
    throw workload::Skip("gpu" + std::to_string(device) + " and gpu" + std::to_string(peer) +
                         " have no peer access to each other");
  if (holders()[key(device, peer)]++ == 0) set(device, peer, true);
}

PeerAccess::~PeerAccess() {
  if (device_ == peer_ || --holders()[key(device_, peer_)] > 0) return;
  device::ignoring_errors([this] { set(device_, peer_, false); });
}

}  // namespace isthmus::microbench
