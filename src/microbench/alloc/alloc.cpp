// alloc/<allocator>: what the calls cost that give memory and take it back, so many blocks live at once; and, as
// alloc/<allocator>-touched, what the first touch of the blocks costs beside them.

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
#include "microbench/need.hpp"

namespace isthmus::microbench::alloc {
namespace {

using namespace workload;

/// Where the user names no number of blocks, no more than this, or one block, lives at once.
constexpr std::size_t kMostAtOnce = 64 * kMi;
constexpr std::size_t kMostBlocks = 100;  // the paper's
/// A user who asks for an end waits for so many calls at most, and for fewer where blocks are large.
constexpr std::size_t kMostCallsTogether = 64;

enum class Toucher { nobody, cpu, gpu };

/// malloc takes from the system, and gives back, what is at least so large. It learns from what is freed, unless told;
/// here it is told what it begins with, so that no case sees what another has taught it.
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

/// Whose calls are timed: those of a kind of memory, or others of the host.
struct Allocator {
  Kind kind = Kind::pageable;
  const HostCall* call = nullptr;  ///< nullptr: the kind's own

  std::string_view name() const { return call != nullptr ? call->name : memory::name(kind); }
  std::string_view words() const { return call != nullptr ? call->words : memory::facts(kind).words; }
  bool cpu_only() const { return !memory::facts(kind).asks_device; }
  bool is_malloc() const { return kind == Kind::pageable && call == nullptr; }
  bool is_huge() const { return name() == "huge"; }
  bool is_on_node() const { return name() == "node"; }
  /// Whether alloc/<name>-touched, or -gpu-touched, means something. What is registered was touched before; a GPU need
  /// not reach page-locked memory that is not mapped, and reaches what is write-combined as it does what is mapped.
  bool touched_by(Toucher toucher) const {
    if (toucher == Toucher::gpu) return on_device(kind) || kind == Kind::managed || kind == Kind::mapped;
    return toucher == Toucher::nobody || (!on_device(kind) && kind != Kind::registered);
  }
};

/// Blocks of one allocator, given and taken back in rows. Once the user asks for an end, fewer are given or touched.
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
    // It is there and touched before it is registered, and no two blocks share a page.
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
    // Which call it is was decided before the first.
    if (allocator_.call != nullptr)
      each([&, give = allocator_.call->allocate] { return give(request_.bytes, numa_node_); });
    else
      each([&, give = memory::facts(allocator_.kind).give] { return give(request_); });
  }
  /// In the order in which they were given.
  void release() {
    const auto each = [&](const auto& take_back) {
      for (; next_ < live_.size(); ++next_) take_back(live_[next_]);
    };
    if (allocator_.call != nullptr)
      each([&, release = allocator_.call->release](void* block) { release(block, request_.bytes); });
    else
      each([&, take_back = memory::facts(allocator_.kind).take_back](void* block) { take_back(block, request_); });
    live_.clear();
    next_ = 0;
  }
  /// Every page of every block is written.
  void touch(Toucher toucher) {
    if (toucher == Toucher::gpu) {
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
  /// Bytes of the first block that lie in huge pages, once it is touched; nullopt where the kernel does not tell.
  std::optional<std::size_t> huge_bytes() const { return memory::huge_page_bytes(live_.front()); }
  void synchronize() {
    if (request_.stream != nullptr) request_.stream->synchronize();
  }

  /// Blocks that share bytes, are not what was asked for, or do not keep what is written at both of their ends.
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
        if (!last && request_.bytes < 2 * width) continue;  // the last has overwritten it
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
  /// For numbers from `first` to before `last`: once the user asks for an end, for no more than the group begun, and
  /// two.
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

/// What a block holds at least.
std::size_t held(const Allocator& allocator, std::size_t bytes) {
  if (allocator.is_huge())
    return (bytes + memory::huge_page_size() - 1) / memory::huge_page_size() * memory::huge_page_size();
  if (allocator.kind == Kind::vmm) return device::mapped_bytes(bytes);
  return bytes;
}

void run(Case& c, const Allocator& allocator, Toucher toucher) {
  const std::size_t bytes = c.extent("bytes");
  if (!allocator.cpu_only()) {
    if (const auto why = memory::obstacle(allocator.kind, c.device())) throw Skip(*why);
  }
  int node = c.numa_node();
  if (allocator.is_on_node()) {
    need_node(static_cast<int>(c.integer("node")));
    if (memory::highest_numa_node() < 0) throw Skip("the kernel knows no NUMA nodes, so libnuma cannot place memory");
    node = static_cast<int>(c.integer("node"));
  }
  if (allocator.is_huge() && bytes < memory::huge_page_size())
    throw Skip(fmt::format("{} bytes are less than a huge page, {} bytes", bytes, memory::huge_page_size()),
               SkipKind::not_applicable);
  const std::size_t most = blocks_at_once(c);
  const std::size_t all = memory::byte_count(most, held(allocator, bytes));
  const bool on_host = !on_device(allocator.kind);
  // Pages of the host's own calls are there once they are touched.
  const bool holds = toucher != Toucher::nobody || !allocator.cpu_only();
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
      if (toucher != Toucher::nobody) {
        sum.touch += timed([&] { blocks.touch(toucher); });
        sum.touch_again += timed([&] { blocks.touch(toucher); });
      }
      c.sampling().end_if_interrupted();  // what lives is checked
      sum.release += timed([&] { blocks.release(); });
      blocks.synchronize();
    }
    return sum;
  };
  c.verify(
      "blocks are apart, of the kind asked for, and keep what is written at their ends",
      [&] { return static_cast<double>(blocks.wrong(most)); }, 0);

  const Round first = rounds_of(1, 1);
  c.once(time_metric("first", "clock", kCallsUnbounded), first.allocate);
  if (toucher != Toucher::nobody) c.once(time_metric("first_touch", "clock", kCallsUnbounded), first.touch);
  const int rounds = c.sampling().batch_for("clock", c.sampling().largest_batch(), [&](int n) {
    const Round round = rounds_of(n, most);
    return std::min(round.allocate, round.release);
  });
  std::vector<Metric> metrics{time_metric("alloc", "clock", kCallsUnbounded),
                              time_metric("free", "clock", kCallsUnbounded)};
  if (toucher != Toucher::nobody) {
    metrics.push_back(time_metric("touch", "clock", kCallsUnbounded));
    metrics.push_back(time_metric("touch_again", "clock", kCallsUnbounded));
  }
  c.sampling().sample(std::move(metrics), [&] {
    const Round round = rounds_of(rounds, most);
    const double calls = static_cast<double>(most) * rounds;
    c.sampling().batch(static_cast<int>(std::min<double>(calls, std::numeric_limits<int>::max())));
    std::vector values{round.allocate / calls, round.release / calls};
    if (toucher != Toucher::nobody) {
      values.push_back(round.touch / calls);
      values.push_back(round.touch_again / calls);
    }
    return values;
  });
  if (!allocator.is_huge() || toucher == Toucher::nobody) return;
  blocks.allocate(1);
  blocks.touch(toucher);
  if (const auto huge = blocks.huge_bytes(); huge && *huge < bytes)
    c.warn("placement_disagrees", fmt::format("only {} of {} bytes lie in huge pages", *huge, bytes));
  blocks.release();
}

Workload workload(const Allocator& allocator, Toucher toucher) {
  const char* suffix = toucher == Toucher::nobody ? "" : toucher == Toucher::cpu ? "-touched" : "-gpu-touched";
  Workload w(fmt::format("alloc/{}{}", allocator.name(), suffix), [=](Case& c) { run(c, allocator, toucher); });
  std::vector<std::string> metrics{"first", "alloc", "free"};
  if (toucher != Toucher::nobody) metrics = {"first", "first_touch", "alloc", "free", "touch", "touch_again"};
  const bool huge = allocator.is_huge();
  const auto sizes = powers(huge ? 2 * kMi : 2, kGi);
  std::vector<AxisValue> default_sizes{32, 4 * kKi, kMi, 64 * kMi};
  if (huge) default_sizes = {2 * kMi, 64 * kMi};
  const std::string touched = allocator.kind == Kind::registered ? ""
                              : toucher == Toucher::nobody       ? ", untouched"
                              : toucher == Toucher::cpu          ? ", and touching it by the CPU"
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
      .axis(number_axis("at_once", "blocks that live at once; 0: up to 100, as many as 64 MiB hold", 0, 0))
      .size("tiny", {{"bytes", huge ? 2 * kMi : 4 * kKi}})
      .size("small", {})
      .preset({.name = "paper-fig6",
               .help = "Figure 6: 2 bytes to 1 GiB, a hundred blocks at once",
               .settings = {{"at_once", static_cast<std::int64_t>(kMostBlocks)}},
               .sweep_axis = "bytes",
               .sweep = sizes})
      .estimate([](const CaseSpec& spec) {
        // As page-locking: 0.4 s a GiB each way, or a touch of each page.
        return 1e-3 + 1e-9 * static_cast<double>(blocks_at_once(spec)) * static_cast<double>(spec.integer("bytes"));
      });
  if (allocator.is_on_node()) w.axis(number_axis("node", "NUMA node of the memory", 0, 0));
  if (allocator.cpu_only()) w.cpu_only();
  return w;
}

std::vector<Registration> register_all() {
  std::vector<Registration> list;
  const auto add = [&](const Allocator& allocator) {
    for (const auto toucher : {Toucher::nobody, Toucher::cpu, Toucher::gpu}) {
      if (allocator.touched_by(toucher)) list.emplace_back(workload(allocator, toucher));
    }
  };
  for (const auto& row : memory::all_kinds()) {
    if (row.kind != Kind::static_managed) add({.kind = row.kind});  // there from the start
  }
  for (const auto& call : host_calls()) add({.call = &call});
  return list;
}

const std::vector<Registration> registrations = register_all();

}  // namespace
}  // namespace isthmus::microbench::alloc
