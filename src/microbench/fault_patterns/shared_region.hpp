#pragma once

// Memory that the host and a GPU share. The host writes words into its pages, the GPU reads or changes them, and both
// results are checked.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/block.hpp"
#include "memory/thread_pool.hpp"
#include "microbench/fault_patterns/kernels.hpp"
#include "workload/driver_prefetch.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::fault_patterns {

/// Throws workload::Skip if `bytes` of managed memory are more than this family uses: at most 48 GiB, and at most half
/// of the device's free memory, so that nothing is ever evicted.
void require_fitting(const device::DeviceInfo& selected, std::size_t bytes);
/// Throws workload::Skip if `bytes` is not a multiple of 2 MiB.
void require_whole_blocks(std::size_t bytes);
/// Calls require_fitting() and Case::needs(). In an oversubscribed case, `bytes` need not fit. `extra` is device
/// memory that is not managed, in bytes.
void require_managed(workload::Case& c, std::size_t bytes, std::size_t extra = 0);

/// Shuffles the pages into an order that the seed determines.
void shuffle(std::vector<std::uint32_t>& pages, std::uint64_t seed);
/// Returns the order in which threads touch pages: regular or random.
workload::Axis order_axis();
/// Returns all pages of the case's `bytes`, in the order that the axis `order` selects.
std::vector<std::uint32_t> every_page(const workload::Case& c);

/// Memory of `bytes`. The host writes words [0, sharers) and the last word of each page.
class SharedRegion {
 public:
  /// Allocates memory of `kind`. Pageable memory has pages of `page_size`, and a GPU can access it if the system allows
  /// that (HMM, ATS).
  SharedRegion(memory::Kind kind, memory::Pages page_size, std::size_t bytes, unsigned sharers, std::uint64_t seed,
               unsigned host_threads, int numa_node);

  /// Replaces the memory with pages that nobody has touched.
  void renew();
  /// Writes the host's words, page after page, with all of the host's threads.
  void write_by_host();
  /// Returns the number of pages in the host's page table; nullopt if unknown.
  std::optional<std::size_t> mapped_on_host() const;

  std::byte* data() const noexcept { return block_.data(); }
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t pages() const noexcept { return bytes_ / kPage; }

  /// Returns the word that the host writes into `slot` of `page`.
  std::uint64_t word(std::size_t page, std::size_t slot) const noexcept { return workload::hash(seed_, slot, page); }
  /// Returns the sum that threads should read from these pages.
  std::uint64_t sum(std::span<const std::uint32_t> order) const;
  /// Returns the number of wrong words in all pages after the GPU's access to the pages of `order`.
  std::size_t wrong_words(Access access, std::span<const std::uint32_t> order) const;

 private:
  memory::Kind kind_;
  memory::Pages page_size_;
  std::size_t bytes_;
  unsigned sharers_;
  std::uint64_t seed_;
  int numa_node_;
  memory::ThreadPool pool_;
  memory::Block block_;
};

/// Order of the touches, and sums of the words that threads have read, in device memory.
class OnDevice {
 public:
  OnDevice(std::span<const std::uint32_t> order, const device::DeviceInfo& device);
  static std::size_t bytes(std::size_t touches, const device::DeviceInfo& device);
  const std::uint32_t* order() const noexcept { return reinterpret_cast<const std::uint32_t*>(order_.data()); }
  std::uint64_t* sums() const noexcept { return reinterpret_cast<std::uint64_t*>(sums_.data()); }
  /// Overwrites the sums, so that a sum that no thread writes is noticed.
  void poison();
  std::uint64_t sum() const;

 private:
  memory::Block order_, sums_;
};

/// Record of the errors found in samples.
class Account {
 public:
  /// Checks the region after the GPU's access. `read` is the sum of the words that the GPU's threads have read.
  void check(const SharedRegion& region, Access access, std::span<const std::uint32_t> order, std::uint64_t read);
  std::size_t checked() const noexcept { return checked_; }
  std::size_t wrong() const noexcept { return wrong_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::size_t checked_ = 0, wrong_ = 0;
  std::string reason_;
};

/// Functions with which a case is sampled. `seconds` times `touches` touches, which cover all pages; `check` checks the
/// results of the latest sample.
struct Sampling {
  const char* timer;
  std::size_t touches;
  std::function<void()> prepare, check;
  std::function<double()> seconds;
};
/// Samples the time of all touches, the time of one touch and, if driver_prefetch is set, the time of setting it. The
/// case is right if the words of every sample are right and at least one sample was checked.
void sample(workload::Case& c, const Account& account, const workload::DriverPrefetch& prefetch, Sampling sampling);

}  // namespace isthmus::microbench::fault_patterns
