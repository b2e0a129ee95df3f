#pragma once

// Events of managed memory pages on the emulated device, as a driver reports them.

#include <cstddef>
#include <cstdint>

namespace emulator {

struct PageEvent {
  enum class What : std::uint8_t { host_fault, device_fault, move, replay, lost };
  enum class Why : std::uint8_t { none, asked, fault, prefetch };
  What what = What::host_fault;  ///< lost: this memory can no longer be watched
  Why why = Why::none;           ///< reason of a move
  bool write = false;            ///< true for a fault by a write
  int device = 0;                ///< device that caused the fault or replays it
  int from = -1, to = -1;        ///< source and destination of a move; -1 is the host
  unsigned client = 0;           ///< multiprocessor that caused a device's fault
  std::uint32_t batch = 0;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::uint64_t begin = 0, end = 0;  ///< nanoseconds on the monotonic clock; begin == end for a fault or replay
};

/// Listener for page events. Called under a lock, possibly from a signal handler: it must neither allocate nor touch
/// managed memory.
using PageListener = void (*)(void* context, const PageEvent& event) noexcept;

/// Starts watching: until unwatch_pages(), each page of managed memory resides where it was last touched, and the
/// listener is called for each event. Returns false if the device has no concurrent managed memory. Only one listener
/// is supported.
bool watch_pages(PageListener listener, void* context);
void unwatch_pages();

/// Creates a group of pages that the prefetcher treats separately, as a driver does with range groups: pages of a
/// contiguous run in the same group are prefetched only if one of them faults. Group 0 contains all pages that were not
/// put into another group.
std::uint64_t create_page_group();
/// Destroys a group; its pages return to group 0. Returns false if the group does not exist.
bool destroy_page_group(std::uint64_t group);
/// Puts pages into a group. Returns false unless the range consists of whole pages of one managed allocation and the
/// group exists.
bool set_page_group(std::uint64_t group, std::uintptr_t address, std::size_t bytes);

}  // namespace emulator
