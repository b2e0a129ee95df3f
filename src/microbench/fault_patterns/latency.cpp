// faults/latency: time until a GPU has read `bytes` of host memory, page by page, by page faults or from a copy that
// the program requests. The time runs from the host's call until a program that waits for the result can continue.

#include <utility>

#include "microbench/axes.hpp"
#include "microbench/fault_patterns/shared_region.hpp"

namespace isthmus::microbench::fault_patterns {

namespace {

using namespace workload;

void run(Case& c) {
  const auto kind = kind_of(c);
  const bool managed = kind == memory::Kind::managed;
  const std::size_t bytes = c.extent("bytes");
  if (bytes % kPage != 0) throw Skip("bytes is not a multiple of 4 KiB", SkipKind::not_applicable);
  const auto prefetch_value = c.choice(kDriverPrefetch);
  if (!managed && prefetch_value != kDriverPrefetchDefault)
    throw Skip("driver_prefetch is for managed memory, but this memory is copied", SkipKind::not_applicable);
  require_driver_prefetch(prefetch_value, bytes);
  const auto& device = c.device();
  const std::size_t extra = OnDevice::bytes(bytes / kPage, device);
  if (managed)
    require_managed(c, bytes, extra);
  else
    c.needs(bytes, bytes + extra);

  const auto order = every_page(c);
  OnDevice on_device(order, device);
  SharedRegion region(kind, memory::Pages::small, bytes, 1, c.seed(), 1, c.numa_node());
  DriverPrefetch prefetch(prefetch_value);
  memory::Block copied;
  if (!managed) copied = memory::Block(memory::Kind::device, bytes);
  Account account;
  bool touched = false;
  const auto check = [&] {
    prefetch.release();
    if (std::exchange(touched, false)) account.check(region, Access::read, order, on_device.sum());
  };
  device::load_kernels();  // otherwise the first launch would load them
  const auto prepare = [&] {
    check();
    region.renew();
    region.write_by_host();
    on_device.poison();
    prefetch.set(region.data(), bytes);
  };
  auto& stream = c.stream();
  stream.synchronize();
  const auto read_all = [&] {
    const double begin = now();
    auto* words = reinterpret_cast<std::uint64_t*>(region.data());
    if (!managed) {
      words = reinterpret_cast<std::uint64_t*>(copied.data());
      device::copy_async(words, region.data(), bytes, stream);
    }
    queue_touches(stream, Access::read, {words, on_device.order(), order.size(), 1, on_device.sums()}, device);
    stream.synchronize();
    const double seconds = now() - begin;
    touched = true;
    return seconds;
  };
  sample(c, account, prefetch,
         {.timer = "clock", .touches = order.size(), .prepare = prepare, .check = check, .seconds = read_all});
}

Workload workload() {
  Workload w("faults/latency", run);
  w.version(1)
      .summary("time until a GPU has read pages of the host: by page faults, or by an explicit copy")
      .source("uvm-batches-taco2024, Figure 1")
      .tags({"faults", "latency"})
      .stagings({})
      .metrics({"time", "page_time"})
      .reported({kDriverPrefetchSetup})
      .estimate([](const CaseSpec& spec) { return 50e-6 + 10e-6 * static_cast<double>(spec.integer("bytes")) / kPage; })
      .axis(bytes_axis("bytes", "bytes to read, one word per page", 64 * kKi)
                .with_default_sweep({4 * kKi, 64 * kKi, 2 * kMi})
                .with_size_sweep(powers(4 * kKi, kGi)))
      .axis(choice_axis("memory",
                        "kind of memory: managed, or copied by the program from page-locked or pageable memory",
                        {"managed", "pinned", "pageable"})
                .with_default_sweep_of_all())
      .axis(order_axis())
      .axis(driver_prefetch_axis())
      .size("tiny", {{"bytes", 64 * kKi}, {"memory", "managed"}})
      .size("small", {{"bytes", 2 * kMi}})
      .preset({.name = "paper-fig1",
               .help = "Figure 1: managed memory against explicit copies, 4 KiB to 1 GiB",
               .sweep_axis = "bytes",
               .sweep = powers(4 * kKi, kGi)});
  return w;
}

const Registration registration(workload());

}  // namespace
}  // namespace isthmus::microbench::fault_patterns
