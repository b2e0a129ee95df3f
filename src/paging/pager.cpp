#include "paging/pager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/api/ignoring_errors.hpp"
#include "paging/kernels.hpp"

namespace isthmus::paging {

namespace {

/// Ratio of all frames to the frames for newcomers.
constexpr std::size_t kNewcomers = 16;

const Options& checked(const Options& options) {
  if (!std::has_single_bit(options.page_bytes) || options.page_bytes < kLeastPage || options.page_bytes > kMostPage)
    throw std::invalid_argument(fmt::format("page_bytes={} is out of range: choose a power of two from {} to {}",
                                            options.page_bytes, kLeastPage, kMostPage));
  if (options.frames == 0 || options.frames >= kMostFrames)
    throw std::invalid_argument(
        fmt::format("frames={} is out of range: choose 1 to {}", options.frames, kMostFrames - 1));
  if (!(options.deadline > 0))
    throw std::invalid_argument(
        fmt::format("deadline={} is out of range: choose more than 0 seconds", options.deadline));
  // A block of a relay has one warp for each page in flight, and at most 32 warps.
  const std::size_t most = options.transport == Transport::proxy ? 4096 : 32;
  if (options.depth == 0 || options.depth > most)
    throw std::invalid_argument(fmt::format("depth={} is out of range: choose 1 to {}", options.depth, most));
  if (options.queues > kMostQueues)
    throw std::invalid_argument(
        fmt::format("queues={} is out of range: choose 1 to {}, or 0 for the default", options.queues, kMostQueues));
  if (options.pulls >= kMostFrames)
    throw std::invalid_argument(
        fmt::format("pulls={} is out of range: choose 1 to {}, or 0 for the default", options.pulls, kMostFrames - 1));
  return options;
}

memory::Block on_device(std::size_t bytes) {
  return {memory::Kind::device, bytes};
}

/// Counters, the order of frames, and the failure, which are read together. Only check() clears the failure.
struct Counts {
  State counters[kCounters];
  unsigned filled;
  unsigned hands[2];
  Failure failure;
};

std::string words(State state) {
  return fmt::format("{}, {}, {}, {} references{}", valid(state) ? "valid" : "not valid",
                     busy(state) ? "busy" : "not busy", dirty(state) ? "dirty" : "clean", references(state),
                     valid(state) ? fmt::format(", frame {}", frame(state)) : "");
}

}  // namespace

std::size_t table_bytes_for(std::size_t frames, std::size_t pages) noexcept {
  return sizeof(Table) + sizeof(Counts) + frames * (sizeof(State) + sizeof(Home)) + pages * sizeof(State);
}

Pager::Pager(const Options& options)
    : options_(checked(options)),
      device_(device::selected()),
      info_(device::info(device_)),
      frames_(on_device((options.frames + 1) * options.page_bytes)),
      table_(on_device(sizeof(Table))),
      owners_(on_device(options.frames * sizeof(State))),
      homes_(on_device(options.frames * sizeof(Home))),
      counts_(on_device(sizeof(Counts))),
      server_(server_for(options_)) {
  auto* counts = reinterpret_cast<Counts*>(counts_.data());
  Table table{};
  table.owners = reinterpret_cast<State*>(owners_.data());
  table.homes = reinterpret_cast<Home*>(homes_.data());
  table.filled = &counts->filled;
  table.hands = counts->hands;
  table.counters = counts->counters;
  table.failure = &counts->failure;
  table.frames = frames_.data();
  table.frame_count = static_cast<std::uint32_t>(options_.frames);
  table.protected_count =
      static_cast<std::uint32_t>(options_.frames - std::max<std::size_t>(options_.frames / kNewcomers, 1));
  table.page_shift = static_cast<unsigned>(std::countr_zero(options_.page_bytes));
  table.eviction = options_.eviction;
  table.clean_ahead = options_.clean_ahead;
  table.deadline = options_.deadline;
  if (server_) table.channel = server_->channel();
  device::copy(table_.data(), &table, sizeof table);
  forget(setup_);
  device::fill_async(counts_.data(), 0, counts_.size(), setup_);
  setup_.synchronize();
}

std::size_t Pager::pages() const {
  return std::accumulate(opened_.begin(), opened_.end(), std::size_t{0},
                         [](std::size_t sum, const Opened& one) { return sum + one.pages; });
}

std::size_t Pager::table_bytes() const noexcept {
  return table_bytes_for(options_.frames, pages());
}

Region Pager::open(const memory::Block& block, std::string name, Contents contents) {
  if (block.kind() == memory::Kind::device && block.device() != device_)
    return open_at(block.data(), block.size(), std::move(name), contents,
                   std::make_unique<device::PeerAccess>(device_, block.device()));
  if (!memory::page_locked(block.kind()))
    throw device::Error(
        device::ErrorKind::failure, "Pager::open", fmt::format("'{}' is {} memory", name, memory::name(block.kind())),
        "page memory that is page-locked (mapped, pinned, registered or write_combined) or another device's");
  return open_at(block.device_data(), block.size(), std::move(name), contents);
}

Region Pager::open(void* memory, std::size_t bytes, std::string name, Contents contents) {
  return open_at(static_cast<std::byte*>(device::device_address(memory)), bytes, std::move(name), contents);
}

Region Pager::open_at(std::byte* device_address, std::size_t bytes, std::string name, Contents contents,
                      std::unique_ptr<device::PeerAccess> access) {
  const device::Selected on(device_);
  if (reinterpret_cast<std::uintptr_t>(device_address) % 16 != 0 || bytes == 0)
    throw device::Error(device::ErrorKind::failure, "Pager::open",
                        fmt::format("'{}' has {} bytes at {}", name, bytes, static_cast<void*>(device_address)),
                        "page memory that is not empty and begins at a multiple of 16 bytes");
  for (const auto& one : opened_) {
    if (device_address >= one.region.memory + one.region.bytes || one.region.memory >= device_address + bytes) continue;
    throw device::Error(device::ErrorKind::failure, "Pager::open", fmt::format("'{}' and '{}' overlap", name, one.name),
                        "page each byte once, because two pages would have separate copies of it");
  }
  const std::size_t count = (bytes + options_.page_bytes - 1) / options_.page_bytes;
  if (never_evicts_ && pages() + count > options_.frames)
    throw device::Error(device::ErrorKind::failure, "Pager::open",
                        fmt::format("the {} pages of '{}' and the {} of other regions exceed the {} frames, but a "
                                    "region of this pager is read-only",
                                    count, name, pages(), options_.frames),
                        "open it first, give the pager more frames, or read all regions with counts");
  memory::Block states = on_device(count * sizeof(State));
  device::fill_async(states.data(), 0, states.size(), setup_);
  setup_.synchronize();
  const Region region{reinterpret_cast<const Table*>(table_.data()),
                      reinterpret_cast<State*>(states.data()),
                      device_address,
                      frames_.data(),
                      bytes,
                      static_cast<std::uint32_t>(options_.frames),
                      static_cast<unsigned>(std::countr_zero(options_.page_bytes)),
                      options_.eviction != Eviction::fifo,
                      contents == Contents::poison};
  opened_.push_back({std::move(access), std::move(name), region, std::move(states), count});
  return region;
}

ReadOnlyRegion Pager::read_only(const Region& region) {
  if (pages() > options_.frames)
    throw device::Error(device::ErrorKind::failure, "Pager::read_only",
                        fmt::format("{} pages exceed {} frames, so pages would be evicted while they are read", pages(),
                                    options_.frames),
                        "give the pager more frames, or use an Array, which counts references");
  never_evicts_ = true;
  return {region};
}

void Pager::require_frames(const device::KernelInfo& info, const device::LaunchShape& shape, const Holds& holds) const {
  const auto warp = static_cast<std::uint64_t>(info_.warp_size);
  const std::uint64_t threads = shape.block.size(), warps = (threads + warp - 1) / warp;
  const auto a_multiprocessor = static_cast<std::uint64_t>(info.blocks_per_multiprocessor.value_or(
      std::max(info_.max_threads_per_multiprocessor / static_cast<int>(warps * warp), 1)));
  const std::uint64_t blocks =
      std::min(shape.grid.size(), a_multiprocessor * static_cast<std::uint64_t>(info_.multiprocessors));
  const bool lanes = holds.by == Holds::By::lane;
  const std::uint64_t holders = blocks * (lanes ? threads : warps), held = holders * holds.pages;
  if (held > kMostReferences)  // all references may be to the same page
    throw device::Error(device::ErrorKind::failure, "Pager::launch",
                        fmt::format("{} may pin {} pages at once, but a page counts at most {} references", info.name,
                                    held, kMostReferences),
                        "launch fewer or smaller blocks, or pin fewer pages");
  if (held <= options_.frames) return;
  const auto arithmetic = fmt::format("{} resident blocks × {} {} × {} pages = {}", blocks, lanes ? threads : warps,
                                      lanes ? "lanes" : "warps", holds.pages, held);
  throw device::Error(
      device::ErrorKind::failure, "Pager::launch",
      fmt::format("{} may pin {} pages at once, but there are {} frames, so it can deadlock: every frame can be pinned "
                  "while one more is requested",
                  info.name, arithmetic, options_.frames),
      fmt::format("give the pager {} frames, launch fewer or smaller blocks, or pin fewer pages", held));
}

device::LaunchShape Pager::shape_for(std::size_t pages) const {
  // Each warp pins one page, so there are at most as many warps as pages and as frames.
  const auto warp = static_cast<std::size_t>(info_.warp_size);
  const std::size_t resident = static_cast<std::size_t>(info_.multiprocessors) * 16;
  const std::size_t warps = std::max<std::size_t>(std::min({pages, options_.frames, resident}), 1);
  const std::size_t a_block = std::min<std::size_t>(warps, 4);
  return {.grid = static_cast<unsigned>(warps / a_block), .block = static_cast<unsigned>(a_block * warp)};
}

void Pager::serve() {
  if (!server_) return;
  const device::Selected on(device_);
  server_->begin(setup_);
}

void Pager::stop() noexcept {
  device::ignoring_errors([this] {
    if (server_) server_->end();
  });
}

void Pager::wait_for(device::Stream& stream) {
  stream.synchronize();
  if (server_) server_->end();
}

void Pager::prefetch(device::Stream& stream, const Region& region, std::size_t offset, std::size_t bytes) {
  const device::Selected on(device_);
  const std::size_t end = std::min(region.bytes, offset + bytes);
  if (offset >= end) return;
  const std::uint64_t first = offset / options_.page_bytes, last = (end - 1) / options_.page_bytes + 1;
  serve();
  queue_prefetch(stream, shape_for(last - first), region, first, last);
}

void Pager::flush(device::Stream& stream) {
  const device::Selected on(device_);
  queue_flush(stream, shape_for(options_.frames), reinterpret_cast<const Table*>(table_.data()));
}

void Pager::forget(device::Stream& stream) {
  device::fill_async(owners_.data(), 0, owners_.size(), stream);
  device::fill_async(counts_.data(), 0, offsetof(Counts, failure), stream);
  // Clear the extra frame, which is accessed after a failure, so that an index read from it is 0.
  device::fill_async(frames_.data() + options_.frames * options_.page_bytes, 0, options_.page_bytes, stream);
  for (const auto& one : opened_) device::fill_async(one.states.data(), 0, one.states.size(), stream);
}

void Pager::clear(device::Stream& stream) {
  flush(stream);
  forget(stream);
}

std::string Pager::described(const Failure& failure) const {
  for (const auto& one : opened_) {
    const State* first = one.region.states;
    if (failure.word < first || failure.word >= first + one.pages) continue;
    return fmt::format("page {} of '{}'", failure.word - first, one.name);
  }
  return "a page outside all regions";
}

void Pager::check(device::Stream& stream) {
  wait_for(stream);
  Counts counts;
  device::copy(&counts, counts_.data(), sizeof counts);
  const Failure& failure = counts.failure;
  if (failure.claimed == 0) return;
  const std::string page = described(failure);
  forget(stream);
  device::fill_async(counts_.data(), 0, counts_.size(), stream);
  stream.synchronize();
  struct Wait {
    const char *what, *hint;
  };
  static constexpr Wait kWaits[] = {
      {"another warp's work on", "look for a warp that did not finish its work on a page, or raise the deadline"},
      {"a frame for", "look for a kernel that pins more pages than declared at its launch"},
      {"a relay or proxy to transfer",
       "call Pager::serve before kernels that are not launched by Pager::launch, or raise the deadline"}};
  const Wait& wait = kWaits[static_cast<unsigned>(failure.what)];
  throw device::Error(device::ErrorKind::timeout, "Pager::check",
                      fmt::format("a warp waited {} s for {} {} ({}) and gave up", options_.deadline, wait.what, page,
                                  words(failure.state)),
                      wait.hint);
}

Statistics Pager::statistics(device::Stream& stream) {
  wait_for(stream);
  Counts counts;
  device::copy(&counts, counts_.data(), sizeof counts);
  const State* of = counts.counters;
  return {.faults = of[kFaults],
          .fetched_bytes = of[kFetchedBytes],
          .evictions = of[kEvictions],
          .written_back_bytes = of[kWrittenBack],
          .waits = of[kWaits],
          .rescued = of[kRescued],
          .served_bytes = of[kServedBytes]};
}

std::uint64_t Pager::references(device::Stream& stream) {
  wait_for(stream);
  std::uint64_t sum = 0;
  for (const auto& one : opened_) {
    std::vector<State> states(one.pages);
    device::copy(states.data(), one.states.data(), one.states.size());
    for (const State state : states) sum += paging::references(state);
  }
  return sum;
}

}  // namespace isthmus::paging
