// driver/prefetch_call: cost of prefetching managed pages that are already at their destination, so that nothing moves.

#include <algorithm>

#include "memory/block.hpp"
#include "memory/numa_nodes.hpp"
#include "microbench/driver/calls.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace workload;

constexpr std::int64_t kKi = 1024, kMi = kKi * kKi;
constexpr std::uint8_t kPattern = 0x5a;

void run(Case& c) {
  const std::size_t bytes = c.extent("bytes");
  if (!c.device().concurrent_managed) throw Skip("this device does not support prefetches of managed memory");
  c.needs(2 * bytes, bytes);
  const auto place =
      c.choice("to") == "device" ? device::Location::gpu(c.device().index) : device::Location::host(c.numa_node());

  const memory::ScopedThreadNode on_node(c.numa_node());
  device::Stream& stream = c.stream();
  const memory::Block pages(memory::Kind::managed, bytes);
  std::fill_n(pages.data(), bytes, std::byte{kPattern});
  const auto prefetch = [&] { device::prefetch(pages.data(), bytes, place, stream); };
  const auto wait = [&] { stream.synchronize(); };
  const auto bring = [&] {  // also called after the check, which may have moved the pages
    prefetch();
    wait();
  };
  c.verify(
      "the pages contain what was written",
      [&] {
        std::vector<std::uint8_t> found(bytes);
        device::copy(found.data(), pages.data(), bytes);
        return static_cast<double>(bytes - static_cast<std::size_t>(std::ranges::count(found, kPattern)));
      },
      0);
  bring();
  sample_call(c, "submit", prefetch, wait);
  bring();
  sample_call(c, "to_end", bring);
}

const Registration registration =
    workload("prefetch_call", run, "prefetches of managed pages that are already there", {"submit", "to_end"}, 1e-3)
        .axis(choice_axis("to", "where the pages already are, and where they are prefetched to", {"device", "host"})
                  .with_default_sweep_of_all())
        .axis(bytes_axis("bytes", "bytes of one prefetch", kMi).with_default_sweep({64 * kKi, kMi, 64 * kMi}))
        .size("tiny", {{"to", "device"}, {"bytes", 64 * kKi}})
        .size("small", {});

}  // namespace
}  // namespace isthmus::microbench::driver
