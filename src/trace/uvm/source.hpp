#pragma once

// Sources of events: the driver's queue, or an emulated driver that writes the same bytes. A source is trusted only
// after a page touched on purpose has caused one page fault at its address.

#include <memory>
#include <string>

#include "trace/uvm/queue.hpp"

namespace isthmus::trace::uvm {

class Source {
 public:
  virtual ~Source() = default;
  virtual Taken take() = 0;
  /// Returns the source's name for the record: "the driver's event queue, branch 580.159.04".
  virtual const std::string& name() const = 0;
};

/// Attaches to the selected device's events, without migrations if `moves` is false; `keep` is that of QueueOptions.
/// Throws Unavailable.
std::unique_ptr<Source> attach(bool moves = true, Keep keep = {});

/// Returns the system that passes requests to the selected device's driver: the operating system, or an emulated
/// driver; nullptr if the driver does not support these requests.
std::shared_ptr<System> driver_of_device();

/// Returns whether ISTHMUS_UVM=force allows driver branches that were not examined. Throws std::invalid_argument for
/// any other value.
bool is_forced();

/// Returns why these events, recorded while a GPU touched one page, are wrong; empty if they are right.
std::string self_test_problem(const Taken& taken, std::uint64_t address);

}  // namespace isthmus::trace::uvm
