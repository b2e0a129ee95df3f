#pragma once

// Block of owned memory of one kind, with a check that it is what was requested.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/kind.hpp"

namespace isthmus::memory {

/// Size in bytes from which malloc gets fresh pages from the system; set in malloc when the first pageable memory is
/// allocated.
inline constexpr int kFreshFromBytes = 64 * 1024;

enum class Pages {
  standard,  ///< the system's setting
  small,     ///< base pages only
  huge,      ///< transparent huge pages, if the system provides them
};

struct BlockOptions {
  int numa_node = -1;                ///< NUMA node of host memory; -1: that of the thread that touches it
  Pages pages = Pages::standard;     ///< page size of pageable and registered memory; for other kinds the runtime
                                     ///< chooses it
  device::Stream* stream = nullptr;  ///< stream on which pooled memory is allocated; nullptr: a stream of the block
};

/// Owned memory that has not been touched, with two exceptions: registered memory is touched before it is page-locked,
/// and a driver may touch memory that it locks.
class Block {
 public:
  Block() = default;  ///< empty
  /// Allocates on the currently selected device. Throws device::Error.
  Block(Kind kind, std::size_t bytes, BlockOptions options = {});
  ~Block();  ///< never throws
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  Kind kind() const noexcept { return kind_; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }  ///< owning device, for device memory
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Returns the address that kernels use; for pageable memory it is the host's address (HMM, ATS, XNACK). Throws
  /// device::Error (unsupported) for pinned memory that the driver has not mapped.
  std::byte* device_data() const;

  /// Writes one byte into every page from the CPU (first touch on the chosen node); not for device memory.
  void touch();
  /// Frees the memory. Pooled memory is freed on the stream that it was allocated with, which must still exist, or on
  /// `stream`.
  void free(device::Stream* stream = nullptr);

  /// Compares what was requested with what was allocated: kind and device according to the driver, NUMA node and page
  /// size. Each string is a sentence about one difference; its subject is `what`. Call after touching.
  std::vector<std::string> disagreements(std::string_view what) const;
  /// Returns only the differences in NUMA node and page size, which the kernel reports, without querying a driver.
  std::vector<std::string> page_disagreements(std::string_view what) const;

 private:
  Kind kind_ = Kind::pageable;
  BlockOptions options_;
  std::size_t bytes_ = 0;
  int device_ = -1;
  std::byte* data_ = nullptr;
  std::optional<device::Stream> own_stream_;  ///< stream for pooled memory if none was passed
};

/// Returns a sentence if the pages are not on NUMA node `node`; nullopt if they are, or if their node is unknown.
std::optional<std::string> node_disagreement(std::string_view what, const void* begin, std::size_t bytes, int node);

}  // namespace isthmus::memory
