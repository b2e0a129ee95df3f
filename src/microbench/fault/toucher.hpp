#pragma once

// Threads that touch the pages of a region and count the faults that this makes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory/crew.hpp"
#include "microbench/fault/region.hpp"

namespace isthmus::microbench::fault {

/// What one pass over a region came to.
struct Pass {
  double seconds = 0;         ///< from the first touch of any thread to the last of any
  memory::PageFaults faults;  ///< of all threads, while they touched
  std::uint64_t sum = 0;      ///< of what was read
};

class Toucher {
 public:
  /// `threads` of the host, on `numa_node` and with memory from there; -1: anywhere.
  Toucher(Event event, unsigned threads, int numa_node);

  unsigned threads() const noexcept { return crew_.size(); }
  /// Touches each page once.
  Pass touch(const Region& region);
  /// The same, with the seconds that each touch took, the clock's own included.
  Pass touch_timed(const Region& region, std::span<double> seconds);

 private:
  template <class Touch>
  Pass pass(const Region& region, Touch touch);

  struct alignas(128) Reading {
    double begin = 0, end = 0;
    memory::PageFaults faults;
    std::uint64_t sum = 0;
  };
  bool writes_;
  int numa_node_;
  memory::Crew crew_;
  std::vector<Reading> readings_;
};

/// Keeps account of what was wrong, pass by pass, while a case is measured: the timed touches are those checked.
class Account {
 public:
  explicit Account(Event event) : event_(event) {}

  /// Before the touches of a renewed region.
  void before(const Region& region);
  /// After them.
  void after(const Region& region, const Pass& pass);
  /// The size of the pages; slow, so once a sample.
  void size(const Region& region);
  /// After touches of pages that are there.
  void present(const Pass& pass);

  /// Passes over fresh pages that were checked.
  std::size_t passes() const noexcept { return passes_; }
  /// Passes that were wrong, and what was wrong with the first.
  std::size_t wrong() const noexcept { return wrong_; }
  const std::string& reason() const noexcept { return reason_; }
  /// Faults over touches of the last pass over fresh pages.
  double faults_per_touch() const noexcept { return faults_per_touch_; }
  /// Whether other pages than those touched faulted since this was last asked (the kernel unmaps pages to learn who
  /// uses them, or moves them): such a sample does not count.
  bool disturbed() noexcept { return std::exchange(disturbed_, false); }

 private:
  void note(std::string reason);

  Event event_;
  std::size_t passes_ = 0, wrong_ = 0;
  std::string reason_;
  double faults_per_touch_ = 0;
  bool disturbed_ = false;
};

/// How many faults of other pages may come with `touches` before they are a mistake of the case: a single one makes its
/// sample not count.
constexpr long allowance(std::size_t touches) {
  return 8 + static_cast<long>(touches / 100);
}

}  // namespace isthmus::microbench::fault
