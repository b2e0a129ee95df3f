#pragma once

// Pages of host memory: their sizes, their residency, and loops over them.

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string_view>

namespace isthmus::memory {

/// Returns the size of the system's base page in bytes.
std::size_t page_bytes() noexcept;
/// Returns the size of a transparent huge page in bytes; 2 MiB if the kernel does not report it.
std::size_t huge_page_size() noexcept;

/// Calls `body` with a pointer to the first byte of every page of the range, on several threads if `parallel`.
void for_each_page(std::byte* begin, std::size_t bytes, bool parallel, const std::function<void(std::byte*)>& body);

/// Writes one byte into every page of memory that has no contents yet.
void touch_pages(std::byte* begin, std::size_t bytes);
/// Reads and writes back one byte of every page, so that contents stay the same: the pages move to the host, and
/// read-only copies elsewhere are dropped.
void rewrite_pages(std::byte* begin, std::size_t bytes);

/// Number of a range's pages that this process can access without a page fault (/proc/self/pagemap), and number of all
/// its pages; managed pages that have moved to a GPU do not count as present.
struct PresentPages {
  std::size_t present = 0, all = 0;
};
std::optional<PresentPages> present_pages(const void* begin, std::size_t bytes);

/// Returns the sum of a field of /proc/self/smaps ("Rss", "AnonHugePages") over all mappings that overlap the range, in
/// bytes; each mapping counts as a whole. 0 if no mapping overlaps, nullopt if the kernel does not report the field.
std::optional<std::size_t> mapping_bytes(std::istream& smaps, const void* begin, std::size_t bytes,
                                         std::string_view field);
std::optional<std::size_t> mapping_bytes(const void* begin, std::size_t bytes, std::string_view field);

/// Makes the pages of an allocation a mapping separate from its neighbours: otherwise the kernel joins adjacent
/// mappings with the same attributes, and /proc/self/smaps counts them together. The only other effect is on core
/// dumps.
void separate_mapping(const void* begin, std::size_t bytes) noexcept;

/// Returns how many bytes of the mapping around `begin` (anonymous, shared or of a file) this process accesses through
/// huge pages (/proc/self/smaps); nullopt if the kernel does not report it.
std::optional<std::size_t> huge_page_bytes(const void* begin);

/// Asks the kernel to drop a file's cached pages, so that the next read comes from the storage device. Data written to
/// the file must already be on the device (fsync); other programs may keep pages in the cache.
void drop_cached_pages(int file) noexcept;
/// Returns the share of a file's first `bytes` that is in the page cache (mincore); nullopt if the kernel does not
/// report it.
std::optional<double> cached_share(int file, std::size_t bytes);

/// Number of page faults so far, of the calling thread or of all threads of this process.
struct PageFaults {
  long minor = 0;  ///< page faults served without reading from storage
  long major = 0;  ///< page faults served by reading from storage

  long all() const { return minor + major; }
  friend PageFaults operator-(PageFaults a, PageFaults b) { return {a.minor - b.minor, a.major - b.major}; }
};
PageFaults thread_page_faults() noexcept;
PageFaults process_page_faults() noexcept;

}  // namespace isthmus::memory
