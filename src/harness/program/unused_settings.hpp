#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/measure/results/result.hpp"
#include "harness/plan/request.hpp"

namespace isthmus::harness {

/// Finds the settings of a command line that nothing in the run has read: each case notes what it reads
/// (CaseResult::consulted).
class UnusedSettings {
 public:
  /// `given`: options, as --seed. `settings`: those of --set. Both stay as long as this does.
  UnusedSettings(const std::vector<std::string>& given, const std::vector<Setting>& settings)
      : given_(given), settings_(settings) {}

  void ran(const CaseResult& result);
  /// "--seed had no effect, since …": one for each.
  std::vector<std::string> sentences() const;

 private:
  const std::vector<std::string>& given_;
  const std::vector<Setting>& settings_;
  std::set<std::string, std::less<>> consulted_, ignored_sizes_;
  std::set<std::string> axes_;  ///< those that a case had, and that are the workload's to read
  bool any_size_ = false;       ///< some case has read what its size sets
};

}  // namespace isthmus::harness
