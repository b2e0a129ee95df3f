// driver/launch: cost of launching an empty kernel, for several sizes of its arguments.

#include "microbench/driver/calls.hpp"
#include "microbench/empty_kernel.hpp"

namespace isthmus::microbench::driver {
namespace {

using namespace workload;

/// Argument sizes for which kernels are compiled.
using Sizes = std::index_sequence<8, 64, 256, 1024, 2048, 4096>;

template <std::size_t... Bytes>
std::vector<AxisValue> values(std::index_sequence<Bytes...>) {
  return {static_cast<std::int64_t>(Bytes)...};
}

template <std::size_t Bytes>
void measure(Case& c) {
  device::LaunchShape shape{.grid = 1, .block = kEmptyThreads};
  auto info = device::kernel_info(device::Kernel{"empty", empty<Bytes>}, shape);
  if (c.choice("grid") == "full") {
    const int resident = c.device().multiprocessors * info.blocks_per_multiprocessor.value_or(1);
    shape.grid = static_cast<unsigned>(std::max(1, resident));
  }
  c.kernel(std::move(info), shape);

  const Argument<Bytes> argument{};
  device::Stream& stream = c.stream();
  sample_call(c, "submit", [&] { launch_empty(stream, shape, argument); }, [&] { stream.synchronize(); });
  sample_call(c, "to_end", [&] {
    launch_empty(stream, shape, argument);
    stream.synchronize();
  });
  sample_on_device(c, "device", [&](device::Stream& queue) { launch_empty(queue, shape, argument); });
}

template <std::size_t... Bytes>
void measure_one_of(Case& c, std::index_sequence<Bytes...>) {
  const std::size_t wanted = c.extent("argument_bytes");
  ((Bytes == wanted ? measure<Bytes>(c) : void()), ...);
}

void run(Case& c) {
  c.needs(0, 0);
  measure_one_of(c, Sizes{});
}

const Registration registration = [] {
  constexpr std::int64_t least = 8, some = 256, many = 1024, most = 4096;
  return workload("launch", run, "launches of an empty kernel, by bytes of its arguments",
                  {"submit", "to_end", "device"}, 1e-3)
      .unverified("a kernel that does nothing leaves nothing to check")
      .axis({.name = "argument_bytes",
             .help = "bytes of the kernel's arguments",
             .default_value = least,
             .choices = values(Sizes{}),
             .bytes = true,
             .default_sweep = {least, some, many, most}})
      .axis(choice_axis("grid", "blocks of 256 threads: one, or as many as fit on the device at once", {"one", "full"})
                .with_default_sweep_of_all())
      .size("tiny", {{"argument_bytes", least}, {"grid", "one"}})
      .size("small", {});
}();

}  // namespace

}  // namespace isthmus::microbench::driver
