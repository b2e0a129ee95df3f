#pragma once

// Copies that run concurrently with the work of a stream, for Run::copy_in(), await() and mark().

#include <cstddef>
#include <optional>
#include <vector>

#include "device/api/device.hpp"

namespace isthmus::harness {

class AsyncCopies {
 public:
  /// Creates a stream and events on the selected device. Copies and marks have numbers below `numbers`.
  explicit AsyncCopies(std::size_t numbers) : arrived_(numbers), passed_(numbers) {}

  /// Lets copies begin once `work` has reached this point.
  void begin(device::Stream& work) { begun_.record(work); }
  /// Queues copy `number`, which `copy(stream)` submits, to start after mark `after`, or after begin() without a mark.
  /// If the copy `blocks` its caller, this call waits for that point and executes the copy.
  template <class Copy>
  void copy_in(std::size_t number, std::optional<std::size_t> after, bool blocks, Copy copy) {
    auto& free = after ? passed_.at(*after) : begun_;
    blocks ? free.synchronize() : copies_.wait(free);
    copy(copies_);
    arrived_.at(number).record(copies_);
  }
  void await(device::Stream& work, std::size_t number) { work.wait(arrived_.at(number)); }
  void mark(device::Stream& work, std::size_t number) { passed_.at(number).record(work); }
  /// Makes whatever is queued next on `work` wait for all copies.
  void end(device::Stream& work) {
    ended_.record(copies_);
    work.wait(ended_);
  }

 private:
  device::Stream copies_;
  device::Event begun_, ended_;
  std::vector<device::Event> arrived_, passed_;
};

}  // namespace isthmus::harness
