#pragma once

// Host side of paging: host memory that is larger than the frames on the GPU and is fetched page by page by the kernels
// that need it. docs/decisions/0011-paging.md explains the protocol.
//
//   memory::Block edges(memory::Kind::mapped, bytes);
//   paging::Pager pager({.page_bytes = 64 << 10, .frames = 4096});
//   const paging::Region region = pager.open(edges, "edges");
//   pager.launch(stream, ISTHMUS_KERNEL(sum), {.grid = 132, .block = 256}, {.pages = 1}, Array<float>(region), …);
//
//   pager.flush(stream);  // copies written pages to the host
//
//   pager.check(stream);  // waits; throws if a kernel gave up a wait

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "device/api/peer_access.hpp"
#include "device/kernel/launch.hpp"
#include "memory/block.hpp"
#include "paging/server.hpp"
#include "paging/table.hpp"

namespace isthmus::paging {

inline constexpr std::size_t kLeastPage = std::size_t{4} << 10, kMostPage = std::size_t{2} << 20;
inline constexpr std::size_t kMostQueues = 1024;

/// Agent that transfers pages.
enum class Transport : unsigned {
  pull,            ///< the warp that needs the page
  relay,           ///< a second GPU, over its own link and the link between the GPUs
  pull_and_relay,  ///< the warp, or the relay if too many warps are fetching already
  proxy,           ///< a thread of the host, with the device's copy engines
};

struct Options {
  std::size_t page_bytes = std::size_t{64} << 10;  ///< a power of two from 4 KiB to 2 MiB
  std::size_t frames = 0;                          ///< number of pages that fit into device memory at the same time
  Eviction eviction = Eviction::fifo;
  /// Distance from the eviction's hand, in frames, at which dirty pages are written back by a warp that has just
  /// fetched a page; 0: pages are written back only when their frame is needed.
  std::uint32_t clean_ahead = 0;
  double deadline = 10;  ///< seconds after which a kernel gives up waiting
  Transport transport = Transport::pull;
  int relay_device = -1;   ///< index of the second GPU; -1: the GPU after the selected one
  std::size_t queues = 0;  ///< number of blocks of a relay, or of request groups of a proxy; 0: up to 256, or 4
  std::size_t depth = 16;  ///< number of pages in flight in each queue: at most 32 for a relay, 4096 for a proxy
  std::size_t pulls = 0;   ///< maximum number of pages that warps fetch themselves at the same time, for
                           ///< `pull_and_relay`; 0: 256
};

/// Counts since the pager was made or last cleared with clear(). Prefetched pages are included.
struct Statistics {
  std::uint64_t faults = 0, fetched_bytes = 0;  ///< number of pages fetched, and their bytes
  std::uint64_t evictions = 0;                  ///< number of pages evicted
  std::uint64_t written_back_bytes = 0;
  std::uint64_t waits = 0;         ///< number of times a warp waited for another warp's work on a page
  std::uint64_t rescued = 0;       ///< number of pages that were needed again while they were written back for eviction
  std::uint64_t served_bytes = 0;  ///< part of fetched_bytes that a relay or a proxy copied
};

/// Maximum number of pages that a kernel pins at the same time.
struct Holds {
  unsigned pages = 1;  ///< number of pages per warp or per lane
  enum class By { warp, lane } by = By::warp;
};

/// Returns the bytes of device memory for this many frames and pages, not counting the frames themselves.
std::size_t table_bytes_for(std::size_t frames, std::size_t pages) noexcept;

/// Frames on the device that was selected at construction, for any number of regions. Kernels that use a pager must run
/// one after the other. Not thread-safe.
class Pager {
 public:
  /// Makes a pager. Throws std::invalid_argument for invalid options, device::Error if there is not enough memory.
  explicit Pager(const Options& options);
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  /// Pages the whole block from now on, as long as the pager exists. The host may read the block only after flush() and
  /// check(), and write it only after clear() and check(), because pages stay in their frames until then. Regions must
  /// not overlap. The block may be another device's memory. Throws device::Error if kernels cannot access the block in
  /// place.
  Region open(const memory::Block& block, std::string name, Contents contents = Contents::fetched);
  /// Pages memory that the caller has registered (device::register_host), which is passed by its host address.
  Region open(void* memory, std::size_t bytes, std::string name, Contents contents = Contents::fetched);
  /// Returns the region for use in a ReadOnlyArray. Throws device::Error unless there are as many frames as pages in
  /// all regions.
  ReadOnlyRegion read_only(const Region& region);

  /// Launches a kernel that uses regions. Throws device::Error if the kernel's resident warps could pin all frames
  /// while another is requested (deadlock).
  template <class... P, class... A>
  void launch(device::Stream& stream, device::Kernel<P...> kernel, const device::LaunchShape& shape, const Holds& holds,
              A&&... arguments) {
    require_frames(device::kernel_info(kernel, shape), shape, holds);
    serve();
    device::launch(stream, kernel, shape, std::forward<A>(arguments)...);
  }

  /// Starts the relay or the proxy, which runs until the next check(), statistics() or references(). launch() and
  /// prefetch() call this themselves.
  void serve();
  /// Stops the relay or the proxy immediately: a kernel that still requests pages waits until its deadline.
  void stop() noexcept;
  /// Queues fetches of all pages that contain these bytes.
  void prefetch(device::Stream& stream, const Region& region, std::size_t offset, std::size_t bytes);
  /// Queues writing back all dirty pages that are not pinned; they stay in their frames. After a failure no pages are
  /// written back.
  void flush(device::Stream& stream);
  /// Queues a flush, then removes all pages from their frames and resets the statistics to 0.
  void clear(device::Stream& stream);
  /// Waits for the stream. Throws device::Error (timeout) with the page and its state if a kernel gave up waiting; host
  /// memory that kernels have written since the last flush is then undefined.
  void check(device::Stream& stream);

  // Results of finished kernels; each function waits for the stream.
  Statistics statistics(device::Stream& stream);
  /// Returns the number of references that were never dropped; 0 if all kernels are correct.
  std::uint64_t references(device::Stream& stream);

  std::size_t frames() const noexcept { return options_.frames; }
  std::size_t page_bytes() const noexcept { return options_.page_bytes; }
  /// Returns the bytes of device memory in use, not counting the frames.
  std::size_t table_bytes() const noexcept;

 private:
  struct Opened {
    std::unique_ptr<device::PeerAccess> access;  ///< access to the device that owns the memory
    std::string name;
    Region region;
    memory::Block states;
    std::size_t pages;
  };
  Region open_at(std::byte* device_address, std::size_t bytes, std::string name, Contents contents,
                 std::unique_ptr<device::PeerAccess> access = nullptr);
  void wait_for(device::Stream& stream);
  void require_frames(const device::KernelInfo& info, const device::LaunchShape& shape, const Holds& holds) const;
  void forget(device::Stream& stream);
  device::LaunchShape shape_for(std::size_t pages) const;
  std::size_t pages() const;
  std::string described(const Failure& failure) const;

  Options options_;
  int device_;
  device::DeviceInfo info_;
  device::Stream setup_;
  memory::Block frames_, table_, owners_, homes_, counts_;
  bool never_evicts_ = false;  ///< a read-only region relies on pages not being evicted
  std::deque<Opened> opened_;
  std::unique_ptr<Server> server_;
};

}  // namespace isthmus::paging
