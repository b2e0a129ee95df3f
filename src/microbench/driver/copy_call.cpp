// driver/copy_call: host time to submit one asynchronous copy, which runs later and is not waited for.

#include <algorithm>

#include "memory/block.hpp"
#include "memory/numa_nodes.hpp"
#include "microbench/driver/calls.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace workload;

constexpr std::int64_t kKi = 1024, kMi = kKi * kKi;

void run(Case& c) {
  const auto direction = c.choice("direction");
  const std::size_t bytes = c.extent("bytes");
  const auto memory_of = [](char end) { return end == 'h' ? memory::Kind::pinned : memory::Kind::device; };
  const std::size_t ends_on_host = static_cast<std::size_t>(std::ranges::count(direction, 'h'));
  c.needs((ends_on_host + 2) * bytes, (2 - ends_on_host) * bytes);

  const memory::ScopedThreadNode on_node(c.numa_node());
  device::Stream& stream = c.stream();
  const memory::Block from(memory_of(direction.front()), bytes), to(memory_of(direction.back()), bytes);
  const auto value = uniform(c.seed(), 0, 0, 256);
  std::vector<std::uint8_t> sent(bytes), found(bytes, 0xff);
  for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::uint8_t>(value(i));
  device::copy(from.data(), sent.data(), bytes);
  device::copy(to.data(), found.data(), bytes);
  c.verify(
      "every byte arrived",
      [&] {
        device::copy(found.data(), to.data(), bytes);
        return found == sent ? 0.0 : 1.0;
      },
      0);
  sample_call(
      c, "submit", [&] { device::copy_async(to.data(), from.data(), bytes, stream); }, [&] { stream.synchronize(); });
}

const Registration registration =
    workload("copy_call", run, "submitting one asynchronous copy of page-locked or device memory", {"submit"}, 1e-3)
        .axis(choice_axis("direction", "direction: from host or device, to host or device", {"h2d", "d2h", "d2d"})
                  .with_default_sweep_of_all())
        .axis(bytes_axis("bytes", "bytes of one copy", 64 * kKi).with_default_sweep({4, 64 * kKi, kMi}))
        .size("tiny", {{"direction", "h2d"}, {"bytes", 4}})
        .size("small", {});

}  // namespace
}  // namespace isthmus::microbench::driver
