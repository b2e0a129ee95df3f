// faults/regular, faults/random, faults/strided: threads of a GPU touch pages that are in host memory.

#include <fmt/format.h>

#include <utility>

#include "memory/parallel.hpp"
#include "microbench/axes.hpp"
#include "microbench/fault_patterns/shared_region.hpp"
#include "microbench/require.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::fault_patterns {

namespace {

using namespace workload;

constexpr std::size_t kPagesOfBlock = kBlock / kPage;
constexpr std::size_t kMostSharers = 256;

enum class Pattern { regular, random, strided };

/// Returns the pages in the order in which the threads touch them.
std::vector<std::uint32_t> order_of(const Case& c, Pattern pattern, std::size_t pages) {
  std::vector<std::uint32_t> order;
  if (pattern == Pattern::strided) {
    for (std::size_t page = 0; page < pages; page += c.extent("stride"))
      order.push_back(static_cast<std::uint32_t>(page));
    return order;
  }
  const std::size_t of_block = c.extent("touched");
  for (std::size_t page = 0; page < pages; ++page) {
    if (page % kPagesOfBlock < of_block) order.push_back(static_cast<std::uint32_t>(page));
  }
  if (pattern == Pattern::random) shuffle(order, c.seed());
  return order;
}

Access access_of(const Case& c) {
  const auto choice = c.choice("access");
  return choice == "read" ? Access::read : choice == "write" ? Access::write : Access::atomic;
}

/// Throws Skip if the settings of the case make no sense together.
void require_sense(const Case& c) {
  const bool managed = kind_of(c) == Kind::managed;
  require_kind(kind_of(c), Reader::gpu, c.device());
  if (managed && pages_of(c) == memory::Pages::huge)
    throw Skip("the runtime chooses the pages of managed memory", SkipKind::not_applicable);
  if (!managed && c.choice(kDriverPrefetch) != kDriverPrefetchDefault)
    throw Skip("driver_prefetch is for managed memory, but this memory is pageable", SkipKind::not_applicable);
  if (!managed && c.choice("host_pages") == "unmapped")
    throw Skip("pageable memory stays mapped on the host while it exists", SkipKind::not_applicable);
  require_whole_blocks(c.extent("bytes"));
  if (c.extent("threads_per_page") > kMostSharers)
    throw Skip(fmt::format("a page has words for at most {} threads", kMostSharers), SkipKind::not_applicable);
}

class Touching {
 public:
  Touching(Case& c, Pattern pattern)
      : case_(c),
        access_(access_of(c)),
        second_visit_(c.choice("visit") == "second"),
        unmapped_(c.choice("host_pages") == "unmapped"),
        sharers_(static_cast<unsigned>(c.extent("threads_per_page"))),
        order_(order_of(c, pattern, c.extent("bytes") / kPage)),
        on_device_(order_, c.device()),
        region_(
            kind_of(c), pages_of(c), c.extent("bytes"), sharers_, c.seed(),
            c.integer("host_threads") > 0 ? static_cast<unsigned>(c.integer("host_threads")) : memory::host_threads(),
            c.numa_node()),
        prefetch_(c.choice(kDriverPrefetch)) {
    Lane lane;
    lane.device = c.device().index;
    lane.queue = [this](device::Stream& stream) { queue(stream); };
    lanes_.emplace(c, std::vector{std::move(lane)});
  }
  ~Touching() { prefetch_.release(); }
  Touching(const Touching&) = delete;
  Touching& operator=(const Touching&) = delete;

  void sample() {
    fault_patterns::sample(case_, account_, prefetch_,
                           {.timer = lanes_->timer(),
                            .touches = order_.size(),
                            .prepare = [this] { prepare(); },
                            .check = [this] { check(); },
                            .seconds = [this] { return touch(); }});
  }

 private:
  /// Allocates new pages, lets the host write them, and brings them into the state that the axes select.
  void prepare() {
    check();
    prefetch_.release();
    region_.renew();
    region_.write_by_host();
    if (second_visit_) {
      queue(case_.stream());
      case_.stream().synchronize();
      region_.write_by_host();
    }
    if (unmapped_) unmap();
    on_device_.poison();
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
    account_.check(region_, access_, order_, on_device_.sum());
  }

  void queue(device::Stream& stream) {
    queue_touches(stream, access_,
                  {reinterpret_cast<std::uint64_t*>(region_.data()), on_device_.order(), order_.size(), sharers_,
                   on_device_.sums()},
                  case_.device());
  }

  /// Prefetches the pages to the GPU and back. The pages are then on the host, but not in its page table.
  void unmap() {
    auto& stream = case_.stream();
    device::prefetch(region_.data(), region_.bytes(), device::Location::gpu(case_.device().index), stream);
    device::prefetch(region_.data(), region_.bytes(), device::Location::host(case_.numa_node()), stream);
    stream.synchronize();
    if (const auto mapped = region_.mapped_on_host(); mapped && *mapped > 0)
      throw Skip(
          fmt::format("the driver mapped {} of {} pages when it moved them back to the host, so none stays unmapped",
                      *mapped, region_.pages()));
  }

  Case& case_;
  Access access_;
  bool second_visit_, unmapped_;
  unsigned sharers_;
  std::vector<std::uint32_t> order_;
  OnDevice on_device_;
  SharedRegion region_;
  DriverPrefetch prefetch_;
  std::optional<Lanes> lanes_;
  Account account_;
  bool touched_ = false;
};

void run(Case& c, Pattern pattern) {
  require_sense(c);
  const std::size_t bytes = c.extent("bytes"), pages = bytes / kPage;
  require_driver_prefetch(c.choice(kDriverPrefetch), bytes);
  require_managed(c, bytes, OnDevice::bytes(pages, c.device()));
  c.sampling().limit(10, 1);
  Touching(c, pattern).sample();
}

Workload workload(const char* name, Pattern pattern, const char* summary) {
  Workload w(std::string("faults/") + name, [pattern](Case& c) { run(c, pattern); });
  w.version(1)
      .summary(summary)
      .source("uvm-batches-taco2024, section 5 and Table 3")
      .tags({"faults", name})
      .stagings({})
      .metrics({"time", "page_time"})
      .reported({kDriverPrefetchSetup})
      .oversubscribes("bytes")
      .estimate([](const CaseSpec& spec) { return 20e-6 * static_cast<double>(spec.integer("bytes")) / kPage; });
  w.axis(
      bytes_axis("bytes", "managed bytes, a multiple of 2 MiB", 64 * kMi).with_size_sweep(powers(2 * kMi, 32 * kGi)));
  if (pattern == Pattern::strided)
    w.axis(number_axis("stride", "pages from one touched page to the next", 16));
  else
    w.axis(number_axis("touched", "pages touched in each block of 512, from its first", 512)
               .with_all_values(powers(1, 512)));
  w.axis(choice_axis("access", "what a thread does", {"read", "write", "atomic"}))
      .axis(number_axis("threads_per_page", "threads that touch a page, each its own word", 1)
                .with_all_values(powers(1, kMostSharers)))
      .axis(number_axis("host_threads", "host threads that write the pages first; 0: all", 1, 0))
      .axis(choice_axis("host_pages", "whether the host's page table maps the pages", {"mapped", "unmapped"}))
      .axis(choice_axis("visit", "the GPU's first or second visit of each block", {"first", "second"}))
      .axis(choice_axis("memory", "managed, or pageable (HMM, ATS, XNACK)", {"managed", "pageable"}))
      .axis(choice_axis("pages", "size of pageable pages", {"small", "huge"}))
      .axis(driver_prefetch_axis());
  const std::pair<const char*, std::int64_t> sizes[] = {{"tiny", 2 * kMi},  {"small", 64 * kMi}, {"medium", kGi},
                                                        {"large", 8 * kGi}, {"super", 24 * kGi}, {"mega", 48 * kGi}};
  for (const auto& [size, value] : sizes) w.size(size, {{"bytes", value}});
  if (pattern != Pattern::strided)
    w.preset({.name = "paper-table3",
              .help = "Table 3: the driver's prefetcher is off",
              .settings = {{"bytes", kGi}, {std::string(kDriverPrefetch), "off"}}});
  return w;
}

const Registration regular(workload("regular", Pattern::regular,
                                    "a GPU's threads touch the host's pages in their order"));
const Registration at_random(workload("random", Pattern::random,
                                      "a GPU's threads touch the host's pages in random order"));
const Registration strided(workload("strided", Pattern::strided,
                                    "a GPU's threads touch some of the host's pages, at a stride"));

}  // namespace
}  // namespace isthmus::microbench::fault_patterns
