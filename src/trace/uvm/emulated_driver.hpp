#pragma once

// Driver of the emulated device: accepts the same requests as the real driver and writes the same entries into the
// queue.

#include <cstdint>
#include <mutex>

#include "device/api/page_events.hpp"
#include "trace/uvm/driver.hpp"
#include "trace/uvm/events.hpp"
#include "trace/uvm/system.hpp"

namespace isthmus::trace::uvm {

/// Emulated driver. Only one may exist at a time, because the emulated device has one listener.
class EmulatedDriver final : public System {
 public:
  int open(const char* path) override;
  void close(int descriptor) override;
  int control(int descriptor, unsigned long request, void* argument) override;
  std::vector<int> descriptors_of(const char* path) override;
  std::string driver_version() override;

 private:
  static int control_memory(unsigned long request, void* argument);
  static void tell(void* self, const device::PageEvent& event) noexcept;
  void put(const Entry& entry) noexcept;
  void drop(Type type) noexcept;

  Entry* queue_ = nullptr;
  Control* control_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint64_t types_ = 0;
};

}  // namespace isthmus::trace::uvm
