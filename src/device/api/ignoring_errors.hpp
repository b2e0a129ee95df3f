#pragma once

#include "device/api/device.hpp"

namespace isthmus::device {

/// For what is undone in a destructor or after a failure: that failure is the cause and is reported, and a second one
/// adds nothing. Where nothing had failed before, the next call on the device says what is wrong.
template <class Body>
void ignoring_errors(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

}  // namespace isthmus::device
