#pragma once

// Emulated devices: the selected device of each thread, and access between peers.

namespace emulator {

inline constexpr int most_devices = 8;

/// Throws Error (unsupported) if `capability` is switched off; `what` is its name for the message.
void need(bool capability, const char* call, const char* what);
/// Throws if the device does not exist.
void require_device(int index, const char* call);
/// Returns true if kernels of `device` may use memory of `owner`: the device itself, or a peer to which
/// enable_peer_access has given it access.
bool reaches(int device, int owner) noexcept;
/// Disables all peer access.
void forget_peers() noexcept;

}  // namespace emulator
