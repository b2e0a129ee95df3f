#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernel/kernel.hpp"

namespace isthmus::microbench::faults {

inline constexpr std::size_t kPage = 4096, kBlock = std::size_t{2} << 20;  ///< as the driver counts them
inline constexpr std::size_t kWordsOfPage = kPage / sizeof(std::uint64_t);

enum class Access { read, write, atomic };

/// What the GPU writes into a word, or adds to it.
inline constexpr std::uint64_t kStamp = 0x9e3779b97f4a7c15;
constexpr std::uint64_t stamp_of(std::size_t page, std::size_t slot) {
  return kStamp * (page * kWordsOfPage + slot + 1);
}

/// Which words the threads touch: of each page in `order` the words [first, first + sharers), a thread each.
struct Touches {
  std::uint64_t* words;
  const std::uint32_t* order;  ///< pages, in device memory
  std::size_t count;           ///< of them
  unsigned sharers;
  std::uint64_t* sums;  ///< in device memory: what each thread has read
  unsigned first = 0;
};

/// Two blocks of 256 threads for each multiprocessor, each with several touches to take: `threads` of them in all.
device::LaunchShape shape_of(const device::DeviceInfo& device);
std::size_t threads_of(const device::DeviceInfo& device);
/// Queues a kernel that takes all touches.
void queue_touches(device::Stream& stream, Access access, const Touches& touches, const device::DeviceInfo& device);

}  // namespace isthmus::microbench::faults
