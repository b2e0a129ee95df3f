#pragma once

// Placements: where a buffer lives and how it travels between CPU and GPU (docs/placements.md).
// A placement is a run-time choice; a workload sees only host() and device() of each buffer.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/api/device.hpp"
#include "memory/kind.hpp"

namespace isthmus::memory {

/// How data gets to the other side.
enum class Travel {
  none,          ///< not at all, or while the kernel runs: nothing is queued before or after it
  blocking,      ///< copies that return when done
  asynchronous,  ///< copies queued on a stream
  prefetch,      ///< explicit prefetch of managed pages
  host_access,   ///< the host reads the results and the system moves them (page faults)
};

class Backing;
struct BufferSpec;
struct PlacementOptions;

/// A row of the table of placements (docs/adding-a-placement.md).
struct PlacementFacts {
  std::string_view name;
  Kind host = Kind::pageable,
       device = Kind::device;  ///< what the host sees and what kernels see; where both are the same, it is one memory
  Travel in = Travel::blocking, out = Travel::blocking;
  bool advised = false;  ///< inputs are read-mostly; outputs prefer the device, which keeps them mapped
  bool chunked = false;  ///< work goes chunk by chunk over several streams
  bool paged = false;    ///< kernels fetch the pages of what a body has paged by themselves; all else is copied
  /// Who makes the memory of a buffer that travels; nullptr, or what gives nullptr: whoever suits the kinds.
  std::unique_ptr<Backing> (*back)(const PlacementFacts&, const BufferSpec&, const PlacementOptions&) = nullptr;

  /// Host and device memory are two allocations, joined by copies.
  bool two_memories() const noexcept { return host != device; }
  bool managed() const noexcept { return is_managed(host); }
  /// Whether the memory of the host is given by a call that yields the memory of both sides (managed, unified): it then
  /// belongs to the device part of the allocation time.
  bool host_memory_is_devices() const noexcept { return facts(host).asks_device && !page_locked(host); }
};

/// A row of the table, by reference.
class Placement {
 public:
  explicit Placement(const PlacementFacts& row) noexcept : row_(&row) {}
  const PlacementFacts* operator->() const noexcept { return row_; }
  const PlacementFacts& operator*() const noexcept { return *row_; }
  bool operator==(const Placement&) const = default;

 private:
  const PlacementFacts* row_;
};

/// A row beside those of placement.cpp, for a room that brings its own Backing: a static object.
struct PlacementRegistration {
  explicit PlacementRegistration(PlacementFacts row);
};

const std::vector<Placement>& all_placements();
/// What a program does that knows nothing better: malloc, device memory, blocking copies.
Placement plain_placement();
std::string_view name(Placement) noexcept;
/// nullopt for a name that is none; the caller lists the names.
std::optional<Placement> parse_placement(std::string_view);
/// Why this device cannot do it, or nullopt.
std::optional<std::string> unsupported_reason(Placement, const device::DeviceInfo&);

/// elements * size, or std::length_error where that is more than an address can count.
std::size_t byte_count(std::size_t elements, std::size_t size);

enum class Role {
  input,      ///< travels in
  output,     ///< travels out
  inout,      ///< both ways
  on_demand,  ///< either way, a part at a time, when it is asked for: not before the work and not after it
  scratch,    ///< stays on the device, in memory of its own whatever the placement; the host has none of it
  source,     ///< stays on the host, which fills it, and parts of it are copied into scratch: of two memories only
  host,       ///< stays on the host, in pageable memory whatever the placement; the device has none of it
};

/// How a buffer is cut when work goes chunk by chunk; the unit is one step of the workload's chunk dimension.
struct Split {
  std::size_t unit_bytes = 0;  ///< 0: not cut; the whole buffer is in place before the first chunk
  std::size_t halo = 0;        ///< input units needed on either side of a chunk
};

struct BufferSpec {
  std::string name;
  Role role = Role::input;
  std::size_t bytes = 0;
  Split split{};
  bool paged = false;  ///< by its kernels, where the placement is for that
};

struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// `units` cut into at most `chunks` ranges of nearly equal size, none of them empty.
std::vector<Range> cut(std::size_t units, std::size_t chunks);

/// Of a placement whose kernels fetch pages.
struct PagingOptions {
  std::size_t page_bytes = std::size_t{64} << 10;
  std::size_t frames = 50;             ///< of each buffer, in percent of its pages
  std::string_view eviction = "fifo";  ///< lasts as long as what is made by it, like the next
  std::string_view transport = "pull";
  std::size_t queues = 0;  ///< of a relay blocks, of a proxy groups of requests; 0: as many as is usual
};

struct PlacementOptions {
  int numa_node = -1;  ///< of host memory; -1: where the allocating thread runs
  int device = 0;
  PagingOptions paging{};
};

}  // namespace isthmus::memory
