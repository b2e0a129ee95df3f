#pragma once

// Memory that the CPU and GPUs share: one allocation whose pages change place.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "memory/block.hpp"
#include "microbench/transfer/block.hpp"

namespace isthmus::microbench::transfer {

class SharedPages {
 public:
  /// Managed, or pageable where one of the ends is; allocated on the selected device, which moves its pages.
  /// Throws workload::Skip where that device cannot share it, and for sizes that are no whole pages.
  SharedPages(const End& from, const End& to, std::size_t bytes, memory::BlockOptions options);

  std::byte* data() const noexcept { return block_.data(); }
  std::size_t size() const noexcept { return bytes_; }
  /// The end as the driver names places.
  device::Location place(const End& end) const;
  /// Brings all pages there, by whichever way is sure, and waits. Not for timing.
  void send_to(const End& end, device::Stream& stream);
  /// Share of the pages that are not in the host's page table; nullopt where that tells nothing (memory of both sides,
  /// emulated, pageable).
  std::optional<double> share_off_host() const;
  std::vector<std::string> disagreements() const { return block_.disagreements("the memory"); }

 private:
  bool managed() const noexcept { return block_.kind() == Kind::managed; }

  std::size_t bytes_;
  memory::BlockOptions options_;
  device::DeviceInfo info_;
  memory::Block block_;
  std::optional<Block> sum_;  // of what a GPU touches only to bring pageable memory there
};

}  // namespace isthmus::microbench::transfer
