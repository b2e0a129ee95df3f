#pragma once

// What the files of this folder share: calls of the device layer that the emulator answers.

#include <utility>

#include "device/api/device.hpp"
#include "device/api/injection.hpp"
#include "emulator/device.hpp"

namespace isthmus::device {

/// Throws an Error of the emulator as one of this layer.
[[noreturn]] void rethrow(const emulator::Error& error);

/// Runs `work`, whose errors are this layer's then.
template <class Work>
decltype(auto) translated(Work&& work) {
  try {
    return work();
  } catch (const emulator::Error& error) {
    rethrow(error);
  }
}

/// Runs `work` for the call `name`, behind its injection point.
template <class Work>
decltype(auto) call(const char* name, Work&& work) {
  injection_point(name);
  return translated(work);
}

/// The same for a call that takes `memory` back: what an injected fault keeps from being freed was not forgotten.
template <class Work, class... Memory>
void call_to_free(const char* name, Work&& work, const Memory&... memory) {
  try {
    injection_point(name);
  } catch (const Error&) {
    emulator::excuse(memory...);
    throw;
  }
  translated(work);
}

inline emulator::Stream& of(const Stream& stream) {
  return *static_cast<emulator::Stream*>(stream.native_handle());
}

}  // namespace isthmus::device
