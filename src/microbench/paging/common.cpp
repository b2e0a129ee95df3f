// paging/random: pages in random order, which exercise all of src/paging.
// paging/sweep: a sweep over pages that are all resident, through each method of access and through a plain pointer.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "microbench/axes.hpp"
#include "microbench/paging/common.hpp"
#include "paging/optimum.hpp"
#include "paging/placement.hpp"
#include "workload/lanes.hpp"
#include "workload/paged.hpp"

namespace isthmus::microbench::paged {
namespace {

using namespace workload;

/// Words in memory of the host or of a peer GPU, whose values are their numbers plus an offset; the pager that pages
/// them; and, on the device, a sum and the number of the next page.
class PagedWords {
 public:
  PagedWords(Case& c, const paging::Options& options, int peer = -1)
      : case_(c),
        bytes_(c.extent("bytes") / 16 * 16),
        block_(memory::Kind::mapped, bytes_, {.numa_node = c.numa_node()}),
        pager(options),
        sum_and_next_(memory::Kind::device, 2 * sizeof(Word)) {
    fill_with_words(c, block_);
    if (peer >= 0) {
      const device::Selected on(peer);
      at_peer_ = memory::Block(memory::Kind::device, bytes_);
      device::copy(at_peer_.data(), block_.data(), bytes_);
    }
    region = pager.open(at_peer_ ? at_peer_ : block_, "words");
  }

  std::uint64_t words() const { return bytes_ / sizeof(Word); }
  const memory::Block& block() const { return block_; }
  Word* sum() const { return reinterpret_cast<Word*>(sum_and_next_.data()); }
  Word* next() const { return sum() + 1; }
  Word found_sum() const {
    Word value = 0;
    device::copy(&value, sum(), sizeof value);
    return value;
  }
  void forget_sum(device::Stream& stream) { device::fill_async(sum(), 0, sizeof(Word), stream); }
  /// Returns the number of words that are not their original value plus `raised(page)`.
  template <class Raised>
  double wrong(Raised raised) const {
    if (at_peer_) device::copy(block_.data(), at_peer_.data(), bytes_);
    return static_cast<double>(wrong_words(case_, block_.data(), 0, words(), [&](std::size_t i) {
      return raised(i * sizeof(Word) / pager.page_bytes());
    }));
  }

 private:
  const Case& case_;
  std::size_t bytes_;
  memory::Block block_, at_peer_;

 public:
  paging::Pager pager;
  paging::Region region{};

 private:
  memory::Block sum_and_next_;
};

/// Returns the limit of the link over which pages arrive, or of both links.
Bound pages_bound(const device::DeviceInfo& info, paging::Transport transport, bool from_peer, int other) {
  if (from_peer) {
    std::string reason;
    const auto link = device::link(info.index, other, &reason);
    return link ? Bound{link->rate, link->text} : Bound{std::nullopt, reason};
  }
  Bound own = link_bound(info);
  if (transport != paging::Transport::relay && transport != paging::Transport::pull_and_relay) return own;
  Bound others = link_bound(device::info(other));
  if (transport == paging::Transport::relay || !others.value) return others;
  return own.value ? Bound{*own.value + *others.value, own.source + " and " + others.source} : own;
}

void run_random(Case& c) {
  const auto info = c.device();
  const std::size_t page = page_bytes_of(c), bytes = c.extent("bytes") / 16 * 16;
  if (bytes == 0) throw Skip("bytes must be at least 16", SkipKind::not_applicable);
  const std::size_t pages = (bytes + page - 1) / page;
  const auto share = [&](const char* axis) {
    return std::max<std::size_t>(pages * std::min<std::size_t>(c.extent(axis), 100) / 100, 1);
  };
  const std::size_t frames = share("frames"), touched = share("touched");
  const auto passes = static_cast<unsigned>(c.extent("passes"));
  const bool writes = c.choice("access") == "write";
  c.needs(bytes, (frames + 1) * page + pages * sizeof(paging::State));

  const device::Selected on(info.index);
  const auto transport = paging::value_named(paging::kTransportNames, c.choice(kTransportAxis));
  const bool from_peer = c.choice("backing") == "peer";
  const int other = (info.index + 1) % device::count();
  if (from_peer && other == info.index) throw Skip("there is no second GPU to provide the memory");
  PagedWords words(c,
                   {.page_bytes = page,
                    .frames = frames,
                    .eviction = paging::value_named(paging::kEvictionNames, c.choice(kEvictionAxis)),
                    .clean_ahead = static_cast<std::uint32_t>(c.integer("clean_ahead")),
                    .transport = transport,
                    .relay_device = other,
                    .queues = static_cast<std::size_t>(c.integer(kQueuesAxis)),
                    .depth = c.extent("depth"),
                    .pulls = static_cast<std::size_t>(c.integer("pulls"))},
                   from_peer ? other : -1);
  const Scattered order(pages);
  const Visit work{words.region, order, touched, writes ? paging::Access::write : paging::Access::read};
  // Half of the frames are left to warps that search for a frame, if pages have to be evicted.
  const auto shape = shape_for(work, info, frames < touched ? (frames + 1) / 2 : frames, touched, false);
  c.kernel(info_of(work, shape), shape);

  std::vector<bool> is_touched(pages);
  std::vector<std::uint32_t> wanted(touched * passes);
  Word expected = 0;
  double once = 0;
  for (std::uint64_t t = 0; t < touched; ++t) {
    const std::uint64_t number = order[t], begin = number * page, end = std::min(begin + page, bytes);
    is_touched[number] = true;
    expected += passes * sum_of_words(c, begin / sizeof(Word), end / sizeof(Word));
    once += static_cast<double>(end - begin);
    for (unsigned pass = 0; pass < passes; ++pass) wanted[pass * touched + t] = static_cast<std::uint32_t>(number);
  }
  const std::uint64_t optimal = paging::optimal_fetches(wanted, frames);
  const double moved = once + static_cast<double>((optimal - touched) * page);  // minimum in bytes

  Word launches = 0;
  std::vector<Lane> list(1);
  list[0].device = info.index;
  list[0].queue = [&](device::Stream& stream) {
    for (unsigned pass = 0; pass < passes; ++pass) queue(stream, words.pager, shape, work, words.sum(), words.next());
    if (writes) words.pager.flush(stream);
    launches += passes;
  };
  workload::Lanes lanes(c, std::move(list));
  device::Stream& stream = c.stream();
  paging::Statistics last;
  c.verify(
      "every page was fetched with all of its words and no more often than needed, and additions reached the host",
      [&] {
        const double wrong =
            words.wrong([&](std::size_t number) { return writes && is_touched[number] ? launches : 0; });
        const bool sum = writes || words.found_sum() == expected;
        const auto written = static_cast<double>(last.written_back_bytes);
        // At most `frames` pages are resident before a pass, in whatever order warps touch them.
        const std::uint64_t least = touched + (passes - 1) * (touched - std::min(touched, frames));
        const bool counts = last.faults >= least && last.faults <= wanted.size() &&
                            last.evictions == last.faults - std::min(touched, frames) &&
                            (writes ? written >= once && (passes > 1 || written == once) : written == 0);
        return wrong + (sum ? 0 : 1) + (counts ? 0 : 1) + static_cast<double>(words.pager.references(stream));
      },
      0);

  c.sampling().sample(
      time_and_rate(lanes.timer(), moved, from_peer ? "" : "h2d", pages_bound(info, transport, from_peer, other)),
      [&] {
        words.pager.clear(stream);
        words.forget_sum(stream);
        stream.synchronize();
      },
      [&] {
        const double seconds = read(c, lanes).all;
        words.pager.check(stream);
        last = words.pager.statistics(stream);
        return std::vector{seconds, static_cast<double>(last.fetched_bytes) / seconds};
      });
  c.report(count_metric("fetches"), static_cast<double>(last.faults));
  c.report(count_metric("optimal_fetches"), static_cast<double>(optimal));
  c.report(count_metric("evictions"), static_cast<double>(last.evictions));
  c.report(count_metric("written_back", "B"), static_cast<double>(last.written_back_bytes));
  c.report(count_metric("served", "B"), static_cast<double>(last.served_bytes));
  c.report(count_metric("waits"), static_cast<double>(last.waits));
  c.report(count_metric("table_bytes", "B"), static_cast<double>(words.pager.table_bytes()));
}

void run_sweep(Case& c) {
  const auto info = c.device();
  const std::size_t page = page_bytes_of(c), bytes = c.extent("bytes") / 16 * 16;
  if (bytes == 0) throw Skip("bytes must be at least 16", SkipKind::not_applicable);
  const std::size_t pages = (bytes + page - 1) / page;
  const auto through = paging::value_named(kThroughNames, c.choice("through"));
  const bool plain = through == Through::pointer;
  c.needs(bytes, (pages + 1) * page + pages * sizeof(paging::State) + (plain ? bytes : 0));

  const device::Selected on(info.index);
  PagedWords words(c, {.page_bytes = page, .frames = pages});
  const memory::Block copy = plain ? memory::Block(memory::Kind::device, bytes) : memory::Block();
  if (plain) device::copy(copy.data(), words.block().data(), bytes);
  if (!plain) words.pager.read_only(words.region);
  const Sweep work{words.region, copy.data(), through};
  const auto shape =
      shape_for(work, info, pages, pages, through == Through::element || through == Through::read_only_element);
  c.kernel(info_of(work, shape), shape);

  std::vector<Lane> list(1);
  list[0].device = info.index;
  list[0].queue = [&](device::Stream& stream) { queue(stream, words.pager, shape, work, words.sum()); };
  workload::Lanes lanes(c, std::move(list));
  device::Stream& stream = c.stream();
  if (!plain) words.pager.prefetch(stream, words.region, 0, bytes);
  words.pager.check(stream);
  c.verify(
      "the sum of all words, each transferred once",
      [&] {
        const bool sum = words.found_sum() == sum_of_words(c, 0, words.words());
        const bool counts = words.pager.statistics(stream).faults == (plain ? 0 : pages);
        return (sum ? 0.0 : 1.0) + (counts ? 0 : 1) + static_cast<double>(words.pager.references(stream));
      },
      0);

  const auto needed = static_cast<double>(bytes);
  c.sampling().sample(
      time_and_rate(
          lanes.timer(), needed, "",
          {info.memory_bandwidth, "peak device memory bandwidth", "the device does not report its bandwidth"}),
      [&] {
        words.forget_sum(stream);
        stream.synchronize();
      },
      [&] {
        const double seconds = read(c, lanes).all;
        words.pager.check(stream);
        return std::vector{seconds, needed / seconds};
      });
}

Workload described(const char* name, void (*run)(Case&), const char* summary) {
  return paging_workload(name, run, summary)
      .source("gpuvm-2024, section 3.3 and Figure 8")
      .estimate([](const CaseSpec& spec) { return 1e-3 + static_cast<double>(spec.integer("bytes")) / 20e9; });
}

std::vector<Registration> register_all() {
  std::vector<Registration> list;
  list.emplace_back(
      described("paging/random", run_random, "pages that kernels fetch from the host in random order, once per pass")
          .reported({"fetches", "optimal_fetches", "evictions", "written_back", "served", "waits", "table_bytes"})
          .axis(number_axis("frames", "frames, in percent of the pages", 25))
          .axis(number_axis("touched", "pages that are touched, in percent of all", 100))
          .axis(number_axis("passes", "number of times that they are touched, always in the same order", 1))
          .axis(choice_axis("access", "how a page is accessed; write: written back within the measured time",
                            {"read", "write"}))
          .axis(eviction_axis())
          .axis(transport_axis())
          .axis(queues_axis())
          .axis(number_axis("depth", "pages in flight per queue", 16))
          .axis(number_axis("pulls", "pages that warps fetch themselves in addition to a relay; 0: 256", 0, 0))
          .axis(choice_axis("backing", "whose memory is paged: the host's, or a second GPU's", {"host", "peer"}))
          .axis(number_axis("clean_ahead",
                            "frames ahead of the clock hand in which dirty pages are written back; 0: none", 0, 0)));
  list.emplace_back(
      described("paging/sweep", run_sweep, "a sweep over resident paged memory, compared with a plain pointer")
          .axis(named_axis("through", "how the kernel reaches an element", kThroughNames).with_default_sweep_of_all()));
  return list;
}

const std::vector<Registration> registrations = register_all();

}  // namespace
}  // namespace isthmus::microbench::paged
