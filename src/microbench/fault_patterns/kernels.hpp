#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench::fault_patterns {

inline constexpr std::size_t kPage = 4096, kBlock = std::size_t{2} << 20;  ///< bytes of the driver's units
inline constexpr std::size_t kWordsOfPage = kPage / sizeof(std::uint64_t);

enum class Access { read, write, atomic };

/// Factor of the words that the GPU writes, or adds to the existing words.
inline constexpr std::uint64_t kStamp = 0x9e3779b97f4a7c15;
constexpr std::uint64_t stamp_of(std::size_t page, std::size_t slot) {
  return kStamp * (page * kWordsOfPage + slot + 1);
}

/// Touches of a kernel: words [first, first + sharers) of each page in `order`, each word by one thread.
struct Touches {
  std::uint64_t* words;
  const std::uint32_t* order;  ///< page numbers, in device memory
  std::size_t count;           ///< number of pages
  unsigned sharers;
  std::uint64_t* sums;  ///< sum of the words that each thread read, in device memory
  unsigned first = 0;
};

/// Returns the launch shape: two blocks of 256 threads per multiprocessor, so that each thread has several touches.
/// threads_of() returns the number of threads of this launch.
device::LaunchShape shape_of(const device::DeviceInfo& device);
std::size_t threads_of(const device::DeviceInfo& device);
/// Queues a kernel that performs all touches.
void queue_touches(device::Stream& stream, Access access, const Touches& touches, const device::DeviceInfo& device);

}  // namespace isthmus::microbench::fault_patterns
