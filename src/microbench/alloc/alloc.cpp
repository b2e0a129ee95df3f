// alloc/<allocator>: cost of the calls that allocate and deallocate memory, with `at_once` blocks live at a time.
// alloc/<allocator>-touched also measures the first touch of the blocks.

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "device/api/ignoring_errors.hpp"
#include "device/api/mapped_memory.hpp"
#include "memory/block.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "microbench/alloc/host_calls.hpp"
#include "microbench/axes.hpp"
#include "microbench/call_cost.hpp"
#include "microbench/keeping_pool.hpp"
#include "microbench/require.hpp"

namespace isthmus::microbench::alloc {
namespace {

using namespace workload;

/// Default limit, in bytes, of all blocks that are live at once; a larger block is the only one.
constexpr std::size_t kMostAtOnce = 64 * kMi;
constexpr std::size_t kMostBlocks = 100;  // number of blocks in the paper
/// Maximum number of calls between checks for the user's interrupt; fewer if blocks are large.
constexpr std::size_t kMostCallsTogether = 64;

enum class PageWorkers { nobody, cpu, gpu };

/// Scope in which malloc has its initial threshold. malloc maps blocks of at least that size from the system and unmaps
/// them when they are freed. It adapts the threshold to the blocks that are freed, unless the threshold is set
/// explicitly, so setting it keeps cases independent of each other.
class DefaultMalloc {
 public:
  explicit DefaultMalloc(bool wanted) : wanted_(wanted) {
    if (wanted_) mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  }
  ~DefaultMalloc() {
    if (wanted_) mallopt(M_MMAP_THRESHOLD, memory::kFreshFromBytes);
  }
  DefaultMalloc(const DefaultMalloc&) = delete;
  DefaultMalloc& operator=(const DefaultMalloc&) = delete;

 private:
  bool wanted_;
};

/// Allocator whose calls are timed: the one of a kind of memory, or another one of the host.
struct Allocator {
  Kind kind = Kind::pageable;
  const HostCall* call = nullptr;  ///< nullptr for the calls of `kind`

  std::string_view name() const { return call != nullptr ? call->name : memory::name(kind); }
  std::string_view words() const { return call != nullptr ? call->words : memory::facts(kind).words; }
  bool cpu_only() const { return !memory::facts(kind).asks_device; }
  bool is_malloc() const { return kind == Kind::pageable && call == nullptr; }
  bool is_huge() const { return name() == "huge"; }
  bool is_on_node() const { return name() == "node"; }
  /// Returns whether alloc/<name>-touched, or -gpu-touched, makes sense. Registered memory was touched before. A GPU
  /// may be unable to access page-locked memory that is not mapped, and it accesses write-combined memory like mapped
  /// memory.
  bool touched_by(PageWorkers workers) const {
    if (workers == PageWorkers::gpu) return on_device(kind) || kind == Kind::managed || kind == Kind::mapped;
    return workers == PageWorkers::nobody || (!on_device(kind) && kind != Kind::registered);
  }
};

/// Blocks of one allocator, allocated and deallocated in sequence. After the user's interrupt, fewer blocks are
/// allocated or touched.
class Blocks {
 public:
  Blocks(const Case& c, const Allocator& allocator, std::size_t most, device::Stream* stream, int numa_node)
      : case_(c),
        allocator_(allocator),
        request_{.bytes = c.extent("bytes"), .stream = stream},
        numa_node_(std::max(numa_node, 0)),
        together_(std::clamp<std::size_t>(kMostAtOnce / request_.bytes, 1, kMostCallsTogether)) {
    live_.reserve(most);
    if (allocator.kind != Kind::registered) return;
    // Memory to be registered is allocated and touched here, before it is registered. Blocks do not share pages.
    slot_ = whole_pages(request_.bytes);
    host_.emplace(Kind::pageable, most * slot_ + memory::page_bytes(), memory::BlockOptions{.numa_node = numa_node});
    host_->touch();
    const auto address = reinterpret_cast<std::uintptr_t>(host_->data());
    first_ = host_->data() + (whole_pages(address) - address);
  }
  ~Blocks() {
    device::ignoring_errors([this] {
      synchronize();
      release();
    });
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  void allocate(std::size_t count) {
    const auto each = [&](const auto& give) {
      in_groups(live_.size(), count, [&](std::size_t i) {
        request_.memory = first_ == nullptr ? nullptr : first_ + i * slot_;
        live_.push_back(give());
      });
    };
    // The call is selected before the first block, outside the loop.
    if (allocator_.call != nullptr)
      each([&, give = allocator_.call->allocate] { return give(request_.bytes, numa_node_); });
    else
      each([&, give = memory::facts(allocator_.kind).give] { return give(request_); });
  }
  /// Deallocates the blocks in the order in which they were allocated.
  void release() {
    const auto each = [&](const auto& deallocate) {
      for (; next_ < live_.size(); ++next_) deallocate(live_[next_]);
    };
    if (allocator_.call != nullptr)
      each([&, release = allocator_.call->release](void* block) { release(block, request_.bytes); });
    else
      each([&, deallocate = memory::facts(allocator_.kind).deallocate](void* block) { deallocate(block, request_); });
    live_.clear();
    next_ = 0;
  }
  /// Writes every page of every block.
  void touch(PageWorkers workers) {
    if (workers == PageWorkers::gpu) {
      for (void* block : live_) device::fill_async(block, 0x5a, request_.bytes, *request_.stream);
      synchronize();
      return;
    }
    const std::size_t page = memory::page_bytes();
    in_groups(0, live_.size(), [&](std::size_t i) {
      auto* bytes = static_cast<volatile unsigned char*>(live_[i]);
      for (std::size_t at = 0; at < request_.bytes; at += page) bytes[at] = 0x5a;
    });
  }
  /// Returns the bytes of the first block that are in huge pages, once it is touched; nullopt if the kernel does not
  /// report them.
  std::optional<std::size_t> huge_bytes() const { return memory::huge_page_bytes(live_.front()); }
  void synchronize() {
    if (request_.stream != nullptr) request_.stream->synchronize();
  }

  /// Returns the number of blocks that share bytes, are not of the requested kind, or do not keep what is written at
  /// both of their ends.
  std::size_t wrong(std::size_t most) {
    allocate(most);
    synchronize();
    const std::size_t count = live_.size();
    const std::size_t width = std::min(request_.bytes, sizeof(std::uint64_t));
    const auto move = [&](void* to, const void* from) {
      if (allocator_.cpu_only()) {
        std::memcpy(to, from, width);
      } else {
        device::copy(to, from, width);
      }
    };
    const auto end_of = [&](void* block, bool last) {
      return static_cast<std::byte*>(block) + (last ? request_.bytes - width : 0);
    };
    const auto word_of = [&](std::size_t i, bool last) { return hash(7, last ? 1 : 0, i); };
    for (std::size_t i = 0; i < count; ++i) {
      for (const bool last : {false, true}) {
        const std::uint64_t word = word_of(i, last);
        move(end_of(live_[i], last), &word);
      }
    }
    std::size_t found_wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (const bool last : {false, true}) {
        if (!last && request_.bytes < 2 * width) continue;  // the write at the end has overwritten it
        std::uint64_t found = 0;
        const std::uint64_t word = word_of(i, last);
        move(&found, end_of(live_[i], last));
        found_wrong += std::memcmp(&found, &word, width) == 0 ? 0 : 1;
      }
      if (!allocator_.cpu_only() && device::pointer_info(live_[i]).kind != memory::facts(allocator_.kind).pointer_kind)
        ++found_wrong;
    }
    auto sorted = live_;
    std::ranges::sort(sorted, std::less<>{});
    for (std::size_t i = 1; i < count; ++i)
      found_wrong += static_cast<std::byte*>(sorted[i - 1]) + request_.bytes <= sorted[i] ? 0 : 1;
    release();
    synchronize();
    return found_wrong;
  }

 private:
  /// Calls `each` for the numbers from `first` up to, but not including, `last`. After the user's interrupt it only
  /// finishes the current group, or the first two calls.
  template <class Each>
  void in_groups(std::size_t first, std::size_t last, const Each& each) {
    constexpr std::size_t kLeast = 2;  // so that a check finds blocks that may share bytes
    for (std::size_t i = first; i < last && (i < kLeast || !case_.sampling().interrupted());) {
      for (const std::size_t end = std::min(last, i + together_); i < end; ++i) each(i);
    }
  }
  static std::size_t whole_pages(std::size_t bytes) {
    const std::size_t page = memory::page_bytes();
    return (bytes + page - 1) / page * page;
  }

  const Case& case_;
  const Allocator allocator_;
  memory::Request request_;
  int numa_node_;
  std::size_t together_;
  std::size_t slot_ = 0;
  std::optional<memory::Block> host_;
  std::byte* first_ = nullptr;
  std::vector<void*> live_;
  std::size_t next_ = 0;
};

std::size_t blocks_at_once(const CaseSpec& spec) {
  if (spec.integer("at_once") > 0) return static_cast<std::size_t>(spec.integer("at_once"));
  return std::clamp<std::size_t>(kMostAtOnce / static_cast<std::size_t>(spec.integer("bytes")), 1, kMostBlocks);
}

std::size_t blocks_at_once(const Case& c) {
  if (c.integer("at_once") > 0) return c.extent("at_once");
  return std::clamp<std::size_t>(kMostAtOnce / c.extent("bytes"), 1, kMostBlocks);
}

/// Returns the minimum bytes that a block occupies.
std::size_t held(const Allocator& allocator, std::size_t bytes) {
  if (allocator.is_huge())
    return (bytes + memory::huge_page_size() - 1) / memory::huge_page_size() * memory::huge_page_size();
  if (allocator.kind == Kind::vmm) return device::mapped_bytes(bytes);
  return bytes;
}

void run(Case& c, const Allocator& allocator, PageWorkers workers) {
  const std::size_t bytes = c.extent("bytes");
  if (!allocator.cpu_only()) {
    if (const auto why = memory::unsupported_reason(allocator.kind, c.device())) throw Skip(*why);
  }
  int node = c.numa_node();
  if (allocator.is_on_node()) {
    require_node(static_cast<int>(c.integer("node")));
    if (memory::highest_numa_node() < 0) throw Skip("the kernel reports no NUMA nodes, so libnuma cannot place memory");
    node = static_cast<int>(c.integer("node"));
  }
  if (allocator.is_huge() && bytes < memory::huge_page_size())
    throw Skip(fmt::format("bytes={} is less than a huge page of {} bytes", bytes, memory::huge_page_size()),
               SkipKind::not_applicable);
  const std::size_t most = blocks_at_once(c);
  const std::size_t all = memory::byte_count(most, held(allocator, bytes));
  const bool on_host = !on_device(allocator.kind);
  // Pages that calls of the host allocate exist only once they are touched.
  const bool holds = workers != PageWorkers::nobody || !allocator.cpu_only();
  c.needs(on_host && holds ? all : 0, on_host ? 0 : all);

  const memory::ScopedThreadNode on_node(c.numa_node());
  device::Stream* stream = allocator.cpu_only() ? nullptr : &c.stream();
  const DefaultMalloc plain(allocator.is_malloc() || allocator.is_huge());
  const KeepingPool keeping(allocator.kind == Kind::pool);
  Blocks blocks(c, allocator, most, stream, node);
  struct Round {
    double allocate = 0, touch = 0, touch_again = 0, release = 0;
  };
  const auto rounds_of = [&](int rounds, std::size_t count) {
    Round sum;
    for (int i = 0; i < rounds; ++i) {
      c.sampling().end_if_interrupted();
      sum.allocate += timed([&] { blocks.allocate(count); });
      blocks.synchronize();
      if (workers != PageWorkers::nobody) {
        sum.touch += timed([&] { blocks.touch(workers); });
        sum.touch_again += timed([&] { blocks.touch(workers); });
      }
      c.sampling().end_if_interrupted();  // throws before the release, so that the live blocks are checked
      sum.release += timed([&] { blocks.release(); });
      blocks.synchronize();
    }
    return sum;
  };
  c.verify(
      "blocks do not overlap, are of the requested kind, and keep what is written at their ends",
      [&] { return static_cast<double>(blocks.wrong(most)); }, 0);

  const Round first = rounds_of(1, 1);
  c.once(time_metric("first", "clock", kCallsUnbounded), first.allocate);
  if (workers != PageWorkers::nobody) c.once(time_metric("first_touch", "clock", kCallsUnbounded), first.touch);
  const int rounds = c.sampling().batch_for("clock", c.sampling().largest_batch(), [&](int n) {
    const Round round = rounds_of(n, most);
    return std::min(round.allocate, round.release);
  });
  std::vector<Metric> metrics{time_metric("alloc", "clock", kCallsUnbounded),
                              time_metric("free", "clock", kCallsUnbounded)};
  if (workers != PageWorkers::nobody) {
    metrics.push_back(time_metric("touch", "clock", kCallsUnbounded));
    metrics.push_back(time_metric("touch_again", "clock", kCallsUnbounded));
  }
  c.sampling().sample(std::move(metrics), [&] {
    const Round round = rounds_of(rounds, most);
    const double calls = static_cast<double>(most) * rounds;
    c.sampling().batch(static_cast<int>(std::min<double>(calls, std::numeric_limits<int>::max())));
    std::vector values{round.allocate / calls, round.release / calls};
    if (workers != PageWorkers::nobody) {
      values.push_back(round.touch / calls);
      values.push_back(round.touch_again / calls);
    }
    return values;
  });
  if (!allocator.is_huge() || workers == PageWorkers::nobody) return;
  blocks.allocate(1);
  blocks.touch(workers);
  if (const auto huge = blocks.huge_bytes(); huge && *huge < bytes)
    c.warn("placement_disagrees", fmt::format("only {} of {} bytes are in huge pages", *huge, bytes));
  blocks.release();
}

Workload workload(const Allocator& allocator, PageWorkers workers) {
  const char* suffix = workers == PageWorkers::nobody ? "" : workers == PageWorkers::cpu ? "-touched" : "-gpu-touched";
  Workload w(fmt::format("alloc/{}{}", allocator.name(), suffix), [=](Case& c) { run(c, allocator, workers); });
  std::vector<std::string> metrics{"first", "alloc", "free"};
  if (workers != PageWorkers::nobody) metrics = {"first", "first_touch", "alloc", "free", "touch", "touch_again"};
  const bool huge = allocator.is_huge();
  const auto sizes = powers(huge ? 2 * kMi : 2, kGi);
  std::vector<AxisValue> default_sizes{32, 4 * kKi, kMi, 64 * kMi};
  if (huge) default_sizes = {2 * kMi, 64 * kMi};
  const std::string touched = allocator.kind == Kind::registered ? ""
                              : workers == PageWorkers::nobody   ? ", untouched"
                              : workers == PageWorkers::cpu      ? ", and touching it by the CPU"
                                                                 : ", and touching it by the GPU";
  w.version(1)
      .summary(fmt::format("allocating and freeing: {}{}", allocator.words(), touched))
      .source("mi300a-upm-2025, section III-A 5 and Figure 6")
      .tags({"alloc", std::string(allocator.name())})
      .stagings({})
      .metrics(std::move(metrics))
      .axis(bytes_axis("bytes", "bytes of one allocation", kMi)
                .with_default_sweep(std::move(default_sizes))
                .with_size_sweep(sizes))
      .axis(number_axis("at_once", "blocks allocated at once; 0: as many as fit into 64 MiB, at most 100", 0, 0))
      .size("tiny", {{"bytes", huge ? 2 * kMi : 4 * kKi}})
      .size("small", {})
      .preset({.name = "paper-fig6",
               .help = "Figure 6: 2 bytes to 1 GiB, a hundred blocks at once",
               .settings = {{"at_once", static_cast<std::int64_t>(kMostBlocks)}},
               .sweep_axis = "bytes",
               .sweep = sizes})
      .estimate([](const CaseSpec& spec) {
        // Estimate for page-locking and unlocking, at 0.4 s per GiB each, or for touching each page.
        return 1e-3 + 1e-9 * static_cast<double>(blocks_at_once(spec)) * static_cast<double>(spec.integer("bytes"));
      });
  if (allocator.is_on_node()) w.axis(number_axis("node", "NUMA node of the memory", 0, 0));
  if (allocator.cpu_only()) w.cpu_only();
  return w;
}

std::vector<Registration> register_all() {
  std::vector<Registration> list;
  const auto add = [&](const Allocator& allocator) {
    for (const auto workers : {PageWorkers::nobody, PageWorkers::cpu, PageWorkers::gpu}) {
      if (allocator.touched_by(workers)) list.emplace_back(workload(allocator, workers));
    }
  };
  for (const auto& row : memory::all_kinds()) {
    if (row.kind != Kind::static_managed) add({.kind = row.kind});  // static memory exists from the start
  }
  for (const auto& call : host_calls()) add({.call = &call});
  return list;
}

const std::vector<Registration> registrations = register_all();

}  // namespace
}  // namespace isthmus::microbench::alloc
