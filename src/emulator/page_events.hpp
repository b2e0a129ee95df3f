#pragma once

// What the emulated device does with the pages of managed memory, told as a driver tells it.

#include <cstddef>
#include <cstdint>

namespace emulator {

struct PageEvent {
  enum class What : std::uint8_t { host_fault, device_fault, move, replay, lost };
  enum class Why : std::uint8_t { none, asked, fault, prefetch };
  What what = What::host_fault;  ///< lost: so much memory cannot be watched any longer
  Why why = Why::none;           ///< of a move
  bool write = false;            ///< of a fault
  int device = 0;                ///< of a device's fault and of a replay
  int from = -1, to = -1;        ///< of a move; -1 is the host
  unsigned client = 0;           ///< of a device's fault: the multiprocessor
  std::uint32_t batch = 0;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::uint64_t begin = 0, end = 0;  ///< nanoseconds of the monotonic clock; of a fault and a replay both the same
};

/// Called under a lock, maybe from a signal handler: it may neither allocate nor touch managed memory.
using PageListener = void (*)(void* context, const PageEvent& event) noexcept;

/// From now on, until unwatch_pages(), managed memory is where it was touched last, and the listener is told. False
/// where the device has no concurrent managed memory. One listener at a time.
bool watch_pages(PageListener listener, void* context);
void unwatch_pages();

/// Makes a group of pages that the prefetcher keeps apart, as a driver's range groups do: of pages beside one another
/// in one group it brings none unless one of them faults. Group 0 is of pages that nobody put into another.
std::uint64_t create_page_group();
/// Its pages are in group 0 afterwards. False where there is no such group.
bool destroy_page_group(std::uint64_t group);
/// Whole pages of one managed allocation. False where they are not, or where there is no such group.
bool set_page_group(std::uint64_t group, std::uintptr_t address, std::size_t bytes);

}  // namespace emulator
