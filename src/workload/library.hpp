#pragma once

// Use of the vendor's libraries (device::Blas, device::Fft, device::Convolutions) in a workload.

#include <memory>
#include <utility>

#include "device/api/libraries.hpp"
#include "workload/skip.hpp"

namespace isthmus::workload {

/// Returns what `use` returns; throws Skip with the reason if the library does not support it.
template <class Use>
auto or_skip(Use&& use) {
  try {
    return use();
  } catch (const device::Error& error) {
    if (error.kind() == device::ErrorKind::unsupported) throw Skip(error.what());
    throw;
  }
}

/// Returns a library object made with these arguments; if the library is not available, throws Skip, whose reason lists
/// what was tried.
template <class Library, class... Arguments>
std::shared_ptr<Library> load_library(Arguments&&... arguments) {
  return or_skip([&] { return std::make_shared<Library>(std::forward<Arguments>(arguments)...); });
}

}  // namespace isthmus::workload
