#include "emulator/devices.hpp"

#include <atomic>

#include "emulator/device.hpp"
#include "emulator/emulator.hpp"
#include "emulator/format.hpp"

namespace emulator {
namespace {

constinit thread_local int selected_here = 0;
/// Peer access, one word per device: bit `peer` is set if the peer's memory is accessible to the device.
constinit std::atomic<unsigned> opened[most_devices] = {};

}  // namespace

void need(bool capability, const char* call, const char* what) {
  if (capability) return;
  throw Error(ErrorKind::unsupported, call, sentence("the emulated device has no {}", what),
              sentence("{}, or switch it on in {}", introduction().instead, introduction().variable));
}

void require_device(int index, const char* call) {
  const int devices = static_cast<int>(configuration().devices);
  if (index >= 0 && index < devices) return;
  throw Error(ErrorKind::failure, call, sentence("there is no device {}", index),
              devices == 1 ? sentence("use device 0, or set devices=N in {}", introduction().variable)
                           : sentence("use devices 0 to {}", devices - 1));
}

bool reaches(int device, int owner) noexcept {
  return device == owner || (opened[device].load() >> owner & 1) != 0;
}

void forget_peers() noexcept {
  for (auto& peers : opened) peers = 0;
}

int count() {
  return static_cast<int>(configuration().devices);
}

void select(int index) {
  require_device(index, "select");
  selected_here = index;
}

int selected() noexcept {
  return selected_here;
}

Selected::Selected(int index) : before_(selected()) {
  select(index);
}

Selected::~Selected() {
  selected_here = before_;
}

PeerInfo peer_info(int device, int peer) {
  require_device(device, "peer_info");
  require_device(peer, "peer_info");
  const bool access = device == peer || configuration().peer_access;
  return {.access = access, .native_atomics = access};
}

void enable_peer_access(int peer) {
  require_device(peer, "enable_peer_access");
  const int device = selected();
  if (device == peer) return;
  if (!configuration().peer_access) {
    throw Error(ErrorKind::unsupported, "enable_peer_access",
                sentence("device {} cannot reach the memory of device {}", device, peer),
                sentence("copy between them, or set peer=1 in {}", introduction().variable));
  }
  opened[device].fetch_or(1u << peer);
}

void disable_peer_access(int peer) {
  require_device(peer, "disable_peer_access");
  opened[selected()].fetch_and(~(1u << peer));
}

}  // namespace emulator
