#pragma once

// Checks results against what they should be. Element checks see the host copy of a buffer after each sample; a check
// of one's own runs after the last. The first failure is kept and ends the case.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/measure/results/result.hpp"
#include "memory/buffer_set.hpp"
#include "workload/checks.hpp"

namespace isthmus::harness {

/// Of the elements without padding, whoever runs it: for telling whether two results are the same.
std::uint64_t checksum(const std::byte* begin, std::size_t row_bytes, std::size_t pitch_bytes, std::size_t rows);

/// |actual − expected| over the larger of the two bounds: at most 1 passes. Infinite for a NaN.
double relative_to_bound(double actual, double expected, const Tolerance& tolerance);

/// The elements that are compared: all when there are at most `limit`, else one at random from each of `limit` equal
/// strata, and first, last, row ends and multiples of common tiles with their neighbours. The same for the same input.
std::vector<std::size_t> elements_to_check(std::size_t elements, std::size_t columns, std::size_t limit);

class Verifier {
 public:
  void add(ElementCheck check) { elements_.push_back(std::move(check)); }
  void add(OwnCheck check) { own_.push_back(std::move(check)); }
  void add(SameCheck check) { same_.push_back(std::move(check)); }
  bool empty() const { return elements_.empty() && own_.empty(); }

  /// After each sample: poison everywhere, values on a few elements.
  void check_sample(const memory::BufferSet& buffers);
  /// After the last sample: values on all elements, or on a large stratified sample.
  void check_fully(const memory::BufferSet& buffers);
  /// One check in full, for checks declared after measuring.
  void check_fully(const memory::BufferSet& buffers, const ElementCheck& check);
  void check_own(const OwnCheck& check);
  void check_own();
  /// After all other checks: what a case leaves is only known once it is right. `inputs` names what it was given, as
  /// inputs_name() does; `label` is the case's, for messages.
  void check_same(const memory::BufferSet& buffers, const std::string& inputs, const std::string& label);

  bool failed() const { return outcome_.verdict == Verdict::fail; }
  /// The verdict over all that was checked; `not_run` when nothing was.
  const Verification& outcome() const { return outcome_; }

 private:
  void check_same(const memory::BufferSet& buffers, const SameCheck& check, const std::string& inputs,
                  const std::string& label);
  void check(const memory::BufferSet& buffers, const ElementCheck& check, std::size_t limit, bool counts);
  void note(const std::string& method, double error, double tolerance, std::string detail);

  std::vector<ElementCheck> elements_;
  std::vector<OwnCheck> own_;
  std::vector<SameCheck> same_;
  Verification outcome_;
  double worst_ = -1;  // error over tolerance of what outcome_ shows
};

}  // namespace isthmus::harness
