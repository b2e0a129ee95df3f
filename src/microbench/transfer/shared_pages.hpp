#pragma once

// Memory that the CPU and GPUs share: one allocation whose pages move.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "memory/block.hpp"
#include "microbench/transfer/block.hpp"

namespace isthmus::microbench::transfer {

class SharedPages {
 public:
  /// Allocates managed memory, or pageable memory if one of the ends is pageable, on the selected device, which moves
  /// its pages. Throws workload::Skip if that device cannot share it, and for sizes that are not whole pages.
  SharedPages(const End& from, const End& to, std::size_t bytes, memory::BlockOptions options);

  std::byte* data() const noexcept { return block_.data(); }
  std::size_t size() const noexcept { return bytes_; }
  /// Returns the end as a location for the driver.
  device::Location place(const End& end) const;
  /// Moves all pages to the end by a reliable method and waits. Must not be timed.
  void send_to(const End& end, device::Stream& stream);
  /// Returns the share of the pages that are not in the host's page table; nullopt if the page table does not show
  /// where they are (pageable memory, an integrated or an emulated GPU).
  std::optional<double> share_off_host() const;
  std::vector<std::string> disagreements() const { return block_.disagreements("the memory"); }

 private:
  bool managed() const noexcept { return block_.kind() == Kind::managed; }

  std::size_t bytes_;
  memory::BlockOptions options_;
  device::DeviceInfo info_;
  memory::Block block_;
  std::optional<Block> sum_;  // sum that a GPU writes when it touches pageable memory only to move it
};

}  // namespace isthmus::microbench::transfer
