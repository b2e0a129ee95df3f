#pragma once

// What the reader of the queue asks of the operating system: all of it, so that a test can be the driver.

#include <string>
#include <vector>

namespace isthmus::trace::uvm {

inline constexpr const char* kQueueNode = "/dev/nvidia-uvm-tools";
inline constexpr const char* kMemoryNode = "/dev/nvidia-uvm";

class System {
 public:
  virtual ~System() = default;
  /// A descriptor, or the negative of an errno.
  virtual int open(const char* path) = 0;
  virtual void close(int descriptor) = 0;
  /// 0, or the negative of an errno. `argument` points to a page of which the request takes the front.
  virtual int control(int descriptor, unsigned long request, void* argument) = 0;
  /// The descriptors of this process that stand for the node.
  virtual std::vector<int> descriptors_of(const char* path) = 0;
  /// What the driver says of itself; empty where it says nothing.
  virtual std::string driver_version() = 0;
};

/// The machine itself.
System& linux_system();

}  // namespace isthmus::trace::uvm
