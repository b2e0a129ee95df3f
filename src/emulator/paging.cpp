#include "emulator/paging.hpp"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>

#include "emulator/emulator.hpp"
#include "emulator/sanitizers.hpp"

namespace emulator {

bool watch_pages(PageListener listener, void* context) {
  const auto c = configuration();
  if (!c.managed || !c.concurrent_managed || c.integrated) return false;
  Paging::instance().watch(listener, context);
  return true;
}

void unwatch_pages() {
  Paging::instance().unwatch();
}

std::uint64_t create_page_group() {
  return Paging::instance().create_group();
}

bool destroy_page_group(std::uint64_t group) {
  return Paging::instance().destroy_group(group);
}

bool set_page_group(std::uint64_t group, std::uintptr_t address, std::size_t bytes) {
  return Paging::instance().set_group(group, address, bytes);
}

namespace {

constexpr std::size_t page_bytes = 4096, block_bytes = block_pages * page_bytes;

std::uint64_t nanoseconds() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

Paging& Paging::instance() {
  static Paging* paging = new Paging;  // never destroyed, because threads may still run when the process ends
  return *paging;
}

namespace {
// Constructed before any threads exist. If two threads requested the instance first, they would be ordered only by the
// guard of the static variable, which TSan does not always observe.
[[maybe_unused]] const Paging& made_early = Paging::instance();
}  // namespace

void Paging::watch(PageListener listener, void* context) {
  const std::lock_guard lock(mutex_);
  listener_ = listener;
  context_ = context;
  for (auto& [begin, range] : ranges_) {
    range.lost = false;
    for (auto& page : range.pages) page = {.where = host, .open = true, .pending = false, .group = page.group};
  }
  watched_ = true;
  protect_all();
}

void Paging::unwatch() {
  const std::lock_guard lock(mutex_);
  if (!watched_) return;
  service();
  watched_ = false;
  for (auto& [begin, range] : ranges_) set_open(range, 0, range.pages.size(), true);
  listener_ = nullptr;
}

void Paging::add(std::uintptr_t begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& range = ranges_[begin];
  range = {.begin = begin, .pages = std::vector<Page>(bytes / page_bytes), .lost = false};
  if (watched_) set_open(range, 0, range.pages.size(), false);
}

void Paging::remove(std::uintptr_t begin) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(begin);
  if (found == ranges_.end()) return;
  service();
  set_open(found->second, 0, found->second.pages.size(), true);
  ranges_.erase(found);
}

std::uint64_t Paging::create_group() {
  const std::lock_guard lock(mutex_);
  groups_.insert(++latest_group_);
  return latest_group_;
}

bool Paging::destroy_group(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  if (groups_.erase(static_cast<std::uint32_t>(group)) == 0) return false;
  for (auto& [begin, range] : ranges_) {
    for (auto& page : range.pages) {
      if (page.group == group) page.group = 0;
    }
  }
  return true;
}

bool Paging::set_group(std::uint64_t group, std::uintptr_t begin, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Area* range = find(begin);
  const bool known = group == 0 || groups_.contains(static_cast<std::uint32_t>(group));
  if (range == nullptr || !known || bytes == 0 || (begin | bytes) % page_bytes != 0) return false;
  const std::size_t first = (begin - range->begin) / page_bytes, pages = bytes / page_bytes;
  if (pages > range->pages.size() - first) return false;
  for (std::size_t i = first; i < first + pages; ++i) range->pages[i].group = static_cast<std::uint32_t>(group);
  return true;
}

void Paging::enter(int device) {
  const std::lock_guard lock(mutex_);
  if (device >= 0 && ++kernels_of_[device] == 1) take_turns();
}

void Paging::leave(int device) {
  const std::lock_guard lock(mutex_);
  if (device >= 0) {
    const auto found = kernels_of_.find(device);
    if (--found->second > 0) return;
    kernels_of_.erase(found);
    take_turns();
  } else if (watched_ && kernels_of_.empty() && copies_opened_) {
    copies_opened_ = false;
    protect_all();
  }
}

/// Adapts access rights after a change in the set of devices that run kernels.
void Paging::take_turns() noexcept {
  if (!watched_) return;
  service();
  copies_opened_ = false;
  protect_all();
}

/// Returns true if the page should be accessible. While several devices run kernels, all pages except pending pages are
/// closed, so that the first touch of a page is noticed.
bool Paging::shall_be_open(const Page& page) const noexcept {
  if (page.pending || kernels_of_.size() > 1) return page.pending;
  return page.where == (kernels_of_.empty() ? host : kernels_of_.begin()->first);
}

void Paging::protect_all() noexcept {
  for (auto& [begin, range] : ranges_) {
    const auto& pages = range.pages;
    for (std::size_t first = 0; first < pages.size();) {
      const bool open = shall_be_open(pages[first]);
      std::size_t end = first + 1;
      while (end < pages.size() && shall_be_open(pages[end]) == open) ++end;
      set_open(range, first, end, open);
      first = end;
    }
  }
}

/// Changes protections only where needed, with each call covering as many pages as possible.
void Paging::set_open(Area& range, std::size_t first, std::size_t end, bool open) noexcept {
  if (range.lost) return;
  auto& pages = range.pages;
  while (first < end) {
    if (pages[first].open == open) {
      ++first;
      continue;
    }
    std::size_t until = first;
    while (until < end && pages[until].open != open) pages[until++].open = open;
    if (mprotect(reinterpret_cast<void*>(range.begin + first * page_bytes), (until - first) * page_bytes,
                 open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
      // The process has reached its limit of 65,530 mappings. Opening the whole range with a single call merges the
      // range's mappings into one.
      mprotect(reinterpret_cast<void*>(range.begin), pages.size() * page_bytes, PROT_READ | PROT_WRITE);
      range.lost = true;
      tell({.what = PageEvent::What::lost, .address = range.begin, .bytes = pages.size() * page_bytes});
      return;
    }
    first = until;
  }
}

void Paging::tell(const PageEvent& event) noexcept {
  if (listener_ != nullptr) listener_(context_, event);
}

Paging::Area* Paging::find(std::uintptr_t address) noexcept {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  auto& range = std::prev(after)->second;
  return address - range.begin < range.pages.size() * page_bytes ? &range : nullptr;
}

bool Paging::touch(const Touch& touch) noexcept {
  if (!watched_) return false;
  const Unseen unseen;
  const std::lock_guard lock(mutex_);
  Area* range = find(touch.address);
  if (range == nullptr) return false;
  const std::size_t index = (touch.address - range->begin) / page_bytes;
  auto& page = range->pages[index];
  if (page.open) return true;  // another thread has just opened it
  if (touch.by_device && touch.device >= 0) {
    if (page.where == touch.device)
      set_open(*range, index, index + 1, true);  // it was closed only because another device runs a kernel
    else
      device_fault(*range, index, touch);
  } else if (touch.by_device) {
    copies_opened_ = true;
    set_open(*range, index, index + 1, true);
  } else if (page.where == host) {
    set_open(*range, index, index + 1, true);  // it was closed only because a kernel is running
  } else {
    host_fault(*range, index, touch.write);
  }
  return true;
}

void Paging::move(const void* pointer, std::size_t bytes, int to) {
  if (!watched_ || bytes == 0) return;
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Area* range = find(address);
  if (range == nullptr) return;
  service();
  const std::size_t first = (address - range->begin) / page_bytes;
  const std::size_t end = std::min((address + bytes - 1 - range->begin) / page_bytes + 1, range->pages.size());
  bring_run(*range, first, end, to, PageEvent::Why::asked);
}

/// Returns the pages of a block that are at `to`, and sets `valid` to the pages that are in the range.
PagesOfBlock Paging::collect(const Area& range, std::uintptr_t block, int to, PagesOfBlock& valid) const noexcept {
  PagesOfBlock there;
  valid.reset();
  for (std::size_t i = 0; i < block_pages; ++i) {
    const std::uintptr_t address = block + i * page_bytes;
    if (address < range.begin || address >= range.begin + range.pages.size() * page_bytes) continue;
    valid.set(i);
    if (range.pages[(address - range.begin) / page_bytes].where == to) there.set(i);
  }
  return there;
}

/// Returns those of the prefetcher's pages that are in a run in which a page has faulted. A run consists of contiguous
/// pages of the same group.
PagesOfBlock Paging::in_faulted_groups(const Area& range, std::uintptr_t block, const PagesOfBlock& brought,
                                       const PagesOfBlock& faulted) const noexcept {
  PagesOfBlock kept = brought;
  const auto group_of = [&](std::size_t i) -> std::uint32_t {
    const std::uintptr_t address = block + i * page_bytes;
    const bool inside = address >= range.begin && address < range.begin + range.pages.size() * page_bytes;
    return inside ? range.pages[(address - range.begin) / page_bytes].group : 0;
  };
  for (std::size_t first = 0; first < block_pages;) {
    std::size_t end = first;
    bool has_fault = false;
    for (const auto group = group_of(first); end < block_pages && group_of(end) == group; ++end)
      has_fault = has_fault || faulted[end];
    for (; first < end; ++first) {
      if (!has_fault) kept.reset(first);
    }
  }
  return kept;
}

void Paging::host_fault(Area& range, std::size_t index, bool write) noexcept {
  const std::uintptr_t address = range.begin + index * page_bytes, block = address / block_bytes * block_bytes;
  const auto now = nanoseconds();
  tell({.what = PageEvent::What::host_fault, .write = write, .address = address, .begin = now, .end = now});
  const bool was_somewhere = range.pages[index].where != nowhere;
  PagesOfBlock valid, faulted;
  faulted.set((address - block) / page_bytes);
  const auto there = collect(range, block, host, valid);
  bring(range, block, faulted, host, PageEvent::Why::fault);
  // A page that has never been touched is populated without prefetching others.
  if (!was_somewhere) return;
  auto more = in_faulted_groups(range, block, prefetched_pages(there, faulted, valid), faulted);
  for (std::size_t i = 0; i < block_pages; ++i) {
    if (more[i] && range.pages[(block + i * page_bytes - range.begin) / page_bytes].where == nowhere) more.reset(i);
  }
  bring(range, block, more, host, PageEvent::Why::prefetch);
}

void Paging::device_fault(Area& range, std::size_t index, const Touch& touch) noexcept {
  if (touch.device != pending_device_) service();
  pending_device_ = touch.device;
  pending_[pending_count_++] = {range.begin + index * page_bytes, nanoseconds(), touch.client, touch.write};
  range.pages[index].pending = true;
  set_open(range, index, index + 1, true);  // the thread that touched the page continues
  if (pending_count_ == most_pending) service();
}

/// Services a batch block by block, in order of addresses, as the driver does.
void Paging::service() noexcept {
  if (pending_count_ == 0) return;
  std::sort(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(pending_count_),
            [](const Pending& a, const Pending& b) { return a.address < b.address; });
  ++batch_;
  for (std::size_t first = 0; first < pending_count_;) {
    std::size_t end = first + 1;
    while (end < pending_count_ && pending_[end].address / block_bytes == pending_[first].address / block_bytes &&
           find(pending_[end].address) == find(pending_[first].address))
      ++end;
    service_block(first, end);
    first = end;
  }
  pending_count_ = 0;
  const auto now = nanoseconds();
  tell({.what = PageEvent::What::replay, .device = pending_device_, .batch = batch_, .begin = now, .end = now});
}

void Paging::service_block(std::size_t first, std::size_t end) noexcept {
  Area& range = *find(pending_[first].address);  // remove() and move() call service() before a range changes
  const std::uintptr_t block = pending_[first].address / block_bytes * block_bytes;
  PagesOfBlock faulted, valid;
  for (std::size_t i = first; i < end; ++i) {
    const auto& fault = pending_[i];
    faulted.set((fault.address - block) / page_bytes);
    range.pages[(fault.address - range.begin) / page_bytes].pending = false;
    tell({.what = PageEvent::What::device_fault,
          .write = fault.write,
          .device = pending_device_,
          .client = fault.client,
          .batch = batch_,
          .address = fault.address,
          .begin = fault.time,
          .end = nanoseconds()});
  }
  const auto there = collect(range, block, pending_device_, valid);
  bring(range, block, faulted, pending_device_, PageEvent::Why::fault);
  const auto more = in_faulted_groups(range, block, prefetched_pages(there, faulted, valid), faulted);
  bring(range, block, more, pending_device_, PageEvent::Why::prefetch);
}

void Paging::bring(Area& range, std::uintptr_t block, const PagesOfBlock& pages, int to, PageEvent::Why why) noexcept {
  for (std::size_t i = 0; i < block_pages;) {
    if (!pages[i]) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < block_pages && pages[end]) ++end;
    const std::size_t first = (block + i * page_bytes - range.begin) / page_bytes;
    bring_run(range, first, first + (end - i), to, why);
    i = end;
  }
}

/// Moves pages. Contiguous pages from the same place form one move; pages without a location are populated at the
/// destination.
void Paging::bring_run(Area& range, std::size_t first, std::size_t end, int to, PageEvent::Why why) noexcept {
  auto& pages = range.pages;
  for (std::size_t i = first; i < end;) {
    const auto from = pages[i].where;
    const std::size_t begin = i;
    const auto since = nanoseconds();
    while (i < end && pages[i].where == from) pages[i++].where = static_cast<std::int8_t>(to);
    if (from == nowhere || from == to) continue;
    tell({.what = PageEvent::What::move,
          .why = why,
          .from = from,
          .to = to,
          .address = range.begin + begin * page_bytes,
          .bytes = (i - begin) * page_bytes,
          .begin = since,
          .end = nanoseconds()});
  }
  for (std::size_t i = first; i < end;) {
    const bool open = shall_be_open(pages[i]);
    std::size_t until = i + 1;
    while (until < end && shall_be_open(pages[until]) == open) ++until;
    set_open(range, i, until, open);
    i = until;
  }
}

}  // namespace emulator
