#pragma once

// Ends of a transfer, and the initiator that moves the bytes. Their names are those on the command line and in records:
// transfer/<from>-<to>/<initiator>[-duplex].

#include <string>
#include <string_view>
#include <vector>

#include "memory/kind.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::transfer {

using memory::Kind;

/// Memory of one kind. Managed pages are on the host or, between two GPUs, on the GPU that is named.
struct End {
  Kind kind = Kind::pageable;
  int index = -1;  ///< GPU of device memory, -1 for all; NUMA node of pageable memory, -1 for the case's node

  bool operator==(const End&) const = default;
  bool on_gpu() const noexcept { return kind == Kind::device && index >= 0; }
  bool on_node() const noexcept { return kind == Kind::pageable && index >= 0; }
  /// Returns whether this is the end "all", which stands for every GPU (one to all, all to one, all to all) and has no
  /// memory.
  bool all_gpus() const noexcept { return kind == Kind::device && index < 0; }
  /// Returns a name such as "pinned", "gpu0", "node1" or "all".
  std::string name() const;
};

inline End gpu(int index) {
  return {Kind::device, index};
}

enum class Initiator {
  ce,              ///< asynchronous copy by a copy engine
  ce_nopeer,       ///< copy between two GPUs without peer access, through the host
  ce_batch,        ///< many copies in one call
  ce_strided,      ///< copy of the rows of a larger box (2D and 3D copies)
  pack,            ///< rows gathered by a kernel, copied, scattered by a kernel
  runtime,         ///< the runtime's copy between two host buffers
  cpu,             ///< memcpy by host threads
  sm_read,         ///< read by a kernel on the destination's GPU
  sm_write,        ///< write by a kernel on the source's GPU
  fault,           ///< page faults on pages that are elsewhere
  prefetch,        ///< explicit prefetch
  prefetch_batch,  ///< many ranges in one prefetch call
  discard,         ///< contents discarded, then prefetched: pages move without their bytes
  chase,           ///< one thread follows a chain: latency of one access
  fault_latency,   ///< one thread follows a chain of pages that are elsewhere: latency of one page fault
  small_copy,      ///< latency of one small copy, with and without its submission
};
std::string_view name(Initiator) noexcept;

/// Combination of source, destination, initiator and direction.
struct Path {
  End from, to;
  Initiator initiator = Initiator::ce;
  bool duplex = false;  ///< both directions at once

  /// Returns a name such as "pinned-gpu0/ce-duplex".
  std::string name() const;
  /// Returns the indices of the GPUs that take part, the source's first.
  std::vector<int> gpus(const workload::Machine& machine) const;
  /// Returns a description in words, for `list`.
  std::string summary() const;
};

/// Returns all paths of bandwidth workloads on a machine; latency_paths() returns those of latency workloads.
std::vector<Path> paths(const workload::Machine& machine);
std::vector<Path> latency_paths(const workload::Machine& machine);

/// Throws workload::Skip with the reason if this machine lacks a memory that the path names.
void require_ends(const Path& path);

}  // namespace isthmus::microbench::transfer
