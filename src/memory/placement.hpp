#pragma once

// Placements: where a buffer is and how it is copied between CPU and GPU (docs/placements.md). A placement is a
// run-time choice; a workload sees only host() and device() of each buffer.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/api/device.hpp"
#include "memory/kind.hpp"

namespace isthmus::memory {

/// Method of moving data to the other side.
enum class Travel {
  none,          ///< data does not move, or moves while the kernel runs: nothing is queued before or after it
  blocking,      ///< copies that return when they are done
  asynchronous,  ///< copies queued on a stream
  prefetch,      ///< explicit prefetch of managed pages
  host_access,   ///< reads of the results by the host; the system moves the pages (page faults)
};

class Backing;
struct BufferSpec;
struct PlacementOptions;

/// Row of the table of placements (docs/adding-a-placement.md).
struct PlacementFacts {
  std::string_view name;
  Kind host = Kind::pageable,
       device = Kind::device;  ///< kinds of memory that the host and kernels use; if they are equal, both use the same
                               ///< memory
  Travel in = Travel::blocking, out = Travel::blocking;
  bool advised = false;  ///< memory is advised: inputs as read-mostly; outputs to prefer the device and stay mapped
                         ///< there
  bool chunked = false;  ///< work is done chunk by chunk on several streams
  bool paged = false;    ///< kernels copy pages of the buffers that a body declares as paged; all other buffers are
                         ///< copied by the host
  /// Makes the backing of a buffer that is copied; if it is nullptr or returns nullptr, the backing is chosen by `host`
  /// and `device`.
  std::unique_ptr<Backing> (*back)(const PlacementFacts&, const BufferSpec&, const PlacementOptions&) = nullptr;

  /// Returns whether host and device memory are separate allocations with copies between them.
  bool two_memories() const noexcept { return host != device; }
  bool managed() const noexcept { return is_managed(host); }
  /// Returns whether the host memory comes from a call that allocates the memory of both sides (managed, unified): its
  /// time then counts as device allocation time.
  bool host_memory_is_devices() const noexcept { return facts(host).asks_device && !page_locked(host); }
};

/// Reference to a row of the table.
class Placement {
 public:
  explicit Placement(const PlacementFacts& row) noexcept : row_(&row) {}
  const PlacementFacts* operator->() const noexcept { return row_; }
  const PlacementFacts& operator*() const noexcept { return *row_; }
  bool operator==(const Placement&) const = default;

 private:
  const PlacementFacts* row_;
};

/// Registration of a row in addition to those of placement.cpp, for modules that define a Backing; use a static object.
struct PlacementRegistration {
  explicit PlacementRegistration(PlacementFacts row);
};

const std::vector<Placement>& all_placements();
/// Returns the placement of a simple program: malloc, device memory, blocking copies.
Placement plain_placement();
std::string_view name(Placement) noexcept;
/// Returns the placement with this name; nullopt if there is none, so that the caller can list the names.
std::optional<Placement> parse_placement(std::string_view);
/// Returns why this device does not support the placement, or nullopt.
std::optional<std::string> unsupported_reason(Placement, const device::DeviceInfo&);

/// Returns elements * size; throws std::length_error if the product exceeds the address space.
std::size_t byte_count(std::size_t elements, std::size_t size);

enum class Role {
  input,        ///< copied in
  output,       ///< copied out
  inout,        ///< copied in both directions
  partial,      ///< copied in either direction, in parts, when the workload requests it; not copied before or after the
                ///< kernel
  scratch,      ///< stays on the device, in separate memory in every placement; has no host memory
  host_source,  ///< stays on the host; parts are copied into scratch. Requires a placement with two memories
  host,         ///< stays on the host, in pageable memory in every placement; has no device memory
};

/// Rule for splitting a buffer when work is done chunk by chunk; the unit is one step of the workload's chunk
/// dimension.
struct Split {
  std::size_t unit_bytes = 0;  ///< 0: not split; the whole buffer is copied before the first chunk
  std::size_t halo = 0;        ///< number of additional input units that a chunk needs on either side
};

struct BufferSpec {
  std::string name;
  Role role = Role::input;
  std::size_t bytes = 0;
  Split split{};
  bool paged = false;  ///< copied page by page by kernels, if the placement supports that
};

struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Splits `units` into at most `chunks` ranges of nearly equal size; none is empty.
std::vector<Range> cut(std::size_t units, std::size_t chunks);

/// Options of a placement whose kernels copy pages.
struct PagingOptions {
  std::size_t page_bytes = std::size_t{64} << 10;
  std::size_t frames = 50;             ///< number of frames of each buffer, in percent of its pages
  std::string_view eviction = "fifo";  ///< this string and `transport` must outlive everything made with these options
  std::string_view transport = "pull";
  std::size_t queues = 0;  ///< number of blocks of a relay, or of request groups of a proxy; 0: the default number
};

struct PlacementOptions {
  int numa_node = -1;  ///< NUMA node of host memory; -1: that of the allocating thread
  int device = 0;
  PagingOptions paging{};
};

}  // namespace isthmus::memory
