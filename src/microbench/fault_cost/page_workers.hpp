#pragma once

// Threads that touch the pages of a region and count the resulting faults.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory/thread_pool.hpp"
#include "microbench/fault_cost/faulting_region.hpp"

namespace isthmus::microbench::fault_cost {

/// Result of one pass over a region.
struct Pass {
  double seconds = 0;         ///< seconds from the first touch to the last, over all threads
  memory::PageFaults faults;  ///< faults of all threads during the touches
  std::uint64_t sum = 0;      ///< sum of the words that were read
};

class PageWorkers {
 public:
  /// Starts `threads` host threads on `numa_node`, with memory from there; -1 for any node.
  PageWorkers(Event event, unsigned threads, int numa_node);

  unsigned threads() const noexcept { return pool_.size(); }
  /// Touches each page once.
  Pass touch(const FaultingRegion& region);
  /// Touches each page once and stores the seconds of each touch, including those of reading the clock.
  Pass touch_timed(const FaultingRegion& region, std::span<double> seconds);

 private:
  template <class Touch>
  Pass pass(const FaultingRegion& region, Touch touch);

  struct alignas(128) Reading {
    double begin = 0, end = 0;
    memory::PageFaults faults;
    std::uint64_t sum = 0;
  };
  bool writes_;
  int numa_node_;
  memory::ThreadPool pool_;
  std::vector<Reading> readings_;
};

/// Record of the errors found in the passes of a case. The passes that are checked are the ones that are timed.
class Account {
 public:
  explicit Account(Event event) : event_(event) {}

  /// Checks that no page of a renewed region is present before the touches.
  void before(const FaultingRegion& region);
  /// Checks a pass over a renewed region.
  void after(const FaultingRegion& region, const Pass& pass);
  /// Checks the size of the pages. Slow, therefore called once per sample.
  void size(const FaultingRegion& region);
  /// Checks a pass over pages that were present.
  void present(const Pass& pass);

  /// Returns the number of passes over fresh pages that were checked.
  std::size_t passes() const noexcept { return passes_; }
  /// Returns the number of errors; reason() describes the first.
  std::size_t wrong() const noexcept { return wrong_; }
  const std::string& reason() const noexcept { return reason_; }
  /// Returns the faults per touch of the last pass over fresh pages.
  double faults_per_touch() const noexcept { return faults_per_touch_; }
  /// Returns whether pages other than the touched ones faulted since the last call, which makes the sample invalid. It
  /// happens because the kernel unmaps pages to learn who uses them, or moves them.
  bool disturbed() noexcept { return std::exchange(disturbed_, false); }

 private:
  void note(std::string reason);

  Event event_;
  std::size_t passes_ = 0, wrong_ = 0;
  std::string reason_;
  double faults_per_touch_ = 0;
  bool disturbed_ = false;
};

/// Returns the number of faults of other pages that `touches` touches may cause before the case counts as wrong. A
/// single such fault already invalidates its sample.
constexpr long allowance(std::size_t touches) {
  return 8 + static_cast<long>(touches / 100);
}

}  // namespace isthmus::microbench::fault_cost
