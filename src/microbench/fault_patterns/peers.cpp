// faults/peers: a GPU touches pages that are on another GPU, or both touch the same pages at once.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "device/api/peer_access.hpp"
#include "memory/parallel.hpp"
#include "microbench/axes.hpp"
#include "microbench/fault_patterns/shared_region.hpp"
#include "microbench/require.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::fault_patterns {

namespace {

using namespace workload;

int peer_of(const Case& c) {
  require_gpu(1);
  return (c.device().index + 1) % device::count();
}

/// GPU that touches pages, and the order of its touches, in its memory.
struct PageWorkers {
  PageWorkers(const device::DeviceInfo& info_, std::span<const std::uint32_t> order) : info(info_) {
    const device::Selected on(info.index);
    on_device.emplace(order, info);
  }
  ~PageWorkers() {
    const device::Selected on(info.index);
    on_device.reset();
  }
  PageWorkers(const PageWorkers&) = delete;
  PageWorkers& operator=(const PageWorkers&) = delete;

  device::DeviceInfo info;
  std::optional<OnDevice> on_device;
};

class Peers {
 public:
  explicit Peers(Case& c)
      : case_(c),
        peer_(peer_of(c)),
        both_(c.choice("touching") == "both"),
        passes_(c.extent("passes")),
        access_(c.choice("access") == "read" ? Access::read : Access::write),
        order_(every_page(c)),
        region_(memory::Kind::managed, memory::Pages::small, c.extent("bytes"), both_ ? 2 : 1, c.seed(),
                memory::host_threads(), c.numa_node()),
        prefetch_(c.choice(kDriverPrefetch)) {
    if (c.choice("peer_access") == "on") access_to_peer_.emplace(c.device().index, peer_);
    touchers_.push_back(std::make_unique<PageWorkers>(c.device(), order_));
    if (both_) touchers_.push_back(std::make_unique<PageWorkers>(device::info(peer_), order_));
    std::vector<Lane> lanes;
    for (unsigned i = 0; i < touchers_.size(); ++i)
      lanes.push_back({.device = touchers_[i]->info.index, .queue = [this, i](auto& stream) { queue(stream, i); }});
    lanes_.emplace(c, std::move(lanes));
  }
  ~Peers() { prefetch_.release(); }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void sample() {
    fault_patterns::sample(case_, account_, prefetch_,
                           {.timer = lanes_->timer(),
                            .touches = order_.size() * passes_,
                            .prepare = [this] { prepare(); },
                            .check = [this] { check(); },
                            .seconds = [this] { return touch(); }});
  }

 private:
  /// Allocates new pages, which the host writes and which then move to the peer.
  void prepare() {
    check();
    prefetch_.release();
    region_.renew();
    region_.write_by_host();
    {
      const device::Selected on(peer_);
      device::Stream stream;
      device::prefetch(region_.data(), region_.bytes(), device::Location::gpu(peer_), stream);
      stream.synchronize();
    }
    for (const auto& workers : touchers_) {
      const device::Selected on(workers->info.index);
      workers->on_device->poison();
    }
    prefetch_.set(region_.data(), region_.bytes());
  }

  double touch() {
    const auto taken = read(case_, *lanes_);
    touched_ = true;
    return taken.all;
  }

  /// Checks the results of the latest sample, unless they were checked already.
  void check() {
    if (!std::exchange(touched_, false)) return;
    prefetch_.release();  // otherwise the host would move the pages back one by one
    std::uint64_t sum = 0;
    for (const auto& workers : touchers_) {
      const device::Selected on(workers->info.index);
      sum += workers->on_device->sum();
    }
    account_.check(region_, access_, order_, sum);
  }

  void queue(device::Stream& stream, unsigned number) {
    const auto& [info, on_device] = *touchers_[number];
    for (std::size_t pass = 0; pass < passes_; ++pass)
      queue_touches(stream, access_,
                    {reinterpret_cast<std::uint64_t*>(region_.data()), on_device->order(), order_.size(), 1,
                     on_device->sums(), number},
                    info);
  }

  Case& case_;
  int peer_;
  bool both_;
  std::size_t passes_;
  Access access_;
  std::vector<std::uint32_t> order_;
  std::optional<device::PeerAccess> access_to_peer_;
  SharedRegion region_;
  DriverPrefetch prefetch_;
  std::vector<std::unique_ptr<PageWorkers>> touchers_;
  std::optional<Lanes> lanes_;
  Account account_;
  bool touched_ = false;
};

void run(Case& c) {
  const int peer = peer_of(c);
  const std::size_t bytes = c.extent("bytes"), extra = OnDevice::bytes(bytes / kPage, c.device());
  require_whole_blocks(bytes);
  require_driver_prefetch(c.choice(kDriverPrefetch), bytes);
  {
    const device::Selected on(peer);
    require_fitting(device::info(peer), bytes);
  }
  require_managed(c, bytes, extra);
  c.sampling().limit(10, 1);
  Peers(c).sample();
}

Workload workload() {
  Workload w("faults/peers", run);
  w.version(1)
      .summary("a GPU touches pages of the next GPU, or both touch the same pages at once")
      .source("uvm-batches-taco2024, between two GPUs")
      .tags({"faults", "peers"})
      .stagings({})
      .metrics({"time", "page_time"})
      .reported({kDriverPrefetchSetup})
      .estimate([](const CaseSpec& spec) {
        return 20e-6 * static_cast<double>(spec.integer("bytes") * spec.integer("passes")) / kPage;
      })
      .axis(bytes_axis("bytes", "managed bytes, a multiple of 2 MiB", 64 * kMi)
                .with_size_sweep(powers(2 * kMi, 32 * kGi)))
      .axis(choice_axis("touching", "who touches the pages: the GPU alone; or both, each its own word of every page",
                        {"one", "both"}))
      .axis(number_axis("passes", "consecutive kernels, each touching every page", 1).with_all_values(powers(1, 64)))
      .axis(order_axis())
      .axis(choice_axis("access", "what a thread does", {"read", "write"}))
      .axis(choice_axis("peer_access", "whether the program enables peer access between both GPUs", {"on", "off"}))
      .axis(driver_prefetch_axis());
  for (const auto& [size, value] : {std::pair{"tiny", 2 * kMi}, {"small", 64 * kMi}, {"medium", kGi}})
    w.size(size, {{"bytes", value}});
  return w;
}

const Registration registration(workload());

}  // namespace
}  // namespace isthmus::microbench::fault_patterns
