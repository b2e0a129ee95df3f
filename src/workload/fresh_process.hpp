#pragma once

// Measurements that need a process in which nothing has run before.

#include <optional>
#include <string>
#include <vector>

namespace isthmus::workload {

/// Work for a fresh process of this program, which finds the work by its name: define it as a namespace-scope constant,
/// like Registration.
class FreshProcess {
 public:
  /// Function called in the fresh process before any other code of this program, with the argument of run().
  using Body = std::vector<double> (*)(int argument);
  FreshProcess(std::string name, Body body);

  /// Starts the process, waits for it to end, and returns what the body returned. Throws Skip if the body found
  /// something unsupported, else std::runtime_error with the body's message.
  std::vector<double> run(int argument) const;

 private:
  std::string name_;
};

/// Does the work and returns the exit code if this is such a process, else returns nullopt. The program's main() calls
/// this first.
std::optional<int> run_as_fresh_process();

}  // namespace isthmus::workload
