#pragma once

// Memory whose next touch is a page fault of one kind, as often as wanted.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "memory/block.hpp"
#include "memory/pages.hpp"

namespace isthmus::microbench::fault {

/// What happens when the CPU touches a page that its page table does not have. Each is an event of its own.
enum class Event {
  anonymous,   ///< first write of private memory: the kernel finds a page and clears it
  zero_page,   ///< first read of private memory: the kernel maps the one page of zeros that all share
  shared,      ///< first write of shared memory: the same as anonymous, through a file system in memory
  mapped,      ///< write of a shared page that another mapping has filled: only the page table is written
  file,        ///< read of a file's page that the page cache has: it and its neighbours are mapped
  file_major,  ///< read of a file's page that the page cache lacks: a device is read
};

struct EventFacts {
  Event event;
  std::string_view name, words;
  bool writes;  ///< the touch, which otherwise reads
  bool major;   ///< how the kernel counts it
  bool huge;    ///< huge pages mean something here
};
std::span<const EventFacts> events() noexcept;
const EventFacts& facts(Event event) noexcept;

/// Where touch `index` goes, in bytes from the first.
constexpr std::size_t offset_of(std::size_t index, std::size_t stride) {
  return index * stride;
}

/// Touches that each fault once: mapped anew by renew(), one page (or one window of the kernel's fault-around) each.
class Region {
 public:
  /// Throws workload::Skip where this system cannot make the event honestly, device::Error where there is no memory.
  Region(Event event, std::size_t touches, memory::Pages pages);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Gives all pages back: the next touch of each is the event. Not for timing.
  void renew();

  std::byte* data() const noexcept { return data_; }
  std::size_t touches() const noexcept { return touches_; }
  /// Bytes from touch to touch.
  std::size_t stride() const noexcept { return stride_; }
  std::size_t bytes() const noexcept { return touches_ * stride_; }

  /// Host memory that it will hold.
  static std::size_t footprint(Event event, std::size_t touches, memory::Pages pages);

  /// What touch `index` writes, or finds where it reads.
  std::uint64_t word(std::size_t index) const noexcept;
  /// Whether the page of touch `index` holds its word, seen another way than by the touched mapping where there is one.
  bool holds(std::size_t index) const;
  /// Base pages of the region that are there, and how many are to be after the touches: a huge page counts as those it
  /// is made of, and a read of a file maps neighbours beside the page asked for. nullopt where the kernel does not
  /// tell.
  std::optional<std::size_t> present() const;
  std::size_t present_after_touches() const noexcept;
  /// Why the pages, once touched, are not of the size asked for; nullopt where they are, or the kernel does not tell.
  /// Slow: the kernel lists all memory of the process.
  std::optional<std::string> wrong_size() const;
  /// Bytes in huge pages, of those touched; nullopt where the kernel does not tell.
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
  void* mapping_ = nullptr;  // around data_, which may have to be aligned
  std::size_t mapping_bytes_ = 0;
  int file_ = -1;
};

}  // namespace isthmus::microbench::fault
