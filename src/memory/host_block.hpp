#pragma once

// Host memory of one kind on one NUMA node, and whether it is what was asked for.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::memory {

/// malloc is told, once there is pageable memory of this kind, to take fresh pages from the system for blocks this
/// large.
inline constexpr int kFreshFromBytes = 64 * 1024;

enum class HostKind {
  pageable,        ///< malloc
  pinned,          ///< allocated page-locked
  registered,      ///< malloc, touched, then page-locked
  write_combined,  ///< allocated page-locked, not cached by the CPU, with an address for kernels
  mapped,          ///< allocated page-locked, with an address for kernels
};
std::string_view name(HostKind) noexcept;

enum class Pages {
  standard,  ///< as the system is set
  small,     ///< base pages only
  huge,      ///< transparent huge pages, where the system gives them
};

struct HostBlockOptions {
  int numa_node = -1;             ///< -1: where the touching thread runs
  Pages pages = Pages::standard;  ///< of pageable and registered memory; the runtime chooses for what it allocates
};

class HostBlock {
 public:
  HostBlock(HostKind kind, std::size_t bytes, HostBlockOptions options = {});
  ~HostBlock();  ///< never throws
  HostBlock(HostBlock&& other) noexcept;
  HostBlock& operator=(HostBlock&& other) noexcept;

  HostKind kind() const noexcept { return kind_; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  /// The address by which kernels reach it; pageable memory has its own (HMM, ATS, XNACK).
  std::byte* device_data() const;

  /// Writes one byte into every page (first touch on the chosen node).
  void touch();
  void free();

  /// What was asked, checked against what was given: kind to the driver, NUMA node of the pages, their size. Each
  /// string is one disagreement in a sentence, of which `what` is the subject. Call after touching.
  std::vector<std::string> disagreements(std::string_view what) const;
  /// Those that the kernel knows of (node and size of the pages): no driver is asked.
  std::vector<std::string> page_disagreements(std::string_view what) const;

 private:
  HostKind kind_;
  HostBlockOptions options_;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  bool registered_ = false;
};

/// Disagreement of the pages' NUMA node with `node`, as a sentence; nullopt where they agree or nobody can tell.
std::optional<std::string> node_disagreement(std::string_view what, const void* begin, std::size_t bytes, int node);

}  // namespace isthmus::memory
