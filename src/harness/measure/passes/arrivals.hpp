#pragma once

// Copies that run beside the work of a stream, for Run::bring(), await() and mark().

#include <cstddef>
#include <optional>
#include <vector>

#include "device/api/device.hpp"

namespace isthmus::harness {

class Arrivals {
 public:
  /// Of the selected device; copies and marks have numbers below `numbers`.
  explicit Arrivals(std::size_t numbers) : arrived_(numbers), passed_(numbers) {}

  /// Copies begin when `work` has come to here.
  void begin(device::Stream& work) { begun_.record(work); }
  /// Queues what `copy(stream)` queues, or does it, where it blocks, once its turn has come.
  template <class Copy>
  void bring(std::size_t number, std::optional<std::size_t> after, bool blocks, Copy copy) {
    auto& free = after ? passed_.at(*after) : begun_;
    blocks ? free.synchronize() : copies_.wait(free);
    copy(copies_);
    arrived_.at(number).record(copies_);
  }
  void await(device::Stream& work, std::size_t number) { work.wait(arrived_.at(number)); }
  void mark(device::Stream& work, std::size_t number) { passed_.at(number).record(work); }
  /// Whatever is queued next on `work` begins when all copies are done.
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
