#pragma once

// Faults: reasons why queued work ended, and whether a call has reported them.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "emulator/error.hpp"

namespace emulator {

/// Reason why work on a stream ended; thrown by the next call that waits for it.
struct Fault {
  ErrorKind kind = ErrorKind::failure;
  std::string reason;
  std::string hint;
  std::atomic<bool> reported = false;
  Fault(ErrorKind kind_, std::string reason_, std::string hint_)
      : kind(kind_), reason(std::move(reason_)), hint(std::move(hint_)) {}
};
using FaultPointer = std::shared_ptr<Fault>;

/// Makes a fault that is reported when the process ends, unless a call has thrown it before.
FaultPointer make_fault(ErrorKind kind, std::string reason, std::string hint);
/// Returns the faults from make_fault that no call has thrown, in the order in which they occurred.
std::vector<FaultPointer> unreported_faults();
/// Marks all faults as reported.
void forget_faults();

/// Installs the report at the end of this process (a forked child prints none): one sentence on stderr for memory that
/// is still allocated and one for each unreported fault; exit code 0 becomes 1. If the process fails for another
/// reason, only the faults are reported. Configuration::exit_report turns the report off.
void report_at_exit();

}  // namespace emulator
