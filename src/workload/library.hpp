#pragma once

// The vendor's libraries (device::Blas, device::Fft, device::Convolutions) in a workload.

#include <memory>
#include <utility>

#include "device/api/libraries.hpp"
#include "workload/skip.hpp"

namespace isthmus::workload {

/// What `use` returns; a Skip with the reason where the library cannot.
template <class Use>
auto or_skip(Use&& use) {
  try {
    return use();
  } catch (const device::Error& error) {
    if (error.kind() == device::ErrorKind::unsupported) throw Skip(error.what());
    throw;
  }
}

/// A library, made with these arguments; a Skip that says what was tried where there is none.
template <class Library, class... Arguments>
std::shared_ptr<Library> load_library(Arguments&&... arguments) {
  return or_skip([&] { return std::make_shared<Library>(std::forward<Arguments>(arguments)...); });
}

}  // namespace isthmus::workload
