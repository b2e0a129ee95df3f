#pragma once

// Range groups, which divide this process's own managed memory into pieces. The driver's prefetcher moves a piece only
// if one of its pages has faulted, so with pieces of one page it prefetches nothing.

#include <cstdint>
#include <memory>

#include "trace/uvm/queue.hpp"
#include "trace/uvm/system.hpp"

namespace isthmus::trace::uvm {

/// Pieces of `piece` bytes (a power of two, at least a page), with borders at multiples of `piece`. Adjacent pieces are
/// put into two groups alternately, because adjacent pieces of one group would be one piece. The pieces exist until the
/// object is destroyed, which must happen before the memory is freed.
class RangeGroups {
 public:
  /// Makes pieces of the whole pages that contain the given bytes. Throws Unavailable with a sentence; in that case no
  /// pieces are made.
  RangeGroups(System& system, std::uint64_t address, std::uint64_t bytes, std::uint64_t piece, bool forced = false);
  ~RangeGroups();
  RangeGroups(const RangeGroups&) = delete;
  RangeGroups& operator=(const RangeGroups&) = delete;

  std::uint64_t pieces() const noexcept { return pieces_; }

 private:
  template <class Arguments>
  int ask(unsigned long request, Arguments& arguments);
  void create();
  void set(std::uint64_t group, std::uint64_t base, std::uint64_t bytes);
  void release() noexcept;

  System& system_;
  PrivatePages arguments_;
  int descriptor_ = -1;
  std::uint64_t begin_, end_, groups_[2] = {}, pieces_ = 0;
};

}  // namespace isthmus::trace::uvm
