#pragma once

#include <stdexcept>
#include <string>

namespace emulator {

enum class ErrorKind {
  failure,        ///< the call failed; the device still works
  out_of_memory,  ///< the call requested more memory than is available
  unsupported,    ///< this device does not support the call
  timeout,        ///< a wait was abandoned
};

/// Failure of a call. `what()` is one sentence: the call, the reason, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string call, std::string reason, std::string hint);
  ErrorKind kind() const noexcept { return kind_; }
  /// Returns the name of the function that failed, such as "malloc_device" or "stream_synchronize".
  const std::string& call() const noexcept { return call_; }
  const std::string& reason() const noexcept { return reason_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  ErrorKind kind_;
  std::string call_, reason_, hint_;
};

}  // namespace emulator
