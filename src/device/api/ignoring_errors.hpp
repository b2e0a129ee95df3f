#pragma once

#include "device/api/device.hpp"

namespace isthmus::device {

/// Runs cleanup in a destructor or after a failure and ignores its errors. After a failure, that failure is reported,
/// and an error of the cleanup adds no information. If nothing had failed before, the next call on the device reports
/// the error.
template <class Body>
void ignoring_errors(const Body& body) {
  try {
    body();
  } catch (const Error&) {
  }
}

}  // namespace isthmus::device
