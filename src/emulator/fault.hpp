#pragma once

// Faults: why queued work ended, and whether a call has said so.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "emulator/error.hpp"

namespace emulator {

/// Why work on a stream ended; thrown at the next call that waits for it.
struct Fault {
  ErrorKind kind = ErrorKind::failure;
  std::string reason;
  std::string hint;
  std::atomic<bool> reported = false;
  Fault(ErrorKind kind_, std::string reason_, std::string hint_)
      : kind(kind_), reason(std::move(reason_)), hint(std::move(hint_)) {}
};
using FaultPointer = std::shared_ptr<Fault>;

/// A fault that is said as the process ends, unless a call has thrown it by then.
FaultPointer make_fault(ErrorKind kind, std::string reason, std::string hint);
/// Those of make_fault that no call has thrown, in the order they were met.
std::vector<FaultPointer> unreported_faults();
/// Takes them for reported.
void forget_faults();

/// Arms the report at the end of this process (a child that it forks makes none): a sentence on stderr for memory that
/// is still allocated and one for each unreported fault, and exit code 0 becomes 1. A process that fails anyway is told
/// of faults only. Configuration::exit_report turns it off.
void report_at_exit();

}  // namespace emulator
