#pragma once

// Everything that the reader of the queue uses of the operating system, as an interface, so that tests can replace the
// driver.

#include <string>
#include <vector>

namespace isthmus::trace::uvm {

inline constexpr const char* kQueueNode = "/dev/nvidia-uvm-tools";
inline constexpr const char* kMemoryNode = "/dev/nvidia-uvm";

class System {
 public:
  virtual ~System() = default;
  /// Returns a descriptor, or a negative errno.
  virtual int open(const char* path) = 0;
  virtual void close(int descriptor) = 0;
  /// Performs a request (ioctl) and returns 0, or a negative errno. `argument` points to a page; the request uses its
  /// beginning.
  virtual int control(int descriptor, unsigned long request, void* argument) = 0;
  /// Returns the descriptors of this process that are open for the device node `path`.
  virtual std::vector<int> descriptors_of(const char* path) = 0;
  /// Returns the text in which the driver reports its version; empty if there is none.
  virtual std::string driver_version() = 0;
};

/// Returns the interface to the operating system of this machine.
System& linux_system();

}  // namespace isthmus::trace::uvm
