#pragma once

// The driver's prefetcher, held to pieces of this process's own managed memory by range groups: it brings no piece that
// has no fault of its own. With pieces of one page it brings nothing.

#include <cstdint>
#include <memory>

#include "trace/uvm/queue.hpp"
#include "trace/uvm/system.hpp"

namespace isthmus::trace::uvm {

/// Pieces of `piece` bytes (a power of two, of a page at least), cut where the addresses are multiples of it. Those
/// beside one another are in two groups in turn, since neighbours in one group would be one piece. Until the end of the
/// object, which must come before the memory's own.
class RangeGroups {
 public:
  /// Whole pages around the bytes given. Throws Unavailable in a sentence; nothing is set then.
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
