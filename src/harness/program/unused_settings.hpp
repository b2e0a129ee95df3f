#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/measure/results/result.hpp"
#include "harness/plan/request.hpp"

namespace isthmus::harness {

/// Finder of command-line settings that nothing in the run has read. Each case notes what it reads
/// (CaseResult::consulted).
class UnusedSettings {
 public:
  /// Keeps references to `given` (options, such as --seed) and `settings` (those of --set), which must outlive this
  /// object.
  UnusedSettings(const std::vector<std::string>& given, const std::vector<Setting>& settings)
      : given_(given), settings_(settings) {}

  void ran(const CaseResult& result);
  /// Returns one sentence for each unused setting: "--seed had no effect, because …; omit it".
  std::vector<std::string> sentences() const;

 private:
  const std::vector<std::string>& given_;
  const std::vector<Setting>& settings_;
  std::set<std::string, std::less<>> consulted_, ignored_sizes_;
  std::set<std::string> axes_;  ///< axes of cases that ran, which their workloads should read
  bool any_size_ = false;       ///< some case has read an axis that its size sets
};

}  // namespace isthmus::harness
