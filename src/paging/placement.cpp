#include "paging/placement.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "memory/backing.hpp"
#include "memory/host_cache.hpp"
#include "memory/parallel.hpp"
#include "paging/pager.hpp"

namespace isthmus::paging {

namespace {

using memory::BufferSpec, memory::PlacementFacts, memory::PlacementOptions, memory::Role;

/// Buffer with its own frames: pages of one buffer never evict those of another.
class Paged final : public memory::Backing {
 public:
  Paged(const PlacementFacts& row, const BufferSpec& spec, const PlacementOptions& options)
      : Backing(row, spec, options), planned_(planned(spec, options.paging)), region_(planned_) {}

  bool apart() const noexcept override { return true; }
  bool copied() const noexcept override { return false; }
  const void* view() const noexcept override { return &region_; }
  Footprint footprint() const noexcept override {
    const std::size_t page = std::size_t{1} << planned_.page_shift, frames = planned_.frame_count;
    return {.host = spec_.bytes, .device = (frames + 1) * page + table_bytes_for(frames, pages())};
  }

  void allocate_host() override {
    block_ = memory::Block(row_.host, spec_.bytes, {.numa_node = options_.numa_node});
    host_ = block_.data();
  }
  void free_host() override {
    host_ = nullptr;
    block_.free();
  }
  void allocate_device(device::Stream&) override {}
  void prepare(device::Stream&) override {
    pager_.emplace(Options{.page_bytes = std::size_t{1} << planned_.page_shift,
                           .frames = planned_.frame_count,
                           .eviction = value_named(kEvictionNames, options_.paging.eviction),
                           .transport = value_named(kTransportNames, options_.paging.transport),
                           .queues = options_.paging.queues});
    // An output has no contents to fetch.
    region_ = pager_->open(block_, spec_.name, spec_.role == Role::output ? Contents::poison : Contents::fetched);
  }
  void stop() noexcept override {
    if (pager_) pager_->stop();
  }
  void free_device(device::Stream*) override {
    region_ = planned_;
    pager_.reset();
  }

  void copy_in(std::size_t, std::size_t, device::Stream&) override {}
  void copy_out(std::size_t, std::size_t, device::Stream& stream) override { pager_->flush(stream); }
  void reset(device::Stream& stream) override {
    pager_->clear(stream);
    pager_->serve();  // runs until check(); needed because a program's kernels are not launched by the pager
  }
  void reset_on_host() override {
    if (spec_.role == Role::output) memory::fill_host(host_, spec_.bytes, memory::kPoison);
  }
  bool flush_host_caches() const override { return memory::flush_host_caches(host_, spec_.bytes); }
  std::vector<std::string> disagreements() const override {
    return block_ ? block_.disagreements("the host memory of buffer " + spec_.name) : std::vector<std::string>{};
  }

  void check(device::Stream& stream) override { pager_->check(stream); }
  std::vector<Count> counts(device::Stream& stream) override {
    const auto found = pager_->statistics(stream);
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    const std::size_t in = spec_.role == Role::output ? 0 : spec_.bytes,
                      out = spec_.role == Role::input ? 0 : spec_.bytes;
    return {{"fetches", "1", number(found.faults)},
            {"fetched", "B", number(found.fetched_bytes), number(in)},
            {"served", "B", number(found.served_bytes)},
            {"evictions", "1", number(found.evictions)},
            {"written_back", "B", number(found.written_back_bytes), number(out)},
            {"waits", "1", number(found.waits)},
            {"table_bytes", "B", number(pager_->table_bytes())}};
  }

 private:
  static Region planned(const BufferSpec& spec, const memory::PagingOptions& options) {
    Region region{};
    region.bytes = spec.bytes;
    region.page_shift = static_cast<unsigned>(std::countr_zero(options.page_bytes));
    region.frame_count =
        static_cast<std::uint32_t>(frames_of(pages_of(spec.bytes, options.page_bytes), options.frames));
    return region;
  }
  std::size_t pages() const { return pages_of(spec_.bytes, std::size_t{1} << planned_.page_shift); }

  const Region planned_;  ///< region with sizes but without addresses
  Region region_;         ///< region with sizes, and with addresses while memory is allocated
  memory::Block block_;
  std::optional<Pager> pager_;
};

}  // namespace

memory::Placement placement() {
  static const memory::PlacementRegistration row(
      {.name = "paged",
       .host = memory::Kind::mapped,
       .device = memory::Kind::device,
       .in = memory::Travel::asynchronous,
       .out = memory::Travel::asynchronous,
       .paged = true,
       .back = [](const PlacementFacts& facts, const BufferSpec& spec,
                  const PlacementOptions& options) -> std::unique_ptr<memory::Backing> {
         if (!spec.paged) return nullptr;
         return std::make_unique<Paged>(facts, spec, options);
       }});
  return *memory::parse_placement("paged");
}

std::size_t pages_of(std::size_t bytes, std::size_t page_bytes) {
  return (bytes + page_bytes - 1) / page_bytes;
}

std::size_t frames_of(std::size_t pages, std::size_t percent) {
  const auto exact = (static_cast<unsigned __int128>(pages) * percent + 99) / 100;
  return std::clamp<std::size_t>(static_cast<std::size_t>(exact), 1, pages);
}

}  // namespace isthmus::paging
