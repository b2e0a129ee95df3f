#include "memory/pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "memory/parallel.hpp"

namespace isthmus::memory {

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t huge_page_size() noexcept {
  static const std::size_t bytes = [] {
    std::size_t size = 0;
    std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> size;
    return size > 0 ? size : std::size_t{2} << 20;
  }();
  return bytes;
}

void drop_cached_pages(int file) noexcept {
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

std::optional<double> cached_share(int file, std::size_t bytes) {
  // For a file that the caller neither owns nor may write, mincore reports every page as cached, so the share is
  // unknown.
  struct stat status{};
  const auto path = "/proc/self/fd/" + std::to_string(file);
  if (bytes == 0 || fstat(file, &status) != 0 ||
      (status.st_uid != geteuid() && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0))
    return std::nullopt;
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  std::vector<unsigned char> pages;
  std::size_t cached = 0, all = 0;
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t length = std::min(kPiece, bytes - at);
    void* mapped = mmap(nullptr, length, PROT_READ, MAP_SHARED, file, static_cast<off_t>(at));
    if (mapped == MAP_FAILED) return std::nullopt;
    pages.assign((length + page_bytes() - 1) / page_bytes(), 0);
    const bool told = mincore(mapped, length, pages.data()) == 0;
    munmap(mapped, length);
    if (!told) return std::nullopt;
    all += pages.size();
    cached +=
        static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
  }
  return static_cast<double>(cached) / static_cast<double>(all);
}

namespace {

PageFaults page_faults_of(int whose) noexcept {
  rusage usage{};
  getrusage(whose, &usage);
  return {usage.ru_minflt, usage.ru_majflt};
}

}  // namespace

PageFaults thread_page_faults() noexcept {
  return page_faults_of(RUSAGE_THREAD);
}
PageFaults process_page_faults() noexcept {
  return page_faults_of(RUSAGE_SELF);
}

namespace {

std::size_t page_count(const void* begin, std::size_t bytes) {
  const auto offset = reinterpret_cast<std::uintptr_t>(begin) % page_bytes();
  return (offset + bytes + page_bytes() - 1) / page_bytes();
}

/// Implements for_each_page() with a body that the compiler can inline.
template <class Body>
void walk(std::byte* begin, std::size_t bytes, bool parallel, Body body) {
  const std::size_t page = page_bytes();
  const auto range = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) body(begin + i * page);
  };
  const std::size_t pages = (bytes + page - 1) / page;
  if (parallel) {
    parallel_for(pages, 1024, range);
  } else {
    range(0, pages);
  }
}

}  // namespace

void for_each_page(std::byte* begin, std::size_t bytes, bool parallel, const std::function<void(std::byte*)>& body) {
  walk(begin, bytes, parallel, body);
}

void touch_pages(std::byte* begin, std::size_t bytes) {
  walk(begin, bytes, true, [](std::byte* page) { *reinterpret_cast<volatile unsigned char*>(page) = 0; });
}

void rewrite_pages(std::byte* begin, std::size_t bytes) {
  walk(begin, bytes, true, [](std::byte* page) {
    auto* byte = reinterpret_cast<volatile unsigned char*>(page);
    *byte = *byte;
  });
}

std::optional<PresentPages> present_pages(const void* begin, std::size_t bytes) {
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  PresentPages pages{.present = 0, .all = page_count(begin, bytes)};
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) / page_bytes();
  std::vector<std::uint64_t> entries(std::min<std::size_t>(pages.all, 8192));
  bool complete = true;
  for (std::size_t done = 0; complete && done < pages.all;) {
    const std::size_t wanted = std::min(entries.size(), pages.all - done) * sizeof(std::uint64_t);
    const auto got = pread(file, entries.data(), wanted, static_cast<off_t>((first + done) * sizeof(std::uint64_t)));
    complete = got == static_cast<ssize_t>(wanted);
    const std::size_t count = complete ? wanted / sizeof(std::uint64_t) : 0;
    for (std::size_t i = 0; i < count; ++i) pages.present += entries[i] >> 63;
    done += count;
  }
  close(file);
  return complete ? std::optional(pages) : std::nullopt;
}

std::optional<std::size_t> mapping_bytes(std::istream& smaps, const void* begin, std::size_t bytes,
                                         std::string_view field) {
  if (!smaps) return std::nullopt;
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  bool within = false, some = false, has_field = false;
  std::size_t sum = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      within = first < to && first + std::max<std::size_t>(bytes, 1) > from;
      some |= within;
    } else if (within && line.size() > field.size() && line.starts_with(field) && line[field.size()] == ':') {
      sum += static_cast<std::size_t>(std::strtoull(line.c_str() + field.size() + 1, nullptr, 10)) << 10;
      has_field = true;
    }
  }
  return some && !has_field ? std::nullopt : std::optional(sum);
}

std::optional<std::size_t> mapping_bytes(const void* begin, std::size_t bytes, std::string_view field) {
  std::ifstream smaps("/proc/self/smaps");
  return mapping_bytes(smaps, begin, bytes, field);
}

void separate_mapping(const void* begin, std::size_t bytes) noexcept {
  const auto page = page_bytes(), first = reinterpret_cast<std::uintptr_t>(begin) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(begin) + bytes + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTDUMP);  // NOLINT: a failure does no harm
}

std::optional<std::size_t> huge_page_bytes(const void* begin) {
  std::optional<std::size_t> bytes;
  for (const char* field : {"AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"}) {
    if (const auto own = mapping_bytes(begin, 1, field)) bytes = bytes.value_or(0) + *own;
  }
  return bytes;
}

}  // namespace isthmus::memory
