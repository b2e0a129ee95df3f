#pragma once

// The vendor's libraries (device::Blas, device::Fft) in a workload.

#include <memory>
#include <utility>

#include "device/device.hpp"
#include "workload/skip.hpp"

namespace isthmus::workload {

/// device::Blas or device::Fft, made with these arguments; a Skip that says what was tried where there is none.
template <class Library, class... Arguments>
std::shared_ptr<Library> load_library(Arguments&&... arguments) {
  try {
    return std::make_shared<Library>(std::forward<Arguments>(arguments)...);
  } catch (const device::Error& error) {
    if (error.kind() == device::ErrorKind::unsupported) throw Skip(error.what());
    throw;
  }
}

}  // namespace isthmus::workload
