#pragma once

// Checks results against what they should be. Element checks see the host copy of a buffer after each sample; a check
// of one's own runs after the last. The first failure is kept and ends the case.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/result.hpp"
#include "memory/placement.hpp"

namespace isthmus::harness {

struct ElementCheck {
  std::string buffer_name;
  std::size_t buffer = 0;
  std::size_t element_bytes = 0;
  bool floating = false;
  std::size_t columns = 0, pitch = 0, elements = 0;                                 ///< elements without padding
  std::function<std::pair<double, double>(std::size_t, const std::byte*)> compare;  ///< actual, expected
  Tolerance tolerance;
  std::string method;
};

struct OwnCheck {
  std::string method;
  std::function<double()> error;
  double tolerance = 0;
};

/// |actual − expected| over the larger of the two bounds: at most 1 passes. Infinite for a NaN.
double relative_to_bound(double actual, double expected, const Tolerance& tolerance);

/// The elements that are compared: all when there are at most `limit`, else one at random from each of `limit` equal
/// strata, and first, last, row ends and multiples of common tiles with their neighbours. The same for the same input.
std::vector<std::size_t> elements_to_check(std::size_t elements, std::size_t columns, std::size_t limit);

class Verifier {
 public:
  void add(ElementCheck check) { elements_.push_back(std::move(check)); }
  void add(OwnCheck check) { own_.push_back(std::move(check)); }
  bool empty() const { return elements_.empty() && own_.empty(); }

  /// After each sample: poison everywhere, values on a few elements.
  void check_sample(const memory::BufferSet& buffers);
  /// After the last sample: values on all elements, or on a large stratified sample.
  void check_fully(const memory::BufferSet& buffers);
  /// One check in full, for checks declared after measuring.
  void check_fully(const memory::BufferSet& buffers, const ElementCheck& check);
  void check_own(const OwnCheck& check);
  void check_own();

  bool failed() const { return outcome_.verdict == Verdict::fail; }
  /// The verdict over all that was checked; `not_run` when nothing was.
  const Verification& outcome() const { return outcome_; }

 private:
  void check(const memory::BufferSet& buffers, const ElementCheck& check, std::size_t limit, bool counts);
  void note(const std::string& method, double error, double tolerance, std::string detail);

  std::vector<ElementCheck> elements_;
  std::vector<OwnCheck> own_;
  Verification outcome_;
  double worst_ = -1;  // error over tolerance of what outcome_ shows
};

}  // namespace isthmus::harness
