#pragma once

// The emulated devices: which one a thread has selected, and which of them may reach whose memory.

namespace emulator {

inline constexpr int most_devices = 8;

/// Throws unsupported where `capability` is switched off; `what` names it.
void need(bool capability, const char* call, const char* what);
/// Throws for a device that is not there.
void need_device(int index, const char* call);
/// Whether kernels of `device` may use memory of `owner`: its own, or a peer's that enable_peer_access opened.
bool reaches(int device, int owner) noexcept;
/// Every device is on its own again.
void forget_peers() noexcept;

}  // namespace emulator
