#pragma once

// Memory of one kind, owned, and whether it is what was asked for.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/kind.hpp"

namespace isthmus::memory {

/// malloc is told, once there is pageable memory of this room, to take fresh pages from the system for blocks this
/// large.
inline constexpr int kFreshFromBytes = 64 * 1024;

enum class Pages {
  standard,  ///< as the system is set
  small,     ///< base pages only
  huge,      ///< transparent huge pages, where the system gives them
};

struct BlockOptions {
  int numa_node = -1;             ///< of host memory; -1: where the touching thread runs
  Pages pages = Pages::standard;  ///< of pageable and registered memory; the runtime chooses for what it allocates
  device::Stream* stream =
      nullptr;  ///< of pooled memory, which is there for what is queued on it; none: one of its own
};

/// Nobody has touched it, but that registered memory was touched before it was page-locked and a driver may touch what
/// it locks.
class Block {
 public:
  Block() = default;  ///< nothing
  /// Of the device that is selected now. Throws device::Error.
  Block(Kind kind, std::size_t bytes, BlockOptions options = {});
  ~Block();  ///< never throws
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  Kind kind() const noexcept { return kind_; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }  ///< whose it is, where it is a device's memory
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// The address by which kernels reach it; pageable memory has its own (HMM, ATS, XNACK). Throws device::Error,
  /// unsupported, for pinned memory that the driver has not mapped.
  std::byte* device_data() const;

  /// Writes one byte into every page, by the CPU (first touch on the chosen node); not for device memory.
  void touch();
  /// Pooled memory of a stream that was given is freed there, so the stream must be there yet, or on `stream`.
  void free(device::Stream* stream = nullptr);

  /// What was asked, checked against what was given: kind and device to the driver, NUMA node of the pages, their size.
  /// Each string is one disagreement in a sentence, of which `what` is the subject. Call after touching.
  std::vector<std::string> disagreements(std::string_view what) const;
  /// Those that the kernel knows of (node and size of the pages): no driver is asked.
  std::vector<std::string> page_disagreements(std::string_view what) const;

 private:
  Kind kind_ = Kind::pageable;
  BlockOptions options_;
  std::size_t bytes_ = 0;
  int device_ = -1;
  std::byte* data_ = nullptr;
  std::optional<device::Stream> own_stream_;  ///< of pooled memory
};

/// Disagreement of the pages' NUMA node with `node`, as a sentence; nullopt where they agree or it is unknown.
std::optional<std::string> node_disagreement(std::string_view what, const void* begin, std::size_t bytes, int node);

}  // namespace isthmus::memory
