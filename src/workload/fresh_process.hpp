#pragma once

// What can only be measured in a process that has done nothing yet.

#include <optional>
#include <string>
#include <vector>

namespace isthmus::workload {

/// Work for a fresh process of this program, known by its name: a namespace-scope constant, like Registration.
class FreshProcess {
 public:
  /// Called there before anything else of this program, with what run() was given.
  using Body = std::vector<double> (*)(int argument);
  FreshProcess(std::string name, Body body);

  /// Starts the process, waits for its end, and gives what the body returned. Throws Skip where the body met something
  /// unsupported, else std::runtime_error with what it said.
  std::vector<double> run(int argument) const;

 private:
  std::string name_;
};

/// Where this is such a process: does its work, and gives the exit code. The program's main() asks this first.
std::optional<int> run_as_fresh_process();

}  // namespace isthmus::workload
