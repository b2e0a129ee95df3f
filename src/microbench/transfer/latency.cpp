// transfer/*: latency, separate from bandwidth. Accesses of a dependent chain cannot overlap, so one access, or one
// page fault, takes the time of the whole chain divided by its hops.

#include "device/api/peer_access.hpp"
#include "memory/numa_nodes.hpp"
#include "memory/pages.hpp"
#include "microbench/axes.hpp"
#include "microbench/chain.hpp"
#include "microbench/require.hpp"
#include "microbench/transfer/ends.hpp"
#include "microbench/transfer/family.hpp"
#include "microbench/transfer/kernels.hpp"
#include "microbench/transfer/shared_pages.hpp"
#include "workload/lanes.hpp"

namespace isthmus::microbench::transfer {

namespace {

using namespace workload;

constexpr std::size_t kWord = sizeof(std::uint64_t);

Lane kernel_lane(int gpu, std::function<void(device::Stream&)> queue) {
  Lane lane;
  lane.device = gpu;
  lane.queue = std::move(queue);
  return lane;
}

/// Returns the options of a transfer's host memory, which is on the node that the axis selects, else on the session's.
memory::BlockOptions host_options(const Case& c, const Path& path) {
  if (path.from.on_gpu() && path.to.on_gpu()) return {};
  const auto node = static_cast<int>(c.integer("node"));
  require_node(node);
  return {.numa_node = node >= 0 ? node : c.numa_node()};
}

// Measures how the GPU at the far end follows a chain through memory at the near end.
void chase(Case& c, const Path& path) {
  require_ends(path);
  const std::size_t bytes = c.extent("bytes"), line = c.extent("line"), hops = c.extent("hops");
  if (line % kWord != 0 || bytes % line != 0 || bytes / line < 2)
    throw Skip("a chain needs at least two whole lines, each a multiple of 8 bytes", SkipKind::not_applicable);
  const memory::BlockOptions host = host_options(c, path);
  c.needs(path.from.on_gpu() ? 0 : bytes, path.from.on_gpu() ? bytes : 0);
  const int reader = path.to.index;
  const auto all_sms = static_cast<unsigned>(device::info(reader).multiprocessors);
  const auto sms = c.integer("sms") > 0 ? std::min(static_cast<unsigned>(c.integer("sms")), all_sms) : all_sms;
  const device::PeerAccess peer(path.from.on_gpu() ? path.from.index : reader, reader);

  const Chain chain(bytes / line, c.seed());
  std::vector<std::uint64_t> image(bytes / kWord);
  chain.write(image.data(), line / kWord);
  const Block memory(path.from, bytes, host);
  const Block end(gpu(reader), kWord, {});
  device::copy(memory.data(), image.data(), bytes);
  for (auto& sentence : memory.disagreements("the memory")) c.warn("placement_disagrees", std::move(sentence));

  Lanes timed(c, {kernel_lane(reader, [&](device::Stream& stream) {
                queue_chase(stream, reinterpret_cast<const std::uint64_t*>(memory.device_data()), line / kWord, hops,
                            sms, reinterpret_cast<std::uint64_t*>(end.data()));
              })});
  c.verify(
      "the chain ends where the host computes",
      [&] {
        std::uint64_t found = 0;
        device::copy(&found, end.data(), kWord);
        return found == chain.end(hops) ? 0.0 : 1.0;
      },
      0);
  c.sampling().sample(time_metric("latency", timed.timer(), kLatencyUnbounded), [&] {
    memory.flush();
    const auto taken = read(c, timed);
    c.sampling().batch(static_cast<int>(hops));
    return taken.all / static_cast<double>(hops);
  });
}

// Measures how one thread follows a chain through pages that are elsewhere, each further from the previous one than a
// driver prefetches.
void fault_latency(Case& c, const Path& path) {
  require_ends(path);
  const std::size_t pages = c.extent("faults"), apart = c.extent("apart");
  if (pages < 2 || apart % memory::page_bytes() != 0)
    throw Skip("page faults need at least two pages at a distance that is a multiple of the page size",
               SkipKind::not_applicable);
  const memory::BlockOptions host = host_options(c, path);
  const std::size_t bytes = memory::byte_count(pages, apart);
  c.needs(bytes, bytes);
  const bool by_gpu = path.to.on_gpu();
  const int mover = by_gpu ? path.to.index : path.from.index;
  const device::Selected on(mover);
  const memory::ScopedThreadNode on_node(host.numa_node);

  SharedPages shared(path.from, path.to, bytes, host);
  for (auto& sentence : shared.disagreements()) c.warn("placement_disagrees", std::move(sentence));
  auto* words = reinterpret_cast<std::uint64_t*>(shared.data());
  const Chain chain(pages, c.seed());
  chain.write(words, apart / kWord);
  const Block end(gpu(mover), kWord, {});
  std::uint64_t found = 0;

  device::Stream stream;
  Lane lane = kernel_lane(mover, [&](device::Stream& queue) {
    if (by_gpu) {
      queue_chase(queue, words, apart / kWord, pages, 1, reinterpret_cast<std::uint64_t*>(end.data()));
      return;
    }
    found = 0;
    for (std::size_t hop = 0; hop < pages; ++hop)
      found = static_cast<const volatile std::uint64_t*>(words)[found * (apart / kWord)];
  });
  lane.blocking = !by_gpu;
  Lanes timed(c, {std::move(lane)});
  c.verify(
      "the chain comes back to its start",
      [&] {
        if (by_gpu) device::copy(&found, end.data(), kWord);
        return found == chain.end(pages) ? 0.0 : 1.0;
      },
      0);
  c.sampling().sample(time_metric("latency", timed.timer(), kLatencyUnbounded), [&] {
    shared.send_to(path.from, stream);
    const auto taken = read(c, timed);
    c.sampling().batch(static_cast<int>(pages));
    return taken.all / static_cast<double>(pages);
  });
}

// Times, by three methods, a copy so small that its submission takes longer than the copy.
void small_copy(Case& c, const Path& path) {
  require_ends(path);
  const std::size_t bytes = c.extent("bytes");
  const memory::BlockOptions host = host_options(c, path);
  c.needs(2 * bytes, 2 * bytes);
  const int issuer = path.from.on_gpu() ? path.from.index : path.to.index;
  const device::PeerAccess peer(issuer, path.to.on_gpu() ? path.to.index : issuer);
  const device::Selected on(issuer);
  const Pattern pattern{c.seed(), 0};
  Block from(path.from, bytes, host), to(path.to, bytes, host);
  from.fill(pattern);
  to.poison();
  const auto copy = [&](device::Stream& stream) { device::copy_async(to.data(), from.data(), bytes, stream); };
  const auto flush = [&] {
    from.flush();
    to.flush();
  };
  c.verify("every byte arrived", [&] { return static_cast<double>(to.wrong(pattern)); }, 0);

  for (const bool latched : {true, false}) {
    if (latched && !c.sampling().latch()) continue;
    Lane lane = kernel_lane(issuer, copy);
    if (!path.from.on_gpu()) lane.next = device::SpinLatch::Next::copy_in;
    if (!path.to.on_gpu()) lane.next = device::SpinLatch::Next::copy_out;
    Lanes timed({std::move(lane)}, latched, c.sampling().latch_timeout());
    const int times = c.emulated() || !latched ? 1 : c.sampling().largest_batch();
    c.sampling().sample(time_metric(latched ? "latency" : "latency_with_submission", timed.timer(), kLatencyUnbounded),
                        [&] {
                          flush();
                          return read(c, timed, times).all;
                        });
  }
  device::Stream stream;
  const int times = c.emulated() ? 1 : 8;  // each takes several microseconds; the clock's resolution is 0.1 us
  c.sampling().sample(time_metric("latency_to_host", "clock", kLatencyUnbounded), [&] {
    flush();
    c.sampling().batch(times);
    const double begin = now();
    for (int i = 0; i < times; ++i) {
      copy(stream);
      stream.synchronize();
    }
    return (now() - begin) / times;
  });
}

Workload workload(const Path& path, const Machine& machine) {
  const auto run = path.initiator == Initiator::chase           ? chase
                   : path.initiator == Initiator::fault_latency ? fault_latency
                                                                : small_copy;
  Workload w("transfer/" + path.name(), [run, path](Case& c) { run(c, path); });
  w.version(1).summary(path.summary()).stagings({}).tags({"transfer", "latency", std::string(name(path.initiator))});
  // Estimates are rounded up from measurements on machines with PCIe; they predict how long a run takes.
  w.devices(path.gpus(machine)).estimate([path](const CaseSpec& spec) {
    if (path.initiator == Initiator::chase) return 1.5e-6 * static_cast<double>(spec.integer("hops"));
    if (path.initiator == Initiator::fault_latency) return 50e-6 * static_cast<double>(spec.integer("faults"));
    return 1e-3;
  });
  switch (path.initiator) {
    case Initiator::chase:
      w.source("commscope-icpe2019, section 3.3; mi300a-upm-2025, section III").metrics({"latency"});
      w.axis(bytes_axis("bytes", "bytes that the chain visits", 2 * kMi, 16).with_size_sweep(powers(64 * kKi, 4 * kGi)))
          .axis(bytes_axis("line", "bytes between neighbouring places of the chain", 128, 8))
          .axis(number_axis("hops", "dependent accesses in a sample", 100'000, 1))
          .axis(number_axis("sms", "multiprocessors that make the accesses in turn; 0: all", 0, 0))
          .size("tiny", {{"bytes", 64 * kKi}, {"hops", 10'000}})
          .size("small", {{"bytes", 2 * kMi}, {"hops", 100'000}});
      break;
    case Initiator::fault_latency:
      w.source("commscope-icpe2019, section 3.4.3")
          .metrics({"latency"})
          .axis(number_axis("faults", "pages touched one after another", 64, 2))
          .axis(bytes_axis("apart", "bytes between two such pages", 2 * kMi, 4 * kKi))
          .size("tiny", {{"faults", 8}})
          .size("small", {{"faults", 64}});
      break;
    default:
      w.source("commscope-icpe2019, section 2.2; isthmus")
          .metrics({"latency", "latency_with_submission", "latency_to_host"})
          .axis(bytes_axis("bytes", "bytes of one copy", 4, 1))
          .size("tiny", {{"bytes", 4}})
          .size("small", {{"bytes", 4}});
  }
  if (!path.from.on_gpu() || !path.to.on_gpu()) w.axis(node_axis(machine));
  return w;
}

}  // namespace

std::vector<Workload> latency_workloads(const Machine& machine) {
  std::vector<Workload> list;
  for (const auto& path : latency_paths(machine)) list.push_back(workload(path, machine));
  return list;
}

}  // namespace isthmus::microbench::transfer
