#include "microbench/fault_patterns/shared_region.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "memory/host_memory.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "memory/parallel.hpp"

namespace isthmus::microbench::fault_patterns {

using namespace workload;

namespace {

constexpr std::size_t kMost = std::size_t{48} << 30;
constexpr std::size_t kGrain = 1 << 12;  // pages that a thread checks at a time

void require_faults(const device::DeviceInfo& info) {
  if (!info.managed || !info.concurrent_managed)
    throw Skip(fmt::format("{} ({}) does not fault on managed memory", info.name, info.arch));
}

std::string text(std::size_t bytes) {
  return memory::format_bytes(static_cast<double>(bytes));
}

std::uint64_t load(const std::byte* data, std::size_t page, std::size_t slot) {
  std::uint64_t word = 0;
  std::memcpy(&word, data + page * kPage + slot * sizeof word, sizeof word);
  return word;
}

}  // namespace

void require_fitting(const device::DeviceInfo& info, std::size_t bytes) {
  require_faults(info);
  if (bytes > kMost)
    throw Skip(fmt::format("needs {} of managed memory, but faults/* uses at most {}; choose a smaller size",
                           text(bytes), text(kMost)),
               SkipKind::not_applicable);
  const std::size_t free = device::memory_info().free;
  if (bytes > free / 2)
    throw Skip(fmt::format("needs {} of managed memory, but faults/* uses at most half of the {} that are free on the "
                           "device; choose a smaller size",
                           text(bytes), text(free)),
               InsufficientMemory{InsufficientMemory::Memory::device, 2.0 * static_cast<double>(bytes),
                                  static_cast<double>(free), static_cast<double>(free)});
}

void require_managed(Case& c, std::size_t bytes, std::size_t extra) {
  if (c.oversubscribed()) {
    require_faults(c.device());
    return c.needs(bytes, extra);
  }
  require_fitting(c.device(), bytes);
  c.needs(bytes, bytes + extra);
}

void require_whole_blocks(std::size_t bytes) {
  if (bytes % kBlock != 0)
    throw Skip(fmt::format("bytes={} is not a multiple of 2 MiB", bytes), SkipKind::not_applicable);
}

void shuffle(std::vector<std::uint32_t>& pages, std::uint64_t seed) {
  for (std::size_t left = pages.size(); left > 1; --left) std::swap(pages[left - 1], pages[hash(seed, 1, left) % left]);
}

Axis order_axis() {
  return choice_axis("order", "order in which threads touch pages", {"regular", "random"});
}

std::vector<std::uint32_t> every_page(const Case& c) {
  std::vector<std::uint32_t> pages(c.extent("bytes") / kPage);
  std::iota(pages.begin(), pages.end(), 0u);
  if (c.choice("order") == "random") shuffle(pages, c.seed());
  return pages;
}

SharedRegion::SharedRegion(memory::Kind kind, memory::Pages page_size, std::size_t bytes, unsigned sharers,
                           std::uint64_t seed, unsigned host_threads, int numa_node)
    : kind_(kind),
      page_size_(page_size),
      bytes_(bytes),
      sharers_(sharers),
      seed_(seed),
      numa_node_(numa_node),
      pool_(host_threads, numa_node) {
  renew();
}

void SharedRegion::renew() {
  block_.free();
  block_ = memory::Block(kind_, bytes_, {.numa_node = numa_node_, .pages = page_size_});
}

void SharedRegion::write_by_host() {
  pool_.run([&](unsigned i) {
    const memory::ScopedMemoryNode on_node(numa_node_);
    const memory::Part part = memory::part_of(pages(), pool_.size(), i);
    for (std::size_t page = part.first; page < part.last; ++page) {
      auto* words = reinterpret_cast<volatile std::uint64_t*>(block_.data() + page * kPage);
      for (std::size_t slot = 0; slot < sharers_; ++slot) words[slot] = word(page, slot);
      words[kWordsOfPage - 1] = word(page, kWordsOfPage - 1);
    }
  });
}

std::optional<std::size_t> SharedRegion::mapped_on_host() const {
  if (kind_ == memory::Kind::managed && device::backend() == device::Backend::emulator) return std::nullopt;
  const auto found = memory::present_pages(block_.data(), bytes_);
  return found ? std::optional(found->present) : std::nullopt;
}

std::uint64_t SharedRegion::sum(std::span<const std::uint32_t> order) const {
  std::atomic<std::uint64_t> all = 0;
  memory::parallel_for(order.size(), kGrain, [&](std::size_t first, std::size_t last) {
    std::uint64_t sum = 0;
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t slot = 0; slot < sharers_; ++slot) sum += word(order[i], slot);
    }
    all += sum;
  });
  return all;
}

std::size_t SharedRegion::wrong_words(Access access, std::span<const std::uint32_t> order) const {
  std::vector<char> touched(pages());
  for (const auto page : order) touched[page] = 1;
  const auto expected = [&](std::size_t page, std::size_t slot) {
    const bool was = touched[page] != 0 && slot < sharers_;
    if (!was || access == Access::read) return word(page, slot);
    return stamp_of(page, slot) + (access == Access::atomic ? word(page, slot) : 0);
  };
  std::atomic<std::size_t> all = 0;
  memory::parallel_for(pages(), kGrain, [&](std::size_t first, std::size_t last) {
    std::size_t wrong = 0;
    for (std::size_t page = first; page < last; ++page) {
      for (std::size_t slot = 0; slot < sharers_; ++slot)
        wrong += load(block_.data(), page, slot) == expected(page, slot) ? 0 : 1;
      wrong += load(block_.data(), page, kWordsOfPage - 1) == word(page, kWordsOfPage - 1) ? 0 : 1;
    }
    all += wrong;
  });
  return all;
}

std::size_t OnDevice::bytes(std::size_t touches, const device::DeviceInfo& device) {
  return touches * sizeof(std::uint32_t) + threads_of(device) * sizeof(std::uint64_t);
}

OnDevice::OnDevice(std::span<const std::uint32_t> order, const device::DeviceInfo& device)
    : order_(memory::Kind::device, order.size_bytes()),
      sums_(memory::Kind::device, threads_of(device) * sizeof(std::uint64_t)) {
  device::copy(order_.data(), order.data(), order.size_bytes());
}

void OnDevice::poison() {
  const std::vector<std::byte> poison(sums_.size(), std::byte{0xff});
  device::copy(sums_.data(), poison.data(), sums_.size());
}

std::uint64_t OnDevice::sum() const {
  std::vector<std::uint64_t> sums(sums_.size() / sizeof(std::uint64_t));
  device::copy(sums.data(), sums_.data(), sums_.size());
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

void Account::check(const SharedRegion& region, Access access, std::span<const std::uint32_t> order,
                    std::uint64_t read) {
  ++checked_;
  std::string what;
  const auto expected = access == Access::read ? region.sum(order) : 0;
  if (read != expected) what = "the words read by the GPU's threads are not what the host wrote";
  if (const auto words = region.wrong_words(access, order); words > 0)
    what = fmt::format("{} words of {} pages are wrong", words, region.pages());
  if (!what.empty() && wrong_++ == 0) reason_ = std::move(what);
}

void sample(Case& c, const Account& account, const DriverPrefetch& prefetch, Sampling sampling) {
  c.verify(
      "each page contains what the host and the GPU wrote, and the GPU read what was there",
      [&c, &account, check = sampling.check] {
        check();
        if (account.wrong() > 0) c.warn("faults_wrong", account.reason());
        return static_cast<double>(account.checked() > 0 ? account.wrong() : 1);
      },
      0);
  std::vector<Metric> metrics;
  for (const char* name : {"time", "page_time"})
    metrics.push_back(time_metric(name, sampling.timer, "page faults have no known bound"));
  const bool prefetch_is_set = c.choice(kDriverPrefetch) != kDriverPrefetchDefault;
  if (prefetch_is_set) metrics.push_back(time_metric(kDriverPrefetchSetup, "clock", "none is known"));
  c.sampling().sample(std::move(metrics), sampling.prepare, [&] {
    const double seconds = sampling.seconds();
    std::vector<double> values{seconds, seconds / static_cast<double>(sampling.touches)};
    if (prefetch_is_set) values.push_back(prefetch.seconds());
    return values;
  });
}

}  // namespace isthmus::microbench::fault_patterns
