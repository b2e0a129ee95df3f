#pragma once

// This program started anew, with the arguments that it was given.

#include <sys/types.h>

#include <optional>
#include <string>

namespace isthmus::harness {

/// Starts it with one environment variable more. `report`, a descriptor of this process, becomes kReportDescriptor in
/// the new one. Throws std::runtime_error.
pid_t start_again(const std::string& variable, const std::string& value, std::optional<int> report = std::nullopt);
inline constexpr int kReportDescriptor = 3;

/// Its status, as waitpid() gives it. A request to end that reaches this process meanwhile is passed on where
/// `pass_interrupts`: a scheduler may signal us alone.
int wait_for(pid_t process, bool pass_interrupts);

}  // namespace isthmus::harness
