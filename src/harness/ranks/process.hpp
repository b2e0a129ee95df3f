#pragma once

// Fresh processes of this program, started with the arguments of this process.

#include <sys/types.h>

#include <optional>
#include <string>

namespace isthmus::harness {

/// Starts the program with one additional environment variable. `report`, a descriptor of this process, becomes
/// kReportDescriptor in the new one. Throws std::runtime_error.
pid_t start_again(const std::string& variable, const std::string& value, std::optional<int> report = std::nullopt);
inline constexpr int kReportDescriptor = 3;

/// Waits for the process and returns its status as waitpid() does. If `pass_interrupts`, a request to end that reaches
/// this process during the wait is passed on, because a scheduler may signal this process alone.
int wait_for(pid_t process, bool pass_interrupts);

}  // namespace isthmus::harness
