#pragma once

// Host side of paging: memory of the host that is larger than the GPU's share of it, fetched page by page by the
// kernels that need it. docs/decisions/0011-paging.md has the protocol.
//
//   memory::Block edges(memory::Kind::mapped, bytes);
//   paging::Pager pager({.page_bytes = 64 << 10, .frames = 4096});
//   const paging::Region region = pager.open(edges, "edges");
//   pager.launch(stream, ISTHMUS_KERNEL(sum), {.grid = 132, .block = 256}, {.pages = 1}, Array<float>(region), …);
//
//   pager.flush(stream);  // what was written reaches the host
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

/// Who brings a page.
enum class Transport : unsigned {
  pull,            ///< the warp that wants it
  relay,           ///< a second GPU, over a link of its own and the one between the GPUs
  pull_and_relay,  ///< the warp while not too many do, else the relay
  proxy,           ///< a thread of the host, with the device's copy engines
};

struct Options {
  std::size_t page_bytes = std::size_t{64} << 10;  ///< a power of two from 4 KiB to 2 MiB
  std::size_t frames = 0;                          ///< pages that the device's memory holds at once
  Eviction eviction = Eviction::fifo;
  /// Dirty pages are written back when the eviction's hand is so many frames before them, by a warp that has just
  /// fetched a page; 0: when their frame is wanted.
  std::uint32_t clean_ahead = 0;
  double deadline = 10;  ///< seconds after which a kernel gives up a wait
  Transport transport = Transport::pull;
  int relay_device = -1;   ///< the second GPU; -1: the one after the selected
  std::size_t queues = 0;  ///< of a relay blocks, of a proxy groups of requests; 0: up to 256, 4
  std::size_t depth = 16;  ///< pages on the way in each: at most 32 of a relay, 4096 of a proxy
  std::size_t pulls = 0;   ///< of pull_and_relay: pages that warps fetch themselves at once; 0: 256
};

/// Since the pager was made, or since clear(). Prefetched pages count as others do.
struct Statistics {
  std::uint64_t faults = 0, fetched_bytes = 0;  ///< pages that came
  std::uint64_t evictions = 0;                  ///< pages that had to go
  std::uint64_t written_back_bytes = 0;
  std::uint64_t waits = 0;         ///< times that a page was in another warp's hands
  std::uint64_t rescued = 0;       ///< victims that were wanted again while they were written back
  std::uint64_t served_bytes = 0;  ///< of those fetched, by a relay or a proxy
};

/// The most that a kernel holds at once.
struct Holds {
  unsigned pages = 1;  ///< of one warp, or of each lane
  enum class By { warp, lane } by = By::warp;
};

/// Device memory of so many frames and pages, beside the frames.
std::size_t table_bytes_for(std::size_t frames, std::size_t pages) noexcept;

/// Frames of the device that was selected when it was made, for any number of regions. Kernels that use it run one
/// after the other. Not for several threads at once.
class Pager {
 public:
  /// Throws std::invalid_argument for options that cannot be, device::Error where there is no memory.
  explicit Pager(const Options& options);
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;

  /// All of the block is paged from now on, until the pager goes. The host reads it after flush() and check() only, and
  /// writes it after clear() and check() only: pages stay in their frames until then. Regions do not overlap. The block
  /// may be another device's memory. Throws device::Error where kernels cannot reach it in place.
  Region open(const memory::Block& block, std::string name, Contents contents = Contents::fetched);
  /// The same for memory that was registered by others (device::register_host), by its host address.
  Region open(void* memory, std::size_t bytes, std::string name, Contents contents = Contents::fetched);
  /// For ReadOnlyArray. Throws device::Error unless there is a frame for every page of all regions.
  ReadOnlyRegion read_only(const Region& region);

  /// Launches a kernel that is given regions. Throws device::Error where its resident warps could hold all frames and
  /// want one more, which nobody would ever give back.
  template <class... P, class... A>
  void launch(device::Stream& stream, device::Kernel<P...> kernel, const device::LaunchShape& shape, const Holds& holds,
              A&&... arguments) {
    need_frames(device::kernel_info(kernel, shape), shape, holds);
    serve();
    device::launch(stream, kernel, shape, std::forward<A>(arguments)...);
  }

  /// Lets the relay or the proxy work until the next check(), statistics() or references(). launch() and prefetch() do
  /// that by themselves.
  void serve();
  /// Ends that at once: a kernel that still asks waits until its deadline.
  void stop() noexcept;
  /// Queues the fetching of all pages of these bytes.
  void prefetch(device::Stream& stream, const Region& region, std::size_t offset, std::size_t bytes);
  /// Queues the writing back of all dirty pages that nobody holds. They stay. After a failure nothing is written.
  void flush(device::Stream& stream);
  /// Queues a flush, after which no page is there and the statistics begin anew.
  void clear(device::Stream& stream);
  /// Waits for the stream. Throws device::Error, timeout, with the page and its state where a wait was given up; what
  /// the host's memory has of what kernels wrote since the last flush is then undefined.
  void check(device::Stream& stream);

  // Each waits for the stream.
  Statistics statistics(device::Stream& stream);
  /// References that were never given back: 0 unless a kernel is wrong.
  std::uint64_t references(device::Stream& stream);

  std::size_t frames() const noexcept { return options_.frames; }
  std::size_t page_bytes() const noexcept { return options_.page_bytes; }
  /// Of device memory, beside the frames.
  std::size_t table_bytes() const noexcept;

 private:
  struct Opened {
    std::unique_ptr<device::PeerAccess> access;  ///< to the device whose memory it is
    std::string name;
    Region region;
    memory::Block states;
    std::size_t pages;
  };
  Region open_at(std::byte* device_address, std::size_t bytes, std::string name, Contents contents,
                 std::unique_ptr<device::PeerAccess> access = nullptr);
  void wait_for(device::Stream& stream);
  void need_frames(const device::KernelInfo& info, const device::LaunchShape& shape, const Holds& holds) const;
  void forget(device::Stream& stream);
  device::LaunchShape shape_for(std::size_t pages) const;
  std::size_t pages() const;
  std::string described(const Failure& failure) const;

  Options options_;
  int device_;
  device::DeviceInfo info_;
  device::Stream setup_;
  memory::Block frames_, table_, owners_, homes_, counts_;
  bool never_evicts_ = false;  ///< somebody was promised it
  std::deque<Opened> opened_;
  std::unique_ptr<Server> server_;
};

}  // namespace isthmus::paging
