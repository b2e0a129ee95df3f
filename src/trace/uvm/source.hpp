#pragma once

// Where events come from: the driver's queue, or an emulated driver that writes the same bytes. Either is believed only
// after a page that was touched on purpose has given one fault at its address.

#include <memory>
#include <string>

#include "trace/uvm/queue.hpp"

namespace isthmus::trace::uvm {

class Source {
 public:
  virtual ~Source() = default;
  virtual Taken take() = 0;
  /// "the driver's event queue, branch 580.159.04": for the record.
  virtual const std::string& name() const = 0;
};

/// Of the selected device; without its migrations where they are not wanted; `keep` as QueueOptions has it. Throws
/// Unavailable.
std::unique_ptr<Source> attach(bool moves = true, Keep keep = {});

/// Who answers the requests that are made of the selected device's driver: the machine, or an emulated driver; nullptr
/// where the driver takes none of them.
std::shared_ptr<System> driver_of_device();

/// ISTHMUS_UVM=force: also where nobody has looked at the driver's branch. Throws std::invalid_argument for other
/// words.
bool is_forced();

/// Why these events, of one page that a GPU touched, are not what they should be; empty where they are.
std::string self_test_problem(const Taken& taken, std::uint64_t address);

}  // namespace isthmus::trace::uvm
