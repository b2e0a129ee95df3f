#pragma once

// Memory in which the next touch of a page causes a page fault of one kind. It can be renewed any number of times.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "memory/block.hpp"
#include "memory/pages.hpp"

namespace isthmus::microbench::fault_cost {

/// Kind of page fault that occurs when the CPU touches a page that is not in its page table.
enum class Event {
  anonymous,   ///< first write of private memory: the kernel finds a page and clears it
  zero_page,   ///< first read of private memory: the kernel maps the page of zeros that all processes share
  shared,      ///< first write of shared memory: the same as anonymous, through a file system in memory
  mapped,      ///< write of a shared page that another mapping has filled: only the page table is written
  file,        ///< read of a file's page that is in the page cache: it and its neighbours are mapped
  file_major,  ///< read of a file's page that is not in the page cache: it is read from a device
};

struct EventFacts {
  Event event;
  std::string_view name, words;
  bool writes;  ///< the touch writes; otherwise it reads
  bool major;   ///< the kernel counts it as a major fault
  bool huge;    ///< huge pages make sense for the event
};
std::span<const EventFacts> events() noexcept;
const EventFacts& facts(Event event) noexcept;

/// Returns the offset of touch `index` from the first touch, in bytes.
constexpr std::size_t offset_of(std::size_t index, std::size_t stride) {
  return index * stride;
}

/// Memory in which each touch faults once. renew() makes the pages fault again. Each touch has its own page (or its own
/// window of the kernel's fault-around).
class FaultingRegion {
 public:
  /// Throws workload::Skip if this system cannot really cause the event, and device::Error if there is no memory.
  FaultingRegion(Event event, std::size_t touches, memory::Pages pages);
  ~FaultingRegion();
  FaultingRegion(const FaultingRegion&) = delete;
  FaultingRegion& operator=(const FaultingRegion&) = delete;

  /// Releases all pages, so that the next touch of each page causes the event. Must not be timed.
  void renew();

  std::byte* data() const noexcept { return data_; }
  std::size_t touches() const noexcept { return touches_; }
  /// Returns the bytes between consecutive touches.
  std::size_t stride() const noexcept { return stride_; }
  std::size_t bytes() const noexcept { return touches_ * stride_; }

  /// Returns the host memory that a region will use, in bytes.
  static std::size_t footprint(Event event, std::size_t touches, memory::Pages pages);

  /// Returns the word that touch `index` writes, or finds if it reads.
  std::uint64_t word(std::size_t index) const noexcept;
  /// Returns whether the page of touch `index` contains its word. Reads it through a mapping other than the touched one
  /// if there is one.
  bool holds(std::size_t index) const;
  /// Returns the number of the region's base pages that are present; nullopt if the kernel does not report it.
  /// present_after_touches() returns the number expected after the touches. A huge page counts as the base pages that
  /// it consists of; a read of a file also maps neighbours of the requested page.
  std::optional<std::size_t> present() const;
  std::size_t present_after_touches() const noexcept;
  /// Returns why the touched pages are not of the requested size; nullopt if they are, or if the kernel does not report
  /// it. Slow, because the kernel lists all memory of the process.
  std::optional<std::string> wrong_size() const;
  /// Returns the bytes of the touched memory that are in huge pages; nullopt if the kernel does not report them.
  std::optional<std::size_t> huge_bytes() const;

 private:
  void map();
  void unmap() noexcept;
  void make_file();
  void evict();

  EventFacts facts_;
  std::size_t touches_, stride_;
  memory::Pages pages_;
  std::byte* data_ = nullptr;
  void* mapping_ = nullptr;  // mapping around data_, which may have to be aligned
  std::size_t mapping_bytes_ = 0;
  int file_ = -1;
};

}  // namespace isthmus::microbench::fault_cost
