// driver/alloc: what an allocator's call costs, and the call that takes the memory back. Nobody touches the memory, so
// what its first touch costs is in neither.

#include <optional>

#include "memory/host_block.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "microbench/driver/allocators.hpp"
#include "microbench/driver/calls.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace harness;

constexpr std::int64_t kKi = 1024, kMi = kKi * kKi;
/// A batch holds all its blocks at once: no more than this, or one block.
constexpr std::size_t kMostAtOnce = 64 * kMi;

/// Blocks of one allocator, given and taken back in rows.
class Blocks {
 public:
  Blocks(const Allocator& allocator, std::size_t bytes, int most, device::Stream& stream, int numa_node)
      : allocator_(allocator), bytes_(bytes), stream_(stream), slot_(whole_pages(bytes)) {
    live_.reserve(static_cast<std::size_t>(most));
    if (allocator.name != "registered") return;
    // It is there and touched before it is registered, and no two blocks share a page.
    host_.emplace(memory::HostKind::pageable, static_cast<std::size_t>(most) * slot_ + memory::page_bytes(),
                  memory::HostBlockOptions{.numa_node = numa_node});
    host_->touch();
    const auto address = reinterpret_cast<std::uintptr_t>(host_->data());
    first_ = host_->data() + (whole_pages(address) - address);
  }
  ~Blocks() {
    try {
      stream_.synchronize();
      release();
    } catch (const device::Error&) {  // the first failure is the one to report
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void allocate(int times) {
    for (int i = 0; i < times; ++i) {
      void* memory = first_ == nullptr ? nullptr : first_ + live_.size() * slot_;
      live_.push_back(allocator_.allocate(memory, bytes_, stream_));
    }
  }
  /// In the order in which they were given.
  void release() {
    for (; next_ < live_.size(); ++next_) allocator_.release(live_[next_], stream_);
    live_.clear();
    next_ = 0;
  }

 private:
  static std::size_t whole_pages(std::size_t bytes) {
    const std::size_t page = memory::page_bytes();
    return (bytes + page - 1) / page * page;
  }

  const Allocator& allocator_;
  std::size_t bytes_;
  device::Stream& stream_;
  std::size_t slot_;
  std::optional<memory::HostBlock> host_;
  std::byte* first_ = nullptr;
  std::vector<void*> live_;
  std::size_t next_ = 0;
};

/// A pool that keeps what it got for the life of a scope, as programs that use pools want it.
class KeepingPool {
 public:
  explicit KeepingPool(bool wanted) : wanted_(wanted) {
    if (wanted) device::set_pool_release_threshold(UINT64_MAX);
  }
  ~KeepingPool() {
    if (!wanted_) return;
    try {
      device::set_pool_release_threshold(0);
      device::synchronize();          // gives the memory back
    } catch (const device::Error&) {  // the first failure is the one to report
    }
  }
  KeepingPool(const KeepingPool&) = delete;
  KeepingPool& operator=(const KeepingPool&) = delete;

 private:
  bool wanted_;
};

void run(Case& c) {
  const Allocator& way = allocator(c.choice("allocator"));
  const std::size_t bytes = c.extent("bytes");
  if (!way.offered(c.device())) throw Skip("this device has no " + std::string(way.name) + " memory");
  const auto most =
      static_cast<int>(std::clamp<std::size_t>(kMostAtOnce / bytes, 1, static_cast<std::size_t>(c.largest_batch())));
  const std::size_t all = static_cast<std::size_t>(most) * bytes;
  c.needs(way.on_host ? all : 0, way.on_host ? 0 : all);

  const memory::ScopedThreadNode on_node(c.numa_node());
  device::Stream& stream = c.stream();
  const KeepingPool keeping(way.name == "pool");
  Blocks blocks(way, bytes, most, stream, c.numa_node());
  const auto both = [&](int times) {
    const double allocating = timed([&] { blocks.allocate(times); });
    stream.synchronize();
    const double releasing = timed([&] { blocks.release(); });
    stream.synchronize();
    return std::vector{allocating, releasing};
  };
  c.once(host_cost("first"), both(1)[0]);
  const int times = c.batch_for("clock", most, [&](int n) { return std::ranges::min(both(n)); });
  c.sample({host_cost("alloc"), host_cost("free")}, [&] {
    c.batch(times);
    auto seconds = both(times);
    for (auto& each : seconds) each /= times;
    return seconds;
  });
}

std::vector<AxisValue> names() {
  std::vector<AxisValue> list;
  for (const auto& each : allocators()) list.emplace_back(std::string(each.name));
  return list;
}

const Registration registration =
    workload("alloc", run, "calls that allocate memory and free it, by allocator and bytes", {"first", "alloc", "free"},
             1e-3)
        .unverified("the memory is given and taken back untouched")
        .axis({.name = "allocator",
               .help = "whose calls: registered locks memory that is there already",
               .default_value = "device",
               .allowed = names(),
               .usual = names()})
        .axis({.name = "bytes",
               .help = "bytes of one allocation",
               .default_value = kMi,
               .minimum = 1,
               .bytes = true,
               .usual = {4 * kKi, kMi, 64 * kMi}})
        .size("tiny", {{"bytes", 4 * kKi}})
        .size("small", {});

}  // namespace
}  // namespace isthmus::microbench::driver
