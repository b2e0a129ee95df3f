#include "device/emulator/devices.hpp"

#include <fmt/format.h>

#include <atomic>

#include "device/device.hpp"
#include "device/emulator/emulator.hpp"
#include "device/injection.hpp"

namespace isthmus::device {
namespace emulator {
namespace {

constinit thread_local int selected_here = 0;
/// Bit `peer` of the device's word: the peer's memory was opened to it.
constinit std::atomic<unsigned> opened[most_devices] = {};

}  // namespace

int selected_device() noexcept {
  return selected_here;
}

void need(bool capability, const char* call, const char* what) {
  if (capability) return;
  throw Error(ErrorKind::unsupported, call, fmt::format("the emulated device has no {}", what),
              "choose another placement, or switch it on in ISTHMUS_EMULATOR");
}

void need_device(int index, const char* call) {
  const int devices = static_cast<int>(configuration().devices);
  if (index >= 0 && index < devices) return;
  throw Error(ErrorKind::failure, call, fmt::format("there is no device {}", index),
              devices == 1 ? std::string("the emulator has device 0 only, unless ISTHMUS_EMULATOR says devices=N")
                           : fmt::format("the emulator has devices 0 to {}", devices - 1));
}

bool reaches(int device, int owner) noexcept {
  return device == owner || (opened[device].load() >> owner & 1) != 0;
}

void forget_peers() noexcept {
  for (auto& peers : opened) peers = 0;
}

}  // namespace emulator

using emulator::need_device;

int count() {
  injection_point("count");
  return static_cast<int>(emulator::configuration().devices);
}

void select(int index) {
  injection_point("select");
  need_device(index, "select");
  emulator::selected_here = index;
}

int selected() {
  return emulator::selected_here;
}

PeerInfo peer_info(int device, int peer) {
  injection_point("peer_info");
  need_device(device, "peer_info");
  need_device(peer, "peer_info");
  const bool access = device == peer || emulator::configuration().peer_access;
  return {.access = access, .native_atomics = access};
}

void enable_peer_access(int peer) {
  injection_point("enable_peer_access");
  need_device(peer, "enable_peer_access");
  const int device = selected();
  if (device == peer) return;
  if (!emulator::configuration().peer_access) {
    throw Error(ErrorKind::unsupported, "enable_peer_access",
                fmt::format("device {} cannot reach the memory of device {}", device, peer),
                "copy between them, or set peer=1 in ISTHMUS_EMULATOR");
  }
  emulator::opened[device].fetch_or(1u << peer);
}

void disable_peer_access(int peer) {
  injection_point("disable_peer_access");
  need_device(peer, "disable_peer_access");
  emulator::opened[selected()].fetch_and(~(1u << peer));
}

}  // namespace isthmus::device
