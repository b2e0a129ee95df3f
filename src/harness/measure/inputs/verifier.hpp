#pragma once

// Checks of results against their expected values. Element checks see the host copy of a buffer after each sample; an
// OwnCheck runs after the last sample. The first failure is kept and ends the case.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/measure/results/result.hpp"
#include "memory/buffer_set.hpp"
#include "workload/checks.hpp"

namespace isthmus::harness {

/// Returns a checksum of the elements without padding, independent of the number of threads. It tells whether two
/// results are the same.
std::uint64_t checksum(const std::byte* begin, std::size_t row_bytes, std::size_t pitch_bytes, std::size_t rows);

/// Returns |actual − expected| divided by the larger of the two bounds; values up to 1 pass. Returns infinity for a
/// NaN.
double relative_to_bound(double actual, double expected, const Tolerance& tolerance);

/// Returns the indices of the elements to compare: all if there are at most `limit`; otherwise a random one from each
/// of `limit` equal strata, plus the first and last elements, row ends, and multiples of common tile sizes with their
/// neighbours. Equal arguments yield equal elements.
std::vector<std::size_t> elements_to_check(std::size_t elements, std::size_t columns, std::size_t limit);

class Verifier {
 public:
  void add(ElementCheck check) { elements_.push_back(std::move(check)); }
  void add(OwnCheck check) { own_.push_back(std::move(check)); }
  void add(SameCheck check) { same_.push_back(std::move(check)); }
  bool empty() const { return elements_.empty() && own_.empty(); }

  /// Checks the results after a sample: looks for poison in all elements and compares the values of a few.
  void check_sample(const memory::BufferSet& buffers);
  /// Checks the results after the last sample: compares the values of all elements, or of a large stratified sample.
  void check_fully(const memory::BufferSet& buffers);
  /// Runs one check in full; used for checks that are declared after measuring.
  void check_fully(const memory::BufferSet& buffers, const ElementCheck& check);
  void check_own(const OwnCheck& check);
  void check_own();
  /// Compares the results with those of other cases. Called after all other checks, because only a correct result may
  /// be the reference. `inputs`: result of inputs_name(); `label`: label of the case, for messages.
  void check_same(const memory::BufferSet& buffers, const std::string& inputs, const std::string& label);

  bool failed() const { return outcome_.verdict == Verdict::fail; }
  /// Returns the verdict over all checks; `not_run` if no check ran.
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
  double worst_ = -1;  // error divided by tolerance, of the check that outcome_ reports
};

}  // namespace isthmus::harness
