#pragma once

// Pages of host memory: what they are, who holds them, and walking over them.

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string_view>

namespace isthmus::memory {

/// Bytes of the system's base page.
std::size_t page_bytes() noexcept;
/// Bytes of a transparent huge page; 2 MiB where the kernel does not tell.
std::size_t huge_page_size() noexcept;

/// Calls `body` with the first byte of every page of the range, in parallel where `parallel`.
void for_each_page(std::byte* begin, std::size_t bytes, bool parallel, const std::function<void(std::byte*)>& body);

/// Writes one byte into every page of memory that holds nothing yet.
void touch_pages(std::byte* begin, std::size_t bytes);
/// Writes every page with what is in it: the pages come to the host, and read-only copies elsewhere are dropped.
void rewrite_pages(std::byte* begin, std::size_t bytes);

/// Pages of the range that this process can reach without a fault (/proc/self/pagemap), of how many; managed pages that
/// have gone to a GPU are not among them. nullopt where the kernel does not tell.
struct PresentPages {
  std::size_t present = 0, all = 0;
};
std::optional<PresentPages> present_pages(const void* begin, std::size_t bytes);

/// A field of /proc/self/smaps ("Rss", "AnonHugePages"), in bytes, summed over the mappings that the range reaches
/// into, all of each; 0 where there are none, nullopt where the kernel does not tell.
std::optional<std::size_t> mapping_bytes(std::istream& smaps, const void* begin, std::size_t bytes,
                                         std::string_view field);
std::optional<std::size_t> mapping_bytes(const void* begin, std::size_t bytes, std::string_view field);

/// Gives the pages of an allocation a mapping of their own: the kernel joins mappings that lie side by side and are
/// alike, and /proc/self/smaps then counts them together. Nothing but core dumps sees the difference.
void separate_mapping(const void* begin, std::size_t bytes) noexcept;

/// Bytes of the mapping around `begin`, anonymous, shared or of a file, that this process reaches by huge pages
/// (/proc/self/smaps); nullopt where the kernel does not tell.
std::optional<std::size_t> huge_page_bytes(const void* begin);

/// Asks the kernel to let go of a file's pages, so that it is read from its device the next time. What was written to
/// it must be on the device (fsync); other programs may hold pages.
void drop_cached_pages(int file) noexcept;
/// The share of a file's first `bytes` that the page cache holds (mincore); nullopt where the kernel does not tell.
std::optional<double> cached_share(int file, std::size_t bytes);

/// Page faults that the calling thread, or all threads of this process, have had.
struct PageFaults {
  long minor = 0;  ///< served without reading from a device
  long major = 0;  ///< a device was read

  long all() const { return minor + major; }
  friend PageFaults operator-(PageFaults a, PageFaults b) { return {a.minor - b.minor, a.major - b.major}; }
};
PageFaults thread_page_faults() noexcept;
PageFaults process_page_faults() noexcept;

}  // namespace isthmus::memory
