// paging/pattern: reads some pages of an array in host memory, a part of each, several times. The array is
// copied whole, streamed, read in place, fetched by the driver's page faults, or paged. docs/paging.md has the map.

#include "microbench/paging/pattern.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "microbench/axes.hpp"
#include "microbench/paging/common.hpp"
#include "microbench/require.hpp"
#include "paging/placement.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::paged {
namespace {

using namespace workload;

constexpr std::size_t kChunks = 16;

struct Asked {
  explicit Asked(const Case& c)
      : way(c.choice("way")),
        page(page_bytes_of(c)),
        bytes(c.extent("bytes") / 16 * 16),
        percent(c.extent("frames")),
        passes(static_cast<unsigned>(c.extent("passes"))) {
    const std::size_t pages = paging::pages_of(bytes, page), use = c.extent("use") / 16 * 16;
    pattern.pages = pages;
    pattern.touched = paging::frames_of(pages, c.extent("density"));
    pattern.page_words = page / sizeof(Word);
    pattern.used_words = std::min(use, page) / sizeof(Word);
    pattern.words = bytes / sizeof(Word);
    pattern.scattered = c.choice("order") == "scattered";
    pattern.order = Scattered(pages);
    frames = paging::frames_of(pattern.touched, percent);
    refuse_if(percent < 100 && (way == "copy" || way == "managed"),
              "this method needs memory for the whole array; set frames=100, or choose streamed, mapped or paged");
    refuse_if(way == "streamed" && (pattern.scattered || pattern.touched < pages),
              "only all pages in order can be streamed; set order=in_order and density=100");
  }
  /// Returns the number of chunks of a stream that fit on the device.
  std::size_t slots() const {
    return percent < 100 ? std::clamp(kChunks * percent / 100, std::size_t{2}, kChunks) : kChunks;
  }
  std::size_t chunk_pages() const { return (pattern.pages + kChunks - 1) / kChunks; }
  std::size_t device_bytes() const {
    if (way == "streamed") return slots() * chunk_pages() * page;
    if (way == "paged") return (frames + 1) * page + paging::table_bytes_for(frames, pattern.pages);
    return way == "mapped" ? 0 : bytes;
  }

  std::string way;
  std::size_t page, bytes, frames = 0;
  std::size_t percent;
  unsigned passes;
  Pattern pattern;
};

/// Addresses of a kernel's sum and of the number of the next turn.
struct Results {
  Word *sum, *next;
};

/// Method of accessing the array.
class Reached {
 public:
  virtual ~Reached() = default;
  virtual device::KernelInfo kernel() const = 0;
  virtual const device::LaunchShape& shape() const = 0;
  /// Restores the state in which nothing has been read.
  virtual void forget(device::Stream&) {}
  virtual void queue(device::Stream& stream, const Results& results) = 0;
  /// Returns whether the counters have the values of one sample. Called after each sample.
  virtual bool counts_are_right(device::Stream&) { return true; }
  /// Returns the bytes that the last sample moved or, before the first sample, the minimum bytes to move; nullopt if
  /// unknown.
  virtual std::optional<double> moved() const { return std::nullopt; }
  virtual void observe(Case&) const {}
};

device::LaunchShape shape_of(const PlainTurns& work, const device::DeviceInfo& info) {
  const std::size_t turns = work.last - work.first;
  return shape_for(work, info, turns, turns, false);
}

/// Access by address: to a copy, to host memory in place, or to managed memory.
class ByAddress : public Reached {
 public:
  ByAddress(const Asked& asked, const device::DeviceInfo& info, const memory::Block& array, int node)
      : asked_(asked),
        array_(array),
        copy_(asked.way == "copy" ? memory::Block(memory::Kind::device, asked.bytes) : memory::Block()),
        node_(node),
        turns_{asked.pattern, 0, asked.pattern.touched, copy_ ? copy_.data() : array.device_data(), 0},
        shape_(shape_of(turns_, info)) {}

  device::KernelInfo kernel() const override { return info_of(turns_, shape_); }
  const device::LaunchShape& shape() const override { return shape_; }
  void forget(device::Stream& stream) override {
    if (asked_.way == "managed") device::prefetch(array_.data(), array_.size(), device::Location::host(node_), stream);
  }
  void queue(device::Stream& stream, const Results& results) override {
    if (copy_) device::copy_async(copy_.data(), array_.data(), array_.size(), stream);
    for (unsigned pass = 0; pass < asked_.passes; ++pass)
      paged::queue(stream, shape_, turns_, results.sum, results.next);
  }
  std::optional<double> moved() const override {
    return copy_ ? std::optional(static_cast<double>(array_.size())) : std::nullopt;
  }

 private:
  const Asked& asked_;
  const memory::Block& array_;
  memory::Block copy_;
  int node_;
  PlainTurns turns_;
  device::LaunchShape shape_;
};

/// Access to chunks that are copied in one by one, each used as it arrives. If all of them fit, later passes find them
/// on the device.
class Streamed : public Reached {
 public:
  Streamed(const Asked& asked, const device::DeviceInfo& info, const memory::Block& array)
      : asked_(asked),
        array_(array),
        ring_(memory::Kind::device, asked.device_bytes()),
        copied_(asked.slots()),
        used_(asked.slots()),
        shape_(shape_of(turns_of(0, 0), info)),
        all_{asked.pattern, 0, asked.pattern.touched, ring_.data(), 0},
        shape_of_all_(shape_of(all_, info)) {}

  device::KernelInfo kernel() const override { return info_of(all_, shape_); }
  const device::LaunchShape& shape() const override { return shape_; }
  void queue(device::Stream& stream, const Results& results) override {
    begin_.record(stream);
    copies_.wait(begin_);
    std::size_t number = 0;
    for (unsigned pass = 0; pass < asked_.passes; ++pass) {
      if (pass > 0 && stays()) {
        paged::queue(stream, shape_of_all_, all_, results.sum, results.next);
        continue;
      }
      for (std::size_t chunk = 0; chunk < chunks(); ++chunk, ++number) {
        const std::size_t slot = number % copied_.size(), offset = chunk * chunk_bytes();
        if (number >= copied_.size()) copies_.wait(used_[slot]);
        device::copy_async(ring_.data() + slot * chunk_bytes(), array_.data() + offset,
                           std::min(chunk_bytes(), array_.size() - offset), copies_);
        copied_[slot].record(copies_);
        stream.wait(copied_[slot]);
        paged::queue(stream, shape_, turns_of(chunk, slot), results.sum, results.next);
        used_[slot].record(stream);
      }
    }
  }
  std::optional<double> moved() const override {
    return static_cast<double>(array_.size()) * (stays() ? 1 : asked_.passes);
  }

 private:
  std::size_t chunk_bytes() const { return asked_.chunk_pages() * asked_.page; }
  std::size_t chunks() const { return (asked_.pattern.pages + asked_.chunk_pages() - 1) / asked_.chunk_pages(); }
  bool stays() const { return copied_.size() >= chunks(); }
  PlainTurns turns_of(std::size_t chunk, std::size_t slot) const {
    const std::uint64_t first = chunk * asked_.chunk_pages(),
                        last = std::min<std::uint64_t>(first + asked_.chunk_pages(), asked_.pattern.pages);
    return {asked_.pattern, first, last, ring_.data() + slot * chunk_bytes(), first};
  }

  const Asked& asked_;
  const memory::Block& array_;
  memory::Block ring_;
  std::vector<device::Event> copied_, used_;  ///< events of each slot
  device::LaunchShape shape_;
  PlainTurns all_;
  device::LaunchShape shape_of_all_;
  device::Stream copies_;
  device::Event begin_;
};

/// Access to memory that the GPU pages.
class Paged : public Reached {
 public:
  Paged(const Asked& asked, const device::DeviceInfo& info, const memory::Block& array)
      : asked_(asked),
        pager_({.page_bytes = asked.page, .frames = asked.frames, .eviction = paging::Eviction::scan_resistant}),
        turns_{asked.pattern, pager_.open(array, "array")},
        // Half of the frames are left to warps that search for a frame, if pages have to be evicted.
        shape_(shape_for(turns_, info, all_stay() ? asked.frames : (asked.frames + 1) / 2, asked.pattern.touched,
                         false)) {}

  device::KernelInfo kernel() const override { return info_of(turns_, shape_); }
  const device::LaunchShape& shape() const override { return shape_; }
  void forget(device::Stream& stream) override { pager_.clear(stream); }
  void queue(device::Stream& stream, const Results& results) override {
    for (unsigned pass = 0; pass < asked_.passes; ++pass)
      paged::queue(stream, pager_, shape_, turns_, results.sum, results.next);
  }
  bool counts_are_right(device::Stream& stream) override {
    pager_.check(stream);
    seen_ = pager_.statistics(stream);
    return pager_.references(stream) == 0 && seen_->faults >= least_fetches() &&
           seen_->faults <= asked_.pattern.touched * asked_.passes && seen_->evictions == seen_->faults - asked_.frames;
  }
  std::optional<double> moved() const override {
    return static_cast<double>(seen_ ? seen_->fetched_bytes : least_fetches() * asked_.page);
  }
  void observe(Case& c) const override {
    c.report(count_metric("fetches"), static_cast<double>(seen_->faults));
    c.report(count_metric("evictions"), static_cast<double>(seen_->evictions));
  }

 private:
  bool all_stay() const { return asked_.frames == asked_.pattern.touched; }
  std::uint64_t least_fetches() const {
    return asked_.pattern.touched + (asked_.passes - 1) * (asked_.pattern.touched - asked_.frames);
  }

  const Asked& asked_;
  paging::Pager pager_;
  PagedTurns turns_;
  device::LaunchShape shape_;
  std::optional<paging::Statistics> seen_;
};

std::unique_ptr<Reached> reach(const Asked& asked, const device::DeviceInfo& info, const memory::Block& array,
                               int node) {
  if (asked.way == "paged") return std::make_unique<Paged>(asked, info, array);
  if (asked.way == "streamed") return std::make_unique<Streamed>(asked, info, array);
  return std::make_unique<ByAddress>(asked, info, array, node);
}

memory::Block filled_array(Case& c, const Asked& asked) {
  memory::Block array(asked.way == "managed" ? memory::Kind::managed : memory::Kind::mapped, asked.bytes,
                      {.numa_node = c.numa_node()});
  fill_with_words(c, array);
  return array;
}

std::vector<Metric> metrics_of(const char* timer, double useful, double wanted, double moved, const Bound& link) {
  std::vector<Metric> metrics{time_metric("time", timer).moving(useful, moved, "h2d"),
                              rate_metric("rate", "B/s", timer).moving(useful, moved, "h2d")};
  metrics[0].bound = {link.value ? std::optional(useful / *link.value) : std::nullopt, link.source};
  metrics[1].bound = {link.value ? std::optional(wanted / useful * *link.value) : std::nullopt,
                      wanted > useful ? link.source + ", each byte once" : link.source};
  return metrics;
}

void run(Case& c) {
  const Asked asked(c);
  const auto info = c.device();
  c.needs(asked.way == "managed" ? 0 : asked.bytes, asked.device_bytes());
  require_kind(asked.way == "managed" ? memory::Kind::managed : memory::Kind::mapped, memory::Reader::gpu, info);

  const device::Selected on(info.index);
  const memory::Block array = filled_array(c, asked);
  const memory::Block sum_and_next(memory::Kind::device, 2 * sizeof(Word));
  auto* const sum = reinterpret_cast<Word*>(sum_and_next.data());
  const auto reached = reach(asked, info, array, c.numa_node());
  c.kernel(reached->kernel(), reached->shape());

  double useful = 0;
  Word expected = 0;
  for (std::uint64_t turn = 0; turn < asked.pattern.touched; ++turn) {
    const std::uint64_t first = asked.pattern.first_word(turn), last = asked.pattern.last_word(turn);
    expected += asked.passes * sum_of_words(c, first, last);
    useful += static_cast<double>((last - first) * sizeof(Word));
  }
  const double wanted = useful * asked.passes;

  std::vector<Lane> list(1);
  list[0].device = info.index;
  list[0].queue = [&](device::Stream& stream) { reached->queue(stream, {sum, sum + 1}); };
  workload::Lanes lanes(c, std::move(list));
  device::Stream& stream = c.stream();
  double wrong = 0;
  c.verify("the sum of the bytes that every sample read", [&] { return wrong; }, 0);
  c.sampling().sample(
      metrics_of(lanes.timer(), useful, wanted, reached->moved().value_or(0), link_bound(info)),
      [&] {
        reached->forget(stream);
        device::fill_async(sum, 0, sizeof *sum, stream);
        stream.synchronize();
      },
      [&] {
        const double seconds = read(c, lanes).all;
        const bool counts = reached->counts_are_right(stream);
        Word found = 0;
        device::copy(&found, sum, sizeof found);
        wrong += counts && found == expected ? 0 : 1;
        return std::vector{seconds, wanted / seconds};
      });
  c.report(count_metric("pages_touched"), static_cast<double>(asked.pattern.touched));
  c.report(count_metric("useful", "B"), useful);
  if (const auto moved = reached->moved()) c.report(count_metric("moved", "B"), *moved);
  reached->observe(c);
}

const Registration registration =
    paging_workload("paging/pattern", run,
                    "parts of some pages of host memory, by every method that transfers bytes to the GPU")
        .source("gpuvm-2024, paging by the GPU and the alternatives to it, on one access pattern")
        .metrics({"time", "rate", "pages_touched", "useful"})
        .reported({"moved", "fetches", "evictions"})
        .estimate([](const CaseSpec& spec) {
          const double rate = spec.choice("way") == "managed" ? 5e9 : 20e9;
          return 1e-3 + static_cast<double>(spec.integer("bytes")) / rate;
        })
        .axis(number_axis("density", "pages that are touched, in percent of all", 100))
        .axis(bytes_axis("use", "bytes read from the beginning of a touched page; more than a page: all", 2 * kMi, 16))
        .axis(number_axis("passes", "number of times that all of this is read, by a kernel each time", 1))
        .axis(number_axis("frames", "memory on the device, in percent of the touched pages; copy and managed need 100",
                          100))
        .axis(choice_axis("order", "order of the touched pages", {"in_order", "scattered"}))
        .axis(how(choice_axis("way",
                              "copy: the whole array first; streamed: in chunks, each used as it arrives; mapped: read "
                              "in place; managed: by the driver's page faults; paged: by the GPU",
                              {"copy", "streamed", "mapped", "managed", "paged"})
                      .with_default_sweep_of_all()))
        .preset(gpuvm_figure_8({{"way", "paged"}}));

}  // namespace
}  // namespace isthmus::microbench::paged
