#pragma once

// Helpers shared by the files of this folder, for calls of the device layer that the emulator implements.

#include <utility>

#include "device/api/device.hpp"
#include "device/api/injection.hpp"
#include "emulator/device.hpp"

namespace isthmus::device {

/// Throws an Error of the emulator as an Error of this layer.
[[noreturn]] void rethrow(const emulator::Error& error);

/// Runs `work` and converts errors of the emulator to errors of this layer.
template <class Work>
decltype(auto) translated(Work&& work) {
  try {
    return work();
  } catch (const emulator::Error& error) {
    rethrow(error);
  }
}

/// Runs `work` for the call `name`, after the call's injection point.
template <class Work>
decltype(auto) call(const char* name, Work&& work) {
  injection_point(name);
  return translated(work);
}

/// Runs `work` for a call that frees `memory`, after the call's injection point. If an injected fault prevents the
/// memory from being freed, the memory does not count as leaked.
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
