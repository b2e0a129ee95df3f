#pragma once

// The two ends of a transfer and what moves the bytes, by the names that the command line and the records use:
// transfer/<from>-<to>/<initiator>[-duplex].

#include <string>
#include <string_view>
#include <vector>

#include "memory/kind.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

using memory::Kind;

/// Memory of a kind. Managed pages lie on the host or, between two GPUs, on the one that the name says.
struct End {
  Kind kind = Kind::pageable;
  int index = -1;  ///< the GPU of device memory, -1: every one; of pageable memory its NUMA node, -1: as the case says

  bool operator==(const End&) const = default;
  bool on_gpu() const noexcept { return kind == Kind::device && index >= 0; }
  bool on_node() const noexcept { return kind == Kind::pageable && index >= 0; }
  /// One to all, all to one, all to all; it has no memory of its own.
  bool all_gpus() const noexcept { return kind == Kind::device && index < 0; }
  /// "pinned", "gpu0", "node1", "all".
  std::string name() const;
};

inline End gpu(int index) {
  return {Kind::device, index};
}

enum class Initiator {
  ce,              ///< copy engine: asynchronous copy
  ce_nopeer,       ///< the same between two GPUs whose peer access is off: through the host
  ce_batch,        ///< many copies in one call
  ce_strided,      ///< rows of a larger box (2D and 3D copies)
  pack,            ///< rows gathered by a kernel, copied, scattered by a kernel
  runtime,         ///< the runtime's copy between two host buffers
  cpu,             ///< memcpy by threads of the host
  sm_read,         ///< kernel on the GPU at the far end reads
  sm_write,        ///< kernel on the GPU at the near end writes
  fault,           ///< touching pages that lie elsewhere
  prefetch,        ///< explicit prefetch
  prefetch_batch,  ///< many ranges in one prefetch call
  discard,         ///< contents given up, then prefetched: pages come without their bytes
  chase,           ///< one thread follows a chain: latency of one access
  fault_latency,   ///< one thread follows a chain of pages that lie elsewhere: latency of one page fault
  small_copy,      ///< latency of one small copy, with its submission and without
};
std::string_view name(Initiator) noexcept;

/// One point of source × destination × initiator × direction.
struct Path {
  End from, to;
  Initiator initiator = Initiator::ce;
  bool duplex = false;  ///< both ways at once

  /// "pinned-gpu0/ce-duplex".
  std::string name() const;
  /// Indices of those that take part, the source's first.
  std::vector<int> gpus(const workload::Machine& machine) const;
  /// In words, for `list`.
  std::string summary() const;
};

/// Everything that can be named on a machine: bandwidth, and latency apart from it.
std::vector<Path> paths(const workload::Machine& machine);
std::vector<Path> latency_paths(const workload::Machine& machine);

/// Throws workload::Skip with the reason where a memory that the name speaks of is not there.
void need_ends(const Path& path);

}  // namespace isthmus::microbench::transfer
