#include "microbench/fault_cost/faulting_region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "device/api/device.hpp"
#include "memory/placement.hpp"
#include "workload/scratch_file.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::fault_cost {

using workload::Skip;

namespace {

constexpr std::array<EventFacts, 6> kEvents{{
    {Event::anonymous, "anonymous", "first write of private pages: allocated and cleared", true, false, true},
    {Event::zero_page, "zero-page", "first read of private pages: all map the zero page", false, false, false},
    {Event::shared, "shared", "first write of shared pages", true, false, true},
    {Event::mapped, "mapped", "write of shared pages that are present: only the page table changes", true, false,
     false},
    {Event::file, "file", "read of a file that is in the page cache", false, false, false},
    {Event::file_major, "file-major", "read of a file that is not in the page cache", false, true, false},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kEvents.size(); ++i) {
    if (static_cast<std::size_t>(kEvents[i].event) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table must be indexed by event");

/// Window within which the kernel, on a read of a cached file, also maps neighbours that are cached
/// (fault_around_bytes, which only root can read). One touch per window is one fault.
constexpr std::size_t kFaultAround = std::size_t{64} << 10;

std::size_t stride_of(Event event, memory::Pages pages) {
  if (event == Event::file) return std::max(kFaultAround, memory::page_bytes());
  return pages == memory::Pages::huge ? memory::huge_page_size() : memory::page_bytes();
}

bool in_file(Event event) {
  return event != Event::anonymous && event != Event::zero_page;
}
bool on_disk(Event event) {
  return event == Event::file || event == Event::file_major;
}

[[noreturn]] void fail(const char* call, const char* hint) {
  const int problem = errno;
  throw device::Error(problem == ENOMEM ? device::ErrorKind::out_of_memory : device::ErrorKind::failure, call,
                      std::strerror(problem), hint);
}

}  // namespace

std::span<const EventFacts> events() noexcept {
  return kEvents;
}

const EventFacts& facts(Event event) noexcept {
  return kEvents[static_cast<std::size_t>(event)];
}

std::size_t FaultingRegion::footprint(Event event, std::size_t touches, memory::Pages pages) {
  return memory::byte_count(touches, stride_of(event, pages));
}

FaultingRegion::FaultingRegion(Event event, std::size_t touches, memory::Pages pages)
    : facts_(facts(event)), touches_(touches), stride_(stride_of(event, pages)), pages_(pages) {
  try {
    if (in_file(event)) make_file();
    map();
  } catch (...) {
    if (file_ >= 0) close(file_);
    throw;
  }
}

FaultingRegion::~FaultingRegion() {
  unmap();
  if (file_ >= 0) close(file_);
}

std::uint64_t FaultingRegion::word(std::size_t index) const noexcept {
  if (facts_.event == Event::zero_page) return 0;
  return workload::hash(1, 0, index) | 1;  // never the content of an untouched page
}

void FaultingRegion::make_file() {
  file_ = on_disk(facts_.event) ? workload::open_scratch_file() : memfd_create("isthmus", MFD_CLOEXEC);
  if (file_ < 0) fail("memfd_create", "the kernel provides no shared memory");
  if (facts_.event == Event::file_major) {
    if (workload::lies_in_memory(file_))
      throw Skip(
          fmt::format("{} is in memory, so no page of its files is ever read from a device; set TMPDIR to a "
                      "folder on a disk",
                      workload::scratch_folder()));
  }
  if (ftruncate(file_, static_cast<off_t>(bytes())) != 0) fail("ftruncate", "choose fewer pages at once");
  if (facts_.event == Event::shared) return;  // the touches fill it
  // Whole pages are written, so that the file has no holes. They are written one at a time because the page cache keeps
  // large writes in large pieces, which a single fault would map as a whole.
  std::vector<std::uint64_t> piece(memory::page_bytes() / sizeof(std::uint64_t));
  for (std::size_t at = 0; at < bytes();) {
    const std::size_t count = std::min(piece.size() * sizeof(std::uint64_t), bytes() - at);
    std::fill(piece.begin(), piece.end(), ~std::uint64_t{0});
    for (std::size_t i = (at + stride_ - 1) / stride_; i < touches_ && i * stride_ < at + count; ++i)
      piece[(i * stride_ - at) / sizeof(std::uint64_t)] = facts_.writes ? 0 : word(i);
    workload::write_scratch_file(file_, std::as_bytes(std::span(piece)).first(count), at);
    at += count;
  }
  if (on_disk(facts_.event) && fsync(file_) != 0) fail("fsync", "set TMPDIR to another folder");
}

void FaultingRegion::map() {
  const bool huge = pages_ == memory::Pages::huge;
  mapping_bytes_ = bytes() + (huge ? stride_ : 0);
  const int flags = in_file(facts_.event) ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  // A file that is only read is mapped read-only, because a fault on a writable page is a different event.
  const int access = on_disk(facts_.event) ? PROT_READ : PROT_READ | PROT_WRITE;
  void* mapped = nullptr;
  if (huge && in_file(facts_.event)) {
    // Huge pages of a file must have the same alignment in the address space as in the file. Therefore addresses are
    // reserved first, and the file is mapped at an aligned one.
    void* reserved = mmap(nullptr, mapping_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) fail("mmap", "choose fewer pages at once");
    mapped = reserved;
    const auto address = (reinterpret_cast<std::uintptr_t>(reserved) + stride_ - 1) / stride_ * stride_;
    if (mmap(reinterpret_cast<void*>(address), bytes(), access, flags | MAP_FIXED, file_, 0) == MAP_FAILED) {
      munmap(reserved, mapping_bytes_);
      fail("mmap", "choose fewer pages at once");
    }
  } else {
    mapped = mmap(nullptr, mapping_bytes_, access, flags, file_, 0);
    if (mapped == MAP_FAILED) fail("mmap", "choose fewer pages at once");
  }
  mapping_ = mapped;
  auto address = reinterpret_cast<std::uintptr_t>(mapped);
  if (huge) address = (address + stride_ - 1) / stride_ * stride_;
  data_ = reinterpret_cast<std::byte*>(address);
  // This call fails on a kernel without transparent huge pages; the page size is checked after the touches.
  madvise(data_, bytes(), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  // Read-ahead is turned off, so that no page is read before it is touched.
  if (facts_.event == Event::file_major) madvise(data_, bytes(), MADV_RANDOM);
}

void FaultingRegion::unmap() noexcept {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
  mapping_ = nullptr;
  data_ = nullptr;
}

void FaultingRegion::evict() {
  if (const int problem = posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED); problem != 0)
    throw Skip(fmt::format("the system does not drop a file from its page cache ({})", std::strerror(problem)));
}

void FaultingRegion::renew() {
  unmap();
  if (facts_.event == Event::shared && (ftruncate(file_, 0) != 0 || ftruncate(file_, static_cast<off_t>(bytes())) != 0))
    fail("ftruncate", "the kernel frees shared pages only when their file is truncated");
  if (facts_.event == Event::file_major) evict();
  map();
  if (facts_.event != Event::file_major) return;
  const auto kept = memory::cached_share(file_, bytes());
  if (!kept) fail("mincore", "the page cache cannot be queried");
  if (*kept > 0)
    throw Skip(
        fmt::format("the file system keeps {:.3g}% of the file in its cache when asked to drop it, so a touch would "
                    "not read the device",
                    100 * *kept));
}

bool FaultingRegion::holds(std::size_t index) const {
  std::uint64_t found = 0;
  if (file_ >= 0) {
    const auto got = pread(file_, &found, sizeof found, static_cast<off_t>(index * stride_));
    if (got != static_cast<ssize_t>(sizeof found)) return false;
  } else {
    std::memcpy(&found, data_ + index * stride_, sizeof found);
  }
  return found == word(index);
}

std::optional<std::size_t> FaultingRegion::present() const {
  const auto pages = memory::present_pages(data_, bytes());
  return pages ? std::optional(pages->present) : std::nullopt;
}

std::size_t FaultingRegion::present_after_touches() const noexcept {
  return pages_ == memory::Pages::huge ? bytes() / memory::page_bytes() : touches_;
}

std::optional<std::string> FaultingRegion::wrong_size() const {
  if (!facts_.huge) return std::nullopt;
  const auto huge = huge_bytes();
  if (!huge) return std::nullopt;
  if (pages_ == memory::Pages::huge ? *huge < bytes() : *huge > 0)
    return fmt::format("{} of {} bytes are in huge pages, although {} pages were requested", *huge, bytes(),
                       pages_ == memory::Pages::huge ? "huge" : "base");
  return std::nullopt;
}

std::optional<std::size_t> FaultingRegion::huge_bytes() const {
  return memory::huge_page_bytes(data_);
}

}  // namespace isthmus::microbench::fault_cost
