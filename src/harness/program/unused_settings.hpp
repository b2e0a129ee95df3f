#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/measure/results/result.hpp"
#include "harness/program/session.hpp"

namespace isthmus::harness {

/// Finds the settings of a command line that nothing in the run has read: each case notes what it reads
/// (CaseResult::consulted).
class UnusedSettings {
 public:
  /// `options` stay as long as this does.
  explicit UnusedSettings(const SessionOptions& options) : options_(options) {}

  void ran(const CaseResult& result);
  /// "--seed had no effect, since …": one for each.
  std::vector<std::string> sentences() const;

 private:
  const SessionOptions& options_;
  std::set<std::string, std::less<>> consulted_, ignored_sizes_;
  std::set<std::string> axes_;  ///< those that a case had, and that are the workload's to read
  bool any_size_ = false;       ///< some case has read what its size sets
};

}  // namespace isthmus::harness
