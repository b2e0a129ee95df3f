#pragma once

// Memory that the host and a GPU share, page by page: what the host writes into it, what the GPU reads and leaves
// there, and whether both are right.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/block.hpp"
#include "memory/crew.hpp"
#include "microbench/faults/kernels.hpp"
#include "workload/driver_prefetch.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::faults {

/// Throws workload::Skip where so many managed bytes are more than this family takes: 48 GiB, and half of what the card
/// has free, so that nothing is ever evicted.
void need_fitting(const device::DeviceInfo& selected, std::size_t bytes);
/// Throws workload::Skip where the bytes are no whole blocks of 2 MiB.
void need_whole_blocks(std::size_t bytes);
/// The same as need_fitting(), and Case::needs(); where the case is oversubscribed, so many bytes need not fit.
/// `beside`: device memory that is not managed.
void need_managed(workload::Case& c, std::size_t bytes, std::size_t beside = 0);

/// In no order.
void shuffle(std::vector<std::uint32_t>& pages, std::uint64_t seed);
/// In which threads take the pages: regular, random.
workload::Axis order_axis();
/// All pages of the case's `bytes`, in the order of that axis.
std::vector<std::uint32_t> every_page(const workload::Case& c);

/// Pages of `bytes`. The host writes the words [0, sharers) of each, and its last.
class Region {
 public:
  /// Of pageable memory in pages of one size, a GPU reaches it where the system lets it (HMM, ATS).
  Region(memory::Kind kind, memory::Pages page_size, std::size_t bytes, unsigned sharers, std::uint64_t seed,
         unsigned host_threads, int numa_node);

  /// Pages that nobody has touched.
  void renew();
  /// By all of the host's threads, page after page.
  void write_by_host();
  /// Pages that the host's page table has; nullopt where unknown.
  std::optional<std::size_t> mapped_on_host() const;

  std::byte* data() const noexcept { return block_.data(); }
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t pages() const noexcept { return bytes_ / kPage; }

  /// What the host writes.
  std::uint64_t word(std::size_t page, std::size_t slot) const noexcept { return workload::hash(seed_, slot, page); }
  /// What threads that read these pages find, added.
  std::uint64_t sum(std::span<const std::uint32_t> order) const;
  /// Words of all pages that are not what they should be once the GPU has had its access to the pages of `order`.
  std::size_t wrong_words(Access access, std::span<const std::uint32_t> order) const;

 private:
  memory::Kind kind_;
  memory::Pages page_size_;
  std::size_t bytes_;
  unsigned sharers_;
  std::uint64_t seed_;
  int numa_node_;
  memory::Crew crew_;
  memory::Block block_;
};

/// The order of the touches and what the threads have read, in device memory.
class OnDevice {
 public:
  OnDevice(std::span<const std::uint32_t> order, const device::DeviceInfo& device);
  static std::size_t bytes(std::size_t touches, const device::DeviceInfo& device);
  const std::uint32_t* order() const noexcept { return reinterpret_cast<const std::uint32_t*>(order_.data()); }
  std::uint64_t* sums() const noexcept { return reinterpret_cast<std::uint64_t*>(sums_.data()); }
  /// No thread has read what is there now.
  void poison();
  std::uint64_t sum() const;

 private:
  memory::Block order_, sums_;
};

/// Keeps account of what was wrong, sample by sample.
class Account {
 public:
  /// After the GPU's access; `read` is what its threads have read, added.
  void check(const Region& region, Access access, std::span<const std::uint32_t> order, std::uint64_t read);
  std::size_t checked() const noexcept { return checked_; }
  std::size_t wrong() const noexcept { return wrong_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::size_t checked_ = 0, wrong_ = 0;
  std::string reason_;
};

/// What a case samples: `seconds` touches all pages, so many times in all; `check` looks at what the latest sample
/// left.
struct Sampling {
  const char* timer;
  std::size_t touches;
  std::function<void()> prepare, check;
  std::function<double()> seconds;
};
/// Samples the time of all touches and of one, and that of setting driver_prefetch where it is set. The case is right
/// where every sample's words are what they should be, and at least one was looked at.
void sample(workload::Case& c, const Account& account, const workload::DriverPrefetch& prefetch, Sampling sampling);

}  // namespace isthmus::microbench::faults
