// The sum of two vectors: as little arithmetic as a transfer can have.

#include <algorithm>

#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned threads = 256;
constexpr unsigned in_flight = 4;                       // vectors of 16 bytes of each input, a thread
constexpr std::size_t piece = threads * in_flight * 4;  // elements of a block
constexpr std::size_t unit = std::size_t{1} << 16;      // elements in one unit of `streamed`, whole pieces

// for (i = 0; i < n; ++i) sum[i] = a[i] + b[i];
__global__ void __launch_bounds__(threads)
    va(std::size_t n, const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ sum) {
  const std::size_t first = std::size_t{blockIdx.x} * piece;
  if (first + piece <= n) {
    const float4 *as = reinterpret_cast<const float4*>(a + first) + threadIdx.x,
                 *bs = reinterpret_cast<const float4*>(b + first) + threadIdx.x;
    float4* sums = reinterpret_cast<float4*>(sum + first) + threadIdx.x;
    float4 x[in_flight], y[in_flight];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) x[j] = as[j * threads], y[j] = bs[j * threads];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j)
      sums[j * threads] = make_float4(x[j].x + y[j].x, x[j].y + y[j].y, x[j].z + y[j].z, x[j].w + y[j].w);
  } else {
    for (std::size_t i = first + threadIdx.x; i < n; i += threads) sum[i] = a[i] + b[i];
  }
}

void run(Case& c) {
  const std::size_t n = c.extent("n");
  if (n > piece * 0x7fffffffULL)
    throw Skip("a grid has at most 2^31 - 1 blocks: take n below 2^43", SkipKind::not_applicable);
  const Uniform a_values = uniform(c.seed(), 0, -1, 1), b_values = uniform(c.seed(), 1, -1, 1);
  const memory::Split split{.unit_bytes = unit * sizeof(float), .halo = 0};
  auto a = c.input<float>("a", n, a_values, split);
  auto b = c.input<float>("b", n, b_values, split);
  auto sum = c.output<float>("sum", n, split);
  c.chunks((n + unit - 1) / unit);

  c.verify(sum, [=](std::size_t i) { return a_values(i) + b_values(i); }, {});  // rounded once, here as there
  c.verify_same(sum);

  c.measure(Control::queued, [=](Run& run) {
    const std::size_t first = run.chunk().first * unit, count = std::min(run.chunk().count * unit, n - first);
    const double elements = static_cast<double>(count);
    run.launch(ISTHMUS_KERNEL(va), {.grid = static_cast<unsigned>((count + piece - 1) / piece), .block = threads},
               {.bytes_read = 8 * elements, .bytes_written = 4 * elements, .flops = elements}, count,
               a.device() + first, b.device() + first, sum.device() + first);
  });
}

const Registration registration = Workload("apps/va", run)
                                      .version(1)
                                      .summary("sum of two vectors")
                                      .source("gpuvm-2024, transfer-bound set (VA)")
                                      .tags({"app"})
                                      .placements(memory::all_placements())
                                      .stagings({Staging::none})
                                      .axis(number_axis("n", "elements of each vector", 1 << 24))
                                      .sizes({"n"}, {1 << 18, 1 << 21, 1 << 24, 1 << 27, 1 << 28, 1 << 30});

}  // namespace
}  // namespace isthmus::apps
